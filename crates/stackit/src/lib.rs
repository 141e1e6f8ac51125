//! STACKIT: a typed client of its IaaS API and the [`hostler_driver::Driver`] on top of it.
#![forbid(unsafe_code)]

mod auth;
mod cidr;
mod client;
mod driver;
mod environment;
mod factory;
mod failure;
pub mod labels;
mod limit;
mod listing;
mod metrics;
mod poller;
mod remains;
mod settings;
mod spec;
pub mod status;
pub mod wire;

pub use auth::{Authorisation, KeyFlow, ServiceAccountKey};
pub use client::{Api, ApiVersion, Client, ConsoleLines, Place, Reboot};
pub use driver::StackitDriver;
pub use environment::{Authentication, Environment};
pub use factory::StackitFactory;
pub use failure::{failure_of, is_about_capacity};
pub use hostler_driver::client::{Purpose, Surroundings};
pub use labels::LabelNames;
pub use limit::Limit;
pub use metrics::ApiMetrics;
pub use settings::{Defaults, Grant, Settings};
pub use spec::{NetworkingSpec, ProviderSpec};
