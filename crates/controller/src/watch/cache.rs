use crate::Key;
use kube::Resource;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::sync::watch;

/// The objects of a kind as last seen, in the order of their names.
///
/// An object that cannot be understood any more stays as it was last understood and is listed by
/// [`Cache::malformed`]: whoever concludes from an object's absence must look there too.
pub struct Cache<K>(Arc<Inner<K>>);

struct Inner<K> {
    objects: RwLock<Objects<K>>,
    synced: watch::Sender<bool>,
}

struct Objects<K> {
    understood: BTreeMap<Key, Arc<K>>,
    malformed: BTreeMap<Key, String>,
}

/// What happened to an object. Objects are as they are now, or were last.
#[derive(Debug)]
pub enum Change<K> {
    Applied {
        old: Option<Arc<K>>,
        new: Arc<K>,
    },
    Deleted {
        last: Arc<K>,
    },
    /// It changed but cannot be understood, or it is gone and never was. [`Cache::malformed`] has it while it
    /// is there.
    Malformed {
        key: Key,
    },
}

impl<K: Resource<DynamicType = ()>> Change<K> {
    pub fn key(&self) -> Key {
        match self {
            Self::Applied { new: object, .. } | Self::Deleted { last: object } => Key::of(&**object),
            Self::Malformed { key } => key.clone(),
        }
    }
}

/// An object as it came from the server, or why it could not be understood.
pub(super) type Seen<K> = (Key, Result<Arc<K>, String>);

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let objects = Objects { understood: BTreeMap::new(), malformed: BTreeMap::new() };
        Self(Arc::new(Inner { objects: RwLock::new(objects), synced: watch::Sender::new(false) }))
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.understood.get(key).cloned())
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.understood.values().cloned().collect())
    }

    /// The objects for which `wanted` holds, ordered by namespace and name.
    pub fn filter(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read(|objects| objects.understood.values().filter(|object| wanted(object)).cloned().collect())
    }

    pub fn len(&self) -> usize {
        self.read(|objects| objects.understood.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that could not be understood, and why.
    pub fn malformed(&self) -> Vec<(Key, String)> {
        self.read(|objects| objects.malformed.iter().map(|(key, why)| (key.clone(), why.clone())).collect())
    }

    /// Whether the first complete list has arrived.
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        // The sender lives as long as the cache, so this cannot fail.
        let _ = self.0.synced.subscribe().wait_for(|synced| *synced).await;
    }

    fn read<T>(&self, look: impl FnOnce(&Objects<K>) -> T) -> T {
        look(&self.0.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Objects<K>) -> T) -> T {
        change(&mut self.0.objects.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over a complete list. What is missing in it was deleted while nobody looked.
    pub(super) fn replace(&self, all: Vec<Seen<K>>) -> Vec<Change<K>> {
        let changes = self.write(|objects| {
            let mut before = std::mem::take(&mut objects.understood);
            objects.malformed.clear();
            let mut changes = Vec::new();
            for (key, object) in all {
                let old = before.remove(&key);
                changes.extend(objects.put(key, object, old));
            }
            changes.extend(before.into_values().map(|last| Change::Deleted { last }));
            changes
        });
        self.0.synced.send_replace(true);
        changes
    }

    pub(super) fn apply(&self, (key, object): Seen<K>) -> Option<Change<K>> {
        self.write(|objects| {
            let old = objects.understood.remove(&key);
            objects.malformed.remove(&key);
            objects.put(key, object, old)
        })
    }

    pub(super) fn delete(&self, (key, object): Seen<K>) -> Change<K> {
        let old = self.write(|objects| {
            objects.malformed.remove(&key);
            objects.understood.remove(&key)
        });
        match object.ok().or(old) {
            Some(last) => Change::Deleted { last },
            None => Change::Malformed { key },
        }
    }
}

impl<K: Resource<DynamicType = ()>> Objects<K> {
    fn put(&mut self, key: Key, object: Result<Arc<K>, String>, old: Option<Arc<K>>) -> Option<Change<K>> {
        match object {
            Ok(new) => {
                self.understood.insert(key, new.clone());
                let version = |object: &K| object.meta().resource_version.clone();
                let unchanged = old.as_ref().is_some_and(|old| version(old) == version(&new));
                (!unchanged).then_some(Change::Applied { old, new })
            }
            Err(why) => {
                if let Some(old) = old {
                    self.understood.insert(key.clone(), old);
                }
                self.malformed.insert(key.clone(), why);
                Some(Change::Malformed { key })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn seen(name: &str, version: &str) -> Seen<ConfigMap> {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            namespace: Some("n".into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        (Key::of(&object), Ok(Arc::new(object)))
    }

    fn broken(name: &str) -> Seen<ConfigMap> {
        (Key::new("ConfigMap", "n", name), Err("data: not a map".into()))
    }

    fn told(changes: impl IntoIterator<Item = Change<ConfigMap>>) -> Vec<String> {
        let word = |change: &Change<ConfigMap>| match change {
            Change::Applied { old: None, .. } => "new",
            Change::Applied { .. } => "changed",
            Change::Deleted { .. } => "deleted",
            Change::Malformed { .. } => "malformed",
        };
        changes.into_iter().map(|change| format!("{} {}", word(&change), change.key().name)).collect()
    }

    #[test]
    fn a_list_tells_what_changed_while_nobody_looked() {
        let cache = Cache::default();
        assert!(!cache.is_synced());
        assert_eq!(
            told(cache.replace(vec![seen("b", "1"), seen("a", "1"), seen("c", "1")])),
            ["new b", "new a", "new c"]
        );
        assert!(cache.is_synced());
        let changes = cache.replace(vec![seen("b", "2"), seen("c", "1"), seen("d", "3")]);
        assert_eq!(told(changes), ["changed b", "new d", "deleted a"]);
        let names: Vec<_> = cache.list().iter().map(|object| object.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }

    #[test]
    fn events_change_the_cache() {
        let cache = Cache::default();
        assert_eq!(told(cache.apply(seen("a", "1"))), ["new a"]);
        assert_eq!(told(cache.apply(seen("a", "1"))), Vec::<String>::new(), "the same version is no news");
        assert_eq!(told(cache.apply(seen("a", "2"))), ["changed a"]);
        assert_eq!(told([cache.delete(seen("a", "3"))]), ["deleted a"]);
        assert!(cache.is_empty());
    }

    #[test]
    fn what_cannot_be_understood_any_more_stays_as_it_was() {
        let cache = Cache::default();
        cache.replace(vec![seen("a", "1")]);
        assert_eq!(told(cache.apply(broken("a"))), ["malformed a"]);
        assert_eq!(told(cache.apply(broken("x"))), ["malformed x"]);
        assert_eq!((cache.len(), cache.malformed().len()), (1, 2));
        assert_eq!(told(cache.replace(vec![broken("a")])), ["malformed a"]);
        assert_eq!(cache.malformed(), [(Key::new("ConfigMap", "n", "a"), "data: not a map".to_owned())]);
        assert_eq!(told(cache.apply(seen("a", "4"))), ["changed a"]);
        assert!(cache.malformed().is_empty());
        assert_eq!(told([cache.delete(broken("a"))]), ["deleted a"]);
        assert_eq!(told([cache.delete(broken("a"))]), ["malformed a"]);
        assert!(cache.is_empty() && cache.malformed().is_empty());
    }
}
