//! Are pods of one kind spread evenly enough over the topology?

use super::Refusal;
use super::node_affinity::is_wanted;
use super::snapshot::{NodeView, Snapshot, labels, namespace};
use super::taints::tolerates_all;
use crate::selector::selects;
use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// One constraint with the pods counted per domain.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    constraint: &'a TopologySpreadConstraint,
    domains: BTreeMap<String, i64>,
    selects_itself: bool,
}

fn constraints<'a>(pod: &'a Pod, mode: &'static str) -> Vec<&'a TopologySpreadConstraint> {
    let all = pod.spec.iter().flat_map(|spec| spec.topology_spread_constraints.iter().flatten());
    all.filter(|constraint| constraint.when_unsatisfiable == mode).collect()
}

fn counts(constraint: &TopologySpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    let own = labels(pod);
    let theirs = labels(other);
    constraint.label_selector.as_ref().is_some_and(|selector| selects(selector, theirs))
        && constraint
            .match_label_keys
            .iter()
            .flatten()
            .all(|key| own.get(key).is_none_or(|value| theirs.get(key) == Some(value)))
}

/// The scheduler counts nobody for a selector without requirements; the pod itself is one of those all the same.
fn asks_for_nothing(constraint: &TopologySpreadConstraint, pod: &Pod) -> bool {
    let none = |selector: &LabelSelector| {
        selector.match_labels.iter().flatten().next().is_none()
            && selector.match_expressions.iter().flatten().next().is_none()
    };
    constraint.label_selector.as_ref().is_some_and(none)
        && !constraint.match_label_keys.iter().flatten().any(|key| labels(pod).contains_key(key))
}

/// Whether a node's pods and domain are counted for the constraint.
fn includes(constraint: &TopologySpreadConstraint, pod: &Pod, node: &NodeView) -> bool {
    let affinity_ignored = constraint.node_affinity_policy.as_deref() == Some("Ignore");
    let taints_honored = constraint.node_taints_policy.as_deref() == Some("Honor");
    (affinity_ignored || is_wanted(pod, &node.node))
        && (!taints_honored || tolerates_all(pod, &node.node, &["NoSchedule", "NoExecute"]))
}

fn count<'a>(pod: &'a Pod, snapshot: &Snapshot, mode: &'static str) -> Vec<Counted<'a>> {
    let constraints = constraints(pod, mode);
    let mut counted: Vec<Counted<'a>> = constraints
        .iter()
        .map(|constraint| Counted {
            constraint,
            domains: BTreeMap::new(),
            selects_itself: counts(constraint, pod, pod),
        })
        .collect();
    if counted.is_empty() {
        return counted;
    }
    for node in &snapshot.nodes {
        if !constraints.iter().all(|constraint| node.labels.contains_key(&constraint.topology_key)) {
            continue;
        }
        for one in &mut counted {
            let Some(domain) = node.labels.get(&one.constraint.topology_key) else { continue };
            if !includes(one.constraint, pod, node) {
                continue;
            }
            let nobody = asks_for_nothing(one.constraint, pod);
            let here = node
                .pods
                .iter()
                .filter(|running| running.metadata.deletion_timestamp.is_none())
                .filter(|running| {
                    !nobody && namespace(running) == namespace(pod) && counts(one.constraint, pod, running)
                })
                .count();
            *one.domains.entry(domain.clone()).or_default() += i64::try_from(here).unwrap_or(i64::MAX);
        }
    }
    counted
}

/// The constraints that must hold.
pub(crate) fn required<'a>(pod: &'a Pod, snapshot: &Snapshot) -> Vec<Counted<'a>> {
    count(pod, snapshot, "DoNotSchedule")
}

/// The constraints that only make a node better or worse.
pub(crate) fn preferred<'a>(pod: &'a Pod, snapshot: &Snapshot) -> Vec<Counted<'a>> {
    count(pod, snapshot, "ScheduleAnyway")
}

pub(crate) fn refusal(counted: &[Counted<'_>], node: &NodeView) -> Option<Refusal> {
    for one in counted {
        let Some(domain) = node.labels.get(&one.constraint.topology_key) else {
            return Some(Refusal::lasting(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ));
        };
        if one.skew(domain) > i64::from(one.constraint.max_skew) {
            return Some(Refusal::passing("node(s) didn't match pod topology spread constraints"));
        }
    }
    None
}

impl Counted<'_> {
    fn skew(&self, domain: &str) -> i64 {
        let wanted = usize::try_from(self.constraint.min_domains.unwrap_or(1)).unwrap_or(1);
        let least =
            if self.domains.len() < wanted { 0 } else { self.domains.values().min().copied().unwrap_or(0) };
        self.domains.get(domain).copied().unwrap_or(0) + i64::from(self.selects_itself) - least
    }

    /// How crowded the node's domain is; more counts when there are more domains to choose from.
    pub(crate) fn crowd(&self, node: &NodeView) -> Option<i64> {
        let domain = node.labels.get(&self.constraint.topology_key)?;
        let domains = i64::try_from(self.domains.len()).unwrap_or(i64::MAX);
        let here = self.domains.get(domain).copied().unwrap_or(0);
        Some(
            here.saturating_mul(domains.saturating_add(2))
                .saturating_add(i64::from(self.constraint.max_skew.saturating_sub(1))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{node, pod, roomy};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn web(name: &str) -> Arc<Pod> {
        Arc::new(pod(json!({"metadata": {"name": name, "labels": {"app": "web", "version": "1"}}})))
    }

    /// Zone a with two web pods, zone b with one, tainted zone c with none, and a node without a zone.
    fn world() -> Snapshot {
        let mut a = roomy("a", &[("zone", "a"), ("disk", "ssd")]);
        a.add(web("1"));
        a.add(web("2"));
        let mut b = roomy("b", &[("zone", "b"), ("disk", "ssd")]);
        b.add(web("3"));
        let c = node(json!({
            "metadata": {"name": "c", "labels": {"zone": "c"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        }));
        Snapshot { nodes: vec![a, b, c, roomy("bare", &[])], ..Snapshot::default() }
    }

    fn fitting(extra: &Value, spec: &Value, snapshot: &Snapshot) -> Vec<String> {
        let mut constraint = json!({
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}
        });
        for (key, value) in extra.as_object().unwrap() {
            constraint[key] = value.clone();
        }
        let mut spec = spec.clone();
        spec["topologySpreadConstraints"] = json!([constraint]);
        let pod =
            pod(json!({"metadata": {"name": "new", "labels": {"app": "web", "version": "2"}}, "spec": spec}));
        let counted = required(&pod, snapshot);
        let fits = snapshot.nodes.iter().filter(|node| refusal(&counted, node).is_none());
        fits.map(|node| node.name.clone()).collect()
    }

    #[test]
    fn skew_is_measured_over_eligible_domains() {
        let any = json!({});
        for (name, constraint, spec, expected) in [
            ("the empty domain counts although it is tainted", json!({}), &any, vec!["c"]),
            ("unless taints are honored", json!({"nodeTaintsPolicy": "Honor"}), &any, vec!["b", "c"]),
            ("a wider skew", json!({"maxSkew": 2}), &any, vec!["b", "c"]),
            (
                "nodes the pod does not want are left out",
                json!({}),
                &json!({"nodeSelector": {"disk": "ssd"}}),
                vec!["b", "c"],
            ),
            (
                "unless affinity is ignored",
                json!({"nodeAffinityPolicy": "Ignore"}),
                &json!({"nodeSelector": {"disk": "ssd"}}),
                vec!["c"],
            ),
            ("too few domains", json!({"minDomains": 4, "maxSkew": 2}), &any, vec!["b", "c"]),
            (
                "only pods of the same version",
                json!({"matchLabelKeys": ["version"]}),
                &any,
                vec!["a", "b", "c"],
            ),
            ("nothing is selected", json!({"labelSelector": null}), &any, vec!["a", "b", "c"]),
            ("nor by an empty selector", json!({"labelSelector": {}}), &any, vec!["a", "b", "c"]),
            (
                "but for the pod itself",
                json!({"labelSelector": {}, "minDomains": 4, "maxSkew": 0}),
                &any,
                vec![],
            ),
            (
                "a key that the pod has is a requirement",
                json!({"labelSelector": {}, "matchLabelKeys": ["app"]}),
                &any,
                vec!["c"],
            ),
            (
                "one that it lacks is none",
                json!({"labelSelector": {}, "matchLabelKeys": ["colour"]}),
                &any,
                vec!["a", "b", "c"],
            ),
        ] {
            assert_eq!(fitting(&constraint, spec, &world()), expected, "{name}");
        }
    }

    #[test]
    fn too_few_domains_make_the_minimum_zero() {
        let mut snapshot = world();
        snapshot.nodes.truncate(2);
        assert_eq!(fitting(&json!({}), &json!({}), &snapshot), ["b"]);
        assert!(fitting(&json!({"minDomains": 3}), &json!({}), &snapshot).is_empty());
    }

    #[test]
    fn terminating_pods_do_not_count() {
        let mut snapshot = world();
        snapshot.nodes.truncate(2);
        let mut leaving = (*web("4")).clone();
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        snapshot.nodes[1].add(Arc::new(leaving));
        assert_eq!(fitting(&json!({}), &json!({}), &snapshot), ["b"]);
    }

    #[test]
    fn a_missing_label_is_named() {
        let snapshot = world();
        let pod = pod(json!({"spec": {"topologySpreadConstraints": [{
            "topologyKey": "zone", "maxSkew": 9, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}
        }]}}));
        let refused = refusal(&required(&pod, &snapshot), &snapshot.nodes[3]).unwrap();
        assert_eq!(
            refused.reason,
            "node(s) didn't match pod topology spread constraints (missing required label)"
        );
        assert!(refused.lasting);
    }
}
