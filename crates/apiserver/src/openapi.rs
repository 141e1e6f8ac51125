//! `/openapi/v3`: an index, and a document per group and version.

use crate::{
    crd::{self, CustomVersion},
    discovery,
    error::ApiError,
    handlers::json_answer,
    server::Core,
    types,
};
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

pub(crate) fn answer(core: &Core, path: &str) -> Result<Response<Body>, ApiError> {
    let wanted = path.strip_prefix("/openapi/v3").ok_or_else(ApiError::no_such_path)?.trim_matches('/');
    let served = discovery::group_versions(&core.registry);
    if wanted.is_empty() {
        let entries = served.iter().filter_map(|(group, version)| {
            let hash = match types::openapi_v3(group, version) {
                Some(document) => document.hash().to_owned(),
                None => types::document_hash(&custom_document(core, group, version)?),
            };
            let place = place(group, version);
            let address = json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash={hash}")});
            Some((place, address))
        });
        let paths: serde_json::Map<String, Value> = entries.collect();
        return Ok(json_answer(StatusCode::OK, &json!({"paths": paths})));
    }
    let found = served.iter().find(|(group, version)| place(group, version) == wanted);
    let (group, version) = found.ok_or_else(ApiError::no_such_path)?;
    if let Some(document) = types::openapi_v3(group, version) {
        return Ok(json_answer(StatusCode::OK, &document.value));
    }
    let document = custom_document(core, group, version).ok_or_else(ApiError::no_such_path)?;
    Ok(json_answer(StatusCode::OK, &document))
}

/// The schemas and paths of a group version of custom kinds.
fn custom_document(core: &Core, group: &str, version: &str) -> Option<Value> {
    let resources = discovery::resources(&core.registry, group, version);
    let customs = resources.iter().filter_map(|resource| resource.custom.as_ref()?.kind.version(version));
    customs.map(CustomVersion::openapi_v3).reduce(|mut all, one| {
        crd::merge_openapi(&mut all, one);
        all
    })
}
