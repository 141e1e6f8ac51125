//! Namespaces: active until they are deleted, then held by the finalizers in their spec.

use super::{
    json::{child, has, items, set, text},
    metadata::STANDARD_FINALIZERS,
    names::qualified_name,
    report::Report,
};
use crate::{
    contract::{Context, Kind, keep},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) struct Namespaces;

impl Kind for Namespaces {
    fn default(&self, namespace: &mut Value) {
        label_with_name(namespace);
    }

    fn prepare_create(&self, namespace: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        label_with_name(namespace);
        set(namespace, "status", json!({ "phase": "Active" }));
        if let Some(spec) = child(namespace, "spec") {
            let mut finalizers = items(spec, &["finalizers"]).to_vec();
            if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
                finalizers.push(json!("kubernetes"));
            }
            set(spec, "finalizers", finalizers);
        }
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "spec");
        keep(new, old, "status");
        Ok(())
    }

    fn validate(&self, namespace: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for finalizer in items(namespace, &["spec", "finalizers"]).iter().filter_map(Value::as_str) {
            report.wrong("spec.finalizers", finalizer, qualified_name(finalizer));
            if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                report.invalid("spec.finalizers", finalizer, why);
            }
        }
        report.errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let phase = text(new, &["status", "phase"]);
        if has(new, &["metadata", "deletionTimestamp"]) {
            if phase != "Terminating" {
                let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                report.invalid("status.Phase", phase, why);
            }
        } else if phase != "Active" {
            report.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
        }
        report.errors
    }

    /// `finalize` is how the finalizers in the spec are taken away.
    fn prepare_subresource_update(
        &self,
        _subresource: &str,
        new: &mut Value,
        old: &Value,
        _context: &Context<'_>,
    ) {
        keep(new, old, "status");
    }

    fn validate_subresource_update(&self, _subresource: &str, new: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(new)
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn is_held(&self, namespace: &Value) -> bool {
        !items(namespace, &["metadata", "finalizers"]).is_empty()
            || !items(namespace, &["spec", "finalizers"]).is_empty()
    }

    fn begin_deletion(&self, namespace: &mut Value) {
        if let Some(status) = child(namespace, "status") {
            set(status, "phase", "Terminating");
        }
    }
}

fn label_with_name(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty()
        && let Some(metadata) = child(namespace, "metadata")
        && let Some(labels) = child(metadata, "labels")
    {
        set(labels, NAME_LABEL, name);
    }
}
