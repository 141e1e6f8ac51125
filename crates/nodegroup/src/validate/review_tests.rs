use super::*;
use axum::body::Body;
use http_body_util::BodyExt;
use tower::ServiceExt;

fn group(min: i32, max: i32) -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "metadata": {"name": "workers"},
        "spec": {"minNodes": min, "maxNodes": max, "datacenterID": "dc", "offeringIDs": ["small"], "osImageID": "ubuntu"},
    })
}

fn node(id: i64) -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode", "metadata": {"name": "n"},
        "spec": {"vpsieInstanceID": id, "instanceType": "small", "nodeGroupName": "workers", "datacenterID": "dc"},
    })
}

fn request(operation: &str, object: &Value, old: &Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": operation, "object": object, "oldObject": old},
    })
    .to_string()
}

async fn send(path: &str, kind: &str, body: String) -> (u16, Value) {
    let request = http::Request::post(path).header("content-type", kind).body(Body::from(body)).unwrap();
    let response = router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Whether it is allowed, and if not why.
async fn asked(path: &str, operation: &str, object: &Value, old: &Value) -> Option<String> {
    let (code, answer) = send(path, "application/json", request(operation, object, old)).await;
    assert_eq!(
        (code, &answer["kind"], &answer["response"]["uid"]),
        (200, &json!("AdmissionReview"), &json!("u-1"))
    );
    let message = answer["response"]["status"]["message"].as_str().map(str::to_owned);
    assert_eq!(answer["response"]["allowed"], json!(message.is_none()));
    message
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_all_that_is_wrong() {
    let path = "/validate/nodegroups";
    assert_eq!(asked(path, "CREATE", &group(1, 3), &Value::Null).await, None);
    let told = Some("spec.minNodes: MinNodes exceeds MaxNodes".to_owned());
    assert_eq!(asked(path, "CREATE", &group(4, 3), &Value::Null).await, told);
    assert_eq!(asked(path, "UPDATE", &group(4, 3), &group(1, 3)).await, told);
    assert_eq!(asked(path, "DELETE", &Value::Null, &group(4, 3)).await, None);
    let mut going = group(4, 3);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(asked(path, "UPDATE", &going, &group(4, 3)).await, None, "its finalizer can be taken off");
    let mut odd = group(1, 3);
    odd["spec"]["minNodes"] = json!("secret");
    let told = asked(path, "CREATE", &odd, &Value::Null).await.unwrap();
    assert!(told.starts_with("spec: ") && !told.contains("secret"), "{told}");
}

#[tokio::test]
async fn a_number_once_set_stays() {
    let path = "/validate/vpsienodes";
    assert_eq!(asked(path, "CREATE", &node(1001), &Value::Null).await, None);
    assert_eq!(asked(path, "UPDATE", &node(1001), &node(0)).await, None);
    let told = asked(path, "UPDATE", &node(1002), &node(1001)).await;
    assert_eq!(told.as_deref(), Some("spec.vpsieInstanceID: vpsieInstanceID is immutable once it is set"));
}

#[tokio::test]
async fn what_is_no_review_is_refused() {
    let path = "/validate/nodegroups";
    let good = request("CREATE", &group(1, 3), &Value::Null);
    let table = [
        ("text/plain", good.clone(), 415),
        ("application/json", "{".to_owned(), 400),
        ("application/json", "{}".to_owned(), 400),
        ("application/json; charset=utf-8", good.clone(), 200),
        ("application/json", format!("{good}{}", " ".repeat(BODY_LIMIT)), 413),
    ];
    for (kind, body, expected) in table {
        assert_eq!(send(path, kind, body).await.0, expected, "{kind}");
    }
    let probe = http::Request::get("/readyz").body(Body::empty()).unwrap();
    assert_eq!(router().oneshot(probe).await.unwrap().status().as_u16(), 200);
}
