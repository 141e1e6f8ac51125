//! A deployment with its sets, machines and nodes on a desk: what is decided is carried out here, and machines come
//! and go one at a time.

use super::super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

pub(super) struct Desk {
    pub(super) now: Timestamp,
    pub(super) deployment: MachineDeployment,
    pub(super) sets: Vec<MachineSet>,
    pub(super) machines: Vec<Machine>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) counter: u32,
    pub(super) told: Vec<String>,
    /// The most machines that there were at once, those that go included, and the fewest that worked.
    pub(super) most: usize,
    pub(super) fewest: usize,
}

pub(super) fn rolling(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

pub(super) fn in_place(surge: i32, unavailable: i32, orchestration: &str) -> Value {
    json!({"type": "InPlaceUpdate", "inPlaceUpdate":
        {"maxSurge": surge, "maxUnavailable": unavailable, "orchestrationType": orchestration}})
}

impl Desk {
    pub(super) fn new(replicas: i32, strategy: &Value) -> Self {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "d-uid", "generation": 1},
            "spec": {"replicas": replicas, "strategy": strategy, "selector": {"matchLabels": {"pool": "a"}},
                     "template": {"metadata": {"labels": {"pool": "a"}},
                                  "spec": {"class": {"kind": "MachineClass", "name": "one"}}}},
        }))
        .unwrap();
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            deployment,
            sets: Vec::new(),
            machines: Vec::new(),
            nodes: BTreeMap::new(),
            counter: 0,
            told: Vec::new(),
            most: 0,
            fewest: usize::MAX,
        }
    }

    /// A deployment whose machines all run.
    pub(super) fn running(replicas: i32, strategy: &Value) -> Self {
        let mut desk = Self::new(replicas, strategy);
        desk.run();
        desk.fewest = desk.working();
        desk
    }

    pub(super) fn next(&self, memory: &Memory) -> Step {
        let nodes = |machine: &Machine| {
            let name = machine.labels().get(names::NODE_LABEL)?;
            self.nodes.get(name).cloned().map(Arc::new)
        };
        decide(&Observed {
            now: self.now,
            deployment: &self.deployment,
            sets: &self.sets.iter().cloned().map(Arc::new).collect::<Vec<_>>(),
            machines: &self.machines.iter().cloned().map(Arc::new).collect::<Vec<_>>(),
            nodes: &nodes,
            has_target: true,
            disable_scale_down: true,
            memory,
        })
    }

    /// Carries out what is decided until nothing is. Says whether there was anything, and when to look again.
    pub(super) fn decide_all(&mut self) -> (bool, Option<Duration>) {
        let mut memory = Memory { fresh: false, news: News::None };
        for round in 0..200 {
            let step = self.next(&memory);
            match step {
                Step::Done { again } => return (round > usize::from(memory.fresh), again),
                Step::Refresh => memory.fresh = true,
                other => self.carry_out(other, &mut memory),
            }
        }
        panic!("it does not end: {:?}", self.next(&memory));
    }

    pub(super) fn carry_out(&mut self, step: Step, memory: &mut Memory) {
        let mut heard = None;
        match step {
            Step::Deployment { after, tell } => {
                let changed = after.spec != self.deployment.spec;
                self.deployment = *after;
                if changed {
                    self.generation();
                }
                heard = tell;
            }
            Step::WriteStatus { after, tell } => {
                self.deployment.status = Some(*after);
                heard = tell;
            }
            Step::Set { before, mut after, tell } => {
                if after.spec != before.spec {
                    after.metadata.generation = after.metadata.generation.map(|generation| generation + 1);
                }
                let place = self.sets.iter().position(|set| set.metadata.uid == before.metadata.uid).unwrap();
                self.sets[place] = *after;
                heard = tell;
            }
            Step::Machine { before, after } => {
                let place =
                    self.machines.iter().position(|one| one.metadata.uid == before.metadata.uid).unwrap();
                self.machines[place] = *after;
            }
            Step::Node { before, after } => drop(self.nodes.insert(before.name_any(), *after)),
            Step::CreateSet(set) => {
                let mut set = *set;
                assert!(!self.sets.iter().any(|other| other.name_any() == set.name_any()));
                self.counter += 1;
                set.metadata.uid = Some(format!("set-{}", self.counter));
                set.metadata.generation = Some(1);
                set.metadata.creation_timestamp =
                    Some(Time(self.now + jiff::SignedDuration::from_secs(self.counter.into())));
                memory.news = News::Created(set.name_any());
                self.sets.push(set);
            }
            Step::DeleteSets(sets) => {
                for set in sets {
                    let place =
                        self.sets.iter().position(|one| one.metadata.uid == set.metadata.uid).unwrap();
                    self.sets[place].metadata.deletion_timestamp = Some(Time(self.now));
                }
            }
            other => panic!("{other:?}"),
        }
        self.told.extend(heard.map(|tell| format!("{}: {}", tell.reason, tell.message)));
    }

    pub(super) fn generation(&mut self) {
        self.deployment.metadata.generation =
            self.deployment.metadata.generation.map(|generation| generation + 1);
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut MachineDeployment)) {
        change(&mut self.deployment);
        self.generation();
    }

    pub(super) fn class(&mut self, name: &str) {
        self.change(|deployment| deployment.spec.template.spec.class.name = name.to_owned());
    }

    pub(super) fn working(&self) -> usize {
        self.machines
            .iter()
            .filter(|machine| phase(machine) == Phase::Running && !is_deleting(*machine))
            .count()
    }

    /// What the other controllers would do: one machine comes, comes up or goes.
    pub(super) fn others(&mut self) -> bool {
        let moved = self.one_machine();
        for place in 0..self.sets.len() {
            let set = &self.sets[place];
            let own: Vec<_> = self.machines.iter().filter(|machine| owned(machine, set)).collect();
            let count = |wanted: &dyn Fn(&Machine) -> bool| {
                i32::try_from(own.iter().filter(|machine| wanted(machine)).count()).unwrap()
            };
            let up = |machine: &Machine| phase(machine) == Phase::Running;
            let status = crate::api::MachineSetStatus {
                replicas: count(&|_| true),
                fully_labeled_replicas: count(&|_| true),
                ready_replicas: count(&up),
                available_replicas: count(&up),
                observed_generation: set.metadata.generation,
                ..Default::default()
            };
            self.sets[place].status = Some(status);
        }
        let machines = &self.machines;
        self.sets.retain(|set| !is_deleting(set) || machines.iter().any(|machine| owned(machine, set)));
        self.most = self.most.max(self.machines.len());
        self.fewest = self.fewest.min(self.working());
        moved
    }

    pub(super) fn one_machine(&mut self) -> bool {
        if let Some(place) = self.machines.iter().position(is_deleting) {
            let gone = self.machines.remove(place);
            self.nodes.remove(&gone.name_any());
            return true;
        }
        if let Some(machine) = self.machines.iter_mut().find(|machine| phase(machine) == Phase::Pending) {
            machine.status.get_or_insert_default().current_status.phase = Phase::Running;
            let name = machine.name_any();
            machine.labels_mut().insert(names::NODE_LABEL.to_owned(), name.clone());
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            self.nodes.insert(name, node);
            return true;
        }
        for set in &self.sets {
            let active = |machine: &&Machine| owned(machine, set) && !is_deleting(*machine);
            let there = i32::try_from(self.machines.iter().filter(active).count()).unwrap();
            let moved_here = |machine: &Machine| machine.labels().contains_key(names::UPDATE_RESULT_LABEL);
            if there > set.spec.replicas || is_deleting(set) {
                let victim =
                    self.machines.iter_mut().rfind(|machine| owned(machine, set) && !moved_here(machine));
                if let Some(victim) = victim {
                    victim.metadata.deletion_timestamp = Some(Time(self.now));
                    return true;
                }
            }
            let disabled = set.labels().contains_key(names::SCALE_UP_DISABLED_LABEL);
            if there < set.spec.replicas && !disabled && !is_deleting(set) {
                self.counter += 1;
                let mut machine =
                    Machine::new(&format!("m-{}", self.counter), set.spec.template.spec.clone());
                machine.metadata.uid = Some(machine.name_any());
                machine.metadata.labels = set.spec.template.metadata.clone().unwrap().labels;
                machine.metadata.owner_references = Some(vec![claim::owned_by(set)]);
                machine.status.get_or_insert_default().current_status.phase = Phase::Pending;
                self.machines.push(machine);
                return true;
            }
        }
        false
    }

    /// Goes on until nobody has anything to do.
    pub(super) fn run(&mut self) {
        for _ in 0..500 {
            let (decided, _) = self.decide_all();
            if !self.others() && !decided {
                return;
            }
        }
        panic!("it does not end: {:?}", self.summary());
    }

    /// The class and replicas of each set, and whether all its machines work.
    pub(super) fn summary(&self) -> Vec<(String, i32)> {
        self.sets.iter().map(|set| (set.spec.template.spec.class.name.clone(), set.spec.replicas)).collect()
    }

    pub(super) fn progressing(&self) -> String {
        let status = self.deployment.status.clone().unwrap_or_default();
        status::condition(&status, "Progressing")
            .map(|condition| condition.reason.clone())
            .unwrap_or_default()
    }
}

pub(super) fn owned(machine: &Machine, set: &MachineSet) -> bool {
    controller_of(machine).map(|owner| &owner.uid) == set.metadata.uid.as_ref()
}

pub(super) fn sets(expected: &[(&str, i32)]) -> Vec<(String, i32)> {
    expected.iter().map(|(name, replicas)| ((*name).to_owned(), *replicas)).collect()
}
