//! Encoded objects, their bounded history, and what a watch needs of it.
//!
//! One counter numbers all changes of all resources. Each resource has a shelf: the objects in the order of
//! (namespace, name) and a log of the last changes. The past is not stored: it is the present with the log
//! undone, see [`list`].

mod list;
mod log;

pub(crate) use list::Listed;
pub(crate) use log::{Change, ChangeKind, TooOld, line};

use crate::contract::GroupResource;
use bytes::Bytes;
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::Notify;

/// Where an object lives on its shelf; the namespace is empty for cluster-scoped ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One state of one object: its bytes as they go over the wire and what selectors ask for.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Arc<Key>,
    pub(crate) revision: u64,
    pub(crate) bytes: Bytes,
    /// In the order of their keys.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The selectable fields that are not empty, besides name and namespace.
    pub(crate) fields: Box<[(Cow<'static, str>, Box<str>)]>,
    parsed: OnceLock<Arc<Value>>,
    /// What was written, where `bytes` are how a later definition of the kind sees it.
    written: Option<Bytes>,
}

impl Stored {
    pub(crate) fn new(
        key: Arc<Key>,
        revision: u64,
        bytes: Bytes,
        labels: Box<[(Box<str>, Box<str>)]>,
        fields: Box<[(Cow<'static, str>, Box<str>)]>,
    ) -> Self {
        Self { key, revision, bytes, labels, fields, parsed: OnceLock::new(), written: None }
    }

    /// The same state seen in another way.
    pub(crate) fn seen_as(&self, bytes: Bytes, fields: Box<[(Cow<'static, str>, Box<str>)]>) -> Self {
        let written = self.written.as_ref().unwrap_or(&self.bytes);
        let written = (*written != bytes).then(|| written.clone());
        let seen = Self::new(Arc::clone(&self.key), self.revision, bytes, self.labels.clone(), fields);
        Self { written, ..seen }
    }

    /// The object as it was written, whatever became of its definition since then.
    pub(crate) fn as_written(&self) -> Value {
        read(self.written.as_ref().unwrap_or(&self.bytes), &self.key)
    }

    /// The object as a tree of its own.
    pub(crate) fn parse(&self) -> Value {
        read(&self.bytes, &self.key)
    }

    /// The object as a tree that is kept: for the few kinds that are looked up with every request.
    pub(crate) fn parsed(&self) -> Arc<Value> {
        Arc::clone(self.parsed.get_or_init(|| Arc::new(self.parse())))
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        self.labels.get(index).map(|(_, value)| &**value)
    }

    /// The value of a selectable field; empty when it is not set.
    pub(crate) fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => &self.key.name,
            "metadata.namespace" => &self.key.namespace,
            _ => self.fields.iter().find(|(field, _)| &**field == name).map_or("", |(_, value)| value),
        }
    }
}

fn read(bytes: &[u8], key: &Key) -> Value {
    // What is stored was serialised by this server, and not too deep to be read.
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        tracing::error!(%error, namespace = %key.namespace, name = %key.name, "a stored object cannot be read");
        Value::Null
    })
}

/// Why a write did not happen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    Exists,
    Missing,
    /// The object is not in the state that was expected.
    Changed,
    /// The object has grown too large.
    TooLarge,
}

/// More than any body can hold, so that no object grows beyond by being patched again and again. A real server's
/// store has its limit at 1.5 MiB in a denser form.
const LARGEST: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Shelf {
    objects: BTreeMap<Arc<Key>, Arc<Stored>>,
    log: VecDeque<Arc<Change>>,
    /// How much the states in the log hold.
    log_bytes: usize,
    /// Changes up to here are no longer in the log.
    forgotten: u64,
    /// The newest change that is no longer in the log.
    lost: u64,
    /// Watches cannot begin before this revision.
    window: u64,
    changed: Arc<Notify>,
}

struct State {
    revision: u64,
    shelves: BTreeMap<GroupResource, Shelf>,
    /// The shelf that was given up last: its watchers may still read how it ended.
    retired: Option<GroupResource>,
    /// A shelf made later starts with these.
    forgotten: u64,
    window: u64,
}

impl State {
    fn shelf(&mut self, resource: &GroupResource) -> &mut Shelf {
        let (forgotten, window) = (self.forgotten, self.window);
        // The clone is two counters.
        let place = self.shelves.entry(resource.clone());
        place.or_insert_with(|| Shelf { forgotten, window, ..Shelf::default() })
    }
}

pub(crate) struct Store {
    state: Mutex<State>,
    history: usize,
}

impl Store {
    /// Keeps `history` changes per resource.
    pub(crate) fn new(history: usize) -> Self {
        let state = State { revision: 1, shelves: BTreeMap::new(), retired: None, forgotten: 0, window: 0 };
        Self { state: Mutex::new(state), history: history.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        self.lock().shelves.get(resource)?.objects.get(key).cloned()
    }

    /// Puts an object where there is none. `encode` is given the revision of this change.
    pub(crate) fn insert(
        &self,
        resource: &GroupResource,
        key: &Arc<Key>,
        encode: impl FnOnce(u64) -> Stored,
    ) -> Result<Arc<Stored>, Clash> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let shelf = state.shelf(resource);
        let Entry::Vacant(place) = shelf.objects.entry(Arc::clone(key)) else { return Err(Clash::Exists) };
        let stored = Arc::new(encode(revision));
        place.insert(Arc::clone(&stored));
        shelf.record(Change::new(revision, ChangeKind::Added, Arc::clone(&stored), None), self.history);
        state.revision = revision;
        Ok(stored)
    }

    /// Replaces the object if it is still at revision `at`.
    pub(crate) fn replace(
        &self,
        resource: &GroupResource,
        key: &Key,
        at: u64,
        encode: impl FnOnce(u64) -> Stored,
    ) -> Result<Arc<Stored>, Clash> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let shelf = state.shelf(resource);
        let slot = shelf.objects.get_mut(key).ok_or(Clash::Missing)?;
        if slot.revision != at {
            return Err(Clash::Changed);
        }
        let stored = Arc::new(encode(revision));
        if stored.bytes.len() > LARGEST {
            return Err(Clash::TooLarge);
        }
        let before = std::mem::replace(slot, Arc::clone(&stored));
        shelf.record(
            Change::new(revision, ChangeKind::Modified, Arc::clone(&stored), Some(before)),
            self.history,
        );
        state.revision = revision;
        Ok(stored)
    }

    /// Takes the object away if it is still at revision `at`; `encode` gives its last state, as watchers see it.
    pub(crate) fn remove(
        &self,
        resource: &GroupResource,
        key: &Key,
        at: u64,
        encode: impl FnOnce(u64) -> Stored,
    ) -> Result<Arc<Stored>, Clash> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let shelf = state.shelf(resource);
        let current = shelf.objects.get(key).ok_or(Clash::Missing)?;
        if current.revision != at {
            return Err(Clash::Changed);
        }
        let last = Arc::new(encode(revision));
        let before = shelf.objects.remove(key);
        shelf.record(Change::new(revision, ChangeKind::Deleted, Arc::clone(&last), before), self.history);
        state.revision = revision;
        Ok(last)
    }

    /// Gives up the shelf of a resource that is no more. Its last changes stay until another one is given up.
    pub(crate) fn retire(&self, resource: &GroupResource) {
        let mut state = self.lock();
        let revision = state.revision;
        if let Some(shelf) = state.shelves.get_mut(resource) {
            shelf.objects.clear();
            shelf.forgotten = revision;
            shelf.window = revision;
            let before = state.retired.replace(resource.clone()).filter(|before| before != resource);
            if let Some(shelf) = before.and_then(|before| state.shelves.get_mut(&before))
                && shelf.log.back().is_some_and(|last| last.revision <= shelf.forgotten)
            {
                shelf.forget();
            }
        }
    }

    /// Puts objects anew as `make` gives them, without a change: they mean the same. Those that changed meanwhile
    /// are left alone.
    pub(crate) fn refresh(&self, resource: &GroupResource, make: impl Fn(&Stored) -> Stored) {
        let Ok(listed) = self.list(resource, "", None) else { return };
        let made: Vec<Stored> = listed.items.iter().map(|stored| make(stored)).collect();
        let mut state = self.lock();
        let shelf = state.shelf(resource);
        for stored in made {
            if let Some(slot) = shelf.objects.get_mut(&stored.key)
                && slot.revision == stored.revision
            {
                *slot = Arc::new(stored);
            }
        }
    }

    /// Forgets all history: older versions can no longer be listed or watched from.
    pub(crate) fn compact(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        state.forgotten = revision;
        state.window = revision;
        for shelf in state.shelves.values_mut() {
            shelf.forget();
            shelf.forgotten = revision;
            shelf.window = revision;
            shelf.changed.notify_waiters();
        }
    }

    /// Lets watches begin only from now on; history stays for lists.
    pub(crate) fn close_window(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        state.window = revision;
        for shelf in state.shelves.values_mut() {
            shelf.window = revision;
            shelf.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> GroupResource {
        GroupResource::new("", "pods")
    }

    fn key(name: &str) -> Arc<Key> {
        Arc::new(Key::new("a", name))
    }

    fn stored(name: &str, text: &str) -> impl FnOnce(u64) -> Stored {
        let key = key(name);
        let bytes = Bytes::from(text.to_owned());
        move |revision| Stored::new(key, revision, bytes, Box::default(), Box::default())
    }

    fn texts(listed: &Listed) -> Vec<String> {
        listed.items.iter().map(|item| String::from_utf8(item.bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn writes_check_what_they_expect() {
        let store = Store::new(10);
        let key = key("x");
        let first = store.insert(&pods(), &key, stored("x", "1")).unwrap();
        assert_eq!(store.insert(&pods(), &key, stored("x", "1")).unwrap_err(), Clash::Exists);
        let second = store.replace(&pods(), &key, first.revision, stored("x", "2")).unwrap();
        assert_eq!(
            store.replace(&pods(), &key, first.revision, stored("x", "3")).unwrap_err(),
            Clash::Changed
        );
        assert_eq!(
            store.remove(&pods(), &key, first.revision, stored("x", "3")).unwrap_err(),
            Clash::Changed
        );
        store.remove(&pods(), &key, second.revision, stored("x", "3")).unwrap();
        assert_eq!(
            store.remove(&pods(), &key, second.revision, stored("x", "3")).unwrap_err(),
            Clash::Missing
        );
        assert_eq!(store.revision(), 4);
    }

    #[test]
    fn the_past_can_be_listed_until_it_is_forgotten() {
        let store = Store::new(10);
        let x = store.insert(&pods(), &key("x"), stored("x", "x1")).unwrap();
        let y = store.insert(&pods(), &key("y"), stored("y", "y1")).unwrap();
        let x2 = store.replace(&pods(), &Key::new("a", "x"), x.revision, stored("x", "x2")).unwrap();
        store.remove(&pods(), &Key::new("a", "y"), y.revision, stored("y", "y1")).unwrap();
        let at = |revision| texts(&store.list(&pods(), "a", Some(revision)).unwrap());
        assert_eq!(at(x.revision), ["x1"]);
        assert_eq!(at(y.revision), ["x1", "y1"]);
        assert_eq!(at(x2.revision), ["x2", "y1"]);
        assert_eq!(at(store.revision()), ["x2"]);
        store.compact();
        assert!(store.list(&pods(), "a", Some(x.revision)).is_err());
        assert_eq!(at(store.revision()), ["x2"]);
    }

    #[test]
    fn a_bounded_log_forgets_its_oldest_changes() {
        let store = Store::new(2);
        for name in ["a", "b", "c"] {
            store.insert(&pods(), &key(name), stored(name, name)).unwrap();
        }
        assert!(store.changes(&pods(), 1, 10, false).is_err());
        let batch = store.changes(&pods(), 2, 10, false).unwrap();
        assert_eq!(batch.changes.len(), 2);
        assert_eq!(store.changes(&pods(), 2, 1, false).unwrap().position, 3);
        store.close_window();
        assert!(store.changes(&pods(), 2, 10, false).is_err());
        assert!(store.changes(&pods(), 2, 10, true).is_ok());
        assert!(store.list(&pods(), "", Some(3)).is_ok());
        store.compact();
        assert!(store.changes(&pods(), 3, 10, true).is_err());
        assert!(store.changes(&pods(), 4, 10, true).is_ok());
    }
}
