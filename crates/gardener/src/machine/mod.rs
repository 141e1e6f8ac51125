//! The controller of Machines: observes, lets [`crate::life::decide`] decide, and carries the step out.

mod act;
mod drain;
mod health;
mod in_place;
mod nodes;
mod observe;
mod patience;
mod preserve;
mod setup;
mod template;
mod token;
mod unsent;

use crate::{
    api::{Machine, MachineClass},
    clouds::Clouds,
    freeze::Frozen,
    life::{AttemptMark, Observed, Sightings, Step, Tried, UPKEEP_EVERY, decide},
    metrics::{DriverCalls, Metrics},
    options::Options,
};
use async_trait::async_trait;
use hostler_base::{Chance, Clock, Entropy, stable_hash};
use hostler_controller::{
    Cache, EventKind, Key, Lane, Outcome, Queue, QueueOptions, Reconciler, Recorder, Run, Trouble, Wait,
    behind_others,
};
use hostler_driver::{Address, Driver, Failure, Identity, Order, ProviderId};
use hostler_node::{Drainer, Node};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::{Client, Resource, ResourceExt};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

pub(crate) use nodes::{is_held, is_unmanaged, released};
use observe::creation_timeout;
pub(crate) use observe::is_node_of;
pub use setup::{Parts, Target, run};

/// A run that has taken so many steps gives others a turn.
const STEPS_PER_RUN: usize = 24;
/// The lane of machines that come or stay.
const COMING: &str = "create";
/// What every machine waits for, and how long it usually takes at most: what is over sooner is not worth an event.
const USUAL_WAITS: [&str; 5] =
    ["NotYetKept", "OrderInHand", "ServerStarting", "NodeNotReady", "ServerDeleting"];
const USUALLY: SignedDuration = SignedDuration::from_secs(30);
/// A thaw wakes everybody; this is for the case that nobody does.
const FROZEN_AGAIN: Duration = Duration::from_mins(10);

/// What the controller looks at without asking.
struct Caches {
    machines: Cache<Machine>,
    classes: Cache<MachineClass>,
    secrets: Cache<Secret>,
    nodes: Cache<Node>,
}

struct MachineController {
    control: Client,
    /// Nothing if there is no cluster for the nodes.
    target: Option<Client>,
    clouds: Clouds,
    caches: Caches,
    /// Nothing if there is no cluster for the nodes.
    drainer: Option<Drainer>,
    options: Options,
    metrics: Metrics,
    clock: Clock,
    chance: Chance,
    entropy: Entropy,
    /// What bootstrap tokens say about their groups.
    token_groups: String,
    recorder: Recorder,
    /// Drivers whose changes nobody listens to yet.
    new_drivers: mpsc::UnboundedSender<Arc<dyn Driver>>,
    /// Those that somebody listens to.
    heard: Mutex<Vec<Weak<dyn Driver>>>,
    /// When each machine's server was last seen as it should be.
    kept_up: Mutex<BTreeMap<Key, Instant>>,
    refusals: patience::Refusals,
    started_at: Instant,
    /// Held by whoever gives a machine up.
    replacing: tokio::sync::Mutex<()>,
    frozen: Frozen,
    lost_nodes: nodes::LostNodes,
    tokens_made: token::Ledger,
    unsent: unsent::Unsent,
    /// What people were told about wishes that cannot be understood.
    nonsense: Mutex<BTreeMap<Key, String>>,
    /// What each machine waits for, and whether that was told, so that it is told once.
    waits: Mutex<BTreeMap<Key, (Wait, bool)>>,
}

/// What one run knows besides what is written down.
#[derive(Default)]
struct Memory {
    attempt_unsent: bool,
    sightings: Sightings,
    failure: Option<(Tried, Failure)>,
    /// What the driver said about volumes; nothing about those of other clouds.
    volume_ids: BTreeMap<String, Option<String>>,
    /// The driver cannot say whose volumes there are.
    volumes_unknown: bool,
    /// The object came from the API server in this run, not from a cache.
    fresh: bool,
    /// The cache does not show it yet.
    node_deleted: bool,
    node_looked_for: bool,
    token: Option<token::Known>,
    /// A server that was seen running.
    ran: Option<ProviderId>,
    /// What a server that is settled answers to.
    addresses: Vec<Address>,
    /// The cache does not show these yet.
    node_patched: bool,
    node_status_patched: bool,
    /// Something failed that does not hold up the rest of the run.
    trouble: Option<Trouble>,
}

/// What is needed to act in the cloud for one machine.
struct Means {
    driver: Arc<dyn Driver>,
    /// Whatever the driver is asked for goes through here.
    calls: DriverCalls,
    order: Order,
    /// Where the driver looks and orders, and for whom.
    place: String,
    /// The cloud that the class is for.
    provider: String,
    /// Something is done to the server that others can undo.
    upkeep: bool,
}

/// What means are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The server that is there, or may be.
    LookAfter,
    /// One that was not ordered yet.
    OrderAnew,
}

/// What a step led to.
enum Next {
    /// Go on with this object.
    Again(Box<Machine>),
    End(Outcome),
}

#[async_trait]
impl Reconciler for MachineController {
    fn lane(&self, key: &Key) -> Lane {
        match self.caches.machines.get(key) {
            Some(machine) if self.turn(&machine).is_some() => self.lane_named("drain"),
            Some(machine) if machine.meta().deletion_timestamp.is_some() => self.lane_named("delete"),
            _ => self.lane_named(COMING),
        }
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let Some(machine) = self.caches.machines.get(&run.key) else {
            self.forget(&run.key);
            self.forget_drain(&run.key);
            self.lost_nodes.forget(&run.key);
            self.refusals.forget(&run.key);
            self.tokens_made.forget(&run.key);
            self.unsent.forget(&run.key);
            self.nonsense.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.key);
            self.kept_up.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.key);
            return Ok(Outcome::Done);
        };
        if self.frozen.is_frozen(&run.key) && machine.meta().deletion_timestamp.is_none() {
            return Ok(Outcome::Wait { reason: "Frozen", check: Some(FROZEN_AGAIN) });
        }
        // However many machines go, those that come do not wait for them.
        let stays = self.lane(&run.key).name == COMING;
        let live = Box::pin(self.live(Box::new(Machine::clone(&machine)), &run.key));
        if stays { live.await } else { behind_others(live).await }
    }
}

impl MachineController {
    /// Takes one step after another until there is nothing more to do now.
    async fn live(&self, mut machine: Box<Machine>, key: &Key) -> Result<Outcome, Trouble> {
        let mut memory = Memory::default();
        for _ in 0..STEPS_PER_RUN {
            let means = self.means(&machine, Purpose::LookAfter);
            self.ask_for_volume_ids(&machine, &mut memory, &means).await;
            let seen = self.observe(&machine, &memory, &means);
            let step = decide(&seen);
            tracing::debug!(?step, "decided");
            self.note_drain(&machine, &seen);
            self.tell_nonsense(&machine, &seen.preserve);
            self.tell(key, &machine, &step);
            match self.act(machine, step, &mut memory, means).await? {
                Next::Again(returned) => machine = returned,
                Next::End(outcome) => return memory.trouble.map_or(Ok(outcome), Err),
            }
        }
        Ok(Outcome::After(Duration::ZERO))
    }

    fn lane_named(&self, name: &'static str) -> Lane {
        Lane { name, workers: self.options.workers }
    }

    /// Says in an event what is waited for, once per reason.
    fn tell(&self, key: &Key, machine: &Machine, step: &Step) {
        let Step::Wait { reason, message, .. } = step else {
            if !matches!(step, Step::Ask(_) | Step::List) {
                self.forget(key);
            }
            return;
        };
        let now = self.clock.now();
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = waits.get(key);
        let wait = Wait::now(previous.map(|(wait, _)| wait), *reason, message.clone(), now);
        let is_told = previous.is_some_and(|(before, told)| *told && !wait.differs(Some(before)));
        let worth_telling = !USUAL_WAITS.contains(reason) || now.duration_since(wait.since) >= USUALLY;
        if worth_telling && !is_told {
            self.event(machine, EventKind::Normal, reason, message);
        }
        waits.insert(key.clone(), (wait, is_told || worth_telling));
    }

    /// How long until the machine's server is to be looked at.
    fn upkeep_in(&self, machine: &Machine) -> Duration {
        let key = Key::of(machine);
        let last = self.kept_up.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let due = match last {
            Some(last) => last + UPKEEP_EVERY,
            // After a start not all of them are looked at in the same instant.
            None => {
                let spread = stable_hash(&key.name) % UPKEEP_EVERY.as_secs().max(1);
                self.started_at + Duration::from_secs(spread)
            }
        };
        due.saturating_duration_since(self.clock.instant())
    }

    fn note_upkeep(&self, machine: &Machine) {
        let now = self.clock.instant();
        self.kept_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.caches.machines.key_of(machine), now);
    }

    fn forget_drain(&self, key: &Key) {
        if let Some(drainer) = &self.drainer {
            drainer.forget(key);
        }
    }

    fn forget(&self, key: &Key) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn event(&self, machine: &Machine, kind: EventKind, reason: &str, message: &str) {
        let about = ObjectReference {
            api_version: Some(Machine::api_version(&()).into_owned()),
            kind: Some(Machine::kind(&()).into_owned()),
            namespace: machine.namespace(),
            name: Some(machine.name_any()),
            uid: machine.uid(),
            ..ObjectReference::default()
        };
        self.recorder.record(&about, kind, reason, message);
    }
}

/// The queue this controller works from.
fn queue(clock: &Clock, chance: &Chance, metrics: &hostler_controller::Metrics) -> Queue {
    Queue::new(QueueOptions::new("machine"), clock.clone(), chance, metrics.clone())
}
