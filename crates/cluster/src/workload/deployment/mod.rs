//! Brings a deployment's ReplicaSets to what it asks for, one step at a time.

mod numbers;
mod sets;
mod status;

use super::pods::{Owned, has_ended};
use crate::cache::{Watched, uid};
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, is_already_exists, says};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use numbers::{Bounds, Set};
use serde_json::json;
use sets::{REVISION, Sets, replicas, revision};
use status::News;
use std::sync::Arc;

pub(crate) use numbers::scaled;

const NAME: &str = "deployment-controller";

#[derive(Debug, Default)]
pub(crate) struct Deployments;

impl Part for Deployments {
    const NAME: &'static str = "deployments";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.deployments, &*caches.replica_sets, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let owned = Owned::of(context.caches.replica_sets.all());
        let pods = Owned::of(context.caches.pods.all());
        for deployment in context.caches.deployments.all() {
            tend(context, &deployment, &owned, &pods, &mut sweep).await;
        }
        sweep
    }
}

async fn tend(
    context: &Context,
    deployment: &Arc<Deployment>,
    owned: &Owned<ReplicaSet>,
    pods: &Owned<Pod>,
    sweep: &mut Sweep,
) {
    let Some(spec) = &deployment.spec else { return };
    let cache = &context.caches.replica_sets;
    let claimed = owned.claim(context, cache, deployment.as_ref(), &spec.selector, sweep).await;
    let mut sets = Sets::of(deployment, claimed);
    let bounds = Bounds::of(deployment);
    let mut news = News::None;
    if deployment.metadata.deletion_timestamp.is_none() {
        let paused = spec.paused == Some(true);
        if paused || numbers::was_scaled(bounds, &sets.all_numbers()) {
            let status_replicas = deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
            let changes =
                numbers::share(bounds, status_replicas, sets.new_numbers().as_ref(), &sets.old_numbers());
            apply(context, deployment, bounds, &mut sets, &changes, sweep).await;
        } else {
            news = ensure_new(context, deployment, bounds, &mut sets, pods, sweep).await;
            let changes = if bounds.rolling {
                sets.new_numbers()
                    .map(|new| numbers::roll(bounds, &new, &sets.old_numbers()))
                    .unwrap_or_default()
            } else {
                let left = old_pods_left(&sets, pods);
                numbers::recreate(bounds, sets.new_numbers().as_ref(), &sets.old_numbers(), left)
            };
            apply(context, deployment, bounds, &mut sets, &changes, sweep).await;
        }
        mark_revision(context, deployment, &sets, sweep).await;
    }
    let now = context.now();
    let status = status::compute(deployment, bounds, &sets.all(), sets.new.as_ref(), &news, now);
    if let Some(deadline) = status::deadline(deployment, &status).filter(|deadline| *deadline > now) {
        sweep.due_at(now, deadline);
    }
    let complete = status::is_complete(deployment, &status);
    if deployment.status.as_ref() != Some(&status) {
        // The revision may just have been written: the status goes on the object as it is now.
        let key = crate::cache::key(deployment.as_ref());
        let current = context.caches.deployments.get(&key.0, &key.1);
        if let Some(current) = current.filter(|one| one.metadata.generation == deployment.metadata.generation)
        {
            let mut changed = (*current).clone();
            changed.status = Some(status);
            let written = context.replace_status(&context.caches.deployments, &changed).await;
            sweep.note_about("writing a deployment's status", &changed, written);
        }
    }
    if complete && deployment.metadata.deletion_timestamp.is_none() {
        forget_old(context, deployment, &sets, sweep).await;
    }
}

/// Sees to it that there is a ReplicaSet for the current template.
async fn ensure_new(
    context: &Context,
    deployment: &Arc<Deployment>,
    bounds: Bounds,
    sets: &mut Sets,
    pods: &Owned<Pod>,
    sweep: &mut Sweep,
) -> News {
    let latest = sets.next_revision();
    if let Some(new) = &sets.new {
        let known =
            status::condition(&deployment.status.clone().unwrap_or_default(), "Progressing").is_some();
        let mut changed = (**new).clone();
        if sets::annotate(&mut changed, deployment, Some(latest), bounds) {
            let written = context.replace(&context.caches.replica_sets, &changed).await;
            sets.new = sweep
                .note_about("marking a replica set's revision", &changed, written)
                .or_else(|| sets.new.clone());
        }
        let name = sets.new.as_ref().and_then(|set| set.metadata.name.clone()).unwrap_or_default();
        return if known { News::None } else { News::Found(name) };
    }
    if !bounds.rolling && (sets.old.iter().any(|set| replicas(set) > 0) || old_pods_left(sets, pods)) {
        return News::None;
    }
    let all = sets.old.iter().map(|set| replicas(set)).fold(0, i32::saturating_add);
    let count = numbers::for_new_set(bounds, all, 0);
    let fresh = sets::fresh(deployment, latest, count, bounds);
    match context.create(&context.caches.replica_sets, &fresh).await {
        Ok(set) => {
            let name = set.metadata.name.clone().unwrap_or_default();
            if count > 0 {
                let message = format!("Scaled up replica set {name} from 0 to {count}");
                context.event(NAME, deployment.as_ref(), Level::Normal, "ScalingReplicaSet", &message).await;
            }
            sets.new = Some(set);
            News::Created(name)
        }
        Err(error) if is_already_exists(&error) => {
            // Somebody else's set has our name: the next one is made with another.
            let count = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
            let count = count.saturating_add(1);
            let patch = json!({"status": {"collisionCount": count}});
            let written =
                context.merge_status(&context.caches.deployments, deployment.as_ref(), &patch).await;
            sweep.note_about("counting a name collision", deployment.as_ref(), written);
            News::None
        }
        Err(error) => {
            let message = format!("Failed to create new replica set: {}", says(&error));
            context.event(NAME, deployment.as_ref(), Level::Warning, "ReplicaSetCreateError", &message).await;
            let news = News::FailedToCreate(says(&error));
            sweep.note::<()>("creating a replica set", Err(error));
            news
        }
    }
}

/// Whether pods of old sets are still there, if only terminating.
fn old_pods_left(sets: &Sets, pods: &Owned<Pod>) -> bool {
    sets.old.iter().any(|set| pods.controlled_by(uid(set.as_ref())).iter().any(|pod| !has_ended(pod)))
}

/// Scales sets as decided.
async fn apply(
    context: &Context,
    deployment: &Arc<Deployment>,
    bounds: Bounds,
    sets: &mut Sets,
    changes: &[(usize, i32)],
    sweep: &mut Sweep,
) {
    for (at, next) in changes {
        let Some(set) = sets.get(*at) else { continue };
        let before = replicas(&set);
        let mut changed = (*set).clone();
        if let Some(spec) = &mut changed.spec {
            spec.replicas = Some(*next);
        }
        let noted = sets::note_scale(&mut changed, bounds);
        if before == *next && !noted {
            continue;
        }
        let written = context.replace(&context.caches.replica_sets, &changed).await;
        let Some(written) = sweep.note_about("scaling a replica set", &changed, written) else { continue };
        sets.put(*at, written);
        if before != *next {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let direction = if *next > before { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {name} from {before} to {next}");
            context.event(NAME, deployment.as_ref(), Level::Normal, "ScalingReplicaSet", &message).await;
        }
    }
}

async fn mark_revision(context: &Context, deployment: &Arc<Deployment>, sets: &Sets, sweep: &mut Sweep) {
    let Some(new) = &sets.new else { return };
    let current = revision(new).to_string();
    let marked = deployment.metadata.annotations.as_ref().and_then(|notes| notes.get(REVISION));
    if revision(new) > 0 && marked != Some(&current) {
        let patch = json!({"metadata": {"annotations": {REVISION: current}}});
        let written = context.merge(&context.caches.deployments, deployment.as_ref(), &patch).await;
        sweep.note_about("marking a deployment's revision", deployment.as_ref(), written);
    }
}

/// Deletes old sets that nobody will roll back to.
async fn forget_old(context: &Context, deployment: &Arc<Deployment>, sets: &Sets, sweep: &mut Sweep) {
    let limit = deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return };
    let mut old = sets.old.clone();
    old.sort_by_key(|set| revision(set));
    for set in old.iter().take(old.len().saturating_sub(limit)) {
        let status = set.status.clone().unwrap_or_default();
        let settled = status.replicas == 0
            && replicas(set) == 0
            && status.observed_generation >= set.metadata.generation
            && set.metadata.deletion_timestamp.is_none();
        if settled {
            let deleted =
                context.delete(&context.caches.replica_sets, set.as_ref(), DeleteParams::background()).await;
            sweep.note_about("deleting an old replica set", set.as_ref(), deleted);
        }
    }
}

impl Sets {
    fn new_numbers(&self) -> Option<Set> {
        self.new.as_ref().map(|set| sets::numbers(0, set))
    }

    fn old_numbers(&self) -> Vec<Set> {
        self.old.iter().enumerate().map(|(at, set)| sets::numbers(at + 1, set)).collect()
    }

    fn all_numbers(&self) -> Vec<Set> {
        self.new_numbers().into_iter().chain(self.old_numbers()).collect()
    }
}
