//! The system's own random bytes.

use hostler_base::{Entropy, NoEntropy};

/// Bytes that nobody can guess.
pub fn system() -> Entropy {
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    Entropy::new(move |bytes| random.fill(bytes).map_err(|_| NoEntropy))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_drawn_is_long_and_differs() {
        let draw = || super::system().text(b"0123456789abcdef", 64).unwrap();
        let (first, second) = (draw(), draw());
        assert_eq!(first.len(), 64);
        assert_ne!(first, second);
    }
}
