//! The front door for Gardener: `machine.sapcloud.io/v1alpha1` Machines become servers and nodes.
#![forbid(unsafe_code)]

pub mod api;
mod keep;
pub mod life;
mod machine;
mod metrics;
pub mod sets;

pub use hostler_node::Limits as DrainLimits;
pub use machine::{Parts, Target, run};
