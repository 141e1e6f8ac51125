//! The way to settings, faults and keys for other processes: paths under `/_sim`, outside the API.
//!
//! | call | what it does |
//! |---|---|
//! | `GET /_sim/settings`, `PATCH /_sim/settings` | shows the [`Settings`](super::Settings); changes those that are named |
//! | `GET /_sim/faults`, `POST /_sim/faults`, `DELETE /_sim/faults` | shows the [faults](super::Fault) and how many calls each was for; adds one, as object or as text; removes all |
//! | `POST /_sim/keys` | a new service account key, `{"mail": …, "projects": […], "publicKey": …}`, all optional; answers with the key file |
//! | `DELETE /_sim/keys/{kid}` | revokes a key |
//! | `GET /_sim/calls`, `DELETE /_sim/calls` | how often each operation was called; starts again from zero |
//! | `GET /_sim/state` | all servers, volumes and NICs, whoever made them |
//! | `POST /_sim/servers/{id}/fail` | the server is in `ERROR` with `{"message": …}` |
//!
//! It needs no token: who can reach the simulated cloud may do everything with it.

use super::{
    Fault, NewKey, Stackit,
    answer::{Outcome, Refusal, answer as with_status, done, found},
};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde_json::{Value, json};

pub(super) const PREFIX: &str = "/_sim";

pub(super) fn answer(cloud: &Stackit, method: &Method, path: &str, body: &[u8]) -> Response {
    match outcome(cloud, method, path, body) {
        Ok(answer) => answer.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn outcome(cloud: &Stackit, method: &Method, path: &str, body: &[u8]) -> Outcome {
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|error| Refusal::bad(error.to_string()))?
    };
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["settings"]) => found(settings(cloud)?),
        ("PATCH", ["settings"]) => {
            let mut changed = cloud.lock().settings.clone();
            changed.merge(&body).map_err(Refusal::bad)?;
            cloud.set(|settings| *settings = changed);
            found(settings(cloud)?)
        }
        ("GET", ["faults"]) => {
            let cloud = cloud.lock();
            let faults = cloud.faults.all().map(|(fault, met)| json!({"fault": fault, "calls": met}));
            found(json!({"items": faults.collect::<Vec<_>>()}))
        }
        ("POST", ["faults"]) => {
            let fault = match &body {
                Value::String(text) => text.parse::<Fault>().map_err(Refusal::bad)?,
                _ => serde_json::from_value(body).map_err(|error| Refusal::bad(error.to_string()))?,
            };
            cloud.add_fault(fault.clone()).map_err(Refusal::bad)?;
            with_status(StatusCode::CREATED, json!(fault))
        }
        ("DELETE", ["faults"]) => {
            cloud.clear_faults();
            done()
        }
        ("POST", ["keys"]) => with_status(StatusCode::CREATED, new_key(cloud, &body)?),
        ("DELETE", ["keys", kid]) => {
            if cloud.revoke_key(kid) {
                done()
            } else {
                Err(Refusal::missing("key", kid))
            }
        }
        ("GET", ["calls"]) => found(json!(cloud.calls())),
        ("DELETE", ["calls"]) => {
            cloud.lock().calls.clear();
            done()
        }
        ("GET", ["state"]) => {
            found(json!({"servers": cloud.servers(), "volumes": cloud.volumes(), "nics": cloud.nics()}))
        }
        ("POST", ["servers", id, "fail"]) => {
            let message = body["message"].as_str().unwrap_or("the server was told to fail");
            if cloud.fail_server(id, message) { done() } else { Err(Refusal::missing("server", id)) }
        }
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("{method} {PREFIX}{path} leads nowhere"))),
    }
}

fn settings(cloud: &Stackit) -> Result<Value, Refusal> {
    serde_json::to_value(&cloud.lock().settings)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn new_key(cloud: &Stackit, body: &Value) -> Result<Value, Refusal> {
    let projects = body["projects"].as_array().cloned().unwrap_or_default();
    let new = NewKey {
        mail: body["mail"].as_str().unwrap_or("simulated@sa.stackit.cloud").to_owned(),
        projects: projects.iter().filter_map(|project| project.as_str().map(str::to_owned)).collect(),
        valid_until: body["validUntil"].as_str().and_then(|text| text.parse().ok()),
        public_key: body["publicKey"].as_str().map(str::to_owned),
    };
    cloud.issue_key(new).map_err(Refusal::bad)
}
