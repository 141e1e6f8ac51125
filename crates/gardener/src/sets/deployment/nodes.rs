//! What an update does to the nodes of the machines. Each function gives the node as it should be, or nothing if it
//! is so already.

use crate::api::names;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kube::ResourceExt;

const TAINT_VALUE: &str = "True";
const TAINT_EFFECT: &str = "PreferNoSchedule";

fn changed(node: &Node, change: impl FnOnce(&mut Node)) -> Option<Node> {
    let mut after = node.clone();
    change(&mut after);
    (after != *node).then_some(after)
}

/// The autoscaler leaves the node alone. One that somebody else has asked that for stays as it is.
pub(super) fn left_alone(node: &Node) -> Option<Node> {
    let notes = node.annotations();
    let by_others = notes.contains_key(names::SCALE_DOWN_DISABLED_ANNOTATION)
        && !notes.contains_key(names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION);
    if by_others {
        return None;
    }
    changed(node, |node| {
        for key in [names::SCALE_DOWN_DISABLED_ANNOTATION, names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION] {
            node.annotations_mut().insert(key.to_owned(), "true".to_owned());
        }
    })
}

/// The autoscaler may take the node away again, if it was us who forbade it.
pub(super) fn not_left_alone(node: &Node) -> Option<Node> {
    if !node.annotations().contains_key(names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION) {
        return None;
    }
    changed(node, |node| {
        for key in [names::SCALE_DOWN_DISABLED_ANNOTATION, names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION] {
            node.annotations_mut().remove(key);
        }
    })
}

/// Pods go elsewhere, if they can: the node will not be there for long.
pub(super) fn avoided(node: &Node) -> Option<Node> {
    if taints(node).any(is_ours) {
        return None;
    }
    changed(node, |node| {
        let spec = node.spec.get_or_insert_default();
        spec.taints.get_or_insert_default().push(Taint {
            key: names::PREFER_NO_SCHEDULE.to_owned(),
            value: Some(TAINT_VALUE.to_owned()),
            effect: TAINT_EFFECT.to_owned(),
            ..Taint::default()
        });
    })
}

pub(super) fn not_avoided(node: &Node) -> Option<Node> {
    if !taints(node).any(is_ours) {
        return None;
    }
    changed(node, without_taint)
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten())
}

/// When it was put there does not matter.
fn is_ours(taint: &Taint) -> bool {
    taint.key == names::PREFER_NO_SCHEDULE && taint.effect == TAINT_EFFECT
}

fn without_taint(node: &mut Node) {
    let taints = node.spec.as_mut().and_then(|spec| spec.taints.as_mut());
    if let Some(taints) = taints {
        taints.retain(|taint| !is_ours(taint));
    }
}

pub(super) fn has_label(node: &Node, label: &str) -> bool {
    node.labels().contains_key(label)
}

pub(super) fn labelled(node: &Node, label: &str) -> Option<Node> {
    if node.labels().get(label).map(String::as_str) == Some("true") {
        return None;
    }
    changed(node, |node| drop(node.labels_mut().insert(label.to_owned(), "true".to_owned())))
}

/// Whether whoever updates the node says that it is done.
pub(super) fn is_updated(node: &Node) -> bool {
    node.labels().get(names::UPDATE_RESULT_LABEL).map(String::as_str) == Some(names::UPDATE_SUCCESSFUL)
}

/// Whether the machine controller has taken note of it.
pub(super) fn update_is_noted(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == names::IN_PLACE_CONDITION
            && condition.reason.as_deref() == Some(names::REASON_UPDATE_SUCCESSFUL)
    })
}

/// Back in service after an update in place. Its critical components have to come up first.
pub(super) fn back_in_service(node: &Node) -> Option<Node> {
    changed(node, |node| {
        for label in [names::CANDIDATE_LABEL, names::SELECTED_LABEL, names::UPDATE_RESULT_LABEL] {
            node.labels_mut().remove(label);
        }
        if node.annotations().contains_key(names::UPDATE_FAILED_ANNOTATION) {
            node.annotations_mut().remove(names::UPDATE_FAILED_ANNOTATION);
        }
        without_taint(node);
        let spec: &mut NodeSpec = node.spec.get_or_insert_default();
        spec.unschedulable = None;
        let taints = spec.taints.get_or_insert_default();
        if !taints.iter().any(|taint| taint.key == names::CRITICAL_COMPONENTS_TAINT) {
            taints.push(Taint {
                key: names::CRITICAL_COMPONENTS_TAINT.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(metadata: Value, spec: Value) -> Node {
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn what_somebody_else_asked_for_stays() {
        let plain = node(json!({"name": "a"}), json!({}));
        let ours = left_alone(&plain).unwrap();
        assert_eq!(ours.annotations().len(), 2);
        assert_eq!(left_alone(&ours), None);
        assert_eq!(not_left_alone(&ours).unwrap().annotations().len(), 0);
        assert_eq!(not_left_alone(&plain), None);
        let theirs = node(json!({"annotations": {names::SCALE_DOWN_DISABLED_ANNOTATION: "true"}}), json!({}));
        assert_eq!((left_alone(&theirs), not_left_alone(&theirs)), (None, None));
    }

    #[test]
    fn a_taint_is_put_there_once_whenever_that_was() {
        let plain = node(json!({}), json!({"taints": [{"key": "other", "effect": "NoSchedule"}]}));
        let tainted = avoided(&plain).unwrap();
        assert_eq!(taints(&tainted).count(), 2);
        assert_eq!(avoided(&tainted), None);
        let mut dated = tainted.clone();
        for taint in dated.spec.as_mut().unwrap().taints.as_mut().unwrap() {
            taint.time_added = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        }
        assert_eq!(avoided(&dated), None, "written again for its time only");
        assert_eq!(not_avoided(&dated).unwrap().spec.unwrap().taints.unwrap().len(), 1);
        assert_eq!(not_avoided(&plain), None);
    }

    #[test]
    fn an_updated_node_is_back_in_service() {
        let labels = json!({names::CANDIDATE_LABEL: "true", names::SELECTED_LABEL: "true",
            names::UPDATE_RESULT_LABEL: "successful", "keep": "me"});
        let annotations = json!({names::UPDATE_FAILED_ANNOTATION: "once", "keep": "me"});
        let updated = node(
            json!({"labels": labels, "annotations": annotations}),
            json!({"unschedulable": true,
            "taints": [{"key": names::PREFER_NO_SCHEDULE, "value": "True", "effect": "PreferNoSchedule"}]}),
        );
        assert!(is_updated(&updated));
        let back = back_in_service(&updated).unwrap();
        assert_eq!(back.labels().keys().collect::<Vec<_>>(), ["keep"]);
        assert_eq!(back.annotations().keys().collect::<Vec<_>>(), ["keep"]);
        assert_eq!(back.spec.as_ref().unwrap().unschedulable, None);
        let keys: Vec<_> = taints(&back).map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, [names::CRITICAL_COMPONENTS_TAINT]);
    }
}
