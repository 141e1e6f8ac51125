use hostler_base::Clock;
use jiff::{SignedDuration, Timestamp};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Who may change something now. A call that changes something is sent only while the lease is held for at
/// least as long as the call may take: else it could take effect when another process leads already.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// There is no election.
    Open,
    /// Held until then. The time of day counts too: a process that was frozen together with its machine may
    /// find its monotonic clock where it left it.
    Until(Instant, Timestamp),
    Closed,
}

/// A call was not sent because it might have come too late.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this process holds the leader lease for another {left:?}, but the call may take {needed:?}; \
     another replica may lead by then"
)]
pub struct Fenced {
    pub left: Duration,
    pub needed: Duration,
}

impl Fence {
    /// A fence that refuses nothing, for processes without an election.
    pub fn open(clock: Clock) -> Self {
        Self { clock, state: Arc::new(Mutex::new(State::Open)) }
    }

    /// A fence that refuses everything until [`Fence::extend`].
    pub fn closed(clock: Clock) -> Self {
        Self { clock, state: Arc::new(Mutex::new(State::Closed)) }
    }

    /// Lets calls through that end before `start + duration`. `start` and `start_of_day` are the same moment,
    /// read before the lease was asked for.
    pub fn extend(&self, start: Instant, start_of_day: Timestamp, duration: Duration) {
        let length = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let day = start_of_day.saturating_add(length).unwrap_or(Timestamp::MAX);
        *self.state() = State::Until(start + duration, day);
    }

    /// Refuses every call from now on.
    pub fn close(&self) {
        *self.state() = State::Closed;
    }

    /// How long calls may still take; nothing means for ever.
    pub fn left(&self) -> Option<Duration> {
        match *self.state() {
            State::Open => None,
            State::Closed => Some(Duration::ZERO),
            State::Until(until, day) => {
                let left = until.saturating_duration_since(self.clock.instant());
                let left_of_day =
                    Duration::try_from(day.duration_since(self.clock.now())).unwrap_or_default();
                Some(left.min(left_of_day))
            }
        }
    }

    /// Whether a call that may take `needed` may be sent.
    pub fn check(&self, needed: Duration) -> Result<(), Fenced> {
        match self.left() {
            Some(left) if left < needed || left.is_zero() => Err(Fenced { left, needed }),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> Clock {
        Clock::starting_at(Timestamp::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_needs_its_whole_time_on_the_lease() {
        let clock = clock();
        let fence = Fence::closed(clock.clone());
        assert!(fence.check(Duration::ZERO).is_err());
        fence.extend(clock.instant(), clock.now(), SECOND * 15);
        let table = [(0, 10, true), (5, 10, true), (6, 10, false), (14, 1, true), (15, 0, false)];
        let mut passed = 0;
        for (at, needed, sent) in table {
            clock.sleep(SECOND * (at - passed)).await;
            passed = at;
            assert_eq!(fence.check(SECOND * needed).is_ok(), sent, "second {at}, needs {needed}");
        }
        let refused = fence.check(SECOND).unwrap_err().to_string();
        assert!(
            refused.contains("holds the leader lease for another 0ns, but the call may take 1s"),
            "{refused}"
        );
        fence.extend(clock.instant(), clock.now(), SECOND * 15);
        assert!(fence.check(SECOND).is_ok());
        fence.close();
        assert!(fence.check(SECOND).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_monotonic_clock_does_not_keep_it_open() {
        let clock = clock();
        let fence = Fence::closed(clock.clone());
        let a_minute_ago = clock.now() - SignedDuration::from_mins(1);
        fence.extend(clock.instant(), a_minute_ago, SECOND * 15);
        assert!(fence.check(SECOND).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_nothing_is_refused() {
        let fence = Fence::open(clock());
        assert_eq!(fence.left(), None);
        assert!(fence.check(Duration::MAX).is_ok());
    }
}
