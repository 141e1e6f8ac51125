//! The toolkit at work: against the embedded API server, under paused time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

#[path = "main/determinism.rs"]
mod determinism;
#[path = "main/events.rs"]
mod events;
#[path = "main/health.rs"]
mod health;
#[path = "main/leading.rs"]
mod leading;
#[path = "main/lease.rs"]
mod lease;
#[path = "main/queue.rs"]
mod queue;
#[path = "main/stack.rs"]
mod stack;
#[path = "main/support.rs"]
mod support;
#[path = "main/watch.rs"]
mod watch;
