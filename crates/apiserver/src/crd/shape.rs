//! Pruning and defaulting: giving an object the shape its schema describes.

use super::schema::{Additional, Schema};
use crate::go_json::MOST_COMPLAINTS;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// These belong to the server in every resource, embedded ones included.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What the metadata of an embedded resource may hold.
const OBJECT_META: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Removes what the schema does not name, then nulls that may not be null and have no default.
/// Returns the paths of unknown fields, sorted.
pub(super) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(object, Some(schema), Mode { root: true, keep: false });
    prune_nulls(object, Some(schema));
    whole_floats_to_integers(object);
    pruner.unknown.sort();
    pruner.unknown
}

/// Removes from a value inside an object what its schema does not name; whether anything was removed.
pub(super) fn prune_part(value: &mut Value, schema: &Schema) -> bool {
    let mut pruner = Pruner::default();
    pruner.prune(value, Some(schema), Mode::default());
    !pruner.unknown.is_empty()
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Mode {
    root: bool,
    /// Unknown fields of this value stay, whatever its own schema says.
    keep: bool,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, mode: Mode) {
        let keep = mode.keep || schema.is_some_and(|schema| schema.preserve_unknown);
        let root = mode.root;
        let embedded = root || schema.is_some_and(|schema| schema.embedded);
        match value {
            Value::Object(fields) => {
                fields.retain(|name, field| {
                    if embedded && META_FIELDS.contains(&name.as_str()) {
                        if !root && name == "metadata" {
                            prune_object_meta(field);
                        }
                        return true;
                    }
                    let length = self.path.len();
                    if !self.path.is_empty() {
                        self.path.push('.');
                    }
                    self.path.push_str(name);
                    let known = match schema.map(|schema| (schema.properties.get(name), &schema.additional)) {
                        Some((Some(property), _)) => {
                            self.prune(field, Some(property), Mode::default());
                            true
                        }
                        Some((None, Additional::Schema(additional))) => {
                            self.prune(field, Some(additional), Mode::default());
                            true
                        }
                        Some((None, Additional::Allowed(_))) => {
                            self.prune(field, None, Mode::default());
                            true
                        }
                        _ if keep => true,
                        _ => {
                            if self.unknown.len() < MOST_COMPLAINTS {
                                self.unknown.push(self.path.clone());
                            }
                            false
                        }
                    };
                    self.path.truncate(length);
                    known
                });
            }
            Value::Array(items) => {
                let item_schema = schema.and_then(|schema| schema.items.as_deref());
                if keep && item_schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    let _ = write!(self.path, "[{index}]");
                    self.prune(item, item_schema, Mode { root: false, keep });
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

fn prune_object_meta(metadata: &mut Value) {
    if let Value::Object(fields) = metadata {
        fields.retain(|name, value| OBJECT_META.contains(&name.as_str()) && !value.is_null());
    }
}

fn prune_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let schema = schema.and_then(|schema| schema.of_field(name));
            if field.is_null() && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none()) {
                return false;
            }
            prune_nulls(field, schema);
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                prune_nulls(item, schema);
            }
        }
        _ => {}
    }
}

/// `1.0` is kept as `1`: a real server's encoder knows no difference.
fn whole_floats_to_integers(value: &mut Value) {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) =
                number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= LARGEST)
            {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_floats_to_integers),
        Value::Object(fields) => fields.values_mut().for_each(whole_floats_to_integers),
        _ => {}
    }
}

/// Fills what was left out; a null where none is allowed counts as left out.
pub(super) fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && is_missing(fields, name, property)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    self::default(field, property);
                } else if let Additional::Schema(additional) = &schema.additional {
                    default_entry(field, additional);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    default_entry(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn default_entry(entry: &mut Value, schema: &Schema) {
    if entry.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *entry = default.clone();
    }
    default(entry, schema);
}

fn is_missing(fields: &Map<String, Value>, name: &str, schema: &Schema) -> bool {
    match fields.get(name) {
        None => true,
        Some(value) => value.is_null() && !schema.nullable,
    }
}
