//! What is done to a Node before its machine goes: it is cordoned and drained, and its volumes are let go.
//!
//! A drain is no loop that somebody sits in. [`Drainer::look`] computes from what the cluster shows what the next
//! step is: one call or a set of evictions that do not depend on each other, or what is waited for. Whoever asked
//! carries the step out with [`Drainer::act`] and looks again, now or when the work queue is woken. A crash loses
//! nothing but how long something has been waited for.
//!
//! One [`Drainer`] serves all drains of a cluster: one watch per kind, indexed by node, and one ledger of what
//! disruption budgets still allow.
#![forbid(unsafe_code)]

mod drain;
mod drainer;
mod grouped;
mod health;
mod node;
mod objects;
mod watches;

pub use drain::{
    Act, Cleared, Drained, Failing, IsMeant, Limits, Order, PodId, Removal, Remove, Step, Waiting,
};
pub use drainer::{Drainer, Parts};
pub use health::{Forced, is_ready};
pub use node::{Node, NodeSpec, NodeStatus};
pub use objects::{Volume, VolumeSource};
pub use watches::Watches;
