//! What a MachineSet tells of its machines.

use super::{
    decide::Failure,
    order::{phase, preserved_until},
};
use crate::{
    api::{
        Machine, MachineSet, MachineSetCondition, MachineSetStatus, MachineSummary, OperationState, Phase,
        names,
    },
    sets::claim::controller_of,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::sync::Arc;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status to write, if it says something else than the present one.
pub(super) fn changed(
    set: &MachineSet,
    own: &[Arc<Machine>],
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<MachineSetStatus> {
    let before = set.status.clone().unwrap_or_default();
    let mut status = compute(set, own, failure, now);
    status.last_operation = before.last_operation.clone();
    if status == before && set.status.is_some() {
        return None;
    }
    status.last_operation.last_update_time = Some(Time(now));
    Some(status)
}

fn compute(
    set: &MachineSet,
    own: &[Arc<Machine>],
    failure: Option<&Failure>,
    now: Timestamp,
) -> MachineSetStatus {
    let labels = set.spec.template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    let count = |wanted: &dyn Fn(&Machine) -> bool| {
        i32::try_from(own.iter().filter(|machine| wanted(machine)).count()).unwrap_or(i32::MAX)
    };
    let preserved = |machine: &Machine| phase(machine) == Phase::Failed && preserved_until(machine).is_some();
    MachineSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&|machine| {
            labels.iter().all(|(key, value)| machine.labels().get(key) == Some(value))
        }),
        available_replicas: count(&|machine| matches!(phase(machine), Phase::Available | Phase::Running)),
        ready_replicas: count(&|machine| phase(machine) == Phase::Running),
        preserved_failed_replicas: count(&preserved),
        auto_preserve_failed_machine_count: count(&|machine| {
            machine.annotations().get(names::PRESERVE_ANNOTATION).map(String::as_str)
                == Some(names::AUTO_PRESERVED)
        }),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
        failed_machines: own
            .iter()
            .filter(|machine| !preserved(machine))
            .filter_map(|machine| summary(machine))
            .collect(),
        ..MachineSetStatus::default()
    }
}

fn summary(machine: &Machine) -> Option<MachineSummary> {
    let operation = &machine.status.as_ref()?.last_operation;
    (operation.state == Some(OperationState::Failed)).then(|| MachineSummary {
        name: machine.name_any(),
        provider_id: machine.spec.provider_id.clone(),
        last_operation: operation.clone(),
        owner_ref: controller_of(machine).map(|owner| owner.name.clone()).unwrap_or_default(),
    })
}

/// Other conditions are somebody else's.
fn conditions(set: &MachineSet, failure: Option<&Failure>, now: Timestamp) -> Vec<MachineSetCondition> {
    let before = set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let (own, mut conditions): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|condition| condition.kind == REPLICA_FAILURE);
    if let Some(failure) = failure {
        let since = own.first().and_then(|condition| condition.last_transition_time.clone());
        conditions.push(MachineSetCondition {
            kind: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(since.unwrap_or(Time(now))),
            reason: failure.reason.to_owned(),
            message: failure.message.clone(),
        });
    }
    conditions
}
