//! Which taints a node gets for its state.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, its status, and the NoSchedule taint that stands for it.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The node's taints as they should be, in place of those it has.
pub(super) fn wanted(node: &Node, now: Timestamp) -> Vec<Taint> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let states: Vec<(&str, &str)> = conditions.map(|one| (one.type_.as_str(), one.status.as_str())).collect();
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let mut due: Vec<(&str, &str)> = Vec::new();
    for (condition, state, key) in BY_CONDITION {
        if states.contains(&(condition, state)) {
            due.push((key, "NoSchedule"));
            if condition == "Ready" {
                due.push((key, "NoExecute"));
            }
        }
    }
    if cordoned {
        due.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let ours = |taint: &Taint| {
        let by_condition = BY_CONDITION.iter().any(|(_, _, key)| *key == taint.key);
        let scheduling = taint.effect == "NoSchedule" && (by_condition || taint.key == UNSCHEDULABLE);
        let executing = taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE);
        scheduling || executing
    };
    let present: Vec<Taint> =
        node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).cloned().collect();
    let is_due = |taint: &Taint| due.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<Taint> =
        present.iter().filter(|taint| !ours(taint) || is_due(taint)).cloned().collect();
    for (key, effect) in due {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn keys(conditions: &Value, unschedulable: bool, taints: &Value) -> Vec<String> {
        let node: Node = serde_json::from_value(json!({
            "spec": {"unschedulable": unschedulable, "taints": taints}, "status": {"conditions": conditions}
        }))
        .unwrap();
        wanted(&node, Timestamp::UNIX_EPOCH)
            .iter()
            .map(|taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect))
            .collect()
    }

    #[test]
    fn taints_follow_the_nodes_state() {
        let state = |kind: &str, status: &str| json!([{"type": kind, "status": status}]);
        let none = json!([]);
        let foreign = json!([{"key": "mine", "effect": "NoSchedule"}]);
        let stale = json!([
            {"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"},
            {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
        ]);
        for (conditions, cordoned, taints, expected) in [
            (state("Ready", "True"), false, &none, vec![]),
            (state("Ready", "False"), false, &none, vec!["not-ready:NoSchedule", "not-ready:NoExecute"]),
            (
                state("Ready", "Unknown"),
                false,
                &stale,
                vec!["unreachable:NoSchedule", "unreachable:NoExecute"],
            ),
            (state("MemoryPressure", "True"), false, &none, vec!["memory-pressure:NoSchedule"]),
            (state("Ready", "True"), true, &foreign, vec!["mine:NoSchedule", "unschedulable:NoSchedule"]),
            (state("Ready", "True"), false, &stale, vec![]),
            (
                state("Ready", "False"),
                true,
                &stale,
                vec!["not-ready:NoSchedule", "not-ready:NoExecute", "unschedulable:NoSchedule"],
            ),
        ] {
            assert_eq!(keys(&conditions, cordoned, taints), expected, "{conditions} {cordoned} {taints}");
        }
    }
}
