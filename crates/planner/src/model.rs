//! What the planner looks at: plain structs, filled by whoever asks.

mod groups;
mod nodes;
mod pods;
mod settings;
mod storage;

pub use groups::{Consolidation, Group, Offering, ScaleDownPolicy, ScaleUpPolicy};
pub use nodes::{Effect, Machine, Node, Resources, Taint, Usage};
pub use pods::{
    Affinity, Container, DaemonSet, HostPort, Namespace, NodeAffinity, NodeTerm, Operator, Owner, OwnerKind,
    Phase, Pod, PodAffinity, PodSpec, PodTerm, Requirement, Selector, Spread, SpreadPolicy, Toleration,
    TolerationOperator, Verdict, Volume, VolumeSource, Weighted,
};
pub use settings::{Margin, Preferences, Settings};
pub use storage::{Claim, PersistentVolume, StorageClass};

use serde::{Deserialize, Serialize};

/// Seconds since the epoch.
pub type Time = i64;

/// Billionths of the currency per hour.
pub type Price = i64;

/// Label keys that every node has or that the planner gives to nodes that do not exist yet.
pub mod keys {
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    pub const REGION: &str = "topology.kubernetes.io/region";
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    pub const OS: &str = "kubernetes.io/os";
    pub const ARCH: &str = "kubernetes.io/arch";
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
}

/// Everything a decision is made from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    pub now: Time,
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    /// Machines that were asked for and are no nodes yet.
    pub machines: Vec<Machine>,
    pub groups: Vec<Group>,
    pub daemon_sets: Vec<DaemonSet>,
    pub budgets: Vec<Budget>,
    pub namespaces: Vec<Namespace>,
    pub claims: Vec<Claim>,
    pub volumes: Vec<PersistentVolume>,
    pub storage_classes: Vec<StorageClass>,
    pub settings: Settings,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub namespace: String,
    pub name: String,
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
}
