//! Calls are held back while VPSie does not answer: each would only wait for nothing, and make it worse.

use hostler_base::Clock;
use hostler_driver::{Code, Failure};
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// After so many failures in a row nothing is sent.
const FAILURES: u32 = 5;
/// For so long; then one call is tried.
const OPEN_FOR: Duration = Duration::from_secs(30);
/// So many of those must succeed before all may call again.
const SUCCESSES: u32 = 2;

pub struct Breaker {
    clock: Clock,
    circuit: Mutex<Circuit>,
}

/// A call that was let through. It says what became of it, or that nobody waited for it any longer.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    /// The state it was let through in: what it brings is no news to a later one.
    epoch: u64,
    outcome: Option<bool>,
}

impl Breaker {
    pub fn new(clock: Clock) -> Self {
        Self { clock, circuit: Mutex::new(Circuit::default()) }
    }

    pub(crate) fn admit(&self) -> Result<Permit<'_>, Failure> {
        let epoch = self.with(Circuit::admit);
        epoch.map(|epoch| Permit { breaker: self, epoch, outcome: None }).ok_or_else(|| {
            Failure::new(
                Code::Unavailable,
                format!(
                    "VPSie has not answered {FAILURES} calls in a row: it is asked again within half a minute"
                ),
            )
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Circuit, Instant) -> T) -> T {
        let now = self.clock.instant();
        change(&mut self.circuit.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

impl Permit<'_> {
    /// VPSie answered, whatever it said; a failure of its own is none.
    pub(crate) fn ended(mut self, answered: bool) {
        self.outcome = Some(answered);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let (epoch, outcome) = (self.epoch, self.outcome);
        self.breaker.with(|circuit, now| circuit.ended(epoch, outcome, now));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { probing: bool, successes: u32 },
}

#[derive(Debug)]
struct Circuit {
    state: State,
    /// How often the state has changed.
    epoch: u64,
}

impl Default for Circuit {
    fn default() -> Self {
        Self { state: State::Closed { failures: 0 }, epoch: 0 }
    }
}

impl Circuit {
    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }

    fn admit(&mut self, now: Instant) -> Option<u64> {
        if let State::Open { until } = self.state
            && now >= until
        {
            self.enter(State::HalfOpen { probing: false, successes: 0 });
        }
        match &mut self.state {
            State::Closed { .. } => Some(self.epoch),
            State::HalfOpen { probing, .. } if !*probing => {
                *probing = true;
                Some(self.epoch)
            }
            State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    fn ended(&mut self, epoch: u64, answered: Option<bool>, now: Instant) {
        if epoch != self.epoch {
            return;
        }
        let open = State::Open { until: now + OPEN_FOR };
        match (&mut self.state, answered) {
            (State::Closed { failures }, Some(true)) => *failures = 0,
            (State::Closed { failures }, Some(false)) => {
                *failures += 1;
                if *failures >= FAILURES {
                    self.enter(open);
                }
            }
            (State::HalfOpen { probing, successes }, Some(true)) => {
                *probing = false;
                *successes += 1;
                if *successes >= SUCCESSES {
                    self.enter(State::Closed { failures: 0 });
                }
            }
            (State::HalfOpen { .. }, Some(false)) => self.enter(open),
            (State::HalfOpen { probing, .. }, None) => *probing = false,
            (State::Closed { .. } | State::Open { .. }, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn breaker() -> (Clock, Breaker) {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        (clock.clone(), Breaker::new(clock))
    }

    fn calls(breaker: &Breaker, answered: bool, times: u32) {
        for _ in 0..times {
            breaker.admit().ok().unwrap().ended(answered);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_only() {
        let (clock, breaker) = breaker();
        calls(&breaker, false, FAILURES - 1);
        calls(&breaker, true, 1);
        calls(&breaker, false, FAILURES);
        let failure = breaker.admit().err().unwrap();
        assert_eq!(failure.code, Code::Unavailable);
        clock.sleep(OPEN_FOR.saturating_sub(Duration::from_millis(1))).await;
        assert!(breaker.admit().is_err());
        clock.sleep(Duration::from_millis(1)).await;
        assert!(breaker.admit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_tries_until_two_have_succeeded() {
        let (clock, breaker) = breaker();
        calls(&breaker, false, FAILURES);
        clock.sleep(OPEN_FOR).await;
        let probe = breaker.admit().ok().unwrap();
        assert!(breaker.admit().is_err(), "one at a time");
        probe.ended(true);
        let probe = breaker.admit().ok().unwrap();
        assert!(breaker.admit().is_err(), "one success is not enough");
        probe.ended(true);
        calls(&breaker, false, FAILURES - 1);
        assert!(breaker.admit().is_ok(), "it counts anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_fails_opens_it_again_and_one_that_is_given_up_gives_way() {
        let (clock, breaker) = breaker();
        calls(&breaker, false, FAILURES);
        clock.sleep(OPEN_FOR).await;
        drop(breaker.admit().ok().unwrap());
        breaker.admit().ok().unwrap().ended(false);
        assert!(breaker.admit().is_err());
        clock.sleep(OPEN_FOR).await;
        calls(&breaker, true, SUCCESSES);
        assert!(breaker.admit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_before_says_nothing_about_later() {
        let (clock, breaker) = breaker();
        let early: Vec<Permit<'_>> = (0..20).map(|_| breaker.admit().ok().unwrap()).collect();
        calls(&breaker, false, FAILURES);
        clock.sleep(OPEN_FOR).await;
        let probe = breaker.admit().ok().unwrap();
        for (at, permit) in early.into_iter().enumerate() {
            permit.ended(at % 2 == 0);
        }
        assert!(breaker.admit().is_err(), "the probe is still under way");
        probe.ended(true);
        assert!(breaker.admit().is_ok());
    }
}
