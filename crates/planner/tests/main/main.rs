//! The planner as its users see it.
#![allow(clippy::wildcard_imports, clippy::unwrap_used)] // The whole model is what is talked about.

mod as_the_scheduler;
mod busy;
mod checker;
mod consolidating;
mod day;
mod exhaustive;
mod generate;
mod giving_back;
mod moments;
mod promises;
mod properties;
mod reasons;
mod replay;
mod sizes;
