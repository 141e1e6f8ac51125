//! The rules as an admission webhook, for API servers that do not know those of the definitions.

use super::{Problem, node_group, told, vpsie_node};
use crate::api::{NodeGroup, VPSieNode};
use axum::{
    Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Json, Response},
    routing::{get, post},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// No request is longer than this.
pub const BODY_LIMIT: usize = 3 << 20;

/// `/validate/nodegroups` and `/validate/vpsienodes`, and that they are there.
pub fn router() -> Router {
    Router::new()
        .route("/validate/nodegroups", post(node_groups))
        .route("/validate/vpsienodes", post(vpsie_nodes))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}

/// What of a review is looked at.
#[derive(Deserialize)]
struct Review {
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

async fn node_groups(headers: HeaderMap, body: Bytes) -> Response {
    review(&headers, &body, |group: &NodeGroup, _| node_group(&group.spec))
}

async fn vpsie_nodes(headers: HeaderMap, body: Bytes) -> Response {
    review(&headers, &body, |node: &VPSieNode, old| vpsie_node(node, old))
}

fn review<K: DeserializeOwned>(
    headers: &HeaderMap,
    body: &Bytes,
    rules: impl Fn(&K, Option<&K>) -> Vec<Problem>,
) -> Response {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json").into_response();
    }
    let request = serde_json::from_slice(body).map(|review: Review| review.request);
    let Ok(Some(request)) = request else {
        return (StatusCode::BAD_REQUEST, "expected an AdmissionReview with a request").into_response();
    };
    Json(answer(&request, &judge(&request, rules))).into_response()
}

/// What is wrong with the object of a request.
fn judge<K: DeserializeOwned>(
    request: &Request,
    rules: impl Fn(&K, Option<&K>) -> Vec<Problem>,
) -> Vec<Problem> {
    let is_update = request.operation == "UPDATE";
    let deleting = request.object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
    // Whatever became invalid can still lose its finalizers.
    if !(is_update || request.operation == "CREATE") || deleting {
        return Vec::new();
    }
    let object: K = match serde_json::from_value(request.object.clone()) {
        Ok(object) => object,
        // The text tells where it went wrong, and never what stood there.
        Err(_) => return vec![Problem::new("spec", "does not have the fields or the types of this kind")],
    };
    // An older one that is not readable says nothing about what may be changed.
    let old = is_update.then(|| serde_json::from_value(request.old_object.clone()).ok()).flatten();
    rules(&object, old.as_ref())
}

fn answer(request: &Request, problems: &[Problem]) -> Value {
    let mut response = json!({"uid": request.uid, "allowed": problems.is_empty()});
    if !problems.is_empty() {
        response["status"] =
            json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": told(problems)});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
