//! Table answers: columns and one row of cells per object.

use crate::{contract::Column, crd::CustomVersion, error::ApiError, registry::Resource, tables};
use jiff::Timestamp;
use serde_json::{Value, json};

/// What a row carries besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

pub(crate) fn include(text: &str) -> Result<Include, ApiError> {
    match text {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        other => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
             'Object', 'None', or empty"
        ))),
    }
}

fn custom_version<'a>(resource: &'a Resource, version: &str) -> Option<&'a CustomVersion> {
    resource.custom.as_ref()?.kind.version(version)
}

fn columns(resource: &Resource, version: &str) -> Vec<Column> {
    match custom_version(resource, version) {
        Some(custom) => custom.columns().to_vec(),
        None => tables::columns(resource.group(), resource.name()),
    }
}

fn cells(resource: &Resource, version: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    match custom_version(resource, version) {
        Some(custom) => custom.cells(object, now),
        None => tables::cells(resource.group(), resource.name(), object, now),
    }
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn partial(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").map_or_else(|| json!({}), Value::take);
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn row(resource: &Resource, version: &str, object: Value, include: Include, now: Timestamp) -> Value {
    let cells = cells(resource, version, &object, now);
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object),
        Include::Object => object,
    };
    json!({"cells": cells, "object": object})
}

/// A whole table; `with_columns` is off for all but the first event of a watch.
pub(crate) fn table(
    resource: &Resource,
    version: &str,
    objects: impl IntoIterator<Item = Value>,
    include: Include,
    metadata: Value,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let definitions = if with_columns {
        let definition = |column: Column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority,
            })
        };
        columns(resource, version).into_iter().map(definition).collect()
    } else {
        Value::Null
    };
    let rows: Vec<Value> =
        objects.into_iter().map(|object| row(resource, version, object, include, now)).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}
