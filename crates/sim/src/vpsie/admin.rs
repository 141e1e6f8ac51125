//! The way to settings, faults and credentials for other processes: paths under `/_sim`, outside the API.
//!
//! | call | what it does |
//! |---|---|
//! | `GET /_sim/settings`, `PATCH /_sim/settings` | shows the [`Settings`](super::Settings); changes those that are named |
//! | `GET /_sim/faults`, `POST /_sim/faults`, `DELETE /_sim/faults` | shows the [faults](super::Fault) and how many calls each was for; adds one, as object or as text; removes all |
//! | `POST /_sim/keys` | a new credential, `{"kind": "token" or "client", "validUntil": …}`, both optional; answers with `{"id", "token"}` or `{"id", "clientId", "clientSecret"}` |
//! | `DELETE /_sim/keys/{id}` | revokes a credential |
//! | `GET /_sim/calls`, `DELETE /_sim/calls` | how often each operation was called; starts again from zero |
//! | `GET /_sim/state` | all VPSs and workers, whoever made them, and what they cost |
//! | `POST /_sim/vms` | puts a VPS there as somebody else would, `{"hostname": …}` |
//! | `PATCH /_sim/vms/{id}` | changes what the API has no call for: `{"suspended": true}` |
//!
//! It needs no credential: who can reach the simulated cloud may do everything with it.

use super::{Fault, NewKey, Settings, Vpsie, answer::Refusal};
use crate::cloud::http::json_response;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde_json::{Value, json};

pub(super) const PREFIX: &str = "/_sim";

/// A status, and a body if there is one.
type Told = Result<(StatusCode, Option<Value>), Refusal>;

pub(super) fn answer(cloud: &Vpsie, method: &Method, path: &str, body: &[u8]) -> Response {
    match outcome(cloud, method, path, body) {
        Ok((status, Some(body))) => json_response(status, &body),
        Ok((status, None)) => status.into_response(),
        Err(refusal) => json_response(refusal.status, &json!({"error": true, "message": refusal.message})),
    }
}

fn outcome(cloud: &Vpsie, method: &Method, path: &str, body: &[u8]) -> Told {
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|error| Refusal::bad(error.to_string()))?
    };
    let (created, done) = (StatusCode::CREATED, (StatusCode::NO_CONTENT, None));
    let found = |body: Value| (StatusCode::OK, Some(body));
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    Ok(match (method.as_str(), segments.as_slice()) {
        ("GET", ["settings"]) => found(settings(&cloud.lock().settings)?),
        ("PATCH", ["settings"]) => {
            let mut changed = cloud.lock().settings.clone();
            changed.merge(&body).map_err(Refusal::bad)?;
            let shown = settings(&changed)?;
            cloud.set(|settings| *settings = changed);
            found(shown)
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
            (created, Some(json!(fault)))
        }
        ("DELETE", ["faults"]) => {
            cloud.clear_faults();
            done
        }
        ("POST", ["keys"]) => (created, Some(new_key(cloud, &body)?)),
        ("DELETE", ["keys", id]) if cloud.revoke_key(id) => done,
        ("DELETE", ["keys", _]) => return Err(Refusal::missing("Key")),
        ("GET", ["calls"]) => found(json!(cloud.calls())),
        ("DELETE", ["calls"]) => {
            cloud.lock().calls.clear();
            done
        }
        ("GET", ["state"]) => {
            found(json!({"vms": cloud.vms(), "workers": cloud.workers(), "spent": cloud.spent(),
                "monthly": cloud.monthly()}))
        }
        ("POST", ["vms"]) => {
            let hostname = body["hostname"].as_str().unwrap_or("foreign");
            let identifier =
                cloud.add_foreign(hostname).ok_or_else(|| Refusal::bad("the catalogue is empty"))?;
            (created, Some(json!({"identifier": identifier})))
        }
        ("PATCH", ["vms", id]) => {
            let suspended = body["suspended"].as_bool();
            let suspended = suspended.ok_or_else(|| Refusal::bad("suspended: true or false is missing"))?;
            if !cloud.suspend(id, suspended) {
                return Err(Refusal::missing("VM"));
            }
            done
        }
        _ => {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("{method} {PREFIX}{path} leads nowhere"),
            ));
        }
    })
}

fn settings(settings: &Settings) -> Result<Value, Refusal> {
    serde_json::to_value(settings)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn new_key(cloud: &Vpsie, body: &Value) -> Result<Value, Refusal> {
    let valid_until = match body["validUntil"].as_str().map(str::parse) {
        None => None,
        Some(Ok(until)) => Some(until),
        Some(Err(_)) => return Err(Refusal::bad("validUntil: it is no time")),
    };
    match body["kind"].as_str() {
        None | Some("token") => {
            let key = cloud.issue_key(NewKey::Token, valid_until);
            Ok(json!({"id": key.id, "token": key.secret}))
        }
        Some("client") => {
            let key = cloud.issue_key(NewKey::Client, valid_until);
            Ok(json!({"id": key.id, "clientId": key.id, "clientSecret": key.secret}))
        }
        Some(other) => Err(Refusal::bad(format!("kind: {other:?} is neither token nor client"))),
    }
}
