//! Which daemons to start and which to remove.

use crate::scheduler::is_wanted;
use crate::scheduler::taints::tolerates_all;
use crate::workload::deployment::scaled;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetSpec;
use k8s_openapi::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Daemon {
    pub(super) uid: String,
    pub(super) created: Option<Timestamp>,
    pub(super) leaving: bool,
    pub(super) failed: bool,
    pub(super) ready: bool,
    pub(super) available: bool,
    /// Made of the present template.
    pub(super) current: bool,
}

/// A node and the daemons there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: String,
    pub(super) daemons: Vec<Daemon>,
    /// A daemon belongs here.
    pub(super) wanted: bool,
    /// A daemon that is here already may stay.
    pub(super) tolerated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Old daemons are replaced without being deleted by hand.
    pub(super) rolling: bool,
    pub(super) unavailable: i32,
    pub(super) surge: i32,
    pub(super) min_ready_seconds: i32,
}

impl Rules {
    pub(super) fn of(spec: &DaemonSetSpec, nodes: usize) -> Self {
        let strategy = spec.update_strategy.clone().unwrap_or_default();
        let update = strategy.rolling_update.unwrap_or_default();
        let nodes = i32::try_from(nodes).unwrap_or(i32::MAX);
        let number = |value: Option<&IntOrString>, otherwise: i32| {
            scaled(Some(value.unwrap_or(&IntOrString::Int(otherwise))), nodes, true)
        };
        let surge = number(update.max_surge.as_ref(), 0);
        Self {
            rolling: strategy.type_.as_deref() != Some("OnDelete"),
            surge,
            unavailable: number(update.max_unavailable.as_ref(), i32::from(surge == 0)),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Nodes that get a daemon.
    pub(super) create: Vec<String>,
    /// The uids of daemons that go.
    pub(super) delete: Vec<String>,
}

pub(super) fn plan(rules: &Rules, places: &[Place]) -> Plan {
    let mut plan = Plan::default();
    for place in places {
        let staying: Vec<&Daemon> = place.daemons.iter().filter(|daemon| !daemon.leaving).collect();
        if !place.wanted && !place.tolerated {
            plan.delete.extend(staying.iter().map(|daemon| daemon.uid.clone()));
            continue;
        }
        let failed = staying.iter().filter(|daemon| daemon.failed);
        plan.delete.extend(failed.map(|daemon| daemon.uid.clone()));
        let mut alive: Vec<&&Daemon> = staying.iter().filter(|daemon| !daemon.failed).collect();
        if place.wanted && place.daemons.is_empty() {
            plan.create.push(place.node.clone());
        }
        // While a surge replaces one, an old and a new daemon share the node.
        alive.sort_by_key(|daemon| (daemon.created, daemon.uid.clone()));
        let mut kept_of_kind = [false, false];
        for daemon in alive {
            let kept = &mut kept_of_kind[usize::from(daemon.current && rules.surge > 0)];
            if *kept {
                plan.delete.push(daemon.uid.clone());
            }
            *kept = true;
        }
    }
    if rules.rolling && plan.create.is_empty() {
        update(rules, places, &mut plan);
    }
    plan
}

/// Replaces old daemons, as many at a time as the rules allow.
fn update(rules: &Rules, places: &[Place], plan: &mut Plan) {
    let wanted = places.iter().filter(|place| place.wanted);
    let mut unavailable = 0;
    let mut surging = 0;
    let mut candidates = Vec::new();
    for place in wanted {
        let alive: Vec<&Daemon> =
            place.daemons.iter().filter(|daemon| !daemon.leaving && !daemon.failed).collect();
        let old = alive.iter().find(|daemon| !daemon.current);
        let new = alive.iter().find(|daemon| daemon.current);
        unavailable += i32::from(!alive.iter().any(|daemon| daemon.available));
        surging += i32::from(old.is_some() && new.is_some());
        if let Some(old) = old {
            candidates.push((place, *old, new.copied()));
        }
    }
    for (place, old, new) in candidates {
        if plan.delete.contains(&old.uid) {
            continue;
        }
        if !old.available || new.is_some_and(|new| new.available) {
            // Nothing is lost with it.
            plan.delete.push(old.uid.clone());
        } else if rules.surge > 0 {
            if new.is_none() && surging < rules.surge {
                surging += 1;
                plan.create.push(place.node.clone());
            }
        } else if unavailable < rules.unavailable {
            unavailable += 1;
            plan.delete.push(old.uid.clone());
        }
    }
}

/// Whether a daemon belongs on the node, and whether one that is there may stay.
pub(super) fn wants(daemon: &Pod, node: &Node) -> (bool, bool) {
    if !is_wanted(daemon, node) {
        return (false, false);
    }
    let wanted = tolerates_all(daemon, node, &["NoSchedule", "NoExecute"]);
    (wanted, tolerates_all(daemon, node, &["NoExecute"]))
}

/// Ties a daemon to its node and lets it tolerate what a node's own daemons must.
pub(super) fn pin(pod: &mut Pod, node: &str) {
    let spec = pod.spec.get_or_insert_default();
    let host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let mut tolerate = |key: &str, effect: &str| {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    };
    tolerate("not-ready", "NoExecute");
    tolerate("unreachable", "NoExecute");
    for key in ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"] {
        tolerate(key, "NoSchedule");
    }
    if host_network {
        tolerate("network-unavailable", "NoSchedule");
    }
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity: &mut NodeAffinity =
        spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    match &mut affinity.required_during_scheduling_ignored_during_execution {
        Some(required) if !required.node_selector_terms.is_empty() => {
            for term in &mut required.node_selector_terms {
                term.match_fields = Some(vec![by_name.clone()]);
            }
        }
        required => {
            let term = NodeSelectorTerm { match_fields: Some(vec![by_name]), ..NodeSelectorTerm::default() };
            *required = Some(NodeSelector { node_selector_terms: vec![term] });
        }
    }
}

/// The node that [`pin`] tied a pod to.
pub(super) fn pinned_to(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let field = required.node_selector_terms.first()?.match_fields.as_ref()?.first()?;
    (field.key == "metadata.name").then(|| field.values.as_ref()?.first().cloned())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn daemon(uid: &str, state: &str) -> Daemon {
        Daemon {
            uid: uid.to_owned(),
            created: None,
            leaving: state.contains("leaving"),
            failed: state.contains("failed"),
            ready: !state.contains("unready"),
            available: !state.contains("unready") && !state.contains("failed"),
            current: !state.contains("old"),
        }
    }

    fn place(node: &str, wanted: bool, daemons: &[(&str, &str)]) -> Place {
        let daemons = daemons.iter().map(|(uid, state)| daemon(uid, state)).collect();
        Place { node: node.to_owned(), daemons, wanted, tolerated: wanted }
    }

    #[test]
    fn one_daemon_per_node_and_replaced_in_turn() {
        let rules = Rules { rolling: true, unavailable: 1, surge: 0, min_ready_seconds: 0 };
        let surging = Rules { surge: 1, unavailable: 0, ..rules };
        let by_hand = Rules { rolling: false, ..rules };
        for (name, rules, places, create, delete) in [
            ("missing", rules, vec![place("a", true, &[]), place("b", false, &[])], vec!["a"], vec![]),
            ("not wanted", rules, vec![place("a", false, &[("1", "")])], vec![], vec!["1"]),
            ("on its way out", rules, vec![place("a", true, &[("1", "leaving")])], vec![], vec![]),
            ("failed", rules, vec![place("a", true, &[("1", "failed")])], vec![], vec!["1"]),
            ("two of them", rules, vec![place("a", true, &[("1", ""), ("2", "")])], vec![], vec!["2"]),
            (
                "old, one at a time",
                rules,
                vec![place("a", true, &[("1", "old")]), place("b", true, &[("2", "old")])],
                vec![],
                vec!["1"],
            ),
            (
                "old, one is missing",
                rules,
                vec![place("a", true, &[("1", "leaving")]), place("b", true, &[("2", "old")])],
                vec![],
                vec![],
            ),
            (
                "old and useless",
                rules,
                vec![place("a", true, &[("1", "old unready")]), place("b", true, &[("2", "old")])],
                vec![],
                vec!["1"],
            ),
            ("by hand", by_hand, vec![place("a", true, &[("1", "old")])], vec![], vec![]),
            (
                "a surge starts",
                surging,
                vec![place("a", true, &[("1", "old")]), place("b", true, &[("2", "old")])],
                vec!["a"],
                vec![],
            ),
            (
                "a surge waits",
                surging,
                vec![place("a", true, &[("1", "old"), ("3", "unready")]), place("b", true, &[("2", "old")])],
                vec![],
                vec![],
            ),
            ("a surge ends", surging, vec![place("a", true, &[("1", "old"), ("3", "")])], vec![], vec!["1"]),
        ] {
            let plan = plan(&rules, &places);
            assert_eq!(
                (plan.create, plan.delete),
                (
                    create.into_iter().map(str::to_owned).collect(),
                    delete.into_iter().map(str::to_owned).collect()
                ),
                "{name}"
            );
        }
    }

    #[test]
    fn a_daemon_is_pinned_and_tolerant() {
        let mut pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "os", "operator": "Exists"}]}
                ]}
            }}}}))
            .unwrap();
        pin(&mut pod, "n1");
        assert_eq!(pinned_to(&pod).as_deref(), Some("n1"));
        let node = |name: &str, labels: serde_json::Value, taints: serde_json::Value| -> Node {
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}),
            )
            .unwrap()
        };
        let os = json!({"os": "linux"});
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        assert_eq!(wants(&pod, &node("n1", os.clone(), json!([]))), (true, true));
        assert_eq!(wants(&pod, &node("n2", os.clone(), json!([]))), (false, false));
        assert_eq!(wants(&pod, &node("n1", json!({}), json!([]))), (false, false));
        assert_eq!(
            wants(&pod, &node("n1", os.clone(), taint("node.kubernetes.io/unschedulable", "NoSchedule"))),
            (true, true)
        );
        assert_eq!(wants(&pod, &node("n1", os.clone(), taint("mine", "NoSchedule"))), (false, true));
        assert_eq!(wants(&pod, &node("n1", os, taint("mine", "NoExecute"))), (false, false));
    }
}
