//! What is written about a machine that is kept for a while, and the writing of it.

use super::{Machine, MachineController, Memory, Next, health::conditions_of, observe};
use crate::{
    api::names,
    life::{Preserve, PreservedCondition, PreservedNode},
};
use hostler_controller::{EventKind, Key, Outcome, Trouble};
use hostler_node::Node;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};

fn condition(node: &Node) -> Option<&NodeCondition> {
    conditions_of(node).iter().find(|condition| condition.type_ == names::PRESERVED_CONDITION)
}

fn seen_on(node: &Node) -> PreservedNode {
    let note = |name: &str| node.annotations().get(name).map(String::as_str);
    PreservedNode {
        value: note(names::PRESERVE_ANNOTATION).unwrap_or_default().to_owned(),
        condition: condition(node).map(|condition| PreservedCondition {
            holds: condition.status == "True",
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        }),
        left_alone: note(names::SCALE_DOWN_DISABLED_ANNOTATION) == Some("true"),
        left_alone_by_us: note(names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION) == Some("true"),
        cordoned: node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)),
        cordoned_by_us: note(names::CORDONED_ANNOTATION).map(|value| value == "true"),
    }
}

impl MachineController {
    pub(super) fn preserve_of(&self, machine: &Machine, node: Option<&Node>) -> Preserve {
        let note = |name: &str| machine.annotations().get(name).cloned().unwrap_or_default();
        let until =
            machine.status.as_ref().and_then(|status| status.current_status.preserve_expiry_time.clone());
        let own = machine.spec.configuration.machine_preserve_timeout.as_deref();
        Preserve {
            machine: note(names::PRESERVE_ANNOTATION),
            noted: note(names::NODE_PRESERVE_ANNOTATION),
            until: until.map(|until| until.0),
            timeout: own
                .and_then(observe::read)
                .unwrap_or_else(|| observe::signed(self.options.preserve_timeout)),
            node: node.map(seen_on),
        }
    }

    /// Says once that nobody knows what is wanted.
    pub(super) fn tell_nonsense(&self, machine: &Machine, preserve: &Preserve) {
        let key = Key::of(machine);
        let mut told = self.nonsense.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(problem) = preserve.nonsense() else {
            told.remove(&key);
            return;
        };
        if told.get(&key) != Some(&problem) {
            self.event(machine, EventKind::Warning, "InvalidPreserveValue", &problem);
            told.insert(key, problem);
        }
    }

    pub(super) async fn keep_until(
        &self,
        mut machine: Box<Machine>,
        until: Option<Timestamp>,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let current = &mut machine.status.get_or_insert_default().current_status;
        current.preserve_expiry_time = until.map(Time);
        current.last_update_time = Some(Time(self.clock.now()));
        let written = self.replace_status(machine, memory).await?;
        if let Next::Again(machine) = &written {
            let (reason, message) = match until {
                Some(until) => {
                    let why = names::PRESERVE_ANNOTATION;
                    ("Preserved", format!("the machine is kept until {until} because of {why}"))
                }
                None => ("PreservationStopped", "the machine is kept no longer".to_owned()),
            };
            self.event(machine, EventKind::Normal, reason, &message);
        }
        Ok(written)
    }

    pub(super) async fn note_preserve(
        &self,
        machine: Box<Machine>,
        value: String,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        self.write(machine, memory, |machine| {
            let annotations = machine.annotations_mut();
            annotations.remove(names::PRESERVE_ANNOTATION);
            annotations.remove(names::NODE_PRESERVE_ANNOTATION);
            if !value.is_empty() {
                annotations.insert(names::NODE_PRESERVE_ANNOTATION.to_owned(), value);
            }
        })
        .await
    }

    pub(super) async fn set_preserved(
        &self,
        machine: Box<Machine>,
        wanted: PreservedCondition,
    ) -> Result<Next, Trouble> {
        let Some(node) = self.node(&machine) else { return Ok(Next::End(Outcome::Done)) };
        let status = if wanted.holds { "True" } else { "False" };
        let now = Time(self.clock.now());
        let since = condition(&node).filter(|before| before.status == status);
        let since =
            since.and_then(|before| before.last_transition_time.clone()).unwrap_or_else(|| now.clone());
        // Merged by type: what others say about the node stays.
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": node.uid()},
            "status": {"conditions": [{
                "type": names::PRESERVED_CONDITION, "status": status, "reason": wanted.reason,
                "message": wanted.message, "lastHeartbeatTime": now, "lastTransitionTime": since,
            }]},
        }));
        let Some(target) = &self.target else { return Ok(Next::End(Outcome::Done)) };
        let nodes: Api<Node> = Api::all(target.clone());
        let written = nodes.patch_status(&node.name_any(), &PatchParams::default(), &patch).await?;
        self.caches.nodes.learn(Arc::new(written));
        Ok(Next::Again(machine))
    }

    pub(super) async fn change_node(&self, machine: Box<Machine>, mut patch: Value) -> Result<Next, Trouble> {
        let (Some(target), Some(node)) = (&self.target, self.node(&machine)) else {
            return Ok(Next::End(Outcome::Done));
        };
        patch["metadata"]["uid"] = json!(node.uid());
        let nodes: Api<Node> = Api::all(target.clone());
        let written = nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.caches.nodes.learn(Arc::new(written));
        Ok(Next::Again(machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_is_read() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "m", "annotations": {
                "node.machine.sapcloud.io/preserve": "when-failed",
                "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
                "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm": "true",
                "machine.hostler.dev/cordoned-to-preserve": "false"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "Preserved", "status": "True", "reason": "Preserved by user.", "message": "for long"}]},
        }))
        .unwrap();
        let condition = PreservedCondition {
            holds: true,
            reason: "Preserved by user.".to_owned(),
            message: "for long".to_owned(),
        };
        let expected = PreservedNode {
            value: "when-failed".to_owned(),
            condition: Some(condition),
            left_alone: true,
            left_alone_by_us: true,
            cordoned: true,
            cordoned_by_us: Some(false),
        };
        assert_eq!(seen_on(&node), expected);
        assert_eq!(seen_on(&Node::default()), PreservedNode::default());
    }
}
