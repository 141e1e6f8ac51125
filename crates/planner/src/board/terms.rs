//! Which pods a term means, and what is counted for it.

use crate::intern::{Sym, Symbols};
use crate::select::{Need, all_hold};

/// One term of a pod affinity, or the selector of a spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matcher {
    /// None is all.
    pub namespaces: Option<Vec<Sym>>,
    /// None matches nothing.
    pub needs: Option<Vec<Need>>,
}

impl Matcher {
    pub fn matches(&self, namespace: Sym, labels: &[(Sym, Sym)], symbols: &Symbols) -> bool {
        self.namespaces.as_ref().is_none_or(|set| set.contains(&namespace))
            && self.needs.as_ref().is_some_and(|needs| all_hold(needs, labels, symbols))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CounterKind {
    /// Pods that match.
    Match,
    /// Pods that carry the term as anti-affinity.
    Hold,
}

/// A number per domain of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counter {
    pub kind: CounterKind,
    /// All of these must match.
    pub matchers: u32,
    pub key: u32,
    /// For spread: which nodes count. Pods on their way out do not.
    pub filter: Option<u32>,
}
