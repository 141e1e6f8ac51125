//! What the parts see of the cluster: one watched and ordered copy per kind, shared by all of them.
//!
//! What a part writes goes into the copy at once (`write`, `bury`), so that no part acts twice because a
//! watch event is still on its way.

use crate::garbage::graph::Feed;
use futures::future::BoxFuture;
use kube::Resource;
use kube::runtime::watcher::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// Namespace (empty for objects without one) and name.
pub(crate) type Key = (String, String);

pub(crate) fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

pub(crate) fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Wakes one part; several pokes before it looks are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<Notify>);

impl Signal {
    pub(crate) fn poke(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn wait(&self) {
        self.0.notified().await;
    }
}

#[derive(Debug)]
pub(crate) struct Cache<K> {
    state: Mutex<State<K>>,
    ready: watch::Sender<bool>,
}

#[derive(Debug)]
struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Written by us, with the version that was: neither a list nor the watch has shown them yet.
    written: BTreeMap<Key, u64>,
    /// Deleted by us, the watch event still to come.
    buried: BTreeSet<String>,
    listing: Option<BTreeMap<Key, Arc<K>>>,
    wanted: bool,
    listeners: Vec<Signal>,
    feed: Option<Feed>,
}

/// A cache of any kind, as far as a part has to name what it looks at.
pub(crate) trait Watched: Send + Sync {
    /// Says that somebody reads this cache.
    fn want(&self);
    /// Pokes the signal on every change from now on.
    fn listen(&self, signal: &Signal);
    /// Ends when the first list is complete.
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl<K: Send + Sync> Watched for Cache<K> {
    fn want(&self) {
        self.lock().wanted = true;
    }

    fn listen(&self, signal: &Signal) {
        self.want();
        self.lock().listeners.push(signal.clone());
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        let mut ready = self.ready.subscribe();
        Box::pin(async move {
            // The sender lives as long as the cache does.
            let _ = ready.wait_for(|ready| *ready).await;
        })
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let state = State {
            objects: BTreeMap::new(),
            written: BTreeMap::new(),
            buried: BTreeSet::new(),
            listing: None,
            wanted: false,
            listeners: Vec::new(),
            feed: None,
        };
        Self { state: Mutex::new(state), ready: watch::Sender::new(false) }
    }
}

impl<K> Cache<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.ready.borrow()
    }

    pub(crate) fn wanted(&self) -> bool {
        self.lock().wanted
    }

    /// Tells the garbage collector's graph about every change from now on.
    pub(crate) fn feed(&self, feed: Feed) {
        self.lock().feed = Some(feed);
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.lock().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

impl<K: Resource> Cache<K> {
    /// Takes a watch event in.
    pub(crate) fn take(&self, event: Event<K>) {
        let mut state = self.lock();
        match event {
            Event::Init => {
                state.listing = Some(BTreeMap::new());
                state.written.clear();
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut state.listing {
                    listing.insert(key(&object), Arc::new(object));
                }
            }
            Event::InitDone => {
                state.finish_listing();
                drop(state);
                self.ready.send_replace(true);
            }
            Event::Apply(object) => state.apply(object),
            Event::Delete(object) => state.remove(&object),
        }
    }

    /// Takes in the answer to a write of ours.
    pub(crate) fn write(&self, object: K) -> Arc<K> {
        let mut state = self.lock();
        let (key, version) = (key(&object), version(&object));
        let copy = Arc::new(object);
        if state.put(&key, copy.clone()) {
            state.written.insert(key, version);
        }
        copy
    }

    /// What we have written that a list, made since, does not have: younger than the list, or gone already.
    pub(crate) fn unconfirmed(&self) -> Vec<(Key, u64)> {
        self.lock().written.iter().map(|(key, version)| (key.clone(), *version)).collect()
    }

    /// The server does not have what we wrote, or not any more.
    pub(crate) fn refute(&self, key: &Key, version: u64) {
        let mut state = self.lock();
        if state.written.get(key) == Some(&version) {
            state.forget(key, version);
        }
    }

    /// Takes out what we know to be gone.
    pub(crate) fn bury(&self, object: &K) {
        let mut state = self.lock();
        let key = key(object);
        if state.objects.get(&key).is_some_and(|held| uid(held.as_ref()) == uid(object)) {
            state.buried.insert(uid(object).to_owned());
            state.drop_object(&key);
        }
    }
}

impl<K: Resource> State<K> {
    fn apply(&mut self, object: K) {
        let key = key(&object);
        self.catch_up(&key, version(&object));
        if !self.buried.contains(uid(&object)) {
            self.put(&key, Arc::new(object));
        }
    }

    /// The watch tells everything in order: what we wrote before this version and it has not shown was deleted
    /// before the watch began.
    fn catch_up(&mut self, shown: &Key, version: u64) {
        let passed: Vec<(Key, u64)> = self
            .written
            .iter()
            .filter(|(key, written)| **written < version || (**written == version && *key == shown))
            .map(|(key, written)| (key.clone(), *written))
            .collect();
        for (key, written) in passed {
            if key == *shown {
                self.written.remove(&key);
            } else {
                self.forget(&key, written);
            }
        }
    }

    fn forget(&mut self, key: &Key, written: u64) {
        self.written.remove(key);
        if self.objects.get(key).is_some_and(|held| version(held.as_ref()) == written) {
            self.drop_object(key);
        }
    }

    /// Keeps the newer one of what is held and what comes; true if that is the one that comes.
    fn put(&mut self, key: &Key, object: Arc<K>) -> bool {
        match self.objects.get(key) {
            Some(held) if version(held.as_ref()) >= version(object.as_ref()) => return false,
            Some(held) if uid(held.as_ref()) != uid(object.as_ref()) => self.drop_object(key),
            _ => {}
        }
        if let Some(feed) = &self.feed {
            feed.seen(object.meta());
        }
        self.objects.insert(key.clone(), object);
        self.tell();
        true
    }

    fn remove(&mut self, object: &K) {
        let key = key(object);
        self.catch_up(&key, version(object));
        if !self.buried.remove(uid(object))
            && self.objects.get(&key).is_some_and(|held| uid(held.as_ref()) == uid(object))
        {
            self.drop_object(&key);
        }
    }

    fn drop_object(&mut self, key: &Key) {
        if let Some(gone) = self.objects.remove(key) {
            if let Some(feed) = &self.feed {
                feed.gone(gone.meta());
            }
            self.tell();
        }
    }

    fn finish_listing(&mut self) {
        let listing = self.listing.take().unwrap_or_default();
        self.buried.retain(|buried| listing.values().any(|object| uid(object.as_ref()) == buried.as_str()));
        // A list that has younger objects would have these too.
        let newest = listing.values().map(|object| version(object.as_ref())).max().unwrap_or(0);
        self.written.retain(|key, written| !listing.contains_key(key) && *written > newest);
        let vanished: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| !listing.contains_key(*key) && !self.written.contains_key(*key))
            .cloned()
            .collect();
        for key in &vanished {
            self.drop_object(key);
        }
        for (key, object) in listing {
            if !self.buried.contains(uid(object.as_ref())) {
                self.put(&key, object);
            }
        }
        self.tell();
    }

    fn tell(&self) {
        for listener in &self.listeners {
            listener.poke();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn object(name: &str, uid: &str, version: u32) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn held(cache: &Cache<ConfigMap>) -> Vec<String> {
        cache
            .all()
            .iter()
            .map(|object| {
                let version = object.metadata.resource_version.clone().unwrap();
                format!("{}@{version}", object.metadata.name.clone().unwrap())
            })
            .collect()
    }

    #[test]
    fn an_older_event_does_not_undo_a_write() {
        let cache = Cache::default();
        cache.take(Event::Apply(object("a", "1", 5)));
        cache.write(object("a", "1", 9));
        cache.take(Event::Apply(object("a", "1", 7)));
        assert_eq!(held(&cache), ["a@9"]);
    }

    #[test]
    fn what_we_deleted_stays_away_until_the_watch_says_so() {
        let cache = Cache::default();
        cache.take(Event::Apply(object("a", "1", 5)));
        cache.bury(&object("a", "1", 5));
        cache.take(Event::Apply(object("a", "1", 6)));
        assert!(held(&cache).is_empty());
        cache.take(Event::Delete(object("a", "1", 7)));
        cache.take(Event::Apply(object("a", "2", 8)));
        assert_eq!(held(&cache), ["a@8"]);
    }

    #[test]
    fn a_late_deletion_of_a_namesake_does_not_hit_the_new_one() {
        let cache = Cache::default();
        cache.write(object("a", "2", 9));
        cache.take(Event::Delete(object("a", "1", 8)));
        assert_eq!(held(&cache), ["a@9"]);
    }

    #[test]
    fn a_list_replaces_everything_but_what_was_written_meanwhile() {
        let cache = Cache::default();
        cache.take(Event::Apply(object("old", "1", 1)));
        cache.write(object("before", "2", 2));
        cache.take(Event::Init);
        cache.write(object("meanwhile", "3", 9));
        cache.take(Event::InitApply(object("kept", "4", 4)));
        cache.take(Event::InitDone);
        assert_eq!(held(&cache), ["kept@4", "meanwhile@9"]);
        assert_eq!(cache.unconfirmed(), [(("default".to_owned(), "meanwhile".to_owned()), 9)]);
        cache.take(Event::Apply(object("meanwhile", "3", 9)));
        cache.take(Event::Apply(object("later", "5", 10)));
        assert_eq!(held(&cache), ["kept@4", "later@10", "meanwhile@9"]);
        assert!(cache.unconfirmed().is_empty());
    }

    #[test]
    fn what_was_written_and_deleted_before_the_list_does_not_stay() {
        let listed = |later: &[Event<ConfigMap>]| {
            let cache = Cache::default();
            cache.take(Event::Init);
            cache.write(object("gone", "1", 5));
            for event in later {
                cache.take(event.clone());
            }
            cache
        };
        let other = || object("other", "2", 7);
        let young = listed(&[Event::InitApply(other()), Event::InitDone]);
        assert_eq!(held(&young), ["other@7"], "the list is younger");
        let shown = listed(&[Event::InitDone, Event::Apply(other())]);
        assert_eq!(held(&shown), ["other@7"], "the watch is further");
        let deleted = listed(&[Event::InitDone, Event::Delete(other())]);
        assert!(held(&deleted).is_empty(), "the watch is further");
        let asked = listed(&[Event::InitDone]);
        for (key, version) in asked.unconfirmed() {
            asked.refute(&key, version);
        }
        assert!(held(&asked).is_empty(), "the server was asked");
    }

    #[test]
    fn the_answer_to_a_write_that_changed_nothing_is_not_waited_for() {
        let cache = Cache::default();
        cache.take(Event::Apply(object("a", "1", 5)));
        cache.take(Event::Apply(object("b", "2", 6)));
        cache.write(object("a", "1", 5));
        cache.take(Event::Apply(object("b", "2", 7)));
        assert_eq!(held(&cache), ["a@5", "b@7"]);
    }
}
