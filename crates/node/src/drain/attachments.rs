//! What becomes of the VolumeAttachments of a node whose machine is deleted without waiting for volumes.

use super::{Act, Cleared, NodeSeen, Step, TRY_AGAIN, Waiting, decide::look_again};
use jiff::Timestamp;

#[derive(Clone, Debug)]
pub(crate) struct AttachmentsSeen {
    pub(crate) now: Timestamp,
    pub(crate) node: NodeSeen,
    /// The node's status names volumes.
    pub(crate) volumes_attached: bool,
    /// Attachments that nobody has deleted yet.
    pub(crate) live: Vec<String>,
    /// Why the last deletion failed.
    pub(crate) failed: Option<String>,
}

pub(crate) fn clear(seen: &AttachmentsSeen) -> Step<Cleared> {
    match &seen.node {
        NodeSeen::NotInCache => return Step::Act(Act::LookForNode),
        NodeSeen::Unanswered { at, text } => return look_again(seen.now, *at, text),
        NodeSeen::Gone => return Step::Done(Cleared::NodeGone),
        NodeSeen::There { .. } => {}
    }
    match &seen.failed {
        Some(failed) if !seen.live.is_empty() => Step::Wait(Waiting {
            reason: "AttachmentsLeft",
            message: format!("VolumeAttachments could not be deleted: {failed}"),
            failing: None,
            again: TRY_AGAIN,
        }),
        _ if !seen.live.is_empty() => Step::Act(Act::Detach(seen.live.clone())),
        _ if seen.volumes_attached => Step::Done(Cleared::NoneLive),
        _ => Step::Done(Cleared::Detached),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::Tried;

    #[test]
    fn attachments_that_nobody_deleted_are_deleted() {
        let there = NodeSeen::There { marked: Tried::Done, cordoned: Tried::Done };
        let seen = |node: &NodeSeen, volumes_attached, live: &[&str], failed: Option<&str>| AttachmentsSeen {
            now: Timestamp::UNIX_EPOCH,
            node: node.clone(),
            volumes_attached,
            live: live.iter().map(|&name| name.to_owned()).collect(),
            failed: failed.map(str::to_owned),
        };
        let detach =
            |names: &[&str]| Step::Act(Act::Detach(names.iter().map(|&name| name.to_owned()).collect()));
        for (seen, expected) in [
            (seen(&NodeSeen::NotInCache, false, &["a"], None), Step::Act(Act::LookForNode)),
            (seen(&NodeSeen::Gone, true, &["a"], None), Step::Done(Cleared::NodeGone)),
            (seen(&there, false, &[], None), Step::Done(Cleared::Detached)),
            (seen(&there, true, &[], None), Step::Done(Cleared::NoneLive)),
            (seen(&there, true, &["a", "b"], None), detach(&["a", "b"])),
            // Attached but not yet told by the node.
            (seen(&there, false, &["a"], None), detach(&["a"])),
            (seen(&there, true, &[], Some("no")), Step::Done(Cleared::NoneLive)),
        ] {
            assert_eq!(clear(&seen), expected, "{seen:?}");
        }
        assert!(
            matches!(clear(&seen(&there, true, &["a"], Some("no"))), Step::Wait(Waiting { message, .. }) if message.ends_with("no"))
        );
    }
}
