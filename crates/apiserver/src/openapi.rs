//! `/openapi/v3`: an index, and a document per group and version.

use crate::{discovery, error::ApiError, handlers::json_answer, request::api_version, server::Core, types};
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

pub(crate) fn answer(core: &Core, path: &str) -> Result<Response<Body>, ApiError> {
    let wanted = path.strip_prefix("/openapi/v3").ok_or_else(ApiError::no_such_path)?.trim_matches('/');
    let served = discovery::group_versions(&core.registry);
    if wanted.is_empty() {
        let entries = served.iter().filter_map(|(group, version)| {
            let document = document(core, group, version)?.to_string();
            let hash = Sha256::digest(document.as_bytes());
            let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02X}")).collect();
            let place = place(group, version);
            let address = json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash={hash}")});
            Some((place, address))
        });
        let paths: serde_json::Map<String, Value> = entries.collect();
        return Ok(json_answer(StatusCode::OK, &json!({"paths": paths})));
    }
    let found = served.iter().find(|(group, version)| place(group, version) == wanted);
    let document = found.and_then(|(group, version)| document(core, group, version));
    Ok(json_answer(StatusCode::OK, &*document.ok_or_else(ApiError::no_such_path)?))
}

/// The schemas of a version's kinds; what has no schema is described as an object of any shape.
fn document(core: &Core, group: &str, version: &str) -> Option<Cow<'static, Value>> {
    if let Some(document) = types::openapi_v3(group, version) {
        return Some(Cow::Borrowed(document));
    }
    let mut schemas = serde_json::Map::new();
    for resource in discovery::resources(&core.registry, group, version) {
        let custom = resource.custom.as_ref().and_then(|custom| custom.kind.version(version));
        let mut schema = match custom {
            Some(custom) => custom.schema().clone(),
            None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "version": version, "kind": resource.kind}]);
        let mut parts: Vec<&str> = group.split('.').rev().collect();
        parts.extend([version, resource.kind.as_str()]);
        schemas.insert(parts.join("."), schema);
    }
    (!schemas.is_empty()).then(|| {
        Cow::Owned(json!({
            "openapi": "3.0.0",
            "info": {"title": format!("Kubernetes {}", api_version(group, version)), "version": "v1.36.3"},
            "paths": {}, "components": {"schemas": schemas},
        }))
    })
}
