//! The client and the driver against a small server of the tests' own, and against the simulated VPSie.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "main/auth.rs"]
mod auth;
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
#[path = "main/simulated.rs"]
mod simulated;
#[path = "main/stage.rs"]
mod stage;
