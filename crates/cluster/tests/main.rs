//! The parts of the cluster on the embedded API server, under paused time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "main/garbage.rs"]
mod garbage;
#[path = "main/namespaces.rs"]
mod namespaces;
#[path = "main/nodes.rs"]
mod nodes;
#[path = "main/repeatable.rs"]
mod repeatable;
#[path = "main/scheduling.rs"]
mod scheduling;
#[path = "main/sets.rs"]
mod sets;
#[path = "main/support.rs"]
mod support;
#[path = "main/workloads.rs"]
mod workloads;
