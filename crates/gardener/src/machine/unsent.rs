//! Marks of orders that this process has written and never sent: the run that wrote one ended before, because a token
//! could not be made, say, or because the class was not kept for a moment. Nothing can come of them, so nobody waits
//! for what could.
//!
//! They are not written down: whoever comes after this process cannot know, and waits.

use super::Key;
use crate::life::AttemptMark;
use hostler_driver::Attempt;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The last mark of each Machine whose order has not been sent.
#[derive(Default)]
pub(super) struct Unsent(Mutex<BTreeMap<Key, Attempt>>);

impl Unsent {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the mark is written: a write may take effect and fail all the same.
    pub(super) fn note(&self, machine: Key, attempt: Attempt) {
        self.all().insert(machine, attempt);
    }

    /// To be called before the order is sent, and when the Machine is gone.
    pub(super) fn forget(&self, machine: &Key) {
        self.all().remove(machine);
    }

    pub(super) fn holds(&self, machine: &Key, mark: &AttemptMark) -> bool {
        self.all().get(machine) == Some(&mark.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_mark_that_was_not_sent_is_known() {
        let machine = |name: &str| Key::new("Machine", "shoot", name);
        let mark = |attempt: &str| AttemptMark {
            attempt: Attempt(attempt.to_owned()),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let unsent = Unsent::default();
        unsent.note(machine("a"), Attempt("first".to_owned()));
        unsent.note(machine("a"), Attempt("second".to_owned()));
        assert!(unsent.holds(&machine("a"), &mark("second")));
        // Somebody may have sent these.
        assert!(!unsent.holds(&machine("a"), &mark("first")));
        assert!(!unsent.holds(&machine("b"), &mark("second")));
        unsent.forget(&machine("a"));
        assert!(!unsent.holds(&machine("a"), &mark("second")));
    }
}
