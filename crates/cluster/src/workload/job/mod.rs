//! Runs pods until enough of them have succeeded.
//!
//! Ended pods are counted exactly once, as the real controller does it: first their uids are written into the
//! status, then the finalizer that keeps them is removed, then the number goes up.

mod indexes;
mod plan;
mod policy;
mod status;

use super::pods::{Owned, controller, has_ended, is_ready, make, phase, unmake};
use super::template;
use crate::cache::{Watched, uid};
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use kube::Api;
use kube::api::DeleteParams;
use plan::{Next, Rules, Seen, Worker, plan};
use policy::Failure;
use serde_json::json;
use status::is_finished;
use std::collections::BTreeSet;
use std::sync::Arc;

const NAME: &str = "job-controller";
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FIRST_DELAY: i64 = 10;
const LONGEST_DELAY: i64 = 600;
/// What `spec.managedBy` says of jobs that are ours.
const OURS: &str = "kubernetes.io/job-controller";

#[derive(Debug, Default)]
pub(crate) struct Jobs;

impl Part for Jobs {
    const NAME: &'static str = "jobs";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.jobs, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let jobs = context.caches.jobs.all();
        let pods = Owned::of(context.caches.pods.all());
        for job in &jobs {
            tend(context, job, &pods, &mut sweep).await;
        }
        release_orphans(context, &jobs, &mut sweep).await;
        sweep
    }
}

/// Pods whose job is gone are counted by nobody any more, and nothing else would let them go.
async fn release_orphans(context: &Context, jobs: &[Arc<Job>], sweep: &mut Sweep) {
    let present: BTreeSet<&str> = jobs.iter().map(|job| uid(job.as_ref())).collect();
    let mut orphans = Vec::new();
    for pod in context.caches.pods.all().into_iter().filter(|pod| is_tracked(pod)) {
        if let Some(owner) = controller(&pod.metadata) {
            let of_a_job = owner.kind == "Job" && owner.api_version == "batch/v1";
            if !of_a_job || present.contains(owner.uid.as_str()) {
                continue;
            }
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let api = Api::<Job>::namespaced(context.client.clone(), namespace);
            let found = sweep.note_about(
                "looking for a pod's job",
                pod.as_ref(),
                api.get_metadata_opt(&owner.name).await,
            );
            match found {
                Some(Some(job)) if job.metadata.uid.as_ref() == Some(&owner.uid) => continue,
                Some(_) => {}
                None => continue,
            }
        }
        orphans.push(pod);
    }
    release(context, &orphans, sweep).await;
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|one| one == FINALIZER)
}

async fn tend(context: &Context, job: &Arc<Job>, pods: &Owned<Pod>, sweep: &mut Sweep) {
    let Some(spec) = &job.spec else { return };
    if spec.managed_by.as_ref().is_some_and(|manager| manager != OURS) {
        return;
    }
    let selector = spec.selector.clone().unwrap_or_default();
    let claimed = pods.claim(context, &context.caches.pods, job.as_ref(), &selector, sweep).await;
    let old = job.status.clone().unwrap_or_default();
    if is_finished(&old) || job.metadata.deletion_timestamp.is_some() {
        release(context, &claimed, sweep).await;
        expire(context, job, spec, &old, sweep).await;
        return;
    }
    let now = context.now();
    let mut status = old.clone();
    if status.start_time.is_none() && spec.suspend != Some(true) {
        status.start_time = Some(context.time());
    }
    status::note_ended(&mut status, spec, &claimed);
    status::note_failure(&mut status, spec, &claimed, now);
    let mut current = job.clone();
    if status.uncounted_terminated_pods != old.uncounted_terminated_pods
        || status.conditions != old.conditions
    {
        match write(context, &current, &status, sweep).await {
            Some(written) => current = written,
            None => return,
        }
    }
    let ended: Vec<Arc<Pod>> = claimed.iter().filter(|pod| has_ended(pod)).cloned().collect();
    let counted = release(context, &ended, sweep).await;
    status::count(&mut status, spec, &claimed, &counted);

    let rules = rules(spec, &status);
    let seen = seen(spec, &status, &claimed);
    let mut workers: Vec<Arc<Pod>> = claimed.iter().filter(|pod| !has_ended(pod)).cloned().collect();
    let next = plan(&rules, &seen, now);
    match &next {
        Next::Succeeded { .. } | Next::Failed { .. } | Next::Suspend => {
            let doomed: Vec<String> = workers.iter().map(|pod| uid(pod.as_ref()).to_owned()).collect();
            remove(context, job, &mut workers, &doomed, sweep).await;
        }
        Next::Work { create, delete } => {
            remove(context, job, &mut workers, delete, sweep).await;
            sweep.burst(create.len());
            for index in create {
                let made = make(context, NAME, job.as_ref(), &worker(job, spec, *index)).await;
                match sweep.note_about("creating a job's pod", job.as_ref(), made) {
                    Some(pod) => workers.push(pod),
                    None => break,
                }
            }
            for at in [rules.deadline, seen.not_before].into_iter().flatten().filter(|at| *at > now) {
                sweep.due_at(now, at);
            }
        }
    }
    status::describe(&mut status, &next, &workers, now);
    if current.status.as_ref() != Some(&status)
        && write(context, &current, &status, sweep).await.is_some()
        && let (true, Next::Failed { reason, message }) = (is_finished(&status), &next)
    {
        context.event(NAME, job.as_ref(), Level::Warning, reason, message).await;
    }
}

async fn write(context: &Context, job: &Arc<Job>, status: &JobStatus, sweep: &mut Sweep) -> Option<Arc<Job>> {
    let mut changed = (**job).clone();
    changed.status = Some(status.clone());
    sweep.note_about(
        "writing a job's status",
        &changed,
        context.replace_status(&context.caches.jobs, &changed).await,
    )
}

/// Lets go of pods; says which carry the finalizer no longer.
async fn release(context: &Context, pods: &[Arc<Pod>], sweep: &mut Sweep) -> Vec<String> {
    let mut released = Vec::new();
    for pod in pods {
        let held = pod.metadata.finalizers.clone().unwrap_or_default();
        if is_tracked(pod) {
            let rest: Vec<&String> = held.iter().filter(|one| *one != FINALIZER).collect();
            let patch = json!({"metadata": {
                "resourceVersion": pod.metadata.resource_version, "finalizers": rest
            }});
            let written = context.merge(&context.caches.pods, pod.as_ref(), &patch).await;
            let Some(written) = sweep.note_about("releasing an ended pod", pod.as_ref(), written) else {
                continue;
            };
            if written.metadata.deletion_timestamp.is_some() && rest.is_empty() && has_ended(pod) {
                context.caches.pods.bury(&written);
            }
        }
        released.push(uid(pod.as_ref()).to_owned());
    }
    released
}

async fn expire(context: &Context, job: &Arc<Job>, spec: &JobSpec, status: &JobStatus, sweep: &mut Sweep) {
    let Some(seconds) = spec.ttl_seconds_after_finished.filter(|_| job.metadata.deletion_timestamp.is_none())
    else {
        return;
    };
    let Some(finished) = status::finished_at(status) else { return };
    let end = finished.checked_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX);
    let now = context.now();
    if end > now {
        sweep.due_at(now, end);
    } else {
        let deleted = context.delete(&context.caches.jobs, job.as_ref(), DeleteParams::foreground()).await;
        sweep.note_about("deleting a finished job", job.as_ref(), deleted);
    }
}

async fn remove(
    context: &Context,
    job: &Arc<Job>,
    workers: &mut Vec<Arc<Pod>>,
    doomed: &[String],
    sweep: &mut Sweep,
) {
    let pods: Vec<Arc<Pod>> = workers
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| doomed.iter().any(|one| one == uid(pod.as_ref())))
        .cloned()
        .collect();
    for pod in pods {
        let deleted = unmake(context, NAME, job.as_ref(), &pod).await;
        if sweep.note_about("deleting a job's pod", pod.as_ref(), deleted).is_some() {
            workers.retain(|one| one.metadata.uid != pod.metadata.uid);
            let (namespace, name) = crate::cache::key(pod.as_ref());
            workers.extend(context.caches.pods.get(&namespace, &name));
        }
    }
}

fn worker(job: &Job, spec: &JobSpec, index: Option<i32>) -> Pod {
    let mut pod = template::pod(&spec.template, job);
    pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    if let Some(index) = index {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.generate_name = Some(format!("{name}-{index}-"));
        pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        let variable = EnvVar {
            name: "JOB_COMPLETION_INDEX".to_owned(),
            value: Some(index.to_string()),
            ..EnvVar::default()
        };
        for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
            container.env.get_or_insert_default().push(variable.clone());
        }
    }
    pod
}

fn index_of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

fn rules(spec: &JobSpec, status: &JobStatus) -> Rules {
    let start = status.start_time.as_ref().map(|time| time.0);
    let deadline = spec
        .active_deadline_seconds
        .and_then(|seconds| start?.checked_add(SignedDuration::from_secs(seconds)).ok());
    Rules {
        parallelism: spec.parallelism.unwrap_or(1),
        completions: spec.completions,
        indexed: spec.completion_mode.as_deref() == Some("Indexed"),
        backoff_limit: spec.backoff_limit.unwrap_or(6),
        suspended: spec.suspend == Some(true),
        wait_for_leaving: spec.pod_replacement_policy.as_deref() == Some("Failed"),
        deadline,
    }
}

fn seen(spec: &JobSpec, status: &JobStatus, pods: &[Arc<Pod>]) -> Seen {
    let workers = pods
        .iter()
        .filter(|pod| !has_ended(pod))
        .map(|pod| Worker {
            uid: uid(pod.as_ref()).to_owned(),
            index: index_of(pod),
            leaving: pod.metadata.deletion_timestamp.is_some(),
        })
        .collect();
    let failed = status.failed.unwrap_or(0);
    let last = pods
        .iter()
        .filter(|pod| phase(pod) == "Failed" && policy::failure(spec, pod) != Failure::Ignored)
        .filter_map(|pod| ended_at(pod))
        .max();
    let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(0).min(16);
    let delay = FIRST_DELAY.saturating_mul(1 << doublings).min(LONGEST_DELAY);
    let not_before =
        last.filter(|_| failed > 0).and_then(|last| last.checked_add(SignedDuration::from_secs(delay)).ok());
    let completed = status::completed(status, spec);
    Seen {
        decided: status::decided(status),
        unsupported: policy::unsupported(spec),
        succeeded: status.succeeded.unwrap_or(0),
        failed,
        met: policy::success(spec, &completed),
        completed,
        workers,
        not_before,
    }
}

/// When the last container of an ended pod ended, as far as one can tell.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let finished = containers
        .filter_map(|one| one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref())
        .map(|time| time.0)
        .max();
    finished.or_else(|| {
        let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    })
}

fn ready_workers(workers: &[Arc<Pod>]) -> usize {
    workers.iter().filter(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none()).count()
}
