use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// How API servers are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezeOptions {
    /// How often they are asked.
    pub period: Duration,
    /// How long one may give no answer; not longer than the period.
    pub timeout: Duration,
}

impl Default for FreezeOptions {
    fn default() -> Self {
        Self { period: Duration::from_mins(1), timeout: Duration::from_secs(30) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Up,
    /// One of them gives no answer since then.
    Down(Timestamp),
    /// The same, and machines are left alone.
    Frozen(Timestamp),
}

/// What follows from an answer, or from none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) state: State,
    /// What happened since then, while nobody could tell, must not count against machines.
    pub(super) thaws: Option<Timestamp>,
    pub(super) again: Duration,
}

pub(super) fn decide(state: State, up: bool, now: Timestamp, options: FreezeOptions) -> Verdict {
    let timeout = SignedDuration::try_from(options.timeout).unwrap_or(SignedDuration::MAX);
    let state_now = match state {
        _ if up => State::Up,
        State::Up => State::Down(now),
        State::Down(since) if now.duration_since(since) > timeout => State::Frozen(since),
        // A clock that was set back.
        State::Down(since) if since > now => State::Down(now),
        other => other,
    };
    let again = if matches!(state_now, State::Down(_)) { options.timeout / 5 } else { options.period };
    let thaws = match state {
        State::Frozen(since) if up => Some(since),
        _ => None,
    };
    Verdict { state: state_now, thaws, again: again.max(Duration::from_millis(100)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_down_for_long_freezes_and_one_that_is_up_thaws() {
        let at = |second| Timestamp::from_second(second).unwrap();
        // before, up, at which second; after, thaws, look again after seconds
        let table = [
            (State::Up, true, 0, State::Up, None, 60),
            (State::Up, false, 100, State::Down(at(100)), None, 6),
            (State::Down(at(100)), false, 106, State::Down(at(100)), None, 6),
            (State::Down(at(100)), false, 130, State::Down(at(100)), None, 6),
            (State::Down(at(100)), false, 131, State::Frozen(at(100)), None, 60),
            (State::Down(at(100)), false, 50, State::Down(at(50)), None, 6),
            (State::Down(at(100)), true, 131, State::Up, None, 60),
            (State::Frozen(at(100)), false, 500, State::Frozen(at(100)), None, 60),
            (State::Frozen(at(100)), true, 500, State::Up, Some(at(100)), 60),
        ];
        for (before, up, second, after, thaws, again) in table {
            let verdict = decide(before, up, at(second), FreezeOptions::default());
            let expected = Verdict { state: after, thaws, again: Duration::from_secs(again) };
            assert_eq!(verdict, expected, "{before:?} {up} {second}");
        }
    }
}
