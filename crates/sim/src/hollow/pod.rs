//! What a hollow node does with a pod that is bound to it: decided here, carried out by the machine.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Pod, PodCondition,
        PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;

/// Seconds from the start of a pod until it is Ready; none if the annotation is missing.
pub const READY_AFTER: &str = "sim.hostler.dev/ready-after-seconds";
/// Seconds a pod takes to stop once it is asked to; at most its grace period.
pub const STOP_AFTER: &str = "sim.hostler.dev/stop-after-seconds";
/// Seconds after which a pod that does not restart succeeds.
pub const COMPLETE_AFTER: &str = "sim.hostler.dev/complete-after-seconds";
/// Seconds after which a pod that does not restart fails.
pub const FAIL_AFTER: &str = "sim.hostler.dev/fail-after-seconds";

/// How long images and containers take to start.
const START_TIME: SignedDuration = SignedDuration::from_secs(1);
/// How long a well-behaved process takes to end.
const STOP_TIME: SignedDuration = SignedDuration::from_secs(1);

/// The next thing to do about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing until something changes.
    Rest,
    /// Look again then.
    Wait(Timestamp),
    /// Write this status.
    Report(Box<PodStatus>),
    /// It has stopped: delete it without any grace.
    Remove,
}

/// What the machine knows about itself and the pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Here {
    /// When the machine first saw the pod.
    pub(super) seen: Timestamp,
    pub(super) host_ip: String,
    pub(super) pod_ip: String,
}

pub(super) fn decide(pod: &Pod, here: &Here, now: Timestamp) -> Step {
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let over = matches!(phase, "Succeeded" | "Failed");
    if let Some(Time(deadline)) = pod.metadata.deletion_timestamp {
        let stopped = if over || phase == "Pending" { now } else { stopped_at(pod, deadline) };
        return if now >= stopped { Step::Remove } else { Step::Wait(stopped) };
    }
    if over {
        return Step::Rest;
    }
    if phase == "Pending" {
        let started = later(here.seen, START_TIME);
        if now < started {
            return Step::Wait(started);
        }
        let ready = now >= ready_at(pod, now);
        return Step::Report(Box::new(running(pod, status, here, (now, now), ready)));
    }
    let started = status.start_time.as_ref().map_or(here.seen, |time| time.0);
    let end = end_of(pod).map(|(after, succeeds)| (later(started, after), succeeds));
    if let Some((end, succeeds)) = end
        && now >= end
    {
        return Step::Report(Box::new(ended(pod, status, now, succeeds)));
    }
    let ready_at = ready_at(pod, started);
    let is_ready = is_true(&status, "Ready");
    if !is_ready && now >= ready_at {
        return Step::Report(Box::new(running(pod, status, here, (started, now), true)));
    }
    let next = [(!is_ready).then_some(ready_at), end.map(|(end, _)| end)].into_iter().flatten().min();
    next.map_or(Step::Rest, Step::Wait)
}

/// A time that cannot be told is the end of all times: annotations hold any number.
fn later(at: Timestamp, after: SignedDuration) -> Timestamp {
    at.checked_add(after)
        .unwrap_or_else(|_| if after.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

fn seconds(pod: &Pod, annotation: &str) -> Option<SignedDuration> {
    pod.annotations().get(annotation)?.parse().ok().map(SignedDuration::from_secs)
}

fn ready_at(pod: &Pod, started: Timestamp) -> Timestamp {
    later(started, seconds(pod, READY_AFTER).unwrap_or_default())
}

fn stopped_at(pod: &Pod, deadline: Timestamp) -> Timestamp {
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
    let asked = deadline.checked_sub(grace).unwrap_or(Timestamp::MIN);
    later(asked, seconds(pod, STOP_AFTER).unwrap_or(STOP_TIME)).min(deadline)
}

/// When a pod ends by itself, and whether well. One that restarts always does not.
fn end_of(pod: &Pod) -> Option<(SignedDuration, bool)> {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    if policy == "Always" {
        return None;
    }
    let complete = seconds(pod, COMPLETE_AFTER).map(|after| (after, true));
    complete.or_else(|| seconds(pod, FAIL_AFTER).map(|after| (after, false)))
}

fn running(
    pod: &Pod,
    mut status: PodStatus,
    here: &Here,
    (started, now): (Timestamp, Timestamp),
    ready: bool,
) -> PodStatus {
    let started = Time(started);
    status.phase = Some("Running".to_owned());
    status.host_ip = Some(here.host_ip.clone());
    status.pod_ip = Some(here.pod_ip.clone());
    status.pod_ips = Some(vec![PodIP { ip: here.pod_ip.clone() }]);
    status.start_time.get_or_insert_with(|| started.clone());
    let state = ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(started) }),
        ..Default::default()
    };
    status.container_statuses = Some(containers(pod, &state, ready));
    let verdict = if ready { "True" } else { "False" };
    for (condition, value) in [
        ("PodReadyToStartContainers", "True"),
        ("Initialized", "True"),
        ("ContainersReady", verdict),
        ("Ready", verdict),
    ] {
        let reason = (value == "False").then_some("ContainersNotReady");
        set_condition(&mut status, condition, value, reason, now);
    }
    status
}

fn ended(pod: &Pod, mut status: PodStatus, now: Timestamp, succeeds: bool) -> PodStatus {
    let started_at = status.start_time.clone();
    let (phase, reason) = if succeeds { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    status.phase = Some(phase.to_owned());
    let terminated = ContainerStateTerminated {
        exit_code: i32::from(!succeeds),
        reason: Some(reason.to_owned()),
        started_at,
        finished_at: Some(Time(now)),
        ..Default::default()
    };
    let state = ContainerState { terminated: Some(terminated), ..Default::default() };
    status.container_statuses = Some(containers(pod, &state, false));
    let reason = if succeeds { "PodCompleted" } else { "PodFailed" };
    for condition in ["ContainersReady", "Ready"] {
        set_condition(&mut status, condition, "False", Some(reason), now);
    }
    status
}

fn containers(pod: &Pod, state: &ContainerState, ready: bool) -> Vec<ContainerStatus> {
    let specs = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let uid = pod.uid().unwrap_or_default();
    let status = |name: &str, image: &str| ContainerStatus {
        name: name.to_owned(),
        image: image.to_owned(),
        image_id: format!("hollow://{image}"),
        container_id: Some(format!("hollow://{uid}/{name}")),
        ready,
        started: Some(state.running.is_some()),
        restart_count: 0,
        state: Some(state.clone()),
        ..Default::default()
    };
    specs.iter().map(|spec| status(&spec.name, spec.image.as_deref().unwrap_or_default())).collect()
}

fn is_true(status: &PodStatus, wanted: &str) -> bool {
    status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == wanted && condition.status == "True")
}

fn set_condition(status: &mut PodStatus, name: &str, value: &str, reason: Option<&str>, since: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let place = conditions.iter().position(|condition| condition.type_ == name);
    let unchanged =
        place.and_then(|place| conditions.get(place)).filter(|condition| condition.status == value);
    let last_transition_time =
        unchanged.and_then(|condition| condition.last_transition_time.clone()).or(Some(Time(since)));
    let new = PodCondition {
        type_: name.to_owned(),
        status: value.to_owned(),
        reason: reason.map(str::to_owned),
        last_transition_time,
        ..Default::default()
    };
    match place.and_then(|place| conditions.get_mut(place)) {
        Some(condition) => *condition = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SEEN: i64 = 1000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(annotations: Value, restart_policy: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "uid": "u", "annotations": annotations },
            "spec": { "restartPolicy": restart_policy, "containers": [{ "name": "c", "image": "i" }] },
            "status": {
                "phase": "Pending",
                "conditions": [{ "type": "PodScheduled", "status": "True" }],
            },
        }))
        .unwrap()
    }

    fn decide_at(pod: &Pod, second: i64) -> Step {
        let here = Here { seen: at(SEEN), host_ip: "10.0.0.1".into(), pod_ip: "10.64.0.2".into() };
        decide(pod, &here, at(second))
    }

    /// Plays the pod's life on one machine: what was reported when, until it rests.
    fn life(mut pod: Pod) -> Vec<(i64, String, bool)> {
        let mut now = SEEN;
        let mut reports = Vec::new();
        loop {
            match decide_at(&pod, now) {
                Step::Rest | Step::Remove => return reports,
                Step::Wait(until) => now = until.as_second(),
                Step::Report(status) => {
                    reports.push((now - SEEN, status.phase.clone().unwrap(), is_true(&status, "Ready")));
                    pod.status = Some(*status);
                }
            }
        }
    }

    #[test]
    fn a_pod_starts_gets_ready_and_ends_as_its_annotations_say() {
        let running = |second, ready| (second, "Running".to_owned(), ready);
        assert_eq!(life(pod(json!({}), "Always")), [running(1, true)]);
        assert_eq!(life(pod(json!({ READY_AFTER: "5" }), "Always")), [running(1, false), running(6, true)]);
        assert_eq!(life(pod(json!({ COMPLETE_AFTER: "5" }), "Always")), [running(1, true)]);
        assert_eq!(
            life(pod(json!({ COMPLETE_AFTER: "5" }), "Never")),
            [running(1, true), (6, "Succeeded".to_owned(), false)]
        );
        assert_eq!(
            life(pod(json!({ FAIL_AFTER: "2", READY_AFTER: "9" }), "OnFailure")),
            [running(1, false), (3, "Failed".to_owned(), false)]
        );
    }

    #[test]
    fn numbers_beyond_all_time_do_no_harm() {
        let (most, least) = (i64::MAX.to_string(), i64::MIN.to_string());
        let never = pod(json!({ READY_AFTER: most, COMPLETE_AFTER: most }), "Never");
        let Step::Report(status) = decide_at(&never, SEEN + 1) else { panic!("no report") };
        assert!(!is_true(&status, "Ready"));
        let mut running = Pod { status: Some(*status), ..never };
        assert_eq!(decide_at(&running, SEEN + 2), Step::Wait(Timestamp::MAX));
        running.metadata.deletion_timestamp = Some(Time(at(SEEN)));
        running.metadata.deletion_grace_period_seconds = Some(i64::MAX);
        running.metadata.annotations = Some([(STOP_AFTER.to_owned(), most)].into());
        assert_eq!(decide_at(&running, SEEN), Step::Remove);
        assert_eq!(life(pod(json!({ READY_AFTER: least }), "Always")), [(1, "Running".to_owned(), true)]);
    }

    #[test]
    fn a_status_keeps_what_others_wrote() {
        let Step::Report(status) = decide_at(&pod(json!({}), "Always"), SEEN + 1) else {
            panic!("no report")
        };
        assert!(is_true(&status, "PodScheduled") && is_true(&status, "Initialized"));
        assert_eq!(status.pod_ip.as_deref(), Some("10.64.0.2"));
        assert!(status.container_statuses.unwrap()[0].state.as_ref().unwrap().running.is_some());
    }

    #[test]
    fn grace_periods_are_honoured() {
        let deleted = |annotations, phase: &str, grace: i64| {
            let mut pod = pod(annotations, "Always");
            pod.status.as_mut().unwrap().phase = Some(phase.to_owned());
            pod.metadata.deletion_timestamp = Some(Time(at(SEEN + grace)));
            pod.metadata.deletion_grace_period_seconds = Some(grace);
            pod
        };
        let stubborn = json!({ STOP_AFTER: "3600" });
        for (pod, expected) in [
            (deleted(json!({}), "Running", 30), Step::Wait(at(SEEN + 1))),
            (deleted(stubborn.clone(), "Running", 30), Step::Wait(at(SEEN + 30))),
            (deleted(json!({}), "Running", 0), Step::Remove),
            (deleted(stubborn.clone(), "Pending", 30), Step::Remove),
            (deleted(stubborn, "Succeeded", 30), Step::Remove),
        ] {
            assert_eq!(decide_at(&pod, SEEN), expected);
        }
    }
}
