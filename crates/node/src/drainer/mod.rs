//! Looks at what watches show, lets the pure functions decide, and carries their steps out.

mod act;
mod memory;
mod observe;

use crate::{
    Node,
    drain::{Cleared, Drained, Order, Step, clear, decide},
    objects::Volume,
    watches::{View, Watches},
};
use hostler_base::{Chance, Clock};
use hostler_controller::{Cache, Key, Metrics, Queue};
use kube::Client;
use memory::{Books, Ledger};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a [`Drainer`] is made of.
pub struct Parts {
    /// The cluster with the nodes.
    pub client: Client,
    /// The same cluster, for evictions: with a rate limit of its own a thousand of them hold nothing else up.
    pub evictions: Client,
    /// The nodes as a watch shows them.
    pub nodes: Cache<Node>,
    /// Whose keys are woken when something changes that a drain waits for.
    pub queue: Queue,
    pub clock: Clock,
    pub chance: Chance,
    pub metrics: Metrics,
}

/// Drains the nodes of one cluster.
pub struct Drainer {
    client: Client,
    evictions: Client,
    nodes: Cache<Node>,
    view: View,
    clock: Clock,
    books: Arc<Mutex<Books>>,
    ledger: Mutex<Ledger>,
    active: Gauge,
    removals: Family<RemovalLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RemovalLabels {
    how: &'static str,
    result: &'static str,
}

impl Drainer {
    /// The drainer, and the watches that must run for it.
    pub fn new(parts: Parts) -> (Self, Watches) {
        let Parts { client, evictions, nodes, queue, clock, chance, metrics } = parts;
        let books: Arc<Mutex<Books>> = Arc::default();
        let told = books.clone();
        let tell = Arc::new(move |news: crate::watches::News<'_>| {
            let keys = told.lock().unwrap_or_else(PoisonError::into_inner).concerned(&news);
            for key in keys {
                queue.wake(key);
            }
        });
        let (watches, view) = Watches::new(&client, &clock, &chance, &metrics, tell);
        let (active, removals) = (Gauge::default(), Family::<RemovalLabels, Counter>::default());
        metrics.register_with(|registry| {
            registry.register("hostler_drains", "Nodes that are being drained", active.clone());
            registry.register(
                "hostler_drain_removals",
                "Pods that were asked to leave a node, by how and by what came of it",
                removals.clone(),
            );
        });
        let ledger = Mutex::default();
        (Self { client, evictions, nodes, view, clock, books, ledger, active, removals }, watches)
    }

    /// The next step of a drain. Looking changes nothing in any cluster.
    pub fn look(&self, order: &Order) -> Step<Drained> {
        let mut books = self.books();
        let memory = books.begin(order, self.clock.now());
        let seen = self.observe(order, memory);
        let step = decide(&seen);
        memory.hold_back(&seen, &step);
        books.note_interests(order, &seen);
        self.active.set(i64::try_from(books.len()).unwrap_or(i64::MAX));
        step
    }

    /// The next step on the way to a node without VolumeAttachments.
    pub fn look_at_attachments(&self, order: &Order) -> Step<Cleared> {
        let mut books = self.books();
        let memory = books.begin(order, self.clock.now());
        clear(&self.observe_attachments(order, memory))
    }

    /// The volumes of the pods on a node and those that are attached to it, for [`Order::volumes`].
    pub fn volumes(&self, node: &str) -> BTreeMap<String, Arc<Volume>> {
        self.volumes_near(node)
    }

    /// The object is gone, or its drain is over: nothing of it is remembered.
    pub fn forget(&self, key: &Key) {
        let mut books = self.books();
        books.forget(key);
        self.active.set(i64::try_from(books.len()).unwrap_or(i64::MAX));
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
