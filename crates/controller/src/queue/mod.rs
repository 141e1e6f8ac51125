//! One work queue for everything a controller does.
//!
//! [`Schedule`] is the plain data structure: who is due when, in which lane, how often it failed. [`Queue`] is
//! the handle through which keys are woken, [`Queue::run`] the loop that runs a [`Reconciler`] for them.

mod runner;
mod schedule;

pub use runner::{Drained, LAST_RUNS, Queue, QueueOptions, Reconciler, Run};
pub use schedule::{Ending, Lane, Schedule, Start};

use std::{fmt, time::Duration};

/// How a run ended when nothing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something wakes the key.
    Done,
    /// Look again after this time at the latest.
    After(Duration),
    /// Something outside must happen first. The reason is what the front door wrote down (see
    /// [`crate::Wait`]); `check` is when to look again even if nothing wakes the key.
    Wait { reason: &'static str, check: Option<Duration> },
}

impl Outcome {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::After(_) => "after",
            Self::Wait { .. } => "wait",
        }
    }
}

/// How a run ended when something went wrong.
#[derive(Debug)]
pub struct Trouble {
    error: Box<dyn std::error::Error + Send + Sync>,
    after: Option<Duration>,
}

impl Trouble {
    /// Trouble that is tried again after the key's back-off.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { error: error.into(), after: None }
    }

    /// Trouble for which someone else decided when to try again, for example a table over failure codes.
    pub fn after(error: impl Into<Box<dyn std::error::Error + Send + Sync>>, delay: Duration) -> Self {
        Self { error: error.into(), after: Some(delay) }
    }

    pub fn delay(&self) -> Option<Duration> {
        self.after
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
