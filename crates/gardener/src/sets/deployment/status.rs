//! What a MachineDeployment tells of its MachineSets.

use super::{decide::View, numbers::Way};
use crate::api::{MachineDeploymentCondition, MachineDeploymentStatus, MachineSet, MachineSetStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::{sync::Arc, time::Duration};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const COMPLETE: &str = "NewMachineSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// What happened to the new set in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    Created(String),
    FailedToCreate(String),
}

/// The status as it should be. `rollout` says whether an update goes on, or could.
pub(super) fn compute(view: &View<'_>, rollout: bool, news: &News) -> MachineDeploymentStatus {
    let (deployment, now) = (view.seen.deployment, view.seen.now);
    let before = deployment.status.clone().unwrap_or_default();
    let of = |set: &Arc<MachineSet>| set.status.clone().unwrap_or_default();
    let sum = |count: &dyn Fn(&MachineSetStatus) -> i32| view.all().map(|set| count(&of(set))).sum::<i32>();
    let available = sum(&|status| status.available_replicas);
    let preserved = sum(&|status| status.preserved_failed_replicas);
    let asked: i32 = view.all().map(|set| set.spec.replicas).sum();
    let mut status = MachineDeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(&|status| status.replicas),
        updated_replicas: view.new.as_ref().map_or(0, |set| of(set).replicas),
        ready_replicas: sum(&|status| status.ready_replicas),
        available_replicas: available,
        preserved_failed_replicas: preserved,
        unavailable_replicas: (asked - available).max(0),
        conditions: before.conditions.clone(),
        collision_count: before.collision_count,
        failed_machines: view.all().flat_map(|set| of(set).failed_machines).collect(),
    };
    let unavailable = if view.bounds.way == Way::Recreate { 0 } else { view.bounds.unavailable };
    let enough = available >= (deployment.spec.replicas - unavailable - preserved).max(0);
    let (holds, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, AVAILABLE, holds, reason, message.to_owned(), now);
    progress(view, &before, &mut status, rollout, news);
    if rollout {
        replica_failure(view, &mut status, now);
    }
    status
}

fn progress(
    view: &View<'_>,
    before: &MachineDeploymentStatus,
    status: &mut MachineDeploymentStatus,
    rollout: bool,
    news: &News,
) {
    let (deployment, now) = (view.seen.deployment, view.seen.now);
    let reason = |status: &MachineDeploymentStatus| {
        condition(status, PROGRESSING).map(|condition| condition.reason.clone()).unwrap_or_default()
    };
    let was = reason(before);
    if was != TIMED_OUT && deployment.spec.paused && was != PAUSED {
        set(status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned(), now);
    } else if was == PAUSED && !deployment.spec.paused {
        set(status, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), now);
    }
    match (news, &view.new) {
        (News::FailedToCreate(message), _) => {
            return set(status, PROGRESSING, "False", "MachineSetCreateError", message.clone(), now);
        }
        (News::Created(name), _) => {
            let message = format!("Created new machine set {name:?}");
            set(status, PROGRESSING, "True", "NewMachineSetCreated", message, now);
        }
        (News::None, Some(new)) if was.is_empty() => {
            let message = format!("Found new machine set {:?}", new.name_any());
            set(status, PROGRESSING, "True", "FoundNewMachineSet", message, now);
        }
        (News::None, _) => {}
    }
    let was_complete = status.replicas == status.updated_replicas && was == COMPLETE;
    if !rollout || was_complete {
        return;
    }
    let subject = view.new.as_ref().map_or_else(
        || format!("Machine Deployment {:?}", deployment.name_any()),
        |new| format!("MachineSet {:?}", new.name_any()),
    );
    if is_complete(view, status) {
        set(status, PROGRESSING, "True", COMPLETE, format!("{subject} has successfully progressed."), now);
    } else if has_progressed(before, status) {
        let message = format!("{subject} is progressing.");
        let since = condition(before, PROGRESSING)
            .filter(|condition| condition.status == "True")
            .and_then(|condition| condition.last_transition_time.clone());
        status.conditions.retain(|condition| condition.kind != PROGRESSING);
        set(status, PROGRESSING, "True", "MachineSetUpdated", message, now);
        if let (Some(since), Some(condition)) = (since, status.conditions.last_mut()) {
            condition.last_transition_time = Some(since);
        }
    } else if deadline(view, status).is_some_and(|deadline| deadline < now) {
        set(status, PROGRESSING, "False", TIMED_OUT, format!("{subject} has timed out progressing."), now);
    }
}

/// All replicas are new and work, and the status speaks of the present generation.
pub(super) fn is_complete(view: &View<'_>, status: &MachineDeploymentStatus) -> bool {
    let wanted = view.seen.deployment.spec.replicas;
    let MachineDeploymentStatus { replicas, updated_replicas, available_replicas, .. } = status;
    [replicas, updated_replicas, available_replicas].into_iter().all(|count| *count == wanted)
        && status.observed_generation >= view.seen.deployment.metadata.generation
}

fn has_progressed(before: &MachineDeploymentStatus, after: &MachineDeploymentStatus) -> bool {
    let old = |status: &MachineDeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// When the update counts as stuck, if it can.
pub(super) fn deadline(view: &View<'_>, status: &MachineDeploymentStatus) -> Option<Timestamp> {
    let seconds = view.seen.deployment.spec.progress_deadline_seconds?;
    let condition = condition(status, PROGRESSING).filter(|condition| condition.reason != COMPLETE)?;
    let from = condition.last_update_time.as_ref()?.0;
    Some(from.saturating_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX))
}

/// How long until somebody has to look whether the update is stuck.
pub(super) fn until_deadline(view: &View<'_>, status: &MachineDeploymentStatus) -> Option<Duration> {
    let stuck = condition(status, PROGRESSING).is_some_and(|condition| condition.reason == TIMED_OUT);
    let deadline = deadline(view, status).filter(|_| !stuck)?;
    let left = deadline.duration_since(view.seen.now).max(SignedDuration::ZERO);
    Some(left.unsigned_abs() + Duration::from_secs(1))
}

/// The new set's failure comes first.
fn replica_failure(view: &View<'_>, status: &mut MachineDeploymentStatus, now: Timestamp) {
    let of = |set: &Arc<MachineSet>| {
        let conditions = set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        conditions.into_iter().find(|condition| condition.kind == REPLICA_FAILURE)
    };
    match view.new.iter().chain(&view.old).find_map(of) {
        None => status.conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
        Some(failure) => set(status, REPLICA_FAILURE, &failure.status, &failure.reason, failure.message, now),
    }
}

pub(super) fn condition<'a>(
    status: &'a MachineDeploymentStatus,
    kind: &str,
) -> Option<&'a MachineDeploymentCondition> {
    status.conditions.iter().find(|condition| condition.kind == kind)
}

/// Sets a condition. One with the same status and reason stays as it is.
pub(in crate::sets) fn set(
    status: &mut MachineDeploymentStatus,
    kind: &str,
    holds: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let before = condition(status, kind).cloned();
    if before.as_ref().is_some_and(|before| before.status == holds && before.reason == reason) {
        return;
    }
    let since = before.filter(|before| before.status == holds).and_then(|before| before.last_transition_time);
    status.conditions.retain(|condition| condition.kind != kind);
    status.conditions.push(MachineDeploymentCondition {
        kind: kind.to_owned(),
        status: holds.to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(since.unwrap_or(Time(now))),
        reason: reason.to_owned(),
        message,
    });
}
