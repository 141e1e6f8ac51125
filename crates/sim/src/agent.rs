//! A node agent, as Gardener has one on every node: it updates a node in place when the node's condition says that it
//! is ready for it.

use futures::TryStreamExt;
use hostler_base::Clock;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const CONDITION: &str = "InPlaceUpdate";
const READY: &str = "ReadyForUpdate";
const RESULT: &str = "node.machine.sapcloud.io/update-result";
const REASON: &str = "node.machine.sapcloud.io/update-failed-reason";
const RETRY: Duration = Duration::from_secs(1);

/// How the agents behave.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// How long an update takes.
    pub update_time: Duration,
    /// Nodes whose update fails, with the reason.
    pub fails: BTreeMap<String, String>,
    /// Nodes on which nothing happens.
    pub asleep: BTreeSet<String>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self { update_time: Duration::from_secs(20), fails: BTreeMap::new(), asleep: BTreeSet::new() }
    }
}

/// The handle on the agents of all nodes.
#[derive(Clone)]
pub struct Agents(Arc<Mutex<AgentSettings>>);

impl Agents {
    /// The handle, and the future that does the agents' work.
    pub fn new(
        settings: AgentSettings,
        client: Client,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let agents = Self(Arc::new(Mutex::new(settings)));
        (agents.clone(), agents.run(client, clock))
    }

    /// Changes how they behave from now on.
    pub fn set(&self, change: impl FnOnce(&mut AgentSettings)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn settings(&self) -> AgentSettings {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(self, client: Client, clock: Clock) {
        let api: Api<Node> = Api::all(client);
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
        // When the update of a node is done.
        let mut due: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            let next = due.values().min().copied();
            tokio::select! {
                biased;
                event = events.try_next() => match event {
                    Ok(Some(Event::Apply(node) | Event::InitApply(node))) => {
                        let name = node.name_any();
                        if wants_update(&node) {
                            let done = clock.instant() + self.settings().update_time;
                            due.entry(name).or_insert(done);
                        } else {
                            due.remove(&name);
                        }
                    }
                    Ok(Some(Event::Delete(node))) => drop(due.remove(&node.name_any())),
                    Ok(Some(Event::Init | Event::InitDone)) => {}
                    Ok(None) => return,
                    Err(error) => {
                        tracing::debug!(%error, "the agents' watch of nodes failed");
                        clock.sleep(RETRY).await;
                    }
                },
                () = async { match next { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => {
                    let now = clock.instant();
                    let names: Vec<String> = due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
                    for name in names {
                        if self.update(&api, &name).await {
                            due.remove(&name);
                        } else {
                            due.insert(name, now + RETRY);
                        }
                    }
                }
            }
        }
    }

    /// Tells the outcome of an update; false if that has to be tried again.
    async fn update(&self, api: &Api<Node>, name: &str) -> bool {
        let settings = self.settings();
        if settings.asleep.contains(name) {
            return false;
        }
        let reason = settings.fails.get(name);
        let result = if reason.is_some() { "failed" } else { "successful" };
        let patch = json!({"metadata": {"labels": {RESULT: result}, "annotations": {REASON: reason}}});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(error) => {
                tracing::debug!(%error, node = name, "an agent could not tell of its update");
                false
            }
        }
    }
}

/// Whether the node is ready for an update and nobody has told yet what came of it.
fn wants_update(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|one| one.type_ == CONDITION && one.reason.as_deref() == Some(READY));
    ready.next().is_some() && !node.labels().contains_key(RESULT)
}
