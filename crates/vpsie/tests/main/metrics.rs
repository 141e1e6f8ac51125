//! What is counted of the calls that leave.

use crate::stage::{Answer, Stage, refusal};
use hostler_driver::client::Surroundings;
use hostler_vpsie::{ApiMetrics, Client, Grant};
use prometheus_client::{encoding::text::encode, registry::Registry};

#[tokio::test(start_paused = true)]
async fn every_attempt_is_counted_by_operation_and_what_became_of_it() {
    let (stage, mut registry) = (Stage::new(), Registry::default());
    let counted = ApiMetrics::new(&mut registry).counted(stage.transport(), stage.clock.clone());
    let surroundings = Surroundings { transport: counted, ..stage.surroundings() };
    let client =
        Client::new(surroundings, crate::stage::URL.parse().unwrap(), &Grant::Token("key".to_owned().into()));
    stage.will([Answer::Raw(500, vec![], String::new())]);
    client.list_vms().await.unwrap();
    stage.will([refusal(404, 404, "no"), refusal(200, 404, "no"), Answer::Never]);
    client.get_vm("u").await.unwrap_err();
    client.delete_vm("u", "why").await.unwrap_err();
    client.stop_vm("u").await.unwrap_err();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "vpsie_api_requests_total{method=\"ListVMs\",status=\"500\"} 1",
        "vpsie_api_requests_total{method=\"ListVMs\",status=\"200\"} 1",
        "vpsie_api_requests_total{method=\"GetVM\",status=\"404\"} 1",
        "vpsie_api_requests_total{method=\"DeleteVM\",status=\"200\"} 1",
        "vpsie_api_requests_total{method=\"StopVM\",status=\"network_error\"} 1",
        "vpsie_api_request_duration_seconds_count{method=\"ListVMs\"} 2",
        "vpsie_api_request_duration_seconds_count{method=\"GetVM\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
