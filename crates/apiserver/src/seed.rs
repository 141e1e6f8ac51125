//! What a fresh cluster starts with.

use crate::{access, handlers::Internal, server::Core};
use serde_json::{Value, json};
use std::sync::Arc;

fn priority_class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value, "preemptionPolicy": "PreemptLowerPriority", "description": description,
    })
}

fn objects() -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut objects: Vec<Value> =
        ["default", "kube-node-lease", "kube-public", "kube-system"].into_iter().map(namespace).collect();
    objects.push(priority_class(
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ));
    objects.push(priority_class(
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ));
    objects.extend(access::bootstrap_objects());
    objects
}

/// Creates the objects through the same path as everyone else's.
pub(crate) fn seed(core: &Arc<Core>) {
    for object in objects() {
        let group = match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
            Some((group, _)) => group,
            None => "",
        };
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(resource) = core.registry.by_kind(group, kind) else {
            tracing::error!(kind, "a seed object of unknown kind was left out");
            continue;
        };
        let namespace = crate::object::namespace(&object).to_owned();
        Internal::new(core, &resource.id, &namespace, "").create(object);
    }
}
