//! What is counted of the calls that leave.

use crate::stage::{Answer, Stage, client, surroundings};
use hostler_stackit::{ApiMetrics, ApiVersion, Authorisation};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn every_attempt_is_counted_by_operation_and_what_became_of_it() {
    let (stage, mut registry) = (Stage::new(), Registry::default());
    let counted = ApiMetrics::new(&mut registry).counted(stage.transport(), stage.clock.clone());
    let client = client(surroundings(counted, &stage.clock), ApiVersion::V2, Authorisation::None);
    stage.will([
        Answer::Json(500, json!({"code": 500, "msg": "no"})),
        Answer::Json(200, json!({"items": []})),
        Answer::Json(404, json!({"code": 404, "msg": "gone"})),
        Answer::Never,
    ]);
    client.list_servers(None).await.unwrap();
    let id = "11111111-2222-4333-8444-555555555555";
    client.get_server(id).await.unwrap_err();
    client.delete_server(id).await.unwrap_err();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let labels = |method: &str, operation: &str, code: &str| {
        format!(
            "{{component=\"machine-controller-manager-provider-stackit\",host=\"\",method=\"{method}\",operation=\"{operation}\",status_code=\"{code}\"}}"
        )
    };
    for (name, labels, value) in [
        ("stackit_api_http_requests_total", labels("GET", "ListServers", "500"), 1),
        ("stackit_api_http_requests_total", labels("GET", "ListServers", "200"), 1),
        ("stackit_api_http_requests_total", labels("GET", "GetServer", "404"), 1),
        ("stackit_api_http_requests_total", labels("DELETE", "DeleteServer", "network_error"), 1),
        ("stackit_api_http_errors_total", labels("GET", "ListServers", "500"), 1),
        ("stackit_api_http_errors_total", labels("DELETE", "DeleteServer", "network_error"), 1),
        ("stackit_api_http_request_duration_seconds_count", labels("GET", "GetServer", "404"), 1),
        ("mcm_cloud_api_requests_total", "{provider=\"stackit\",service=\"iaas\"}".to_owned(), 4),
        ("mcm_cloud_api_requests_failed_total", "{provider=\"stackit\",service=\"iaas\"}".to_owned(), 3),
        (
            "mcm_cloud_api_api_request_duration_seconds_count",
            "{provider=\"stackit\",service=\"iaas\"}".to_owned(),
            1,
        ),
    ] {
        let line = format!("{name}{labels} {value}");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    let fine = format!("stackit_api_http_errors_total{}", labels("GET", "ListServers", "200"));
    assert!(!text.contains(&fine), "{text}");
}
