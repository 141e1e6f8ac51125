//! STACKIT: a typed client of its IaaS API and the [`hostler_driver::Driver`] on top of it.
#![forbid(unsafe_code)]

mod auth;
mod client;
mod driver;
mod environment;
mod factory;
mod failure;
mod limit;
mod poller;
mod settings;
mod spec;
pub mod status;
pub mod wire;

pub use auth::{Authorisation, KeyFlow, ServiceAccountKey};
pub use client::{Api, ApiVersion, Client, ConsoleLines, OperationName, Place, Reboot, Surroundings};
pub use driver::StackitDriver;
pub use environment::{Authentication, Environment};
pub use factory::StackitFactory;
pub use failure::{Purpose, failure_of, is_about_capacity};
pub use limit::Limit;
pub use settings::{Defaults, Grant, Settings};
pub use spec::{NetworkingSpec, ProviderSpec};

/// Labels on every server of ours, as the Go provider writes them.
pub mod labels {
    pub const MACHINE: &str = "kubernetes.io/machine";
    pub const MACHINE_CLASS: &str = "kubernetes.io/machineclass";
    /// A label whose key ends in this names the cluster a server belongs to.
    pub const CLUSTER_SUFFIX: &str = "/cluster";
    /// The create call a server came from.
    pub const ATTEMPT: &str = "hostler.dev/create-attempt";
}
