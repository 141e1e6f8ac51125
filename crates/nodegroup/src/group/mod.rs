//! What a NodeGroup wants of its VPSieNodes, as pure functions.

mod back_off;
mod batch;
mod carry;
mod conditions;
mod events;
mod farewell;
mod health;
mod input;
mod limits;
mod made_for;
mod make;
mod member;
mod resolve;
mod status;
mod windows;

pub use back_off::{BackOff, FIRST as FIRST_BACK_OFF, LONGEST as LONGEST_BACK_OFF};
pub use batch::{Batch, LONGEST as LONGEST_BATCH, QUIET};
pub use carry::{Actions, Choice, Group, New, REMOVE_AGAIN, Wanted, carry_out, wanted};
pub use conditions::{Trouble, TroubleKind, conditions};
pub use events::events;
pub use farewell::{Farewell, farewell};
pub use health::{UNREADY_FOR, Verdict as HealthVerdict, unhealthy};
pub use input::{Size, complete, planned_group, planned_machine, planned_name};
pub use limits::{Effective, effective};
pub use made_for::{MadeFor, disappointed};
pub(crate) use make::label_value;
pub use make::{name_for, vpsie_node};
pub use member::cordon;
pub use resolve::{Catalogue, Meant, Named, meant, resolve};
pub use status::{nodes, status};
pub use windows::Windows;

use crate::{api::VPSieNodePhase as Phase, life::Why};
use jiff::Timestamp;

/// Whether there is a VPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Existence {
    #[default]
    None,
    /// A call was sent whose outcome is not known.
    Maybe,
    There,
}

/// A VPSieNode as its group sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub phase: Option<Phase>,
    pub deleting: bool,
    /// Why the autoscaler has it removed.
    pub removal: Option<Why>,
    /// When it could not be removed.
    pub removal_failed: Option<Timestamp>,
    pub protected: bool,
    pub offering: String,
    pub created_at: Timestamp,
    pub existence: Existence,
    pub vps_id: i64,
    pub node_name: String,
    pub ip_address: String,
    /// Its node has joined, whether it is still there or not.
    pub had_node: bool,
    pub node_ready: bool,
    /// Since when its node is not Ready, or not there any more.
    pub unready_since: Option<Timestamp>,
    /// Somebody else cordoned its node.
    pub cordoned: bool,
    /// So many pods would have to move.
    pub pods: u32,
    /// This very program runs on it.
    pub hosts_us: bool,
    pub last_error: String,
    /// When it came to nothing, if it did: it was not provisioned, or did not join.
    pub failed_at: Option<Timestamp>,
    pub ready_at: Option<Timestamp>,
}

/// What is to be expected of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Comes,
    Stays,
    Goes,
    Failed,
}

impl Member {
    pub fn standing(&self) -> Standing {
        match self.phase {
            _ if self.deleting => Standing::Goes,
            Some(Phase::Failed) => Standing::Failed,
            _ if self.removal.is_some() => Standing::Goes,
            Some(Phase::Ready) => Standing::Stays,
            // A removal was taken back a moment ago.
            Some(Phase::Terminating | Phase::Deleting) if self.had_node => Standing::Stays,
            _ => Standing::Comes,
        }
    }

    /// It makes way for a healthy one.
    pub(crate) fn is_being_replaced(&self) -> bool {
        self.removal == Some(Why::Unhealthy)
    }

    /// It is a node of its group now or soon.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.standing(), Standing::Comes | Standing::Stays)
    }

    /// It has a VPS, may have one, or will have.
    pub(crate) fn counts(&self) -> bool {
        self.standing() == Standing::Comes || self.existence != Existence::None
    }
}

/// The sizes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes with a VPS, those on their way out included.
    pub current: u32,
    /// Nodes that take pods.
    pub ready: u32,
    /// Nodes that are here to stay, and those that come.
    pub wanted: u32,
    pub coming: u32,
    pub going: u32,
    /// VPSs in whatever state, and those that may come of what is under way.
    pub vpss: u32,
}

pub fn counts(members: &[Member]) -> Counts {
    let count = |is: &dyn Fn(&Member) -> bool| {
        u32::try_from(members.iter().filter(|member| is(member)).count()).unwrap_or(u32::MAX)
    };
    Counts {
        current: count(&|member| {
            member.existence == Existence::There && member.standing() != Standing::Failed
        }),
        ready: count(&|member| member.standing() == Standing::Stays && member.node_ready),
        wanted: count(&Member::is_wanted),
        coming: count(&|member| member.standing() == Standing::Comes),
        going: count(&|member| member.standing() == Standing::Goes),
        vpss: count(&Member::counts),
    }
}

#[cfg(test)]
impl Member {
    /// One that is well.
    pub(crate) fn ready(name: &str) -> Self {
        Self {
            name: name.into(),
            phase: Some(Phase::Ready),
            offering: "small".into(),
            existence: Existence::There,
            had_node: true,
            node_ready: true,
            ..Self::default()
        }
    }

    /// One that was ordered a moment ago.
    pub(crate) fn coming(name: &str) -> Self {
        Self {
            name: name.into(),
            phase: Some(Phase::Provisioning),
            offering: "small".into(),
            existence: Existence::Maybe,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_by_what_is_to_be_expected_of_them() {
        let ready = || Member::ready("n");
        let failed = |existence| Member { phase: Some(Phase::Failed), existence, ..Member::coming("n") };
        let all = |standing, current, ready, vpss| (standing, [current, ready, vpss]);
        let table = [
            ("ready", ready(), all(Standing::Stays, 1, 1, 1)),
            ("not ready", Member { node_ready: false, ..ready() }, all(Standing::Stays, 1, 0, 1)),
            ("deleted", Member { deleting: true, ..ready() }, all(Standing::Goes, 1, 0, 1)),
            ("removed", Member { removal: Some(Why::Surplus), ..ready() }, all(Standing::Goes, 1, 0, 1)),
            (
                "the removal was taken back",
                Member { phase: Some(Phase::Terminating), ..ready() },
                all(Standing::Stays, 1, 1, 1),
            ),
            (
                "new",
                Member { phase: None, existence: Existence::None, ..Member::coming("n") },
                all(Standing::Comes, 0, 0, 1),
            ),
            ("ordered", Member::coming("n"), all(Standing::Comes, 0, 0, 1)),
            (
                "runs",
                Member {
                    phase: Some(Phase::Provisioned),
                    existence: Existence::There,
                    ..Member::coming("n")
                },
                all(Standing::Comes, 1, 0, 1),
            ),
            ("failed without a VPS", failed(Existence::None), all(Standing::Failed, 0, 0, 0)),
            ("failed with one perhaps", failed(Existence::Maybe), all(Standing::Failed, 0, 0, 1)),
            ("failed with one", failed(Existence::There), all(Standing::Failed, 0, 0, 1)),
            (
                "failed and to be removed",
                Member { removal: Some(Why::Surplus), ..failed(Existence::There) },
                all(Standing::Failed, 0, 0, 1),
            ),
        ];
        for (what, member, (standing, [current, ready, vpss])) in table {
            assert_eq!(member.standing(), standing, "{what}");
            let found = counts(std::slice::from_ref(&member));
            assert_eq!([found.current, found.ready, found.vpss], [current, ready, vpss], "{what}");
            assert_eq!(
                found.wanted,
                u32::from(matches!(standing, Standing::Comes | Standing::Stays)),
                "{what}"
            );
        }
    }
}
