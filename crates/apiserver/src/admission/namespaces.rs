//! Nothing comes into a namespace that is not there or is going away.

use super::{Operation, refuse};
use crate::{
    contract::{Attributes, Context, GroupResource},
    error::{ApiError, Cause},
    kinds::json::text,
};
use serde_json::Value;
use std::sync::LazyLock;

static NAMESPACES: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "namespaces"));

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn live(
    attributes: &Attributes,
    operation: Operation,
    new: Option<&Value>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    let is_namespace = attributes.group.is_empty() && attributes.resource == "namespaces";
    if is_namespace {
        if operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str()) {
            return Err(refuse(attributes, new, "this namespace may not be deleted"));
        }
        return Ok(());
    }
    let is_review =
        attributes.group == "authorization.k8s.io" && attributes.resource == "localsubjectaccessreviews";
    if attributes.namespace.is_empty() || operation == Operation::Delete || is_review {
        return Ok(());
    }
    let name = attributes.namespace.as_str();
    let Some(namespace) = context.lookup.get(&NAMESPACES, "", name) else {
        return Err(ApiError::not_found("", "namespaces", name));
    };
    if operation != Operation::Create || text(&namespace, &["status", "phase"]) != "Terminating" {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = refuse(attributes, new, &why);
    error.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    Err(error)
}
