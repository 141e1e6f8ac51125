//! Puts the controllers together: watches, queues, and who is woken by what.

use super::{
    claim::{self, controller_of},
    deployment::{self, DeploymentController},
    freeze::{self, FreezeController, Limits},
    metrics::SetMetrics,
    set::{self, SetController},
    store::Store,
};
use crate::api::{Machine, MachineDeployment, MachineSet, names};
use hostler_base::{Chance, Clock};
use hostler_controller::{
    Cache, Change, EventOptions, Health, Key, Metrics, Queue, QueueOptions, Recorder, Watch, WatchOptions,
};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Resource, ResourceExt, core::SelectorExt};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The lease of Gardener's manager. Whoever does not hold it must not run these controllers.
pub const LEASE: &str = "machine-controller-manager";

/// Changes of machines often come many at once; those who count them look after this time.
const GATHER: Duration = Duration::from_millis(100);

/// What may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// So many machines more than allowed, and a MachineSet makes no more.
    pub safety_up: i32,
    /// So many fewer than that, and it does again.
    pub safety_down: i32,
    /// How often machines are counted for that.
    pub overshooting_period: Duration,
    /// The autoscaler shall leave nodes alone while an update goes on.
    pub disable_scale_down_during_rollout: bool,
}

impl Default for SetOptions {
    fn default() -> Self {
        Self {
            safety_up: 2,
            safety_down: 1,
            overshooting_period: Duration::from_mins(1),
            disable_scale_down_during_rollout: true,
        }
    }
}

/// What the controllers are made of. Their clients must be behind the fence of the lease [`LEASE`].
pub struct SetParts {
    /// The cluster with the Machines, and their namespace in it.
    pub control: Client,
    pub namespace: String,
    /// The cluster with the Nodes, if there is one; may be the same.
    pub target: Option<Client>,
    pub clock: Clock,
    pub chance: Chance,
    pub metrics: Metrics,
    pub health: Health,
    /// Which instance this is, in events.
    pub instance: String,
    pub options: SetOptions,
}

/// Runs the controllers of MachineSets and MachineDeployments until `stop` is cancelled. Everything they start ends
/// with this future.
pub async fn run(parts: SetParts, stop: CancellationToken) {
    let SetParts { control, namespace, target, clock, chance, metrics, health, instance, options } = parts;
    let queue = |name: &'static str| {
        let queue = Queue::new(QueueOptions::new(name), clock.clone(), &chance, metrics.clone());
        health.add_queue(&queue);
        queue
    };
    let (set_queue, deployment_queue) = (queue("machineset"), queue("machinedeployment"));
    let freeze_queue = queue("machinesafetyovershooting");
    let machines = watch::<Machine>(&control, &namespace, &clock, &chance, &metrics);
    let sets = watch::<MachineSet>(&control, &namespace, &clock, &chance, &metrics);
    let deployments = watch::<MachineDeployment>(&control, &namespace, &clock, &chance, &metrics);
    let nodes = target.clone().map(|target| {
        Watch::<Node>::all(target, WatchOptions::default(), clock.clone(), &chance, metrics.clone())
    });
    for vitals in [machines.vitals(), sets.vitals(), deployments.vitals()] {
        health.add_watch(vitals);
    }
    if let Some(nodes) = &nodes {
        health.add_watch(nodes.vitals());
    }
    let store = Arc::new(Store {
        control: control.clone(),
        namespace: namespace.clone(),
        target,
        machines: machines.cache(),
        sets: sets.cache(),
        deployments: deployments.cache(),
        nodes: nodes.as_ref().map(Watch::cache).unwrap_or_default(),
    });

    let whom = Arc::new(Whom(store.clone()));
    let machines = {
        let (whom, sets, deployments, freeze) =
            (whom.clone(), set_queue.clone(), deployment_queue.clone(), freeze_queue.clone());
        let overshoot = Key::new(freeze::KIND, namespace.clone(), "");
        machines.on_change(move |change| {
            for key in whom.sets_of_machine(change) {
                whom.deployments_of_set(&key).into_iter().for_each(|key| deployments.wake_after(key, GATHER));
                sets.wake_after(key, GATHER);
            }
            if matches!(change, Change::Applied { old: None, .. }) {
                freeze.wake_after(overshoot.clone(), GATHER);
            }
        })
    };
    let sets = {
        let whom = whom.clone();
        sets.wakes(&set_queue).wakes_others(&deployment_queue, move |change| whom.deployments_of(change))
    };
    let deployments = deployments.wakes(&deployment_queue);
    let nodes = nodes.map(|nodes| {
        let (whom, sets, deployments) = (whom.clone(), set_queue.clone(), deployment_queue.clone());
        nodes.on_change(move |change| {
            for key in whom.sets_of_node(change) {
                whom.deployments_of_set(&key).into_iter().for_each(|key| deployments.wake_after(key, GATHER));
                sets.wake_after(key, GATHER);
            }
        })
    });

    let record = |component: &str| {
        let options = EventOptions::new(component, instance.clone());
        Recorder::new(control.clone(), options, clock.clone(), &chance.split(component), metrics.clone())
    };
    let (set_recorder, set_events) = record("machineset-controller");
    let (deployment_recorder, deployment_events) = record("machinedeployment-controller");
    let set_controller = Arc::new(SetController {
        store: store.clone(),
        clock: clock.clone(),
        chance: chance.split("machine-names"),
        recorder: set_recorder.clone(),
        metrics: SetMetrics::register(&metrics, store.clone()),
        used_up: Mutex::new(BTreeMap::new()),
    });
    let deployment_controller = Arc::new(DeploymentController {
        store: store.clone(),
        clock: clock.clone(),
        recorder: deployment_recorder,
        disable_scale_down: options.disable_scale_down_during_rollout,
    });
    let freeze_controller = Arc::new(FreezeController {
        store: store.clone(),
        clock: clock.clone(),
        recorder: set_recorder,
        limits: Limits { up: options.safety_up, down: options.safety_down },
        period: options.overshooting_period,
    });
    let work = async {
        store.machines.synced().await;
        store.sets.synced().await;
        store.deployments.synced().await;
        if store.target.is_some() {
            store.nodes.synced().await;
        }
        freeze_queue.wake(Key::new(freeze::KIND, namespace.clone(), ""));
        tokio::join!(
            biased;
            set_queue.run(set_controller, stop.clone()),
            deployment_queue.run(deployment_controller, stop.clone()),
            freeze_queue.run(freeze_controller, stop.clone()),
        );
    };
    let watch_nodes = async {
        match nodes {
            Some(nodes) => nodes.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = work => {}
        () = machines.run() => {}
        () = sets.run() => {}
        () = deployments.run() => {}
        () = watch_nodes => {}
        () = set_events.run(stop.clone()) => {}
        () = deployment_events.run(stop.clone()) => {}
    }
}

fn watch<K>(control: &Client, namespace: &str, clock: &Clock, chance: &Chance, metrics: &Metrics) -> Watch<K>
where
    K: super::store::Stored + Resource<Scope = kube::core::NamespaceResourceScope>,
{
    Watch::namespaced(
        control.clone(),
        namespace,
        WatchOptions::default(),
        clock.clone(),
        chance,
        metrics.clone(),
    )
}

/// Whom a change concerns.
struct Whom(Arc<Store>);

impl Whom {
    fn sets_of_machine(&self, change: &Change<Machine>) -> Vec<Key> {
        let (old, new) = match change {
            Change::Applied { old, new } => (old.as_ref(), new),
            Change::Deleted { last } => (None, last),
            Change::Malformed { .. } => return all(&self.0.sets),
        };
        old.into_iter().chain([new]).flat_map(|machine| self.sets_for(machine)).collect()
    }

    /// The machine's set, or those that might adopt it.
    fn sets_for(&self, machine: &Machine) -> Vec<Key> {
        let namespace = machine.namespace().unwrap_or_default();
        if let Some(owner) = controller_of(machine) {
            return vec![Key::new(set::KIND, namespace, owner.name.clone())];
        }
        let fits = |set: &MachineSet| {
            claim::selector(set.spec.selector.as_ref())
                .is_ok_and(|selector| selector.matches(machine.labels()))
        };
        self.0.sets.filter(fits).iter().map(|set| Key::of(&**set)).collect()
    }

    fn deployments_of(&self, change: &Change<MachineSet>) -> Vec<Key> {
        let (old, new) = match change {
            Change::Applied { old, new } => (old.as_ref(), new),
            Change::Deleted { last } => (None, last),
            Change::Malformed { .. } => return all(&self.0.deployments),
        };
        old.into_iter().chain([new]).flat_map(|set| self.deployments_for(set)).collect()
    }

    fn deployments_for(&self, set: &MachineSet) -> Vec<Key> {
        let namespace = set.namespace().unwrap_or_default();
        if let Some(owner) = controller_of(set) {
            return vec![Key::new(deployment::KIND, namespace, owner.name.clone())];
        }
        let fits = |deployment: &MachineDeployment| {
            claim::selector(deployment.spec.selector.as_ref())
                .is_ok_and(|selector| selector.matches(set.labels()))
        };
        self.0.deployments.filter(fits).iter().map(|deployment| Key::of(&**deployment)).collect()
    }

    fn deployments_of_set(&self, key: &Key) -> Vec<Key> {
        self.0.sets.get(key).map(|set| self.deployments_for(&set)).unwrap_or_default()
    }

    /// Only what these controllers look at wakes them: nodes change all the time.
    fn sets_of_node(&self, change: &Change<Node>) -> Vec<Key> {
        let node = match change {
            Change::Applied { old: Some(old), new } if looks(old) == looks(new) => return Vec::new(),
            Change::Applied { new: node, .. } | Change::Deleted { last: node } => node,
            Change::Malformed { .. } => return Vec::new(),
        };
        let name = node.name_any();
        let here = |machine: &Machine| machine.labels().get(names::NODE_LABEL) == Some(&name);
        self.0.machines.filter(here).iter().flat_map(|machine| self.sets_for(machine)).collect()
    }
}

/// What these controllers see of a node.
fn looks(node: &Node) -> impl PartialEq + use<> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut in_place = conditions.filter(|condition| condition.type_ == names::IN_PLACE_CONDITION);
    let reason: Option<String> = in_place.find_map(|condition| condition.reason.clone());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    (node.labels().clone(), node.annotations().clone(), taints, reason)
}

fn all<K: Resource<DynamicType = ()>>(cache: &Cache<K>) -> Vec<Key> {
    cache.list().iter().map(|object| Key::of(&**object)).collect()
}
