//! How a node is doing, by its conditions.

use crate::Node;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeCondition;
use std::fmt;

/// How long a node may be unwell before nothing of it is waited for any more.
const UNWELL_FOR: SignedDuration = SignedDuration::from_mins(5);
/// The condition that says that a node is on its way out.
pub(crate) const TERMINATING: &str = "Terminating";

/// Why pods are deleted at once, whatever their grace periods and budgets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Somebody asked for it.
    Asked,
    /// The drain took longer than it may.
    TimedOut,
    /// The node has not been ready for minutes.
    NotReady,
    /// The node's file system has been read-only for minutes.
    ReadonlyFilesystem,
}

impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "it was asked for",
            Self::TimedOut => "the drain timeout is over",
            Self::NotReady => "the node is NotReady for over 5min",
            Self::ReadonlyFilesystem => "the node is in ReadonlyFilesystem for over 5min",
        })
    }
}

pub(crate) fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Whether the node says of itself that it can run pods.
pub fn is_ready(node: &Node) -> bool {
    conditions(node).iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Why the node's drain has to be forced, and from when on. It may lie ahead.
pub(crate) fn forced_at(node: &Node) -> Option<(Timestamp, Forced)> {
    let unwell = |kind: &str, well: &str, why: Forced| {
        let condition = conditions(node).iter().find(|one| one.type_ == kind && one.status != well)?;
        let since = condition.last_transition_time.as_ref()?.0;
        Some((since.checked_add(UNWELL_FOR).ok()?, why))
    };
    let ready = unwell("Ready", "True", Forced::NotReady);
    let writable = unwell("ReadonlyFilesystem", "False", Forced::ReadonlyFilesystem);
    [ready, writable].into_iter().flatten().min_by_key(|(at, _)| *at)
}

/// Whether it is marked as going.
pub(crate) fn is_terminating(node: &Node) -> bool {
    conditions(node).iter().any(|one| one.type_ == TERMINATING && one.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_that_is_unwell_for_long_is_not_waited_for() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let condition = |kind: &str, status: &str, since: i64| json!({"type": kind, "status": status, "lastTransitionTime": at(since).to_string()});
        let cases = [
            ("nothing known", json!([]), None),
            ("well", json!([condition("Ready", "True", 0)]), None),
            ("not ready", json!([condition("Ready", "False", 10)]), Some((at(310), Forced::NotReady))),
            ("unknown", json!([condition("Ready", "Unknown", 10)]), Some((at(310), Forced::NotReady))),
            ("since when is not known", json!([{"type": "Ready", "status": "False"}]), None),
            (
                "read-only",
                json!([condition("Ready", "True", 0), condition("ReadonlyFilesystem", "True", 5)]),
                Some((at(305), Forced::ReadonlyFilesystem)),
            ),
            (
                "the earlier counts",
                json!([condition("Ready", "False", 9), condition("ReadonlyFilesystem", "Unknown", 5)]),
                Some((at(305), Forced::ReadonlyFilesystem)),
            ),
        ];
        for (name, conditions, expected) in cases {
            let node: Node =
                serde_json::from_value(json!({"metadata": {}, "status": {"conditions": conditions}}))
                    .unwrap();
            assert_eq!(forced_at(&node), expected, "{name}");
        }
    }
}
