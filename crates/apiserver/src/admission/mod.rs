//! Built-in admission: what an object gets, or is refused for, because of the cluster it comes into. In the
//! order of a real server; what is switched off in the control plane we compare with (service account
//! tokens, limits, quotas) is not here.

mod namespaces;
mod pods;
mod storage;
#[cfg(test)]
mod tests;

use crate::{
    contract::{Attributes, Context},
    error::ApiError,
    kinds::json::text,
};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// Changes an object on its way in, or refuses it. It has its defaults; it has not been validated yet.
/// For a delete `new` is `None`; for a binding it is the binding.
pub fn admit(
    attributes: &Attributes,
    operation: Operation,
    new: Option<&mut Value>,
    old: Option<&Value>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    namespaces::live(attributes, operation, new.as_deref(), context)?;
    let Some(new) = new else { return Ok(()) };
    let creates = operation == Operation::Create;
    match (attributes.group.as_str(), attributes.resource.as_str(), attributes.subresource.as_str()) {
        ("", "nodes", "") if creates => pods::taint_new_node(new),
        ("", "pods", "") if creates => {
            pods::priority(attributes, new, context)?;
            pods::default_tolerations(new);
            pods::runtime_class(attributes, new)?;
            pods::topology_labels_of_assigned(new, context);
        }
        ("", "pods", "") if operation == Operation::Update => {
            if let Some(old) = old {
                pods::keep_priority(new, old);
            }
            pods::default_tolerations(new);
        }
        ("", "pods", "binding") if creates => pods::topology_labels(new, context),
        ("", "persistentvolumeclaims", "") if creates => {
            storage::default_class(new, context);
            storage::protect(new, "kubernetes.io/pvc-protection");
        }
        ("", "persistentvolumes", "") if creates => storage::protect(new, "kubernetes.io/pv-protection"),
        _ => {}
    }
    Ok(())
}

/// Refuses an object that is sound by itself but does not fit into this cluster. Called after the kind's own
/// validation.
pub fn validate(
    attributes: &Attributes,
    operation: Operation,
    new: &Value,
    old: Option<&Value>,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    match (attributes.group.as_str(), attributes.resource.as_str(), attributes.subresource.as_str()) {
        ("scheduling.k8s.io", "priorityclasses", "") => {
            pods::one_default_priority(attributes, operation, new, context)
        }
        ("", "persistentvolumeclaims", "") => match old {
            Some(old) => storage::expansion(attributes, new, old, context),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Refused by admission: names the resource and the object.
fn refuse(attributes: &Attributes, object: Option<&Value>, why: &str) -> ApiError {
    let given = attributes.name.as_str();
    let named = object.map(|object| text(object, &["metadata", "name"])).unwrap_or_default();
    let generated = object.map(|object| text(object, &["metadata", "generateName"])).unwrap_or_default();
    let name = [given, named, generated].into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
    ApiError::forbidden(&attributes.group, &attributes.resource, name, why)
}

/// Adds an element to a list, which is made if there is none.
fn push(object: &mut Value, key: &str, element: Value) {
    match object.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.push(element),
        None => crate::kinds::json::set(object, key, vec![element]),
    }
}
