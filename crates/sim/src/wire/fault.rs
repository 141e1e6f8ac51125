use crate::boundaries::{Boundary, Class};
use std::{fmt, sync::Arc, time::Duration};

/// What can go wrong with one call. "Effect" is what the server does when it gets the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is refused at once: no effect.
    Refused,
    /// The request is lost: no effect, and the caller waits until the connection times out.
    TimeoutBefore,
    /// The answer is lost: the effect is there, and the caller waits until the connection times out.
    TimeoutAfter,
    /// The request is delivered twice; the caller gets the second answer.
    Duplicate,
    /// The request is on its way for so long. It arrives even when the caller has given up meanwhile.
    Delay(Duration),
    /// This status comes back, before or in spite of the effect.
    Answer { status: u16, after_effect: bool },
    /// A page comes back that is no answer of the server's, with this status, before or in spite of the effect.
    Page { status: u16, after_effect: bool },
    /// The connection is silently dead: no effect, never an answer.
    Dead,
    /// The calling incarnation dies before the request is sent.
    CrashBefore,
    /// The calling incarnation dies after the effect, before it sees the answer.
    CrashAfter,
    /// The calling incarnation stands still for so long before the request is sent; another one is started meanwhile.
    Stall(Duration),
    /// A list that may be answered from a cache is answered by a replica that is so many revisions behind.
    Behind(u64),
    /// A watch breaks after so many events (bookmarks do not count).
    Watch { after: usize, then: Break },
    /// Everything that a watch tells comes so much later.
    Late(Duration),
}

/// How a watch breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Break {
    /// The server ends it.
    Close,
    /// The connection is reset in the middle.
    Reset,
    /// The server sends `410 Gone`: the client has to list again.
    Gone,
    /// Nothing comes any more, and nobody says so.
    Dead,
    /// Events get lost for so long, then `410 Gone`: the list that follows skips states.
    Skip(Duration),
    /// `410 Gone`, and the reconnect reaches a replica that is `revisions` behind and catches up only after `lasts`.
    Behind { revisions: u64, lasts: Duration },
}

impl Fault {
    /// Whether the fault can happen to a call of this class.
    pub(crate) fn fits(&self, class: Class) -> bool {
        match self {
            Self::Watch { .. } | Self::Late(_) => class == Class::Watch,
            Self::Behind(_) => class == Class::CachedRead,
            Self::Duplicate
            | Self::TimeoutAfter
            | Self::Answer { after_effect: true, .. }
            | Self::Page { after_effect: true, .. } => class != Class::Watch,
            _ => true,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::TimeoutBefore => f.write_str("timeout before the effect"),
            Self::TimeoutAfter => f.write_str("timeout after the effect"),
            Self::Duplicate => f.write_str("delivered twice"),
            Self::Delay(by) => write!(f, "delayed by {by:?}"),
            Self::Answer { status, after_effect: false } => write!(f, "{status} before the effect"),
            Self::Answer { status, after_effect: true } => write!(f, "{status} after the effect"),
            Self::Page { status, after_effect: false } => write!(f, "{status} and a page before the effect"),
            Self::Page { status, after_effect: true } => write!(f, "{status} and a page after the effect"),
            Self::Dead => f.write_str("dead connection"),
            Self::CrashBefore => f.write_str("crash before the effect"),
            Self::CrashAfter => f.write_str("crash after the effect"),
            Self::Stall(time) => write!(f, "stalled for {time:?}"),
            Self::Behind(revisions) => write!(f, "replica {revisions} revisions behind"),
            Self::Watch { after, then } => write!(f, "watch broken after {after} events: {then}"),
            Self::Late(by) => write!(f, "watch late by {by:?}"),
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close => f.write_str("closed"),
            Self::Reset => f.write_str("reset"),
            Self::Gone => f.write_str("410 Gone"),
            Self::Dead => f.write_str("dead"),
            Self::Skip(time) => write!(f, "events lost for {time:?}, then 410 Gone"),
            Self::Behind { revisions, lasts } => {
                write!(f, "410 Gone, then a replica {revisions} revisions behind for {lasts:?}")
            }
        }
    }
}

type Chooser = Arc<dyn Fn(&Boundary, Class) -> Option<Fault> + Send + Sync>;

/// Which faults a world has: by rule, or from its seed.
#[derive(Clone, Default)]
pub struct Plan {
    pub(crate) seed: u64,
    pub(crate) rules: Vec<(Boundary, Fault)>,
    pub(crate) choosers: Vec<Chooser>,
    pub(crate) odds: Option<Odds>,
}

/// Faults drawn from the seed: each call of a controller is hit by the first fault whose draw succeeds.
#[derive(Clone, Debug)]
pub struct Odds {
    pub faults: Vec<(f64, Fault)>,
    /// After this virtual time the world is calm, so that a goal can be reached.
    pub calm_after: Duration,
}

impl Plan {
    /// No faults; everything that is drawn by chance comes from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Breaks the call at exactly this boundary.
    pub fn fault_at(mut self, boundary: Boundary, fault: Fault) -> Self {
        self.rules.push((boundary, fault));
        self
    }

    /// Asks `choose` about every call of a controller.
    pub fn fault_when(
        mut self,
        choose: impl Fn(&Boundary, Class) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        self.choosers.push(Arc::new(choose));
        self
    }

    /// Breaks calls by chance.
    pub fn with_odds(mut self, odds: Odds) -> Self {
        self.odds = Some(odds);
        self
    }
}
