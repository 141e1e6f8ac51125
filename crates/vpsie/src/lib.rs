//! VPSie: a typed client of its API and the [`hostler_driver::Driver`] on top of it.
#![forbid(unsafe_code)]

mod auth;
mod base;
mod breaker;
mod catalogue;
mod client;
mod driver;
mod factory;
mod failure;
mod limit;
pub mod marks;
mod metrics;
mod poller;
mod queue;
mod settings;
mod spec;
pub mod status;
pub mod wire;

pub use base::{BaseUrl, DEFAULT_URL};
pub use catalogue::{Catalogue, Choice, Kind, Named, What};
pub use client::Client;
pub use driver::VpsieDriver;
pub use factory::{Account, VpsieFactory};
pub use failure::{failure_of, text};
pub use marks::NodeIdentity;
pub use metrics::ApiMetrics;
pub use settings::{Grant, Hints, Settings};
pub use spec::ProviderSpec;
