use crate::Chance;
use std::{fmt, sync::Arc};

/// Bytes that nobody can guess, for tokens and keys. [`Chance`] is not for these: who sees enough of what it drew
/// knows the rest.
///
/// In production it is the system's own source, handed in at the roof; in a test it is drawn from the seed, so
/// that a run can be repeated.
#[derive(Clone)]
pub struct Entropy(Arc<Fill>);

type Fill = dyn Fn(&mut [u8]) -> Result<(), NoEntropy> + Send + Sync;

/// The source gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntropy;

impl fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system gives no random bytes")
    }
}

impl std::error::Error for NoEntropy {}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

impl Entropy {
    /// `fill` fills all of a buffer, or fails.
    pub fn new(fill: impl Fn(&mut [u8]) -> Result<(), NoEntropy> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fill))
    }

    /// For tests: anybody who knows the seed can guess it.
    pub fn guessable(chance: Chance) -> Self {
        Self::new(move |bytes| {
            bytes.fill_with(|| u8::try_from(chance.below(256)).unwrap_or_default());
            Ok(())
        })
    }

    /// Fills all of `bytes`.
    pub fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        (self.0)(bytes)
    }

    /// Characters of `alphabet`, each as likely as the others.
    pub fn text(&self, alphabet: &[u8], length: usize) -> Result<String, NoEntropy> {
        // Bytes beyond the last whole round through the alphabet would prefer its first letters.
        let fair = 256 - 256_usize.checked_rem(alphabet.len()).ok_or(NoEntropy)?;
        let mut text = String::with_capacity(length);
        let mut bytes = [0; 32];
        while text.len() < length {
            self.fill(&mut bytes)?;
            let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair);
            let letters = fair.filter_map(|byte| alphabet.get(byte % alphabet.len()));
            text.extend(letters.take(length - text.len()).map(|letter| char::from(*letter)));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_equally_likely() {
        let entropy = Entropy::guessable(Chance::from_seed(3));
        let text = entropy.text(b"abcdefghijklmnopqrstuvwxyz0123456789", 36_000).unwrap();
        assert_eq!(text.len(), 36_000);
        for letter in ['a', 'd', 'e', '9'] {
            let count = text.chars().filter(|c| *c == letter).count();
            assert!((850..1150).contains(&count), "{letter}: {count}");
        }
    }

    #[test]
    fn without_a_source_there_is_no_text() {
        let nothing = Entropy::new(|_| Err(NoEntropy));
        assert_eq!(nothing.text(b"ab", 1), Err(NoEntropy));
        assert_eq!(Entropy::guessable(Chance::from_seed(1)).text(b"", 1), Err(NoEntropy));
        assert_eq!(nothing.text(b"ab", 0).as_deref(), Ok(""));
    }
}
