//! How fast a project is called. The API documents no limit; this learns it from being refused.

use hostler_base::{Backoff, Chance, Clock};
use hostler_driver::{Code, Failure};
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Calls per second before anything was learnt, and at most.
const FASTEST: f64 = 100.0;
/// However often the cloud refuses, one call in this many seconds is tried.
const SLOWEST: f64 = 0.2;
/// How many calls may come at once after a quiet time, in seconds' worth of the rate.
const BURST: f64 = 1.0;
/// Whoever would have to wait longer than this is sent away instead: no worker stands still for it.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// What the cloud may ask for at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How long to be quiet after a refusal that does not say it.
const PAUSE: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The calls of one project, whoever makes them. After a 429 nobody calls for as long as the cloud asks, and
/// then at half the rate; each second of answers makes it one call per second faster again.
pub struct Limit {
    clock: Clock,
    chance: Chance,
    pace: Mutex<Pace>,
}

/// The moment a call was let through.
#[derive(Clone, Copy, Debug)]
pub struct Turn(Instant);

impl Limit {
    pub fn new(clock: Clock, chance: Chance) -> Self {
        let pace = Mutex::new(Pace::new(clock.instant()));
        Self { clock, chance, pace }
    }

    /// Waits until it is this call's turn.
    pub(crate) async fn turn(&self) -> Result<Turn, Failure> {
        let place = self.with(|pace, now| {
            let step = pace.step();
            pace.reserve(now).map(|wait| (wait, step)).ok_or_else(|| pace.refusal.clone())
        });
        let (wait, step) = match place {
            Ok(place) => place,
            Err(refusal) => {
                tracing::info!("STACKIT asks for fewer calls in this project: this one is tried again later");
                // The same words as the refusal's own: what people are told does not change to and fro.
                return Err(refusal.unwrap_or_else(|| {
                    Failure::new(Code::Unavailable, "there are too many calls in this project at once")
                }));
            }
        };
        if !wait.is_zero() {
            let place = Reserved { limit: self, step: Some(step) };
            self.clock.sleep(wait).await;
            place.take();
        }
        Ok(Turn(self.clock.instant()))
    }

    /// The cloud answered 429 to the call of that turn.
    pub(crate) fn refused(&self, turn: Turn, retry_after: Option<Duration>, refusal: Option<Failure>) {
        self.with(|pace, now| {
            pace.refusal = refusal;
            let pause = retry_after.unwrap_or_else(|| PAUSE.delay(pace.refusals, &self.chance));
            pace.refused(now, turn.0, pause.min(LONGEST_PAUSE));
        });
    }

    pub(crate) fn accepted(&self) {
        self.with(|pace, _| pace.accepted());
    }

    fn with<T>(&self, change: impl FnOnce(&mut Pace, Instant) -> T) -> T {
        let now = self.clock.instant();
        change(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

/// A place in the row. Whoever goes away while he waits leaves it to the next one.
struct Reserved<'a> {
    limit: &'a Limit,
    /// How much time it takes up, until it is used.
    step: Option<Duration>,
}

impl Reserved<'_> {
    fn take(mut self) {
        self.step = None;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.step.take() {
            self.limit.with(|pace, _| pace.give_back(step));
        }
    }
}

/// The rate and who comes when.
struct Pace {
    per_second: f64,
    /// When the next call would come if all came evenly.
    next: Instant,
    /// Before that nobody comes, by the cloud's own word.
    not_before: Instant,
    /// When the rate was lowered last: a refusal of a call from before that is no news.
    slowed_at: Option<Instant>,
    /// Refusals since the last answer.
    refusals: u32,
    /// What the last one said.
    refusal: Option<Failure>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { per_second: FASTEST, next: now, not_before: now, slowed_at: None, refusals: 0, refusal: None }
    }

    /// How much time one call takes up in the row.
    fn step(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second)
    }

    fn give_back(&mut self, step: Duration) {
        self.next = self.next.checked_sub(step).unwrap_or(self.next).max(self.not_before);
    }

    /// How long the next call waits; nothing if that is too long, and then it has no place in the row.
    fn reserve(&mut self, now: Instant) -> Option<Duration> {
        // Below one call per second a burst is still one call.
        let ahead = Duration::from_secs_f64(BURST - (1.0 / self.per_second).min(BURST));
        let next = self.next.max(now);
        let wait = next.saturating_duration_since(now + ahead);
        if wait > LONGEST_WAIT {
            return None;
        }
        self.next = next + self.step();
        Some(wait)
    }

    fn refused(&mut self, now: Instant, sent: Instant, pause: Duration) {
        if self.slowed_at.is_none_or(|slowed| sent > slowed) {
            self.per_second = (self.per_second / 2.0).max(SLOWEST);
            self.slowed_at = Some(now);
            self.refusals = self.refusals.saturating_add(1);
        }
        // After the pause they come one by one.
        let ahead = Duration::from_secs_f64(BURST - (1.0 / self.per_second).min(BURST));
        self.not_before = self.not_before.max(now + pause + ahead);
        self.next = self.next.max(self.not_before);
    }

    fn accepted(&mut self) {
        self.refusals = 0;
        self.per_second = (self.per_second + 1.0 / self.per_second.max(1.0)).min(FASTEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use jiff::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn calls_come_freely_until_the_burst_is_used_up() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let waits: Vec<Duration> = (0..150).filter_map(|_| pace.reserve(now)).collect();
        assert!(waits[..100].iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(waits[100], Duration::from_millis(10));
        assert_eq!(waits[149], Duration::from_millis(500));
        assert!(pace.reserve(now + 10 * SECOND).unwrap().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_silences_all_and_then_they_come_one_by_one() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.reserve(now);
        pace.refused(now + SECOND / 10, now, 4 * SECOND);
        let later = now + SECOND / 10;
        assert_eq!(pace.reserve(later), Some(4 * SECOND));
        assert_eq!(pace.reserve(later), Some(4 * SECOND + Duration::from_millis(20)), "half the rate");
        pace.refused(later, later, 60 * SECOND);
        assert_eq!(pace.reserve(later), None, "too long to stand still for");
        assert!(pace.reserve(later + 61 * SECOND).unwrap().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn many_refusals_of_one_burst_are_one_lesson() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..50 {
            pace.refused(start + SECOND, start, SECOND);
        }
        assert!((pace.per_second - 50.0).abs() < 1e-9 && pace.refusals == 1, "{}", pace.per_second);
        pace.refused(start + 4 * SECOND, start + 3 * SECOND, SECOND);
        assert!((pace.per_second - 25.0).abs() < 1e-9, "{}", pace.per_second);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_has_a_floor_and_comes_back() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..100 {
            now += SECOND;
            pace.refused(now, now, Duration::ZERO);
        }
        assert!((pace.per_second - SLOWEST).abs() < 1e-9);
        for _ in 0..10_000 {
            pace.accepted();
        }
        assert!((pace.per_second - FASTEST).abs() < 1e-9 && pace.refusals == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_for_a_turn_holds_up_nobody() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let limit = Limit::new(clock.clone(), Chance::from_seed(1));
        let mut last = limit.turn().await.unwrap();
        while let Some(turn) = limit.turn().now_or_never() {
            last = turn.unwrap();
        }
        for _ in 0..5000 {
            assert!(limit.turn().now_or_never().is_none(), "it has to wait, and does not");
        }
        let begun = clock.instant();
        limit.turn().await.unwrap();
        assert!(clock.instant() - begun < SECOND / 10, "{:?}", clock.instant() - begun);
        // What the cloud asks for is waited for, whoever gives up meanwhile.
        let mut waiting = Box::pin(limit.turn());
        assert!((&mut waiting).now_or_never().is_none());
        limit.refused(last, Some(10 * SECOND), None);
        drop(waiting);
        for _ in 0..5000 {
            assert!(limit.turn().now_or_never().is_none());
        }
        let begun = clock.instant();
        limit.turn().await.unwrap();
        let waited = clock.instant() - begun;
        assert!((10 * SECOND..11 * SECOND).contains(&waited), "{waited:?}");
    }
}
