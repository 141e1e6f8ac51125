//! Patches: JSON, merge and, for built-in kinds, strategic merge.

use super::{
    Exchange,
    body::Source,
    create::{check_type, same_namespace},
    rules::{self, FieldValidation},
    update::{self, Means, Part},
};
use crate::{error::ApiError, field::FieldError, go_json, negotiate, object, registry::Resource, types};
use bytes::Bytes;
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

const MOST_OPERATIONS: usize = 10_000;

pub(super) fn patch(exchange: &Exchange<'_>, part: Part, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("PatchOptions")?;
    let validation = FieldValidation::read(exchange, "PatchOptions")?;
    let patch = Patch::read(exchange.resource, exchange.headers, bytes)?;
    let make = |old: &Value| {
        let patched = patch.apply(exchange, old)?;
        let mut new = decode(exchange, &patch, patched, validation)?;
        update::same_name(exchange, &new)?;
        same_namespace(exchange, &new)?;
        // A version that the patch did not touch is no wish for that version.
        if object::text(&new, "resourceVersion") == object::text(old, "resourceVersion")
            && !patch.names_version()
        {
            object::set(&mut new, "resourceVersion", Value::Null);
        }
        Ok(new)
    };
    let stored = update::change(exchange, part, dry_run, Means::Patch, make)?;
    Ok(exchange.object(StatusCode::OK, &stored))
}

/// Reads the patched object as its kind does; what does not fit is blamed on the patch.
fn decode(
    exchange: &Exchange<'_>,
    patch: &Patch,
    mut patched: Value,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let before = match patch {
        Patch::Strategic(_) => Value::Null,
        _ => patched.clone(),
    };
    let result = check_type(exchange, &mut patched).and_then(|()| match patch {
        Patch::Strategic(_) => rules::decode_merged(exchange, patched, validation),
        _ => rules::decode(exchange, patched, &Source::default(), validation),
    });
    result.map_err(|error| {
        if error.code != StatusCode::BAD_REQUEST || exchange.resource.custom.is_some() {
            return error;
        }
        let mark = format!(" cannot be handled as a {}: ", exchange.resource.kind);
        let why = error.message.split_once(&mark).map_or(error.message.as_str(), |(_, why)| why);
        let shown = match patch {
            Patch::Strategic(patch) => types::go_value(patch),
            _ => before.to_string(),
        };
        let error = FieldError::invalid("patch", shown, why);
        ApiError::invalid("", "", "", &[error])
    })
}

pub(super) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// Reads a patch by its media type.
    pub(super) fn read(
        resource: &Resource,
        headers: &http::HeaderMap,
        bytes: &Bytes,
    ) -> Result<Self, ApiError> {
        let built_in = resource.custom.is_none();
        match negotiate::media_type(headers) {
            "application/json-patch+json" => json(bytes).map(Self::Json),
            "application/merge-patch+json" => fields(bytes)
                .map(Self::Merge)
                .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}"))),
            "application/strategic-merge-patch+json" if built_in => {
                fields(bytes).map(Self::Strategic).map_err(ApiError::bad_request)
            }
            "application/strategic-merge-patch+json" | "application/apply-patch+yaml" => {
                let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
                if built_in {
                    accepted.push("application/strategic-merge-patch+json");
                }
                Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: {}",
                    accepted.join(", ")
                )))
            }
            _ => {
                let mut error = ApiError::unsupported_media_type("415: Unsupported Media Type");
                error.details = Some(Box::default());
                Err(error)
            }
        }
    }

    /// Whether the patch says which version it is for.
    pub(super) fn names_version(&self) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Merge(patch) | Self::Strategic(patch) => !object::text(patch, "resourceVersion").is_empty(),
        }
    }

    pub(super) fn apply(&self, exchange: &Exchange<'_>, old: &Value) -> Result<Value, ApiError> {
        let mut new = old.clone();
        match self {
            Self::Json(patch) => apply_json(&mut new, patch)?,
            Self::Merge(patch) => json_patch::merge(&mut new, patch),
            Self::Strategic(patch) => {
                let api_version = old["apiVersion"].as_str().unwrap_or_default();
                let kind = old["kind"].as_str().unwrap_or(&exchange.resource.kind);
                let ty = types::kind(api_version, kind)
                    .ok_or_else(|| ApiError::internal(format!("the fields of {kind} are not known")))?;
                new = types::strategic_merge(ty, old, patch)?;
            }
        }
        Ok(new)
    }
}

fn json(bytes: &Bytes) -> Result<json_patch::Patch, ApiError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::bad_request(format!("error decoding patch: {}", go_json::explain(bytes, &error)))
    })?;
    let Value::Array(operations) = &value else {
        return Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_json::type_name(&value)
        )));
    };
    let count = operations.len();
    if count > MOST_OPERATIONS {
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
        )));
    }
    serde_json::from_value(value).map_err(|_| rejected())
}

fn fields(bytes: &Bytes) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| go_json::explain(bytes, &error))?;
    if value.is_object() {
        return Ok(value);
    }
    let name = go_json::type_name(&value);
    Err(format!("json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"))
}

fn rejected() -> ApiError {
    let why = "the server rejected our request due to an error in our request";
    let mut error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", why);
    error.details = Some(Box::default());
    error
}

/// Applies the operations one by one; like a real server's, `replace` also sets a field that is not there.
fn apply_json(new: &mut Value, patch: &json_patch::Patch) -> Result<(), ApiError> {
    for operation in &patch.0 {
        let operation = match operation {
            // What is not there is as good as null.
            PatchOperation::Test(test)
                if test.value.is_null() && new.pointer(test.path.as_str()).is_none() =>
            {
                continue;
            }
            PatchOperation::Replace(replace) if new.pointer(replace.path.as_str()).is_none() => {
                PatchOperation::Add(AddOperation { path: replace.path.clone(), value: replace.value.clone() })
            }
            other => other.clone(),
        };
        json_patch::patch(new, &[operation]).map_err(|_| rejected())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_patches_work_like_those_of_a_real_server() {
        let patch = |operations: Value| -> Option<Value> {
            let mut object = json!({"data": {"a": "1"}, "list": [1]});
            let patch = serde_json::from_value(operations).ok()?;
            apply_json(&mut object, &patch).ok()?;
            Some(object)
        };
        let replaced = patch(json!([{"op": "replace", "path": "/data/b", "value": "2"}])).unwrap();
        assert_eq!(replaced["data"], json!({"a": "1", "b": "2"}));
        assert!(patch(json!([{"op": "test", "path": "/data/a", "value": "2"}])).is_none());
        assert!(patch(json!([{"op": "remove", "path": "/data/b"}])).is_none());
        assert!(patch(json!([{"op": "add", "path": "/x/y/z", "value": 1}])).is_none());
        assert_eq!(
            patch(json!([{"op": "add", "path": "/list/-", "value": 2}])).unwrap()["list"],
            json!([1, 2])
        );
    }
}
