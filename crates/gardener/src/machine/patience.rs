//! After an order was refused the next one waits for as long as the refusal's code says. News of all kinds wake the
//! Machine before that, and lists may have shown by then that nothing came of the order; only something that the order
//! was made of makes another one worth while.
//!
//! It is not written down: it only spares the cloud calls.

use super::{Key, Machine, MachineController};
use crate::api::names;
use kube::ResourceExt;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The last refusals of Machines.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<Key, Refusal>>);

struct Refusal {
    until: Instant,
    made_of: String,
}

impl Refusals {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, key: &Key) {
        self.all().remove(key);
    }
}

impl MachineController {
    /// The order was refused: nothing is ordered for so long, unless something changes.
    pub(super) fn be_patient(&self, machine: &Machine, time: Duration) {
        let refusal = Refusal { until: self.clock.instant() + time, made_of: self.made_of(machine) };
        self.refusals.all().insert(Key::of(machine), refusal);
    }

    /// How long nothing is to be ordered.
    pub(super) fn patience(&self, machine: &Machine) -> Option<Duration> {
        let refusals = self.refusals.all();
        if refusals.is_empty() {
            return None;
        }
        let refusal = refusals.get(&Key::of(machine))?;
        let left = refusal.until.saturating_duration_since(self.clock.instant());
        (!left.is_zero() && refusal.made_of == self.made_of(machine)).then_some(left)
    }

    /// The versions of what an order is made of.
    fn made_of(&self, machine: &Machine) -> String {
        let namespace = machine.namespace().unwrap_or_default();
        let class = self.class_of(machine);
        let references = class
            .iter()
            .flat_map(|class| [&class.spec.secret_ref, &class.spec.credentials_secret_ref])
            .flatten();
        let secrets: Vec<Option<String>> = references
            .map(|reference| {
                let namespace = reference.namespace.clone().unwrap_or_else(|| namespace.clone());
                let key = Key::new("Secret", namespace, reference.name.clone().unwrap_or_default());
                self.caches.secrets.get(&key)?.resource_version()
            })
            .collect();
        let generation = class.as_ref().map(|class| class.metadata.generation);
        let timeout = machine.annotations().get(names::CREATION_TIMEOUT_ANNOTATION);
        format!("{:?} {timeout:?} {generation:?} {secrets:?}", machine.metadata.generation)
    }
}
