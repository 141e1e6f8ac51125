use super::{LOOK_AGAIN, Observed};
use hostler_driver::{Attempt, Evidence};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// How long after an attempt was marked its create call may be sent. A run that was held up longer marks a new one.
pub const SEND_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How long the cloud may take to act on a create call after it was sent; calls are cut off before.
pub const CALL_LIMIT: SignedDuration = SignedDuration::from_secs(50);

/// The mark of a create call, written on the VPSieNode before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptMark {
    pub attempt: Attempt,
    pub at: Timestamp,
}

impl AttemptMark {
    /// The annotation's value.
    pub fn render(&self) -> String {
        format!("{}@{}", self.attempt.0, self.at)
    }

    /// A text that nobody can read may stand for a call all the same: it is taken for one of that moment.
    pub fn read(text: &str, otherwise: Timestamp) -> Self {
        let (mark, at) = text.split_once('@').unwrap_or((text, ""));
        Self { attempt: Attempt(mark.to_owned()), at: at.parse().unwrap_or(otherwise) }
    }

    /// Its call may be sent now.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.at <= now && now.duration_since(self.at) <= SEND_WITHIN
    }

    /// Whether the clock was set back since, or was wrong when it was made: when its call was sent is not known.
    pub(super) fn is_from_the_future(&self, now: Timestamp) -> bool {
        self.at > now
    }

    /// Whether a list shows that its call made no VPS. Who came before this process may have marked by a clock that was
    /// behind, but calls nobody any more.
    pub(super) fn is_ruled_out(&self, evidence: &Evidence, seen: &Observed) -> bool {
        evidence.rules_out_attempt(self.at, horizon(SEND_WITHIN.saturating_add(CALL_LIMIT), seen))
            && evidence.rules_out_attempt(seen.started_at, horizon(CALL_LIMIT, seen))
    }

    /// How long until a list can rule it out, as far as is worth waiting without a look.
    pub(super) fn wait(&self, seen: &Observed) -> Duration {
        let until = |since: Timestamp, call: SignedDuration| {
            let whole = SignedDuration::try_from(horizon(call, seen)).unwrap_or(SignedDuration::MAX);
            whole.saturating_sub(seen.now.duration_since(since))
        };
        let by_mark = until(self.at, SEND_WITHIN.saturating_add(CALL_LIMIT));
        let by_start = until(seen.started_at, CALL_LIMIT);
        let longest = by_mark.max(by_start).max(SignedDuration::ZERO).unsigned_abs();
        longest.clamp(Duration::from_secs(1), LOOK_AGAIN)
    }
}

fn horizon(call: SignedDuration, seen: &Observed) -> Duration {
    call.unsigned_abs().saturating_add(seen.list_lag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_text_is_no_mark() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mark = AttemptMark { attempt: Attempt("x1".into()), at: at(100) };
        assert_eq!(AttemptMark::read(&mark.render(), at(7)), mark);
        for text in ["x1", "x1@", "x1@yesterday"] {
            assert_eq!(AttemptMark::read(text, at(7)), AttemptMark { at: at(7), ..mark.clone() }, "{text}");
        }
        for (second, fresh) in [(99, false), (100, true), (110, true), (111, false)] {
            assert_eq!(mark.is_fresh(at(second)), fresh, "{second}");
        }
    }
}
