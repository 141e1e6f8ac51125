//! From a node to nothing.

use super::{
    Cordon, LOOK_AGAIN, Observed, Removal, Step, TokenSeen, Tried, Why,
    cloud::{self, Absence},
    left,
    report::{Draft, Event},
};
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase},
    names::{event, reason},
};
use hostler_driver::{Machine as Vps, Operation, State};
use hostler_node as node;
use jiff::Timestamp;

/// Somebody deletes the VPSieNode: nothing but proof that its VPS is gone lets it go.
pub(super) fn deleted(seen: &Observed) -> Step {
    if !matches!(seen.phase(), Some(Phase::Terminating | Phase::Deleting)) {
        return begin(seen, "Node termination initiated");
    }
    match take_away(seen, may_have_vps(seen)) {
        Err(step) => step,
        Ok(End::Nothing) => Step::RemoveFinalizer,
        Ok(End::Gone | End::Released) => cloud::frozen(seen).unwrap_or(Step::RemoveFinalizer),
    }
}

fn begin(seen: &Observed, message: &str) -> Step {
    Draft::of(seen)
        .phase(Phase::Terminating)
        .tell(Event::normal(event::TERMINATING, message))
        .write_or(Step::Done)
}

/// Whether anything says that there is a VPS, or may be one.
pub(super) fn may_have_vps(seen: &Observed) -> bool {
    let written = &seen.written;
    let numbered = written.instance_id != 0 && seen.error() != Some(reason::ADOPTION_REFUSED);
    written.vps.is_some() || written.attempt.is_some() || numbered || written.status.provisioned_at.is_some()
}

/// What has become of the VPS once nothing of the VPSieNode is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There was none.
    Nothing,
    Gone,
    /// It was not ours to delete.
    Released,
}

/// What comes before nothing is left of it: VPS, node, token. Whoever knows what became of the VPS leaves that out.
pub(super) fn take_away(seen: &Observed, with_vps: bool) -> Result<End, Step> {
    let mut end = End::Nothing;
    if with_vps {
        if let Some(step) = failure(seen) {
            return Err(step);
        }
        end = match vps_away(seen) {
            Away::Step(step) => return Err(step),
            Away::Released => End::Released,
            Away::Gone => End::Gone,
        };
    }
    let released = end == End::Released || seen.vps_ready_because() == Some(reason::VPS_RELEASED);
    let of_node = if released {
        uncordon(seen)
    } else {
        seen.node.as_ref().filter(|node| !node.going).map(|_| Step::DeleteNode)
    };
    of_node.or_else(|| token_away(seen)).map_or(Ok(end), Err)
}

fn token_away(seen: &Observed) -> Option<Step> {
    match &seen.token {
        None => Some(Step::FindToken),
        Some(TokenSeen::Own(token)) => Some(Step::DropToken(token.clone())),
        Some(TokenSeen::None { .. }) => None,
    }
}

fn uncordon(seen: &Observed) -> Option<Step> {
    let ours = seen.node.as_ref().is_some_and(|node| node.cordon == Cordon::Ours);
    ours.then_some(Step::UncordonNode)
}

fn failure(seen: &Observed) -> Option<Step> {
    let identity = seen.ready_to_act.as_ref().err();
    let (operation, failure) = match &seen.failure {
        Some((Tried::Delete | Tried::PowerOff, failure)) => (Operation::Delete, failure),
        Some((_, failure)) => (Operation::FindForDelete, failure),
        None => (Operation::FindForDelete, identity?),
    };
    Some(cloud::told_and_tried_again(seen, operation, failure))
}

/// What is to be done about the VPS.
enum Away {
    Step(Step),
    /// It is not ours to delete.
    Released,
    Gone,
}

fn vps_away(seen: &Observed) -> Away {
    let known = match &seen.written.vps {
        Some(Ok(id)) => Some(id),
        Some(Err(why)) => {
            return Away::Step(cloud::told_and_tried_again(
                seen,
                Operation::FindForDelete,
                &cloud::unreadable(why),
            ));
        }
        None => None,
    };
    if let Some(id) = known {
        match cloud::absence(seen, id) {
            Absence::Ask(step) => return Away::Step(step),
            Absence::There(vps) if !may_delete(seen, &vps) => return Away::Released,
            Absence::There(vps) => return Away::Step(there(seen, &vps)),
            Absence::Once(step) => {
                let deleting = deleting(seen).map(Away::Step);
                return deleting.or_else(|| others_away(seen)).unwrap_or(Away::Step(step));
            }
            Absence::Proven => {}
        }
    }
    if let Some(step) = deleting(seen) {
        return Away::Step(step);
    }
    if let Some(away) = others_away(seen) {
        return away;
    }
    let Some(listed) = &seen.sightings.listed else { return Away::Step(Step::List) };
    if let Some(mark) = &seen.written.attempt
        && !seen.written.attempt_unsent
        && !mark.is_ruled_out(&listed.evidence, seen)
    {
        if mark.is_from_the_future(seen.now) {
            return Away::Step(Step::Redate);
        }
        return Away::Step(Step::Wait {
            reason: "OutcomeUnknown",
            message: "no VPS has come of a create call so far; the VPSieNode stays until the cloud's lists show that none will"
                .to_owned(),
            again: mark.wait(seen),
        });
    }
    Away::Gone
}

/// Whether it is deleted with its VPSieNode: one that does not carry our identity only if somebody says so.
fn may_delete(seen: &Observed, vps: &Vps) -> bool {
    let told = seen.written.claim.as_ref().is_some_and(|claim| claim.delete_with_it);
    cloud::is_ours(seen, vps) || told && vps.marks.domain.is_none()
}

/// VPSs that carry the identity and are not written down: one whose answer was lost becomes the one that is.
fn others_away(seen: &Observed) -> Option<Away> {
    let Some(listed) = &seen.sightings.listed else { return Some(Away::Step(Step::List)) };
    if seen.written.vps.is_none()
        && let Some(vps) = cloud::preferred(seen, listed)
    {
        return Some(Away::Step(Step::Adopt(vps.provider_id.clone())));
    }
    let mut others = listed.found.machines().iter().filter(|vps| {
        let known = matches!(&seen.written.vps, Some(Ok(id)) if *id == vps.provider_id);
        cloud::is_ours(seen, vps) && vps.state.is_present() && !known
    });
    let vps = others.next()?;
    Some(Away::Step(if cloud::is_queued(vps) {
        Step::wait("VPSQueued", "a VPS waits to be made, and is deleted then")
    } else {
        delete(seen, vps)
    }))
}

/// The VPS is there. As long as it may run pods they are moved first.
fn there(seen: &Observed, vps: &Vps) -> Step {
    if seen.written.absent_since.is_some() {
        return Step::ForgetAbsence;
    }
    let off = matches!(vps.state, State::Stopped | State::Deleting);
    if !off && let Some(step) = drain(seen, seen.since_terminating()) {
        return step;
    }
    deleting(seen).unwrap_or_else(|| delete(seen, vps))
}

/// The last phase, once nothing runs there any more.
fn deleting(seen: &Observed) -> Option<Step> {
    if !seen.written.deleting || seen.phase() == Some(Phase::Deleting) {
        return None;
    }
    Draft::of(seen)
        .phase(Phase::Deleting)
        .condition(Kind::VPSReady, false, reason::VPS_DELETING, "VPS is being deleted on VPSie platform")
        .write()
}

fn delete(seen: &Observed, vps: &Vps) -> Step {
    if let Some(step) = cloud::frozen(seen) {
        return step;
    }
    let id = &vps.provider_id;
    match vps.state {
        State::Deleting => Step::wait("VPSDeleting", format!("waiting for VPSie to delete {}", id.server())),
        _ => Step::DeleteVps(id.clone()),
    }
}

/// What is to be done before the node is empty; nothing once it is. It goes on for as long as it takes, and tells when
/// it takes too long.
fn drain(seen: &Observed, since: Timestamp) -> Option<Step> {
    let node = seen.node.as_ref()?;
    if node.cordon == Cordon::No {
        return Some(Step::CordonNode);
    }
    match &seen.drain {
        Some(node::Step::Done(_)) => None,
        Some(node::Step::Act(act)) => Some(Step::OnNode(act.clone())),
        Some(node::Step::Wait(waiting)) => {
            let wait =
                Step::Wait { reason: waiting.reason, message: waiting.message.clone(), again: waiting.again };
            Some(if left(seen.now, since, seen.limits.drain).is_none() {
                drain_failed(seen, &waiting.message).unwrap_or(wait)
            } else {
                wait
            })
        }
        None => Some(Step::wait("DrainUnknown", format!("what runs on node {} is not known yet", node.name))),
    }
}

/// That a drain takes too long is told once, whatever pods are left by then.
fn drain_failed(seen: &Observed, message: &str) -> Option<Step> {
    if seen.error() == Some(reason::DRAIN_FAILED) {
        return None;
    }
    let minutes = seen.limits.drain.as_mins();
    let message = format!("node cannot be drained within {minutes} min: {message}");
    Draft::of(seen)
        .error(reason::DRAIN_FAILED, &message)
        .tell(Event::warning(event::DRAIN_FAILED, message.clone()))
        .write()
}

/// The autoscaler wants it gone, as long as that hurts nobody.
pub(super) fn removed(seen: &Observed) -> Step {
    let Some(removal) = seen.written.removal else { return Step::Done };
    if seen.wishes.protected || seen.wishes.paused || has_recovered(seen, removal) {
        return Step::CancelRemoval { failed: false };
    }
    if seen.phase() != Some(Phase::Terminating) {
        return begin(seen, &format!("Node termination initiated: {}", removal.why));
    }
    let Some(node) = &seen.node else { return let_go(seen) };
    let Some(step) = drain(seen, removal.since) else { return let_go(seen) };
    let overdue = left(seen.now, removal.since, seen.limits.drain).is_none();
    if !overdue || !matches!(step, Step::Wait { .. }) {
        return step;
    }
    if removal.why == Why::Unhealthy && !node.ready {
        return switched_off(seen);
    }
    Step::CancelRemoval { failed: true }
}

/// It is empty. There is no way back from here.
fn let_go(seen: &Observed) -> Step {
    cloud::frozen(seen).unwrap_or(Step::DeleteSelf)
}

/// The node of one that was to be replaced is well again.
fn has_recovered(seen: &Observed, removal: Removal) -> bool {
    removal.why == Why::Unhealthy && seen.node.as_ref().is_some_and(|node| node.ready)
}

/// Nobody answers on the node: only that its VPS is off shows that nothing runs there.
fn switched_off(seen: &Observed) -> Step {
    let Some(Ok(id)) = &seen.written.vps else { return Step::CancelRemoval { failed: true } };
    if let Some(step) = failure(seen) {
        return step;
    }
    if let Some(step) = cloud::frozen(seen) {
        return step;
    }
    let Some(asked) = &seen.sightings.asked else { return Step::Ask(id.clone()) };
    match asked.found.machines().first() {
        None => Step::DeleteSelf,
        Some(vps) if !cloud::is_ours(seen, vps) => Step::CancelRemoval { failed: true },
        Some(vps) => match vps.state {
            State::Stopped | State::Deleting | State::Deleted => Step::DeleteSelf,
            _ => Step::PowerOff(id.clone()),
        },
    }
}

/// Nobody wants it gone any more.
pub(super) fn back_in_service(seen: &Observed) -> Step {
    uncordon(seen).unwrap_or_else(|| Draft::of(seen).back().write_or(Step::Rest(LOOK_AGAIN)))
}

impl Observed {
    fn since_terminating(&self) -> Timestamp {
        self.written.status.terminating_at.as_ref().map_or(self.now, |time| time.0)
    }
}
