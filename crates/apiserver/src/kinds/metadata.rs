//! What every object's metadata must look like, whatever its kind.

use super::{
    json::{at, entries, flag, has, items, text},
    names::{NameRule, label_value, name_errors, qualified_name},
    report::in_order,
};
use crate::{
    field::{Fault, FieldError},
    types,
};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeSet, fmt::Display};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// How objects of this resource are named; custom resources are named like most.
pub fn name_rule(group: &str, resource: &str) -> NameRule {
    match (group, resource) {
        ("", "namespaces" | "services") | ("apps", "statefulsets") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", "certificatesigningrequests") => {
            NameRule::PathSegment
        }
        ("storage.k8s.io", "csidrivers") => NameRule::Own,
        _ => NameRule::Subdomain,
    }
}

/// On create; a generated name has already been made.
pub fn validate_create(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let metadata = at(object, &["metadata"]);
    let mut errors = Vec::new();
    let prefix = text(metadata, &["generateName"]);
    if !prefix.is_empty() {
        let wrong = name_errors(rule, prefix, true);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid("metadata.generateName", prefix, why)));
    }
    let name = text(metadata, &["name"]);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = name_errors(rule, name, false);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    let namespace = text(metadata, &["namespace"]);
    if !namespaced {
        if !namespace.is_empty() {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    } else {
        let wrong = name_errors(NameRule::Label, namespace, false);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid("metadata.namespace", namespace, why)));
    }
    validate_common(metadata, &mut errors);
    let finalizers = items(metadata, &["finalizers"]);
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        let wrong = qualified_name(finalizer);
        errors
            .extend(wrong.into_iter().map(|why| FieldError::invalid("metadata.finalizers", finalizer, why)));
    }
    let holds = |name: &str| finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name));
    if holds("orphan") && holds("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", at(metadata, &["finalizers"]).clone(), why));
    }
    short_finalizers(object, &mut errors);
    errors
}

/// Built-in kinds know all finalizers without a domain; custom ones may have any.
fn short_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = items(object, &["metadata", "finalizers"]);
    if finalizers.is_empty() || types::kind(text(object, &["apiVersion"]), text(object, &["kind"])).is_none()
    {
        return;
    }
    for (index, finalizer) in finalizers.iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{index}]"), finalizer, why));
        }
    }
}

/// On update; what the server keeps by itself (uid, creation time and the like when left out) has already been
/// put back into `new`.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let whole = new;
    let (new, old) = (at(new, &["metadata"]), at(old, &["metadata"]));
    let mut errors = Vec::new();
    if has(old, &["deletionTimestamp"]) {
        let before: BTreeSet<&str> = items(old, &["finalizers"]).iter().filter_map(Value::as_str).collect();
        let added: BTreeSet<&str> = items(new, &["finalizers"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", why));
        }
    }
    for key in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (new, old) = (at(new, &[key]), at(old, &[key]));
        if new != old {
            errors.push(FieldError::invalid(format!("metadata.{key}"), new.clone(), "field is immutable"));
        }
    }
    validate_common(new, &mut errors);
    short_finalizers(whole, &mut errors);
    errors
}

fn validate_common(metadata: &Value, errors: &mut Vec<FieldError>) {
    validate_labels(metadata, &["labels"], "metadata.labels", errors);
    validate_annotations(metadata, "metadata.annotations", errors);
    validate_owners(metadata, errors);
}

/// The labels at `path`, also a node selector or `matchLabels`.
pub(crate) fn validate_labels(
    object: &Value,
    path: &[&str],
    field: impl Display,
    errors: &mut Vec<FieldError>,
) {
    for (key, value) in entries(object, path) {
        errors.extend(
            qualified_name(key).into_iter().map(|why| FieldError::invalid(field.to_string(), key, why)),
        );
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            label_value(value).into_iter().map(|why| FieldError::invalid(field.to_string(), value, why)),
        );
    }
}

pub(crate) fn validate_annotations(metadata: &Value, field: impl Display, errors: &mut Vec<FieldError>) {
    let annotations = entries(metadata, &["annotations"]);
    for (key, _) in &annotations {
        let is_lower = !key.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
        let lower = if is_lower { Cow::Borrowed(*key) } else { Cow::Owned(key.to_lowercase()) };
        let wrong = qualified_name(&lower);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(field.to_string(), *key, why)));
    }
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::new(Fault::TooLong, field.to_string(), Value::Null, detail));
    }
}

/// The owners with their fields in the order of a real server.
fn shown_owners(metadata: &Value) -> String {
    let owner = |owner: &Value| {
        let keys = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
        let fields: Vec<(&str, Value)> =
            keys.iter().filter_map(|key| Some((*key, owner.get(key)?.clone()))).collect();
        in_order(&fields)
    };
    let owners: Vec<String> = items(metadata, &["ownerReferences"]).iter().map(owner).collect();
    format!("[{}]", owners.join(","))
}

fn validate_owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in items(metadata, &["ownerReferences"]) {
        let version = text(owner, &["apiVersion"]);
        // `a/b/c` cannot be split into group and version and counts as empty.
        if version.is_empty() || version.ends_with('/') || version.matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                format!("{field}.apiVersion"),
                version,
                "version must not be empty",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(owner, &[key]).is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{key}"), "", "must not be empty"));
            }
        }
        let kind = text(owner, &["kind"]);
        if version == "v1" && kind == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(field, owner.clone(), why));
        }
        if flag(owner, &["controller"]) {
            let this = format!("{kind}/{}", text(owner, &["name"]));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    let error = FieldError::invalid(field, Value::Null, why);
                    errors.push(error.shown_as(shown_owners(metadata)));
                }
            }
        }
    }
}
