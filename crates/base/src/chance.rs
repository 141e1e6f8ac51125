use std::sync::{Arc, Mutex, PoisonError};

/// A seeded source of chance. Clones draw from the same sequence; [`Chance::split`] starts a sequence of
/// its own, so that one more draw here does not change what is drawn there.
#[derive(Clone, Debug)]
pub struct Chance(Arc<Mutex<fastrand::Rng>>);

impl Chance {
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// Seeded by the operating system, for production.
    pub fn from_entropy() -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::new())))
    }

    /// An independent sequence that depends only on this source's state and `subject`.
    pub fn split(&self, subject: &str) -> Self {
        // FNV-1a: stable over versions and processes, unlike the standard library's hashers.
        let hash = subject.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let seed = self.with(|rng| rng.clone().u64(..));
        Self::from_seed(seed ^ hash)
    }

    pub fn u64(&self) -> u64 {
        self.with(|rng| rng.u64(..))
    }

    pub fn u128(&self) -> u128 {
        self.with(|rng| rng.u128(..))
    }

    /// A number below `end`, zero if `end` is zero.
    pub fn below(&self, end: usize) -> usize {
        if end == 0 { 0 } else { self.with(|rng| rng.usize(..end)) }
    }

    /// A number from 0 up to and without 1.
    pub fn unit(&self) -> f64 {
        self.with(fastrand::Rng::f64)
    }

    /// True with the given probability.
    pub fn hit(&self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Characters drawn from `alphabet`, for generated names and tokens.
    pub fn text(&self, alphabet: &[u8], length: usize) -> String {
        (0..length)
            .filter_map(|_| alphabet.get(self.below(alphabet.len())))
            .map(|byte| char::from(*byte))
            .collect()
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let draw = |seed| {
            let chance = Chance::from_seed(seed);
            (chance.u64(), chance.below(10), chance.text(b"abc", 5), chance.hit(0.5))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_split_depends_on_its_subject_and_not_on_later_draws() {
        let chance = Chance::from_seed(1);
        let before = chance.split("a").u64();
        assert_eq!(Chance::from_seed(1).split("a").u64(), before);
        assert_ne!(chance.split("b").u64(), before);
    }

    #[test]
    fn edges_do_not_panic() {
        let chance = Chance::from_seed(0);
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.text(b"", 3), "");
    }
}
