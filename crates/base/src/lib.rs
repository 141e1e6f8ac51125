//! The ground every other room stands on: time and durations, chance, back-off, and the one shape of an HTTP transport.
#![forbid(unsafe_code)]

mod backoff;
mod chance;
mod clock;
mod entropy;
mod go_duration;
pub mod transport;

pub use backoff::Backoff;
pub use chance::{Chance, stable_hash};
pub use clock::Clock;
pub use entropy::{Entropy, NoEntropy};
pub use go_duration::GoDuration;
pub use transport::{Body, BoxError, Transport};
