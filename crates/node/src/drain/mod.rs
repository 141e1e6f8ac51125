//! What a drain is, and the pure functions that decide its next step.

mod attachments;
mod decide;
mod volumes;

pub(crate) use attachments::{AttachmentsSeen, clear};
pub(crate) use decide::decide;
pub(crate) use volumes::{InTheWay, Tracked, VolumeFacts, is_named_in, track};

use crate::{Node, health::Forced};
use hostler_controller::Key;
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// How soon a pod that a budget holds back is asked for again when nothing tells that the budget has changed.
pub(crate) const EVICT_AGAIN: Duration = Duration::from_secs(20);
/// How soon something that failed is tried again.
pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(5);
/// How long after its grace period a pod may still be there.
const LEAVE_LATE: Duration = Duration::from_secs(30);
/// How long a forced drain goes on trying.
pub(crate) const FORCE_FOR: Duration = Duration::from_mins(1);
/// How soon a drain is looked at when nothing wakes it earlier.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// How long a drain may take, and the waits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From [`Order::since`] on; then it is forced.
    pub timeout: Duration,
    /// A pod that budgets hold back for so many times 20 s is deleted all the same.
    pub evict_retries: u32,
    /// How long after a pod's grace period its volumes may stay attached.
    pub detach: Duration,
    /// How long to wait until they are attached to another node.
    pub reattach: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_hours(2),
            evict_retries: 360,
            detach: Duration::from_mins(2),
            reattach: Duration::from_secs(90),
        }
    }
}

/// Whether a node is the one that is meant.
pub type IsMeant = Arc<dyn Fn(&Node) -> bool + Send + Sync>;

/// A drain that is wanted.
#[derive(Clone)]
pub struct Order {
    /// The object on whose behalf it is done: it is woken when something changes.
    pub key: Key,
    pub node: String,
    /// Another one of that name is left alone.
    pub is_meant: IsMeant,
    /// Since when it is wanted; the timeout counts from here.
    pub since: Timestamp,
    pub limits: Limits,
    /// Delete pods at once.
    pub force: bool,
    /// Reason and message of the condition `Terminating` that is set on the node before anything else.
    pub mark: Option<(&'static str, &'static str)>,
    /// The ids, by the names of PersistentVolumes, of the volumes that are waited for. Without anybody to tell, all
    /// volumes of clouds are.
    pub volumes: Option<BTreeMap<String, String>>,
    /// Pods that have ended may stay.
    pub leave_ended: bool,
}

/// One pod of a name, not a later one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remove {
    /// Through the eviction API, as far as budgets allow, with the pod's own grace period.
    Evict,
    /// At once.
    Delete,
}

/// A pod that is to go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub pod: PodId,
    pub how: Remove,
    /// The disruption of a budget that it needs; nothing if it is asked for whatever we think is left.
    pub share: Option<Share>,
}

/// A disruption that a budget allows, as seen in one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub budget: String,
    pub version: String,
    pub allowed: i32,
}

/// One effect, or several that do not depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask for the node, which no watch has shown.
    LookForNode,
    /// Write on the node that it is going.
    Mark,
    Cordon,
    Remove(Vec<Removal>),
    /// Ask whether pods are left on the node, which no watch shows.
    Verify,
    /// Delete these VolumeAttachments.
    Detach(Vec<String>),
}

/// What comes next; `T` is how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    Act(Act),
    Wait(Waiting),
    Done(T),
}

/// Nothing can be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// A word in CamelCase that programs can compare.
    pub reason: &'static str,
    /// Which pods, budgets or volumes are waited for.
    pub message: String,
    /// What will not get better by waiting, but is tried again all the same.
    pub failing: Option<Failing>,
    /// Look again then, or when the key is woken.
    pub again: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The node's condition could not be written.
    Condition(String),
    Drain(String),
}

/// A drain has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    pub forced: Option<Forced>,
    /// What went wrong in a forced drain, which ends all the same.
    pub failed: Option<String>,
    /// Volumes are still attached; their attachments have to be deleted.
    pub volumes_left: bool,
    pub took: Duration,
}

/// Why no attachment is left to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    NodeGone,
    Detached,
    NoneLive,
}

/// Everything one decision looks at.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) now: Timestamp,
    /// Since when this process has been at it.
    pub(crate) began: Timestamp,
    pub(crate) node_name: String,
    pub(crate) limits: Limits,
    pub(crate) forced: Option<Forced>,
    /// Until when a forced drain goes on trying.
    pub(crate) force_until: Timestamp,
    /// When it will be forced if it is not yet.
    pub(crate) forced_at: Timestamp,
    pub(crate) node: NodeSeen,
    /// The pods that have to leave, ordered by namespace and name.
    pub(crate) pods: Vec<PodSeen>,
    pub(crate) budgets: BTreeMap<String, BudgetSeen>,
    /// Volumes that no pod on the node uses any more but that are still waited for.
    pub(crate) volumes: Vec<(String, InTheWay)>,
    pub(crate) verified: Verified,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeSeen {
    NotInCache,
    /// The API server was asked for it and did not answer.
    Unanswered {
        at: Timestamp,
        text: String,
    },
    Gone,
    There {
        marked: Tried,
        cordoned: Tried,
    },
}

/// Something that is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    NotYet,
    Done,
    Failed { at: Timestamp, text: String },
}

/// Whether the API server itself was asked for pods on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verified {
    #[default]
    No,
    NoneLeft,
    /// It has pods that the watch has not shown yet, or did not answer.
    NotNow {
        at: Timestamp,
        text: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct PodSeen {
    pub(crate) id: PodId,
    pub(crate) priority: i32,
    pub(crate) has_claims: bool,
    /// The volumes that will be waited for when it goes.
    pub(crate) volumes: Vec<String>,
    pub(crate) leaving: Option<Leaving>,
    /// The budget that the API server will ask.
    pub(crate) budget: Option<String>,
    pub(crate) refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) at_once: bool,
    /// Until when its volumes may take to be detached.
    pub(crate) detached_by: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct BudgetSeen {
    pub(crate) version: String,
    pub(crate) allowed: i32,
    /// How many of these nobody has taken yet.
    pub(crate) left: i32,
    pub(crate) misconfigured: bool,
}

/// A pod was asked for, or held back without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A budget, in this version if we know it.
    Budget {
        version: Option<String>,
    },
    /// Somebody else was faster.
    Conflict,
    Error(String),
}

/// A moment later by so much; the end of time if there is none.
pub(crate) fn after(moment: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    moment.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// How long from now until then; nothing if it is over.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
