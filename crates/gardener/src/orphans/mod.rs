//! Finds servers that carry our marks and that no Machine owns, and lets them go.
//!
//! A server is deleted only after two lists a grace period apart have shown it as an orphan, the API server has said
//! that its Machine does not own it, and the cloud, asked for it anew, has said that it still carries our marks.

mod decide;

use crate::{
    api::{Machine, MachineClass, names},
    clouds::{Clouds, Servers},
    metrics::Method,
};
use async_trait::async_trait;
pub use decide::OrphanOptions;
use decide::{Observed, Orphan, Owner, Pass, decide, is_orphan};
use hostler_base::Clock;
use hostler_controller::{
    Cache, Change, EventKind, Key, Lane, Metrics, Outcome, Queue, Reconciler, Recorder, Run, Trouble,
};
use hostler_driver::{
    Code, Deletion, Failure, Operation, Periods, ProviderId, Snapshot, retry, without_references,
};
use hostler_node::Node;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, Resource, ResourceExt};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const CLASS: &str = "MachineClass";
const ORPHANS: Lane = Lane { name: "orphans", workers: 4 };
/// Machines often go many at once; their class is looked at after this time.
const GATHER: Duration = Duration::from_secs(10);
/// A list as old as this is new enough: it only makes an orphan be seen so much later.
const FRESH: SignedDuration = SignedDuration::from_secs(5);
/// However often somebody wants to look, it is not more often than this.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The controller that looks for orphans, one class at a time: one whose cloud does not answer holds up no other.
pub(crate) struct Collector {
    pub(crate) control: Client,
    pub(crate) clouds: Clouds,
    pub(crate) machines: Cache<Machine>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) options: OrphanOptions,
    pub(crate) books: Books,
}

/// What was seen in earlier passes. It may be lost: then it takes longer until something is deleted.
#[derive(Default)]
pub(crate) struct Books {
    classes: Mutex<BTreeMap<Key, Memory>>,
    orphans: Gauge,
    deleted: Counter,
}

#[derive(Default)]
struct Memory {
    sightings: BTreeMap<ProviderId, Timestamp>,
    /// What people were told last.
    told: BTreeSet<String>,
}

impl Books {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let books = Self::default();
        metrics.register_with(|registry| {
            registry.register(
                "hostler_orphaned_servers",
                "Servers that carry our marks and that no Machine owns",
                books.orphans.clone(),
            );
            registry.register(
                "hostler_orphan_deletions",
                "Orphaned servers whose deletion was ordered",
                books.deleted.clone(),
            );
        });
        books
    }

    fn classes(&self) -> MutexGuard<'_, BTreeMap<Key, Memory>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, classes: &BTreeMap<Key, Memory>) {
        let orphans: usize = classes.values().map(|memory| memory.sightings.len()).sum();
        self.orphans.set(i64::try_from(orphans).unwrap_or(i64::MAX));
    }

    fn forget(&self, class: &Key) {
        let mut classes = self.classes();
        classes.remove(class);
        self.count(&classes);
    }
}

#[async_trait]
impl Reconciler for Collector {
    fn lane(&self, _: &Key) -> Lane {
        ORPHANS
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let class = self.classes.get(&run.key).filter(|class| self.clouds.serve(class));
        let Some(class) = class else {
            self.books.forget(&run.key);
            return Ok(Outcome::Done);
        };
        let (servers, snapshot) = match self.look(&class).await {
            Ok(seen) => seen,
            Err(failure) => {
                let again = Periods::default().of(retry::retry(Operation::List, failure.code));
                let again = again.unwrap_or(self.options.period).min(self.period());
                return Err(Trouble::after(failure, again));
            }
        };
        let pass = self.pass(&run.key, &class, &servers, &snapshot);
        self.tell_of(&run.key, &class, &pass);
        let mut trouble = None;
        for orphan in pass.due.iter().filter(|_| !self.options.dry_run) {
            if let Err(failure) = self.remove(&class, &servers, orphan).await {
                tracing::warn!(%failure, server = %orphan.id, "an orphan could not be deleted");
                let message = format!("the orphaned server {} could not be deleted: {failure}", orphan.id);
                self.tell(&run.key, &class, EventKind::Warning, "OrphanStays", message);
                trouble.get_or_insert(failure);
            }
        }
        match trouble {
            Some(failure) => {
                let again = Periods::default().of(retry::retry(Operation::Delete, failure.code));
                Err(Trouble::after(failure, again.unwrap_or(GATHER)))
            }
            None => Ok(Outcome::After(pass.again.unwrap_or(Duration::MAX).min(self.period()))),
        }
    }
}

impl Collector {
    fn period(&self) -> Duration {
        self.options.period.max(SHORTEST_PERIOD)
    }

    async fn look(&self, class: &MachineClass) -> Result<(Servers, Snapshot), Failure> {
        let servers = self.clouds.servers_of(class)?;
        let snapshot = self.clouds.list(&servers, Some(self.clock.now() - FRESH)).await?;
        Ok((servers, snapshot))
    }

    fn pass(&self, key: &Key, class: &MachineClass, servers: &Servers, snapshot: &Snapshot) -> Pass {
        let known = self.machines.list();
        let mut owners: BTreeMap<String, Owner> =
            known.iter().map(|machine| (machine.name_any(), Owner::of(machine))).collect();
        // What cannot be understood is there all the same.
        owners.extend(self.machines.malformed().into_iter().map(|(key, _)| (key.name.clone(), Owner::Busy)));
        let mut classes = self.books.classes();
        let memory = classes.entry(key.clone()).or_default();
        let pass = decide(&Observed {
            began_at: snapshot.evidence().began_at,
            servers: snapshot.machines(),
            scope: &servers.scope(),
            owners: &owners,
            ready: &self.ready(),
            knows_nodes: self.nodes.is_synced(),
            before: &memory.sightings,
            options: self.options,
            confirmed: confirms(class),
        });
        memory.sightings = pass.sightings();
        if memory.sightings.is_empty() {
            memory.told.clear();
        }
        self.books.count(&classes);
        pass
    }

    /// The servers whose nodes are Ready.
    fn ready(&self) -> BTreeSet<String> {
        let ready = self.nodes.filter(hostler_node::is_ready);
        ready.iter().filter_map(|node| server_of(node)).collect()
    }

    /// Deletes an orphan if it still is one now. Nothing that was seen before counts.
    async fn remove(&self, class: &MachineClass, servers: &Servers, orphan: &Orphan) -> Result<(), Failure> {
        let owner = self.live_owner(class, &orphan.machine).await?;
        let identity = servers.identity(&orphan.machine);
        let calls = &servers.calls;
        let finding =
            calls.timed(Method::GetStatus, servers.driver.find(&identity, Some(&orphan.id))).await?;
        let Some(server) = finding.found.machines().first() else { return Ok(()) };
        let ready = self.ready().contains(orphan.id.server());
        let marked = servers.scope().holds(&server.marks)
            && server.marks.machine.as_deref() == Some(orphan.machine.as_str());
        if !marked || !is_orphan(server, owner.as_ref(), ready) {
            tracing::info!(server = %orphan.id, "it is no orphan after all");
            return Ok(());
        }
        let order = servers.order(&orphan.machine, class);
        let deletion = calls.timed(Method::Delete, servers.driver.delete(&order, &orphan.id)).await?;
        if deletion == Deletion::Ordered {
            self.books.deleted.inc();
            let message = format!(
                "ordered the deletion of the server {}: it was made for the Machine {:?}, which does not own it",
                orphan.id, orphan.machine
            );
            self.recorder.record(
                &class.object_ref(&()),
                EventKind::Warning,
                "OrphanDeletionOrdered",
                message,
            );
        }
        Ok(())
    }

    /// What the API server itself says about the Machine of this name.
    async fn live_owner(&self, class: &MachineClass, name: &str) -> Result<Option<Owner>, Failure> {
        let machines: Api<Machine> =
            Api::namespaced(self.control.clone(), &class.namespace().unwrap_or_default());
        match machines.get(name).await {
            Ok(machine) => Ok(Some(Owner::of(&machine))),
            // Of this Machine, not of a path that nobody serves any more.
            Err(kube::Error::Api(status))
                if status.is_not_found()
                    && status.details.as_ref().is_some_and(|details| details.name == name) =>
            {
                Ok(None)
            }
            Err(error) => {
                let message = format!("nobody can tell whether there is a Machine {name:?}: {error}");
                Err(Failure::new(Code::Unavailable, message))
            }
        }
    }

    fn tell_of(&self, key: &Key, class: &MachineClass, pass: &Pass) {
        if let Some(stopped) = &pass.stopped {
            self.tell(key, class, EventKind::Warning, "ManyOrphans", stopped.clone());
        }
        for orphan in pass.due.iter().filter(|_| self.options.dry_run) {
            let Orphan { id, machine, since } = orphan;
            let message = format!(
                "the server {id} was made for the Machine {machine:?}, which does not own it, and is an orphan since {since}; it stays because of --machine-safety-orphan-vms-dry-run"
            );
            self.tell(key, class, EventKind::Normal, "OrphanFound", message);
        }
    }

    /// Says something about a class once, until there are no more orphans.
    fn tell(&self, key: &Key, class: &MachineClass, kind: EventKind, reason: &str, message: String) {
        let what = without_references(&message).into_owned();
        let new = self.books.classes().entry(key.clone()).or_default().told.insert(what);
        if new {
            self.recorder.record(&class.object_ref(&()), kind, reason, message);
        }
    }

    /// Wakes the class of a Machine that has gone, or of which several servers were found.
    pub(crate) fn of_machine(queue: &Queue) -> impl Fn(&Change<Machine>) + Send + Sync + use<> {
        let queue = queue.clone();
        move |change| {
            let machine = match change {
                Change::Deleted { last } => last,
                Change::Applied { old, new }
                    if says_several(new) && !old.as_deref().is_some_and(says_several) =>
                {
                    new
                }
                _ => return,
            };
            let class = machine.spec.class.name.clone();
            queue.wake_after(Key::new(CLASS, machine.namespace().unwrap_or_default(), class), GATHER);
        }
    }
}

/// The queue this controller works from.
pub(crate) fn queue(
    clock: &Clock,
    chance: &hostler_base::Chance,
    metrics: &hostler_controller::Metrics,
) -> Queue {
    let options = hostler_controller::QueueOptions::new("machinesafetyorphanvms");
    Queue::new(options, clock.clone(), chance, metrics.clone())
}

/// A Machine's last operation tells of more than one server.
fn says_several(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|status| status.last_operation.description.contains("OutOfRange"))
}

fn confirms(class: &MachineClass) -> bool {
    class.annotations().get(names::COLLECT_ORPHANS_ANNOTATION).is_some_and(|value| value == "true")
}

/// The cloud's id of the server that a node says it runs on.
fn server_of(node: &Node) -> Option<String> {
    let id: ProviderId = node.spec.as_ref()?.provider_id.as_ref()?.parse().ok()?;
    Some(id.server().to_owned())
}
