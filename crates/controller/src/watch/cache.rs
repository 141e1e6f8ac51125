use crate::Key;
use kube::Resource;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::sync::watch;

/// The objects of a kind as last seen, in the order of their names.
///
/// Whoever writes an object can put the server's answer in with [`Cache::learn`], so that its next look shows its own
/// write although the watch has not told of it yet.
///
/// An object that cannot be understood any more stays as it was last understood and is listed by
/// [`Cache::malformed`]: whoever concludes from an object's absence must look there too.
pub struct Cache<K>(Arc<Inner<K>>);

struct Inner<K> {
    objects: RwLock<Objects<K>>,
    synced: watch::Sender<bool>,
}

struct Objects<K> {
    understood: BTreeMap<Key, Entry<K>>,
    malformed: BTreeMap<Key, String>,
    /// The version up to which the watch has told everything.
    told_up_to: Option<u64>,
    index: Option<Index<K>>,
}

/// The understood objects by a word that each of them has.
struct Index<K> {
    word: fn(&K) -> String,
    /// In order. Nearly every word is one object's, so there is room for no more.
    keys: BTreeMap<String, Vec<Key>>,
}

impl<K> Index<K> {
    fn add(&mut self, key: &Key, object: &K) {
        let keys = self.keys.entry((self.word)(object)).or_insert_with(|| Vec::with_capacity(1));
        if let Err(place) = keys.binary_search(key) {
            keys.insert(place, key.clone());
        }
    }

    fn drop(&mut self, key: &Key, object: &K) {
        let word = (self.word)(object);
        if let Some(keys) = self.keys.get_mut(&word) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.keys.remove(&word);
            }
        }
    }
}

/// An object as it is known, and as the watch last told it; the two differ while the watch is behind an answer.
struct Entry<K> {
    known: Arc<K>,
    told: Option<Arc<K>>,
    /// It is known from the answer to a write of the one who works on it.
    own: bool,
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

/// A change, as the watch tells it.
pub(super) struct Told<K> {
    pub(super) change: Change<K>,
    /// Whoever works on the object wrote it so itself, or has written it since.
    pub(super) known: bool,
}

impl<K> From<Change<K>> for Told<K> {
    fn from(change: Change<K>) -> Self {
        Self { change, known: false }
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
        Self::of(None)
    }
}

impl<K> Cache<K> {
    /// One in which objects can be found by a word of theirs, with [`Cache::with_word`].
    pub fn indexed(word: fn(&K) -> String) -> Self {
        Self::of(Some(Index { word, keys: BTreeMap::new() }))
    }

    fn of(index: Option<Index<K>>) -> Self {
        let objects =
            Objects { understood: BTreeMap::new(), malformed: BTreeMap::new(), told_up_to: None, index };
        Self(Arc::new(Inner { objects: RwLock::new(objects), synced: watch::Sender::new(false) }))
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.understood.get(key).map(|entry| entry.known.clone()))
    }

    /// The object's key: a copy of the one it is kept under, if it is.
    pub fn key_of(&self, object: &K) -> Key {
        let key = Key::of(object);
        let kept = self.read(|objects| objects.understood.get_key_value(&key).map(|(kept, _)| kept.clone()));
        kept.unwrap_or(key)
    }

    /// The object in this very version, if that is how it is known.
    pub(super) fn of_version(&self, key: &Key, version: &str) -> Option<Arc<K>> {
        self.get(key).filter(|object| object.meta().resource_version.as_deref() == Some(version))
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.understood.values().map(|entry| entry.known.clone()).collect())
    }

    /// The objects for which `wanted` holds, ordered by namespace and name.
    pub fn filter(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read(|objects| {
            let known = objects.understood.values().map(|entry| &entry.known);
            known.filter(|object| wanted(object)).cloned().collect()
        })
    }

    /// The objects with this word, ordered by namespace and name; none in a cache without index.
    pub fn with_word(&self, word: &str) -> Vec<Arc<K>> {
        self.read(|objects| {
            let keys = objects.index.as_ref().and_then(|index| index.keys.get(word));
            let entries = keys.into_iter().flatten().filter_map(|key| objects.understood.get(key));
            entries.map(|entry| entry.known.clone()).collect()
        })
    }

    /// Whether `wanted` holds for an object.
    pub fn any(&self, wanted: impl Fn(&K) -> bool) -> bool {
        self.read(|objects| objects.understood.values().any(|entry| wanted(&entry.known)))
    }

    /// For how many objects `wanted` holds.
    pub fn count(&self, wanted: impl Fn(&K) -> bool) -> usize {
        self.read(|objects| objects.understood.values().filter(|entry| wanted(&entry.known)).count())
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

    /// Takes an object as the server has just answered it. It is passed over if the watch has told of that version, or
    /// of a later one, already: what became of the object since then is known.
    pub fn learn(&self, object: Arc<K>) {
        self.answered(object, false);
    }

    /// The same for the answer to a write of the one who works on the object, with the version before as precondition:
    /// it goes on with what it was answered, so there is nothing to be woken for when the watch tells of it.
    pub fn learn_own(&self, object: Arc<K>) {
        self.answered(object, true);
    }

    fn answered(&self, object: Arc<K>, own: bool) {
        let Some(version) = version(&*object) else { return };
        self.write(|objects| {
            if objects.told_up_to.is_none_or(|told| version <= told) {
                return;
            }
            let key = Key::of(&*object);
            match objects.understood.get(&key) {
                Some(entry) if !is_newer(&object, &entry.known) => {}
                before => {
                    let told = before.and_then(|entry| entry.told.clone());
                    objects.insert(key, Entry { known: object, told, own });
                }
            }
        });
    }

    /// Takes over a complete list as of a version. What is missing in it was deleted while nobody looked, unless it
    /// was learnt of later than that. Where the versions themselves have gone back, as with a server that was set up
    /// again from a backup, what was learnt is worth nothing.
    pub(super) fn replace(&self, all: Vec<Seen<K>>, as_of: Option<&str>) -> Vec<Told<K>> {
        let as_of = as_of.and_then(|version| version.parse().ok());
        let changes = self.write(|objects| {
            let mut before = objects.take();
            objects.malformed.clear();
            let went_back = as_of < objects.told_up_to;
            objects.told_up_to = as_of;
            let mut changes = Vec::new();
            for (key, object) in all {
                let old = before.remove(&key).filter(|entry| entry.is_told() || !went_back);
                changes.extend(objects.put(key, object, old));
            }
            for (key, entry) in before {
                let learnt_later = version(&*entry.known).is_some_and(|version| Some(version) > as_of);
                if learnt_later && !went_back && as_of.is_some() && !entry.is_told() {
                    changes.extend(entry.told.map(|last| Change::Deleted { last }.into()));
                    objects.insert(key, Entry { known: entry.known, told: None, own: entry.own });
                } else {
                    changes.push(Change::Deleted { last: entry.known }.into());
                }
            }
            changes
        });
        self.0.synced.send_replace(true);
        changes
    }

    pub(super) fn apply(&self, (key, object): Seen<K>) -> Option<Told<K>> {
        self.write(|objects| {
            let old = objects.remove(&key);
            objects.malformed.remove(&key);
            objects.told(object.as_ref().ok().and_then(|object| version(&**object)));
            objects.put(key, object, old)
        })
    }

    pub(super) fn delete(&self, (key, object): Seen<K>) -> Told<K> {
        let old = self.write(|objects| {
            objects.malformed.remove(&key);
            let gone = object.as_ref().ok();
            objects.told(gone.and_then(|object| version(&**object)));
            let old = objects.remove(&key)?;
            // Another one with its name may have been learnt of already.
            let successor = gone
                .is_some_and(|gone| gone.meta().uid != old.known.meta().uid && is_newer(&old.known, gone));
            if successor {
                objects.insert(key.clone(), Entry { known: old.known, told: None, own: old.own });
                return old.told;
            }
            Some(old.known)
        });
        match object.ok().or(old) {
            Some(last) => Change::Deleted { last }.into(),
            None => Change::Malformed { key }.into(),
        }
    }

    /// The watch has told everything up to this version, without a change of an object.
    pub(super) fn told_up_to(&self, version: &str) {
        self.write(|objects| objects.told(version.parse().ok()));
    }
}

impl<K> Entry<K> {
    fn is_told(&self) -> bool {
        self.told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &self.known))
    }
}

impl<K> Objects<K> {
    fn insert(&mut self, key: Key, entry: Entry<K>) {
        self.remove(&key);
        if let Some(index) = &mut self.index {
            index.add(&key, &entry.known);
        }
        self.understood.insert(key, entry);
    }

    fn remove(&mut self, key: &Key) -> Option<Entry<K>> {
        let entry = self.understood.remove(key)?;
        if let Some(index) = &mut self.index {
            index.drop(key, &entry.known);
        }
        Some(entry)
    }

    fn take(&mut self) -> BTreeMap<Key, Entry<K>> {
        if let Some(index) = &mut self.index {
            index.keys.clear();
        }
        std::mem::take(&mut self.understood)
    }
}

impl<K: Resource<DynamicType = ()>> Objects<K> {
    fn told(&mut self, version: Option<u64>) {
        self.told_up_to = self.told_up_to.max(version);
    }

    fn put(&mut self, key: Key, object: Result<Arc<K>, String>, old: Option<Entry<K>>) -> Option<Told<K>> {
        match object {
            Ok(new) => {
                let version = |object: &K| object.meta().resource_version.clone();
                let learnt = old.as_ref().filter(|entry| {
                    let is_same = || version(&entry.known) == version(&new);
                    !entry.is_told() && (is_newer(&entry.known, &new) || is_same())
                });
                let was_known = learnt.is_some_and(|entry| entry.own);
                let known =
                    learnt.filter(|entry| is_newer(&entry.known, &new)).map_or(&new, |entry| &entry.known);
                let (known, own) = (Arc::clone(known), was_known);
                let told = old.and_then(|entry| entry.told);
                self.insert(key, Entry { known, told: Some(new.clone()), own });
                let unchanged = told.as_ref().is_some_and(|told| version(told) == version(&new));
                let change = Change::Applied { old: told, new };
                (!unchanged).then_some(Told { change, known: was_known })
            }
            Err(why) => {
                if let Some(old) = old {
                    self.insert(key.clone(), old);
                }
                self.malformed.insert(key.clone(), why);
                Some(Change::Malformed { key }.into())
            }
        }
    }
}

/// Versions are numbers that grow with every write, of whatever object.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

fn is_newer<K: Resource>(one: &Arc<K>, other: &Arc<K>) -> bool {
    matches!((version(&**one), version(&**other)), (Some(one), Some(other)) if one > other)
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

    fn told(changes: impl IntoIterator<Item = Told<ConfigMap>>) -> Vec<String> {
        let word = |change: &Change<ConfigMap>| match change {
            Change::Applied { old: None, .. } => "new",
            Change::Applied { .. } => "changed",
            Change::Deleted { .. } => "deleted",
            Change::Malformed { .. } => "malformed",
        };
        let known = |told: &Told<ConfigMap>| if told.known { ", as known" } else { "" };
        let text = |told: Told<ConfigMap>| {
            format!("{} {}{}", word(&told.change), told.change.key().name, known(&told))
        };
        changes.into_iter().map(text).collect()
    }

    #[test]
    fn a_list_tells_what_changed_while_nobody_looked() {
        let cache = Cache::default();
        assert!(!cache.is_synced());
        assert_eq!(
            told(cache.replace(vec![seen("b", "1"), seen("a", "1"), seen("c", "1")], Some("1"))),
            ["new b", "new a", "new c"]
        );
        assert!(cache.is_synced());
        let changes = cache.replace(vec![seen("b", "2"), seen("c", "1"), seen("d", "3")], Some("3"));
        assert_eq!(told(changes), ["changed b", "new d", "deleted a"]);
        let names: Vec<_> = cache.list().iter().map(|object| object.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }

    #[test]
    fn objects_are_found_by_their_word_however_they_came_and_went() {
        let cache = Cache::indexed(|map: &ConfigMap| {
            map.metadata.labels.as_ref().and_then(|labels| labels.get("word").cloned()).unwrap_or_default()
        });
        let labelled = |name: &str, version: &str, word: &str| {
            let (key, object) = seen(name, version);
            let mut object = ConfigMap::clone(&object.unwrap());
            object.metadata.labels = Some([("word".to_owned(), word.to_owned())].into());
            (key, Ok(Arc::new(object)))
        };
        let names = |word: &str| -> Vec<String> {
            cache.with_word(word).iter().map(|object| object.metadata.name.clone().unwrap()).collect()
        };
        cache.replace(
            vec![labelled("b", "1", "x"), labelled("a", "1", "x"), labelled("c", "1", "y")],
            Some("1"),
        );
        assert_eq!(
            (names("x"), names("y"), names("z")),
            (vec!["a".into(), "b".into()], vec!["c".into()], vec![])
        );
        cache.apply(labelled("a", "2", "y"));
        cache.learn(labelled("b", "3", "z").1.unwrap());
        assert_eq!(
            (names("x"), names("y"), names("z")),
            (vec![], vec!["a".into(), "c".into()], vec!["b".into()])
        );
        cache.apply(broken("c"));
        cache.delete(labelled("a", "4", "y"));
        assert_eq!(names("y"), ["c"], "it is known as it was");
        cache.replace(vec![labelled("d", "9", "x")], Some("9"));
        assert_eq!((names("x"), names("y"), names("z")), (vec!["d".into()], vec![], vec![]));
        assert_eq!(
            (cache.count(|_| true), cache.any(|map| map.metadata.name.as_deref() == Some("a"))),
            (1, false)
        );
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
        cache.replace(vec![seen("a", "1")], None);
        assert_eq!(told(cache.apply(broken("a"))), ["malformed a"]);
        assert_eq!(told(cache.apply(broken("x"))), ["malformed x"]);
        assert_eq!((cache.len(), cache.malformed().len()), (1, 2));
        assert_eq!(told(cache.replace(vec![broken("a")], None)), ["malformed a"]);
        assert_eq!(cache.malformed(), [(Key::new("ConfigMap", "n", "a"), "data: not a map".to_owned())]);
        assert_eq!(told(cache.apply(seen("a", "4"))), ["changed a"]);
        assert!(cache.malformed().is_empty());
        assert_eq!(told([cache.delete(broken("a"))]), ["deleted a"]);
        assert_eq!(told([cache.delete(broken("a"))]), ["malformed a"]);
        assert!(cache.is_empty() && cache.malformed().is_empty());
    }

    fn versions(cache: &Cache<ConfigMap>) -> Vec<String> {
        let text = |object: &Arc<ConfigMap>| {
            let meta = object.metadata.clone();
            format!("{}@{}", meta.name.unwrap(), meta.resource_version.unwrap())
        };
        cache.list().iter().map(text).collect()
    }

    fn learn(cache: &Cache<ConfigMap>, name: &str, version: &str) {
        cache.learn(seen(name, version).1.unwrap());
    }

    #[test]
    fn an_answer_is_seen_at_once_and_told_when_the_watch_tells_it() {
        let cache = Cache::default();
        learn(&cache, "a", "2");
        assert!(cache.is_empty(), "before the first list nothing is known");
        cache.replace(vec![seen("a", "3"), seen("b", "1")], Some("5"));
        learn(&cache, "a", "7");
        learn(&cache, "c", "8");
        assert_eq!(versions(&cache), ["a@7", "b@1", "c@8"]);
        assert_eq!(told(cache.apply(seen("a", "6"))), ["changed a"]);
        assert_eq!(versions(&cache), ["a@7", "b@1", "c@8"], "the watch is behind");
        assert_eq!(told(cache.apply(seen("a", "7"))), ["changed a"]);
        assert_eq!(told(cache.apply(seen("c", "8"))), ["new c"]);
        assert_eq!(told(cache.apply(seen("c", "9"))), ["changed c"]);
        assert_eq!(versions(&cache), ["a@7", "b@1", "c@9"]);
    }

    #[test]
    fn only_what_was_written_by_the_one_who_works_on_it_is_known_to_it() {
        let cache = Cache::default();
        cache.replace(vec![seen("a", "3"), seen("b", "3")], Some("5"));
        let own = |name: &str, version: &str| cache.learn_own(seen(name, version).1.unwrap());
        own("a", "7");
        own("a", "8");
        assert_eq!(told(cache.apply(seen("a", "7"))), ["changed a, as known"]);
        assert_eq!(told(cache.apply(seen("a", "8"))), ["changed a, as known"]);
        assert_eq!(told(cache.apply(seen("a", "9"))), ["changed a"], "somebody else's");
        own("b", "10");
        learn(&cache, "b", "11");
        assert_eq!(told(cache.apply(seen("b", "10"))), ["changed b"], "once more is better than never");
        assert_eq!(told(cache.apply(seen("b", "11"))), ["changed b"]);
        own("a", "14");
        assert_eq!(told(cache.apply(seen("a", "12"))), ["changed a, as known"], "seen before it was written");
        assert_eq!(told(cache.apply(seen("a", "15"))), ["changed a"]);
    }

    #[test]
    fn an_answer_that_the_watch_has_overtaken_is_no_news() {
        let cache = Cache::default();
        cache.replace(vec![seen("a", "3")], Some("5"));
        cache.apply(seen("b", "6"));
        cache.delete(seen("b", "7"));
        learn(&cache, "b", "6");
        assert_eq!(versions(&cache), ["a@3"], "it was deleted since");
        cache.told_up_to("9");
        learn(&cache, "c", "9");
        assert_eq!(versions(&cache), ["a@3"]);
        cache.apply(seen("a", "12"));
        learn(&cache, "a", "11");
        assert_eq!(versions(&cache), ["a@12"]);
    }

    #[test]
    fn a_list_forgets_only_what_it_could_have_shown() {
        let cache = Cache::default();
        cache.replace(vec![seen("a", "3"), seen("b", "4")], Some("5"));
        learn(&cache, "a", "8");
        learn(&cache, "c", "9");
        assert_eq!(told(cache.replace(vec![seen("a", "3")], Some("6"))), ["deleted b"]);
        assert_eq!(versions(&cache), ["a@8", "c@9"]);
        assert_eq!(told(cache.replace(vec![], Some("20"))), ["deleted a", "deleted c"]);
        assert!(cache.is_empty());
    }

    #[test]
    fn a_list_of_a_server_whose_versions_went_back_is_all_there_is() {
        let cache = Cache::default();
        cache.replace(vec![seen("a", "90"), seen("b", "91"), seen("c", "92")], Some("95"));
        for name in ["a", "b", "d"] {
            cache.learn_own(seen(name, "101").1.unwrap());
        }
        let changes = cache.replace(vec![seen("a", "40"), seen("c", "41")], Some("50"));
        assert_eq!(told(changes), ["new a", "changed c", "deleted b", "deleted d"]);
        assert_eq!(versions(&cache), ["a@40", "c@41"]);
        assert_eq!(told(cache.apply(seen("a", "60"))), ["changed a"]);
        assert_eq!(versions(&cache), ["a@60", "c@41"]);
    }

    #[test]
    fn a_successor_outlives_the_news_of_its_predecessors_end() {
        let object = |version: &str, uid: &str| {
            let (key, object) = seen("a", version);
            let mut object = ConfigMap::clone(&object.unwrap());
            object.metadata.uid = Some(uid.into());
            (key, Ok(Arc::new(object)))
        };
        let cache = Cache::default();
        cache.replace(vec![object("3", "first")], Some("5"));
        cache.learn(object("8", "second").1.unwrap());
        assert_eq!(told([cache.delete(object("7", "first"))]), ["deleted a"]);
        assert_eq!(versions(&cache), ["a@8"]);
        assert_eq!(told(cache.apply(object("8", "second"))), ["new a"]);
    }
}
