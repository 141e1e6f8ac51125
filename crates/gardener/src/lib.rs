//! The front door for Gardener: `machine.sapcloud.io/v1alpha1` Machines become servers and nodes.
#![forbid(unsafe_code)]

pub mod api;
mod clouds;
mod duration;
mod freeze;
mod keep;
pub mod life;
mod machine;
mod metrics;
mod options;
mod orphans;
pub mod sets;
mod unmanaged;

pub use freeze::FreezeOptions;
pub use hostler_node::Limits as DrainLimits;
pub use machine::{Parts, Target, run};
pub use metrics::metrics;
pub use options::Options;
pub use orphans::OrphanOptions;
