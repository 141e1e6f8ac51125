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
    /// What serves as many pods without one of the types that are bought, and its price. Not looked for where there are
    /// many pods or types.
    pub runner_up: Option<Reason>,
    /// Groups that were consolidated a moment ago, and now machines are bought for pods:
    /// [`regretted`](crate::model::Group::regretted) is written for them.
    pub regrets: Vec<usize>,
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

/// Nodes to give back, and what is bought for it.
///
/// Whoever carries a plan out takes one step after the other. A step is worth its while by itself, but what is behind it
/// was planned with it in mind: if one fails, the rest is planned anew.
///
/// From the moment a step is accepted its nodes are [`draining`](crate::model::Node::draining) for the planner, and its
/// machines are in flight: then the pods that will move keep the room that was found for them, the scale-up sees that
/// they need nothing more, or buys for them should a machine never come, and nobody plans for these nodes twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consolidated {
    pub steps: Vec<Replacement>,
    /// Of all steps.
    pub machines: Vec<NewMachine>,
    /// Per hour, by all steps.
    pub saved: Price,
    /// One for every node.
    pub nodes: Vec<NodeVerdict>,
}

impl Consolidated {
    /// Nodes that take part, and are to be left alone for a while: [`consolidated`](crate::model::Node::consolidated) is
    /// written on them.
    pub fn touched(&self) -> std::collections::BTreeSet<usize> {
        let targets =
            self.steps.iter().flat_map(|step| &step.moves).filter_map(|binding| match binding.target {
                Target::Node(node) => Some(node),
                Target::Machine(_) | Target::New(_) => None,
            });
        self.steps.iter().flat_map(|step| &step.removed).copied().chain(targets).collect()
    }
}

/// First all its machines are created; once they are ready, and not before, its nodes are emptied and given back. What a
/// group may have at most holds in between too, while the old and the new are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// By their numbers in the plan.
    pub machines: Vec<usize>,
    pub removed: Vec<usize>,
    /// Where the pods of these nodes go. In this order every one obeys every rule, once all these pods are off their
    /// nodes and the machines are there.
    pub moves: Vec<Binding>,
    /// Per hour.
    pub saved: Price,
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
