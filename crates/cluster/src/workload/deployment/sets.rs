//! A deployment's ReplicaSets: which is the new one, their revisions and annotations.

use super::numbers::{Bounds, Set};
use crate::selector::Labels;
use crate::workload::pods::owner_reference;
use crate::workload::template::hash;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::ObjectMeta;
use std::sync::Arc;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";
/// Annotations of a deployment that say nothing about its sets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];

#[derive(Debug)]
pub(super) struct Sets {
    /// The one with the deployment's present template.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    pub(super) fn of(deployment: &Deployment, mut sets: Vec<Arc<ReplicaSet>>) -> Self {
        sets.sort_by_key(|set| {
            (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.clone())
        });
        let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let at = sets.iter().position(|set| {
            let other = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
            without_hash(other) == without_hash(template.clone())
        });
        let new = at.map(|at| sets.remove(at));
        Self { new, old: sets }
    }

    pub(super) fn all(&self) -> Vec<Arc<ReplicaSet>> {
        self.new.iter().chain(&self.old).cloned().collect()
    }

    /// Place 0 is the new one, the old ones follow.
    pub(super) fn get(&self, at: usize) -> Option<Arc<ReplicaSet>> {
        match at.checked_sub(1) {
            None => self.new.clone(),
            Some(at) => self.old.get(at).cloned(),
        }
    }

    pub(super) fn put(&mut self, at: usize, set: Arc<ReplicaSet>) {
        match at.checked_sub(1) {
            None => self.new = Some(set),
            Some(at) => {
                if let Some(place) = self.old.get_mut(at) {
                    *place = set;
                }
            }
        }
    }

    /// The revision that the new set has or gets.
    pub(super) fn next_revision(&self) -> i64 {
        self.old.iter().map(|set| revision(set)).max().unwrap_or(0).saturating_add(1)
    }
}

fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(meta) = &mut template.metadata {
        if let Some(labels) = &mut meta.labels {
            labels.remove(HASH);
            if labels.is_empty() {
                meta.labels = None;
            }
        }
        meta.creation_timestamp = None;
        if *meta == ObjectMeta::default() {
            template.metadata = None;
        }
    }
    template
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn note(set: &ReplicaSet, key: &str) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    note(set, REVISION).unwrap_or(0)
}

pub(super) fn numbers(at: usize, set: &ReplicaSet) -> Set {
    let small = |key: &str| note(set, key).and_then(|number| i32::try_from(number).ok());
    Set {
        at,
        replicas: replicas(set),
        available: set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0),
        desired_before: small(DESIRED),
        most_before: small(MOST),
    }
}

fn put_note(notes: &mut Labels, key: &str, value: String) -> bool {
    if notes.get(key) == Some(&value) {
        return false;
    }
    notes.insert(key.to_owned(), value);
    true
}

/// Notes what the deployment asks for. True if that is new.
pub(super) fn note_scale(set: &mut ReplicaSet, bounds: Bounds) -> bool {
    let notes = set.metadata.annotations.get_or_insert_default();
    let desired = put_note(notes, DESIRED, bounds.replicas.to_string());
    put_note(notes, MOST, bounds.most().to_string()) || desired
}

/// Brings the new set's annotations up to date. True if something changed.
pub(super) fn annotate(
    set: &mut ReplicaSet,
    deployment: &Deployment,
    latest: Option<i64>,
    bounds: Bounds,
) -> bool {
    let before = revision(set);
    let notes = set.metadata.annotations.get_or_insert_default();
    let mut changed = false;
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !OWN.contains(&key.as_str()) && !notes.contains_key(key) {
            changed |= put_note(notes, key, value.clone());
        }
    }
    if let Some(latest) = latest.filter(|latest| *latest > before) {
        changed |= put_note(notes, REVISION, latest.to_string());
        if before > 0 {
            let mut history: Vec<String> = notes
                .get(HISTORY)
                .map(|text| text.split(',').map(str::to_owned).collect())
                .unwrap_or_default();
            history.push(before.to_string());
            changed |= put_note(notes, HISTORY, history.join(","));
        }
    }
    if !notes.contains_key(DESIRED) {
        changed |= note_scale(set, bounds);
    }
    changed
}

/// A ReplicaSet for the deployment's present template.
pub(super) fn fresh(deployment: &Deployment, revision: i64, count: i32, bounds: Bounds) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
    let name = format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default());
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(count),
            min_ready_seconds: spec.min_ready_seconds.filter(|seconds| *seconds > 0),
            selector,
            template: Some(template),
        }),
        status: None,
    };
    annotate(&mut set, deployment, Some(revision), bounds);
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(image: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "annotations": {"note": "x", REVISION: "7"}},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": image}]}
                }
            }
        }))
        .unwrap()
    }

    #[test]
    fn the_new_set_is_the_one_with_the_same_template() {
        let one = Arc::new(fresh(&deployment("a"), 1, 2, Bounds::of(&deployment("a"))));
        let two = Arc::new(fresh(&deployment("b"), 2, 0, Bounds::of(&deployment("b"))));
        let name = one.metadata.name.clone();
        let sets = Sets::of(&deployment("a"), vec![one, two]);
        assert_eq!(sets.new.as_ref().unwrap().metadata.name, name);
        assert_eq!((sets.old.len(), sets.next_revision()), (1, 3));
        assert!(Sets::of(&deployment("c"), sets.all()).new.is_none());
    }

    #[test]
    fn a_fresh_set_carries_hash_and_notes() {
        let set = fresh(&deployment("a"), 3, 1, Bounds::of(&deployment("a")));
        let hash = set.metadata.labels.as_ref().unwrap()[HASH].clone();
        assert_eq!(set.metadata.name.as_deref(), Some(format!("web-{hash}").as_str()));
        let spec = set.spec.as_ref().unwrap();
        assert_eq!(spec.selector.match_labels.as_ref().unwrap()[HASH], hash);
        let notes = set.metadata.annotations.as_ref().unwrap();
        let notes: Vec<_> = notes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(notes, [(DESIRED, "2"), (MOST, "3"), (REVISION, "3"), ("note", "x")]);
    }

    #[test]
    fn going_back_to_an_old_set_keeps_its_history() {
        let current = deployment("a");
        let mut set = fresh(&current, 1, 1, Bounds::of(&current));
        assert!(annotate(&mut set, &current, Some(4), Bounds::of(&current)));
        let notes = set.metadata.annotations.as_ref().unwrap();
        assert_eq!((notes[REVISION].as_str(), notes[HISTORY].as_str()), ("4", "1"));
        assert!(!annotate(&mut set, &current, Some(4), Bounds::of(&current)));
    }
}
