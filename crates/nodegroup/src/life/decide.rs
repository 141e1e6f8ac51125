use super::{Observed, Step, arrive, failed, leave, report::Draft};
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase},
    names::{event, reason},
};

/// The next step of this VPSieNode's life.
pub fn decide(seen: &Observed) -> Step {
    let written = &seen.written;
    match (written.deleting, written.has_finalizer) {
        (true, false) => return Step::Done,
        (true, true) => return leave::deleted(seen),
        // Nothing is made for a VPSieNode that nobody holds.
        (false, false) => return Step::AddFinalizer,
        (false, true) => {}
    }
    match seen.phase() {
        None => fresh(seen),
        Some(Phase::Failed) => failed::failed(seen),
        _ if written.removal.is_some() => leave::removed(seen),
        Some(Phase::Terminating | Phase::Deleting) => leave::back_in_service(seen),
        Some(_) => arrive::arrive(seen),
    }
}

fn fresh(seen: &Observed) -> Step {
    Draft::of(seen)
        .phase(Phase::Pending)
        .not_yet(Kind::VPSReady, reason::VPS_NOT_CREATED, "VPS has not been requested yet")
        .condition(Kind::NodeJoined, false, reason::NODE_NOT_JOINED, "There is no Kubernetes node yet")
        .condition(Kind::NodeReady, false, reason::NODE_NOT_READY, "There is no Kubernetes node yet")
        .no_error()
        .write_or(Step::Done)
}

/// What people look up, by what the cloud said.
pub(super) fn provisioning_failed(seen: &Observed, message: &str) -> Step {
    failed::fail(seen, reason::PROVISIONING_FAILED, message, Some(event::PROVISIONING_FAILED))
}
