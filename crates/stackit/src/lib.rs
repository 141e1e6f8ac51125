//! STACKIT: a typed client of its IaaS API and the [`hostler_driver::Driver`] on top of it.
#![forbid(unsafe_code)]

mod client;
mod driver;
mod failure;
mod poller;
mod spec;
pub mod wire;

pub use client::{Client, Place};
pub use driver::{StackitDriver, StackitFactory};
pub use failure::failure_of;
pub use spec::{ProviderSpec, Settings};

/// Labels on every server of ours, as the Go provider writes them.
pub mod labels {
    pub const MACHINE: &str = "kubernetes.io/machine";
    pub const MACHINE_CLASS: &str = "kubernetes.io/machineclass";
    /// A label whose key ends in this names the cluster a server belongs to.
    pub const CLUSTER_SUFFIX: &str = "/cluster";
    /// The create call a server came from.
    pub const ATTEMPT: &str = "hostler.dev/create-attempt";
}
