//! What the garbage collector knows: which objects there are, who owns them, and what has changed.

use crate::cache::Signal;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::core::ApiResource;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// A resource the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) api: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) verbs: BTreeSet<String>,
}

impl Served {
    /// Group and plural name: what stays the same over versions.
    pub(crate) fn id(&self) -> (String, String) {
        (self.api.group.clone(), self.api.plural.clone())
    }

    pub(crate) fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.contains(*verb))
    }
}

/// One object, as far as ownership goes.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) resource: Arc<Served>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
}

impl Thing {
    pub(crate) fn new(resource: &Arc<Served>, meta: &ObjectMeta) -> Self {
        Self {
            resource: resource.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    pub(crate) fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }

    /// Being deleted in the foreground: its dependents go first.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.holds(FOREGROUND)
    }

    /// Whether this object's owner must not go before this object is gone.
    pub(crate) fn blocks(&self, owner: &str) -> bool {
        self.owners
            .iter()
            .any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }
}

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

#[derive(Debug)]
pub(crate) enum Change {
    Seen(Thing),
    Gone(Thing),
}

/// Changes on their way from the caches to the garbage collector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    queue: Arc<Mutex<VecDeque<Change>>>,
    signal: Signal,
}

impl Changes {
    pub(crate) fn new(signal: Signal) -> Self {
        Self { queue: Arc::default(), signal }
    }

    fn push(&self, change: Change) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(change);
        self.signal.poke();
    }

    pub(crate) fn drain(&self) -> VecDeque<Change> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where one cache tells of its changes.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    resource: Arc<Served>,
    changes: Changes,
}

impl Feed {
    pub(crate) fn new(resource: Arc<Served>, changes: Changes) -> Self {
        Self { resource, changes }
    }

    pub(crate) fn seen(&self, meta: &ObjectMeta) {
        self.changes.push(Change::Seen(Thing::new(&self.resource, meta)));
    }

    pub(crate) fn gone(&self, meta: &ObjectMeta) {
        self.changes.push(Change::Gone(Thing::new(&self.resource, meta)));
    }
}

/// All objects by uid, and who depends on whom.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    things: BTreeMap<String, Thing>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Thing> {
        self.things.get(uid)
    }

    pub(crate) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Thing> {
        self.dependents.get(owner).into_iter().flatten().filter_map(|uid| self.things.get(uid))
    }

    /// Takes a change in and says which objects have to be looked at because of it.
    pub(crate) fn take(&mut self, change: Change) -> Vec<String> {
        match change {
            Change::Seen(thing) => self.see(thing),
            Change::Gone(thing) => self.forget(&thing),
        }
    }

    fn see(&mut self, thing: Thing) -> Vec<String> {
        let uid = thing.uid.clone();
        self.unlink(&uid);
        for owner in &thing.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let mut look_at = Vec::new();
        if thing.waits_for_dependents() {
            look_at.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        if !thing.owners.is_empty() || thing.deleting {
            look_at.push(uid.clone());
        }
        // An owner that waits for this one may be waiting no longer.
        look_at.extend(thing.owners.iter().map(|owner| owner.uid.clone()));
        self.things.insert(uid, thing);
        look_at
    }

    fn forget(&mut self, thing: &Thing) -> Vec<String> {
        let owners: Vec<String> = self
            .things
            .get(&thing.uid)
            .map(|held| held.owners.iter().map(|owner| owner.uid.clone()).collect())
            .unwrap_or_default();
        self.unlink(&thing.uid);
        self.things.remove(&thing.uid);
        let mut look_at: Vec<String> =
            self.dependents.get(&thing.uid).into_iter().flatten().cloned().collect();
        look_at.extend(owners);
        look_at
    }

    fn unlink(&mut self, uid: &str) {
        let Some(old) = self.things.get(uid) else { return };
        for owner in &old.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// Takes out everything of a resource that is no longer served.
    pub(crate) fn drop_resource(&mut self, id: &(String, String)) -> Vec<String> {
        let gone: Vec<Thing> =
            self.things.values().filter(|thing| thing.resource.id() == *id).cloned().collect();
        gone.iter().flat_map(|thing| self.forget(thing)).collect()
    }
}
