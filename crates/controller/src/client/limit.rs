use hostler_base::{Body, Clock, Transport, transport};
use http::Request;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many calls a second on average, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: u32,
}

tokio::task_local! {
    static BEHIND: ();
}

/// So often at least it is the turn of those who let others go first, if they wait: every fifth call is theirs.
const TURN: u32 = 5;

/// Wherever calls are limited, those of `work` let others go first. Many of them hold up nobody then, and still go on.
pub async fn behind_others<T>(work: impl Future<Output = T>) -> T {
    BEHIND.scope((), work).await
}

/// Holds calls back until the rate allows them, in the order in which they came but for those that let others go first.
pub(super) fn limited(inner: Transport, rate: Rate, clock: Clock) -> Transport {
    let bucket = Mutex::new(Bucket::new(rate, clock.instant()));
    let gate = Arc::new(Gate { bucket, turn: tokio::sync::Mutex::default() });
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let (gate, answer, clock) = (gate.clone(), transport::send(&inner, request), clock.clone());
        async move {
            // Only here it is the caller's task that runs.
            let behind = BEHIND.try_with(|()| ()).is_ok();
            gate.pass(behind, &clock).await;
            answer.await
        }
    }))
}

struct Gate {
    bucket: Mutex<Bucket>,
    /// Held by the first of those who let others go first.
    turn: tokio::sync::Mutex<()>,
}

impl Gate {
    async fn pass(&self, behind: bool, clock: &Clock) {
        let turn = if behind { Some(self.turn.lock().await) } else { None };
        loop {
            let asked = {
                let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
                if behind { bucket.spare(clock.instant()) } else { Ok(bucket.reserve(clock.instant())) }
            };
            match asked {
                Ok(wait) => {
                    drop(turn);
                    if !wait.is_zero() {
                        clock.sleep(wait).await;
                    }
                    return;
                }
                Err(wait) => clock.sleep(wait).await,
            }
        }
    }
}

/// A token bucket that may go into debt: the debt is the queue of those who wait.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
    /// How many have gone first since one who lets them did.
    first: u32,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: f64::from(rate.burst.max(1)), filled: now, first: 0 }
    }

    /// Takes a token and says how long to wait until it is there.
    fn reserve(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.tokens -= 1.0;
        self.first = self.first.saturating_add(1);
        if self.tokens >= 0.0 { Duration::ZERO } else { self.earned_in(-self.tokens) }
    }

    /// The same for one who lets others go first: takes a token that is there, or one that is not if it is their turn.
    /// Otherwise says when to ask again.
    fn spare(&mut self, now: Instant) -> Result<Duration, Duration> {
        self.fill(now);
        if self.tokens < 1.0 && self.first < TURN - 1 {
            // Not at once, however near it is: whoever asks without a pause stops the clock.
            return Err(self.earned_in(1.0 - self.tokens).max(Duration::from_millis(1)));
        }
        let wait = self.reserve(now);
        self.first = 0;
        Ok(wait)
    }

    fn fill(&mut self, now: Instant) {
        let earned = now.saturating_duration_since(self.filled).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + earned).min(f64::from(self.rate.burst.max(1)));
        self.filled = now;
    }

    fn earned_in(&self, tokens: f64) -> Duration {
        Duration::try_from_secs_f64(tokens / self.rate.per_second).unwrap_or(Duration::from_hours(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_is_spaced() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Rate { per_second: 2.0, burst: 3 }, start);
        let millis =
            |bucket: &mut Bucket, at: u64| bucket.reserve(start + Duration::from_millis(at)).as_millis();
        let waits: Vec<_> = (0..6).map(|_| millis(&mut bucket, 0)).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000, 1500]);
        assert_eq!(millis(&mut bucket, 2_000), 0, "the debt is paid after 1.5 s and one token earned");
        assert_eq!(millis(&mut bucket, 2_000), 500);
        let after_a_pause: Vec<_> = (0..4).map(|_| millis(&mut bucket, 60_000)).collect();
        assert_eq!(after_a_pause, [0, 0, 0, 500], "no more than the burst is saved up");
    }

    #[test]
    fn whoever_lets_others_go_first_takes_what_is_left_and_every_fifth_turn() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Rate { per_second: 10.0, burst: 2 }, start);
        let millis = |asked: Result<Duration, Duration>| {
            asked.map(|wait| wait.as_millis()).map_err(|wait| wait.as_millis())
        };
        assert_eq!(millis(bucket.spare(start)), Ok(0));
        assert_eq!(millis(bucket.spare(start)), Ok(0), "nobody else is there");
        assert_eq!(millis(bucket.spare(start)), Err(100));
        let first: Vec<_> = (0..3).map(|_| bucket.reserve(start).as_millis()).collect();
        assert_eq!(first, [100, 200, 300], "who does not wait for others goes on at once");
        assert_eq!(millis(bucket.spare(start)), Err(400));
        assert_eq!(bucket.reserve(start).as_millis(), 400);
        assert_eq!(millis(bucket.spare(start)), Ok(500), "four have gone first");
        assert_eq!(bucket.reserve(start).as_millis(), 600);
        assert_eq!(millis(bucket.spare(start)), Err(700));
        assert_eq!(millis(bucket.spare(start + Duration::from_millis(700))), Ok(0));
    }

    #[test]
    fn odd_rates_do_not_panic() {
        let start = Instant::now();
        for per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut bucket = Bucket::new(Rate { per_second, burst: 0 }, start);
            bucket.reserve(start);
            bucket.reserve(start);
            // Whoever asks again does so later.
            assert!(bucket.spare(start).err().is_none_or(|wait| !wait.is_zero()), "{per_second}");
        }
    }
}
