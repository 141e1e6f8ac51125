//! Which nodes for these pods, which nodes to give back, and why.
//!
//! Pure functions over plain structs: [`model::Cluster`] goes in, a plan with a reason for every pod and group comes
//! out, and the same input gives the same output. Nothing here knows a Kubernetes client or a cloud.
//!
//! - [`scale_up`]: machines to create for the pods that wait, and an order in which every binding obeys every rule of
//!   the scheduler.
//! - [`scale_down`]: nodes to give back, with a place elsewhere for each of their pods, and why the others stay.
//! - [`usage()`]: machines for groups whose measured usage is above their thresholds.
//! - [`objections`]: why a pod cannot go to each node, as things are.
//!
//! Consolidation by replacement is not here yet.
#![forbid(unsafe_code)]

mod board;
mod down;
mod intern;
mod judge;
mod market;
pub mod model;
mod pack;
mod pattern;
mod plan;
mod populate;
mod reason;
mod requests;
mod search;
mod select;
mod state;
mod up;
mod usage;

pub use down::scale_down;
pub use judge::objections;
pub use plan::{
    Binding, Consolidated, Fate, NewMachine, NodeVerdict, PodsVerdict, ScaleDown, ScaleUp, Target,
    UsageVerdict,
};
pub use reason::{Explanation, Reason, Subject};
pub use requests::effective as effective_requests;
pub use up::scale_up;
pub use usage::usage;
