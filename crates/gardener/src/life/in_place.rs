//! Updates in place: the node's labels say what is wanted, its condition how far it is. Whoever updates the node, in
//! Gardener its node agent, begins when the condition says that it is ready for it.

use super::{Observed, StatusChange, Step, node};
use crate::api::{OperationState, OperationType, Phase};

/// How far an update is, as the node's condition `InPlaceUpdate` gives it as its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    CandidateForUpdate,
    SelectedForUpdate,
    DrainSuccessful,
    ReadyForUpdate,
    UpdateSuccessful,
    UpdateFailed,
}

impl Stage {
    const ALL: [Self; 6] = [
        Self::CandidateForUpdate,
        Self::SelectedForUpdate,
        Self::DrainSuccessful,
        Self::ReadyForUpdate,
        Self::UpdateSuccessful,
        Self::UpdateFailed,
    ];

    pub fn reason(self) -> &'static str {
        match self {
            Self::CandidateForUpdate => "CandidateForUpdate",
            Self::SelectedForUpdate => "SelectedForUpdate",
            Self::DrainSuccessful => "DrainSuccessful",
            Self::ReadyForUpdate => "ReadyForUpdate",
            Self::UpdateSuccessful => "UpdateSuccessful",
            Self::UpdateFailed => "UpdateFailed",
        }
    }

    pub fn read(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.reason() == reason)
    }
}

/// What the node says about an update in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InPlace {
    pub candidate: bool,
    pub selected: bool,
    pub result: Option<UpdateResult>,
    pub stage: Option<Stage>,
}

/// What whoever updated the node says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateResult {
    Successful,
    /// With the reason.
    Failed(String),
}

/// What an update in place asks for now.
pub(super) fn in_place(seen: &Observed) -> Option<Step> {
    let place = &seen.node.as_ref()?.in_place;
    if let Some((stage, message)) = next_stage(place) {
        return Some(Step::SetInPlace(stage, message));
    }
    let said = |stage, message: &str| Some(Step::SetInPlace(stage, message.to_owned()));
    match place.stage? {
        Stage::SelectedForUpdate if seen.phase == Phase::InPlaceUpdating => {
            said(Stage::DrainSuccessful, "Node draining successful")
        }
        Stage::SelectedForUpdate => Some(drain(seen)),
        Stage::DrainSuccessful => said(Stage::ReadyForUpdate, "Node is ready for in-place update"),
        _ => None,
    }
}

/// What the labels ask for that the condition does not say yet.
fn next_stage(place: &InPlace) -> Option<(Stage, String)> {
    if !place.candidate {
        return None;
    }
    match (place.stage, &place.result) {
        (None, _) | (Some(Stage::UpdateSuccessful), None) => {
            Some((Stage::CandidateForUpdate, "Node is a candidate for in-place update".to_owned()))
        }
        (Some(Stage::CandidateForUpdate), _) if place.selected => {
            Some((Stage::SelectedForUpdate, "Node is selected for in-place update".to_owned()))
        }
        (Some(Stage::SelectedForUpdate), _) if place.selected => None,
        (Some(stage), Some(UpdateResult::Successful)) if stage != Stage::UpdateSuccessful => {
            Some((Stage::UpdateSuccessful, "Node in-place update successful".to_owned()))
        }
        (Some(stage), Some(UpdateResult::Failed(why))) if stage != Stage::UpdateFailed => {
            Some((Stage::UpdateFailed, format!("Node in-place update failed: {why}")))
        }
        _ => None,
    }
}

fn drain(seen: &Observed) -> Step {
    let name = &seen.name;
    match &seen.drain {
        Some(node::Step::Act(act)) => Step::OnNode(act.clone()),
        Some(node::Step::Wait(waiting)) => {
            let wait =
                Step::Wait { reason: waiting.reason, message: waiting.message.clone(), again: waiting.again };
            let Some(node::Failing::Drain(error) | node::Failing::Condition(error)) = &waiting.failing else {
                return wait;
            };
            let change = StatusChange {
                phase: None,
                timeout_active: false,
                description: format!("Drain failed due to - {error}. Will retry in next sync."),
                error_code: None,
                state: OperationState::Processing,
                operation: OperationType::DrainNode,
            };
            super::decide::written_or(seen, change, wait)
        }
        Some(node::Step::Done(_)) | None => Step::WriteStatus(StatusChange {
            phase: Some(Phase::InPlaceUpdating),
            timeout_active: false,
            description: format!("Machine {name} is undergoing an in-place update"),
            error_code: None,
            state: OperationState::Processing,
            operation: OperationType::InPlaceUpdate,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_lead_the_condition() {
        let failed = || Some(UpdateResult::Failed("no room".into()));
        let successful = || Some(UpdateResult::Successful);
        // candidate, selected, result, condition; what it becomes
        let table = [
            (false, true, successful(), None, None),
            (true, false, None, None, Some(Stage::CandidateForUpdate)),
            // First a candidate, then selected.
            (true, true, None, None, Some(Stage::CandidateForUpdate)),
            (true, false, None, Some(Stage::CandidateForUpdate), None),
            (true, true, None, Some(Stage::CandidateForUpdate), Some(Stage::SelectedForUpdate)),
            (true, true, None, Some(Stage::SelectedForUpdate), None),
            (true, true, successful(), Some(Stage::SelectedForUpdate), None),
            (true, true, None, Some(Stage::ReadyForUpdate), None),
            (true, true, successful(), Some(Stage::ReadyForUpdate), Some(Stage::UpdateSuccessful)),
            (true, true, failed(), Some(Stage::ReadyForUpdate), Some(Stage::UpdateFailed)),
            (true, true, failed(), Some(Stage::UpdateFailed), None),
            (true, true, successful(), Some(Stage::UpdateFailed), Some(Stage::UpdateSuccessful)),
            (true, true, successful(), Some(Stage::UpdateSuccessful), None),
            // The next update, once the result of the last one is taken off.
            (true, false, None, Some(Stage::UpdateSuccessful), Some(Stage::CandidateForUpdate)),
            (true, false, None, Some(Stage::UpdateFailed), None),
        ];
        for (candidate, selected, result, stage, expected) in table {
            let place = InPlace { candidate, selected, result, stage };
            assert_eq!(next_stage(&place).map(|(stage, _)| stage), expected, "{place:?}");
        }
    }

    #[test]
    fn every_reason_is_read_back() {
        for stage in Stage::ALL {
            assert_eq!(Stage::read(stage.reason()), Some(stage));
        }
        assert_eq!(Stage::read("Whatever"), None);
    }
}
