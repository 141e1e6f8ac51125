//! A machine's life as Gardener asks for it, decided one step at a time.
//!
//! [`decide`] is pure: from what was seen it names one [`Step`] with at most one effect outside. Whoever
//! carries the step out comes back with what it saw then. Nothing is remembered between two runs but what is
//! written on the Machine and in the cloud, so a crash at any instruction loses nothing.

mod cursor;
mod decide;
mod drain;
#[cfg(test)]
mod gone_tests;
mod health;
mod in_place;
mod preserve;
mod replace;
#[cfg(test)]
mod test_support;
mod token;
mod upkeep;
#[cfg(test)]
mod walk;

pub use cursor::{Cursor, text};
pub(crate) use decide::ORDER_IN_HAND;
pub use decide::decide;
pub use health::GATE_AGAIN;
pub use in_place::{InPlace, Stage, UpdateResult};
pub use preserve::{Preserve, PreservedCondition, PreservedNode};
pub use token::{OwnToken, TokenSeen};
pub use upkeep::EVERY as UPKEEP_EVERY;

use crate::api::{OperationState, OperationType, Phase};
use hostler_driver::{
    Attempt, Code, Evidence, Failure, Finding, Identity, Machine as Server, Periods, ProviderId,
};
use hostler_node as node;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::time::Duration;

/// How long after an attempt was marked its create call may be sent. A run that was held up longer than
/// this marks a new one.
///
/// Two processes at once are kept apart by the mark: only one of them can write it, the other one sees it
/// and waits. What no mark can help against is a process that stands still between its decision and the
/// call for so long that another one has ruled its attempt out (see [`AttemptMark::horizon`]). That call is
/// refused by the leader fence of the client stack: by then less than the call's time is left on the lease of
/// the one that stood still. `hostler machine-controller` has such a lease; a process without one must be the
/// only one, as in `hostler dev`.
pub const SEND_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How often a machine that is waited for is looked at when nothing wakes it earlier.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// How long the cloud may take to act on a create call after it was sent; calls are cut off before.
pub const CALL_LIMIT: SignedDuration = SignedDuration::from_secs(50);

/// The mark of a create call, written on the Machine before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptMark {
    pub attempt: Attempt,
    pub at: Timestamp,
}

impl AttemptMark {
    /// The annotation's value.
    pub fn render(&self) -> String {
        format!("{}@{}", self.attempt.0, self.at)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (mark, at) = text.split_once('@')?;
        let at = at.parse().ok()?;
        (!mark.is_empty()).then(|| Self { attempt: Attempt(mark.to_owned()), at })
    }

    /// How long after the mark a list must begin to show what became of the call.
    pub fn horizon(list_lag: Duration) -> Duration {
        let waits = SEND_WITHIN.saturating_add(CALL_LIMIT).unsigned_abs();
        waits.saturating_add(list_lag)
    }

    /// The same, after this process began. Who came before it may have marked by a clock that was behind, but calls
    /// nobody any more.
    fn own_horizon(list_lag: Duration) -> Duration {
        CALL_LIMIT.unsigned_abs().saturating_add(list_lag)
    }

    /// How long until a list can rule it out, as far as is worth waiting without a look: clocks may differ
    /// between two processes, and one may be set back.
    fn wait(&self, seen: &Observed) -> Duration {
        let left = |since: Timestamp, horizon: Duration| {
            let horizon = SignedDuration::try_from(horizon).unwrap_or(SignedDuration::MAX);
            horizon.saturating_sub(seen.now.duration_since(since))
        };
        let by_mark = left(self.at, Self::horizon(seen.list_lag));
        let by_start = left(seen.started_at, Self::own_horizon(seen.list_lag));
        by_mark.max(by_start).clamp(SignedDuration::from_secs(1), LOOK_AGAIN).unsigned_abs()
    }

    /// Whether the clock was set back since, or was wrong when it was made. Its call may have been sent all the
    /// same; only when is not known.
    fn is_from_the_future(&self, now: Timestamp) -> bool {
        self.at > now
    }

    fn ruled_out_by(&self, evidence: &Evidence, seen: &Observed) -> bool {
        evidence.rules_out_attempt(self.at, Self::horizon(seen.list_lag))
            && evidence.rules_out_attempt(seen.started_at, Self::own_horizon(seen.list_lag))
    }
}

/// What is known of the node, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    /// All conditions that count say that it is well.
    pub ready: bool,
    /// What it says about an update in place.
    pub in_place: InPlace,
    /// Its conditions in words.
    pub conditions: String,
    /// They are in the Machine's status as they are.
    pub recorded: bool,
    /// Gardener's own taint holds the machine back although the node is Ready.
    pub critical_components_missing: bool,
    /// It has the finalizer that is taken off only when its machine goes.
    pub held: bool,
    /// Somebody has deleted it, and no other machine claims to be its own.
    pub going: bool,
    pub behind: Behind,
}

/// What a node lacks of what its Machine and class say about it, as merge patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Of its status; this one goes first.
    pub status: Option<Value>,
    pub node: Option<Value>,
}

/// What the cloud said in this run; nothing is carried over from an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// The answer about the server whose id is written down.
    pub asked: Option<Finding>,
    /// The answer about all servers that carry the identity.
    pub listed: Option<Finding>,
    /// What the create call of this run returned.
    pub created: Option<Box<Server>>,
    /// Nothing is left to be done to the running server.
    pub settled: bool,
}

/// Everything one decision looks at.
#[derive(Clone, Debug)]
pub struct Observed {
    pub now: Timestamp,
    /// When this process began to look after machines, by the clock of now.
    pub started_at: Timestamp,
    pub name: String,
    pub created_at: Timestamp,
    pub creation_timeout: SignedDuration,
    pub deleting: bool,
    pub has_finalizer: bool,
    pub phase: Phase,
    /// When the phase was written.
    pub phase_since: Option<Timestamp>,
    pub description: String,
    /// What the last operation was, and how it stands.
    pub operation: Option<(OperationType, OperationState)>,
    /// When the last operation was written.
    pub operation_at: Option<Timestamp>,
    /// What `spec.providerID` says; unreadable text is an error.
    pub provider_id: Option<Result<ProviderId, String>>,
    /// The server that failed and shall give way to another one. Its id is not in the spec any more.
    pub replaces: Option<ProviderId>,
    /// How many servers have given way so far.
    pub given_way: u32,
    /// A server that was seen running, whatever the cloud says of it now.
    pub ran: Option<ProviderId>,
    pub has_node_label: bool,
    pub attempt: Option<AttemptMark>,
    /// The mark was written by this very run, so its call has not been sent.
    pub attempt_unsent: bool,
    /// Nothing on the Machine tells of an attempt to make a server, sent or not.
    pub untouched: bool,
    /// It is written down where its server is or may be.
    pub placed: bool,
    /// Class, Secret and driver are there.
    pub ready_to_act: Result<Identity, Failure>,
    /// Why class or Secret could still vanish under a server that is made now.
    pub not_kept: Option<String>,
    /// Why no server can be ordered now, known without asking the cloud.
    pub refused: Option<Failure>,
    /// How long nothing is to be ordered since the cloud has refused the same order.
    pub order_in: Option<Duration>,
    pub sightings: Sightings,
    /// The last thing that failed in this run, with what was tried.
    pub failure: Option<(Tried, Failure)>,
    /// How long until what was done to its server is looked at again; nothing if nothing of it can be undone.
    pub upkeep_in: Option<Duration>,
    /// There is a cluster for its node.
    pub has_target: bool,
    /// A server that is ordered now shall join with a bootstrap token.
    pub token_wanted: bool,
    /// What this run has seen of its token.
    pub token: Option<TokenSeen>,
    pub node: Option<NodeView>,
    /// Its node has never been seen, and nobody was asked for it: what is known of nodes may be behind.
    pub node_unseen: bool,
    /// Its node was deleted and is not there any more.
    pub node_lost: bool,
    /// The server on which a node with the machine's name says that it runs.
    pub node_on: Option<ProviderId>,
    /// A node that names the machine as its own, while the machine names none.
    pub node_naming_it: Option<String>,
    /// How long it may be unhealthy; nothing is for ever.
    pub health_timeout: Option<SignedDuration>,
    /// How long an update in place may take.
    pub in_place_timeout: SignedDuration,
    /// Whether it is kept although it failed, and for how long.
    pub preserve: Preserve,
    /// A machine of the same deployment that is being replaced.
    pub replaced: Option<String>,
    /// What comes next in the drain, while it is the drain's turn and the node has a name.
    pub drain: Option<node::Step<node::Drained>>,
    /// The same for the node's volume attachments.
    pub attachments: Option<node::Step<node::Cleared>>,
    pub list_lag: Duration,
    /// How long to wait after failures.
    pub periods: Periods,
}

/// What was tried when something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    Look,
    Create,
    Settle,
    Delete,
}

/// A change of the Machine's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// `None` leaves `currentStatus` as it is.
    pub phase: Option<Phase>,
    pub timeout_active: bool,
    pub description: String,
    pub error_code: Option<Code>,
    pub state: OperationState,
    pub operation: OperationType,
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    AddFinalizer,
    /// Ask the cloud for the server with this id.
    Ask(ProviderId),
    /// List the servers that carry the identity, in a list begun now.
    List,
    /// Write a fresh attempt mark on the Machine, its version as precondition. A new Machine gets its finalizer with
    /// it: whoever finds one without the other knows that somebody else put it there.
    MarkAttempt,
    /// Write a mark for an order that another program may have sent. It counts as sent.
    MarkOthers,
    /// Write the mark once more with the time of now. Its call counts as sent.
    Redate(AttemptMark),
    /// Look for the machine's bootstrap token.
    FindToken,
    /// Make one with this id.
    MakeToken(String),
    DropToken(OwnToken),
    /// Send the create call of the mark.
    Create,
    /// Write the server's id and node name on the Machine and take the mark off.
    Adopt(ProviderId),
    /// Take the id of a failed server off the Machine and note that it shall be replaced.
    Disown(ProviderId),
    /// Write the name of its node on the Machine.
    NameNode(String),
    Settle(Box<Server>),
    WriteStatus(StatusChange),
    PatchNodeStatus(Value),
    PatchNode(Value),
    /// The same for a machine that has failed, unless another one of its deployment is being replaced by then.
    GiveUp(StatusChange),
    /// Write on the node how far its update in place is.
    SetInPlace(Stage, String),
    /// Copy the node's conditions into the status.
    RecordConditions,
    /// Keep the machine until then, or no longer.
    KeepUntil(Option<Timestamp>),
    /// Note what the node says about keeping the machine, in place of what the machine says itself.
    NotePreserve(String),
    /// Write on the node whether its machine is kept.
    SetPreserved(PreservedCondition),
    /// A merge patch of the node that goes with it.
    ChangeNode(Value),
    /// A step of the drain.
    OnNode(node::Act),
    DeleteServer(ProviderId),
    /// Ask for the machine's node, of which nothing is known.
    FindNode,
    /// Take our finalizer off the node.
    ReleaseNode,
    DeleteNode,
    /// Somebody has deleted the node: the machine goes with it.
    DeleteMachine,
    RemoveFinalizer,
    /// Something failed and is written down; try again after this time.
    TryAgain {
        failure: Failure,
        again: Duration,
    },
    /// Nothing can be done now; look again after this time, or when something changes.
    Wait {
        reason: &'static str,
        message: String,
        again: Duration,
    },
    /// Nothing is to be done until something changes, or for so long.
    Rest(Duration),
    /// Nothing is to be done until something changes.
    Done,
}
