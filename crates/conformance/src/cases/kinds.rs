use super::fixtures::{config_map, secret};
use crate::{
    Ctx, Look, Outcome,
    reply::{holds, same},
};
use serde_json::{Value, json};

area!("secret":
    string_data_is_encoded,
    type_is_immutable,
    immutable_data_cannot_change,
    bad_base64_is_refused,
    typed_secret_needs_its_keys;
"config map":
    immutable_data_cannot_change_either,
    binary_data,
    keys_are_validated,
    too_much_data_is_refused;
"event":
    both_groups_show_the_same,
    new_style_needs_its_fields,
    old_style_is_free,
    namespace_must_match_the_object;
"service":
    gets_an_address,
    headless_has_none,
    ports_need_names_when_several,
    cluster_ip_is_immutable;
"service account":
    plain_one,
    token_request,
    token_lets_in,
    token_lifetime_is_bounded;
"lease":
    micro_time_is_kept,
    is_validated;
"certificate signing request":
    request_is_filled_with_the_user,
    approval_by_subresource,
    conditions_stay,
    invalid_request_is_refused,
);

async fn string_data_is_encoded(c: Ctx) -> Outcome {
    let mut body = secret("a");
    body["stringData"] = json!({"word": "hello", "key": "wins"});
    let made = c.create(&c.core("secrets"), &body).await?;
    made.is("/data", json!({"word": "aGVsbG8=", "key": "d2lucw=="}))?;
    made.lacks("/stringData")?;
    made.is("/type", "Opaque")
}

async fn type_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.merge_patch(&c.core("secrets/a"), &json!({"type": "example.com/x"})).await?;
    reply.refused(
        422,
        "Invalid",
        "Secret \"a\" is invalid: type: Invalid value: \"example.com/x\": field is immutable",
    )?;
    Ok(())
}

async fn immutable_data_cannot_change(c: Ctx) -> Outcome {
    let mut body = secret("a");
    body["immutable"] = json!(true);
    c.create(&c.core("secrets"), &body).await?;
    let reply = c.merge_patch(&c.core("secrets/a"), &json!({"data": {"key": "bmV3"}})).await?;
    reply.refused(
        422,
        "Invalid",
        "Secret \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
    )?;
    let reply = c.merge_patch(&c.core("secrets/a"), &json!({"immutable": false})).await?;
    reply.refused(
        422,
        "Invalid",
        "Secret \"a\" is invalid: immutable: Forbidden: field is immutable when `immutable` is set",
    )?;
    c.merge_patch(&c.core("secrets/a"), &json!({"metadata": {"labels": {"a": "b"}}})).await?.ok(200)?;
    Ok(())
}

async fn bad_base64_is_refused(c: Ctx) -> Outcome {
    let mut body = secret("a");
    body["data"]["key"] = json!("not base64!");
    let reply = c.post(&c.core("secrets"), &body).await?;
    reply.refused_about(400, "BadRequest", "illegal base64 data at input byte 3")?;
    Ok(())
}

async fn typed_secret_needs_its_keys(c: Ctx) -> Outcome {
    let mut body = secret("a");
    body["type"] = json!("kubernetes.io/tls");
    let reply = c.post(&c.core("secrets"), &body).await?;
    reply.refused_about(422, "Invalid", "data[tls.crt]: Required value")?;
    Ok(())
}

async fn immutable_data_cannot_change_either(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["immutable"] = json!(true);
    c.create(&c.core("configmaps"), &body).await?;
    let reply = c.merge_patch(&c.core("configmaps/a"), &json!({"data": {"key": "new"}})).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
    )?;
    Ok(())
}

async fn binary_data(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["binaryData"] = json!({"bytes": "AAEC"});
    c.create(&c.core("configmaps"), &body).await?.is("/binaryData/bytes", "AAEC")?;
    body["metadata"]["name"] = json!("b");
    body["binaryData"] = json!({"key": "AAEC"});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(422, "Invalid", "ConfigMap \"b\" is invalid: data[key]: Invalid value: \"key\": duplicate of key present in binaryData")?;
    Ok(())
}

async fn keys_are_validated(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"] = json!({"not/good": "x"});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(422, "Invalid", "data[not/good]: Invalid value: \"not/good\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'")?;
    Ok(())
}

async fn too_much_data_is_refused(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"]["key"] = json!("x".repeat(1_100_000));
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes",
    )?;
    Ok(())
}

async fn both_groups_show_the_same(c: Ctx) -> Outcome {
    let old = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Tested", "message": "it works",
        "type": "Normal", "count": 3, "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:01:00Z",
        "source": {"component": "test", "host": "here"},
        "involvedObject": {"kind": "Pod", "namespace": c.ns, "name": "x"}});
    let made = c.create(&c.core("events"), &old).await?;
    let new = c.get(&c.group("events.k8s.io/v1", "events/a")).await?.ok(200)?;
    new.is("/apiVersion", "events.k8s.io/v1")?;
    new.is("/metadata/uid", made["metadata"]["uid"].clone())?;
    new.is("/note", "it works")?;
    new.is("/regarding/name", "x")?;
    new.is("/deprecatedCount", 3)?;
    new.is("/deprecatedSource/component", "test")?;
    new.is("/deprecatedLastTimestamp", "2020-01-01T00:01:00Z")?;
    new.lacks("/message")
}

fn new_event(ns: &str) -> Value {
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Tested", "note": "it works",
        "type": "Normal", "eventTime": "2020-01-01T00:00:00.000001Z", "action": "Testing", "reportingController": "example.com/test",
        "reportingInstance": "here", "regarding": {"kind": "Pod", "namespace": ns, "name": "x"}})
}

async fn new_style_needs_its_fields(c: Ctx) -> Outcome {
    let events = c.group("events.k8s.io/v1", "events");
    let mut body = new_event(&c.ns);
    body["action"] = json!("");
    body["reportingController"] = json!("");
    let reply = c.post(&events, &body).await?;
    reply.refused_about(422, "Invalid", "reportingController: Required value")?;
    reply.contains("/message", "action: Required value")?;
    c.create(&events, &new_event(&c.ns)).await?;
    let old = c.get(&c.core("events/a")).await?.ok(200)?;
    old.is("/message", "it works")?;
    old.is("/involvedObject/name", "x")?;
    old.is("/eventTime", "2020-01-01T00:00:00.000001Z")?;
    old.is("/reportingComponent", "example.com/test")
}

async fn old_style_is_free(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"namespace": c.ns}});
    let made = c.create(&c.core("events"), &body).await?;
    made.is("/involvedObject", json!({"namespace": c.ns}))?;
    made.is("/source", json!({}))?;
    made.is("/firstTimestamp", json!(null))?;
    made.is("/eventTime", json!(null))?;
    made.is("/reportingComponent", "")
}

async fn namespace_must_match_the_object(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"}});
    let reply = c.post(&c.core("events"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "involvedObject.namespace: Invalid value: \"default\": does not match event.namespace",
    )?;
    Ok(())
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}})
}

async fn gets_an_address(c: Ctx) -> Outcome {
    let made = c.create(&c.core("services"), &service("a")).await?;
    holds("the address is of the service range", made.text("/spec/clusterIP").starts_with("10.96."))?;
    made.is("/spec/clusterIPs", json!([made["spec"]["clusterIP"]]))?;
    made.is("/spec/type", "ClusterIP")?;
    made.is("/spec/sessionAffinity", "None")?;
    made.is("/spec/ports", json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]))?;
    made.is("/spec/ipFamilies", json!(["IPv4"]))?;
    made.is("/spec/ipFamilyPolicy", "SingleStack")?;
    made.is("/spec/internalTrafficPolicy", "Cluster")?;
    made.is("/status", json!({"loadBalancer": {}}))
}

async fn headless_has_none(c: Ctx) -> Outcome {
    let mut body = service("a");
    body["spec"]["clusterIP"] = json!("None");
    let made = c.create(&c.core("services"), &body).await?;
    made.is("/spec/clusterIP", "None")?;
    made.is("/spec/clusterIPs", json!(["None"]))
}

async fn ports_need_names_when_several(c: Ctx) -> Outcome {
    let mut body = service("a");
    body["spec"]["ports"] = json!([{"port": 80}, {"port": 81}]);
    let reply = c.post(&c.core("services"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "Service \"a\" is invalid: [spec.ports[0].name: Required value, spec.ports[1].name: Required value]",
    )?;
    Ok(())
}

async fn cluster_ip_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.core("services"), &service("a")).await?;
    let reply = c
        .merge_patch(
            &c.core("services/a"),
            &json!({"spec": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.200"]}}),
        )
        .await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.clusterIPs[0]: Invalid value: [\"10.96.200.200\"]: may not change once set",
    )?;
    Ok(())
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

fn token_body(seconds: i64) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}})
}

async fn plain_one(c: Ctx) -> Outcome {
    let mut body = account("robot");
    body["imagePullSecrets"] = json!([{"name": "pull"}]);
    body["automountServiceAccountToken"] = json!(false);
    let made = c.create(&c.core("serviceaccounts"), &body).await?;
    made.is("/imagePullSecrets/0/name", "pull")?;
    made.is("/automountServiceAccountToken", false)?;
    made.lacks("/secrets")
}

async fn token_request_for(c: &Ctx, seconds: i64) -> Result<crate::Reply, crate::Failure> {
    c.create(&c.core("serviceaccounts"), &account("robot")).await?;
    c.post(&c.core("serviceaccounts/robot/token"), &token_body(seconds)).await
}

async fn token_request(c: Ctx) -> Outcome {
    let reply = token_request_for(&c, 700).await?.ok(201)?;
    reply.is("/kind", "TokenRequest")?;
    reply.is("/spec/expirationSeconds", 700)?;
    reply.has("/status/expirationTimestamp")?;
    same("parts of the token", reply.text("/status/token").split('.').count(), 3)?;
    let reply = c.post(&c.core("serviceaccounts/nobody/token"), &json!({"spec": {}})).await?;
    reply.refused(404, "NotFound", "serviceaccounts \"nobody\" not found")?;
    Ok(())
}

async fn token_lets_in(c: Ctx) -> Outcome {
    let token = token_request_for(&c, 3600).await?.ok(201)?.text("/status/token");
    let anonymous = c.become_user(crate::TestUser::Anonymous)?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = anonymous
        .request(http::Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .json(&review);
    let reply = request.header("authorization", &format!("Bearer {token}")).send().await?.ok(201)?;
    reply.is("/status/userInfo/username", format!("system:serviceaccount:{}:robot", c.ns))?;
    let groups = reply.at("/status/userInfo/groups").clone();
    let expected =
        json!(["system:serviceaccounts", format!("system:serviceaccounts:{}", c.ns), "system:authenticated"]);
    same("groups", groups, expected)
}

async fn token_lifetime_is_bounded(c: Ctx) -> Outcome {
    let reply = token_request_for(&c, 5).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
    )?;
    Ok(())
}

async fn micro_time_is_kept(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.123456Z", "acquireTime": "2020-01-01T00:00:00.000000Z", "leaseTransitions": 1}});
    let made = c.create(&c.group("coordination.k8s.io/v1", "leases"), &body).await?;
    made.is("/spec/renewTime", "2020-01-01T00:00:00.123456Z")?;
    made.is("/spec/acquireTime", "2020-01-01T00:00:00.000000Z")?;
    made.is("/spec/leaseTransitions", 1)?;
    made.lacks("/metadata/generation")?;
    let mut coarse = body;
    coarse["metadata"]["name"] = json!("b");
    coarse["spec"]["renewTime"] = json!("2020-01-01T00:00:00Z");
    let reply = c.post(&c.group("coordination.k8s.io/v1", "leases"), &coarse).await?;
    reply.refused_about(
        400,
        "BadRequest",
        "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\"",
    )?;
    Ok(())
}

async fn is_validated(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}});
    let reply = c.post(&c.group("coordination.k8s.io/v1", "leases"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    )?;
    Ok(())
}

/// A PEM certificate request for CN=test (ECDSA), in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWRHVnpkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkY0dFJ6NFlzTS9wV3VUMHh1TnBHS2s5TkZ5RWFpZ0JRMUd0UnZSVEdqUWFBQVJ1cmlOVVFGQUFEenRLCkhaTjVoMWQ4dklUbXBTZnp1ZzkzdWV1M1g2aWdBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUVBNjQvTVBPNk8KZlFHNTJwNldEemFCOVR3QUI4ajJVUWJhalJVSTdEVDZVcHNDSUZiQTI5dVE2Vm41Mm5jTUhDWk5tdWlkYW8rVgo0YnliMHZaMlFOcGlQcGUrCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

fn signing_request(name: &str, request: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": request, "signerName": "example.com/signer", "usages": ["client auth", "digital signature"], "expirationSeconds": 3600,
            "username": "somebody-else", "groups": ["system:masters"]}})
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn request_is_filled_with_the_user(c: Ctx) -> Outcome {
    let made = c.create_shared(REQUESTS, &signing_request(&c.ns, REQUEST)).await?;
    holds("the user is who asked", !["", "somebody-else"].contains(&made.text("/spec/username").as_str()))?;
    let groups = made.at("/spec/groups").as_array().cloned().unwrap_or_default();
    holds("the groups are those of who asked", groups.contains(&json!("system:authenticated")))?;
    made.is("/spec/usages", json!(["client auth", "digital signature"]))?;
    made.is("/status", json!({}))
}

async fn approval_by_subresource(c: Ctx) -> Outcome {
    let mut object = c.create_shared(REQUESTS, &signing_request(&c.ns, REQUEST)).await?;
    object["status"] =
        json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "fine"}]});
    let path = format!("{REQUESTS}/{}", c.ns);
    c.put(&path, &object).await?.ok(200)?.is("/status", json!({}))?;
    let reply = c.put(&format!("{path}/approval"), &object).await?.ok(200)?;
    reply.is("/status/conditions/0/type", "Approved")?;
    reply.is("/status/conditions/0/reason", "Test")?;
    reply.has("/status/conditions/0/lastUpdateTime")?;
    reply.has("/status/conditions/0/lastTransitionTime")?;
    let certificate = json!({"status": {"certificate": "eA=="}});
    let reply = c.merge_patch(&format!("{path}/status"), &certificate).await?;
    reply.refused_about(422, "Invalid", "status.certificate: Invalid value: ")?;
    Ok(())
}

async fn conditions_stay(c: Ctx) -> Outcome {
    let mut object = c.create_shared(REQUESTS, &signing_request(&c.ns, REQUEST)).await?;
    let path = format!("{REQUESTS}/{}", c.ns);
    object["status"] = json!({"conditions": [{"type": "Denied", "status": "True", "reason": "Test"}]});
    let mut denied = c.put(&format!("{path}/approval"), &object).await?.ok(200)?.json;
    denied["status"] = json!({"conditions": []});
    let reply = c.put(&format!("{path}/approval"), &denied).await?;
    reply.refused_about(
        422,
        "Invalid",
        "status.conditions: Forbidden: updates may not remove a condition of type \"Denied\"",
    )?;
    Ok(())
}

async fn invalid_request_is_refused(c: Ctx) -> Outcome {
    let reply = c.post(REQUESTS, &signing_request(&c.ns, "YQ==")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.request: Invalid value: \"YQ==\": PEM block type must be CERTIFICATE REQUEST",
    )?;
    Ok(())
}
