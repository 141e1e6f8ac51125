//! Which pods the pod wants near it, which not, and which do not want it.

use super::Refusal;
use super::snapshot::{NodeView, Snapshot, labels, namespace, required_affinity, required_anti_affinity};
use crate::selector::{Labels, selects};
use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use std::collections::BTreeMap;

/// How many pods count in each topology domain (label key and value).
type Domains = BTreeMap<(String, String), i64>;

/// Whether a term of `owner` selects `other`.
fn applies(term: &PodAffinityTerm, owner: &Pod, other: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
    in_namespaces(term, owner, namespace(other), namespaces)
        && term.label_selector.as_ref().is_some_and(|selector| selects(selector, labels(other)))
        && folded_keys_match(term, labels(owner), labels(other))
}

fn in_namespaces(
    term: &PodAffinityTerm,
    owner: &Pod,
    other: &str,
    namespaces: &BTreeMap<String, Labels>,
) -> bool {
    let listed = term.namespaces.as_deref().unwrap_or_default();
    if listed.is_empty() && term.namespace_selector.is_none() {
        return namespace(owner) == other;
    }
    let none = Labels::new();
    listed.iter().any(|name| name == other)
        || term
            .namespace_selector
            .as_ref()
            .is_some_and(|selector| selects(selector, namespaces.get(other).unwrap_or(&none)))
}

/// Keys whose values are taken from the owner's own labels.
fn folded_keys_match(term: &PodAffinityTerm, owner: &Labels, other: &Labels) -> bool {
    let same = |key: &String| owner.get(key).is_none_or(|value| other.get(key) == Some(value));
    let differs = |key: &String| owner.get(key).is_none_or(|value| other.get(key) != Some(value));
    term.match_label_keys.iter().flatten().all(same) && term.mismatch_label_keys.iter().flatten().all(differs)
}

/// What has to be known about the running pods to judge every node for one pod.
#[derive(Debug)]
pub(crate) struct Neighbours<'a> {
    affinity: &'a [PodAffinityTerm],
    anti_affinity: &'a [PodAffinityTerm],
    wanted: Domains,
    unwanted: Domains,
    hostile: Domains,
    suits_itself: bool,
}

impl<'a> Neighbours<'a> {
    pub(crate) fn of(pod: &'a Pod, snapshot: &Snapshot) -> Self {
        let affinity = required_affinity(pod);
        let anti_affinity = required_anti_affinity(pod);
        let applies_here =
            |term: &PodAffinityTerm, other: &Pod| applies(term, pod, other, &snapshot.namespaces);
        let (mut wanted, mut unwanted, mut hostile) = (Domains::new(), Domains::new(), Domains::new());
        for (node, running) in snapshot.placed() {
            for term in required_anti_affinity(running) {
                if applies(term, running, pod, &snapshot.namespaces) {
                    count(&mut hostile, node, &term.topology_key);
                }
            }
            if !affinity.is_empty() && affinity.iter().all(|term| applies_here(term, running)) {
                for term in affinity {
                    count(&mut wanted, node, &term.topology_key);
                }
            }
            for term in anti_affinity.iter().filter(|term| applies_here(term, running)) {
                count(&mut unwanted, node, &term.topology_key);
            }
        }
        let suits_itself = affinity.iter().all(|term| applies_here(term, pod));
        Self { affinity, anti_affinity, wanted, unwanted, hostile, suits_itself }
    }

    pub(crate) fn refusal(&self, node: &NodeView) -> Option<Refusal> {
        if !self.is_near_enough(node) {
            return Some(Refusal::lasting("node(s) didn't match pod affinity rules"));
        }
        let counted = |domains: &Domains, key: &String| {
            node.labels.get(key).is_some_and(|value| {
                domains.get(&(key.clone(), value.clone())).is_some_and(|count| *count > 0)
            })
        };
        if self.anti_affinity.iter().any(|term| counted(&self.unwanted, &term.topology_key)) {
            return Some(Refusal::passing("node(s) didn't match pod anti-affinity rules"));
        }
        let hostile = self.hostile.keys().any(|(key, value)| node.labels.get(key) == Some(value));
        hostile.then(|| Refusal::passing("node(s) didn't satisfy existing pods anti-affinity rules"))
    }

    fn is_near_enough(&self, node: &NodeView) -> bool {
        let mut found = true;
        for term in self.affinity {
            let Some(value) = node.labels.get(&term.topology_key) else { return false };
            found &= self.wanted.contains_key(&(term.topology_key.clone(), value.clone()));
        }
        // The first pod of a group that wants to be together has nobody to join yet.
        found || (self.wanted.is_empty() && self.suits_itself)
    }
}

fn count(domains: &mut Domains, node: &NodeView, key: &str) {
    if let Some(value) = node.labels.get(key) {
        *domains.entry((key.to_owned(), value.clone())).or_default() += 1;
    }
}

fn preferred(pod: &Pod) -> (&[WeightedPodAffinityTerm], &[WeightedPodAffinityTerm]) {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let near = affinity
        .and_then(|affinity| affinity.pod_affinity.as_ref())
        .and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_deref());
    let far = affinity
        .and_then(|affinity| affinity.pod_anti_affinity.as_ref())
        .and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_deref());
    (near.unwrap_or_default(), far.unwrap_or_default())
}

/// How much each topology domain is liked: by the pod's preferences, by those of the pods that run there, and a
/// little by pods that require others like it near them.
pub(crate) fn preferences(pod: &Pod, snapshot: &Snapshot) -> Domains {
    let mut liked = Domains::new();
    let mut add = |node: &NodeView, key: &str, weight: i64| {
        if let Some(value) = node.labels.get(key) {
            *liked.entry((key.to_owned(), value.clone())).or_default() += weight;
        }
    };
    let (near, far) = preferred(pod);
    for (node, running) in snapshot.placed() {
        for (terms, sign) in [(near, 1), (far, -1)] {
            for term in terms {
                if applies(&term.pod_affinity_term, pod, running, &snapshot.namespaces) {
                    add(node, &term.pod_affinity_term.topology_key, sign * i64::from(term.weight));
                }
            }
        }
        let (their_near, their_far) = preferred(running);
        for (terms, sign) in [(their_near, 1), (their_far, -1)] {
            for term in terms {
                if applies(&term.pod_affinity_term, running, pod, &snapshot.namespaces) {
                    add(node, &term.pod_affinity_term.topology_key, sign * i64::from(term.weight));
                }
            }
        }
        for term in required_affinity(running) {
            if applies(term, running, pod, &snapshot.namespaces) {
                add(node, &term.topology_key, 1);
            }
        }
    }
    liked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{pod, roomy};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn term(extra: &Value) -> Value {
        let mut term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
        for (key, value) in extra.as_object().unwrap() {
            term[key] = value.clone();
        }
        term
    }

    fn asking(kind: &str, terms: &[Value], labels: &Value) -> Pod {
        pod(json!({
            "metadata": {"name": "asking", "labels": labels},
            "spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
        }))
    }

    /// Two zones a and b and a node without a zone; one web pod in `namespace` runs in zone a.
    fn world(namespace: &str, running: &Value) -> Snapshot {
        let mut a = roomy("a", &[("zone", "a")]);
        a.add(Arc::new(pod(json!({
            "metadata": {"name": "running", "namespace": namespace, "labels": {"app": "web", "version": "1"}},
            "spec": running
        }))));
        let team: Labels = [("team".to_owned(), "x".to_owned())].into();
        Snapshot {
            nodes: vec![a, roomy("b", &[("zone", "b")]), roomy("bare", &[])],
            namespaces: [("default".to_owned(), Labels::new()), ("other".to_owned(), team)].into(),
            ..Snapshot::default()
        }
    }

    fn fitting(pod: &Pod, snapshot: &Snapshot) -> Vec<String> {
        let neighbours = Neighbours::of(pod, snapshot);
        snapshot
            .nodes
            .iter()
            .filter(|node| neighbours.refusal(node).is_none())
            .map(|node| node.name.clone())
            .collect()
    }

    #[test]
    fn affinity_and_anti_affinity() {
        let none = json!({});
        let web = json!({"app": "web"});
        let second = json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"});
        for (name, running_in, kind, terms, labels, expected) in [
            ("near", "default", "podAffinity", vec![term(&none)], &none, vec!["a"]),
            ("far", "default", "podAntiAffinity", vec![term(&none)], &none, vec!["b", "bare"]),
            ("near, elsewhere", "other", "podAffinity", vec![term(&none)], &none, vec![]),
            ("first of its kind", "other", "podAffinity", vec![term(&none)], &web, vec!["a", "b"]),
            (
                "named namespace",
                "other",
                "podAffinity",
                vec![term(&json!({"namespaces": ["other"]}))],
                &none,
                vec!["a"],
            ),
            (
                "selected namespace",
                "other",
                "podAffinity",
                vec![term(&json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}))],
                &none,
                vec!["a"],
            ),
            (
                "every namespace",
                "other",
                "podAntiAffinity",
                vec![term(&json!({"namespaceSelector": {}}))],
                &none,
                vec!["b", "bare"],
            ),
            (
                "all terms must match one pod",
                "default",
                "podAffinity",
                vec![term(&none), second.clone()],
                &none,
                vec![],
            ),
            (
                "one anti-affinity term is enough",
                "default",
                "podAntiAffinity",
                vec![term(&none), second],
                &none,
                vec!["b", "bare"],
            ),
            (
                "same value of a key",
                "default",
                "podAffinity",
                vec![term(&json!({"matchLabelKeys": ["version"]}))],
                &json!({"app": "web", "version": "2"}),
                vec!["a", "b"],
            ),
            (
                "another value of a key",
                "default",
                "podAntiAffinity",
                vec![term(&json!({"mismatchLabelKeys": ["version"]}))],
                &json!({"version": "1"}),
                vec!["a", "b", "bare"],
            ),
        ] {
            let pod = asking(kind, &terms, labels);
            assert_eq!(fitting(&pod, &world(running_in, &json!({}))), expected, "{name}");
        }
    }

    #[test]
    fn running_pods_keep_others_away() {
        let hostile = json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term(&json!({}))]
        }}});
        let web = pod(json!({"metadata": {"name": "new", "labels": {"app": "web"}}}));
        let other = pod(json!({"metadata": {"name": "new", "labels": {"app": "db"}}}));
        assert_eq!(fitting(&web, &world("default", &hostile)), ["b", "bare"]);
        assert_eq!(fitting(&other, &world("default", &hostile)), ["a", "b", "bare"]);
        assert_eq!(fitting(&web, &world("other", &hostile)), ["a", "b", "bare"]);
    }

    #[test]
    fn preferences_are_weighed_per_domain() {
        let weighted = |weight: i32| json!({"weight": weight, "podAffinityTerm": term(&json!({}))});
        let pod = pod(json!({"metadata": {"name": "p"}, "spec": {"affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted(10)]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted(3)]}
        }}}));
        let liked = preferences(&pod, &world("default", &json!({})));
        assert_eq!(liked, [(("zone".to_owned(), "a".to_owned()), 7)].into());
    }
}
