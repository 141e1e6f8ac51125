//! A member, read from its VPSieNode and its Node.

use super::{Existence, Member};
use crate::{
    api::{VPSieNode, VPSieNodeConditionType as Kind, VPSieNodePhase as Phase, VPSieNodeStatus},
    life::{Cordon, Wishes, Written},
    names::{note, reason},
};
use hostler_node::{Node, is_ready};
use jiff::Timestamp;
use kube::ResourceExt;

/// Who cordoned a node, as far as this VPSieNode is concerned.
pub fn cordon(node: &Node, vpsie_node: &str) -> Cordon {
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    match node.annotations().get(note::CORDONED_FOR) {
        _ if !unschedulable => Cordon::No,
        Some(for_whom) if for_whom == vpsie_node => Cordon::Ours,
        _ => Cordon::Theirs,
    }
}

/// Since when a node has not been Ready; nothing if it is.
fn unready_since(node: &Node) -> Option<Timestamp> {
    if is_ready(node) {
        return None;
    }
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|one| one.type_ == "Ready");
    let since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    // One that has said nothing yet has said so since it came.
    since.or_else(|| node.creation_timestamp().map(|time| time.0))
}

/// When it came to nothing because of what the cloud or its machine did.
fn failed_at(status: &VPSieNodeStatus) -> Option<Timestamp> {
    let error = status.conditions.iter().find(|one| one.kind == Kind::Error && one.status == "True")?;
    let counts = matches!(error.reason.as_str(), reason::PROVISIONING_FAILED | reason::JOIN_FAILED);
    (status.phase == Some(Phase::Failed) && counts).then_some(error.last_transition_time.0)
}

impl Member {
    /// `node` is its Node, if there is one; `pods` are those that would have to move.
    pub fn of(vpsie_node: &VPSieNode, node: Option<&Node>, pods: u32, hosts_us: bool) -> Self {
        let written = Written::of(vpsie_node, None);
        let status = &written.status;
        let had_node = status.joined_at.is_some();
        let gone = status.conditions.iter().any(|one| one.reason == reason::VPS_NOT_FOUND);
        let existence = if gone {
            Existence::None
        } else if written.vps.is_some() || written.instance_id != 0 {
            Existence::There
        } else if written.attempt.is_some() {
            Existence::Maybe
        } else {
            Existence::None
        };
        let lost = || {
            let ready = status.conditions.iter().find(|one| one.kind == Kind::NodeReady);
            ready.filter(|ready| ready.status != "True").map(|ready| ready.last_transition_time.0)
        };
        let unready_since = match node {
            Some(node) => unready_since(node),
            None if had_node => lost(),
            None => None,
        };
        Self {
            name: vpsie_node.name_any(),
            phase: status.phase,
            deleting: written.deleting,
            removal: written.removal.map(|removal| removal.why),
            removal_failed: written.removal_failed,
            protected: Wishes::of(vpsie_node, false).protected,
            offering: vpsie_node.spec.instance_type.clone(),
            created_at: written.created_at,
            existence,
            vps_id: written.instance_id,
            node_name: node.map(ResourceExt::name_any).or(written.said.node_name).unwrap_or_default(),
            ip_address: written.said.ip_address.unwrap_or_default(),
            had_node,
            node_ready: node.is_some_and(is_ready),
            unready_since,
            cordoned: node.is_some_and(|node| cordon(node, &vpsie_node.name_any()) == Cordon::Theirs),
            pods,
            hosts_us,
            last_error: status.last_error.clone(),
            failed_at: failed_at(status),
            ready_at: status.ready_at.as_ref().map(|time| time.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Why;
    use serde_json::{Value, json};

    fn vpsie_node(change: impl FnOnce(&mut Value)) -> VPSieNode {
        let mut value = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": {
                "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"autoscaler.vpsie.com/vps-identifier": "v1"},
            },
            "spec": {
                "vpsieInstanceID": 1001, "instanceType": "small", "nodeGroupName": "g", "datacenterID": "dc",
                "nodeName": "n", "ipAddress": "192.0.2.10",
            },
            "status": {"phase": "Ready", "joinedAt": "2026-01-01T00:05:00Z"},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn node(ready: Option<&str>) -> Node {
        let condition = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T01:00:00Z"}]);
        let value = json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:05:00Z"},
            "status": {"conditions": ready.map_or(json!([]), condition)},
        });
        serde_json::from_value(value).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_member_is_what_vpsie_node_and_node_say_together() {
        let member = Member::of(&vpsie_node(|_| {}), Some(&node(Some("True"))), 3, true);
        let expected = Member {
            name: "n".into(),
            phase: Some(Phase::Ready),
            offering: "small".into(),
            created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            existence: Existence::There,
            vps_id: 1001,
            node_name: "n".into(),
            ip_address: "192.0.2.10".into(),
            had_node: true,
            node_ready: true,
            pods: 3,
            hosts_us: true,
            ..Member::default()
        };
        assert_eq!(member, expected);
        let removed = vpsie_node(|value| {
            value["metadata"]["annotations"]["autoscaler.vpsie.com/removal"] =
                json!("surplus@2026-01-01T00:00:00Z");
            value["metadata"]["annotations"]["autoscaler.vpsie.com/do-not-delete"] = json!("true");
        });
        let member = Member::of(&removed, None, 0, false);
        assert_eq!((member.removal, member.protected), (Some(Why::Surplus), true));
    }

    #[test]
    fn a_node_is_unready_since_it_says_so_or_since_it_is_gone() {
        let since = |node: Option<&Node>| Member::of(&vpsie_node(|_| {}), node, 0, false).unready_since;
        assert_eq!(since(Some(&node(Some("True")))), None);
        assert_eq!(since(Some(&node(Some("Unknown")))), Some(at("2026-01-01T01:00:00Z")));
        assert_eq!(since(Some(&node(None))), Some(at("2026-01-01T00:05:00Z")));
        let deleted = vpsie_node(|value| {
            value["status"]["conditions"] = json!([{
                "type": "NodeReady", "status": "False", "reason": "NodeDeleted", "message": "",
                "lastTransitionTime": "2026-01-01T02:00:00Z",
            }]);
        });
        assert_eq!(Member::of(&deleted, None, 0, false).unready_since, Some(at("2026-01-01T02:00:00Z")));
        let new = vpsie_node(|value| value["status"] = json!({"phase": "Provisioning"}));
        assert_eq!(Member::of(&new, None, 0, false).unready_since, None, "it never joined");
    }

    #[test]
    fn there_is_a_vps_as_long_as_nobody_has_proven_the_opposite() {
        let existence = |change: fn(&mut Value)| Member::of(&vpsie_node(change), None, 0, false).existence;
        let annotations = |value: &mut Value, new: Value| {
            value["metadata"]["annotations"] = new;
            value["spec"]["vpsieInstanceID"] = json!(0);
        };
        assert_eq!(existence(|_| {}), Existence::There);
        assert_eq!(existence(|value| value["metadata"]["annotations"] = json!({})), Existence::There);
        let bare = Member::of(&vpsie_node(|value| annotations(value, json!({}))), None, 0, false);
        assert_eq!(bare.existence, Existence::None);
        let ordered = vpsie_node(|value| {
            annotations(value, json!({"autoscaler.vpsie.com/attempt": "x@2026-01-01T00:00:00Z"}));
        });
        assert_eq!(Member::of(&ordered, None, 0, false).existence, Existence::Maybe);
        let gone = existence(|value| {
            value["status"]["conditions"] = json!([{
                "type": "VPSReady", "status": "False", "reason": "VPSNotFound", "message": "",
                "lastTransitionTime": "2026-01-01T02:00:00Z",
            }]);
        });
        assert_eq!(gone, Existence::None);
    }

    #[test]
    fn what_came_to_nothing_is_told_with_its_moment() {
        let failed = |phase: &str, reason: &str| {
            let node = vpsie_node(|value| {
                value["status"]["phase"] = json!(phase);
                value["status"]["conditions"] = json!([{
                    "type": "Error", "status": "True", "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-01T02:00:00Z",
                }]);
            });
            Member::of(&node, None, 0, false).failed_at
        };
        assert_eq!(failed("Failed", "ProvisioningFailed"), Some(at("2026-01-01T02:00:00Z")));
        assert_eq!(failed("Failed", "JoinFailed"), Some(at("2026-01-01T02:00:00Z")));
        assert_eq!(failed("Failed", "VPSNotFound"), None, "that one was there");
        assert_eq!(failed("Provisioning", "ProvisioningFailed"), None);
    }

    #[test]
    fn a_cordon_is_ours_only_if_it_was_made_for_this_one() {
        let cordoned = |for_whom: Option<&str>, unschedulable: bool| {
            let mut node = node(None);
            node.metadata.annotations =
                for_whom.map(|name| [(note::CORDONED_FOR.to_owned(), name.to_owned())].into());
            node.spec =
                Some(hostler_node::NodeSpec { unschedulable: Some(unschedulable), ..Default::default() });
            cordon(&node, "n")
        };
        assert_eq!(cordoned(None, false), Cordon::No);
        assert_eq!(cordoned(Some("n"), false), Cordon::No, "somebody uncordoned it");
        assert_eq!(cordoned(None, true), Cordon::Theirs);
        assert_eq!(cordoned(Some("other"), true), Cordon::Theirs);
        assert_eq!(cordoned(Some("n"), true), Cordon::Ours);
    }
}
