//! When pods that wait are looked at together: soon after the last of them came, and never long after the first.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// So long nothing more has to come.
pub const QUIET: Duration = Duration::from_millis(200);
/// So long after the first one nobody waits for more.
pub const LONGEST: Duration = Duration::from_secs(1);

/// What came since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    came: Option<(Timestamp, Timestamp)>,
}

impl Batch {
    /// Something came. A clock that was set back begins anew.
    pub fn note(&mut self, now: Timestamp) {
        let first = self.came.map_or(now, |(first, _)| first.min(now));
        self.came = Some((first, now));
    }

    /// How long until the look; nothing if nothing came.
    pub fn due_in(&self, now: Timestamp) -> Option<Duration> {
        let (first, last) = self.came?;
        let left = |since: Timestamp, whole: Duration| {
            let passed = now.duration_since(since).max(SignedDuration::ZERO).unsigned_abs();
            whole.saturating_sub(passed)
        };
        Some(left(last, QUIET).min(left(first, LONGEST)))
    }

    /// The look: what came until now is in it.
    pub fn take(&mut self) {
        self.came = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn quiet_ends_a_batch_and_so_does_a_second() {
        // when they come, when it is asked, how long is left
        let table: [(&[i64], i64, Option<u64>); 8] = [
            (&[], 0, None),
            (&[0], 0, Some(200)),
            (&[0], 150, Some(50)),
            (&[0], 200, Some(0)),
            (&[0, 100], 150, Some(150)),
            (&[0, 150, 300, 450, 600, 750, 900], 900, Some(100)),
            (&[0, 150, 300, 450, 600, 750, 900, 1000], 1000, Some(0)),
            (&[500, 0], 0, Some(200)),
        ];
        for (came, asked, left) in table {
            let mut batch = Batch::default();
            for millis in came {
                batch.note(at(*millis));
            }
            assert_eq!(batch.due_in(at(asked)), left.map(Duration::from_millis), "{came:?} {asked}");
        }
        let mut batch = Batch::default();
        batch.note(at(0));
        batch.take();
        assert_eq!(batch.due_in(at(5)), None);
    }
}
