//! Does the pod tolerate the node's taints and its being cordoned?

use super::Refusal;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

pub(crate) fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same_effect =
        toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let same_key = key == taint.key || (key.is_empty() && exists);
    same_effect && same_key && (exists || value == taint.value.as_deref().unwrap_or_default())
}

/// Whether no taint with one of these effects is left untolerated.
pub(crate) fn tolerates_all(pod: &Pod, node: &Node, effects: &[&str]) -> bool {
    untolerated(pod, node, effects) == 0
}

fn untolerated(pod: &Pod, node: &Node, effects: &[&str]) -> usize {
    let tolerations = tolerations(pod);
    node.spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .filter(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        .count()
}

pub(crate) fn cordoned(pod: &Pod, node: &Node) -> Option<Refusal> {
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
        return None;
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let tolerated = tolerations(pod).iter().any(|toleration| tolerates(toleration, &taint));
    (!tolerated).then(|| Refusal::lasting("node(s) were unschedulable"))
}

pub(crate) fn tainted(pod: &Pod, node: &Node) -> Option<Refusal> {
    (!tolerates_all(pod, node, &["NoSchedule", "NoExecute"]))
        .then(|| Refusal::lasting("node(s) had untolerated taint(s)"))
}

/// How many taints say that the pod had better go elsewhere.
pub(crate) fn discouraging(pod: &Pod, node: &Node) -> i64 {
    let soft: Vec<Toleration> = tolerations(pod)
        .iter()
        .filter(|toleration| matches!(toleration.effect.as_deref(), None | Some("" | "PreferNoSchedule")))
        .cloned()
        .collect();
    let count = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !soft.iter().any(|toleration| tolerates(toleration, taint)))
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::pod;
    use serde_json::{Value, json};

    fn refused(taints: &Value, tolerations: &Value, unschedulable: bool) -> Option<&'static str> {
        let node: Node =
            serde_json::from_value(json!({"spec": {"taints": taints, "unschedulable": unschedulable}}))
                .unwrap();
        let pod = pod(json!({"spec": {"tolerations": tolerations}}));
        if cordoned(&pod, &node).is_some() {
            Some("cordoned")
        } else {
            tainted(&pod, &node).map(|_| "tainted")
        }
    }

    #[test]
    fn taints_and_tolerations() {
        let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        let evicting = json!([{"key": "k", "effect": "NoExecute"}]);
        let soft = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
        for (name, taints, tolerations, expected) in [
            ("none", json!([]), json!([]), None),
            ("untolerated", taint.clone(), json!([]), Some("tainted")),
            ("no-execute counts", evicting.clone(), json!([]), Some("tainted")),
            ("soft does not", soft, json!([]), None),
            (
                "equal",
                taint.clone(),
                json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]),
                None,
            ),
            ("equal is the default", taint.clone(), json!([{"key": "k", "value": "v"}]), None),
            ("other value", taint.clone(), json!([{"key": "k", "value": "w"}]), Some("tainted")),
            (
                "other effect",
                taint.clone(),
                json!([{"key": "k", "value": "v", "effect": "NoExecute"}]),
                Some("tainted"),
            ),
            ("exists", taint.clone(), json!([{"key": "k", "operator": "Exists"}]), None),
            ("everything", taint.clone(), json!([{"operator": "Exists"}]), None),
            (
                "everything of an effect",
                evicting,
                json!([{"operator": "Exists", "effect": "NoSchedule"}]),
                Some("tainted"),
            ),
            ("empty key needs Exists", taint, json!([{"value": "v"}]), Some("tainted")),
        ] {
            assert_eq!(refused(&taints, &tolerations, false), expected, "{name}");
        }
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        let none = json!([]);
        assert_eq!(refused(&none, &none, true), Some("cordoned"));
        let tolerated = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        assert_eq!(refused(&none, &tolerated, true), None);
    }

    #[test]
    fn soft_taints_are_counted() {
        let node: Node = serde_json::from_value(json!({"spec": {"taints": [
            {"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}
        ]}}))
        .unwrap();
        assert_eq!(discouraging(&pod(json!({})), &node), 2);
        let tolerant = pod(json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}));
        assert_eq!(discouraging(&tolerant, &node), 1);
    }
}
