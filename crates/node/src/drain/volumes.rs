//! Which volumes are in the way of the next pod with volumes.

use super::{Limits, after};
use jiff::Timestamp;

/// What is seen of a volume that was or is on the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeFacts {
    /// A pod on the node uses it and is not on its way out.
    pub(crate) used: bool,
    /// Pods on the node that use it are leaving, and until then it may take to be detached.
    pub(crate) leaving: Option<Timestamp>,
    pub(crate) attached_here: bool,
    pub(crate) attached_elsewhere: bool,
    /// What was known of it before.
    pub(crate) before: Option<Tracked>,
}

/// What is remembered of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Until when it may take to be detached; nothing while a pod uses it.
    pub(crate) detached_by: Option<Timestamp>,
    /// When it was first seen to be detached.
    pub(crate) detached: Option<Timestamp>,
}

/// How a volume that no pod on the node needs any more is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTheWay {
    Detaching {
        until: Timestamp,
    },
    /// It did not leave in time and is not waited for any more.
    Stuck,
    /// It is not yet attached to another node.
    Reattaching {
        until: Timestamp,
    },
}

/// What to remember of a volume, and whether it is in the way.
pub(crate) fn track(
    facts: VolumeFacts,
    limits: Limits,
    now: Timestamp,
) -> (Option<Tracked>, Option<InTheWay>) {
    if facts.used {
        // Remembered now: when somebody looks next, its pod and its attachment may both be gone. What was never
        // attached, such as a share of a file server, need not be detached.
        let was_here = facts.attached_here || facts.before.is_some();
        return (was_here.then_some(Tracked { detached_by: None, detached: None }), None);
    }
    if facts.attached_here {
        let known = facts.leaving.or_else(|| facts.before?.detached_by);
        let until = known.unwrap_or_else(|| after(now, limits.detach));
        let state = if now < until { InTheWay::Detaching { until } } else { InTheWay::Stuck };
        // A pod that leaves is itself in the way.
        let state = facts.leaving.is_none().then_some(state);
        return (Some(Tracked { detached_by: Some(until), detached: None }), state);
    }
    let Some(before) = facts.before.filter(|_| !facts.attached_elsewhere) else { return (None, None) };
    let detached = before.detached.unwrap_or(now);
    let until = after(detached, limits.reattach);
    if now < until {
        (Some(Tracked { detached: Some(detached), ..before }), Some(InTheWay::Reattaching { until }))
    } else {
        (None, None)
    }
}

/// Whether a name in a node's `volumesAttached` means the volume with this id, not one whose id only begins or
/// ends alike.
pub(crate) fn is_named_in(id: &str, attached: &str) -> bool {
    let part_of_id = |character: char| character.is_alphanumeric() || character == '-' || character == '_';
    !id.is_empty()
        && attached.match_indices(id).any(|(at, _)| {
            let before = attached.get(..at).and_then(|text| text.chars().next_back());
            let behind = attached.get(at + id.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(part_of_id) && !behind.is_some_and(part_of_id)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_volume_is_followed_from_one_node_to_the_other() {
        let limits = Limits::default();
        let quiet = VolumeFacts {
            used: false,
            leaving: None,
            attached_here: false,
            attached_elsewhere: false,
            before: None,
        };
        let used = Some(Tracked { detached_by: None, detached: None });
        let before = Some(Tracked { detached_by: Some(at(1100)), detached: None });
        let detached = Some(Tracked { detached_by: Some(at(1100)), detached: Some(at(950)) });
        let seen_now = Some(Tracked { detached_by: Some(at(1100)), detached: Some(at(1000)) });
        let detaching = |until| Some(InTheWay::Detaching { until: at(until) });
        let reattaching = |until| Some(InTheWay::Reattaching { until: at(until) });
        for (name, facts, now, expected) in [
            ("never there", quiet, 1000, (None, None)),
            ("used", VolumeFacts { used: true, attached_here: true, ..quiet }, 1000, (used, None)),
            ("used and never attached", VolumeFacts { used: true, ..quiet }, 1000, (None, None)),
            (
                "used and not attached any more",
                VolumeFacts { used: true, before: used, ..quiet },
                1000,
                (used, None),
            ),
            (
                "used by one that leaves and one that does not",
                VolumeFacts { used: true, leaving: Some(at(1100)), attached_here: true, ..quiet },
                1000,
                (used, None),
            ),
            (
                "its pod leaves",
                VolumeFacts { leaving: Some(at(1100)), attached_here: true, ..quiet },
                1000,
                (before, None),
            ),
            (
                "its pod leaves and it was never attached",
                VolumeFacts { leaving: Some(at(1100)), ..quiet },
                1000,
                (None, None),
            ),
            (
                "its pod leaves after it",
                VolumeFacts { leaving: Some(at(1100)), before, ..quiet },
                1000,
                (seen_now, reattaching(1090)),
            ),
            (
                "its pod leaves after it, and it is elsewhere",
                VolumeFacts { leaving: Some(at(1100)), before, attached_elsewhere: true, ..quiet },
                1000,
                (None, None),
            ),
            (
                "its pod was there in the last look and is gone",
                VolumeFacts { attached_here: true, before: used, ..quiet },
                1000,
                (Some(Tracked { detached_by: Some(at(1120)), detached: None }), detaching(1120)),
            ),
            (
                "its pod was there in the last look, and both are gone",
                VolumeFacts { before: used, ..quiet },
                1000,
                (Some(Tracked { detached_by: None, detached: Some(at(1000)) }), reattaching(1090)),
            ),
            (
                "its pod was there in the last look, and it is elsewhere",
                VolumeFacts { before: used, attached_elsewhere: true, ..quiet },
                1000,
                (None, None),
            ),
            (
                "its pod is gone",
                VolumeFacts { attached_here: true, before, ..quiet },
                1000,
                (before, detaching(1100)),
            ),
            (
                "its pod was gone when we came",
                VolumeFacts { attached_here: true, ..quiet },
                1000,
                (Some(Tracked { detached_by: Some(at(1120)), detached: None }), detaching(1120)),
            ),
            (
                "it does not let go",
                VolumeFacts { attached_here: true, before, ..quiet },
                1100,
                (before, Some(InTheWay::Stuck)),
            ),
            (
                "attached to two nodes at once",
                VolumeFacts { attached_here: true, attached_elsewhere: true, before, ..quiet },
                1000,
                (before, detaching(1100)),
            ),
            ("let go", VolumeFacts { before, ..quiet }, 1000, (seen_now, reattaching(1090))),
            (
                "not yet elsewhere",
                VolumeFacts { before: detached, ..quiet },
                1000,
                (detached, reattaching(1040)),
            ),
            ("never elsewhere", VolumeFacts { before: detached, ..quiet }, 1040, (None, None)),
            (
                "elsewhere",
                VolumeFacts { before: detached, attached_elsewhere: true, ..quiet },
                1000,
                (None, None),
            ),
        ] {
            assert_eq!(track(facts, limits, at(now)), expected, "{name}");
        }
    }

    #[test]
    fn ids_are_not_taken_for_parts_of_others() {
        for (id, attached, expected) in [
            ("vol-1", "kubernetes.io/csi/driver^vol-1", true),
            ("vol-1", "kubernetes.io/csi/driver^vol-10", false),
            ("vol-1", "kubernetes.io/csi/driver^my-vol-1", false),
            ("vol-1", "kubernetes.io/cinder/vol-1", true),
            ("vol-1", "kubernetes.io/csi/driver^vol-1/vol-10", true),
            ("a.*", "kubernetes.io/csi/driver^abc", false),
            ("", "kubernetes.io/csi/driver^abc", false),
            ("vol-1", "", false),
        ] {
            assert_eq!(is_named_in(id, attached), expected, "{id} in {attached}");
        }
    }
}
