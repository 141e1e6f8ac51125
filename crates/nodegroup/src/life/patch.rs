//! What a step writes, as merge patches. Each has the version of the object that it was decided on as precondition: what
//! somebody else has changed meanwhile is looked at first.

use super::{AttemptMark, Removal, Step};
use crate::{
    api::VPSieNode,
    names::{finalizer, note},
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

/// A write of the VPSieNode itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    Object(Value),
    Status(Value),
}

/// What a step needs beside what it says.
#[derive(Clone, Debug, Default)]
pub struct Means<'a> {
    /// For [`Step::MarkAttempt`] and [`Step::Redate`].
    pub mark: Option<&'a AttemptMark>,
    /// For [`Step::Adopt`]: the VPS's number, if it has one.
    pub number: Option<i64>,
}

/// The patch of the VPSieNode; nothing if the step writes something else or nothing at all.
pub fn patch(node: &VPSieNode, step: &Step, means: &Means<'_>, now: Timestamp) -> Option<Patch> {
    let finalizers = || node.finalizers().iter().filter(|name| *name != finalizer::VPSIE_NODE).cloned();
    let body = match step {
        Step::AddFinalizer => {
            let all: Vec<String> = finalizers().chain([finalizer::VPSIE_NODE.to_owned()]).collect();
            json!({"metadata": {"finalizers": all}})
        }
        Step::RemoveFinalizer => json!({"metadata": {"finalizers": finalizers().collect::<Vec<_>>()}}),
        Step::MarkAttempt | Step::Redate => annotations([(note::ATTEMPT, Some(means.mark?.render()))]),
        Step::ClearAttempt => annotations([(note::ATTEMPT, None)]),
        Step::Adopt(id) => {
            let written = [(note::VPS_IDENTIFIER, Some(id.server().to_owned())), (note::ATTEMPT, None)];
            let mut body = annotations(written);
            // It is set once and for all.
            if let (0, Some(number)) = (node.spec.vpsie_instance_id, means.number) {
                body["spec"] = json!({"vpsieInstanceID": number});
            }
            body
        }
        Step::NoteAbsence(at) => annotations([(note::ABSENT_SINCE, Some(at.to_string()))]),
        Step::ForgetAbsence => annotations([(note::ABSENT_SINCE, None)]),
        Step::CancelRemoval { failed: false } => annotations([(note::REMOVAL, None)]),
        Step::CancelRemoval { failed: true } => {
            annotations([(note::REMOVAL, None), (note::REMOVAL_FAILED, Some(now.to_string()))])
        }
        Step::WriteSpec(change) => json!({"spec": {
            "nodeName": change.node_name, "ipAddress": change.ip_address, "ipv6Address": change.ipv6_address,
        }}),
        Step::Write(report) => {
            // What a status drops has to be said in a merge patch.
            let old = node.status.as_ref().map(|status| json!(status)).unwrap_or_default();
            let mut status = json!(report.status);
            for gone in old.as_object().into_iter().flat_map(Map::keys) {
                if status.get(gone).is_none() {
                    status[gone] = Value::Null;
                }
            }
            return Some(Patch::Status(at_version(node.resource_version(), json!({"status": status}))));
        }
        _ => return None,
    };
    Some(Patch::Object(at_version(node.resource_version(), body)))
}

/// The mark of a group that wants a VPSieNode gone.
pub fn mark_removal(node: &VPSieNode, removal: Removal) -> Value {
    let body = annotations([(note::REMOVAL, Some(removal.render())), (note::REMOVAL_FAILED, None)]);
    at_version(node.resource_version(), body)
}

/// Cordons a Node, and says for whom.
pub fn cordon(node: &hostler_node::Node, vpsie_node: &str) -> Value {
    let mut body = annotations([(note::CORDONED_FOR, Some(vpsie_node.to_owned()))]);
    body["spec"] = json!({"unschedulable": true});
    at_version(node.metadata.resource_version.clone(), body)
}

pub fn uncordon(node: &hostler_node::Node) -> Value {
    let mut body = annotations([(note::CORDONED_FOR, None)]);
    body["spec"] = json!({"unschedulable": null});
    at_version(node.metadata.resource_version.clone(), body)
}

fn annotations<const N: usize>(changes: [(&str, Option<String>); N]) -> Value {
    let changes: Map<String, Value> =
        changes.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect();
    json!({"metadata": {"annotations": changes}})
}

fn at_version(version: Option<String>, mut body: Value) -> Value {
    body["metadata"]["resourceVersion"] = json!(version);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{VPSieNodePhase as Phase, VPSieNodeSpec, VPSieNodeStatus},
        life::{Report, SpecChange, Why, Written},
    };
    use hostler_driver::{Attempt, ProviderId};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node() -> VPSieNode {
        let mut node = VPSieNode::new("n", VPSieNodeSpec::default());
        node.metadata.resource_version = Some("7".into());
        node.metadata.finalizers = Some(vec!["theirs".into(), finalizer::VPSIE_NODE.into()]);
        node
    }

    /// The object after the patch, as an API server would have it.
    fn patched(node: &VPSieNode, step: &Step, means: &Means<'_>) -> VPSieNode {
        fn merge(into: &mut Value, patch: &Value) {
            let Value::Object(fields) = patch else {
                into.clone_from(patch);
                return;
            };
            if !into.is_object() {
                *into = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    into.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut into[key], value);
                }
            }
        }
        let (Patch::Object(body) | Patch::Status(body)) = patch(node, step, means, at(100)).unwrap();
        assert_eq!(body["metadata"]["resourceVersion"], "7", "{step:?}");
        let mut value = serde_json::to_value(node).unwrap();
        merge(&mut value, &body);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_a_step_writes_is_what_is_read_afterwards() {
        let none = Means::default();
        let mark = AttemptMark { attempt: Attempt("x".into()), at: at(100) };
        let with_mark = Means { mark: Some(&mark), number: None };
        let read = |node: &VPSieNode| Written::of(node, None);
        let marked = patched(&node(), &Step::MarkAttempt, &with_mark);
        assert_eq!(read(&marked).attempt, Some(mark.clone()));
        assert_eq!(read(&patched(&marked, &Step::ClearAttempt, &none)).attempt, None);
        let id = ProviderId::vpsie("v1").unwrap();
        let number = Means { number: Some(1001), ..Means::default() };
        let adopted = patched(&marked, &Step::Adopt(id.clone()), &number);
        let written = read(&adopted);
        assert_eq!((written.vps, written.instance_id, written.attempt), (Some(Ok(id.clone())), 1001, None));
        let other = Means { number: Some(1002), ..Means::default() };
        assert_eq!(read(&patched(&adopted, &Step::Adopt(id), &other)).instance_id, 1001, "set once");
        let absent = patched(&node(), &Step::NoteAbsence(at(100)), &none);
        assert_eq!(read(&absent).absent_since, Some(at(100)));
        assert_eq!(read(&patched(&absent, &Step::ForgetAbsence, &none)).absent_since, None);
        let change = SpecChange {
            node_name: Some("n".into()),
            ip_address: Some("192.0.2.10".into()),
            ipv6_address: None,
        };
        assert_eq!(read(&patched(&node(), &Step::WriteSpec(change.clone()), &none)).said, change);
        let free = patched(&node(), &Step::RemoveFinalizer, &none);
        assert_eq!(free.finalizers(), ["theirs"]);
        assert!(read(&patched(&free, &Step::AddFinalizer, &none)).has_finalizer);
        let same = patched(&node(), &Step::AddFinalizer, &none);
        assert_eq!(same.finalizers().len(), 2, "it is there once");
    }

    #[test]
    fn a_removal_is_marked_and_taken_back() {
        let mut marked = node();
        let removal = Removal { why: Why::Surplus, since: at(90) };
        let body = mark_removal(&marked, removal);
        let text = body["metadata"]["annotations"][note::REMOVAL].as_str().unwrap().to_owned();
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        marked.metadata.annotations = Some([(note::REMOVAL.to_owned(), text)].into());
        assert_eq!(Written::of(&marked, None).removal, Some(removal));
        for (failed, expected) in [(false, None), (true, Some(at(100)))] {
            let after = patched(&marked, &Step::CancelRemoval { failed }, &Means::default());
            let written = Written::of(&after, None);
            assert_eq!((written.removal, written.removal_failed), (None, expected));
        }
    }

    #[test]
    fn what_a_status_drops_goes() {
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
        let mut node = node();
        node.status = Some(VPSieNodeStatus {
            phase: Some(Phase::Terminating),
            terminating_at: Some(Time(at(1))),
            ..VPSieNodeStatus::default()
        });
        let status = VPSieNodeStatus { phase: Some(Phase::Ready), ..VPSieNodeStatus::default() };
        let step = Step::Write(Box::new(Report { status: status.clone(), event: None }));
        assert!(matches!(patch(&node, &step, &Means::default(), at(0)), Some(Patch::Status(_))));
        assert_eq!(patched(&node, &step, &Means::default()).status, Some(status));
    }

    #[test]
    fn steps_that_write_elsewhere_write_nothing_here() {
        for step in [Step::Create, Step::List, Step::DeleteSelf, Step::Done, Step::CordonNode] {
            assert_eq!(patch(&node(), &step, &Means::default(), at(0)), None, "{step:?}");
        }
        assert_eq!(patch(&node(), &Step::MarkAttempt, &Means::default(), at(0)), None, "no mark, no attempt");
    }

    #[test]
    fn a_cordon_says_for_whom_it_is() {
        let mut node = hostler_node::Node::default();
        node.metadata.resource_version = Some("9".into());
        let expected = json!({
            "metadata": {"annotations": {"autoscaler.vpsie.com/cordoned-for": "n"}, "resourceVersion": "9"},
            "spec": {"unschedulable": true},
        });
        assert_eq!(cordon(&node, "n"), expected);
        let expected = json!({
            "metadata": {"annotations": {"autoscaler.vpsie.com/cordoned-for": null}, "resourceVersion": "9"},
            "spec": {"unschedulable": null},
        });
        assert_eq!(uncordon(&node), expected);
    }
}
