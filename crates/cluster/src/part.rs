//! How every part runs: it sweeps over what it sees whenever something it watches has changed or is due.

use crate::Options;
use crate::cache::{Cache, Signal, Watched, key};
use crate::events::Events;
use crate::kind::{Caches, Kind};
use hostler_base::{Backoff, Chance, Clock};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use serde_json::Value;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Changes within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(10);
/// A conflict means that the caches are about to change; should they not, the part looks again after this.
const STALE: Duration = Duration::from_secs(1);
/// No more pods than this are made or removed for one owner in one sweep.
pub(crate) const BURST: usize = 500;
/// After so many at once a part rests: whoever asks for millions of pods must not keep the process from all else.
const REST: Duration = Duration::from_secs(1);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// What all parts share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) caches: Caches,
    pub(crate) events: Events,
    pub(crate) options: Options,
}

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Now, as objects carry it.
    pub(crate) fn time(&self) -> Time {
        Time(self.clock.now())
    }

    /// Where the object is, and its name there.
    fn place<K: Kind>(&self, object: &K) -> (Api<K>, String) {
        let (namespace, name) = key(object);
        (K::api(&self.client, &namespace), name)
    }

    pub(crate) async fn create<K: Kind>(&self, cache: &Cache<K>, object: &K) -> Result<Arc<K>, kube::Error> {
        let (api, _) = self.place(object);
        Ok(cache.write(api.create(&PostParams::default(), object).await?))
    }

    /// Writes the object as a whole; its resourceVersion must still be the current one.
    pub(crate) async fn replace<K: Kind>(&self, cache: &Cache<K>, object: &K) -> Result<Arc<K>, kube::Error> {
        let (api, name) = self.place(object);
        Ok(cache.write(api.replace(&name, &PostParams::default(), object).await?))
    }

    /// Writes the status; the object's resourceVersion must still be the current one.
    pub(crate) async fn replace_status<K: Kind>(
        &self,
        cache: &Cache<K>,
        object: &K,
    ) -> Result<Arc<K>, kube::Error> {
        let (api, name) = self.place(object);
        Ok(cache.write(api.replace_status(&name, &PostParams::default(), object).await?))
    }

    pub(crate) async fn merge<K: Kind>(
        &self,
        cache: &Cache<K>,
        object: &K,
        patch: &Value,
    ) -> Result<Arc<K>, kube::Error> {
        let (api, name) = self.place(object);
        Ok(cache.write(api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?))
    }

    pub(crate) async fn merge_status<K: Kind>(
        &self,
        cache: &Cache<K>,
        object: &K,
        patch: &Value,
    ) -> Result<Arc<K>, kube::Error> {
        let (api, name) = self.place(object);
        Ok(cache.write(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await?))
    }

    /// Deletes exactly this object, not a namesake that came after it. Gone already is as good.
    pub(crate) async fn delete<K: Kind>(
        &self,
        cache: &Cache<K>,
        object: &K,
        parameters: DeleteParams,
    ) -> Result<(), kube::Error> {
        let (api, name) = self.place(object);
        let same = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        match api.delete(&name, &parameters.preconditions(same)).await {
            Ok(answer) => match answer.left() {
                Some(rest) if rest.meta().deletion_timestamp.is_some() && is_held(&rest) => {
                    cache.write(rest);
                }
                _ => cache.bury(object),
            },
            Err(error) if is_not_found(&error) => cache.bury(object),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether an object that is being deleted still has something to wait for.
fn is_held<K: Kind>(object: &K) -> bool {
    let meta = object.meta();
    meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
        || meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0)
}

pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// What the server said, without the words of the client around it.
pub(crate) fn says(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Somebody else was faster; looking again is all there is to do.
fn is_stale(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

/// What came out of one sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    failures: u32,
    again: Option<Duration>,
    is_exhausting: bool,
}

impl Sweep {
    /// Passes the value on, and remembers a failure of what was done to an object; the sweep goes on with the next one.
    pub(crate) fn note_about<K: Resource, T>(
        &mut self,
        doing: &str,
        object: &K,
        result: Result<T, kube::Error>,
    ) -> Option<T> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""));
        let between = if namespace.is_empty() { "" } else { "/" };
        self.note(format_args!("{doing} ({namespace}{between}{name})"), result)
    }

    /// The same where `doing` says all.
    pub(crate) fn note<T>(&mut self, doing: impl Display, result: Result<T, kube::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if is_stale(&error) {
                    tracing::debug!(error = &error as &dyn std::error::Error, "{doing}: looking again");
                    self.due(STALE);
                } else {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "{doing} failed and is tried again"
                    );
                    self.failures += 1;
                }
                None
            }
        }
    }

    /// Tells how many pods were made or removed for one owner.
    pub(crate) fn burst(&mut self, pods: usize) {
        self.is_exhausting |= pods >= BURST;
    }

    /// Asks for another sweep after this time at the latest.
    pub(crate) fn due(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }

    /// Asks for another sweep at this time at the latest.
    pub(crate) fn due_at(&mut self, now: Timestamp, at: Timestamp) {
        self.due(Duration::try_from(at.duration_since(now)).unwrap_or_default());
    }
}

pub(crate) trait Part: Send + 'static {
    const NAME: &'static str;

    /// What wakes this part when it changes.
    fn wakes(caches: &Caches) -> Vec<&dyn Watched>;

    /// What else it reads.
    fn reads(_caches: &Caches) -> Vec<&dyn Watched> {
        Vec::new()
    }

    fn sweep(&mut self, context: &Context) -> impl Future<Output = Sweep> + Send;
}

/// Says what the part wants to see; must be done for all parts before the watches start.
pub(crate) fn register<P: Part>(caches: &Caches) -> Signal {
    let signal = Signal::default();
    for cache in P::wakes(caches) {
        cache.listen(&signal);
    }
    for cache in P::reads(caches) {
        cache.want();
    }
    signal
}

/// Runs a part for ever.
pub(crate) async fn drive<P: Part>(mut part: P, context: Arc<Context>, signal: Signal) -> &'static str {
    for cache in P::wakes(&context.caches).into_iter().chain(P::reads(&context.caches)) {
        cache.synced().await;
    }
    let chance = context.chance.split(P::NAME);
    let mut failed = 0_u32;
    loop {
        let mut sweep = part.sweep(&context).await;
        failed = if sweep.failures > 0 { failed.saturating_add(1) } else { 0 };
        if let Some(attempts) = failed.checked_sub(1) {
            sweep.due(BACKOFF.delay(attempts, &chance));
        }
        if sweep.is_exhausting {
            context.clock.sleep(REST).await;
        }
        let due = async {
            match sweep.again {
                Some(after) => context.clock.sleep(after.max(TOGETHER)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = signal.wait() => context.clock.sleep(TOGETHER).await,
            () = due => {}
        }
    }
}
