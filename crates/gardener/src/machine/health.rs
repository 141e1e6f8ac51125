//! How a machine's node is, and whether its deployment can do without it.

use super::{Machine, MachineController, Memory, Next, in_place};
use crate::{
    api::{Phase, names},
    life::{GATE_AGAIN, NodeView, StatusChange},
};
use hostler_controller::{Outcome, Trouble};
use hostler_node::Node;
use k8s_openapi::api::core::v1::NodeCondition;
use kube::{Api, Resource, ResourceExt, api::ListParams};
use std::sync::Arc;

impl MachineController {
    pub(super) fn node_view(&self, machine: &Machine, node: &Node) -> NodeView {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let conditions = conditions_of(node);
        let recorded = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        NodeView {
            name: node.name_any(),
            ready: self.is_well(machine, node),
            critical_components_missing: taints
                .iter()
                .any(|taint| taint.key == names::CRITICAL_COMPONENTS_TAINT),
            held: super::is_held(node),
            going: self.is_going(node),
            in_place: in_place::seen_on(node),
            conditions: in_words(conditions),
            recorded: !differ(recorded, conditions),
            ..NodeView::default()
        }
    }

    /// Whether all conditions of the node that count for this machine say that it is well.
    pub(super) fn is_well(&self, machine: &Machine, node: &Node) -> bool {
        let listed = machine.spec.configuration.node_conditions.as_deref();
        is_well(conditions_of(node), listed.unwrap_or(&self.options.node_conditions))
    }

    /// A machine of the same deployment that is being replaced, as far as the cache shows.
    pub(super) fn replaced(&self, machine: &Machine) -> Option<String> {
        let deployment = machine.labels().get(names::DEPLOYMENT_LABEL)?;
        let others = self.caches.machines.filter(|other| {
            other.labels().get(names::DEPLOYMENT_LABEL) == Some(deployment) && is_replaced(other)
        });
        others.first().map(|other| other.name_any())
    }

    /// Writes that a machine has failed, unless another one of its deployment is being replaced. One at a time looks and
    /// writes, and the API server is asked, not a cache: two of them would each see that the other one is not.
    pub(super) async fn give_up(
        &self,
        machine: Box<Machine>,
        change: StatusChange,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let _turn = self.replacing.lock().await;
        if let Some(deployment) = machine.labels().get(names::DEPLOYMENT_LABEL) {
            let namespace = machine.namespace().unwrap_or_default();
            let machines: Api<Machine> = Api::namespaced(self.control.clone(), &namespace);
            let all = machines.list(&ListParams::default()).await?.items;
            let others =
                all.iter().filter(|other| other.labels().get(names::DEPLOYMENT_LABEL) == Some(deployment));
            for other in others {
                self.caches.machines.learn(Arc::new(other.clone()));
                if is_replaced(other) {
                    tracing::info!(other = other.name_any(), "another machine is being replaced");
                    let reason = "ReplacementInProgress";
                    return Ok(Next::End(Outcome::Wait { reason, check: Some(GATE_AGAIN) }));
                }
            }
        }
        self.write_status(machine, change, memory).await
    }
}

pub(super) fn conditions_of(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Whether a machine is on its way out, or its successor on its way in. One that is kept although it failed is not.
fn is_replaced(machine: &Machine) -> bool {
    let status = machine.status.as_ref().map(|status| status.current_status.clone()).unwrap_or_default();
    match status.phase {
        Phase::Terminating => true,
        _ if machine.meta().deletion_timestamp.is_some() => true,
        Phase::Unknown | Phase::Running => false,
        _ => status.preserve_expiry_time.is_none(),
    }
}

/// Whether a node is well: it says something, does not say that it is not Ready, and has none of the listed troubles.
fn is_well(conditions: &[NodeCondition], listed: &str) -> bool {
    let troubles: Vec<&str> = listed.split(',').collect();
    let unwell = |condition: &NodeCondition| {
        let wanted = match condition.type_.as_str() {
            "Ready" => "True",
            kind if troubles.contains(&kind) => "False",
            _ => return false,
        };
        condition.status != wanted
    };
    !conditions.is_empty() && !conditions.iter().any(unwell)
}

/// Whether conditions differ in what matters. Heartbeats do not.
fn differ(recorded: &[NodeCondition], now: &[NodeCondition]) -> bool {
    let same = |one: &NodeCondition, other: &NodeCondition| {
        one.type_ == other.type_
            && one.status == other.status
            && (one.type_ != names::IN_PLACE_CONDITION || one.reason == other.reason)
    };
    let news = now.iter().any(|new| !recorded.iter().any(|old| same(old, new)));
    news || recorded.iter().any(|old| !now.iter().any(|new| new.type_ == old.type_))
}

fn in_words(conditions: &[NodeCondition]) -> String {
    let one = |condition: &NodeCondition| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!(
            "Type: {} | Status: {} | Reason: {} | Message: {}",
            condition.type_,
            condition.status,
            text(&condition.reason),
            text(&condition.message)
        )
    };
    conditions.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DEFAULT: &str = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable";

    type Said = &'static [(&'static str, &'static str)];

    fn conditions(all: &[(&str, &str)]) -> Vec<NodeCondition> {
        let one = |(kind, status): &(&str, &str)| NodeCondition {
            type_: (*kind).to_owned(),
            status: (*status).to_owned(),
            ..NodeCondition::default()
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_node_is_well_by_its_conditions() {
        let table: [(Said, &str, bool); 12] = [
            (&[], DEFAULT, false),
            (&[("Ready", "True")], DEFAULT, true),
            (&[("Ready", "False")], DEFAULT, false),
            (&[("Ready", "Unknown")], DEFAULT, false),
            (&[("MemoryPressure", "False")], DEFAULT, true),
            (&[("Ready", "True"), ("DiskPressure", "False")], DEFAULT, true),
            (&[("Ready", "True"), ("DiskPressure", "True")], DEFAULT, false),
            (&[("Ready", "True"), ("DiskPressure", "Unknown")], DEFAULT, false),
            (&[("Ready", "True"), ("MemoryPressure", "True")], DEFAULT, true),
            (&[("Ready", "True"), ("MemoryPressure", "True")], "MemoryPressure", false),
            (&[("Ready", "True"), ("diskPressure", "True")], DEFAULT, true),
            (&[("Ready", "True"), ("DiskPressure", "True")], "", true),
        ];
        for (all, listed, expected) in table {
            assert_eq!(is_well(&conditions(all), listed), expected, "{all:?} {listed}");
        }
    }

    #[test]
    fn only_what_matters_is_recorded_anew() {
        let base = conditions(&[("Ready", "True"), ("DiskPressure", "False")]);
        let mut beats = base.clone();
        beats[0].last_heartbeat_time =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        beats[0].reason = Some("KubeletReady".into());
        assert!(!differ(&base, &beats));
        assert!(differ(&base, &conditions(&[("Ready", "False"), ("DiskPressure", "False")])));
        assert!(differ(&base, &conditions(&[("Ready", "True")])));
        assert!(differ(&conditions(&[("Ready", "True")]), &base));
        let mut one = conditions(&[(names::IN_PLACE_CONDITION, "True")]);
        let other = one.clone();
        one[0].reason = Some("CandidateForUpdate".into());
        assert!(differ(&other, &one));
    }

    #[test]
    fn machines_that_come_and_go_count_as_replacements() {
        let machine = |phase: &str, preserved: Value, deleted: Value| -> Machine {
            serde_json::from_value(
                json!({"metadata": {"name": "m", "deletionTimestamp": deleted}, "spec": {},
                "status": {"currentStatus": {"phase": phase, "preserveExpiryTime": preserved}}}),
            )
            .unwrap()
        };
        let (never, then) = (Value::Null, json!("2026-01-01T00:00:00Z"));
        for (phase, expected) in [
            ("", true),
            ("Pending", true),
            ("Running", false),
            ("Unknown", false),
            ("Failed", true),
            ("CrashLoopBackOff", true),
            ("Terminating", true),
            ("InPlaceUpdating", true),
            ("InPlaceUpdateFailed", true),
        ] {
            assert_eq!(is_replaced(&machine(phase, never.clone(), never.clone())), expected, "{phase}");
            assert!(is_replaced(&machine(phase, never.clone(), then.clone())), "{phase}, deleted");
            let preserved = is_replaced(&machine(phase, then.clone(), never.clone()));
            assert_eq!(preserved, phase == "Terminating", "{phase}, preserved");
        }
    }
}
