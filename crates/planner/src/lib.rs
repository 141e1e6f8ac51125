//! Which nodes for these pods, which nodes to give back, and why.
//!
//! Pure functions over plain structs: [`model::Cluster`] goes in, a plan with a reason for every pod and group comes
//! out, and the same input gives the same output. Nothing here knows a Kubernetes client or a cloud.
//!
//! - [`scale_up`]: machines to create for the pods that wait, and an order in which every binding obeys every rule of
//!   the scheduler.
//! - [`scale_down`]: nodes to give back, with a place elsewhere for each of their pods, and why the others stay.
//! - [`consolidate`]: nodes to give back because the same pods can be had for less, and the machines to buy first.
//! - [`usage()`]: machines for groups whose measured usage is above their thresholds.
//! - [`objections`]: why a pod cannot go to each node, as things are.
//!
//! A board (`board`) is the cluster as numbers, a state (`state`) is what is where and takes back what was tried; `pack`,
//! `pattern` and `search` are three ways to serve pods that wait, `clear` and `evict` are what it takes to empty a node.
#![forbid(unsafe_code)]

mod board;
mod clear;
mod consolidate;
mod down;
mod evict;
mod intern;
mod judge;
mod market;
pub mod model;
mod pack;
mod pattern;
mod plan;
mod populate;
mod reason;
mod regrow;
mod requests;
mod search;
mod select;
mod state;
mod up;
mod usage;

pub use consolidate::{consolidate, consolidate_while};
pub use down::scale_down;
pub use judge::objections;
pub use plan::{
    Binding, Consolidated, Fate, NewMachine, NodeVerdict, PodsVerdict, Replacement, ScaleDown, ScaleUp,
    Target, UsageVerdict,
};
pub use reason::{Explanation, Reason, Subject};
pub use requests::effective as effective_requests;
pub use up::scale_up;
pub use usage::usage;
