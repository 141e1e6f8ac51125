//! Is it the kind of node the pod asks for?

use super::Refusal;
use crate::selector::{matches_node, term_matches};
use k8s_openapi::api::core::v1::{Node, NodeAffinity, Pod};
use std::collections::BTreeSet;

fn affinity(pod: &Pod) -> Option<&NodeAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()
}

/// Whether the node has the pod's nodeSelector and required node affinity.
pub(crate) fn is_wanted(pod: &Pod, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let selected = pod
        .spec
        .iter()
        .flat_map(|spec| spec.node_selector.iter().flatten())
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    let required = affinity(pod)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|selector| matches_node(selector, node))
}

pub(crate) fn unwanted(pod: &Pod, node: &Node) -> Option<Refusal> {
    (!is_wanted(pod, node)).then(|| Refusal::lasting("node(s) didn't match Pod's node affinity/selector"))
}

/// The only nodes in question, if every required term names nodes by name, as daemons' pods do.
pub(crate) fn named_nodes(pod: &Pod) -> Option<BTreeSet<String>> {
    let required = affinity(pod)?.required_during_scheduling_ignored_during_execution.as_ref()?;
    if required.node_selector_terms.is_empty() {
        return None;
    }
    let mut names = BTreeSet::new();
    for term in &required.node_selector_terms {
        let mut of_term: Option<BTreeSet<String>> = None;
        for field in term.match_fields.iter().flatten() {
            if field.key == "metadata.name" && field.operator == "In" {
                let listed: BTreeSet<String> = field.values.iter().flatten().cloned().collect();
                of_term = Some(match of_term {
                    Some(earlier) => earlier.intersection(&listed).cloned().collect(),
                    None => listed,
                });
            }
        }
        names.extend(of_term?);
    }
    Some(names)
}

/// The weight of the preferred terms that the node matches.
pub(crate) fn preference(pod: &Pod, node: &Node) -> i64 {
    affinity(pod)
        .iter()
        .flat_map(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten())
        .filter(|preferred| term_matches(&preferred.preference, node))
        .map(|preferred| i64::from(preferred.weight))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{pod, roomy};
    use serde_json::{Value, json};

    fn required(terms: &Value) -> Value {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    }

    #[test]
    fn selector_and_affinity_must_both_match() {
        let node = roomy("n1", &[("zone", "a"), ("disk", "ssd")]);
        let zone_a = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        let zone_b = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]);
        for (spec, expected) in [
            (json!({}), true),
            (json!({"nodeSelector": {"disk": "ssd"}}), true),
            (json!({"nodeSelector": {"disk": "hdd"}}), false),
            (json!({"affinity": required(&zone_a)}), true),
            (json!({"affinity": required(&zone_b)}), false),
            (json!({"nodeSelector": {"disk": "hdd"}, "affinity": required(&zone_a)}), false),
            (json!({"nodeSelector": {"disk": "ssd"}, "affinity": required(&zone_b)}), false),
        ] {
            assert_eq!(is_wanted(&pod(json!({"spec": spec})), &node.node), expected, "{spec}");
        }
    }

    #[test]
    fn nodes_named_by_field() {
        let name = |values: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": values});
        let label = json!({"key": "zone", "operator": "Exists"});
        for (terms, expected) in [
            (json!([{"matchFields": [name(&["n1"])]}]), Some(vec!["n1"])),
            (
                json!([{"matchFields": [name(&["n1"])]}, {"matchFields": [name(&["n2"])]}]),
                Some(vec!["n1", "n2"]),
            ),
            (json!([{"matchFields": [name(&["n1"])]}, {"matchExpressions": [label]}]), None),
            (json!([{"matchFields": [name(&["n1"]), name(&["n2"])]}]), Some(vec![])),
        ] {
            let names = named_nodes(&pod(json!({"spec": {"affinity": required(&terms)}})));
            let expected: Option<BTreeSet<String>> =
                expected.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(names, expected, "{terms}");
        }
    }

    #[test]
    fn preferences_add_up() {
        let preferred = |weight: i32, key: &str| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}});
        let pod = pod(json!({"spec": {"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [preferred(5, "zone"), preferred(7, "disk"), preferred(9, "none")]
        }}}}));
        assert_eq!(preference(&pod, &roomy("n", &[("zone", "a"), ("disk", "ssd")]).node), 12);
        assert_eq!(preference(&pod, &roomy("n", &[]).node), 0);
    }
}
