//! The `scale` subresource: a custom resource seen as a number of replicas.

use crate::{error::ApiError, field::FieldError};
use serde_json::{Map, Value, json};

/// Where a custom resource keeps its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl ScalePaths {
    pub(super) fn read(version: &Value) -> Option<Self> {
        let scale = version.pointer("/subresources/scale")?.as_object()?;
        let text = |name: &str| scale.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Self {
            spec_replicas: text("specReplicasPath")?.to_owned(),
            status_replicas: text("statusReplicasPath")?.to_owned(),
            label_selector: text("labelSelectorPath").map(str::to_owned),
        })
    }

    /// The `autoscaling/v1` Scale of an object.
    pub fn get(&self, object: &Value) -> Result<Value, ApiError> {
        let Some(replicas) = whole_number(object, &self.spec_replicas)? else {
            let why = format!("the spec replicas field {:?} does not exist", self.spec_replicas);
            return Err(ApiError::internal(why));
        };
        let mut status = json!({"replicas": whole_number(object, &self.status_replicas)?.unwrap_or(0)});
        if let Some(path) = &self.label_selector
            && let Some(selector) = lookup(object, path).map_err(ApiError::internal)?
        {
            let selector =
                selector.as_str().ok_or_else(|| ApiError::internal(wrong_type(path, selector, "string")))?;
            if !selector.is_empty() {
                status["selector"] = selector.into();
            }
        }
        let mut metadata = Map::new();
        for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.pointer(&format!("/metadata/{name}")) {
                metadata.insert(name.to_owned(), value.clone());
            }
        }
        Ok(json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
            "spec": {"replicas": replicas}, "status": status,
        }))
    }

    /// Writes the replicas of a Scale into an object.
    pub fn set(&self, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(value) => value
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .ok_or_else(|| ApiError::bad_request("spec.replicas of a Scale must be a 32-bit integer"))?,
        };
        let mut place = object;
        for part in parts(&self.spec_replicas) {
            if !place.is_object() {
                if !place.is_null() {
                    let why = format!("value cannot be set because {} is not a map", self.spec_replicas);
                    return Err(ApiError::internal(why));
                }
                *place = Value::Object(Map::new());
            }
            place = &mut place[part];
        }
        *place = replicas.into();
        Ok(())
    }

    /// What is wrong with the replicas and the selector of an object.
    pub(super) fn check(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for path in [&self.spec_replicas, &self.status_replicas] {
            match whole_number(object, path) {
                Err(error) => errors.push(FieldError::invalid(path, 0, error.message)),
                Ok(Some(number)) if number < 0 => {
                    errors.push(FieldError::invalid(path, number, "should be a non-negative integer"));
                }
                Ok(Some(number)) if number > i64::from(i32::MAX) => {
                    let detail = format!("should be less than or equal to {}", i32::MAX);
                    errors.push(FieldError::invalid(path, number, detail));
                }
                Ok(_) => {}
            }
        }
        if let Some(path) = &self.label_selector {
            let found = lookup(object, path).and_then(|found| match found {
                Some(value) if !value.is_string() => Err(wrong_type(path, value, "string")),
                _ => Ok(()),
            });
            if let Err(error) = found {
                errors.push(FieldError::invalid(path, "", error));
            }
        }
        errors
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

/// The value at a dotted path; an error where the way leads through something that is no object.
fn lookup<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut place = object;
    for part in parts(path) {
        let Some(fields) = place.as_object() else {
            if place.is_null() {
                return Ok(None);
            }
            return Err(wrong_type(path, place, "map[string]interface{}"));
        };
        match fields.get(part) {
            Some(value) => place = value,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

fn whole_number(object: &Value, path: &str) -> Result<Option<i64>, ApiError> {
    match lookup(object, path).map_err(ApiError::bad_request)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::bad_request(wrong_type(path, value, "int64"))),
        },
    }
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    };
    format!("{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}
