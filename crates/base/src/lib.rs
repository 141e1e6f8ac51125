//! The ground every other room stands on: time, chance, back-off, and the one shape of an HTTP transport.
#![forbid(unsafe_code)]

mod backoff;
mod chance;
mod clock;
pub mod transport;

pub use backoff::Backoff;
pub use chance::Chance;
pub use clock::Clock;
pub use transport::{Body, BoxError, Transport};
