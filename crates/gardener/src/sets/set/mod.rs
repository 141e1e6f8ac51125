//! The controller of MachineSets.

mod decide;
mod order;
mod status;

use super::{
    claim::{self, owned_by},
    metrics::SetMetrics,
    store::{Part, Store, Written, reference},
};
use crate::api::{Machine, MachineSet, MachineSpec, OperationType, Phase, names};
use async_trait::async_trait;
use decide::{Failure, Memory, NodeSays, Observed, Step, decide, reserved};
use futures::future::join_all;
use hostler_base::{Chance, Clock};
use hostler_controller::{EventKind, Key, Lane, Outcome, Reconciler, Recorder, Run, Trouble};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub(super) use order::phase;

pub(super) const KIND: &str = "MachineSet";
/// A run that has taken so many steps gives others a turn.
const STEPS_PER_RUN: usize = 50;
const SETS: Lane = Lane { name: "machine-sets", workers: 10 };
/// What the ends of names are made of: no vowels and nothing that looks alike, so that no words come about.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// How long the watch is given to tell what the server said already.
const CATCH_UP: Duration = Duration::from_secs(1);
/// A name must fit into a label.
const NAME_LIMIT: usize = 63;

pub(super) struct SetController {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    pub(super) chance: Chance,
    pub(super) recorder: Recorder,
    pub(super) metrics: SetMetrics,
    /// The reserved names of each set that are used up.
    pub(super) used_up: Mutex<BTreeMap<Key, BTreeSet<String>>>,
}

#[async_trait]
impl Reconciler for SetController {
    fn lane(&self, _: &Key) -> Lane {
        SETS
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let mut memory = Memory::default();
        for _ in 0..STEPS_PER_RUN {
            let Some(set) = self.store.sets.get(&run.key) else {
                self.forget(&run.key);
                return Ok(Outcome::Done);
            };
            let machines = self.store.machines.list();
            memory.used_up = self.used_up(&run.key, &set, &machines);
            let step = decide(&Observed {
                now: self.clock.now(),
                set: &set,
                machines: &machines,
                nodes: &self.nodes(&set, &machines),
                memory: &memory,
            });
            tracing::debug!(?step, "decided");
            if let Some(outcome) = self.act(&run.key, &set, step, &mut memory).await? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::After(Duration::ZERO))
    }
}

impl SetController {
    fn nodes(&self, set: &MachineSet, machines: &[Arc<Machine>]) -> BTreeMap<String, NodeSays> {
        let failed = machines.iter().filter(|machine| {
            phase(machine) == Phase::Failed
                && claim::controller_of(&***machine).map(|owner| &owner.uid) == set.metadata.uid.as_ref()
        });
        let says = |machine: &Arc<Machine>| {
            if !machine.labels().contains_key(names::NODE_LABEL) || self.store.target.is_none() {
                return NodeSays::NoNode;
            }
            match self.store.node(machine) {
                None => NodeSays::Missing,
                Some(node) => NodeSays::Value(
                    node.annotations().get(names::PRESERVE_ANNOTATION).cloned().unwrap_or_default(),
                ),
            }
        };
        failed.map(|machine| (machine.name_any(), says(machine))).collect()
    }

    /// Remembers which reserved names have been seen as machines. What was seen and is gone is not made again.
    fn used_up(&self, key: &Key, set: &MachineSet, machines: &[Arc<Machine>]) -> BTreeSet<String> {
        let mut all = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(key.clone()).or_default();
        let reserved: BTreeSet<&str> = reserved(set).collect();
        known.retain(|name| reserved.contains(name.as_str()));
        let seen = machines.iter().map(|machine| machine.name_any());
        known.extend(seen.filter(|name| reserved.contains(name.as_str())));
        known.clone()
    }

    fn forget(&self, key: &Key) {
        self.used_up.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Carries the step out. Says how the run ends, if it does.
    async fn act(
        &self,
        key: &Key,
        set: &MachineSet,
        step: Step,
        memory: &mut Memory,
    ) -> Result<Option<Outcome>, Trouble> {
        match step {
            Step::Invalid(problem) => {
                self.tell(set, EventKind::Warning, "InvalidSpec", &problem);
                return Ok(Some(Outcome::Wait { reason: "InvalidSpec", check: None }));
            }
            Step::AddFinalizer => {
                let mut after = set.clone();
                after.finalizers_mut().push(names::FINALIZER.to_owned());
                return self.write(set, &after, Part::Object).await;
            }
            Step::RemoveFinalizer => {
                let mut after = set.clone();
                after.finalizers_mut().retain(|finalizer| finalizer != names::FINALIZER);
                let written = self.store.write(set, &after, Part::Object).await?;
                return Ok((written != Written::Outdated).then_some(Outcome::Done));
            }
            Step::Refresh => {
                let live = self.store.look::<MachineSet>(&set.name_any()).await?;
                if live.is_none_or(|live| live.metadata.uid != set.metadata.uid) {
                    return Ok(Some(Outcome::Done));
                }
                // When the set goes, those that are its own without matching go too.
                let selector = claim::selector(set.spec.selector.as_ref()).ok();
                let labels =
                    selector.filter(|_| !claim::is_deleting(set)).map(|selector| selector.to_string());
                self.store.refresh::<Machine>(labels).await?;
                memory.fresh = true;
            }
            Step::Write(writes) => {
                let writes =
                    writes.iter().map(|(before, after)| self.store.write(&**before, &**after, Part::Object));
                join_all(writes).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            }
            Step::Reserve(count) => {
                let names: Vec<String> = (0..count).map(|_| self.name(set)).collect();
                let mut after = set.clone();
                after.annotations_mut().insert(names::CREATING_ANNOTATION.to_owned(), names.join(","));
                return self.write(set, &after, Part::Object).await;
            }
            Step::Create(names) => self.create(key, set, names, memory).await,
            Step::Delete(victims) => {
                if self.delete(set, victims, memory).await {
                    return Ok(Some(Outcome::After(CATCH_UP)));
                }
            }
            Step::WriteStatus(status) => {
                let mut after = set.clone();
                after.status = Some(*status);
                return self.write(set, &after, Part::Status).await;
            }
            Step::Fail(message) => return Err(Trouble::new(message)),
            Step::Done { again } => return Ok(Some(again.map_or(Outcome::Done, Outcome::After))),
        }
        Ok(None)
    }

    async fn write(
        &self,
        before: &MachineSet,
        after: &MachineSet,
        part: Part,
    ) -> Result<Option<Outcome>, Trouble> {
        let written = self.store.write(before, after, part).await?;
        Ok((written == Written::Gone).then_some(Outcome::Done))
    }

    fn name(&self, set: &MachineSet) -> String {
        let mut base = set.name_any();
        base.truncate(NAME_LIMIT - SUFFIX - 1);
        format!("{base}-{}", self.chance.text(ALPHABET, SUFFIX))
    }

    async fn create(&self, key: &Key, set: &MachineSet, names: Vec<String>, memory: &mut Memory) {
        let api: Api<Machine> = Api::namespaced(self.store.control.clone(), &self.store.namespace);
        let params = PostParams::default();
        let machines: Vec<Machine> = names.iter().map(|name| machine(set, name)).collect();
        let answers = join_all(machines.iter().map(|machine| api.create(&params, machine))).await;
        for (name, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok(machine) => {
                    self.tell(
                        set,
                        EventKind::Normal,
                        "SuccessfulCreate",
                        &format!("Created Machine: {name}"),
                    );
                    self.store.machines.learn(Arc::new(machine));
                    memory.made += 1;
                }
                // Made by a call whose answer was lost, or somebody else's.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let mut all = self.used_up.lock().unwrap_or_else(PoisonError::into_inner);
                    all.entry(key.clone()).or_default().insert(name);
                    drop(all);
                    memory.fresh = false;
                }
                Err(error) => {
                    let message = format!("Error creating: {error}");
                    self.tell(set, EventKind::Warning, "FailedCreate", &message);
                    memory.failure = Some(Failure { reason: "FailedCreate", message });
                }
            }
        }
    }

    /// Says whether some were gone already, so that the cache has to catch up first.
    async fn delete(&self, set: &MachineSet, victims: Vec<Arc<Machine>>, memory: &mut Memory) -> bool {
        let mut gone = false;
        let api: Api<Machine> = Api::namespaced(self.store.control.clone(), &self.store.namespace);
        let calls = victims.iter().map(|machine| {
            let preconditions = Preconditions { uid: machine.uid(), ..Preconditions::default() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let (api, name) = (api.clone(), machine.name_any());
            async move { api.delete(&name, &params).await }
        });
        let answers = join_all(calls).await;
        for (machine, answer) in victims.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    let name = machine.name_any();
                    self.tell(
                        set,
                        EventKind::Normal,
                        "SuccessfulDelete",
                        &format!("Deleted machine: {name}"),
                    );
                    if is_stale(machine) {
                        self.metrics.stale.inc();
                    }
                    match answer.left() {
                        Some(deleting) => self.store.machines.learn(Arc::new(deleting)),
                        None => gone = true,
                    }
                }
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => gone = true,
                Err(error) => {
                    let message = format!("Error deleting: {error}");
                    self.tell(set, EventKind::Warning, "FailedDelete", &message);
                    memory.failure = Some(Failure { reason: "FailedDelete", message });
                }
            }
        }
        gone && memory.failure.is_none()
    }

    fn tell(&self, set: &MachineSet, kind: EventKind, reason: &str, message: &str) {
        self.recorder.record(&reference(set), kind, reason, message);
    }
}

/// A machine of the set's template.
fn machine(set: &MachineSet, name: &str) -> Machine {
    let template = &set.spec.template;
    let meta = template.metadata.clone().unwrap_or_default();
    let mut machine = Machine::new(name, MachineSpec::clone(&template.spec));
    machine.metadata.namespace = set.namespace();
    machine.metadata.labels = meta.labels;
    machine.metadata.annotations = meta.annotations;
    machine.metadata.finalizers = meta.finalizers;
    machine.metadata.owner_references = Some(vec![owned_by(set)]);
    if let Some(timeout) = set.annotations().get(names::CREATION_TIMEOUT_ANNOTATION) {
        machine.annotations_mut().insert(names::CREATION_TIMEOUT_ANNOTATION.to_owned(), timeout.clone());
        machine.spec.configuration.creation_timeout = Some(timeout.clone());
    }
    machine
}

/// Whether a machine goes because it was unhealthy for too long.
fn is_stale(machine: &Machine) -> bool {
    let operation = machine.status.as_ref().and_then(|status| status.last_operation.operation);
    phase(machine) == Phase::Failed && operation == Some(OperationType::HealthCheck)
}
