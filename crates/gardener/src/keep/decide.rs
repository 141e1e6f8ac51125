/// What is known of a class or Secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Something refers to it.
    pub(super) used: bool,
    pub(super) deleting: bool,
    /// It has our finalizer.
    pub(super) kept: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Add,
    Remove,
    Done,
}

/// Kept while it is used. What is being deleted takes no new finalizer.
pub(super) fn decide(seen: Seen) -> Step {
    match seen {
        Seen { used: true, kept: false, deleting: false } => Step::Add,
        Seen { used: false, kept: true, .. } => Step::Remove,
        _ => Step::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_kept_and_nothing_else() {
        let table = [
            // used, deleting, kept
            (false, false, false, Step::Done),
            (false, false, true, Step::Remove),
            (false, true, false, Step::Done),
            (false, true, true, Step::Remove),
            (true, false, false, Step::Add),
            (true, false, true, Step::Done),
            (true, true, false, Step::Done),
            (true, true, true, Step::Done),
        ];
        for (used, deleting, kept, expected) in table {
            let seen = Seen { used, deleting, kept };
            assert_eq!(decide(seen), expected, "{seen:?}");
        }
    }
}
