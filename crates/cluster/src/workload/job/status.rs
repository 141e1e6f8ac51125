//! What a job says about itself.

use super::indexes::Indexes;
use super::plan::Next;
use super::policy::{Failure, failure};
use super::{index_of, is_tracked, ready_workers};
use crate::cache::uid;
use crate::workload::pods::{has_ended, phase};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;

fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|one| one.type_ == kind)
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|one| one.status == "True")
}

pub(super) fn is_finished(status: &JobStatus) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

pub(super) fn finished_at(status: &JobStatus) -> Option<Timestamp> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|one| one.status == "True" && (one.type_ == "Complete" || one.type_ == "Failed"))
        .filter_map(|one| one.last_transition_time.as_ref())
        .map(|time| time.0)
        .next()
}

/// How the job will end, if that was written down already.
pub(super) fn decided(status: &JobStatus) -> Option<Next> {
    let words = |kind: &str| {
        let one = condition(status, kind).filter(|one| one.status == "True")?;
        Some((one.reason.clone().unwrap_or_default(), one.message.clone().unwrap_or_default()))
    };
    let failed = words("FailureTarget").map(|(reason, message)| Next::Failed { reason, message });
    failed
        .or_else(|| words("SuccessCriteriaMet").map(|(reason, message)| Next::Succeeded { reason, message }))
}

/// Writes down that a pod's failure is the job's, before that pod is let go of.
pub(super) fn note_failure(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>], now: Timestamp) {
    let last = pods.iter().filter(|pod| phase(pod) == "Failed" && is_tracked(pod));
    let message = last.into_iter().find_map(|pod| match failure(spec, pod) {
        Failure::Final(message) => Some(message),
        Failure::Counts | Failure::Ignored => None,
    });
    if let (None, Some(message)) = (decided(status), message) {
        set(status, "FailureTarget", "True", "PodFailurePolicy", &message, now);
    }
}

/// Writes down the uids of pods that have ended and are not counted yet.
pub(super) fn note_ended(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) {
    let mut uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    for pod in pods.iter().filter(|pod| has_ended(pod)) {
        let succeeded = phase(pod) == "Succeeded";
        let tracked = is_tracked(pod) && (succeeded || failure(spec, pod) != Failure::Ignored);
        let list = if succeeded { &mut uncounted.succeeded } else { &mut uncounted.failed };
        let list = list.get_or_insert_default();
        let known = list.iter().any(|one| one == uid(pod.as_ref()));
        if tracked && !known {
            list.push(uid(pod.as_ref()).to_owned());
        }
    }
    status.uncounted_terminated_pods = tidy(uncounted);
}

fn tidy(uncounted: UncountedTerminatedPods) -> Option<UncountedTerminatedPods> {
    let full = |list: Option<Vec<String>>| list.filter(|list| !list.is_empty());
    let tidied =
        UncountedTerminatedPods { succeeded: full(uncounted.succeeded), failed: full(uncounted.failed) };
    (tidied != UncountedTerminatedPods::default()).then_some(tidied)
}

/// The indexes that have succeeded, as far as the job has them.
pub(super) fn completed(status: &JobStatus, spec: &JobSpec) -> Indexes {
    Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default(), spec.completions.unwrap_or(0))
}

/// Counts pods that were written down and are let go of, or gone.
pub(super) fn count(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>], released: &[String]) {
    let mut uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let waits = |one: &String| pods.iter().any(|pod| uid(pod.as_ref()) == one) && !released.contains(one);
    let mut completed = completed(status, spec);
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded");
    let end = spec.completions.unwrap_or(0);
    completed.extend(succeeded.filter_map(|pod| index_of(pod)).filter(|index| *index < end));
    let settle = |list: &mut Option<Vec<String>>, number: &mut Option<i32>| {
        let all = list.take().unwrap_or_default();
        let before = all.len();
        let rest: Vec<String> = all.into_iter().filter(waits).collect();
        let more = i32::try_from(before - rest.len()).unwrap_or(0);
        if more > 0 {
            *number = Some(number.unwrap_or(0).saturating_add(more));
        }
        *list = Some(rest);
    };
    settle(&mut uncounted.failed, &mut status.failed);
    settle(&mut uncounted.succeeded, &mut status.succeeded);
    if !completed.is_empty() {
        // Two pods of one index count once.
        status.succeeded = Some(i32::try_from(completed.count()).unwrap_or(i32::MAX));
        status.completed_indexes = Some(completed.to_string());
    }
    status.uncounted_terminated_pods = tidy(uncounted);
}

fn set(status: &mut JobStatus, kind: &str, state: &str, reason: &str, message: &str, now: Timestamp) {
    if condition(status, kind).is_some_and(|one| one.status == state) {
        return;
    }
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|one| one.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: state.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

/// Numbers and conditions. A job is finished only when its last pod has ended.
pub(super) fn describe(status: &mut JobStatus, next: &Next, workers: &[Arc<Pod>], now: Timestamp) {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let leaving = workers.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
    let active = workers.len() - leaving;
    status.active = (active > 0).then(|| number(active));
    status.ready = Some(number(ready_workers(workers)));
    status.terminating = Some(number(leaving));
    let over = workers.is_empty() && status.uncounted_terminated_pods.is_none();
    match next {
        Next::Succeeded { reason, message } => {
            set(status, "SuccessCriteriaMet", "True", reason, message, now);
            if over {
                set(status, "Complete", "True", reason, message, now);
                status.completion_time = Some(Time(now));
            }
        }
        Next::Failed { reason, message } => {
            set(status, "FailureTarget", "True", reason, message, now);
            if over {
                set(status, "Failed", "True", reason, message, now);
            }
        }
        Next::Suspend => {
            set(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
            status.start_time = None;
        }
        Next::Work { .. } => {
            if is_true(status, "Suspended") {
                set(status, "Suspended", "False", "JobResumed", "Job resumed", now);
                status.start_time = Some(Time(now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FINALIZER;
    use super::*;
    use serde_json::json;

    fn pod(name: &str, phase: &str, tracked: bool) -> Arc<Pod> {
        let finalizers = if tracked { vec![FINALIZER] } else { vec![] };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "finalizers": finalizers}, "status": {"phase": phase}
            }))
            .unwrap(),
        )
    }

    #[test]
    fn every_pod_is_counted_once() {
        let pods = [
            pod("a", "Succeeded", true),
            pod("b", "Failed", true),
            pod("c", "Running", true),
            pod("d", "Failed", false),
        ];
        let mut status = JobStatus::default();
        let spec = JobSpec::default();
        note_ended(&mut status, &spec, &pods);
        note_ended(&mut status, &spec, &pods);
        let uncounted = status.uncounted_terminated_pods.clone().unwrap();
        assert_eq!((uncounted.succeeded.unwrap().len(), uncounted.failed.unwrap().len()), (1, 1));
        count(&mut status, &spec, &pods, &["a".to_owned()]);
        assert_eq!((status.succeeded, status.failed), (Some(1), None), "b is not released yet");
        count(&mut status, &spec, &pods[..1], &[]);
        assert_eq!((status.succeeded, status.failed), (Some(1), Some(1)), "b is gone");
        assert!(status.uncounted_terminated_pods.is_none());
    }

    #[test]
    fn a_job_is_finished_when_its_last_pod_has_ended() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = JobStatus::default();
        let next = Next::Succeeded { reason: "r".to_owned(), message: "m".to_owned() };
        describe(&mut status, &next, &[pod("c", "Running", true)], now);
        assert!(is_true(&status, "SuccessCriteriaMet") && !is_finished(&status));
        assert_eq!(decided(&status).as_ref(), Some(&next), "it does not change its mind");
        describe(&mut status, &next, &[], now);
        assert!(is_finished(&status) && status.completion_time.is_some());
    }
}
