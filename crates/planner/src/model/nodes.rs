use super::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Amounts: CPU in thousandths, everything else in its own unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// How many pods; what a pod asks for here is not read, each counts as one.
    pub pods: i64,
    /// Extended resources and huge pages.
    pub extended: BTreeMap<String, i64>,
}

impl Resources {
    pub fn new(cpu: i64, memory: i64) -> Self {
        Self { cpu, memory, ..Self::default() }
    }

    pub fn with_pods(mut self, pods: i64) -> Self {
        self.pods = pods;
        self
    }

    pub fn with(mut self, name: &str, amount: i64) -> Self {
        self.extended.insert(name.to_owned(), amount);
        self
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    #[default]
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

impl Taint {
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), effect }
    }
}

/// Measured use, the mean over the window of whoever measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu: i64,
    pub memory: i64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
    pub ready: bool,
    /// Cordoned.
    pub unschedulable: bool,
    /// On its way out: its pods are looked after as if they were pending, and nothing is put on it.
    pub draining: bool,
    pub created: Time,
    pub group: Option<String>,
    pub offering: Option<String>,
    /// How many volumes a driver can attach here.
    pub attach_limits: BTreeMap<String, i64>,
    pub usage: Option<Usage>,
    /// Since when it was found not to be needed; the planner says what to write.
    pub unneeded_since: Option<Time>,
    /// When it was last part of a consolidation, as source or destination.
    pub consolidated: Option<Time>,
    /// Bought by the usage trigger.
    pub bought_by_usage: bool,
}

/// A machine in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub name: String,
    pub group: String,
    pub offering: String,
    pub zone: Option<String>,
    /// A machine that failed counts for nothing but the group's size.
    pub failed: bool,
}
