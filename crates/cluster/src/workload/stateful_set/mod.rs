//! Keeps pods with names and volumes of their own, in order.

mod claims;
mod plan;

use super::deployment::scaled;
use super::pods::{due_when_available, has_ended, is_available, is_ready};
use super::revision::{self, Belongings, HASH_LABEL, History};
use super::template;
use crate::cache::Watched;
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, says};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::DeleteParams;
use plan::{Member, Rules, Step, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAME: &str = "statefulset-controller";

#[derive(Debug, Default)]
pub(crate) struct StatefulSets;

impl Part for StatefulSets {
    const NAME: &'static str = "stateful sets";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.stateful_sets, &*caches.pods, &*caches.revisions, &*caches.claims]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let sets = context.caches.stateful_sets.all();
        if sets.is_empty() {
            return sweep;
        }
        let belongings = Belongings::of(context);
        for set in sets {
            tend(context, &set, &belongings, &mut sweep).await;
        }
        sweep
    }
}

async fn tend(context: &Context, set: &Arc<StatefulSet>, belongings: &Belongings, sweep: &mut Sweep) {
    let Some(spec) = &set.spec else { return };
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let template = (&spec.template, collisions);
    let found = belongings.claim(context, set.as_ref(), &spec.selector, template, sweep).await;
    let Some((claimed, history)) = found else { return };
    let current = current_revision(set, &history);
    let rules = rules(spec);
    let now = context.now();
    let mut own: BTreeMap<i32, Arc<Pod>> =
        claimed.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod.clone()))).collect();
    let update = revision::hash_of(&history.update).to_owned();
    claims::keep_owners(context, set, spec, &rules, &own, sweep).await;
    let steps = plan(&rules, &members(spec, &own, &update, now));
    sweep.burst(steps.len());
    for step in steps {
        match step {
            Step::Create(at) => {
                let revision = if rules.is_updated(at) { &history.update } else { &current };
                let template = revision::template_of(revision).unwrap_or_else(|| spec.template.clone());
                let pod = member(set, spec, &template, at, revision::hash_of(revision));
                if let Some(pod) = create(context, set, spec, at, &pod, sweep).await {
                    own.insert(at, pod);
                }
            }
            Step::Delete(at) => {
                let Some(pod) = own.get(&at).cloned() else { continue };
                let deleted =
                    context.delete(&context.caches.pods, pod.as_ref(), DeleteParams::default()).await;
                if sweep.note_about("deleting a stateful pod", pod.as_ref(), deleted).is_some() {
                    let message = format!(
                        "delete Pod {} in StatefulSet {} successful",
                        pod.metadata.name.as_deref().unwrap_or_default(),
                        set.metadata.name.as_deref().unwrap_or_default()
                    );
                    context.event(NAME, set.as_ref(), Level::Normal, "SuccessfulDelete", &message).await;
                }
            }
        }
    }
    let present: Vec<Arc<Pod>> = own.values().cloned().collect();
    due_when_available(sweep, &present, spec.min_ready_seconds.unwrap_or(0), now);
    let status = status(set, spec, &present, &history, &current, now);
    if set.status.as_ref() != Some(&status) {
        let mut changed = (**set).clone();
        changed.status = Some(status);
        let written = context.replace_status(&context.caches.stateful_sets, &changed).await;
        sweep.note_about("writing a stateful set's status", &changed, written);
    }
    let mut in_use: BTreeSet<String> =
        present.iter().filter_map(|pod| pod.metadata.labels.as_ref()?.get(HASH_LABEL).cloned()).collect();
    in_use.insert(revision::hash_of(&current).to_owned());
    revision::forget(context, &history, &in_use, spec.revision_history_limit, sweep).await;
}

async fn create(
    context: &Context,
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    at: i32,
    pod: &Pod,
    sweep: &mut Sweep,
) -> Option<Arc<Pod>> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let owner = set.metadata.name.as_deref().unwrap_or_default();
    if !claims::ensure(context, set, spec, at, sweep).await {
        return None;
    }
    match context.create(&context.caches.pods, pod).await {
        Ok(pod) => {
            let message = format!("create Pod {name} in StatefulSet {owner} successful");
            context.event(NAME, set.as_ref(), Level::Normal, "SuccessfulCreate", &message).await;
            Some(pod)
        }
        Err(error) => {
            let message = format!("create Pod {name} in StatefulSet {owner} failed error: {}", says(&error));
            context.event(NAME, set.as_ref(), Level::Warning, "FailedCreate", &message).await;
            sweep.note::<()>("creating a stateful pod", Err(error));
            None
        }
    }
}

fn rules(spec: &StatefulSetSpec) -> Rules {
    let replicas = spec.replicas.unwrap_or(1);
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let update = strategy.rolling_update.unwrap_or_default();
    let one = IntOrString::Int(1);
    Rules {
        start: spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0),
        replicas,
        ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        rolling: strategy.type_.as_deref() != Some("OnDelete"),
        partition: update.partition.unwrap_or(0),
        unavailable: scaled(Some(update.max_unavailable.as_ref().unwrap_or(&one)), replicas, true).max(1),
    }
}

/// The number at the end of a pod's name, if the name is of this set.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (owner, number) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    (Some(owner) == set.metadata.name.as_deref()).then(|| number.parse().ok())?
}

fn members(
    spec: &StatefulSetSpec,
    pods: &BTreeMap<i32, Arc<Pod>>,
    update: &str,
    now: Timestamp,
) -> BTreeMap<i32, Member> {
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    pods.iter()
        .map(|(at, pod)| {
            let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
            let member = Member {
                leaving: pod.metadata.deletion_timestamp.is_some(),
                ended: has_ended(pod),
                available: is_available(pod, min_ready, now),
                updated: hash.map(String::as_str) == Some(update),
            };
            (*at, member)
        })
        .collect()
}

/// The revision of pods that are not updated yet.
fn current_revision(set: &StatefulSet, history: &History) -> Arc<ControllerRevision> {
    let named = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    named.and_then(|name| history.get(name)).unwrap_or(&history.update).clone()
}

fn member(set: &StatefulSet, spec: &StatefulSetSpec, template: &PodTemplateSpec, at: i32, hash: &str) -> Pod {
    let mut pod = template::pod(template, set);
    let name = format!("{}-{at}", set.metadata.name.as_deref().unwrap_or_default());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".to_owned(), at.to_string());
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name);
    pod_spec.subdomain.clone_from(&spec.service_name);
    claims::mount(set, spec, at, pod_spec);
    pod
}

fn status(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pods: &[Arc<Pod>],
    history: &History,
    current: &ControllerRevision,
    now: Timestamp,
) -> StatefulSetStatus {
    let count = |predicate: &dyn Fn(&Pod) -> bool| {
        i32::try_from(pods.iter().filter(|pod| predicate(pod)).count()).unwrap_or(i32::MAX)
    };
    let optional = |count: i32| (count > 0).then_some(count);
    let of = |pod: &Pod, revision: &ControllerRevision| {
        let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
        pod.metadata.deletion_timestamp.is_none()
            && hash.map(String::as_str) == Some(revision::hash_of(revision))
    };
    let wanted = spec.replicas.unwrap_or(1);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let replicas = count(&|_| true);
    let ready = count(&|pod| is_ready(pod));
    let updated = count(&|pod| of(pod, &history.update));
    // The update is over when every pod is made of the new template and well.
    let done = updated == wanted && replicas == wanted && ready == wanted;
    let current = if done { history.update.as_ref() } else { current };
    StatefulSetStatus {
        replicas,
        ready_replicas: optional(ready),
        available_replicas: optional(count(&|pod| is_available(pod, min_ready, now))),
        current_replicas: optional(count(&|pod| of(pod, current))),
        updated_replicas: optional(updated),
        current_revision: Some(revision::name(current).to_owned()),
        update_revision: Some(revision::name(&history.update).to_owned()),
        observed_generation: set.metadata.generation,
        collision_count: Some(history.collisions.unwrap_or(0)),
        ..set.status.clone().unwrap_or_default()
    }
}
