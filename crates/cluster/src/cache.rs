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
    /// Written by us since the running list began: a list may not have them yet.
    written: BTreeSet<Key>,
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
            written: BTreeSet::new(),
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
        let key = key(&object);
        state.written.insert(key.clone());
        let copy = Arc::new(object);
        state.put(&key, copy.clone());
        copy
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
        if !self.buried.contains(uid(&object)) {
            let key = key(&object);
            self.written.remove(&key);
            self.put(&key, Arc::new(object));
        }
    }

    /// Keeps the newer one of what is held and what comes.
    fn put(&mut self, key: &Key, object: Arc<K>) {
        match self.objects.get(key) {
            Some(held) if version(held.as_ref()) >= version(object.as_ref()) => return,
            Some(held) if uid(held.as_ref()) != uid(object.as_ref()) => self.drop_object(key),
            _ => {}
        }
        if let Some(feed) = &self.feed {
            feed.seen(object.meta());
        }
        self.objects.insert(key.clone(), object);
        self.tell();
    }

    fn remove(&mut self, object: &K) {
        let key = key(object);
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
        let vanished: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| !listing.contains_key(*key) && !self.written.contains(*key))
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
    }
}
