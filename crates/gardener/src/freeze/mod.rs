//! Stops looking after machines while an API server gives no answer: then nobody can tell how nodes are, and every
//! machine would fail for want of news. Deletions go on.

mod decide;

use crate::api::{Machine, OperationState, OperationType, Phase};
use async_trait::async_trait;
pub use decide::FreezeOptions;
use decide::{State, decide};
use hostler_base::{Chance, Clock};
use hostler_controller::{
    Cache, EventKind, Key, Lane, Metrics, Outcome, Queue, QueueOptions, Reconciler, Recorder, Run, Trouble,
};
use hostler_node::Node;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, Resource, api::PostParams};
use prometheus_client::metrics::gauge::Gauge;
use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const LANE: Lane = Lane { name: "apiserver", workers: 1 };
/// Nothing has this name; asking for it shows whether anybody answers.
const NOBODY: &str = "dummy_name";
/// After a thaw nodes get this time to say how they are.
const SETTLE: Duration = Duration::from_secs(30);
const RESET: &str = "Machine Health Timeout was reset due to APIServer being unreachable";

/// How soon a machine that could not be given another chance is tried again.
const CHANCE_AGAIN: Duration = Duration::from_secs(5);

/// Which machines are not looked after.
#[derive(Clone, Default)]
pub(crate) struct Frozen(Arc<Mutex<Extent>>);

#[derive(Default)]
struct Extent {
    all: bool,
    /// Those that are not thawed yet, when the others are.
    some: BTreeSet<Key>,
}

impl Frozen {
    pub(crate) fn is_frozen(&self, machine: &Key) -> bool {
        let extent = self.extent();
        extent.all || extent.some.contains(machine)
    }

    fn extent(&self) -> MutexGuard<'_, Extent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct FreezeController {
    control: Client,
    target: Client,
    namespace: String,
    machines: Cache<Machine>,
    /// Whose keys are woken after a thaw.
    queue: Queue,
    recorder: Recorder,
    clock: Clock,
    options: FreezeOptions,
    frozen: Frozen,
    gauge: Gauge,
    state: Mutex<State>,
}

/// What a [`FreezeController`] is made of.
pub(crate) struct Parts {
    pub(crate) control: Client,
    pub(crate) target: Client,
    pub(crate) namespace: String,
    pub(crate) machines: Cache<Machine>,
    pub(crate) queue: Queue,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) options: FreezeOptions,
    pub(crate) frozen: Frozen,
}

impl FreezeController {
    pub(crate) fn new(parts: Parts, metrics: &Metrics) -> Self {
        let Parts { control, target, namespace, machines, queue, recorder, clock, options, frozen } = parts;
        let gauge = Gauge::default();
        metrics.register_with(|registry| {
            let help = "Whether machines are not looked after because an API server gives no answer";
            registry.register("mcm_machine_controller_frozen", help, gauge.clone());
        });
        let state = Mutex::default();
        Self { control, target, namespace, machines, queue, recorder, clock, options, frozen, gauge, state }
    }

    /// The only key there is.
    pub(crate) fn key(&self) -> Key {
        Key::new("APIServers", self.namespace.clone(), "")
    }

    async fn is_up(&self) -> bool {
        let machines = Api::<Machine>::namespaced(self.control.clone(), &self.namespace);
        answers("control", &machines).await && answers("target", &Api::<Node>::all(self.target.clone())).await
    }

    fn unknown(&self) -> BTreeSet<Key> {
        self.machines.filter(is_unknown).iter().map(|machine| Key::of(&**machine)).collect()
    }

    /// Gives machines another chance, and says which of them could not be given one: these stay frozen, and hold up
    /// no other.
    async fn thaw(&self, machines: BTreeSet<Key>) -> BTreeSet<Key> {
        let mut left = BTreeSet::new();
        for machine in machines {
            match self.reset(&machine.name).await {
                Ok(()) => self.queue.wake_after(machine, SETTLE),
                Err(error) => {
                    tracing::warn!(%error, machine = machine.name, "it stays frozen");
                    left.insert(machine);
                }
            }
        }
        left
    }

    /// Tells people why nothing happened to machines for a while. Those that ran had nothing to wait for.
    fn tell(&self, machine: &Machine, since: Timestamp) {
        let phase = machine.status.as_ref().map(|status| status.current_status.phase);
        if phase == Some(Phase::Running) || machine.meta().deletion_timestamp.is_some() {
            return;
        }
        let message = format!(
            "from {since} on an API server gave no answer, and nothing was done for this machine until {}",
            self.clock.now()
        );
        self.recorder.record(&machine.object_ref(&()), EventKind::Warning, "WasFrozen", &message);
    }

    /// Nobody is Unknown for what happened while nobody could tell.
    async fn reset(&self, machine: &str) -> Result<(), kube::Error> {
        let api: Api<Machine> = Api::namespaced(self.control.clone(), &self.namespace);
        let Some(mut live) = api.get_opt(machine).await?.filter(is_unknown) else { return Ok(()) };
        let now = Time(self.clock.now());
        if let Some(status) = &mut live.status {
            status.current_status.phase = Phase::Running;
            status.current_status.timeout_active = false;
            status.current_status.last_update_time = Some(now.clone());
            let operation = &mut status.last_operation;
            operation.description = RESET.to_owned();
            operation.error_code = String::new();
            operation.state = Some(OperationState::Successful);
            operation.operation = Some(OperationType::HealthCheck);
            operation.last_update_time = Some(now);
        }
        api.replace_status(machine, &PostParams::default(), &live).await.map(drop)
    }
}

#[async_trait]
impl Reconciler for FreezeController {
    fn lane(&self, _: &Key) -> Lane {
        LANE
    }

    async fn reconcile(&self, _: Run) -> Result<Outcome, Trouble> {
        let up = self.is_up().await;
        let before = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = decide(before, up, self.clock.now(), self.options);
        let freezes = matches!(verdict.state, State::Frozen(_));
        let mut again = verdict.again;
        if let Some(since) = verdict.thaws {
            // Before anything is written, so that it shows who waited.
            self.machines.list().iter().for_each(|machine| self.tell(machine, since));
        }
        if verdict.state == State::Up {
            // Until this is done all of them stay frozen.
            let due =
                if verdict.thaws.is_some() { self.unknown() } else { self.frozen.extent().some.clone() };
            let left = self.thaw(due).await;
            self.frozen.extent().some = left;
        }
        if verdict.thaws.is_some() {
            for machine in self.machines.list() {
                self.queue.wake_after(Key::of(&*machine), SETTLE);
            }
        }
        let mut extent = self.frozen.extent();
        if freezes != extent.all {
            tracing::warn!(frozen = freezes, "whether machines are looked after has changed");
        }
        extent.all = freezes;
        if !extent.some.is_empty() {
            again = again.min(CHANCE_AGAIN);
        }
        drop(extent);
        self.gauge.set(i64::from(freezes));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = verdict.state;
        Ok(Outcome::After(again))
    }
}

fn is_unknown(machine: &Machine) -> bool {
    let phase = machine.status.as_ref().map(|status| status.current_status.phase);
    phase == Some(Phase::Unknown) && machine.meta().deletion_timestamp.is_none()
}

async fn answers<K>(which: &str, api: &Api<K>) -> bool
where
    K: Clone + serde::de::DeserializeOwned + Debug,
{
    match api.get_opt(NOBODY).await {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(which, %error, "the API server gives no answer");
            false
        }
    }
}

/// The queue this controller works from.
pub(crate) fn queue(clock: &Clock, chance: &Chance, metrics: &Metrics) -> Queue {
    let mut options = QueueOptions::new("machinesafetyapiserver");
    // Every other attempt counts.
    options.backoff = hostler_base::Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
    Queue::new(options, clock.clone(), chance, metrics.clone())
}
