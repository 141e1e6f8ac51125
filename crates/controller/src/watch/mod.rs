//! Watching objects: a list, then a watch from there on, into a [`Cache`] and to whoever wants to be woken.
//!
//! kube's `watcher` and `reflector` are not used. Four things are needed that they do not give: bookmarks as a
//! sign of life (they are swallowed), objects that vanished between two lists (they are not reported), a pause
//! when a server closes every watch at once (there is none), and a store in a fixed order.

mod cache;
mod events;
mod guard;

pub use cache::{Cache, Change};

use crate::{
    Key, Queue,
    metrics::{Metrics, Reflected},
};
use cache::{Seen, Told};
use events::Event;
use futures::{StreamExt, stream::BoxStream};
use guard::Guarded;
use hostler_base::{Backoff, Chance, Clock};
use kube::{
    Client, Resource,
    api::{ListParams, ObjectList, ObjectMeta, WatchParams},
    core::{NamespaceResourceScope, Request, Status},
};
use serde::de::DeserializeOwned;
use std::{
    borrow::Cow,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long after its own time-out a server is given to close a watch before the connection counts as dead.
const GRACE: Duration = Duration::from_secs(5);

/// A watch that ends sooner than this without having told anything is not begun again at once.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// What to watch and how.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// How long one watch lasts. Also how soon a silently dead connection is noticed.
    pub timeout: Duration,
    /// Objects per page of a list.
    pub page_size: u32,
    /// The delay after failures in a row.
    pub backoff: Backoff,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            timeout: Duration::from_secs(30),
            page_size: 500,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30)),
        }
    }
}

/// The objects of a kind, followed as they change.
pub struct Watch<K> {
    client: Client,
    /// Where the objects are.
    path: String,
    options: WatchOptions,
    cache: Cache<K>,
    handlers: Vec<Handler<K>>,
    /// Whose changed objects are woken.
    woken: Vec<Queue>,
    vitals: Vitals,
    clock: Clock,
    chance: Chance,
    metrics: Metrics,
    reflected: Option<Reflected>,
    /// Takes out of an object what nobody asks for.
    trim: fn(&mut K),
}

type Events = BoxStream<'static, Result<Event, kube::Error>>;
type Handler<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Whether a watch is alive, for [`crate::Health`].
#[derive(Clone)]
pub struct Vitals(Arc<VitalsInner>);

struct VitalsInner {
    kind: Cow<'static, str>,
    timeout: Duration,
    clock: Clock,
    last_sign: Mutex<(bool, Instant)>,
}

impl Vitals {
    fn new(kind: Cow<'static, str>, timeout: Duration, clock: Clock) -> Self {
        let last_sign = Mutex::new((false, clock.instant()));
        Self(Arc::new(VitalsInner { kind, timeout, clock, last_sign }))
    }

    fn sign(&self) {
        *self.0.last_sign.lock().unwrap_or_else(PoisonError::into_inner) = (true, self.0.clock.instant());
    }

    /// What is wrong with the watch, in words.
    pub fn problem(&self) -> Option<String> {
        let (synced, last) = *self.0.last_sign.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = self.0.clock.instant().saturating_duration_since(last);
        if !synced {
            Some(format!("{}: the first list has not arrived", self.0.kind))
        } else if silent > self.0.timeout * 2 {
            Some(format!("{}: neither event nor bookmark for {} s", self.0.kind, silent.as_secs()))
        } else {
            None
        }
    }
}

/// Why a list or watch ended.
enum End {
    /// The list is there, a watch can begin. Only that shows whether the list's version is of use.
    Listed,
    /// The server closed it in good order, or it was silent for too long.
    Over {
        progress: bool,
    },
    /// It was over after its time and has told nothing at all, not even how far it is.
    Silent,
    /// What we know is too old to go on from.
    Gone,
    Failed(kube::Error),
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches all objects of the kind, in whatever namespace they are.
    pub fn all(
        client: Client,
        options: WatchOptions,
        clock: Clock,
        chance: &Chance,
        metrics: Metrics,
    ) -> Self {
        Self::new(client, None, options, clock, chance, metrics)
    }

    /// Watches objects in one namespace.
    pub fn namespaced(
        client: Client,
        namespace: &str,
        options: WatchOptions,
        clock: Clock,
        chance: &Chance,
        metrics: Metrics,
    ) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::new(client, Some(namespace), options, clock, chance, metrics)
    }

    fn new(
        client: Client,
        namespace: Option<&str>,
        options: WatchOptions,
        clock: Clock,
        chance: &Chance,
        metrics: Metrics,
    ) -> Self {
        let path = K::url_path(&(), namespace);
        let kind = K::kind(&()).into_owned();
        let chance = chance.split(&kind);
        let reflected = metrics.reflected(&kind);
        let vitals = Vitals::new(Cow::Owned(kind), options.timeout, clock.clone());
        let cache = Cache::default();
        Self {
            client,
            path,
            options,
            cache,
            handlers: Vec::new(),
            woken: Vec::new(),
            vitals,
            clock,
            chance,
            metrics,
            reflected,
            trim: |_| {},
        }
    }

    /// Keeps objects without what `trim` takes out of them.
    pub fn trimmed(mut self, trim: fn(&mut K)) -> Self {
        self.trim = trim;
        self
    }

    /// Lets objects be found by a word of theirs, with [`Cache::with_word`]. To be said before anybody has the cache.
    pub fn indexed(mut self, word: fn(&K) -> String) -> Self {
        self.cache = Cache::indexed(word);
        self
    }

    /// Takes the object out of its guard.
    fn seen(&self, Guarded(object): Guarded<K>) -> Seen<K> {
        match object {
            Ok(mut object) => {
                (self.trim)(&mut object);
                (Key::of(&object), Ok(Arc::new(object)))
            }
            Err(other) => {
                let ObjectMeta { namespace, name, .. } = other.metadata;
                (Key::named(K::kind(&()), namespace.as_deref(), name.as_deref()), Err(other.why))
            }
        }
    }

    pub fn cache(&self) -> Cache<K> {
        self.cache.clone()
    }

    pub fn vitals(&self) -> Vitals {
        self.vitals.clone()
    }

    /// Calls `handler` for every change, after the cache has it. It must not block.
    pub fn on_change(mut self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// Wakes the changed objects themselves, but for changes that came in by [`Cache::learn_own`].
    pub fn wakes(mut self, queue: &Queue) -> Self {
        self.woken.push(queue.clone());
        self
    }

    /// Wakes other keys that a change concerns.
    pub fn wakes_others<I>(
        self,
        queue: &Queue,
        whom: impl Fn(&Change<K>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item = Key>,
    {
        let queue = queue.clone();
        self.on_change(move |change| whom(change).into_iter().for_each(|key| queue.wake(key)))
    }

    /// Follows the objects for ever; dropping the future ends it.
    pub async fn run(self) {
        let mut version = None;
        let mut failures = 0;
        let mut reason = "start";
        loop {
            self.metrics.watch_started(self.kind(), reason);
            let end = match version.clone() {
                None => self.list(&mut version).await,
                Some(from) => self.watch(from, &mut version).await,
            };
            let mut at_least = Duration::ZERO;
            reason = match end {
                End::Listed => "listed",
                End::Over { progress: true } => {
                    failures = 0;
                    "over"
                }
                End::Over { progress: false } => "short",
                End::Silent if self.has_gone_back(version.as_deref()).await => {
                    version = None;
                    failures = 0;
                    "gone"
                }
                End::Silent => {
                    failures = 0;
                    "over"
                }
                End::Gone => {
                    version = None;
                    "gone"
                }
                End::Failed(error) => {
                    tracing::warn!(kind = self.kind(), error = %error, failures, "watch failed");
                    at_least = retry_after(&error);
                    "error"
                }
            };
            if !matches!(reason, "listed" | "over") {
                // The first time a version is too old is no fault: list again at once.
                if reason != "gone" || failures > 0 {
                    let delay = self.options.backoff.delay(failures, &self.chance);
                    self.clock.sleep(delay.max(at_least)).await;
                }
                failures = failures.saturating_add(1);
            }
        }
    }

    fn kind(&self) -> &str {
        &self.vitals.0.kind
    }

    async fn list(&self, version: &mut Option<String>) -> End {
        let mut params = ListParams {
            label_selector: self.options.labels.clone(),
            field_selector: self.options.fields.clone(),
            limit: Some(self.options.page_size),
            ..ListParams::default()
        };
        let mut all = Vec::new();
        let start = self.clock.instant();
        loop {
            let page = match self.page(&params).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if is_gone(&status) => return End::Gone,
                Err(error) => return End::Failed(error),
            };
            all.extend(page.items.into_iter().map(|object| self.seen(object)));
            let more = page.metadata.continue_.filter(|token| !token.is_empty());
            if more.is_none() {
                *version = page.metadata.resource_version.filter(|version| !version.is_empty());
                break;
            }
            params.continue_token = more;
        }
        self.vitals.sign();
        if let Some(reflected) = &self.reflected {
            reflected.lists.inc();
            reflected.list_duration.observe(self.since(start).as_secs_f64());
            reflected.items_per_list.observe(number(all.len()));
            reflected.saw_version(version.as_deref().unwrap_or_default());
        }
        let changes = self.cache.replace(all, version.as_deref());
        self.tell(changes);
        if version.is_some() { End::Listed } else { End::Over { progress: false } }
    }

    /// Whether what the server has now is older than what it has told already, as with one that was set up again from a
    /// backup. Until its versions have come as far again a watch from there would tell nothing.
    async fn has_gone_back(&self, told: Option<&str>) -> bool {
        let params = ListParams { limit: Some(1), ..ListParams::default() };
        let Ok(page) = self.page(&params).await else { return false };
        let number = |version: &str| version.parse::<u64>().ok();
        let now = page.metadata.resource_version.as_deref().and_then(number);
        now.zip(told.and_then(number)).is_some_and(|(now, told)| now < told)
    }

    async fn page(&self, params: &ListParams) -> Result<ObjectList<Guarded<K>>, kube::Error> {
        let request = Request::new(&self.path).list(params).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    async fn events(&self, params: &WatchParams, from: &str) -> Result<Events, kube::Error> {
        let request = Request::new(&self.path).watch(params, from).map_err(kube::Error::BuildRequest)?;
        Ok(events::events(&self.client, request).await?.boxed())
    }

    async fn watch(&self, from: String, version: &mut Option<String>) -> End {
        let (start, mut told) = (self.clock.instant(), 0);
        if let Some(reflected) = &self.reflected {
            reflected.watches.inc();
        }
        let end = self.follow(from, version, &mut told).await;
        if let Some(reflected) = &self.reflected {
            let lived = self.since(start);
            reflected.short_watches.inc_by(u64::from(told == 0 && lived < SHORT_LIFE));
            reflected.watch_duration.observe(lived.as_secs_f64());
            reflected.items_per_watch.observe(number(told));
        }
        end
    }

    fn since(&self, start: Instant) -> Duration {
        self.clock.instant().saturating_duration_since(start)
    }

    /// Counts in `told` what it is told.
    async fn follow(&self, from: String, version: &mut Option<String>, told: &mut usize) -> End {
        let params = WatchParams {
            label_selector: self.options.labels.clone(),
            field_selector: self.options.fields.clone(),
            timeout: Some(u32::try_from(self.options.timeout.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            send_initial_events: false,
        };
        let (start, mut silent) = (self.clock.instant(), true);
        let mut stream = match self.events(&params, &from).await {
            Ok(stream) => stream,
            Err(kube::Error::Api(status)) if is_gone(&status) => return End::Gone,
            Err(error) => return End::Failed(error),
        };
        loop {
            let next = tokio::time::timeout(self.options.timeout + GRACE, stream.next()).await;
            let (change, seen_version) = match next {
                Err(_) if silent => return End::Silent,
                Err(_) => return End::Over { progress: true },
                Ok(None) => break,
                Ok(Some(Err(error))) => return End::Failed(error),
                Ok(Some(Ok(Event::Refused(status)))) if is_gone(&status) => return End::Gone,
                Ok(Some(Ok(Event::Refused(status)))) => return End::Failed(kube::Error::Api(status)),
                Ok(Some(Ok(Event::Bookmark(version)))) => (None, Some(version)),
                Ok(Some(Ok(Event::Applied(object)))) => {
                    *told += 1;
                    let known =
                        object.key_and_version(self.vitals.0.kind.clone()).and_then(|(key, version)| {
                            let known = self.cache.of_version(&key, version)?;
                            Some(((key, Ok(known)), version.to_owned()))
                        });
                    let (object, seen_version) = match known {
                        Some((known, version)) => (known, Some(version)),
                        None => match object.read() {
                            Ok(object) => {
                                let version = version_of(&object);
                                (self.seen(object), version)
                            }
                            Err(error) => return End::Failed(error),
                        },
                    };
                    (self.cache.apply(object), seen_version)
                }
                Ok(Some(Ok(Event::Deleted(object)))) => {
                    *told += 1;
                    let object = match object.read() {
                        Ok(object) => object,
                        Err(error) => return End::Failed(error),
                    };
                    let seen_version = version_of(&object);
                    (Some(self.cache.delete(self.seen(object))), seen_version)
                }
            };
            silent = false;
            self.vitals.sign();
            if let Some(seen_version) = seen_version.filter(|version| !version.is_empty()) {
                self.cache.told_up_to(&seen_version);
                if let Some(reflected) = &self.reflected {
                    reflected.saw_version(&seen_version);
                }
                *version = Some(seen_version);
            }
            self.tell(change);
        }
        let short = self.since(start) < SHORT_LIFE;
        if silent && !short {
            return End::Silent;
        }
        End::Over { progress: !short || version.as_ref() != Some(&from) }
    }

    fn tell(&self, changes: impl IntoIterator<Item = Told<K>>) {
        for Told { change, known } in changes {
            if let Change::Malformed { key } = &change {
                tracing::error!(%key, "a change of an object cannot be understood");
            }
            for handler in &self.handlers {
                handler(&change);
            }
            if !known {
                self.woken.iter().for_each(|queue| queue.wake(change.key()));
            }
        }
        self.metrics.malformed(self.kind(), self.cache.malformed().len());
    }
}

/// So many, as something that can be measured.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn version_of<K: Resource>(Guarded(object): &Guarded<K>) -> Option<String> {
    let metadata = object.as_ref().map_or_else(|other| &other.metadata, K::meta);
    metadata.resource_version.clone()
}

/// Whether the server cannot go on from the version that it was given: it has forgotten it, or never had it.
fn is_gone(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 410 || causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// How long the server asks us to stay away.
fn retry_after(error: &kube::Error) -> Duration {
    let kube::Error::Api(status) = error else { return Duration::ZERO };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_that_a_server_has_forgotten_or_never_had_are_gone() {
        let status = |code: u16, cause: &str| -> Status {
            serde_json::from_value(json!({"status": "Failure", "code": code,
                "details": {"causes": [{"reason": cause, "message": "m"}]}}))
            .unwrap()
        };
        assert!(is_gone(&status(410, "")) && is_gone(&status(504, "ResourceVersionTooLarge")));
        assert!(!is_gone(&status(504, "")) && !is_gone(&status(500, "other")));
    }
}
