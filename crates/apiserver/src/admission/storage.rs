//! Claims get the default class and, like volumes, are kept while something uses them.

use super::{push, refuse};
use crate::{
    contract::{Attributes, Context, GroupResource},
    error::ApiError,
    kinds::{
        Quantity,
        json::{at, child, flag, has, items, set, text},
    },
};
use serde_json::Value;
use std::cmp::Reverse;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

fn class_of(claim: &Value) -> Option<&str> {
    let annotated = at(claim, &["metadata", "annotations", CLASS_ANNOTATION]).as_str();
    annotated.or_else(|| at(claim, &["spec", "storageClassName"]).as_str())
}

/// A claim that names no class gets the newest of those marked as default.
pub(super) fn default_class(claim: &mut Value, context: &Context<'_>) {
    if class_of(claim).is_some() {
        return;
    }
    let is_default = |class: &Value| {
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|key| text(class, &["metadata", "annotations", key]) == "true")
    };
    let classes = context.lookup.list(&GroupResource::new("storage.k8s.io", "storageclasses"), "");
    let newest = classes
        .iter()
        .filter(|class| is_default(class))
        .min_by_key(|class| {
            (Reverse(text(class, &["metadata", "creationTimestamp"])), text(class, &["metadata", "name"]))
        })
        .map(|class| text(class, &["metadata", "name"]).to_owned());
    if let Some(name) = newest
        && let Some(spec) = child(claim, "spec")
    {
        set(spec, "storageClassName", name);
    }
}

/// Adds the finalizer that keeps it while it is in use.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let protected = items(object, &["metadata", "finalizers"]).iter().any(|one| one == finalizer);
    if !protected && let Some(metadata) = child(object, "metadata") {
        push(metadata, "finalizers", finalizer.into());
    }
}

/// Only a bound claim of a class that allows it grows.
pub(super) fn expansion(
    attributes: &Attributes,
    new: &Value,
    old: &Value,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    let size = |claim: &Value| {
        Quantity::parse(text(claim, &["spec", "resources", "requests", "storage"])).unwrap_or_default()
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    if text(old, &["status", "phase"]) != "Bound" {
        return Err(refuse(attributes, Some(new), "Only bound persistent volume claims can be expanded"));
    }
    let class = class_of(new).filter(|class| !class.is_empty() && class_of(old) == Some(class));
    let allowed = class.is_some_and(|class| {
        let found = context.lookup.get(&GroupResource::new("storage.k8s.io", "storageclasses"), "", class);
        found.is_some_and(|class| has(&class, &["metadata"]) && flag(&class, &["allowVolumeExpansion"]))
    });
    if allowed {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(refuse(attributes, Some(new), why))
}
