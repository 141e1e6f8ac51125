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
        let seed = self.with(|rng| rng.clone().u64(..));
        Self::from_seed(seed ^ stable_hash(subject))
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

/// A number that depends on nothing but the text: FNV-1a, which is the same over versions and processes, unlike
/// the standard library's hashers.
pub fn stable_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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
    fn a_split_depends_on_its_subject_and_on_neither_later_draws_nor_other_splits() {
        let chance = Chance::from_seed(1);
        let (one, other) = (chance.split("a"), chance.split("b"));
        chance.u64();
        let drawn = one.u64();
        assert_eq!(Chance::from_seed(1).split("a").u64(), drawn);
        assert_ne!(other.u64(), drawn);
        assert_ne!(chance.split("a").u64(), drawn, "the source has moved on");
    }

    #[test]
    fn a_stable_hash_is_the_published_one() {
        assert_eq!(stable_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(stable_hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn edges_do_not_panic() {
        let chance = Chance::from_seed(0);
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.text(b"", 3), "");
    }
}
