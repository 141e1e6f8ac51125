//! What a definition leaves out.

use serde_json::{Map, Value, json};

/// Fills in a definition as a real server does: names, conversion, the flags of versions.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let names = spec.entry("names").or_insert_with(|| Value::Object(Map::new()));
    if let Some(names) = names.as_object_mut() {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let missing = |names: &Map<String, Value>, name: &str| {
            names.get(name).and_then(Value::as_str).unwrap_or_default().is_empty()
        };
        if missing(names, "singular") && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if missing(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    // False is the same as nothing, and a real server does not show it.
    if spec.get("preserveUnknownFields").is_some_and(|value| value.is_null() || *value == false) {
        spec.remove("preserveUnknownFields");
    }
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(version) = version.as_object_mut() {
            for flag in ["served", "storage"] {
                if version.get(flag).is_none_or(Value::is_null) {
                    version.insert(flag.to_owned(), false.into());
                }
            }
        }
    }
    let stored = super::status::stored_versions(crd);
    if !stored.is_empty()
        && let Some(crd) = crd.as_object_mut()
    {
        let status = crd.entry("status").or_insert_with(|| Value::Object(Map::new()));
        if let Some(status) = status.as_object_mut() {
            let known =
                status.get("storedVersions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            if !known {
                status.insert("storedVersions".to_owned(), json!(stored));
            }
        }
    }
}
