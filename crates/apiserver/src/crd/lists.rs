//! `x-kubernetes-list-type`: the items of a set, and the keys of a list-map's items, are unique.

use super::{
    path::Path,
    schema::{ListType, Schema},
};
use crate::field::FieldError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(property, field, &path.field(name), errors);
                } else if let Some(additional) = schema.of_field(name) {
                    check(additional, field, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                ListType::Set => check_unique(items, path, errors),
                ListType::Map => check_keys(schema, items, path, errors),
                ListType::Atomic => {}
            }
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    check(item_schema, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// Each value that comes again is named once, at its second place.
fn check_unique(items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(path.index(index).text(), item.clone()));
        }
    }
}

fn check_keys(schema: &Schema, items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut keys = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match item {
            Value::Null => keys.push(Value::Object(Map::new())),
            Value::Object(fields) => {
                let present =
                    schema.list_keys.iter().filter_map(|key| Some((key.clone(), fields.get(key)?.clone())));
                keys.push(Value::Object(present.collect()));
            }
            other => {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(path.index(index).text(), other.clone(), detail));
                return;
            }
        }
    }
    check_unique(&keys, path, errors);
}
