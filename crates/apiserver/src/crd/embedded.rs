//! `x-kubernetes-embedded-resource`: a whole object inside another one has a valid apiVersion, kind and metadata.

use super::{path::Path, schema::Schema};
use crate::{field::FieldError, kinds::names};
use serde_json::{Map, Value};

pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                check_resource(fields, path, errors);
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(property, field, &path.field(name), errors);
                } else if let Some(additional) = schema.of_field(name) {
                    check(additional, field, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    check(item_schema, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_resource(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = || path.field(name).text();
        match fields.get(name) {
            None => errors.push(FieldError::required(field(), "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field(), "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(field(), text.as_str(), detail));
                }
            }
            Some(Value::String(text)) => {
                let faults = names::label_1035(&text.to_lowercase());
                if !faults.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", faults.join(","));
                    errors.push(FieldError::invalid(field(), text.as_str(), detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field(), other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        check_metadata(metadata, &path.field("metadata"), errors);
    }
}

fn check_metadata(metadata: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(fields) = metadata.as_object() else {
        errors.push(FieldError::invalid(path.text(), metadata.clone(), "must be an object"));
        return;
    };
    for name in ["name", "generateName"] {
        match fields.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                for fault in names::path_segment(text, name == "generateName") {
                    errors.push(FieldError::invalid(path.field(name).text(), text.as_str(), fault));
                }
            }
            Some(other) => {
                errors.push(FieldError::invalid(path.field(name).text(), other.clone(), "must be a string"));
            }
        }
    }
    for name in ["labels", "annotations"] {
        match fields.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (key, value) in entries {
                    check_entry(name, key, value, &path.field(name), errors);
                }
            }
            Some(other) => {
                let detail = "must be a map of strings";
                errors.push(FieldError::invalid(path.field(name).text(), other.clone(), detail));
            }
        }
    }
}

fn check_entry(kind: &str, key: &str, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(text) = value.as_str() else {
        errors.push(FieldError::invalid(path.key(key).text(), value.clone(), "must be a string"));
        return;
    };
    let name = if kind == "annotations" { key.to_lowercase() } else { key.to_owned() };
    for fault in names::qualified_name(&name) {
        errors.push(FieldError::invalid(path.text(), key, fault));
    }
    if kind == "labels" {
        for fault in names::label_value(text) {
            errors.push(FieldError::invalid(path.text(), text, fault));
        }
    }
}
