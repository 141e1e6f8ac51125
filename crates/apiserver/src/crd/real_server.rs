//! Tables of what a real kube-apiserver 1.36 answered, compared with what we answer.

use super::{CustomKind, default_crd, validate_crd};
use crate::{error::ApiError, field::FieldError};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

fn definition(kind: &str, schema: &Value, version: &Value) -> Value {
    let mut v1 =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if let (Some(v1), Some(more)) = (v1.as_object_mut(), version.as_object()) {
        v1.extend(more.clone());
    }
    let plural = format!("{}s", kind.to_lowercase());
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.r.example.com")},
        "spec": {
            "group": "r.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [v1],
        },
    });
    default_crd(&mut crd);
    crd
}

fn compiled(kind: &str, schema: &Value, version: &Value) -> CustomKind {
    let crd = definition(kind, schema, version);
    assert_eq!(shown(&validate_crd(&crd, None)), Vec::<String>::new(), "{kind}");
    CustomKind::compile(&crd).unwrap()
}

fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Reason, field and message of each cause. The order of a real server's changes from run to run.
fn causes(causes: &Value) -> Vec<String> {
    let part = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let list = causes.as_array().into_iter().flatten();
    let mut texts: Vec<String> = list
        .map(|cause| {
            format!("{} {}: {}", part(cause, "reason"), part(cause, "field"), part(cause, "message"))
        })
        .collect();
    texts.sort();
    texts
}

fn causes_of(errors: &[FieldError]) -> Vec<String> {
    causes(&ApiError::invalid("g", "K", "n", errors).status()["details"]["causes"])
}

fn without_meta(object: &Value) -> Value {
    let fields = object.as_object().cloned().unwrap_or_default();
    let meta = ["apiVersion", "kind", "metadata"];
    Value::Object(fields.into_iter().filter(|(name, _)| !meta.contains(&name.as_str())).collect())
}

#[test]
fn objects_are_judged_as_by_a_real_server() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../tests/data/custom_objects.json")).unwrap();
    let mut differences = Vec::new();
    let mut requests = 0;
    for case in &cases {
        let (name, kind) = (case["name"].as_str().unwrap(), case["kind"].as_str().unwrap());
        let mut custom = compiled(kind, &case["schema"], &case["version"]);
        let mut stored: Option<Value> = None;
        let mut rows = Vec::new();
        for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            if let Some(schema) = step.get("schema") {
                custom = compiled(kind, schema, &case["version"]);
                continue;
            }
            requests += 1;
            let version = custom.version("v1").unwrap();
            let mut object = json!({"apiVersion": "r.example.com/v1", "kind": kind, "metadata": {"name": format!("object{}", at + 1)}});
            object
                .as_object_mut()
                .unwrap()
                .extend(step["given"].as_object().cloned().unwrap_or_else(Map::new));
            version.prune(&mut object);
            version.default(&mut object);
            if version.has_status() {
                object.as_object_mut().unwrap().remove("status");
            }
            let old = stored.as_ref().filter(|_| step["op"] == "update");
            let found = causes_of(&version.validate(&object, old));
            let wanted = causes(&step["causes"]);
            if found != wanted {
                differences
                    .push(format!("{name}[{at}] {}\n  real {wanted:#?}\n  ours {found:#?}", step["given"]));
            }
            if let Some(real) = step.get("stored") {
                if without_meta(&object) != *real {
                    differences.push(format!(
                        "{name}[{at}] stored\n  real {real}\n  ours {}",
                        without_meta(&object)
                    ));
                }
                stored = Some(object.clone());
                let now: Timestamp = "2026-11-15T23:50:00Z".parse().unwrap();
                rows.push(Value::Array(version.cells(&object, now)));
            }
        }
        if let Some(columns) = case.get("columns") {
            let version = custom.version("v1").unwrap();
            let ours: Vec<Value> = version
                .columns()
                .iter()
                .map(|column| {
                    json!({
                        "name": column.name, "type": column.kind, "format": column.format,
                        "description": column.description, "priority": column.priority,
                    })
                })
                .collect();
            assert_eq!(&json!(ours), columns, "{name}");
            assert_eq!(json!(rows), case["rows"], "{name}");
        }
    }
    assert!(requests >= 250, "only {requests} requests are in the table");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn definitions_are_judged_as_by_a_real_server() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../tests/data/custom_definitions.json")).unwrap();
    let mut differences = Vec::new();
    assert!(cases.len() >= 60, "only {} definitions are in the table", cases.len());
    for case in &cases {
        let mut crd = case["definition"].clone();
        default_crd(&mut crd);
        let mut found = causes_of(&validate_crd(&crd, None));
        let mut wanted = causes(&case["causes"]);
        if case["exact"] == false {
            // Texts of Go's own parsers and dumps of Go's structs: only the place and the kind of fault count.
            for list in [&mut found, &mut wanted] {
                for text in list.iter_mut() {
                    text.truncate(text.find(": ").unwrap_or(text.len()));
                }
            }
        }
        if found != wanted {
            differences.push(format!("{}\n  real {wanted:#?}\n  ours {found:#?}", case["name"]));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn conversion_webhooks_are_refused_in_words_of_our_own() {
    let mut crd = definition("Thing", &json!({"type": "object"}), &Value::Null);
    crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let detail =
        "this API server has no conversion webhooks yet; use None, which changes nothing but apiVersion";
    let wanted = format!("spec.conversion.strategy: Invalid value: \"Webhook\": {detail}");
    assert_eq!(shown(&validate_crd(&crd, None)), [wanted]);
}
