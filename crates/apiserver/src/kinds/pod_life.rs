//! A pod's way through the server: first status, what an update may touch, deletion with a grace period,
//! and binding to a node.

use super::{
    json::{at, child, empty, entries, fill_text, has, items, items_mut, number, remove, set, text},
    pod_defaults, pod_update, pod_validation,
    quantity::Quantity,
};
use crate::{
    contract::{Context, Deletion, Kind, keep},
    error::ApiError,
    field::{Fault, FieldError},
    object,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{cmp::Ordering, collections::BTreeMap};

pub(crate) struct Pods;

impl Kind for Pods {
    fn default(&self, pod: &mut Value) {
        pod_defaults::default_pod(pod);
        pod_defaults::one_list_of_addresses(pod);
    }

    fn prepare_create(&self, pod: &mut Value, context: &Context<'_>) -> Result<(), ApiError> {
        let mut status = json!({ "phase": "Pending", "qosClass": quality_of_service(pod) });
        if !items(pod, &["spec", "schedulingGates"]).is_empty() {
            let gated = json!({
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            });
            set_condition(&mut status, gated, context.clock.now());
        }
        set(pod, "status", status);
        merge_label_keys(pod);
        Ok(())
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep(new, old, "spec");
        if let Some(metadata) = new.get_mut("metadata") {
            keep(metadata, at(old, &["metadata"]), "ownerReferences");
        }
        if let Some(status) = child(new, "status") {
            fill_text(status, "qosClass", text(old, &["status", "qosClass"]));
            keep_observed_generations(status, at(old, &["status"]));
        }
    }

    fn validate(&self, pod: &Value) -> Vec<FieldError> {
        pod_validation::validate_pod(pod)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        pod_update::validate_update(new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        pod_update::validate_status_update(new, old)
    }

    fn deletion(&self, pod: &Value, requested: Option<i64>) -> Deletion {
        graceful_deletion(pod, requested)
    }
}

/// A pod that is already being deleted keeps its grace period unless a shorter one is asked for; otherwise
/// the request counts, then the pod's own wish. Nobody stops a pod that runs nowhere.
fn graceful_deletion(pod: &Value, requested: Option<i64>) -> Deletion {
    let seconds = if has(pod, &["metadata", "deletionTimestamp"]) {
        let pending = number(pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
        requested.map_or(pending, |requested| requested.min(pending))
    } else {
        let wanted =
            requested.or_else(|| number(pod, &["spec", "terminationGracePeriodSeconds"])).unwrap_or_default();
        let ended = matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded");
        if ended || text(pod, &["spec", "nodeName"]).is_empty() {
            0
        } else if wanted < 0 {
            1
        } else {
            wanted
        }
    };
    if seconds <= 0 { Deletion::Now } else { Deletion::Graceful(seconds) }
}

/// `BestEffort`, `Burstable` or `Guaranteed`, from what the containers ask for and may use.
fn quality_of_service(pod: &Value) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    if has(pod, &["spec", "resources"]) {
        let resources = at(pod, &["spec", "resources"]);
        add_compute(&mut requests, resources, "requests");
        let limited = add_compute(&mut limits, resources, "limits");
        if !empty(at(resources, &["limits"])) && limited != 2 {
            guaranteed = false;
        }
    } else {
        for container in ["containers", "initContainers"].iter().flat_map(|list| items(pod, &["spec", list]))
        {
            let resources = at(container, &["resources"]);
            add_compute(&mut requests, resources, "requests");
            guaranteed &= add_compute(&mut limits, resources, "limits") == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds processor and memory to the sums; how many of the two were given.
fn add_compute(sums: &mut BTreeMap<&'static str, Quantity>, resources: &Value, list: &str) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        if let Some(quantity) = Quantity::parse(text(resources, &[list, name]))
            && quantity.sign() == Ordering::Greater
        {
            found += 1;
            let sum = sums.entry(name).or_default();
            *sum = sum.plus(quantity);
        }
    }
    found
}

/// Affinity terms and spread constraints that name label keys get the pod's own values of these labels.
fn merge_label_keys(pod: &mut Value) {
    let spec = at(pod, &["spec"]);
    if !has(spec, &["topologySpreadConstraints"]) && !has(spec, &["affinity"]) {
        return;
    }
    let labels = at(pod, &["metadata", "labels"]).clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        apply_label_keys(constraint, &labels);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(side)) else {
            continue;
        };
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            apply_label_keys(term, &labels);
        }
        for weighted in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                apply_label_keys(term, &labels);
            }
        }
    }
}

fn apply_label_keys(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(term, &[list]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key).and_then(Value::as_str) {
                added.push(json!({ "key": key, "operator": operator, "values": [value] }));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    if let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) {
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(expressions) = expressions.as_array_mut() {
            expressions.extend(added);
        }
    }
}

/// Who does not know `observedGeneration` does not clear it.
fn keep_observed_generations(new: &mut Value, old: &Value) {
    if number(new, &["observedGeneration"]).unwrap_or_default() == 0
        && let Some(generation) = number(old, &["observedGeneration"])
    {
        set(new, "observedGeneration", generation);
    }
    let mut before: BTreeMap<&str, Vec<Option<i64>>> = BTreeMap::new();
    for condition in items(old, &["conditions"]).iter().rev() {
        before
            .entry(text(condition, &["type"]))
            .or_default()
            .push(number(condition, &["observedGeneration"]));
    }
    for condition in items_mut(new, "conditions") {
        let known = before.get_mut(text(condition, &["type"])).and_then(Vec::pop).flatten();
        if number(condition, &["observedGeneration"]).unwrap_or_default() == 0
            && let Some(generation) = known
        {
            set(condition, "observedGeneration", generation);
        }
    }
}

/// Puts a condition into a pod's status; its time moves only when its status changes.
pub(crate) fn set_condition(status: &mut Value, mut condition: Value, now: Timestamp) {
    let time = object::seconds(now);
    set(&mut condition, "lastProbeTime", Value::Null);
    set(&mut condition, "lastTransitionTime", time);
    let Some(status) = status.as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let same = |old: &&mut Value| old.get("type") == condition.get("type");
    match conditions.iter_mut().find(same) {
        None => conditions.push(condition),
        Some(old) => {
            if old.get("status") == condition.get("status")
                && let Some(since) = old.get("lastTransitionTime")
            {
                let since = since.clone();
                set(&mut condition, "lastTransitionTime", since);
            }
            *old = condition;
        }
    }
}

/// Assigns the pod to the binding's node. The caller checks that names and preconditions fit.
pub fn bind(pod: &mut Value, binding: &Value, now: Timestamp) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let kind = text(binding, &["target", "kind"]);
    if !kind.is_empty() && kind != "Node" {
        let detail = "supported values: \"Node\", \"<empty>\"";
        errors.push(FieldError::new(Fault::NotSupported, "target.kind", kind.into(), detail));
    }
    let node = text(binding, &["target", "name"]);
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if !errors.is_empty() {
        // A real server does not wrap these into an Invalid status.
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let message =
            if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        return Err(ApiError::new(http::StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    let name = text(pod, &["metadata", "name"]).to_owned();
    let assigned = text(pod, &["spec", "nodeName"]);
    let refusal = if has(pod, &["metadata", "deletionTimestamp"]) {
        Some(format!("pod {name} is being deleted, cannot be assigned to a host"))
    } else if !assigned.is_empty() {
        Some(format!("pod {name} is already assigned to node {assigned:?}"))
    } else if !items(pod, &["spec", "schedulingGates"]).is_empty() {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(why) = refusal {
        return Err(ApiError::conflict("", "pods/binding", &name, &why));
    }
    if let Some(spec) = child(pod, "spec") {
        set(spec, "nodeName", node);
    }
    if let Some(metadata) = child(pod, "metadata") {
        for map in ["annotations", "labels"] {
            let given = entries(binding, &["metadata", map]);
            if !given.is_empty()
                && let Some(target) = child(metadata, map)
            {
                for (key, value) in given {
                    set(target, key, value.clone());
                }
            }
        }
    }
    if let Some(status) = child(pod, "status") {
        remove(status, "nominatedNodeName");
        set_condition(status, json!({ "type": "PodScheduled", "status": "True" }), now);
    }
    Ok(())
}
