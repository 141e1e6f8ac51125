//! Every operation can be made to answer in every wrong way, over HTTP and in the words of a flag.

use super::{
    Api, patient,
    shapes::{ERROR, misshapen},
};
use hostler_sim::vpsie::{Fault, Vpsie};
use serde_json::{Value, json};

/// The path with an id for each name in it.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "7" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test(start_paused = true)]
async fn every_operation_can_be_made_to_answer_wrongly() {
    let operations = Vpsie::operations();
    assert!(operations.len() > 60, "{}", operations.len());
    let api = Api::new(patient());
    for (name, method, path) in &operations {
        for (wrong, status) in [
            ("status=200", 200),
            ("status=401", 401),
            ("status=402", 402),
            ("status=409", 409),
            ("status=429 retryAfter=3", 429),
            ("status=500", 500),
            ("answer=page", 502),
            ("answer=empty", 200),
            ("answer=empty status=404", 404),
        ] {
            // As a flag has it.
            let text = format!("{name} {wrong} times=1");
            let fault: Fault = Vpsie::read_fault(&text).unwrap();
            for body in [json!(fault), json!(text)] {
                api.call("POST", "/_sim/faults", Some(body)).await.with(201);
                let answer = api.call(method.as_str(), &filled(path), None).await;
                assert_eq!(answer.status, status, "{text}");
                if wrong.contains("answer=") {
                    assert_eq!(answer.body, Value::Null, "{text}");
                } else {
                    assert_eq!(misshapen(&answer.body, &[&ERROR]), None, "{text}: {}", answer.body);
                }
            }
            api.call("DELETE", "/_sim/faults", None).await.with(204);
        }
    }
    assert!(api.cloud.vms().is_empty() && api.cloud.workers().is_empty(), "none of them had an effect");
}
