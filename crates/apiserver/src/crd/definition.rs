//! Whether a definition is one a real server would accept.

use super::{
    field_path,
    schema::Schema,
    schema_rules::{self, Place},
    status::stored_versions,
    structural,
};
use crate::{
    field::{Fault, FieldError},
    kinds::names,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MOST_SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const APPROVAL: &str = "api-approved.kubernetes.io";

/// What is wrong with a definition after [`super::default_crd`]; `old` is the definition before an update.
pub fn validate_crd(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |path: &str| new.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if old.is_none() {
        check_name(text("/metadata/name"), text("/spec/names/plural"), text("/spec/group"), &mut errors);
    }
    let nothing = Value::Null;
    let spec = new.get("spec").unwrap_or(&nothing);
    check_spec(spec, &mut errors);
    if let Some(old) = old {
        check_unchanged(new, old, &mut errors);
    }
    check_stored_versions(new, &mut errors);
    check_approval(new, old, &mut errors);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

fn check_name(name: &str, plural: &str, group: &str, errors: &mut Vec<FieldError>) {
    let mut faults = names::subdomain(name);
    if name != format!("{plural}.{group}") {
        faults.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid("metadata.name", name, fault)));
}

fn check_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("group");
    let group_faults = names::subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !group_faults.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, group_faults.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match text("scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    check_versions(spec, errors);
    let names_json = spec.get("names").unwrap_or(&Value::Null);
    for name in ["plural", "singular", "kind", "listKind"] {
        if names_json.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    check_names(names_json, errors);
    check_shared(spec, errors);
    check_conversion(spec, errors);
}

/// What all versions have in common is reported once, under the name of the older API where it stood for all.
fn shared<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    let versions = spec.get("versions").and_then(Value::as_array)?;
    let first = versions.first()?;
    versions
        .iter()
        .all(|version| version.get(field) == first.get(field))
        .then(|| first.get(field).unwrap_or(&Value::Null))
}

fn check_shared(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let any_status = versions.into_iter().any(has_status);
    let mut compiled = None;
    if let Some(json) = shared(spec, "schema").and_then(|schema| schema.get("openAPIV3Schema"))
        && json.is_object()
    {
        compiled = Some(check_schema(json, "spec.validation.openAPIV3Schema", any_status, errors));
    }
    if let Some(subresources) = shared(spec, "subresources") {
        check_scale(subresources, "spec.subresources", errors);
    }
    if let Some(columns) = shared(spec, "additionalPrinterColumns") {
        check_columns(columns, "spec.additionalPrinterColumns", errors);
    }
    if let Some(fields) = shared(spec, "selectableFields") {
        let place = "spec.selectableFields";
        match (&compiled, fields.as_array().is_some_and(|fields| !fields.is_empty())) {
            (_, false) => {}
            (Some(schema), true) => check_selectable(fields, schema, place, errors),
            (None, true) => {
                errors.push(FieldError::invalid(
                    place,
                    "",
                    "may only be set when validations.schema is included",
                ));
            }
        }
    }
}

fn has_status(version: &Value) -> bool {
    version.pointer("/subresources/status").is_some_and(Value::is_object)
}

fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = |version: &Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (at, version) in versions.iter().enumerate() {
        if !version.pointer("/schema/openAPIV3Schema").is_some_and(Value::is_object) {
            errors.push(FieldError::required(format!("spec.versions[{at}].schema.openAPIV3Schema"), ""));
        }
    }
    let shares = |field: &str| shared(spec, field).is_some();
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for (at, version) in versions.iter().enumerate() {
        let place = format!("spec.versions[{at}]");
        unique &= seen.insert(name(version));
        let faults = names::label_1035(&name(version));
        if !faults.is_empty() {
            errors.push(FieldError::invalid(format!("{place}.name"), name(version), faults.join(",")));
        }
        check_deprecation(version, &place, errors);
        let schema = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object());
        let mut compiled = None;
        if let Some(schema) = schema.filter(|_| !shares("schema")) {
            let place = format!("{place}.schema.openAPIV3Schema");
            compiled = Some(check_schema(schema, &place, has_status(version), errors));
        }
        if let Some(subresources) = version.get("subresources").filter(|_| !shares("subresources")) {
            check_scale(subresources, &format!("{place}.subresources"), errors);
        }
        if let Some(columns) =
            version.get("additionalPrinterColumns").filter(|_| !shares("additionalPrinterColumns"))
        {
            check_columns(columns, &format!("{place}.additionalPrinterColumns"), errors);
        }
        if let Some(fields) = version.get("selectableFields").filter(|_| !shares("selectableFields"))
            && let Some(json) = schema
        {
            let schema = compiled.unwrap_or_else(|| Schema::compile(json, "", &mut Vec::new()));
            check_selectable(fields, &schema, &format!("{place}.selectableFields"), errors);
        }
    }
    let mut wrong = |detail: &str| {
        let shown = shown_versions(versions);
        errors.push(
            FieldError::invalid("spec.versions", Value::Null, format!("{shown}: {detail}")).without_value(),
        );
    };
    if !unique {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    if let Some(first) = versions.first().map(name) {
        let faults = names::label_1035(&first);
        if !faults.is_empty() {
            errors.push(FieldError::invalid("spec.version", first, faults.join(",")));
        }
    }
}

/// The versions without what fills pages: their schemas, subresources and columns.
fn shown_versions(versions: &[Value]) -> String {
    let show = |version: &Value| {
        let flag = |name: &str| version.get(name).and_then(Value::as_bool).unwrap_or_default();
        let value = |name: &str| version.get(name).cloned().unwrap_or_default();
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\
             \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            value("name"),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            value("deprecationWarning"),
        )
    };
    format!("[{}]", versions.iter().map(show).collect::<Vec<_>>().join(","))
}

fn check_deprecation(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid(format!("{place}.deprecationWarning"), warning, detail));
    };
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        wrong("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        wrong("must be <= 256 characters long");
    }
    if warning.is_empty() {
        wrong("must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        wrong(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn check_names(names_json: &Value, errors: &mut Vec<FieldError>) {
    let text = |name: &str| names_json.get(name).and_then(Value::as_str).unwrap_or_default();
    let list = |name: &str| names_json.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
    let mut label = |place: String, text: &str, prefix: &str, judged: &str| {
        let faults = names::label_1035(judged);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(place, text, format!("{prefix}{}", faults.join(","))));
        }
    };
    for name in ["plural", "singular"] {
        if !text(name).is_empty() {
            label(format!("spec.names.{name}"), text(name), "", text(name));
        }
    }
    for name in ["kind", "listKind"] {
        if !text(name).is_empty() {
            let prefix = "may have mixed case, but should otherwise match: ";
            label(format!("spec.names.{name}"), text(name), prefix, &text(name).to_lowercase());
        }
    }
    for (at, short) in list("shortNames") {
        let short = short.as_str().unwrap_or_default();
        label(format!("spec.names.shortNames[{at}]"), short, "", short);
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", text("listKind"), detail));
    }
    for (at, category) in list("categories") {
        let category = category.as_str().unwrap_or_default();
        let faults = names::label_1035(category);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(
                format!("spec.names.categories[{at}]"),
                category,
                faults.join(","),
            ));
        }
    }
}

/// Checks a schema and returns it compiled.
fn check_schema(json: &Value, place: &str, status_enabled: bool, errors: &mut Vec<FieldError>) -> Schema {
    let mut found = Vec::new();
    if status_enabled {
        structural::check_root_with_status(json, place, &mut found);
    }
    if json.get("nullable") == Some(&Value::Bool(true)) {
        found.push(FieldError::forbidden(format!("{place}.nullable"), "nullable cannot be true at the root"));
    }
    let mut flaws = Vec::new();
    let schema = Schema::compile(json, place, &mut flaws);
    let (rule_flaws, pattern_flaws): (Vec<_>, Vec<_>) = flaws.into_iter().partition(|flaw| flaw.of_rule);
    let mut structure = structural::check(json, place);
    structure.extend(
        pattern_flaws.into_iter().map(|flaw| FieldError::invalid(flaw.place, flaw.value, flaw.detail)),
    );
    let sound = structure.is_empty();
    if sound {
        structural::check_defaults(&schema, place, &mut structure);
    }
    let rules_can_be_judged = structure.is_empty();
    structure.sort_by_key(ToString::to_string);
    found.extend(structure);
    let mut schema_errors = Vec::new();
    schema_rules::check(json, &schema, &Place::root(place), &mut schema_errors);
    let rules_can_be_judged = rules_can_be_judged && schema_errors.is_empty();
    found.extend(schema_errors);
    if rules_can_be_judged {
        schema_rules::check_expressions(json, &schema, place, rule_flaws, &mut found);
    }
    errors.extend(found);
    schema
}

fn check_scale(subresources: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return };
    let mut check = |name: &str, required: bool, roots: &[&str], words: &str| {
        let place = format!("{place}.scale.{name}");
        match scale.get(name).and_then(Value::as_str).unwrap_or_default() {
            "" if required => errors.push(FieldError::required(place, "")),
            "" => {}
            path if !path.starts_with('.') => {
                errors.push(FieldError::invalid(place, path, "must be a simple json path starting with ."));
            }
            path if !roots.iter().any(|root| path.starts_with(root)) => {
                errors.push(FieldError::invalid(place, path, format!("should be a json path under {words}")));
            }
            _ => {}
        }
    };
    check("specReplicasPath", true, &[".spec."], ".spec");
    check("statusReplicasPath", true, &[".status."], ".status");
    check("labelSelectorPath", false, &[".spec.", ".status."], "either .spec or .status");
}

fn check_columns(columns: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, column) in columns.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        let place = |name: &str| format!("{place}[{at}].{name}");
        if text("name").is_empty() {
            errors.push(FieldError::required(place("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text("type") {
            "" => errors.push(FieldError::required(place("type"), types)),
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.push(FieldError::invalid(place("type"), kind, types));
            }
            _ => {}
        }
        let format = text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(place("format"), format, detail));
        }
        match text("jsonPath") {
            "" => errors.push(FieldError::required(place("JSONPath"), "")),
            path if !path.starts_with('.') => {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(place("JSONPath"), path, detail));
            }
            _ => {}
        }
    }
}

fn check_selectable(fields: &Value, schema: &Schema, place: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (at, field) in fields.as_array().into_iter().flatten().enumerate() {
        let place = format!("{place}[{at}].jsonPath");
        let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if path.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let (name, found) = match field_path::resolve_dotted(path, schema) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(place, path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if name.split('.').next() == Some("metadata") {
            errors.push(FieldError::invalid(place.clone(), path, "must not point to fields in metadata"));
        }
        if !matches!(found.declared_type.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(place.clone(), path, detail));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(place, path));
        }
    }
    if seen.len() > MOST_SELECTABLE_FIELDS {
        let detail = format!("must have at most {MOST_SELECTABLE_FIELDS} items");
        errors.push(FieldError::new(Fault::TooMany, place, json!(seen.len()), detail));
    }
}

fn check_conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.conversion";
    let conversion = spec.get("conversion").unwrap_or(&Value::Null);
    match conversion.get("strategy").and_then(Value::as_str).unwrap_or_default() {
        "" => errors.push(FieldError::required(format!("{place}.strategy"), "")),
        "None" => {}
        "Webhook" => {
            let detail = "this API server has no conversion webhooks yet; use None, which changes nothing but apiVersion";
            errors.push(FieldError::invalid(format!("{place}.strategy"), "Webhook", detail));
            return;
        }
        other => {
            errors.push(FieldError::not_supported(format!("{place}.strategy"), other, &["None", "Webhook"]));
        }
    }
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let forbidden = "should not be set when strategy is not set to Webhook";
    if webhook.get("clientConfig").is_some_and(Value::is_object) {
        errors.push(FieldError::forbidden(format!("{place}.webhookClientConfig"), forbidden));
    }
    if webhook.get("conversionReviewVersions").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    {
        errors.push(FieldError::forbidden(format!("{place}.conversionReviewVersions"), forbidden));
    }
}

/// Group and plural are the object's name; scope and kind are settled once objects may exist.
fn check_unchanged(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let established = super::is_established(old);
    for (path, place, settled_later) in [
        ("/spec/scope", "spec.scope", true),
        ("/spec/names/kind", "spec.names.kind", true),
        ("/spec/group", "spec.group", false),
        ("/spec/names/plural", "spec.names.plural", false),
    ] {
        let value = |crd: &Value| crd.pointer(path).cloned().unwrap_or_default();
        if (established || !settled_later) && value(new) != value(old) {
            errors.push(FieldError::invalid(place, value(new), "field is immutable"));
        }
    }
}

fn check_stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let place = "status.storedVersions";
    let stored = stored_versions(crd);
    if stored.is_empty() {
        errors.push(FieldError::invalid(place, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = || crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let name = |version: &Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let storage = versions().filter(|version| version.get("storage") == Some(&Value::Bool(true))).map(name);
    for missing in storage.filter(|storage| !stored.contains(storage)) {
        let detail = format!("must have the storage version {missing}");
        errors.push(FieldError::invalid(place, stored.clone(), detail));
    }
    let listed: BTreeSet<String> = versions().map(name).collect();
    for (at, version) in stored.iter().enumerate().filter(|(_, version)| !listed.contains(*version)) {
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{place}[{at}]"), version.as_str(), detail));
    }
}

/// Groups of the Kubernetes project are not for everybody.
fn check_approval(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = new.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let protected = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return;
    }
    let annotation = |crd: &Value| -> String {
        let annotations = crd.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(APPROVAL)?.as_str()).unwrap_or_default().to_owned()
    };
    let value = annotation(new);
    if old.is_some_and(|old| approval_state(&annotation(old)) == approval_state(&value)) {
        return;
    }
    let place = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval_state(&value) {
        Approval::Missing => {
            let detail = format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
            errors.push(FieldError::required(place, detail));
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting \
                 with \"unapproved\", {see}"
            );
            errors.push(FieldError::invalid(place, value, detail));
        }
        Approval::Given => {}
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Given,
}

fn approval_state(annotation: &str) -> Approval {
    let url =
        annotation.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    match annotation {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") || url => Approval::Given,
        _ => Approval::Invalid,
    }
}
