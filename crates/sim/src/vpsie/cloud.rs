//! What the cloud remembers, and how time changes it.
//!
//! Nothing runs in the background: whoever looks first lets everything happen that was due, in its order.

use super::{
    Settings,
    account::{Script, SshKey, Vpc},
    auth::{Keys, Limiter},
    catalogue::Catalogue,
    life::Stage,
    managed::Cluster,
    settings::one_fits,
    vm::Vm,
};
use crate::cloud::{after, fault::Faults, uuid};
use hostler_base::Chance;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The number of the first VPS, as in the reference's examples.
const FIRST_VM: u64 = 1001;
/// The number of whatever else is numbered first.
const FIRST_NUMBER: u64 = 9001;

/// A month has so many hours where prices are monthly.
pub(super) const HOURS_A_MONTH: f64 = 730.0;

pub(super) struct Cloud {
    pub(super) settings: Settings,
    /// The settings' own, with an identifier for everything.
    pub(super) catalogue: Catalogue,
    pub(super) faults: Faults,
    pub(super) keys: Keys,
    pub(super) limiter: Limiter,
    /// How often each operation was called.
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) chance: Chance,
    pub(super) now: Timestamp,
    /// By number.
    pub(super) vms: BTreeMap<u64, Vm>,
    /// By identifier.
    pub(super) ssh_keys: BTreeMap<String, SshKey>,
    /// By identifier.
    pub(super) scripts: BTreeMap<String, Script>,
    /// By number.
    pub(super) vpcs: BTreeMap<u64, Vpc>,
    /// By identifier.
    pub(super) clusters: BTreeMap<String, Cluster>,
    /// What those cost that are gone, in dollars.
    pub(super) spent: f64,
    numbered_vms: u64,
    numbered: u64,
    agenda: BTreeSet<(Timestamp, Due)>,
}

/// What happens by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Vm(u64),
    /// A worker of a managed cluster, by the cluster's and its own identifier.
    Worker(String, String),
}

impl Cloud {
    pub(super) fn new(settings: Settings, chance: Chance, now: Timestamp) -> Self {
        let mut cloud = Self {
            settings: Settings::default(),
            catalogue: Catalogue::default(),
            faults: Faults::default(),
            keys: Keys::default(),
            limiter: Limiter::default(),
            calls: BTreeMap::new(),
            chance,
            now,
            vms: BTreeMap::new(),
            ssh_keys: BTreeMap::new(),
            scripts: BTreeMap::new(),
            vpcs: BTreeMap::new(),
            clusters: BTreeMap::new(),
            spent: 0.0,
            numbered_vms: 0,
            numbered: 0,
            agenda: BTreeSet::new(),
        };
        cloud.behave(settings);
        cloud
    }

    /// From now on these settings hold.
    pub(super) fn behave(&mut self, settings: Settings) {
        self.catalogue = settings.catalogue.identified(settings.plain_identifiers);
        self.settings = settings;
        for key in self.catalogue.ssh_keys.clone() {
            if !self.ssh_keys.contains_key(&key.identifier) {
                let key = SshKey {
                    number: self.new_number(),
                    name: key.name,
                    identifier: key.identifier,
                    text: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                        .to_owned(),
                    created: self.now,
                };
                self.ssh_keys.insert(key.identifier.clone(), key);
            }
        }
        self.release();
    }

    /// Lets everything happen that was due by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while self.agenda.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, due)) = self.agenda.pop_first() else { return };
            self.now = at;
            match due {
                Due::Vm(number) => self.advance_vm(number),
                Due::Worker(cluster, worker) => self.advance_worker(&cluster, &worker),
            }
        }
        self.now = now;
    }

    /// How long until something changes by itself.
    pub(super) fn next_change(&self) -> Option<Duration> {
        let (next, _) = self.agenda.first()?;
        Some(next.duration_since(self.now).unsigned_abs())
    }

    pub(super) fn new_id(&self) -> String {
        uuid(&self.chance)
    }

    pub(super) fn new_number(&mut self) -> u64 {
        self.numbered += 1;
        FIRST_NUMBER + self.numbered - 1
    }

    pub(super) fn new_vm_number(&mut self) -> u64 {
        self.numbered_vms += 1;
        FIRST_VM + self.numbered_vms - 1
    }

    /// Something happens after so long, and a while by chance; says when.
    pub(super) fn schedule(&mut self, wait: Duration, due: Due) -> Timestamp {
        let jitter = self.settings.jitter;
        let by_chance = if jitter.is_zero() { jitter } else { jitter.mul_f64(self.chance.unit()) };
        let at = after(self.now, wait.saturating_add(by_chance));
        self.agenda.insert((at, due));
        at
    }

    /// The VPS is in this stage now, and in the next one after a while.
    pub(super) fn enter(&mut self, number: u64, stage: Stage) {
        let Some(vm) = self.vms.get(&number) else { return };
        let held = holds(&self.settings, stage, &vm.hostname);
        let wait = stage.lasts(&self.settings).filter(|_| !held);
        let until = wait.map(|wait| self.schedule(wait, Due::Vm(number)));
        let now = self.now;
        let Some(vm) = self.vms.get_mut(&number) else { return };
        (vm.before, vm.stage, vm.until, vm.updated) = (vm.stage, stage, until, now);
    }

    fn advance_vm(&mut self, number: u64) {
        let Some(vm) = self.vms.get(&number).filter(|vm| vm.until == Some(self.now)) else { return };
        let (stage, lost) = (vm.stage, vm.is_lost);
        match stage.next() {
            Some(_) if lost && stage == Stage::Queued => {
                self.vms.remove(&number);
            }
            Some(Stage::Gone) => {
                self.vms.remove(&number);
            }
            Some(next) => {
                if next == Stage::Deleted {
                    self.spent += self.vms.get(&number).map(|vm| vm.cost(self.now)).unwrap_or_default();
                } else if next == Stage::Booting
                    && let Some(vm) = self.vms.get_mut(&number)
                {
                    vm.listed = Some(self.now);
                }
                self.enter(number, next);
            }
            None => {}
        }
    }

    /// Lets those go on that the settings do not hold any more.
    fn release(&mut self) {
        let free = |(_, vm): &(&u64, &Vm)| {
            vm.until.is_none() && vm.stage.next().is_some() && !holds(&self.settings, vm.stage, &vm.hostname)
        };
        let free: Vec<(u64, Stage)> =
            self.vms.iter().filter(free).map(|(number, vm)| (*number, vm.stage)).collect();
        for (number, stage) in free {
            let before = self.vms.get(&number).map(|vm| vm.before);
            self.enter(number, stage);
            if let (Some(vm), Some(before)) = (self.vms.get_mut(&number), before) {
                vm.before = before;
            }
        }
    }
}

/// Whether a VPS of this name stays in this stage for ever.
fn holds(settings: &Settings, stage: Stage, hostname: &str) -> bool {
    let patterns = match stage {
        Stage::Accepted => &settings.never_appears,
        Stage::Queued => &settings.stuck_in_queue,
        Stage::Booting => &settings.never_boots,
        Stage::Leaving => &settings.stuck_deleting,
        _ => return false,
    };
    one_fits(patterns, hostname)
}
