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

/// Holds calls back until the rate allows them, in the order in which they came.
pub(super) fn limited(inner: Transport, rate: Rate, clock: Clock) -> Transport {
    let bucket = Arc::new(Mutex::new(Bucket::new(rate, clock.instant())));
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(clock.instant());
        let (answer, clock) = (transport::send(&inner, request), clock.clone());
        async move {
            if !wait.is_zero() {
                clock.sleep(wait).await;
            }
            answer.await
        }
    }))
}

/// A token bucket that may go into debt: the debt is the queue of those who wait.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: f64::from(rate.burst.max(1)), filled: now }
    }

    /// Takes a token and says how long to wait until it is there.
    fn reserve(&mut self, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.filled).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + earned).min(f64::from(self.rate.burst.max(1))) - 1.0;
        self.filled = now;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.rate.per_second).unwrap_or(Duration::from_hours(1))
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
    fn odd_rates_do_not_panic() {
        let start = Instant::now();
        for per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut bucket = Bucket::new(Rate { per_second, burst: 0 }, start);
            bucket.reserve(start);
            bucket.reserve(start);
        }
    }
}
