//! What every controller needs.
//!
//! - [`queue`]: one ordered work queue with lanes, back-off and isolated panics;
//! - [`watch`]: objects followed into caches, waking keys of a queue;
//! - [`client`]: the layers every call goes through, over any transport;
//! - [`Election`] and [`Fence`]: one leader, and no late calls of a former one;
//! - [`Health`], [`Metrics`], [`Recorder`], [`Wait`]: how others see what is going on.
//!
//! Everything takes its time and chance from outside, iterates in a fixed order and owns its tasks: on one
//! thread under paused time the same seed gives the same calls.
#![forbid(unsafe_code)]

pub mod client;
mod events;
mod fence;
mod health;
mod key;
mod lean;
mod lease;
mod metrics;
mod profile;
pub mod queue;
mod waiting;
pub mod watch;

pub use client::{
    Rate, ReadOnly, StackOptions, behind_others, kube_client, stack, transport_apart, transport_to,
};
pub use events::{EventKind, EventOptions, EventWriter, LAST_EVENTS, Recorder};
pub use fence::{Fence, Fenced};
pub use health::Health;
pub use key::Key;
pub use lease::{Election, LeaseOptions, Led};
pub use metrics::{Metrics, QueueName, durations};
pub use queue::{Drained, LAST_RUNS, Lane, Outcome, Queue, QueueOptions, Reconciler, Run, Trouble};
pub use waiting::Wait;
pub use watch::{Cache, Change, Vitals, Watch, WatchOptions};
