//! What a VPSieNode says, as the decision wants it.

use super::{AttemptMark, Claim, Limits, Removal, SpecChange, Wishes, Written};
use crate::{
    api::VPSieNode,
    names::{annotation, finalizer, note},
};
use hostler_driver::{Form, ProviderId};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

impl Written {
    /// `taken_by` is another VPSieNode that has the VPS which this one's claim names.
    pub fn of(node: &VPSieNode, taken_by: Option<String>) -> Self {
        let created_at = node.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let text = |name: &str| node.annotations().get(name).map(|text| text.trim());
        let moment = |name: &str| text(name).and_then(|text| text.parse().ok());
        let claim = text(annotation::ADOPT).filter(|named| !named.is_empty()).map(|named| Claim {
            named: named.to_owned(),
            taken_by,
            delete_with_it: text(annotation::DELETION_POLICY).is_some_and(|policy| policy == "Delete"),
        });
        Self {
            deleting: node.metadata.deletion_timestamp.is_some(),
            has_finalizer: node.finalizers().iter().any(|name| name == finalizer::VPSIE_NODE),
            generation: node.metadata.generation.unwrap_or_default(),
            created_at,
            instance_id: node.spec.vpsie_instance_id,
            vps: text(note::VPS_IDENTIFIER).map(|id| provider_id(node, id)),
            attempt: text(note::ATTEMPT).map(|mark| AttemptMark::read(mark, created_at)),
            attempt_unsent: false,
            absent_since: moment(note::ABSENT_SINCE),
            removal: text(note::REMOVAL).and_then(Removal::parse),
            removal_failed: moment(note::REMOVAL_FAILED),
            claim,
            status: node.status.clone().unwrap_or_default(),
            said: SpecChange {
                node_name: node.spec.node_name.clone(),
                ip_address: node.spec.ip_address.clone(),
                ipv6_address: node.spec.ipv6_address.clone(),
            },
        }
    }
}

/// The VPS that an identifier names; workers of a cluster that VPSie runs are counted by their cluster.
fn provider_id(node: &VPSieNode, identifier: &str) -> Result<ProviderId, String> {
    let id = match &node.spec.resource_identifier {
        None => ProviderId::vpsie(identifier),
        Some(cluster) => {
            ProviderId::new(Form::VpsieManaged, &[&node.spec.datacenter_id, cluster, identifier])
        }
    };
    id.map_err(|error| error.to_string())
}

impl Wishes {
    pub fn of(node: &VPSieNode, paused: bool) -> Self {
        let is = |name: &str| node.annotations().get(name).is_some_and(|text| text == "true");
        Self { protected: is(annotation::DO_NOT_DELETE), paused }
    }
}

/// Whether its pods are to be deleted at once.
pub fn is_forced(node: &VPSieNode) -> bool {
    node.annotations().get(annotation::FORCE_DELETE).is_some_and(|text| text == "true")
}

/// Whether somebody says that its VPS is gone, whatever else is missing.
pub fn is_confirmed_gone(node: &VPSieNode) -> bool {
    node.annotations().get(annotation::VPS_GONE).is_some_and(|text| text == "true")
}

impl Limits {
    /// With the VPSieNode's own drain timeout. One that is no number of seconds does not count, and is told.
    pub fn of(self, node: &VPSieNode) -> (Self, Option<String>) {
        let Some(text) = node.annotations().get(annotation::DRAIN_TIMEOUT) else { return (self, None) };
        match text.trim().parse::<u32>() {
            Ok(seconds) if seconds > 0 => {
                (Self { drain: SignedDuration::from_secs(seconds.into()), ..self }, None)
            }
            _ => {
                let told = format!(
                    "metadata.annotations[{}]: must be a number of seconds > 0, is {text:?}; {} s hold",
                    annotation::DRAIN_TIMEOUT,
                    self.drain.as_secs()
                );
                (self, Some(told))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Why;
    use serde_json::{Value, json};

    fn node(change: impl FnOnce(&mut Value)) -> VPSieNode {
        let mut value = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {}},
            "spec": {"vpsieInstanceID": 0, "instanceType": "small", "nodeGroupName": "g", "datacenterID": "dc"},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn annotated(pairs: &[(&str, &str)]) -> VPSieNode {
        node(|value| {
            for (name, text) in pairs {
                value["metadata"]["annotations"][name] = json!(text);
            }
        })
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn everything_that_is_noted_is_read_again() {
        let new = Written::of(&node(|_| {}), None);
        assert_eq!((new.deleting, new.has_finalizer, new.instance_id), (false, false, 0));
        assert!(new.vps.is_none() && new.attempt.is_none() && new.removal.is_none() && new.claim.is_none());
        let written = Written::of(
            &annotated(&[
                ("autoscaler.vpsie.com/vps-identifier", "v1"),
                ("autoscaler.vpsie.com/attempt", "x@2026-01-01T00:01:00Z"),
                ("autoscaler.vpsie.com/absent-since", "2026-01-01T00:02:00Z"),
                ("autoscaler.vpsie.com/removal", "scale-down@2026-01-01T00:03:00Z"),
                ("autoscaler.vpsie.com/removal-failed", "2026-01-01T00:04:00Z"),
            ]),
            None,
        );
        assert_eq!(written.vps, Some(Ok(ProviderId::vpsie("v1").unwrap())));
        assert_eq!(written.attempt.map(|mark| mark.at), Some(at("2026-01-01T00:01:00Z")));
        assert_eq!(written.absent_since, Some(at("2026-01-01T00:02:00Z")));
        let removal = Removal { why: Why::ScaleDown, since: at("2026-01-01T00:03:00Z") };
        assert_eq!(written.removal, Some(removal));
        assert_eq!(written.removal_failed, Some(at("2026-01-01T00:04:00Z")));
        let going = node(|value| {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            value["metadata"]["finalizers"] = json!(["vpsienode.autoscaler.vpsie.com/finalizer"]);
        });
        let written = Written::of(&going, None);
        assert!(written.deleting && written.has_finalizer);
    }

    #[test]
    fn what_cannot_be_read_does_the_least_harm() {
        let written = Written::of(
            &annotated(&[
                ("autoscaler.vpsie.com/vps-identifier", "../x"),
                ("autoscaler.vpsie.com/attempt", "?"),
                ("autoscaler.vpsie.com/absent-since", "soon"),
                ("autoscaler.vpsie.com/removal", "please"),
            ]),
            None,
        );
        assert!(matches!(written.vps, Some(Err(_))), "it is told");
        assert_eq!(
            written.attempt.map(|mark| mark.at),
            Some(at("2026-01-01T00:00:00Z")),
            "there may be a VPS"
        );
        assert_eq!((written.absent_since, written.removal), (None, None));
    }

    #[test]
    fn a_worker_of_a_cluster_that_vpsie_runs_is_known_by_its_cluster() {
        let worker = node(|value| {
            value["spec"]["resourceIdentifier"] = json!("c-1");
            value["metadata"]["annotations"]["autoscaler.vpsie.com/vps-identifier"] = json!("w-1");
        });
        let id = Written::of(&worker, None).vps.unwrap().unwrap();
        assert_eq!(id.to_string(), "vpsie://dc/c-1/w-1");
    }

    #[test]
    fn wishes_are_what_people_write_on_it() {
        let claim = |pairs: &[(&str, &str)]| Written::of(&annotated(pairs), Some("other".into())).claim;
        let adopt = ("autoscaler.vpsie.com/adopt", "1001");
        assert_eq!(claim(&[]), None);
        assert_eq!(claim(&[("autoscaler.vpsie.com/adopt", " ")]), None);
        let named = claim(&[adopt]).unwrap();
        assert_eq!(
            (named.named.as_str(), named.taken_by.as_deref(), named.delete_with_it),
            ("1001", Some("other"), false)
        );
        assert!(claim(&[adopt, ("autoscaler.vpsie.com/deletion-policy", "Delete")]).unwrap().delete_with_it);
        assert!(
            !claim(&[adopt, ("autoscaler.vpsie.com/deletion-policy", "Release")]).unwrap().delete_with_it
        );
        for (text, expected) in [("true", true), ("false", false), ("", false), ("yes", false)] {
            let all = annotated(&[
                ("autoscaler.vpsie.com/do-not-delete", text),
                ("autoscaler.vpsie.com/force-delete", text),
                ("autoscaler.vpsie.com/vps-gone", text),
            ]);
            let found = (Wishes::of(&all, false).protected, is_forced(&all), is_confirmed_gone(&all));
            assert_eq!(found, (expected, expected, expected), "{text:?}");
        }
        assert!(Wishes::of(&node(|_| {}), true).paused);
    }

    #[test]
    fn a_drain_timeout_of_its_own_holds_if_it_is_one() {
        for (text, seconds, told) in [
            ("60", 60, false),
            (" 1200 ", 1200, false),
            ("0", 600, true),
            ("-5", 600, true),
            ("10m", 600, true),
        ] {
            let (limits, problem) =
                Limits::default().of(&annotated(&[("autoscaler.vpsie.com/drain-timeout", text)]));
            assert_eq!((limits.drain.as_secs(), problem.is_some()), (seconds, told), "{text}: {problem:?}");
        }
        assert_eq!(Limits::default().of(&node(|_| {})), (Limits::default(), None));
    }
}
