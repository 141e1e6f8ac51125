//! What pods and nodes get on their way in: priority, tolerations, overhead, topology labels, taints.

use super::{Operation, push, refuse};
use crate::{
    contract::{Attributes, Context, GroupResource},
    error::ApiError,
    kinds::json::{at, child, empty, flag, has, items, number, remove, set, text},
};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static PRIORITY_CLASSES: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new("scheduling.k8s.io", "priorityclasses"));

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// A new node takes no pods until somebody finds it ready.
pub(super) fn taint_new_node(node: &mut Value) {
    let tainted = items(node, &["spec", "taints"])
        .iter()
        .any(|taint| text(taint, &["key"]) == NOT_READY && text(taint, &["effect"]) == "NoSchedule");
    if !tainted && let Some(spec) = child(node, "spec") {
        push(spec, "taints", json!({ "key": NOT_READY, "effect": "NoSchedule" }));
    }
}

/// The number and the preemption policy that the pod's class stands for.
pub(super) fn priority(
    attributes: &Attributes,
    pod: &mut Value,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    let name = text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        default_class(context)
    } else {
        let found = context.lookup.get(&PRIORITY_CLASSES, "", &name);
        if found.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(refuse(attributes, Some(pod), &why));
        }
        found
    };
    let value = class.as_deref().and_then(|class| number(class, &["value"])).unwrap_or_default();
    let policy = match class.as_deref() {
        None => Some("PreemptLowerPriority".to_owned()),
        Some(class) => at(class, &["preemptionPolicy"]).as_str().map(str::to_owned),
    };
    if let Some(given) = number(pod, &["spec", "priority"])
        && given != value
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(refuse(attributes, Some(pod), &why));
    }
    if let (Some(given), Some(policy)) = (at(pod, &["spec", "preemptionPolicy"]).as_str(), policy.as_deref())
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(attributes, Some(pod), &why));
    }
    if let Some(spec) = child(pod, "spec") {
        if let Some(class) = class.as_deref() {
            set(spec, "priorityClassName", text(class, &["metadata", "name"]));
        }
        set(spec, "priority", value);
        if let Some(policy) = policy {
            set(spec, "preemptionPolicy", policy);
        }
    }
    Ok(())
}

/// Of several default classes the one with the lowest value.
fn default_class(context: &Context<'_>) -> Option<Arc<Value>> {
    let classes = context.lookup.list(&PRIORITY_CLASSES, "");
    classes
        .into_iter()
        .filter(|class| flag(class, &["globalDefault"]))
        .min_by_key(|class| number(class, &["value"]).unwrap_or_default())
}

pub(super) fn keep_priority(new: &mut Value, old: &Value) {
    let Some(spec) = child(new, "spec") else { return };
    for key in ["priority", "preemptionPolicy"] {
        if !has(spec, &[key]) && has(old, &["spec", key]) {
            set(spec, key, at(old, &["spec", key]).clone());
        }
    }
}

pub(super) fn one_default_priority(
    attributes: &Attributes,
    operation: Operation,
    class: &Value,
    context: &Context<'_>,
) -> Result<(), ApiError> {
    if !flag(class, &["globalDefault"]) {
        return Ok(());
    }
    let Some(other) = default_class(context) else { return Ok(()) };
    let other = text(&other, &["metadata", "name"]);
    if operation == Operation::Create || other != text(class, &["metadata", "name"]) {
        let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
        return Err(refuse(attributes, Some(class), &why));
    }
    Ok(())
}

/// Every pod bears with a node that is not ready or cannot be reached for five minutes, unless it says
/// otherwise.
pub(super) fn default_tolerations(pod: &mut Value) {
    for taint in [NOT_READY, UNREACHABLE] {
        let tolerated = items(pod, &["spec", "tolerations"]).iter().any(|toleration| {
            matches!(text(toleration, &["key"]), key if key.is_empty() || key == taint)
                && matches!(text(toleration, &["effect"]), "" | "NoExecute")
        });
        if !tolerated && let Some(spec) = child(pod, "spec") {
            let toleration = json!({ "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
            push(spec, "tolerations", toleration);
        }
    }
}

/// There are no runtime classes here, and so no overhead that one would bring.
pub(super) fn runtime_class(attributes: &Attributes, pod: &Value) -> Result<(), ApiError> {
    let why = if let Some(name) = at(pod, &["spec", "runtimeClassName"]).as_str() {
        format!("pod rejected: RuntimeClass {name:?} not found")
    } else if !at(pod, &["spec", "overhead"]).is_null() {
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned()
    } else {
        return Ok(());
    };
    Err(refuse(attributes, Some(pod), &why))
}

/// A binding carries its node's zone and region to the pod.
pub(super) fn topology_labels(binding: &mut Value, context: &Context<'_>) {
    if text(binding, &["target", "kind"]) == "Node" {
        let node = text(binding, &["target", "name"]).to_owned();
        copy_topology(binding, &node, context);
    }
}

/// So does a pod that names its node right away.
pub(super) fn topology_labels_of_assigned(pod: &mut Value, context: &Context<'_>) {
    let node = text(pod, &["spec", "nodeName"]).to_owned();
    if !node.is_empty() {
        copy_topology(pod, &node, context);
    }
}

fn copy_topology(object: &mut Value, node: &str, context: &Context<'_>) {
    let Some(node) = context.lookup.get(&GroupResource::new("", "nodes"), "", node) else { return };
    for label in TOPOLOGY {
        if let Some(value) = at(&node, &["metadata", "labels", label]).as_str()
            && let Some(labels) = child(object, "metadata").and_then(|metadata| child(metadata, "labels"))
        {
            set(labels, label, value);
        }
    }
    if empty(at(object, &["metadata", "labels"]))
        && let Some(metadata) = object.get_mut("metadata")
    {
        remove(metadata, "labels");
    }
}
