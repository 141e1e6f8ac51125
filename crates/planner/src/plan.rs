//! What comes out.

use crate::model::{Cluster, Price, Time};
use crate::reason::{Explanation, Reason};
use serde::{Deserialize, Serialize};

/// Where a pod goes. Numbers are those of the input's lists, and of the plan's own machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    Node(usize),
    /// A machine in flight.
    Machine(usize),
    /// A machine of the plan.
    New(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub pod: usize,
    pub target: Target,
}

/// A machine to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMachine {
    pub group: usize,
    pub offering: usize,
}

impl NewMachine {
    pub fn price(self, cluster: &Cluster) -> Price {
        cluster.groups[self.group].offerings[self.offering].price
    }
}

/// What became of pods that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodsVerdict {
    pub pods: Vec<usize>,
    /// How many of them have a place; those come first.
    pub placed: usize,
    /// One for every group, or one for all where no node could help or none is needed.
    pub reasons: Vec<Explanation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleUp {
    pub machines: Vec<NewMachine>,
    /// In this order every binding obeys every rule.
    pub bindings: Vec<Binding>,
    /// Of all machines, per hour.
    pub price: Price,
    pub pods: Vec<PodsVerdict>,
    /// Why a group grows beyond what pods ask for.
    pub groups: Vec<Explanation>,
}

impl ScaleUp {
    /// Pods that find no place.
    pub fn unplaced(&self) -> Vec<usize> {
        self.pods.iter().flat_map(|verdict| &verdict.pods[verdict.placed..]).copied().collect()
    }
}

/// What to do with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Keep,
    /// Could go, and will when it was so for long enough.
    Unneeded {
        since: Time,
    },
    Remove,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVerdict {
    pub node: usize,
    pub fate: Fate,
    pub reason: Reason,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleDown {
    /// One for every node.
    pub nodes: Vec<NodeVerdict>,
    /// Nodes to give back, in this order.
    pub removed: Vec<usize>,
    /// Where the pods of removed nodes go, in the order of removal.
    pub moves: Vec<Binding>,
    /// Per hour.
    pub saved: Price,
}

/// Nodes to give back and what is bought for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consolidated {
    pub removed: Vec<usize>,
    pub machines: Vec<NewMachine>,
    pub moves: Vec<Binding>,
    pub saved: Price,
    pub nodes: Vec<NodeVerdict>,
}

/// What measured usage asks for, by group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageVerdict {
    pub group: usize,
    pub machines: Vec<NewMachine>,
    /// To be written down.
    pub hot_since: Option<Time>,
    pub reason: Reason,
}
