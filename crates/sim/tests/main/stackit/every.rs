//! Every operation can be made to answer in every wrong way, over HTTP and in the words of a flag.

use super::{
    Api, OTHER,
    shapes::{self, misshapen},
};
use hostler_sim::stackit::{Fault, Settings, Stackit};
use serde_json::{Value, json};

/// The path with an id for each name in it.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{project}" => super::PROJECT,
        "{region}" => "eu01",
        part if part.starts_with('{') => OTHER,
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Calls an operation that meets a fault, and looks at what came.
async fn meets(api: &Api, method: &str, path: &str, fault: &str, status: u16, is_page: bool) {
    let answer = api.call(method, path, None).await;
    let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    assert_eq!((answer.status, kind == "text/html"), (status, is_page), "{fault}");
    let is_error = answer.body != Value::Null;
    assert_eq!(is_error, !fault.contains("answer="), "{fault}: {}", answer.body);
    if is_error {
        assert_eq!(misshapen(&answer.body, &[&shapes::ERROR]), None, "{fault}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_can_be_made_to_answer_wrongly() {
    let operations = Stackit::operations();
    assert!(operations.len() > 70, "{}", operations.len());
    let api = Api::new(Settings::default());
    let mut tried = 0;
    for (name, method, path) in &operations {
        for (wrong, status, is_page) in [
            ("status=401", 401, false),
            ("status=403", 403, false),
            ("status=409", 409, false),
            ("status=429 retryAfter=3", 429, false),
            ("status=500", 500, false),
            ("answer=page", 502, true),
            ("answer=page status=404", 404, true),
            ("answer=empty", 200, false),
            ("answer=empty status=404", 404, false),
        ] {
            // As a flag has it.
            let text = format!("{name} {wrong} times=1");
            let fault: Fault = text.parse().unwrap();
            // As an object and as text, over HTTP.
            for body in [json!(fault), json!(text)] {
                api.call("POST", "/_sim/faults", Some(body)).await.with(201);
                meets(&api, method.as_str(), &filled(path), &text, status, is_page).await;
                tried += 1;
            }
            api.call("DELETE", "/_sim/faults", None).await.with(204);
        }
    }
    assert_eq!(tried, operations.len() * 18);
    assert!(api.cloud.servers().is_empty() && api.cloud.nics().is_empty(), "none of them had an effect");
}
