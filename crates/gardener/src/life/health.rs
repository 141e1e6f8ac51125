//! A machine that has a server and the name of a node: by its node's conditions it is well, unwell for a while, or
//! has failed.

use super::{LOOK_AGAIN, Observed, StatusChange, Step, UpdateResult, in_place::in_place, token};
use crate::{
    api::{OperationState, OperationType, Phase},
    duration::in_go,
};
use jiff::SignedDuration;
use std::time::Duration;

/// How soon a machine that waits for another one's replacement looks again.
pub const GATE_AGAIN: Duration = Duration::from_secs(5);
const NODE_MISSING: &str = "<none>";

/// The server was started; now its node decides.
pub(super) fn health(seen: &Observed) -> Step {
    if let Some(change) = new_phase(seen) {
        let has_joined = change.phase == Some(Phase::Running)
            && (change.operation == OperationType::Create
                || matches!(seen.phase, Phase::Pending | Phase::CrashLoopBackOff));
        let token = if has_joined { token::no_more(seen) } else { None };
        return token.unwrap_or(Step::WriteStatus(change));
    }
    if seen.node.as_ref().is_some_and(|node| !node.recorded) {
        return Step::RecordConditions;
    }
    in_place(seen).unwrap_or_else(|| timeout(seen))
}

/// What the node says by itself, whatever the time is.
fn new_phase(seen: &Observed) -> Option<StatusChange> {
    let name = &seen.name;
    match (&seen.node, seen.phase) {
        (None, Phase::Running) => Some(change(
            Phase::Unknown,
            OperationType::HealthCheck,
            OperationState::Processing,
            format!(
                "Node object went missing. Machine {name} is unhealthy - changing MachinePhase to Unknown"
            ),
        )),
        (Some(node), Phase::Running) if !node.ready => Some(change(
            Phase::Unknown,
            OperationType::HealthCheck,
            OperationState::Processing,
            format!(
                "Machine {name} is unhealthy - changing MachinePhase to Unknown. Node conditions: {}",
                node.conditions
            ),
        )),
        (Some(node), Phase::Pending) if node.ready && node.critical_components_missing => None,
        (
            Some(node),
            Phase::Pending
            | Phase::CrashLoopBackOff
            | Phase::Available
            | Phase::Unknown
            | Phase::Failed
            | Phase::InPlaceUpdateSuccessful,
        ) if node.ready => Some(joined(seen)),
        (Some(node), Phase::InPlaceUpdating | Phase::InPlaceUpdateFailed) => {
            updated(seen, node.in_place.result.as_ref()?)
        }
        _ => None,
    }
}

/// What whoever updated the node says.
fn updated(seen: &Observed, result: &UpdateResult) -> Option<StatusChange> {
    let name = &seen.name;
    let (phase, state, description) = match result {
        UpdateResult::Successful => (
            Phase::InPlaceUpdateSuccessful,
            OperationState::Successful,
            format!("Machine {name} successfully updated dependencies"),
        ),
        UpdateResult::Failed(_) if seen.phase == Phase::InPlaceUpdateFailed => return None,
        UpdateResult::Failed(why) => (
            Phase::InPlaceUpdateFailed,
            OperationState::Failed,
            format!("Machine {name} failed to update dependencies: {why}"),
        ),
    };
    Some(change(phase, OperationType::InPlaceUpdate, state, description))
}

fn joined(seen: &Observed) -> StatusChange {
    let name = &seen.name;
    let (operation, how) = match seen.operation {
        Some((OperationType::Create, state)) if state != OperationState::Successful => {
            (OperationType::Create, "joined")
        }
        _ => (OperationType::HealthCheck, "re-joined"),
    };
    let description = format!("Machine {name} successfully {how} the cluster");
    change(Phase::Running, operation, OperationState::Successful, description)
}

/// What becomes of a machine that has been waited for long enough.
fn timeout(seen: &Observed) -> Step {
    match seen.phase {
        Phase::Pending => pending(seen),
        Phase::InPlaceUpdating => updating(seen),
        Phase::Unknown | Phase::InPlaceUpdateFailed => unwell(seen),
        _ => Step::Done,
    }
}

fn pending(seen: &Observed) -> Step {
    let name = &seen.name;
    let left = seen.creation_timeout.saturating_sub(seen.now.duration_since(seen.created_at));
    if left.is_negative() {
        let limit = in_go(seen.creation_timeout.unsigned_abs());
        return Step::WriteStatus(change(
            Phase::Failed,
            OperationType::Create,
            OperationState::Failed,
            format!("Machine {name} failed to join the cluster in {limit} minutes."),
        ));
    }
    let (reason, message) = if seen.node.as_ref().is_some_and(|node| node.ready) {
        ("CriticalComponentsNotReady", "the node is Ready, its critical components are not".to_owned())
    } else {
        ("NodeNotReady", format!("waiting for node {name} to join and become Ready"))
    };
    Step::Wait { reason, message, again: soon(left) }
}

/// How long an update in place may still take; at least a moment.
pub(super) fn left_in_place(seen: &Observed) -> Duration {
    let since = seen.phase_since.unwrap_or(seen.created_at);
    let left = seen.in_place_timeout.saturating_sub(seen.now.duration_since(since));
    left.max(SignedDuration::from_secs(1)).unsigned_abs()
}

fn updating(seen: &Observed) -> Step {
    let name = &seen.name;
    let since = seen.phase_since.unwrap_or(seen.created_at);
    if seen.now.duration_since(since) > seen.in_place_timeout {
        let limit = in_go(seen.in_place_timeout.unsigned_abs());
        return Step::WriteStatus(change(
            Phase::InPlaceUpdateFailed,
            OperationType::InPlaceUpdate,
            OperationState::Failed,
            format!("Machine {name} failed to in-place update in {limit} minutes."),
        ));
    }
    let message = "waiting until the node has been updated".to_owned();
    Step::Wait { reason: "Updating", message, again: left_in_place(seen).min(LOOK_AGAIN.unsigned_abs()) }
}

fn unwell(seen: &Observed) -> Step {
    let name = &seen.name;
    let Some(timeout) = seen.health_timeout else { return Step::Done };
    let since = seen.phase_since.unwrap_or(seen.created_at);
    let left = timeout.saturating_sub(seen.now.duration_since(since));
    let limit = in_go(timeout.unsigned_abs());
    if !left.is_negative() {
        let message =
            format!("waiting for node {name} to become healthy; after {limit} the machine has failed");
        return Step::Wait { reason: "NodeUnhealthy", message, again: soon(left) };
    }
    if let Some(other) = &seen.replaced {
        let message = format!(
            "{name} is unhealthy for over {limit} and waits because {other} is being replaced: of a MachineDeployment's machines only one is at a time"
        );
        return Step::Wait { reason: "ReplacementInProgress", message, again: GATE_AGAIN };
    }
    let conditions = seen.node.as_ref().map_or(NODE_MISSING, |node| node.conditions.as_str());
    let description = format!(
        "Machine {name} health checks failing since last {limit} minutes. Updating machine phase to Failed. Node Conditions: {conditions}"
    );
    let operation = seen.operation.map_or(OperationType::HealthCheck, |(operation, _)| operation);
    Step::GiveUp(change(Phase::Failed, operation, OperationState::Failed, description))
}

/// When to look again at what ends after this time: not before, and at least once a minute.
fn soon(left: SignedDuration) -> Duration {
    left.clamp(SignedDuration::from_secs(1), LOOK_AGAIN).unsigned_abs()
}

fn change(
    phase: Phase,
    operation: OperationType,
    state: OperationState,
    description: String,
) -> StatusChange {
    StatusChange {
        phase: Some(phase),
        timeout_active: false,
        description,
        error_code: None,
        state,
        operation,
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
