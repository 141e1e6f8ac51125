//! The parts of the cluster on the embedded API server, under paused time.

#[path = "main/garbage.rs"]
mod garbage;
#[path = "main/namespaces.rs"]
mod namespaces;
#[path = "main/repeatable.rs"]
mod repeatable;
#[path = "main/scheduling.rs"]
mod scheduling;
#[path = "main/support.rs"]
mod support;
#[path = "main/workloads.rs"]
mod workloads;
