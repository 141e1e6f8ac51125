//! The `scale` subresource: how many replicas a workload wants and has.

use super::{
    json::{at, child, has, number, set, text},
    selector,
};
use crate::{error::ApiError, field::FieldError};
use serde_json::{Value, json};

fn is_scalable(group: &str, resource: &str) -> bool {
    matches!((group, resource), ("apps", "deployments" | "replicasets" | "statefulsets"))
}

/// The object's `autoscaling/v1` Scale; `None` for what cannot be scaled.
pub fn scale_of(group: &str, resource: &str, object: &Value) -> Option<Value> {
    if !is_scalable(group, resource) {
        return None;
    }
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if has(object, &["metadata", key]) {
            set(&mut metadata, key, at(object, &["metadata", key]).clone());
        }
    }
    let mut spec = json!({});
    let wanted = number(object, &["spec", "replicas"]).unwrap_or_default();
    if wanted != 0 {
        set(&mut spec, "replicas", wanted);
    }
    let mut status = json!({ "replicas": number(object, &["status", "replicas"]).unwrap_or_default() });
    let chosen = selector::as_text(at(object, &["spec", "selector"]));
    if !chosen.is_empty() {
        set(&mut status, "selector", chosen);
    }
    Some(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    }))
}

/// Takes the wanted replicas from the Scale. Its `resourceVersion` is the caller's to check.
pub fn set_scale(group: &str, resource: &str, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
    let name = text(object, &["metadata", "name"]).to_owned();
    let replicas = number(scale, &["spec", "replicas"]).unwrap_or_default();
    if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", &name, &[error]));
    }
    let (given, own) = (text(scale, &["metadata", "uid"]), text(object, &["metadata", "uid"]));
    if !given.is_empty() && given != own {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {own}");
        return Err(ApiError::conflict(group, &format!("{resource}/scale"), &name, &why));
    }
    if let Some(spec) = child(object, "spec") {
        set(spec, "replicas", replicas);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 2},
        })
    }

    #[test]
    fn a_scale_shows_wanted_and_found_replicas() {
        let expected = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"},
        });
        assert_eq!(scale_of("apps", "deployments", &web()), Some(expected));
        assert_eq!(scale_of("apps", "daemonsets", &web()), None);
    }

    #[test]
    fn a_scale_is_taken_over_or_refused() {
        let mut object = web();
        set_scale("apps", "deployments", &mut object, &json!({"spec": {"replicas": 5}})).unwrap();
        assert_eq!(object["spec"]["replicas"], 5);
        set_scale("apps", "deployments", &mut object, &json!({"spec": {}})).unwrap();
        assert_eq!(object["spec"]["replicas"], 0);
        let negative = set_scale("apps", "deployments", &mut object, &json!({"spec": {"replicas": -1}}));
        assert_eq!(
            negative.unwrap_err().message,
            "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        let other = set_scale("apps", "deployments", &mut object, &json!({"metadata": {"uid": "v"}}));
        assert_eq!(
            other.unwrap_err().message,
            "Operation cannot be fulfilled on deployments/scale.apps \"web\": Precondition failed: UID in precondition: v, UID in object meta: u"
        );
    }
}
