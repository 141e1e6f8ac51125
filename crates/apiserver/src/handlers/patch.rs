//! Patches: JSON, merge and, for built-in kinds, strategic merge.

use super::{
    Exchange,
    body::Source,
    create::{check_type, same_namespace},
    rules::{self, FieldValidation},
    update::{self, Means, Part},
};
use crate::{
    error::ApiError,
    field::FieldError,
    go_json, negotiate,
    object::{self, DEEPEST},
    registry::Resource,
    types,
};
use bytes::Bytes;
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

const MOST_OPERATIONS: usize = 10_000;
/// So many bytes a JSON patch may copy, or move to a deeper place.
const MOST_COPIED: usize = 3 * 1024 * 1024;

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
    patched: Value,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let read = |mut patched: Value| {
        check_type(exchange, &mut patched)?;
        match patch {
            Patch::Strategic(_) => rules::decode_merged(exchange, patched, validation),
            _ => rules::decode(exchange, patched, &Source::default(), validation),
        }
    };
    if exchange.resource.custom.is_some() {
        read(patched)
    } else {
        patch.blamed(&exchange.resource.kind, patched, read)
    }
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

    /// Reads what this patch made of an object of a built-in kind; what does not fit is blamed on the patch.
    pub(super) fn blamed(
        &self,
        kind: &str,
        patched: Value,
        read: impl FnOnce(Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let shown = match self {
            Self::Strategic(_) => Value::Null,
            _ => patched.clone(),
        };
        read(patched).map_err(|error| {
            if error.code != StatusCode::BAD_REQUEST {
                return error;
            }
            let mark = format!(" cannot be handled as a {kind}: ");
            let why = error.message.split_once(&mark).map_or(error.message.as_str(), |(_, why)| why);
            let shown = match self {
                Self::Strategic(patch) => types::go_value(patch),
                _ => shown.to_string(),
            };
            let error = FieldError::invalid("patch", shown, why);
            ApiError::invalid("", "", "", &[error])
        })
    }

    pub(super) fn apply(&self, exchange: &Exchange<'_>, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(patch) => {
                let mut new = old.clone();
                apply_json(&mut new, patch)?;
                Ok(new)
            }
            Self::Merge(patch) => {
                let mut new = old.clone();
                json_patch::merge(&mut new, patch);
                Ok(new)
            }
            Self::Strategic(patch) => {
                let api_version = old["apiVersion"].as_str().unwrap_or_default();
                let kind = old["kind"].as_str().unwrap_or(&exchange.resource.kind);
                let ty = types::kind(api_version, kind)
                    .ok_or_else(|| ApiError::internal(format!("the fields of {kind} are not known")))?;
                types::strategic_merge(ty, old, patch)
            }
        }
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
    let mut copied = 0;
    for operation in &patch.0 {
        bound(new, operation, &mut copied)?;
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

/// A few operations that copy or move into each other's results could make an object of any size and depth.
fn bound(object: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), ApiError> {
    let levels = |path: &str| path.matches('/').count();
    let (path, value, is_new) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value), false),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value), false),
        PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str()), true),
        PatchOperation::Move(way) if levels(way.path.as_str()) > levels(way.from.as_str()) => {
            (&way.path, object.pointer(way.from.as_str()), true)
        }
        PatchOperation::Move(_) | PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let Some(value) = value else { return Ok(()) };
    if is_new {
        *copied += value.to_string().len();
    }
    let deep = object::is_deeper(value, DEEPEST.saturating_sub(levels(path.as_str())));
    if deep || *copied > MOST_COPIED { Err(rejected()) } else { Ok(()) }
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

    #[test]
    fn a_json_patch_cannot_make_an_object_of_any_size() {
        let copies = |from: &dyn Fn(usize) -> (String, String), count| -> Vec<Value> {
            (1..=count)
                .map(|step| {
                    let (from, path) = from(step);
                    json!({"op": "copy", "from": from, "path": path})
                })
                .collect()
        };
        let doubling = |step: usize| ("/data".to_owned(), format!("/data/x{step}"));
        let deepening = |step: usize| ("/data".to_owned(), format!("/data{}", "/a".repeat(1 << (step - 1))));
        let moves = |count: usize| -> Vec<Value> {
            let round = [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/data", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/data"}),
            ];
            round.into_iter().cycle().take(count).collect()
        };
        let deep_value = (0..DEEPEST).fold(json!({}), |inside, _| json!({ "a": inside }));
        for (operations, fits) in [
            (copies(&doubling, 5), true),
            (copies(&doubling, 40), false),
            (copies(&deepening, 5), true),
            (copies(&deepening, 12), false),
            (moves(30), true),
            (moves(900), false),
            (vec![json!({"op": "add", "path": "/data/b", "value": deep_value})], false),
        ] {
            let mut object = json!({"data": {"a": {}}, "b": {}});
            let patch = serde_json::from_value(Value::Array(operations)).unwrap();
            let result = apply_json(&mut object, &patch);
            assert_eq!(result.map_err(|error| error.code.as_u16()), if fits { Ok(()) } else { Err(422) });
            assert!(!object::is_deeper(&object, DEEPEST));
        }
    }
}
