//! Patches: JSON and merge.

use super::{
    Exchange, body,
    create::check_type,
    update::{self, Part},
};
use crate::{error::ApiError, negotiate, object};
use bytes::Bytes;
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use serde_json::Value;

const MOST_OPERATIONS: usize = 10_000;

pub(super) fn patch(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    patch_part(exchange, Part::Main, bytes)
}

pub(super) fn patch_part(
    exchange: &Exchange<'_>,
    part: Part,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("PatchOptions")?;
    let patch = read(exchange, bytes)?;
    let make = |old: &Value| {
        let mut new = apply(&patch, old)?;
        check_type(exchange, &mut new)?;
        same_name(&new, old)?;
        if object::text(&new, "resourceVersion") == object::text(old, "resourceVersion")
            && !patch.names_version()
        {
            object::set(&mut new, "resourceVersion", Value::Null);
        }
        Ok(new)
    };
    let stored = update::change(exchange, part, dry_run, false, make)?;
    Ok(exchange.object(StatusCode::OK, &stored))
}

enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
}

impl Patch {
    /// Whether the patch says which version it is for.
    fn names_version(&self) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Merge(patch) => !object::text(patch, "resourceVersion").is_empty(),
        }
    }
}

fn read(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Patch, ApiError> {
    match negotiate::media_type(exchange.headers) {
        "application/json-patch+json" => {
            let patch: json_patch::Patch = serde_json::from_slice(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
            let count = patch.0.len();
            if count > MOST_OPERATIONS {
                return Err(ApiError::too_large(format!(
                    "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
                )));
            }
            Ok(Patch::Json(patch))
        }
        "application/merge-patch+json" => {
            let patch = body::json(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
            Ok(Patch::Merge(patch))
        }
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json (got {other:?})"
        ))),
    }
}

fn apply(patch: &Patch, old: &Value) -> Result<Value, ApiError> {
    let mut new = old.clone();
    match patch {
        Patch::Json(patch) => json_patch::patch(&mut new, patch).map_err(|error| {
            ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                format!("the server rejected our request due to an error in our request: {error}"),
            )
        })?,
        Patch::Merge(patch) => json_patch::merge(&mut new, patch),
    }
    Ok(new)
}

fn same_name(new: &Value, old: &Value) -> Result<(), ApiError> {
    let (name, expected) = (object::name(new), object::name(old));
    if name != expected {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        )));
    }
    let (namespace, expected) = (object::namespace(new), object::namespace(old));
    if namespace != expected {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({expected})"
        )));
    }
    Ok(())
}
