//! Puts the controller together: watches, queue, and the ears for the clouds' news.

use super::{
    Caches, MachineController,
    nodes::{LostNodes, machine_named_by, node_or_own_name},
    patience::Refusals,
    queue, token,
    unsent::Unsent,
};
use crate::{
    api::{Machine, MachineClass},
    clouds::{Clouds, Factories},
    freeze::{self, FreezeController, Frozen},
    keep::{self, Keeper},
    metrics::DriverCalls,
    options::Options,
    orphans::{self, Books, Collector},
    unmanaged::{self, Unmanaged},
};
use futures::{StreamExt, stream::SelectAll};
use hostler_base::{Chance, Clock, Entropy};
use hostler_controller::{
    Cache, Change, EventOptions, Health, Key, Metrics, Queue, Recorder, Watch, WatchOptions,
};
use hostler_driver::{Change as CloudChange, Changes, Driver, DriverFactory, without_references};
use hostler_node::{Drainer, Node};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt};
use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The cluster with the Nodes; may be the one with the Machines.
pub struct Target {
    pub client: Client,
    /// The same, for evictions: with a rate limit of its own many drains hold nothing else up.
    pub evictions: Client,
}

/// What the controller is made of.
pub struct Parts {
    /// The cluster with the Machines, and their namespace in it.
    pub control: Client,
    /// The same, for events: with a rate limit of its own what is told holds nothing else up.
    pub events: Client,
    pub namespace: String,
    /// The cluster with the Nodes. Without one a machine is Available as soon as its server runs, and nothing is
    /// drained.
    pub target: Option<Target>,
    /// For Machines that do not say it themselves.
    pub options: Options,
    /// What makes the drivers of the cloud; classes that name none are for this one.
    pub drivers: Arc<dyn DriverFactory>,
    /// The same for other clouds, whose classes name them.
    pub other_drivers: Vec<Arc<dyn DriverFactory>>,
    pub clock: Clock,
    pub chance: Chance,
    pub metrics: Metrics,
    pub health: Health,
    /// Which instance this is, in events.
    pub instance: String,
    /// Where bootstrap tokens come from.
    pub entropy: Entropy,
    /// The groups of nodes that join with one, with commas between them.
    pub token_groups: String,
}

/// Runs the Machine controller until `stop` is cancelled. Everything it starts ends with this future.
pub async fn run(parts: Parts, stop: CancellationToken) {
    let Parts {
        control,
        events,
        namespace,
        target,
        options,
        drivers,
        other_drivers,
        clock,
        chance,
        metrics,
        health,
        instance,
        entropy,
        token_groups,
    } = parts;
    let started_at = clock.instant();
    let queue = queue(&clock, &chance, &metrics);
    let keep_queue = keep::queue(&clock, &chance, &metrics);
    health.add_queue(&queue);
    health.add_queue(&keep_queue);
    let orphan_queue = orphans::queue(&clock, &chance, &metrics);
    health.add_queue(&orphan_queue);
    let freeze_queue = freeze::queue(&clock, &chance, &metrics);
    health.add_queue(&freeze_queue);
    let watching = WatchOptions::default;
    let machines = Watch::<Machine>::namespaced(
        control.clone(),
        &namespace,
        watching(),
        clock.clone(),
        &chance,
        metrics.clone(),
    )
    .indexed(node_or_own_name)
    .trimmed(Machine::shrink);
    let classes = Watch::<MachineClass>::namespaced(
        control.clone(),
        &namespace,
        watching(),
        clock.clone(),
        &chance,
        metrics.clone(),
    );
    let secrets = Watch::<Secret>::namespaced(
        control.clone(),
        &namespace,
        watching(),
        clock.clone(),
        &chance,
        metrics.clone(),
    );
    let (target, near) = match target {
        None => (None, None),
        Some(Target { client, evictions }) => {
            let nodes =
                Watch::<Node>::all(client.clone(), watching(), clock.clone(), &chance, metrics.clone())
                    .indexed(machine_named_by)
                    .trimmed(Node::shrink);
            let drainer = Drainer::new(hostler_node::Parts {
                client: client.clone(),
                evictions,
                nodes: nodes.cache(),
                queue: queue.clone(),
                clock: clock.clone(),
                chance: chance.clone(),
                metrics: metrics.clone(),
            });
            (Some(client), Some((nodes, drainer)))
        }
    };
    let (nodes, drainer, near_nodes) = match near {
        None => (None, None, None),
        Some((nodes, (drainer, near_nodes))) => (Some(nodes), Some(drainer), Some(near_nodes)),
    };
    let caches = Caches {
        machines: machines.cache(),
        classes: classes.cache(),
        secrets: secrets.cache(),
        nodes: nodes.as_ref().map(Watch::cache).unwrap_or_default(),
    };
    let vitals = [machines.vitals(), classes.vitals(), secrets.vitals()].into_iter();
    let vitals = vitals.chain(nodes.iter().map(Watch::vitals));
    for vitals in vitals.chain(near_nodes.iter().flat_map(hostler_node::Watches::vitals)) {
        health.add_watch(vitals);
    }
    health.registered();
    let known = caches.machines.clone();
    let of_class = {
        let known = known.clone();
        move |change: &Change<MachineClass>| {
            let name = change.key().name.clone();
            keys(&known, |machine| machine.spec.class.name == name)
        }
    };
    let of_secret = {
        let (known, classes) = (known.clone(), caches.classes.clone());
        move |change: &Change<Secret>| {
            let secret = change.key().name.clone();
            let names: Vec<String> = classes
                .filter(|class| refers_to(class, &secret))
                .iter()
                .map(|class| class.name_any())
                .collect();
            keys(&known, |machine| names.contains(&machine.spec.class.name))
        }
    };
    let of_node = {
        let known = known.clone();
        move |change: &Change<Node>| of_node_named(&known, &change.key().name)
    };
    let (recorder, writer) = Recorder::new(
        events,
        EventOptions { essence: without_references, ..EventOptions::new("machine-controller", instance) },
        clock.clone(),
        &chance,
        metrics.clone(),
    );
    let calls = DriverCalls::new(&metrics, drivers.provider(), clock.clone());
    let drivers = Factories { first: drivers, others: other_drivers };
    let clouds = Clouds::new(drivers, caches.secrets.clone(), calls, clock.clone());
    let keeper = Arc::new(Keeper {
        client: control.clone(),
        clouds: clouds.clone(),
        recorder: recorder.clone(),
        clock: clock.clone(),
        machines: caches.machines.clone(),
        classes: caches.classes.clone(),
        secrets: caches.secrets.clone(),
    });
    let machines = machines.wakes(&queue).wakes_others(&keep_queue, keeper.of_machine());
    let machines = machines.on_change(Collector::of_machine(&orphan_queue));
    let classes = classes.wakes_others(&queue, of_class);
    let classes =
        classes.wakes(&keep_queue).wakes(&orphan_queue).wakes_others(&keep_queue, keeper.of_class());
    let secrets = secrets.wakes_others(&queue, of_secret).wakes(&keep_queue);
    let lost_nodes = LostNodes::default();
    let node_queue = unmanaged::queue(&clock, &chance, &metrics);
    let unmanaged = target.clone().map(|target| {
        health.add_queue(&node_queue);
        Arc::new(Unmanaged {
            target,
            namespace: namespace.clone(),
            machines: caches.machines.clone(),
            nodes: caches.nodes.clone(),
            clock: clock.clone(),
            creation_timeout: options.creation_timeout,
        })
    });
    let machines = machines.on_change(Unmanaged::of_machine(&node_queue));
    let nodes = nodes.map(|nodes| {
        // What is noted there must be there when the machine is woken.
        let nodes = nodes.on_change(lost_nodes.of_node(&known));
        nodes.wakes_others(&queue, of_node).wakes(&node_queue)
    });

    let collector = Arc::new(Collector {
        control: control.clone(),
        clouds: clouds.clone(),
        machines: caches.machines.clone(),
        classes: caches.classes.clone(),
        nodes: caches.nodes.clone(),
        recorder: recorder.clone(),
        clock: clock.clone(),
        options: options.orphans,
        books: Books::new(&metrics),
    });
    let (looker, every) = (clock.clone(), options.resync);
    let frozen = Frozen::default();
    // Without a target cluster there is no health that could be judged wrongly.
    let freezer = target.clone().map(|target| {
        let parts = freeze::Parts {
            control: control.clone(),
            target,
            namespace: namespace.clone(),
            machines: caches.machines.clone(),
            queue: queue.clone(),
            recorder: recorder.clone(),
            clock: clock.clone(),
            options: options.freeze,
            frozen: frozen.clone(),
        };
        Arc::new(FreezeController::new(parts, &metrics))
    });
    let (new_drivers, arrivals) = mpsc::unbounded_channel();
    let controller = Arc::new(MachineController {
        control,
        target,
        clouds,
        clock,
        entropy,
        token_groups,
        chance: chance.split("machine-controller"),
        recorder,
        new_drivers,
        heard: Mutex::default(),
        drainer,
        options,
        metrics: crate::metrics::Metrics::new(&metrics, caches.machines.clone()),
        waits: Mutex::new(BTreeMap::new()),
        kept_up: Mutex::new(BTreeMap::new()),
        refusals: Refusals::default(),
        started_at,
        replacing: tokio::sync::Mutex::default(),
        frozen,
        lost_nodes,
        tokens_made: token::Ledger::default(),
        unsent: Unsent::default(),
        nonsense: Mutex::new(BTreeMap::new()),
        caches,
    });
    let drainable = near_nodes.as_ref().map(hostler_node::Watches::synced);
    let synced = async {
        let caches = &controller.caches;
        caches.machines.synced().await;
        caches.classes.synced().await;
        caches.secrets.synced().await;
        if let Some(drainable) = drainable {
            caches.nodes.synced().await;
            drainable.await;
        }
    };
    let no_more_events = CancellationToken::new();
    let work = async {
        if stop.run_until_cancelled(synced).await.is_some() {
            let freezing = async {
                if let Some(freezer) = freezer {
                    freeze_queue.wake(freezer.key());
                    freeze_queue.run(freezer, stop.clone()).await;
                }
            };
            let marking = async {
                if let Some(unmanaged) = unmanaged {
                    node_queue.run(unmanaged, stop.clone()).await;
                }
            };
            tokio::join!(
                biased;
                queue.run(controller.clone(), stop.clone()),
                keep_queue.run(keeper.clone(), stop.clone()),
                orphan_queue.run(collector, stop.clone()),
                freezing,
                marking,
            );
        }
        // What the last steps have to say is written too, and then everything ends with the writer.
        no_more_events.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = work => {}
        () = machines.run() => {}
        () = classes.run() => {}
        () = secrets.run() => {}
        () = async { match nodes { Some(nodes) => nodes.run().await, None => pending().await } } => {}
        () = async { match near_nodes { Some(near) => Box::pin(near.run()).await, None => pending().await } } => {}
        () = writer.run(no_more_events.clone()) => {}
        () = resync(&looker, &queue, &known, every) => {}
        () = listen(arrivals, queue.clone(), known.clone(), namespace) => {}
    }
}

/// Looks at everything now and then, in case something was missed.
async fn resync(clock: &Clock, queue: &Queue, machines: &Cache<Machine>, every: Duration) {
    // Looking without a pause is no look more.
    let every = every.max(Duration::from_mins(1));
    loop {
        clock.sleep(every).await;
        for key in keys(machines, |_| true) {
            queue.wake(key);
        }
    }
}

fn keys(machines: &Cache<Machine>, wanted: impl Fn(&Machine) -> bool) -> Vec<Key> {
    machines.filter(wanted).iter().map(|machine| machines.key_of(machine)).collect()
}

fn of_node_named(machines: &Cache<Machine>, node: &str) -> Vec<Key> {
    machines.with_word(node).iter().map(|machine| machines.key_of(machine)).collect()
}

fn refers_to(class: &MachineClass, secret: &str) -> bool {
    let references = [&class.spec.secret_ref, &class.spec.credentials_secret_ref];
    references.into_iter().flatten().any(|reference| reference.name.as_deref() == Some(secret))
}

/// Wakes the machines that the clouds have news of. A driver is listened to once, for as long as it is used.
async fn listen(
    mut arrivals: mpsc::UnboundedReceiver<Arc<dyn Driver>>,
    queue: Queue,
    machines: Cache<Machine>,
    namespace: String,
) {
    let mut known: Vec<Weak<dyn Driver>> = Vec::new();
    let mut changes: SelectAll<Changes> = SelectAll::new();
    loop {
        tokio::select! {
            biased;
            driver = arrivals.recv() => {
                let Some(driver) = driver else { return };
                known.retain(|other| other.strong_count() > 0);
                if !known.iter().any(|other| other.ptr_eq(&Arc::downgrade(&driver))) {
                    known.push(Arc::downgrade(&driver));
                    changes.push(driver.changes());
                }
            }
            Some(change) = changes.next(), if !changes.is_empty() => match change {
                CloudChange::Machine { identity: Some(identity), .. } => {
                    queue.wake(Key::new("Machine", namespace.clone(), identity.machine));
                }
                CloudChange::Machine { identity: None, .. } => {}
                CloudChange::Everything => keys(&machines, |_| true).into_iter().for_each(|key| queue.wake(key)),
            },
        }
    }
}
