use crate::Chance;
use std::time::Duration;

/// Exponential back-off with a cap and seeded jitter: attempt 0 waits about `base`, each further one
/// `factor` times as long, never longer than `cap`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub base: Duration,
    pub factor: f64,
    pub cap: Duration,
    /// The part of each delay that is drawn by chance, from 0 (none) to 1 (all of it).
    pub jitter: f64,
}

impl Backoff {
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, factor: 2.0, cap, jitter: 0.2 }
    }

    /// How long to wait before the attempt after `attempts` failed ones.
    pub fn delay(&self, attempts: u32, chance: &Chance) -> Duration {
        let cap = self.cap.as_secs_f64();
        let full = (self.base.as_secs_f64() * self.factor.powf(f64::from(attempts))).min(cap);
        let jitter = self.jitter.clamp(0.0, 1.0);
        let seconds = full * (1.0 - jitter) + full * jitter * chance.unit();
        Duration::try_from_secs_f64(seconds).unwrap_or(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_the_cap_and_stay_there() {
        let plain = Backoff { jitter: 0.0, ..Backoff::new(Duration::from_millis(5), Duration::from_secs(1)) };
        let chance = Chance::from_seed(1);
        let millis = |attempts| plain.delay(attempts, &chance).as_millis();
        assert_eq!([millis(0), millis(1), millis(2), millis(8), millis(u32::MAX)], [5, 10, 20, 1000, 1000]);
    }

    #[test]
    fn jitter_shortens_but_never_lengthens() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let chance = Chance::from_seed(2);
        for attempts in 0..10 {
            let full = Backoff { jitter: 0.0, ..backoff }.delay(attempts, &chance);
            let drawn = backoff.delay(attempts, &chance);
            assert!(drawn <= full && drawn >= full.mul_f64(0.79), "{attempts}: {drawn:?} of {full:?}");
        }
    }
}
