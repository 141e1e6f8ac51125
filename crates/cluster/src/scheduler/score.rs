//! Which of the nodes that would do is the best one.

use super::node_affinity::preference;
use super::pod_affinity::preferences;
use super::resources::{Amounts, assumed_requests};
use super::snapshot::{NodeView, Snapshot};
use super::spread;
use super::taints::discouraging;
use k8s_openapi::api::core::v1::Pod;

/// The best of the nodes at these places in the snapshot; among equals the first by name, so that the same
/// cluster gives the same choice.
pub(crate) fn best(pod: &Pod, snapshot: &Snapshot, feasible: &[usize]) -> Option<usize> {
    if let [only] = feasible {
        return Some(*only);
    }
    let nodes: Vec<&NodeView> = feasible.iter().filter_map(|at| snapshot.nodes.get(*at)).collect();
    let asked = assumed_requests(pod);
    let liked = preferences(pod, snapshot);
    let soft = spread::preferred(pod, snapshot);
    let scores: [(i64, Vec<i64>); 6] = [
        (3, fewer_is_better(nodes.iter().map(|node| discouraging(pod, &node.node)).collect())),
        (2, relative(nodes.iter().map(|node| preference(pod, &node.node)).collect())),
        (
            2,
            stretched(
                nodes
                    .iter()
                    .map(|node| {
                        let here =
                            liked.iter().filter(|((key, value), _)| node.labels.get(key) == Some(value));
                        here.map(|(_, weight)| *weight).sum()
                    })
                    .collect(),
            ),
        ),
        (
            2,
            fewer_is_better(
                nodes
                    .iter()
                    // A node without the label is as bad as the most crowded domain.
                    .map(|node| {
                        let crowds = soft.iter().map(|one| one.crowd(node).unwrap_or(i64::MAX / 64));
                        crowds.fold(0, i64::saturating_add)
                    })
                    .collect(),
            ),
        ),
        (1, nodes.iter().map(|node| emptiness(&asked, node)).collect()),
        (1, nodes.iter().map(|node| balance(&asked, node)).collect()),
    ];
    let total = |at: usize| -> i64 {
        scores.iter().map(|(weight, scores)| weight * scores.get(at).copied().unwrap_or(0)).sum()
    };
    let best = (0..nodes.len()).min_by_key(|at| (-total(*at), nodes.get(*at).map(|node| &node.name)))?;
    feasible.get(best).copied()
}

/// Scores from 0 to 100 in proportion to the largest.
fn relative(values: Vec<i64>) -> Vec<i64> {
    let most = values.iter().max().copied().unwrap_or(0);
    values.into_iter().map(|value| if most > 0 { value.saturating_mul(100) / most } else { 0 }).collect()
}

fn fewer_is_better(values: Vec<i64>) -> Vec<i64> {
    relative(values).into_iter().map(|score| 100 - score).collect()
}

/// Scores from 0 for the smallest to 100 for the largest.
fn stretched(values: Vec<i64>) -> Vec<i64> {
    let least = values.iter().min().copied().unwrap_or(0);
    relative(values.into_iter().map(|value| value - least).collect())
}

/// How much of processor time and memory would be left, in percent.
fn emptiness(asked: &Amounts, node: &NodeView) -> i64 {
    let left = |name: &str| {
        let all = node.allocatable.get(name);
        let used = node.assumed.get(name).saturating_add(asked.get(name));
        if all <= 0 || used > all { 0 } else { (all - used).saturating_mul(100) / all }
    };
    i64::midpoint(left("cpu"), left("memory"))
}

/// How evenly processor time and memory would be used, in percent.
fn balance(asked: &Amounts, node: &NodeView) -> i64 {
    let used = |name: &str| {
        let all = node.allocatable.get(name);
        let used = node.requested.get(name).saturating_add(asked.get(name));
        if all <= 0 { 0 } else { (used.saturating_mul(100) / all).min(100) }
    };
    100 - (used("cpu") - used("memory")).abs() / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{node, pod, roomy};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn chosen(spec: &Value, nodes: Vec<NodeView>) -> String {
        let snapshot = Snapshot { nodes, ..Snapshot::default() };
        let pod = pod(json!({"metadata": {"name": "new", "labels": {"app": "web"}}, "spec": spec}));
        let all: Vec<usize> = (0..snapshot.nodes.len()).collect();
        snapshot.nodes[best(&pod, &snapshot, &all).unwrap()].name.clone()
    }

    #[test]
    fn the_best_node_wins() {
        let busy = |name: &str, labels: &[(&str, &str)]| {
            let mut view = roomy(name, labels);
            view.add(Arc::new(pod(json!({
                "metadata": {"name": format!("on-{name}"), "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "50", "memory": "50Gi"}}}]}
            }))));
            view
        };
        let soft = node(json!({
            "metadata": {"name": "a"},
            "spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]},
            "status": {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "110"}}
        }));
        let near = |kind: &str| {
            json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            }]}}})
        };
        let zone_b = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
        }]}}});
        let spread = json!({"topologySpreadConstraints": [{
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}
        }]});
        let zones = || vec![busy("a", &[("zone", "a")]), roomy("b", &[("zone", "b")])];
        for (name, spec, nodes, expected) in [
            ("equals: the first name", json!({}), vec![roomy("b", &[]), roomy("a", &[])], "a"),
            ("the emptier one", json!({}), vec![busy("a", &[]), roomy("b", &[])], "b"),
            ("without soft taint", json!({}), vec![soft, busy("b", &[])], "b"),
            ("preferred label", zone_b, vec![roomy("a", &[("zone", "a")]), busy("b", &[("zone", "b")])], "b"),
            ("near others", near("podAffinity"), zones(), "a"),
            ("far from others", near("podAntiAffinity"), zones(), "b"),
            ("spread", spread, zones(), "b"),
        ] {
            assert_eq!(chosen(&spec, nodes), expected, "{name}");
        }
    }
}
