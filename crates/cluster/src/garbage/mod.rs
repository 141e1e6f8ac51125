//! Deletes what lost its owners, in the background or in the foreground, or lets it stay as an orphan.

pub(crate) mod graph;
mod judge;

use crate::cache::{Cache, Watched};
use crate::discover;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, is_not_found};
use crate::watch;
use graph::{Change, Changes, Feed, Graph, Served, Thing};
use jiff::{SignedDuration, Timestamp};
use judge::{Answers, Judgement, Policy, judge};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// Discovery can lag behind the definition of a custom resource.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many uids of owners that are gone are remembered.
const REMEMBERED: usize = 10_000;
/// So long the first list of a kind is waited for before an owner goes: a kind that cannot be listed must not hold
/// up everything else.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

pub(crate) struct Collector {
    changes: Changes,
    graph: Graph,
    answers: Answers,
    todo: BTreeSet<String>,
    /// Kinds that the shared caches tell about.
    fed: BTreeSet<(String, String)>,
    served: BTreeMap<(String, String), Arc<Served>>,
    discovered: bool,
    watches: BTreeMap<(String, String), Following>,
    tasks: JoinSet<&'static str>,
}

/// The watch of one kind.
struct Following {
    task: AbortHandle,
    cache: Arc<Cache<PartialObjectMeta<DynamicObject>>>,
    since: Timestamp,
}

/// Whether everything was done that can be done about an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    Done,
    /// Not all dependents are known yet.
    TooEarly,
}

impl Collector {
    pub(crate) fn new(changes: Changes, fed: &[Served]) -> Self {
        Self {
            changes,
            graph: Graph::default(),
            answers: Answers::default(),
            todo: BTreeSet::new(),
            fed: fed.iter().map(Served::id).collect(),
            served: BTreeMap::new(),
            discovered: false,
            watches: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }
}

impl Part for Collector {
    const NAME: &'static str = "garbage collection";

    fn wakes(_: &Caches) -> Vec<&dyn Watched> {
        // The feeds wake it.
        Vec::new()
    }

    fn reads(caches: &Caches) -> Vec<&dyn Watched> {
        caches.whole()
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        self.take_changes(&mut sweep);
        self.reap();
        if !self.discovered
            && let Some(served) =
                sweep.note("discovering resources", discover::resources(&context.client).await)
        {
            self.follow(context, served);
            self.discovered = true;
        }
        self.answers.present.clear();
        if self.answers.absent.len() > REMEMBERED {
            self.answers.absent.clear();
        }
        for uid in std::mem::take(&mut self.todo) {
            match self.look_at(context, &uid).await {
                Ok(Looked::Done) => {}
                Ok(Looked::TooEarly) => {
                    sweep.due(LOOK_AGAIN);
                    self.todo.insert(uid);
                }
                Err(error) => {
                    sweep.note::<()>("collecting garbage", Err(error));
                    self.todo.insert(uid);
                }
            }
        }
        sweep
    }
}

impl Collector {
    fn take_changes(&mut self, sweep: &mut Sweep) {
        for change in self.changes.drain() {
            let (Change::Seen(thing) | Change::Gone(thing)) = &change;
            if thing.resource.api.plural == "customresourcedefinitions" {
                self.discovered = false;
                sweep.due(LOOK_AGAIN);
            }
            self.todo.extend(self.graph.take(change));
        }
    }

    /// Takes away watches that have ended. One that nobody ended is started again.
    fn reap(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let task = match &ended {
                Ok((task, _)) => *task,
                Err(error) => error.id(),
            };
            let lost =
                self.watches.iter().find(|(_, watch)| watch.task.id() == task).map(|(id, _)| id.clone());
            if let Some(id) = lost {
                tracing::warn!(
                    resource = id.1,
                    "a watch of the garbage collection ended by itself and is started again"
                );
                self.watches.remove(&id);
                self.discovered = false;
            }
        }
    }

    /// Whether there may be dependents that the graph does not know yet.
    fn is_catching_up(&self, now: Timestamp) -> bool {
        let listing =
            |watch: &Following| !watch.cache.is_synced() && now.duration_since(watch.since) < PATIENCE;
        !self.discovered || self.watches.values().any(listing)
    }

    /// Watches the metadata of everything that is served and not fed by the shared caches.
    fn follow(&mut self, context: &Context, served: Vec<Served>) {
        let served: BTreeMap<_, _> = served
            .into_iter()
            .filter(|one| one.can(&["delete", "list", "watch"]) && one.api.plural != "events")
            .map(|one| (one.id(), Arc::new(one)))
            .collect();
        let ended: Vec<_> = self
            .watches
            .keys()
            .filter(|id| served.get(*id).is_none_or(|one| self.served.get(*id) != Some(one)))
            .cloned()
            .collect();
        for id in ended {
            if let Some(watch) = self.watches.remove(&id) {
                watch.task.abort();
            }
            self.todo.extend(self.graph.drop_resource(&id));
        }
        for (id, one) in &served {
            if self.fed.contains(id) || self.watches.contains_key(id) {
                continue;
            }
            let cache: Arc<Cache<PartialObjectMeta<DynamicObject>>> = Arc::default();
            cache.feed(Feed::new(one.clone(), self.changes.clone()));
            let api = Api::all_with(context.client.clone(), &one.api);
            let chance = context.chance.split(&format!("{}/{}", id.0, id.1));
            let clock = context.clock.clone();
            let follow = watch::follow(api, watcher::Config::default(), cache.clone(), clock, chance);
            let task = self.tasks.spawn(follow);
            self.watches.insert(id.clone(), Following { task, cache, since: context.now() });
        }
        self.served = served;
    }

    async fn look_at(&mut self, context: &Context, uid: &str) -> Result<Looked, kube::Error> {
        let mut version = None;
        loop {
            let Some(thing) = self.graph.get(uid).cloned() else { return Ok(Looked::Done) };
            let judgement = judge(&thing, &self.graph, &self.answers);
            match judgement {
                Judgement::Keep => return Ok(Looked::Done),
                Judgement::DropFinalizer(_) | Judgement::Orphan(_) if self.is_catching_up(context.now()) => {
                    return Ok(Looked::TooEarly);
                }
                Judgement::Ask(owners) => {
                    for owner in owners {
                        self.ask(context, &thing, &owner).await?;
                    }
                }
                _ if version.is_none() => match self.refresh(context, &thing).await? {
                    Some(current) => version = Some(current),
                    None => return Ok(Looked::Done),
                },
                judgement => {
                    let version = version.take().unwrap_or_default();
                    self.act(context, &thing, &version, judgement).await?;
                    return Ok(Looked::Done);
                }
            }
        }
    }

    /// Looks an owner up that the graph does not know.
    async fn ask(
        &mut self,
        context: &Context,
        thing: &Thing,
        owner: &OwnerReference,
    ) -> Result<(), kube::Error> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let known = self.served.values().find(|one| one.api.group == group && one.api.kind == owner.kind);
        // Of a kind that nobody serves nothing can be said; a cluster-wide object cannot belong to a namespaced one.
        let Some(served) = known.filter(|one| !(one.namespaced && thing.namespace.is_empty())) else {
            self.answers.present.insert(owner.uid.clone());
            return Ok(());
        };
        let found = api(&context.client, served, &thing.namespace).get_metadata_opt(&owner.name).await?;
        if found.is_some_and(|found| found.metadata.uid.as_ref() == Some(&owner.uid)) {
            self.answers.present.insert(owner.uid.clone());
        } else {
            self.answers.absent.insert(owner.uid.clone());
        }
        Ok(())
    }

    /// Before anything is done, the server says how the object looks now. `None` if it is gone.
    async fn refresh(&mut self, context: &Context, thing: &Thing) -> Result<Option<String>, kube::Error> {
        let api = api(&context.client, &thing.resource, &thing.namespace);
        match api.get_metadata_opt(&thing.name).await? {
            Some(found) if found.metadata.uid.as_ref() == Some(&thing.uid) => {
                self.graph.take(Change::Seen(Thing::new(&thing.resource, &found.metadata)));
                Ok(found.metadata.resource_version)
            }
            _ => {
                let look_at = self.graph.take(Change::Gone(thing.clone()));
                self.todo.extend(look_at);
                Ok(None)
            }
        }
    }

    async fn act(
        &mut self,
        context: &Context,
        thing: &Thing,
        version: &str,
        judgement: Judgement,
    ) -> Result<(), kube::Error> {
        let client = &context.client;
        match judgement {
            Judgement::Keep | Judgement::Ask(_) => Ok(()),
            Judgement::Release(owners) => release(client, thing, Some(version), &owners).await,
            Judgement::Delete { policy, unblock } => {
                if unblock {
                    let owners: Vec<OwnerReference> = thing
                        .owners
                        .iter()
                        .map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() })
                        .collect();
                    patch(client, thing, None, &json!({"ownerReferences": owners})).await?;
                }
                delete(client, thing, policy).await
            }
            Judgement::DropFinalizer(finalizer) => drop_finalizer(client, thing, version, finalizer).await,
            Judgement::Orphan(dependents) => {
                let owner = BTreeSet::from([thing.uid.clone()]);
                for uid in dependents {
                    if let Some(dependent) = self.graph.get(&uid).cloned() {
                        match release(client, &dependent, None, &owner).await {
                            Err(error) if !is_not_found(&error) => return Err(error),
                            _ => {}
                        }
                    }
                }
                drop_finalizer(client, thing, version, graph::ORPHAN).await
            }
        }
    }
}

fn api(client: &Client, served: &Served, namespace: &str) -> Api<DynamicObject> {
    if served.namespaced {
        Api::namespaced_with(client.clone(), namespace, &served.api)
    } else {
        Api::all_with(client.clone(), &served.api)
    }
}

/// Changes metadata of exactly this object, and with a version of exactly this state of it.
async fn patch(
    client: &Client,
    thing: &Thing,
    version: Option<&str>,
    change: &Value,
) -> Result<(), kube::Error> {
    let mut metadata = change.clone();
    metadata["uid"] = json!(thing.uid);
    if let Some(version) = version {
        metadata["resourceVersion"] = json!(version);
    }
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let api = api(client, &thing.resource, &thing.namespace);
    api.patch_metadata(&thing.name, &PatchParams::default(), &patch).await.map(|_| ())
}

async fn release(
    client: &Client,
    thing: &Thing,
    version: Option<&str>,
    owners: &BTreeSet<String>,
) -> Result<(), kube::Error> {
    let rest: Vec<&OwnerReference> =
        thing.owners.iter().filter(|owner| !owners.contains(&owner.uid)).collect();
    patch(client, thing, version, &json!({"ownerReferences": rest})).await
}

async fn drop_finalizer(
    client: &Client,
    thing: &Thing,
    version: &str,
    finalizer: &str,
) -> Result<(), kube::Error> {
    let rest: Vec<&String> = thing.finalizers.iter().filter(|held| *held != finalizer).collect();
    patch(client, thing, Some(version), &json!({"finalizers": rest})).await
}

async fn delete(client: &Client, thing: &Thing, policy: Policy) -> Result<(), kube::Error> {
    let parameters = DeleteParams {
        propagation_policy: Some(match policy {
            Policy::Background => PropagationPolicy::Background,
            Policy::Foreground => PropagationPolicy::Foreground,
            Policy::Orphan => PropagationPolicy::Orphan,
        }),
        preconditions: Some(Preconditions { uid: Some(thing.uid.clone()), resource_version: None }),
        ..DeleteParams::default()
    };
    match api(client, &thing.resource, &thing.namespace).delete(&thing.name, &parameters).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::events::Events;
    use hostler_base::{Chance, Clock};
    use http::{Request, Response};

    fn context() -> Context {
        let silent = |_: Request<kube::client::Body>| {
            std::future::pending::<Result<Response<kube::client::Body>, std::io::Error>>()
        };
        Context {
            client: Client::new(tower::service_fn(silent), "default"),
            clock: Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
            chance: Chance::from_seed(1),
            caches: Caches::default(),
            events: Events::default(),
            options: Options::all(),
        }
    }

    fn widgets(version: &str) -> Served {
        let kind = kube::core::GroupVersionKind::gvk("example.com", version, "Widget");
        let verbs = ["delete", "list", "watch"].map(str::to_owned).into();
        Served { api: kube::core::ApiResource::from_gvk(&kind), namespaced: true, verbs }
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_ended_are_taken_away_and_lost_ones_noticed() {
        let context = context();
        let mut collector = Collector::new(Changes::new(crate::cache::Signal::default()), &[]);
        for version in ["v1", "v2", "v3"] {
            collector.follow(&context, vec![widgets(version)]);
            tokio::task::yield_now().await;
            collector.reap();
            collector.discovered = true;
            assert_eq!((collector.tasks.len(), collector.watches.len()), (1, 1), "{version}");
        }
        assert!(collector.is_catching_up(context.now()), "nothing was listed");
        context.clock.sleep(Duration::from_secs(30)).await;
        assert!(!collector.is_catching_up(context.now()), "a kind that cannot be listed is not waited for");
        collector.tasks.abort_all();
        tokio::task::yield_now().await;
        collector.reap();
        assert!(!collector.discovered && collector.watches.is_empty(), "it will be followed again");
    }
}
