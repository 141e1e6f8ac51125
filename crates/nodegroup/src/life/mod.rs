//! The life of one VPSieNode, decided one step at a time.
//!
//! [`decide`] is pure: from what was seen it names one [`Step`] with at most one effect outside. Nothing is remembered
//! between two runs but what is written on the VPSieNode, on its Node and in the cloud, so a crash at any instruction
//! loses nothing.
//!
//! A VPSieNode has one VPS in its life or none: when that one fails or goes away the VPSieNode has failed, what is left
//! is taken away, and its group makes another VPSieNode.

mod adopt;
mod arrive;
mod attempt;
mod cloud;
mod decide;
mod failed;
mod leave;
mod live;
mod order;
mod patch;
mod read;
mod removal;
mod report;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;

pub use attempt::{AttemptMark, CALL_LIMIT, SEND_WITHIN};
pub use decide::decide;
pub use patch::{Means, Patch, cordon, mark_removal, patch, uncordon};
pub use read::{is_confirmed_gone, is_forced};
pub use removal::{Removal, Why};
pub use report::{Event, Report};

use crate::api::{NodeResources, VPSieNodeStatus};
use hostler_driver::{Failure, Finding, Identity, Machine as Vps, Periods, ProviderId};
use hostler_node as node;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::time::Duration;

/// How often something that is waited for is looked at when nothing wakes it earlier.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// What the id of a VPS begins with that waits to be made: there is no identifier yet that could be asked for.
pub const QUEUED: &str = "pending:";

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until a VPS runs.
    pub provisioning: SignedDuration,
    /// From then until its node is Ready.
    pub joining: SignedDuration,
    /// Until a drain has ended.
    pub drain: SignedDuration,
    /// Between the two sightings that show that a VPS is gone.
    pub gone_apart: SignedDuration,
    /// For so long a VPSieNode that has failed is left for people to see, once nothing of it is left.
    pub failed_ttl: SignedDuration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            provisioning: SignedDuration::from_mins(10),
            joining: SignedDuration::from_mins(15),
            drain: SignedDuration::from_mins(10),
            gone_apart: SignedDuration::from_mins(1),
            failed_ttl: SignedDuration::from_mins(30),
        }
    }
}

/// Who cordoned a Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cordon {
    #[default]
    No,
    /// This VPSieNode's removal.
    Ours,
    /// A person or another program; it is never undone.
    Theirs,
}

/// What is known of the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub ready: bool,
    pub cordon: Cordon,
    /// Somebody has deleted it, and it waits for its finalizers.
    pub going: bool,
    /// What it lacks of labels, taints and provider id, as a merge patch.
    pub behind: Option<Value>,
}

/// A Secret with a bootstrap token for this VPSieNode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnToken {
    pub id: String,
    /// Which Secret it is, for its deletion.
    pub uid: String,
    /// A node could join with it now.
    pub valid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSeen {
    /// There is none; one could have this id.
    None {
        free: String,
    },
    Own(OwnToken),
}

/// A VPS that is there already and shall become this VPSieNode's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What the annotation says.
    pub named: String,
    /// Another VPSieNode that lives has it.
    pub taken_by: Option<String>,
    /// Its VPS goes with the VPSieNode.
    pub delete_with_it: bool,
}

/// What the VPSieNode says of itself.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub deleting: bool,
    pub has_finalizer: bool,
    pub generation: i64,
    pub created_at: Timestamp,
    /// `spec.vpsieInstanceID`.
    pub instance_id: i64,
    /// Unreadable text is an error.
    pub vps: Option<Result<ProviderId, String>>,
    pub attempt: Option<AttemptMark>,
    /// The mark was written by this very run, so its call has not been sent.
    pub attempt_unsent: bool,
    pub absent_since: Option<Timestamp>,
    pub removal: Option<Removal>,
    /// When a removal was last given up.
    pub removal_failed: Option<Timestamp>,
    pub claim: Option<Claim>,
    pub status: VPSieNodeStatus,
    /// What the spec says of its node and addresses.
    pub said: SpecChange,
}

/// What people want of it beside its being there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// `do-not-delete`.
    pub protected: bool,
    /// Its group does not scale: drains of the autoscaler's own are taken back.
    pub paused: bool,
}

/// What the cloud said in this run; nothing is carried over from an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// The VPS as a list shows it that everybody shares, or as it was asked for.
    pub looked: Option<Finding>,
    /// The answer about the VPS that is written down.
    pub asked: Option<Finding>,
    /// The answer about all VPSs that carry the identity, those that wait to be made included.
    pub listed: Option<Finding>,
    /// What the create call of this run returned.
    pub created: Option<Box<Vps>>,
}

/// What was tried when something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    Look,
    Create,
    Delete,
    PowerOff,
}

/// Everything one decision looks at.
#[derive(Clone, Debug)]
pub struct Observed {
    pub now: Timestamp,
    /// When this process began to look after VPSieNodes, by the clock of now.
    pub started_at: Timestamp,
    pub written: Written,
    pub wishes: Wishes,
    pub limits: Limits,
    /// Credentials and driver are there, and whose VPS it would be.
    pub ready_to_act: Result<Identity, Failure>,
    /// Why no VPS can be ordered now, known without asking the cloud for one.
    pub order: Result<(), Failure>,
    /// Why nothing is created, deleted or let go now: too many VPSs vanished at once.
    pub frozen: Option<String>,
    pub sightings: Sightings,
    /// The last thing that failed in this run, with what was tried.
    pub failure: Option<(Tried, Failure)>,
    /// What the cloud knows besides, for the status and the spec.
    pub resources: Option<NodeResources>,
    pub node: Option<NodeView>,
    /// Its node was there and is not any more, says the API server itself.
    pub node_lost: bool,
    /// The VPS shall join with a bootstrap token.
    pub token_wanted: bool,
    pub token: Option<TokenSeen>,
    /// What comes next in the drain, while there is a Node that is to be emptied.
    pub drain: Option<node::Step<node::Drained>>,
    pub list_lag: Duration,
    pub periods: Periods,
}

/// What becomes of the spec once it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecChange {
    pub node_name: Option<String>,
    pub ip_address: Option<String>,
    pub ipv6_address: Option<String>,
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer,
    /// Look for the VPS in the list that everybody shares, or ask for it if no list does.
    Look(ProviderId),
    /// Ask the cloud for the VPS with this id.
    Ask(ProviderId),
    /// Ask the cloud for the VPS that the claim names.
    AskForClaim,
    /// List the VPSs that carry the identity, in a list begun now.
    List,
    /// Write a fresh mark on the VPSieNode, its version as precondition.
    MarkAttempt,
    /// Write the mark once more with the time of now. Its call counts as sent.
    Redate,
    /// Take the mark off: its call was refused.
    ClearAttempt,
    /// Look for the VPSieNode's bootstrap token.
    FindToken,
    /// Make one with this id.
    MakeToken(String),
    DropToken(OwnToken),
    /// Send the create call of the mark.
    Create,
    /// Write number and id of the VPS on the VPSieNode and take the mark off.
    Adopt(ProviderId),
    WriteSpec(SpecChange),
    Write(Box<Report>),
    /// Write since when the VPS is not shown, or that it is shown again.
    NoteAbsence(Timestamp),
    ForgetAbsence,
    /// A merge patch of the Node.
    PatchNode(Value),
    /// Cordon the Node and note on it for whom, its version as precondition.
    CordonNode,
    UncordonNode,
    /// A step of the drain.
    OnNode(node::Act),
    /// Switch the VPS off, because nobody else can say that nothing runs on it any more.
    PowerOff(ProviderId),
    DeleteVps(ProviderId),
    DeleteNode,
    /// Take off that the autoscaler wants it gone; if it could not be emptied, note when.
    CancelRemoval {
        failed: bool,
    },
    /// Delete the VPSieNode, this version of it and no other.
    DeleteSelf,
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

impl Step {
    fn wait(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Wait { reason, message: message.into(), again: LOOK_AGAIN }
    }
}

/// How much of `period` is left since then. A clock that was set back makes nobody wait longer than the whole.
fn left(now: Timestamp, since: Timestamp, period: SignedDuration) -> Option<Duration> {
    let left = period.saturating_sub(now.duration_since(since)).min(period);
    left.is_positive().then(|| left.unsigned_abs())
}
