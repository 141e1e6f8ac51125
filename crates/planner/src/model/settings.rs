use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Pods below get no nodes, and what runs of them counts for nothing.
    pub priority_cutoff: i32,
    pub preferences: Preferences,
    /// If given, pods of other schedulers are left alone.
    pub schedulers: Option<Vec<String>>,
    /// Seconds a node may take to become ready and lose its start-up taints.
    pub startup_time: i64,
    /// The most all groups together may have of a resource; `nodes` is their number.
    pub limits: BTreeMap<String, i64>,
    pub margin: Margin,
    /// Pods per node where nothing else is known.
    pub default_pods: i64,
    /// A controller with fewer pods than this keeps the nodes they are on; not asked of Jobs.
    pub min_replicas: u32,
    /// With at most so many pending pods a bounded exhaustive search is tried after the quick one.
    pub search_pods: usize,
    /// Its steps.
    pub search_steps: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            priority_cutoff: -10,
            preferences: Preferences::Ignore,
            schedulers: None,
            startup_time: 900,
            limits: BTreeMap::new(),
            margin: Margin::default(),
            default_pods: 110,
            min_replicas: 0,
            search_pods: 12,
            search_steps: 20_000,
        }
    }
}

/// What soft constraints are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preferences {
    /// They buy no nodes, and are followed where that is free.
    #[default]
    Ignore,
    /// They are followed as if they were hard, and given up one by one where that fails.
    Respect,
}

/// What a node keeps for itself, as long as none of its offering was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Margin {
    pub cpu: i64,
    pub memory: i64,
    pub memory_percent: i64,
    pub ephemeral_percent: i64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { cpu: 100, memory: 200 << 20, memory_percent: 5, ephemeral_percent: 10 }
    }
}

impl Margin {
    pub fn none() -> Self {
        Self { cpu: 0, memory: 0, memory_percent: 0, ephemeral_percent: 0 }
    }
}
