//! ControllerRevisions: the templates a StatefulSet or DaemonSet has had, so that it can go back.

use super::pods::{Owned, controller, owner_reference};
use super::template::hash;
use crate::kind::Kind;
use crate::part::{Context, Sweep, is_already_exists};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The label by which a pod says which template it was made of.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";

/// How many names are tried for a revision in one sweep while other objects have them.
const NAMES: usize = 100;
/// When all of them were taken, it looks again after this.
const LATER: Duration = Duration::from_secs(30);

/// All revisions of one owner, oldest first, and the one of its present template.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    pub(crate) update: Arc<ControllerRevision>,
    /// How often a name for a revision was taken so far.
    pub(crate) collisions: Option<i32>,
}

impl History {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.all.iter().find(|one| one.metadata.name.as_deref() == Some(name))
    }
}

pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The value of [`HASH_LABEL`] that pods of this revision carry.
pub(crate) fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).map_or("", String::as_str)
}

/// The template that the revision keeps.
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let data = &revision.data.as_ref()?.0;
    serde_json::from_value(data.get("spec")?.get("template")?.clone()).ok()
}

fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    // Applied as a strategic patch, the template replaces the present one as a whole.
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// What belongs to sets that keep revisions.
#[derive(Debug)]
pub(crate) struct Belongings {
    pods: Owned<Pod>,
    revisions: Owned<ControllerRevision>,
}

impl Belongings {
    pub(crate) fn of(context: &Context) -> Self {
        let caches = &context.caches;
        Self { pods: Owned::of(caches.pods.all()), revisions: Owned::of(caches.revisions.all()) }
    }

    /// The owner's pods and its history, with a revision for the present template (given with the number of hash
    /// collisions so far). `None` for an owner that is being deleted.
    pub(crate) async fn claim<O: Kind>(
        &self,
        context: &Context,
        owner: &O,
        selector: &LabelSelector,
        (template, collisions): (&PodTemplateSpec, Option<i32>),
        sweep: &mut Sweep,
    ) -> Option<(Vec<Arc<Pod>>, History)> {
        let pods = self.pods.claim(context, &context.caches.pods, owner, selector, sweep).await;
        if owner.meta().deletion_timestamp.is_some() {
            return None;
        }
        let cache = &context.caches.revisions;
        let all = self.revisions.claim(context, cache, owner, selector, sweep).await;
        Some((pods, keep(context, all, owner, template, collisions, sweep).await?))
    }
}

/// Sees to it that there is a revision for the present template, and that it is the newest.
async fn keep<O: Kind>(
    context: &Context,
    mut all: Vec<Arc<ControllerRevision>>,
    owner: &O,
    template: &PodTemplateSpec,
    collisions: Option<i32>,
    sweep: &mut Sweep,
) -> Option<History> {
    let cache = &context.caches.revisions;
    all.sort_by_key(|one| (one.revision, one.metadata.name.clone()));
    let wanted = data(template);
    let newest = all.last().map_or(0, |one| one.revision);
    let equal = all.iter().rev().find(|one| one.data.as_ref().is_some_and(|data| data.0 == wanted)).cloned();
    if let Some(equal) = equal {
        if equal.revision == newest {
            return Some(History { all, update: equal, collisions });
        }
        let mut again = (*equal).clone();
        again.revision = newest.saturating_add(1);
        let update = sweep.note_about("renewing a revision", &again, context.replace(cache, &again).await)?;
        all.retain(|one| one.metadata.name != update.metadata.name);
        all.push(update.clone());
        return Some(History { all, update, collisions });
    }
    let mut collisions = collisions;
    for _ in 0..NAMES {
        let fresh = fresh(owner, template, collisions, newest.saturating_add(1));
        let made = match context.create(cache, &fresh).await {
            Err(error) if is_already_exists(&error) => namesake(context, owner, &fresh).await,
            made => made.map(Some),
        };
        match sweep.note_about("keeping a revision", &fresh, made)? {
            Some(update) => {
                all.push(update.clone());
                return Some(History { all, update, collisions });
            }
            None => collisions = Some(collisions.unwrap_or(0).saturating_add(1)),
        }
    }
    tracing::warn!(owner = owner.meta().name, "other objects have all the names for its revision");
    sweep.due(LATER);
    None
}

/// The owner's own revision of this name and content; nothing if it is somebody else's.
async fn namesake<O: Kind>(
    context: &Context,
    owner: &O,
    fresh: &ControllerRevision,
) -> Result<Option<Arc<ControllerRevision>>, kube::Error> {
    let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
    let found = ControllerRevision::api(&context.client, namespace).get_opt(name(fresh)).await?;
    let own = found.filter(|found| {
        let holder = controller(&found.metadata).map(|holder| holder.uid.as_str());
        holder == owner.meta().uid.as_deref() && found.data == fresh.data
    });
    Ok(own.map(|own| context.caches.revisions.write(own)))
}

fn fresh<O: Kind>(
    owner: &O,
    template: &PodTemplateSpec,
    collisions: Option<i32>,
    revision: i64,
) -> ControllerRevision {
    let hash = hash(template, collisions);
    let mut labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.meta().name.as_deref().unwrap_or_default())),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data(template))),
        revision,
    }
}

/// Deletes the oldest revisions that are not in use above the limit.
pub(crate) async fn forget(
    context: &Context,
    history: &History,
    in_use: &BTreeSet<String>,
    limit: Option<i32>,
    sweep: &mut Sweep,
) {
    let Ok(limit) = usize::try_from(limit.unwrap_or(10)) else { return };
    let unused: Vec<&Arc<ControllerRevision>> = history
        .all
        .iter()
        .filter(|one| one.metadata.name != history.update.metadata.name)
        .filter(|one| !in_use.contains(hash_of(one)) && !in_use.contains(name(one)))
        .collect();
    for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
        let deleted =
            context.delete(&context.caches.revisions, revision.as_ref(), DeleteParams::background()).await;
        sweep.note_about("deleting an old revision", revision.as_ref(), deleted);
    }
}
