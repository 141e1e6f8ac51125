use jiff::{SignedDuration, Timestamp};

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    pub(super) now: Timestamp,
    pub(super) created_at: Timestamp,
    /// How long a machine may take until it says which node is its own.
    pub(super) creation_timeout: SignedDuration,
    /// How many machines say that it is theirs.
    pub(super) owners: usize,
    /// It says that it is nobody's.
    pub(super) marked: bool,
    /// It has our finalizer.
    pub(super) held: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is to be done.
    Fine,
    /// Its machine may still say so.
    Young(SignedDuration),
    /// It is nobody's: it says so, and nobody holds it back when it is deleted.
    Nobodys,
}

pub(super) fn decide(seen: &Observed) -> Verdict {
    if seen.owners > 0 || (seen.marked && !seen.held) {
        return Verdict::Fine;
    }
    let left = seen.creation_timeout.saturating_sub(seen.now.duration_since(seen.created_at));
    if left.is_positive() { Verdict::Young(left) } else { Verdict::Nobodys }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_old_node_without_a_machine_is_nobodys() {
        let seen = |owners: usize, seconds: i64, marked: bool, held: bool| Observed {
            now: Timestamp::UNIX_EPOCH,
            created_at: Timestamp::from_second(-seconds).unwrap(),
            creation_timeout: SignedDuration::from_secs(100),
            owners,
            marked,
            held,
        };
        let young = |seconds| Verdict::Young(SignedDuration::from_secs(seconds));
        for (owners, seconds, marked, held, expected) in [
            (0, 99, false, false, young(1)),
            (0, 99, false, true, young(1)),
            (0, 100, false, false, Verdict::Nobodys),
            (0, 100, false, true, Verdict::Nobodys),
            (0, 100, true, true, Verdict::Nobodys),
            (0, 100, true, false, Verdict::Fine),
            // A clock that was set back.
            (0, -50, false, false, young(150)),
            (1, 100, false, true, Verdict::Fine),
            (1, 100, true, true, Verdict::Fine),
            // Nobody can tell whose it is.
            (2, 100, false, true, Verdict::Fine),
        ] {
            let seen = seen(owners, seconds, marked, held);
            assert_eq!(decide(&seen), expected, "{seen:?}");
        }
    }
}
