//! Keeps one thing in the tiny cloud per ConfigMap: once right, and six times wrong.

use super::cloud::{NAME, Thing};
use futures::{StreamExt, TryStreamExt};
use hostler_base::{Body, BoxError, Clock, Transport, transport};
use hostler_sim::{Context, incarnation::kube_client};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::PostParams,
    runtime::watcher::{self, Event, watcher},
};
use std::{collections::BTreeMap, pin::pin, time::Duration};

pub(crate) const ACTOR: &str = "tiny";
pub(crate) const FINALIZER: &str = "tiny.example.com/thing";
/// When the last create was attempted: written before the call.
pub(crate) const ATTEMPT: &str = "tiny.example.com/attempt";
/// The id of the thing: written when it is known.
pub(crate) const THING: &str = "tiny.example.com/thing";

/// How long a call may take before the controller gives up on it.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// So long after the intent was written a create may still be sent.
const ATTEMPT_LIMIT: SignedDuration = SignedDuration::from_secs(15);
/// After this time an attempted create is in every list, or will never be there: the limit above, the
/// longest way of a request, the longest lag of a list.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(60);
const RESYNC: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Correct,
    DoesNotFindFirst,
    TrustsTheFilter,
    StatusBeforeEffect,
    IntentOnlyInMemory,
    DeletesWithoutIdentity,
    Ignores409,
}

pub(crate) async fn run(context: Context, variant: Variant) {
    let client = kube_client(impatient(context.transport("kubernetes")));
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    let mut controller = Controller {
        variant,
        configs: configs.clone(),
        cloud: impatient(context.transport(NAME)),
        clock: context.clock.clone(),
        memory: BTreeMap::new(),
        known: BTreeMap::new(),
    };
    // Without pages, since kube asks for any state only then.
    let any = watcher::Config { page_size: None, ..watcher::Config::default().any_semantic().timeout(30) };
    let events = watcher(configs, any).then(|event| async {
        if event.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        event
    });
    let mut events = pin!(events);
    let mut ticks = tokio::time::interval(RESYNC);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = context.shutdown.cancelled() => return,
            event = events.try_next() => match event {
                Ok(Some(event)) => controller.learn(event),
                Ok(None) => return,
                Err(_) => {}
            },
            _ = ticks.tick() => {}
        }
        controller.reconcile_all().await;
    }
}

/// Gives up on calls that are not answered. A watch's body may last as long as it likes.
fn impatient(inner: Transport) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let answer = transport::send(&inner, request);
        async move { tokio::time::timeout(CALL_TIMEOUT, answer).await.unwrap_or_else(|late| Err(late.into())) }
    }))
}

fn version(config: &ConfigMap) -> Option<u64> {
    config.resource_version()?.parse().ok()
}

#[derive(Debug)]
enum Failure {
    Conflict,
    Other,
}

struct Controller {
    variant: Variant,
    configs: Api<ConfigMap>,
    cloud: Transport,
    clock: Clock,
    /// Where one of the wrong ones keeps its intent.
    memory: BTreeMap<String, Timestamp>,
    known: BTreeMap<String, ConfigMap>,
}

impl Controller {
    fn learn(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Init => self.known.clear(),
            Event::Apply(config) | Event::InitApply(config) => {
                // What came back from a write is newer than the events that led there.
                let known = self.known.get(&config.name_any());
                if known.is_none_or(|known| version(known) < version(&config)) {
                    self.known.insert(config.name_any(), config);
                }
            }
            Event::Delete(config) => {
                self.known.remove(&config.name_any());
            }
            Event::InitDone => {}
        }
    }

    async fn reconcile_all(&mut self) {
        let configs: Vec<ConfigMap> = self.known.values().cloned().collect();
        for config in configs {
            // A failure is tried again at the next event or tick.
            let _ = self.reconcile(config).await;
        }
    }

    async fn reconcile(&mut self, config: ConfigMap) -> Result<(), Failure> {
        if config.metadata.deletion_timestamp.is_some() {
            return self.remove(config).await;
        }
        let Some(id) = config.annotations().get(THING) else {
            return self.provide(config).await;
        };
        if self.variant == Variant::StatusBeforeEffect || self.read(id).await?.is_some() {
            return Ok(());
        }
        let mut lost = config.clone();
        lost.annotations_mut().remove(THING);
        lost.annotations_mut().remove(ATTEMPT);
        self.write(lost).await.map(drop)
    }

    async fn provide(&mut self, config: ConfigMap) -> Result<(), Failure> {
        if let Some(attempt) = self.attempt(&config)
            && self.variant != Variant::DoesNotFindFirst
        {
            if let Some(thing) = self.find(&config).await? {
                return self.record(config, &thing.id).await;
            }
            // What a list does not show may still be on its way.
            if self.clock.now() < attempt + QUARANTINE {
                return Ok(());
            }
        }
        let now = self.clock.now();
        let mut intent = config;
        if !intent.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            intent.finalizers_mut().push(FINALIZER.to_owned());
        }
        match self.variant {
            Variant::IntentOnlyInMemory => {
                self.memory.insert(intent.uid().unwrap_or_default(), now);
            }
            Variant::StatusBeforeEffect => {
                let name = intent.name_any();
                intent.annotations_mut().insert(THING.to_owned(), name);
            }
            _ => {
                intent.annotations_mut().insert(ATTEMPT.to_owned(), now.to_string());
            }
        }
        let config = self.write(intent).await?;
        if self.variant != Variant::DoesNotFindFirst
            && let Some(thing) = self.find(&config).await?
        {
            return self.record(config, &thing.id).await;
        }
        if self.clock.now() > now + ATTEMPT_LIMIT {
            return Ok(());
        }
        let thing =
            Thing { id: String::new(), name: config.name_any(), owner: config.uid().unwrap_or_default() };
        let body = serde_json::to_vec(&thing).map_err(|_| Failure::Other)?;
        let (status, body) = self.call(Method::POST, "/v1/things", body).await?;
        if status != StatusCode::CREATED {
            return Err(Failure::Other);
        }
        let made: Thing = serde_json::from_slice(&body).map_err(|_| Failure::Other)?;
        self.record(config, &made.id).await
    }

    async fn remove(&mut self, config: ConfigMap) -> Result<(), Failure> {
        if !config.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        if self.variant == Variant::DeletesWithoutIdentity {
            let named = |thing: &Thing| thing.name == config.name_any();
            for thing in self.list("").await?.into_iter().filter(named) {
                self.delete(&thing.id).await?;
            }
        } else if let Some(id) = config.annotations().get(THING) {
            let own = |thing: &Thing| Some(&thing.owner) == config.metadata.uid.as_ref();
            if self.read(id).await?.as_ref().is_some_and(own) {
                self.delete(id).await?;
                if self.read(id).await?.is_some() {
                    return Ok(());
                }
            }
        } else if let Some(attempt) = self.attempt(&config) {
            if let Some(thing) = self.find(&config).await? {
                return self.delete(&thing.id).await;
            }
            if self.clock.now() < attempt + QUARANTINE {
                return Ok(());
            }
        }
        let mut released = config;
        released.finalizers_mut().retain(|finalizer| finalizer != FINALIZER);
        self.write(released).await.map(drop)
    }

    fn attempt(&self, config: &ConfigMap) -> Option<Timestamp> {
        if self.variant == Variant::IntentOnlyInMemory {
            return self.memory.get(&config.uid().unwrap_or_default()).copied();
        }
        config.annotations().get(ATTEMPT)?.parse().ok()
    }

    async fn record(&mut self, mut config: ConfigMap, id: &str) -> Result<(), Failure> {
        config.annotations_mut().insert(THING.to_owned(), id.to_owned());
        self.write(config).await.map(drop)
    }

    /// Writes the object with the resourceVersion it was read with, and goes on with what comes back.
    async fn write(&mut self, config: ConfigMap) -> Result<ConfigMap, Failure> {
        let name = config.name_any();
        match self.configs.replace(&name, &PostParams::default(), &config).await {
            Ok(written) => {
                self.known.insert(name, written.clone());
                Ok(written)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                if self.variant == Variant::Ignores409 {
                    Ok(config)
                } else {
                    Err(Failure::Conflict)
                }
            }
            Err(_) => Err(Failure::Other),
        }
    }

    async fn find(&self, config: &ConfigMap) -> Result<Option<Thing>, Failure> {
        let owner = config.uid().unwrap_or_default();
        let things = self.list(&owner).await?;
        let trusts = self.variant == Variant::TrustsTheFilter;
        Ok(things.into_iter().find(|thing| trusts || thing.owner == owner))
    }

    async fn list(&self, owner: &str) -> Result<Vec<Thing>, Failure> {
        let path =
            if owner.is_empty() { "/v1/things".to_owned() } else { format!("/v1/things?owner={owner}") };
        let (status, body) = self.call(Method::GET, &path, Vec::new()).await?;
        if status != StatusCode::OK {
            return Err(Failure::Other);
        }
        let answer: serde_json::Value = serde_json::from_slice(&body).map_err(|_| Failure::Other)?;
        serde_json::from_value(answer["items"].clone()).map_err(|_| Failure::Other)
    }

    async fn read(&self, id: &str) -> Result<Option<Thing>, Failure> {
        let (status, body) = self.call(Method::GET, &format!("/v1/things/{id}"), Vec::new()).await?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map(Some).map_err(|_| Failure::Other),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(Failure::Other),
        }
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        let (status, _) = self.call(Method::DELETE, &format!("/v1/things/{id}"), Vec::new()).await?;
        let gone = [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND].contains(&status);
        if gone { Ok(()) } else { Err(Failure::Other) }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let answer = async {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", "application/json")
                .body(transport::full(body))?;
            let (parts, body) = transport::send(&self.cloud, request).await?.into_parts();
            let body = body.collect().await?.to_bytes().to_vec();
            Ok::<_, BoxError>((parts.status, body))
        };
        answer.await.map_err(|_| Failure::Other)
    }
}
