//! The driver against the simulated STACKIT.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/driver.rs"]
mod driver;
