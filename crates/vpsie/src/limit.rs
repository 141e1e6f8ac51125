//! How fast VPSie is called. It publishes no limit; a hundred calls a minute is what its own programs keep to, and this
//! learns from being refused.

use hostler_base::{Backoff, Chance, Clock};
use hostler_driver::{Code, Failure};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);
/// Calls within the window before anything was learnt, and at most.
const MOST: usize = 100;
/// However often VPSie refuses, so many are tried.
const FEWEST: usize = 8;
/// The part of them that is kept for creating and deleting.
const RESERVE: usize = 4;
/// After so many answers one call more is tried again.
const ANSWERS_PER_CALL: usize = 20;
/// Whoever would have to wait longer than this is sent away instead: no worker stands still for it.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// What VPSie may ask for at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How long to be quiet after a refusal that does not say it.
const PAUSE: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));

/// What a call is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It creates or deletes: there is a reserve for it.
    High,
    Usual,
}

/// The calls of one account, whoever makes them.
pub struct Limit {
    clock: Clock,
    chance: Chance,
    past: Mutex<Past>,
}

/// The moment a call was let through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn(Instant);

impl Limit {
    pub fn new(clock: Clock, chance: Chance) -> Self {
        let past = Mutex::new(Past::new(clock.instant()));
        Self { clock, chance, past }
    }

    /// Waits until it is this call's turn.
    pub(crate) async fn turn(&self, urgency: Urgency) -> Result<Turn, Failure> {
        let patient_until = self.clock.instant() + LONGEST_WAIT;
        loop {
            let (now, wait, refusal) = self.with(|past, now| {
                let wait = past.wait(now, urgency);
                if wait.is_zero() {
                    past.sent.push_back(now);
                }
                (now, wait, past.refusal.clone())
            });
            if wait.is_zero() {
                return Ok(Turn(now));
            }
            if now + wait > patient_until {
                tracing::info!("VPSie is called as often as it may be: this call is tried again later");
                // The same words as the refusal's own: what people are told does not change to and fro.
                return Err(refusal.unwrap_or_else(|| {
                    let message = "VPSie is called as often as it allows: this call has to wait for a minute";
                    Failure::new(Code::Unavailable, message)
                }));
            }
            self.clock.sleep(wait).await;
        }
    }

    /// VPSie answered 429 to the call of that turn.
    pub(crate) fn refused(&self, turn: Turn, retry_after: Option<Duration>, refusal: Option<Failure>) {
        self.with(|past, now| {
            past.refusal = refusal;
            let pause = retry_after.unwrap_or_else(|| PAUSE.delay(past.refusals, &self.chance));
            past.refused(now, turn.0, pause.min(LONGEST_PAUSE));
        });
    }

    pub(crate) fn accepted(&self) {
        self.with(|past, _| past.accepted());
    }

    fn with<T>(&self, change: impl FnOnce(&mut Past, Instant) -> T) -> T {
        let now = self.clock.instant();
        change(&mut self.past.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

/// What was sent within the window, and what was learnt.
struct Past {
    sent: VecDeque<Instant>,
    allowed: usize,
    /// Before that nobody calls, by VPSie's own word.
    not_before: Instant,
    /// When less was allowed last: a refusal of a call from before that is no news.
    slowed_at: Option<Instant>,
    /// Refusals since the last answer.
    refusals: u32,
    /// What the last one said.
    refusal: Option<Failure>,
    answers: usize,
}

impl Past {
    fn new(now: Instant) -> Self {
        Self {
            sent: VecDeque::new(),
            allowed: MOST,
            not_before: now,
            slowed_at: None,
            refusals: 0,
            refusal: None,
            answers: 0,
        }
    }

    /// How long a call has to wait from now on; none if it may be sent.
    fn wait(&mut self, now: Instant, urgency: Urgency) -> Duration {
        while self.sent.front().is_some_and(|sent| *sent + WINDOW <= now) {
            self.sent.pop_front();
        }
        let most = match urgency {
            Urgency::High => self.allowed,
            Urgency::Usual => self.allowed - self.allowed / RESERVE,
        };
        let pause = self.not_before.saturating_duration_since(now);
        // Whichever has to be out of the window before there is room for one more.
        let last = (self.sent.len() + 1).checked_sub(most.max(1)).and_then(|over| over.checked_sub(1));
        let room = last.and_then(|last| self.sent.get(last));
        let full = room.map_or(Duration::ZERO, |sent| (*sent + WINDOW).saturating_duration_since(now));
        pause.max(full)
    }

    fn refused(&mut self, now: Instant, sent: Instant, pause: Duration) {
        if self.slowed_at.is_none_or(|slowed| sent > slowed) {
            // Others may call for the same account: what was too much for all of us is more than our part.
            let ours = self.sent.iter().filter(|sent| **sent + WINDOW > now).count();
            self.allowed = (self.allowed.min(ours.max(FEWEST)) * 3 / 4).max(FEWEST);
            self.slowed_at = Some(now);
            self.refusals = self.refusals.saturating_add(1);
        }
        self.answers = 0;
        self.not_before = self.not_before.max(now + pause);
    }

    fn accepted(&mut self) {
        self.refusals = 0;
        self.refusal = None;
        self.answers += 1;
        if self.answers >= ANSWERS_PER_CALL {
            self.answers = 0;
            self.allowed = (self.allowed + 1).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use jiff::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    fn limit() -> (Clock, Limit) {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        (clock.clone(), Limit::new(clock, Chance::from_seed(1)))
    }

    /// How many are let through without waiting.
    fn at_once(limit: &Limit, urgency: Urgency) -> usize {
        (0..1_000).take_while(|_| limit.turn(urgency).now_or_never().is_some_and(|turn| turn.is_ok())).count()
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_than_a_hundred_calls_and_a_part_is_kept_back() {
        let (clock, limit) = limit();
        assert_eq!(at_once(&limit, Urgency::Usual), 75);
        assert_eq!(at_once(&limit, Urgency::High), 25);
        clock.sleep(30 * SECOND).await;
        assert_eq!(at_once(&limit, Urgency::High), 0);
        clock.sleep(30 * SECOND).await;
        assert_eq!((at_once(&limit, Urgency::High), at_once(&limit, Urgency::Usual)), (100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_too_early_waits_and_whoever_would_wait_too_long_is_sent_away() {
        let (clock, limit) = limit();
        at_once(&limit, Urgency::High);
        clock.sleep(45 * SECOND).await;
        let begun = clock.instant();
        limit.turn(Urgency::High).await.unwrap();
        assert_eq!(clock.instant() - begun, 15 * SECOND);
        at_once(&limit, Urgency::High);
        let failure = limit.turn(Urgency::Usual).now_or_never().unwrap().unwrap_err();
        assert_eq!(failure.code, Code::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_silences_all_for_as_long_as_vpsie_says() {
        let (clock, limit) = limit();
        let turn = limit.turn(Urgency::High).await.unwrap();
        limit.refused(turn, Some(12 * SECOND), None);
        let begun = clock.instant();
        limit.turn(Urgency::High).await.unwrap();
        assert_eq!(clock.instant() - begun, 12 * SECOND);
        let told = Failure::new(Code::Unavailable, "VPSie answered 429");
        let turn = limit.turn(Urgency::High).await.unwrap();
        limit.refused(turn, Some(10_000 * SECOND), Some(told.clone()));
        assert_eq!(limit.turn(Urgency::High).await.unwrap_err(), told);
        clock.sleep(LONGEST_PAUSE).await;
        limit.turn(Urgency::High).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn less_is_allowed_after_refusals_and_more_again_after_answers() {
        let now = Instant::now();
        let mut past = Past::new(now);
        past.sent = std::iter::repeat_n(now, 40).collect();
        for _ in 0..30 {
            past.refused(now + SECOND, now, SECOND);
        }
        assert_eq!((past.allowed, past.refusals), (30, 1), "many refusals of one burst are one lesson");
        let mut later = now + SECOND;
        for _ in 0..30 {
            later += SECOND;
            past.refused(later, later, Duration::ZERO);
        }
        assert_eq!(past.allowed, FEWEST);
        assert_eq!(past.wait(later + 2 * WINDOW, Urgency::Usual), Duration::ZERO);
        for _ in 0..10_000 {
            past.accepted();
        }
        assert_eq!((past.allowed, past.refusals), (MOST, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_grows_while_vpsie_says_nothing_of_it() {
        let (clock, limit) = limit();
        let mut waited = Vec::new();
        for _ in 0..3 {
            let begun = clock.instant();
            let turn = loop {
                match limit.turn(Urgency::High).await {
                    Ok(turn) => break turn,
                    Err(_) => clock.sleep(SECOND).await,
                }
            };
            waited.push(clock.instant() - begun);
            limit.refused(turn, None, None);
        }
        assert!(waited[0].is_zero() && waited[1] >= 4 * SECOND && waited[2] >= 8 * SECOND, "{waited:?}");
    }
}
