//! Our CustomResourceDefinitions beside Gardener's: whatever can be written with theirs is taken and kept by ours.

use crate::stage::store;
use hostler_control_plane::gardener;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Every property with what decides how a value of it is taken.
fn properties(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    let of = |key: &str| schema.get(key).cloned().unwrap_or_default();
    let what = json!({
        "type": of("type"), "format": of("format"), "required": of("required"), "enum": of("enum"),
        "open": of("x-kubernetes-preserve-unknown-fields"), "intOrString": of("x-kubernetes-int-or-string"),
    });
    found.insert(path.to_owned(), what);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        properties(property, &format!("{path}.{name}"), found);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            properties(&schema[key], &format!("{path}{mark}"), found);
        }
    }
}

/// Without what the API server adds to every kind by itself.
fn own_properties(definition: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    properties(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut found);
    for common in [".apiVersion", ".kind", ".metadata"] {
        found.remove(common);
    }
    found
}

fn columns(definition: &Value) -> Vec<Value> {
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
    let without_description = |column: &Value| {
        let of = |key: &str| column.get(key).cloned().unwrap_or_default();
        json!([of("name"), of("type"), of("jsonPath"), of("priority"), of("format")])
    };
    columns.into_iter().flatten().map(without_description).collect()
}

#[test]
fn our_definitions_take_and_keep_what_gardeners_do() {
    let ours: BTreeMap<String, Value> = hostler_gardener::api::crds()
        .into_iter()
        .map(|crd| (crd.spec.names.kind.clone(), serde_json::to_value(crd).unwrap()))
        .collect();
    let theirs = gardener::definitions(&store()).unwrap();
    assert_eq!(theirs.len(), ours.len());
    for theirs in &theirs {
        let kind = theirs["spec"]["names"]["kind"].as_str().unwrap();
        let ours = &ours[kind];
        let (wanted, given) = (own_properties(theirs), own_properties(ours));
        assert!(wanted.len() > 10, "{kind}: {wanted:?}");
        for (path, what) in wanted {
            assert_eq!(given.get(&path), Some(&what), "{kind}{path}");
        }
        assert_eq!(columns(ours), columns(theirs), "{kind}: columns");
        for field in ["scope", "group"] {
            assert_eq!(ours["spec"][field], theirs["spec"][field], "{kind}: {field}");
        }
        for name in ["plural", "singular", "shortNames", "categories"] {
            let (ours, theirs) = (&ours["spec"]["names"][name], &theirs["spec"]["names"][name]);
            assert_eq!(ours, theirs, "{kind}: {name}");
        }
        let version = |definition: &Value, field: &str| definition["spec"]["versions"][0][field].clone();
        for field in ["name", "served", "storage", "subresources"] {
            assert_eq!(version(ours, field), version(theirs, field), "{kind}: {field}");
        }
    }
}
