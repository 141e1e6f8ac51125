//! What a deployment says about itself.

use super::numbers::Bounds;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;

/// What happened in this sweep that the Progressing condition tells about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    Created(String),
    Found(String),
    FailedToCreate(String),
}

pub(super) fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

fn set_condition(
    status: &mut DeploymentStatus,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let old = condition(status, kind).cloned();
    if old.as_ref().is_some_and(|old| old.status == state && old.reason.as_deref() == Some(reason)) {
        return;
    }
    let since = old.filter(|old| old.status == state).and_then(|old| old.last_transition_time);
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(DeploymentCondition {
        type_: kind.to_owned(),
        status: state.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(since.unwrap_or(Time(now))),
    });
}

fn remove_condition(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != kind);
    }
}

/// Counts and the Available condition.
fn counts(
    deployment: &Deployment,
    bounds: Bounds,
    sets: &[Arc<ReplicaSet>],
    new: Option<&ReplicaSet>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |of: &dyn Fn(&ReplicaSet) -> i32| sets.iter().map(|set| of(set)).fold(0, i32::saturating_add);
    let optional = |count: i32| (count > 0).then_some(count);
    let status_of = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
    let available = sum(&|set| status_of(set).available_replicas.unwrap_or(0));
    let asked = sum(&|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1));
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: optional(sum(&|set| status_of(set).replicas)),
        updated_replicas: optional(new.map_or(0, |set| status_of(set).replicas)),
        ready_replicas: optional(sum(&|set| status_of(set).ready_replicas.unwrap_or(0))),
        available_replicas: optional(available),
        unavailable_replicas: optional(asked.saturating_sub(available)),
        ..deployment.status.clone().unwrap_or_default()
    };
    if available >= bounds.replicas.saturating_sub(bounds.unavailable) {
        let message = "Deployment has minimum availability.";
        set_condition(&mut status, "Available", "True", "MinimumReplicasAvailable", message, now);
    } else {
        let message = "Deployment does not have minimum availability.";
        set_condition(&mut status, "Available", "False", "MinimumReplicasUnavailable", message, now);
    }
    status
}

/// Whether everything asked for is there and nothing else.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
        && status.observed_generation >= deployment.metadata.generation
}

fn is_progressing(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let grew = |old: Option<i32>, new: Option<i32>| new.unwrap_or(0) > old.unwrap_or(0);
    let outdated = |status: &DeploymentStatus| {
        status.replicas.unwrap_or(0).saturating_sub(status.updated_replicas.unwrap_or(0))
    };
    grew(old.updated_replicas, new.updated_replicas)
        || outdated(new) < outdated(old)
        || grew(old.ready_replicas, new.ready_replicas)
        || grew(old.available_replicas, new.available_replicas)
}

/// When a rollout that makes no progress will have taken too long.
pub(super) fn deadline(deployment: &Deployment, status: &DeploymentStatus) -> Option<Timestamp> {
    let seconds = progress_deadline(deployment)?;
    let condition = condition(status, "Progressing")?;
    if condition.status != "True" || condition.reason.as_deref() == Some("NewReplicaSetAvailable") {
        return None;
    }
    condition.last_update_time.as_ref()?.0.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    let spec = deployment.spec.as_ref()?;
    // The largest number is how people say "no deadline".
    Some(spec.progress_deadline_seconds.unwrap_or(600)).filter(|seconds| *seconds != i32::MAX)
}

/// The whole status of a deployment, given its sets.
pub(super) fn compute(
    deployment: &Deployment,
    bounds: Bounds,
    sets: &[Arc<ReplicaSet>],
    new: Option<&Arc<ReplicaSet>>,
    news: &News,
    now: Timestamp,
) -> DeploymentStatus {
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = counts(deployment, bounds, sets, new.map(AsRef::as_ref), now);
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    if let Some(failure) = replica_failure(sets) {
        set_condition(&mut status, "ReplicaFailure", &failure.0, &failure.1, &failure.2, now);
    } else {
        remove_condition(&mut status, "ReplicaFailure");
    }
    if progress_deadline(deployment).is_none() {
        remove_condition(&mut status, "Progressing");
        return status;
    }
    let reason = condition(&status, "Progressing").and_then(|one| one.reason.clone());
    if paused {
        if reason.as_deref() != Some("DeploymentPaused") {
            set_condition(
                &mut status,
                "Progressing",
                "Unknown",
                "DeploymentPaused",
                "Deployment is paused",
                now,
            );
        }
        return status;
    }
    if reason.as_deref() == Some("DeploymentPaused") {
        set_condition(
            &mut status,
            "Progressing",
            "Unknown",
            "DeploymentResumed",
            "Deployment is resumed",
            now,
        );
    }
    match news {
        News::None => {}
        News::Created(name) => {
            let message = format!("Created new replica set \"{name}\"");
            set_condition(&mut status, "Progressing", "True", "NewReplicaSetCreated", &message, now);
        }
        News::Found(name) => {
            let message = format!("Found new replica set \"{name}\"");
            set_condition(&mut status, "Progressing", "True", "FoundNewReplicaSet", &message, now);
        }
        News::FailedToCreate(why) => {
            set_condition(&mut status, "Progressing", "False", "ReplicaSetCreateError", why, now);
            return status;
        }
    }
    let subject = new.and_then(|set| set.metadata.name.clone()).map_or_else(
        || format!("Deployment \"{}\"", deployment.metadata.name.as_deref().unwrap_or_default()),
        |name| format!("ReplicaSet \"{name}\""),
    );
    let settled = status.replicas == status.updated_replicas
        && condition(&status, "Progressing")
            .is_some_and(|one| one.reason.as_deref() == Some("NewReplicaSetAvailable"));
    if settled {
        return status;
    }
    if is_complete(deployment, &status) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(&mut status, "Progressing", "True", "NewReplicaSetAvailable", &message, now);
    } else if is_progressing(&old, &status) {
        // Progress moves the deadline, so the time of the update is written anew.
        let since = condition(&status, "Progressing")
            .filter(|one| one.status == "True")
            .and_then(|one| one.last_transition_time.clone());
        remove_condition(&mut status, "Progressing");
        let message = format!("{subject} is progressing.");
        set_condition(&mut status, "Progressing", "True", "ReplicaSetUpdated", &message, now);
        if let (Some(since), Some(conditions)) = (since, &mut status.conditions) {
            for one in conditions.iter_mut().filter(|one| one.type_ == "Progressing") {
                one.last_transition_time = Some(since.clone());
            }
        }
    } else if deadline(deployment, &status).is_some_and(|deadline| deadline <= now) {
        let message = format!("{subject} has timed out progressing.");
        set_condition(&mut status, "Progressing", "False", "ProgressDeadlineExceeded", &message, now);
    }
    status
}

fn replica_failure(sets: &[Arc<ReplicaSet>]) -> Option<(String, String, String)> {
    sets.iter()
        .filter_map(|set| set.status.as_ref())
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|condition| condition.type_ == "ReplicaFailure")
        .map(|one| {
            (
                one.status.clone(),
                one.reason.clone().unwrap_or_default(),
                one.message.clone().unwrap_or_default(),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn deployment(status: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "progressDeadlineSeconds": 60},
            "status": status
        }))
        .unwrap()
    }

    fn set(replicas: i32, available: i32) -> Arc<ReplicaSet> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "web-1"}, "spec": {"replicas": 2, "selector": {}},
                "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
            }))
            .unwrap(),
        )
    }

    fn said(deployment: &Deployment, set: &Arc<ReplicaSet>, now: &str) -> (String, String) {
        let sets = [set.clone()];
        let bounds = Bounds::of(deployment);
        let status = compute(deployment, bounds, &sets, Some(set), &News::None, now.parse().unwrap());
        let words = |kind: &str| {
            condition(&status, kind).map_or_else(String::new, |one| {
                format!("{} {}", one.status, one.reason.clone().unwrap_or_default())
            })
        };
        (words("Available"), words("Progressing"))
    }

    #[test]
    fn conditions_follow_the_rollout() {
        let progressing = json!({"replicas": 2, "updatedReplicas": 2, "conditions": [{
            "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]});
        let available = "True MinimumReplicasAvailable".to_owned();
        let unavailable = "False MinimumReplicasUnavailable".to_owned();
        let early = "2026-01-01T00:00:30Z";
        let late = "2026-01-01T00:01:00Z";
        for (status, set, now, expected) in [
            (json!({}), set(1, 0), early, (unavailable.clone(), "True ReplicaSetUpdated".to_owned())),
            (
                progressing.clone(),
                set(2, 0),
                early,
                (unavailable.clone(), "True ReplicaSetUpdated".to_owned()),
            ),
            (
                progressing.clone(),
                set(2, 0),
                late,
                (unavailable, "False ProgressDeadlineExceeded".to_owned()),
            ),
            (progressing, set(2, 2), late, (available, "True NewReplicaSetAvailable".to_owned())),
        ] {
            assert_eq!(said(&deployment(&status), &set, now), expected, "{status} at {now}");
        }
    }

    #[test]
    fn a_paused_deployment_says_so() {
        let mut paused = deployment(&json!({}));
        paused.spec.as_mut().unwrap().paused = Some(true);
        assert_eq!(said(&paused, &set(1, 0), "2026-01-01T00:00:00Z").1, "Unknown DeploymentPaused");
    }
}
