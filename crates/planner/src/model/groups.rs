use super::{Price, Resources, Taint, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes that are made alike and counted together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    pub name: String,
    pub min: u32,
    pub max: u32,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Taints that a node loses while it starts.
    pub startup_taints: Vec<Taint>,
    pub offerings: Vec<Offering>,
    /// Name of the offering that wins a tie in price.
    pub preferred: Option<String>,
    /// Whether nodes of several types may live in the group.
    pub mixing: bool,
    /// The most the whole group may have of a resource, by name (`cpu` in thousandths).
    pub limits: BTreeMap<String, i64>,
    pub scale_up: ScaleUpPolicy,
    pub scale_down: ScaleDownPolicy,
    pub consolidation: Consolidation,
    /// Neither grows nor shrinks.
    pub paused: bool,
    pub last_scale_up: Option<Time>,
    pub last_scale_down: Option<Time>,
    /// When a consolidation last took nodes of it.
    pub last_consolidation: Option<Time>,
    /// When one was last followed by a purchase; the planner says when that is.
    pub regretted: Option<Time>,
    /// Since when measured usage is above a threshold; the planner says what to write.
    pub hot_since: Option<Time>,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            name: String::new(),
            min: 0,
            max: u32::MAX,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            offerings: Vec::new(),
            preferred: None,
            mixing: false,
            limits: BTreeMap::new(),
            scale_up: ScaleUpPolicy::default(),
            scale_down: ScaleDownPolicy::default(),
            consolidation: Consolidation::default(),
            paused: false,
            last_scale_up: None,
            last_scale_down: None,
            last_consolidation: None,
            regretted: None,
            hot_since: None,
        }
    }
}

/// A type in a zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Offering {
    pub name: String,
    pub zone: Option<String>,
    /// The plan's size. What nodes of this offering were seen to have is read from the nodes themselves.
    pub capacity: Resources,
    /// What a node is known to have; without it the size less a margin.
    pub allocatable: Option<Resources>,
    pub price: Price,
    pub available: bool,
    pub labels: BTreeMap<String, String>,
    pub attach_limits: BTreeMap<String, i64>,
}

impl Default for Offering {
    fn default() -> Self {
        Self {
            name: String::new(),
            zone: None,
            capacity: Resources::default(),
            allocatable: None,
            price: 0,
            available: true,
            labels: BTreeMap::new(),
            attach_limits: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaleUpPolicy {
    pub enabled: bool,
    /// Seconds: pause after a scale-up, and how long usage must stay above a threshold.
    pub window: i64,
    /// Percent of measured usage; zero rests.
    pub cpu_threshold: i64,
    pub memory_threshold: i64,
}

impl Default for ScaleUpPolicy {
    fn default() -> Self {
        Self { enabled: true, window: 60, cpu_threshold: 80, memory_threshold: 80 }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaleDownPolicy {
    pub enabled: bool,
    /// Seconds to wait after any scaling of the group.
    pub window: i64,
    pub cpu_threshold: i64,
    pub memory_threshold: i64,
    /// Seconds a node must have been unneeded.
    pub unneeded_time: i64,
    /// Seconds to wait after the group gave nodes back, where that is longer than the window.
    pub cooldown: i64,
}

impl Default for ScaleDownPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            window: 600,
            cpu_threshold: 50,
            memory_threshold: 50,
            unneeded_time: 600,
            cooldown: 0,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Consolidation {
    pub enabled: bool,
    /// Percent of the price of what is given back.
    pub minimum_saving: i64,
    /// What one eviction must save at least, per hour.
    pub saving_per_pod: Price,
    /// Seconds a node is left alone after it was part of one, and after it came.
    pub pause: i64,
    /// Seconds a group is left alone when machines had to be bought within the pause after one: the scheduler puts pods
    /// where it likes, and what it does once it will do again.
    pub regret: i64,
}

impl Default for Consolidation {
    fn default() -> Self {
        Self { enabled: false, minimum_saving: 15, saving_per_pod: 0, pause: 3600, regret: 86_400 }
    }
}
