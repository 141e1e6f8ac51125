//! The conditions of a NodeGroup.

use super::{Actions, Counts, Effective};
use crate::{
    api::{NodeGroupCondition as Condition, NodeGroupConditionType as Kind},
    names::{error, reason},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What keeps a group from doing its work, the most fundamental first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    InvalidConfiguration,
    VpssVanished,
    CloudNotUsable,
    ProvisioningFailed,
}

impl TroubleKind {
    fn reason(self) -> &'static str {
        match self {
            Self::InvalidConfiguration => reason::INVALID_CONFIGURATION,
            Self::VpssVanished => reason::VPS_VANISHED,
            Self::CloudNotUsable => reason::CLOUD_NOT_USABLE,
            Self::ProvisioningFailed => reason::PROVISIONING_FAILED,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub message: String,
}

/// All five, each with the moment since when it is so.
pub fn conditions(
    before: &[Condition],
    now: Timestamp,
    limits: &Effective,
    counts: Counts,
    actions: &Actions,
    deleting: bool,
    troubles: &[Trouble],
) -> Vec<Condition> {
    let made: u32 = u32::try_from(actions.create.len()).unwrap_or(u32::MAX);
    let desired = actions.desired;
    let facts = [
        ready(counts, desired, made),
        scaling(limits, counts, desired, made, deleting),
        trouble(troubles),
        at_minimum(limits, desired),
        at_maximum(limits, desired, actions.beyond),
    ];
    facts
        .into_iter()
        .map(|(kind, is, reason, message)| {
            let status = if is { "True" } else { "False" }.to_owned();
            let same = before.iter().find(|condition| condition.kind == kind && condition.status == status);
            let last_transition_time =
                same.map_or(Time(now), |condition| condition.last_transition_time.clone());
            Condition { kind, status, last_transition_time, reason: reason.to_owned(), message }
        })
        .collect()
}

type Fact = (Kind, bool, &'static str, String);

fn ready(counts: Counts, desired: u32, made: u32) -> Fact {
    let Counts { ready, current, coming, going, .. } = counts;
    let settled = made == 0 && coming == 0 && going == 0;
    if settled && ready == desired && current == desired {
        return (Kind::Ready, true, reason::ALL_NODES_READY, "All nodes are ready and operational".into());
    }
    (Kind::Ready, false, reason::NODES_NOT_READY, format!("{ready} of {desired} nodes are ready"))
}

fn scaling(limits: &Effective, counts: Counts, desired: u32, made: u32, deleting: bool) -> Fact {
    let Counts { coming, going, wanted, .. } = counts;
    let up = coming.saturating_add(made);
    if deleting {
        let message = format!("{} nodes are being removed with the NodeGroup", wanted.saturating_add(going));
        return (Kind::Scaling, true, reason::DELETING, message);
    }
    if up > 0 {
        let message = format!("{up} nodes are on their way to {desired}");
        return (Kind::Scaling, true, reason::SCALING_UP, message);
    }
    if going > 0 || wanted > desired {
        let message = format!("{} nodes are being removed", going.max(wanted.saturating_sub(desired)));
        return (Kind::Scaling, true, reason::SCALING_DOWN, message);
    }
    if limits.paused {
        return (Kind::Scaling, false, reason::PAUSED, "Autoscaling is paused for this NodeGroup".into());
    }
    (Kind::Scaling, false, reason::AT_DESIRED_SIZE, "The NodeGroup has the size that it should have".into())
}

fn trouble(troubles: &[Trouble]) -> Fact {
    match troubles.iter().min() {
        Some(first) => {
            let same = troubles.iter().filter(|trouble| trouble.kind == first.kind);
            let mut messages: Vec<&str> = same.map(|trouble| trouble.message.as_str()).collect();
            messages.sort_unstable();
            messages.dedup();
            (Kind::Error, true, first.kind.reason(), messages.join("; "))
        }
        None => (Kind::Error, false, reason::NO_ERRORS, String::new()),
    }
}

fn at_minimum(limits: &Effective, desired: u32) -> Fact {
    let min = limits.min;
    if desired <= min {
        (Kind::AtMinCapacity, true, reason::MINIMUM_REACHED, format!("{desired} nodes, the minimum is {min}"))
    } else {
        (Kind::AtMinCapacity, false, reason::ABOVE_MINIMUM, format!("{desired} nodes, the minimum is {min}"))
    }
}

fn at_maximum(limits: &Effective, desired: u32, beyond: u32) -> Fact {
    let max = limits.max;
    let sizes = format!("{desired} nodes, the maximum is {max}");
    if desired < max && beyond == 0 {
        return (Kind::AtMaxCapacity, false, reason::BELOW_MAXIMUM, sizes);
    }
    let more = if beyond > 0 { format!(", {beyond} more were wanted") } else { String::new() };
    let message = format!("{}: {sizes}{more}", error::MAXIMUM_REACHED);
    (Kind::AtMaxCapacity, true, reason::MAXIMUM_REACHED, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::New;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn all(count: u32) -> Counts {
        Counts { current: count, ready: count, wanted: count, vpss: count, ..Counts::default() }
    }

    fn desired(desired: u32) -> Actions {
        Actions { desired, ..Actions::default() }
    }

    struct Scene {
        limits: Effective,
        counts: Counts,
        actions: Actions,
        deleting: bool,
        troubles: Vec<Trouble>,
    }

    fn calm() -> Scene {
        let limits = Effective { min: 1, max: 5, ..Effective::default() };
        Scene { limits, counts: all(3), actions: desired(3), deleting: false, troubles: Vec::new() }
    }

    impl Scene {
        fn conditions(&self, before: &[Condition], now: Timestamp) -> Vec<Condition> {
            let Self { limits, counts, actions, deleting, troubles } = self;
            conditions(before, now, limits, *counts, actions, *deleting, troubles)
        }

        fn say(&self, kind: Kind) -> String {
            let all = self.conditions(&[], at(0));
            let one = all.iter().find(|condition| condition.kind == kind).unwrap();
            format!("{} {} {}", one.status, one.reason, one.message)
        }
    }

    fn trouble(kind: TroubleKind, message: &str) -> Trouble {
        Trouble { kind, message: message.into() }
    }

    #[test]
    fn each_condition_is_true_and_false_for_a_reason() {
        let new = || New { offering: "small".into(), for_minimum: false };
        let table = [
            (Kind::Ready, calm(), "True AllNodesReady All nodes are ready and operational"),
            (
                Kind::Ready,
                Scene { counts: Counts { ready: 2, ..all(3) }, ..calm() },
                "False NodesNotReady 2 of 3 nodes are ready",
            ),
            (
                Kind::Ready,
                Scene { actions: desired(4), ..calm() },
                "False NodesNotReady 3 of 4 nodes are ready",
            ),
            (
                Kind::Ready,
                Scene { counts: Counts { going: 1, current: 4, ..all(3) }, ..calm() },
                "False NodesNotReady 3 of 3 nodes are ready",
            ),
            (
                Kind::Ready,
                Scene { counts: all(0), actions: desired(0), ..calm() },
                "True AllNodesReady All nodes are ready and operational",
            ),
            (Kind::Scaling, calm(), "False AtDesiredSize The NodeGroup has the size that it should have"),
            (
                Kind::Scaling,
                Scene { actions: Actions { create: vec![new()], ..desired(4) }, ..calm() },
                "True ScalingUp 1 nodes are on their way to 4",
            ),
            (
                Kind::Scaling,
                Scene { counts: Counts { coming: 2, wanted: 5, ..all(3) }, actions: desired(5), ..calm() },
                "True ScalingUp 2 nodes are on their way to 5",
            ),
            (
                Kind::Scaling,
                Scene { counts: Counts { going: 1, wanted: 2, ..all(3) }, actions: desired(2), ..calm() },
                "True ScalingDown 1 nodes are being removed",
            ),
            (
                Kind::Scaling,
                Scene { actions: desired(1), ..calm() },
                "True ScalingDown 2 nodes are being removed",
            ),
            (
                Kind::Scaling,
                Scene { limits: Effective { paused: true, ..calm().limits }, ..calm() },
                "False Paused Autoscaling is paused for this NodeGroup",
            ),
            (
                Kind::Scaling,
                Scene { deleting: true, ..calm() },
                "True Deleting 3 nodes are being removed with the NodeGroup",
            ),
            (Kind::Error, calm(), "False NoErrors "),
            (
                Kind::Error,
                Scene {
                    troubles: vec![
                        trouble(TroubleKind::ProvisioningFailed, "Insufficient VPSie quota"),
                        trouble(TroubleKind::InvalidConfiguration, "b"),
                        trouble(TroubleKind::InvalidConfiguration, "a"),
                        trouble(TroubleKind::InvalidConfiguration, "b"),
                    ],
                    ..calm()
                },
                "True InvalidConfiguration a; b",
            ),
            (
                Kind::Error,
                Scene { troubles: vec![trouble(TroubleKind::ProvisioningFailed, "no")], ..calm() },
                "True ProvisioningFailed no",
            ),
            (
                Kind::Error,
                Scene { troubles: vec![trouble(TroubleKind::VpssVanished, "no")], ..calm() },
                "True VPSsVanished no",
            ),
            (
                Kind::Error,
                Scene { troubles: vec![trouble(TroubleKind::CloudNotUsable, "no")], ..calm() },
                "True VPSieAPIError no",
            ),
            (Kind::AtMinCapacity, calm(), "False AboveMinimum 3 nodes, the minimum is 1"),
            (
                Kind::AtMinCapacity,
                Scene { actions: desired(1), ..calm() },
                "True MinimumReached 1 nodes, the minimum is 1",
            ),
            (Kind::AtMaxCapacity, calm(), "False BelowMaximum 3 nodes, the maximum is 5"),
            (
                Kind::AtMaxCapacity,
                Scene { actions: desired(5), ..calm() },
                "True MaximumReached Maximum nodes reached: 5 nodes, the maximum is 5",
            ),
            (
                Kind::AtMaxCapacity,
                Scene { actions: Actions { beyond: 2, ..desired(4) }, ..calm() },
                "True MaximumReached Maximum nodes reached: 4 nodes, the maximum is 5, 2 more were wanted",
            ),
        ];
        for (kind, scene, expected) in table {
            assert_eq!(scene.say(kind), expected);
        }
    }

    #[test]
    fn the_moment_stays_as_long_as_it_is_so() {
        let first = calm().conditions(&[], at(10));
        let kinds: Vec<Kind> = first.iter().map(|condition| condition.kind).collect();
        assert_eq!(
            kinds,
            [Kind::Ready, Kind::Scaling, Kind::Error, Kind::AtMinCapacity, Kind::AtMaxCapacity]
        );
        let later = Scene { actions: desired(5), ..calm() }.conditions(&first, at(20));
        let moments: Vec<i64> =
            later.iter().map(|condition| condition.last_transition_time.0.as_second()).collect();
        assert_eq!(moments, [20, 10, 10, 10, 20]);
    }
}
