//! The client against small servers of the tests' own, and the driver against the simulated STACKIT.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "main/auth.rs"]
mod auth;
#[path = "main/boot_volumes.rs"]
mod boot_volumes;
#[path = "main/driver.rs"]
mod driver;
#[path = "main/endpoints.rs"]
mod endpoints;
#[path = "main/factory.rs"]
mod factory;
#[path = "main/metrics.rs"]
mod metrics;
#[path = "main/sending.rs"]
mod sending;
#[path = "main/servers.rs"]
mod servers;
#[path = "main/sharing.rs"]
mod sharing;
#[path = "main/stage.rs"]
mod stage;
#[path = "main/statuses.rs"]
mod statuses;
