//! Cases that do not pass on this server yet, and why. A case in this list that passes fails the tests.

pub(crate) const OPEN: &[(&str, &str)] = &[];
