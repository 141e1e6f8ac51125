//! The drain's part of a deletion, in the words that both sides understand.

use super::{
    Observed, Step,
    decide::{deleting_with, written_or},
    node::{self, Cleared, Drained, Failing, Waiting},
    text,
};
use crate::api::OperationState;

/// A text that told of a failure begins so.
const FAILED: &str = "Drain failed due to ";

fn next(description: String) -> Step {
    Step::WriteStatus(deleting_with(description, OperationState::Processing))
}

pub(super) fn drain(seen: &Observed) -> Step {
    match &seen.drain {
        None => {
            next(format!("Skipping drain as nodeName is not a valid one for machine. {}", text::DELETE_VM))
        }
        Some(node::Step::Act(act)) => Step::OnNode(act.clone()),
        Some(node::Step::Wait(waiting)) => wait(seen, waiting),
        Some(node::Step::Done(drained)) => next(ended(drained)),
    }
}

fn wait(seen: &Observed, waiting: &Waiting) -> Step {
    let wait = Step::Wait { reason: waiting.reason, message: waiting.message.clone(), again: waiting.again };
    let failed = |why: String| {
        let description = format!("{FAILED}{why}. Will retry in next sync. {}", text::DRAIN);
        written_or(seen, deleting_with(description, OperationState::Failed), wait.clone())
    };
    match &waiting.failing {
        Some(Failing::Drain(error)) => failed(format!("- {error}")),
        Some(Failing::Condition(error)) => failed(format!("failure in update of node conditions - {error}")),
        // What failed before does not any more.
        None if seen.description.starts_with(FAILED) => next(text::DRAIN.to_owned()),
        None => wait,
    }
}

fn ended(drained: &Drained) -> String {
    match (&drained.failed, drained.forced, drained.volumes_left) {
        (Some(error), ..) => format!(
            "{FAILED}- {error}. However, since it's a force deletion shall continue deletion of VM. {}",
            text::DELETE_ATTACHMENTS
        ),
        (None, Some(_), _) => format!("Force Drain successful. {}", text::DELETE_ATTACHMENTS),
        // Volumes that did not let go in time are not left to a controller that waits much longer.
        (None, None, true) => format!("Drain successful. {}", text::DELETE_ATTACHMENTS),
        (None, None, false) => format!("Drain successful. {}", text::DELETE_VM),
    }
}

pub(super) fn detach(seen: &Observed) -> Step {
    let node = seen.node.as_ref().map_or(seen.name.as_str(), |node| node.name.as_str());
    let gone = |name: &str| format!("Skipping deleteNodeVolAttachments due to - node {name:?} not found");
    let cleared = match &seen.attachments {
        Some(node::Step::Act(act)) => return Step::OnNode(act.clone()),
        Some(node::Step::Wait(waiting)) => return wait(seen, waiting),
        Some(node::Step::Done(Cleared::NoneLive)) => format!("No Live VolumeAttachments for node: {node}"),
        Some(node::Step::Done(Cleared::Detached)) => {
            format!("Node Volumes for node: {node} are already detached")
        }
        Some(node::Step::Done(Cleared::NodeGone)) => gone(node),
        None => gone(""),
    };
    next(format!("{cleared}. Moving to VM Deletion. {}", text::DELETE_VM))
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
