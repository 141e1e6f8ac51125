//! What may change on a pod once it is there.

use super::{
    json::{at, entries, has, items, number, remove, set, text},
    names,
    pod_validation::{image_without_spaces, ip_address},
    report::{Report, same},
    scheduling_validation,
};
use crate::field::FieldError;
use serde_json::Value;
use std::collections::BTreeSet;

const MIRROR: &str = "kubernetes.io/config.mirror";

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut report = Report::default();
    annotation_updates(new, old, &mut report);
    let (new, old) = (at(new, &["spec"]), at(old, &["spec"]));
    for list in ["containers", "initContainers"] {
        let containers = items(new, &[list]);
        if containers.len() != items(old, &[list]).len() {
            report.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
            return report.errors;
        }
        for (index, container) in containers.iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            if text(container, &["image"]).is_empty() {
                report.required(format!("{field}.image"), "");
            }
            image_without_spaces(container, format_args!("{field}"), &mut report);
        }
    }
    if deadline(new, old, &mut report) {
        return report.errors;
    }
    tolerations(new, old, &mut report);
    scheduling_gates(new, old, &mut report);
    let put_back = with_updatable_fields_of(new, old, &mut report);
    if !same(&put_back, old) {
        let changes = changed_fields(&put_back, old).join("\n");
        let why = format!("pod updates may not change fields other than {UPDATABLE}\n{changes}");
        report.forbidden("spec", why);
    }
    report.errors
}

fn annotation_updates(new: &Value, old: &Value, report: &mut Report) {
    let (new, old) =
        (at(new, &["metadata", "annotations", MIRROR]), at(old, &["metadata", "annotations", MIRROR]));
    let field = format!("metadata.annotations[{MIRROR}]");
    if !old.is_null() && new != old {
        report.forbidden(field, "may not remove or update mirror pod annotation");
    } else if old.is_null() && !new.is_null() {
        report.forbidden(field, "may not add mirror pod annotation");
    }
}

/// Whether the deadline is so wrong that nothing else is looked at.
fn deadline(new: &Value, old: &Value, report: &mut Report) -> bool {
    let field = "spec.activeDeadlineSeconds";
    let before = number(old, &["activeDeadlineSeconds"]);
    match number(new, &["activeDeadlineSeconds"]) {
        Some(seconds) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            report.invalid(field, seconds, names::between(0, i64::from(i32::MAX)));
            true
        }
        Some(seconds) if before.is_some_and(|before| before < seconds) => {
            report.invalid(field, seconds, "must be less than or equal to previous value");
            true
        }
        None if before.is_some() => {
            report.invalid(field, Value::Null, "must not update from a positive integer to nil value");
            false
        }
        _ => false,
    }
}

fn tolerations(new: &Value, old: &Value, report: &mut Report) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let kept: Vec<Value> = items(new, &["tolerations"]).iter().map(without_seconds).collect();
    if items(old, &["tolerations"]).iter().any(|toleration| !kept.contains(&without_seconds(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        report.forbidden("spec.tolerations", why);
        return;
    }
    scheduling_validation::tolerations(
        items(new, &["tolerations"]),
        format_args!("spec.tolerations"),
        report,
    );
}

fn scheduling_gates(new: &Value, old: &Value, report: &mut Report) {
    let before: BTreeSet<&str> =
        items(old, &["schedulingGates"]).iter().map(|gate| text(gate, &["name"])).collect();
    for (index, gate) in items(new, &["schedulingGates"]).iter().enumerate() {
        let name = text(gate, &["name"]);
        if !before.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            report.forbidden(format!("spec.schedulingGates[{index}].name"), why);
        }
    }
}

/// The new spec with everything that may change set back to what it was, so that any difference left is one
/// that may not be.
fn with_updatable_fields_of(new: &Value, old: &Value, report: &mut Report) -> Value {
    let mut spec = new.clone();
    for list in ["containers", "initContainers"] {
        if let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) {
            for (container, before) in containers.iter_mut().zip(items(old, &[list])) {
                set(container, "image", at(before, &["image"]).clone());
            }
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        crate::contract::keep(&mut spec, old, key);
    }
    let grace = "terminationGracePeriodSeconds";
    if number(old, &[grace]).is_some_and(|seconds| seconds < 0) && number(&spec, &[grace]) == Some(1) {
        crate::contract::keep(&mut spec, old, grace);
    }
    if !items(old, &["schedulingGates"]).is_empty() {
        // A gated pod may be narrowed down further.
        let kept = entries(old, &["nodeSelector"])
            .into_iter()
            .all(|(key, value)| at(&spec, &["nodeSelector", key]) == value);
        if !kept {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            report.invalid("spec.nodeSelector", at(&spec, &["nodeSelector"]).clone(), why);
        }
        crate::contract::keep(&mut spec, old, "nodeSelector");
    }
    spec
}

/// The paths that differ, with their old and new values.
fn changed_fields(new: &Value, old: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let keys: BTreeSet<&str> =
        entries(new, &[]).into_iter().chain(entries(old, &[])).map(|(key, _)| key).collect();
    for key in keys {
        let (new, old) = (at(new, &[key]), at(old, &[key]));
        if !same(new, old) {
            lines.push(format!("- {key}: {old}\n+ {key}: {new}"));
        }
    }
    lines
}

pub(crate) fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut report = Report::default();
    annotation_updates(new, old, &mut report);
    for (index, condition) in items(new, &["status", "conditions"]).iter().enumerate() {
        let kind = text(condition, &["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            let field = format!("status.conditions[{index}].Type");
            report.wrong(&field, kind, names::qualified_name(kind));
        }
    }
    let nominated = text(new, &["status", "nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(old, &["status", "nominatedNodeName"]) {
        report.wrong("status.nominatedNodeName", nominated, names::subdomain(nominated));
        if !text(old, &["spec", "nodeName"]).is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            report.forbidden("status.nominatedNodeName", why);
        }
    }
    report.immutable(new, old, &["status", "qosClass"], "status.qosClass");
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        restarts(new, old, list, containers, &mut report);
    }
    for (index, entry) in items(new, &["status", "podIPs"]).iter().enumerate() {
        ip_address(text(entry, &["ip"]), format_args!("status.podIPs[{index}]"), &mut report);
    }
    report.errors
}

/// A container that has ended stays so unless its restart policy lets it run again.
fn restarts(new: &Value, old: &Value, list: &str, containers: &str, report: &mut Report) {
    let pod_policy = text(old, &["spec", "restartPolicy"]);
    for (index, before) in items(old, &["status", list]).iter().enumerate() {
        let ended = at(before, &["state", "terminated"]);
        let name = text(before, &["name"]);
        let Some(now) = items(new, &["status", list]).iter().find(|status| text(status, &["name"]) == name)
        else {
            continue;
        };
        if ended.is_null() || has(now, &["state", "terminated"]) {
            continue;
        }
        let spec = items(old, &["spec", containers]).iter().find(|spec| text(spec, &["name"]) == name);
        let own_policy = spec.map(|spec| text(spec, &["restartPolicy"])).filter(|policy| !policy.is_empty());
        let failed = number(ended, &["exitCode"]).unwrap_or_default() != 0;
        let allowed = match own_policy.unwrap_or(pod_policy) {
            "Always" => true,
            "OnFailure" => failed,
            _ => false,
        };
        // An init container runs again after a failure unless the pod may never restart.
        let allowed = allowed || (containers == "initContainers" && failed && pod_policy != "Never");
        if !allowed {
            let field = format!("status.{list}[{index}].state");
            report.forbidden(field, "may not be transitioned to non-terminated state");
        }
    }
}
