//! From a wish to a VPS: intent is written, then everything that carries the identity is listed, then one is ordered.

use super::{
    Observed, Step, TokenSeen, Tried,
    cloud::{self, is_queued, preferred},
    decide::provisioning_failed,
    left,
    report::Draft,
};
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase},
    names::reason,
};
use hostler_driver::{Failure, Operation};

pub(super) fn order(seen: &Observed) -> Step {
    // What it would take is looked at before anything is begun.
    if seen.phase() == Some(Phase::Pending) {
        if let Err(failure) = means(seen) {
            return cloud::told_and_tried_again(seen, Operation::FindForCreate, failure);
        }
        return Draft::of(seen)
            .phase(Phase::Provisioning)
            .condition(Kind::VPSReady, false, reason::VPS_STARTING, "VPS is being created on VPSie platform")
            .no_error()
            .write_or(Step::Done);
    }
    match &seen.failure {
        Some((Tried::Create, failure)) if cloud::is_refusal(failure) => return refused(seen, failure),
        Some((_, failure)) if is_overdue(seen) => {
            return provisioning_failed(seen, &format!("{}: {}", overdue(seen), cloud::words(failure)));
        }
        Some(_) => {
            if let Some(step) = cloud::failed_on_the_way_in(seen) {
                return step;
            }
        }
        None => {}
    }
    let identity = seen.ready_to_act.as_ref();
    if let Err(failure) = identity {
        return too_late(seen)
            .unwrap_or_else(|| cloud::told_and_tried_again(seen, Operation::FindForCreate, failure));
    }
    if let Some(created) = &seen.sightings.created {
        return if is_queued(created) { queued() } else { Step::Adopt(created.provider_id.clone()) };
    }
    // A fresh list goes before every order; without a mark there is nothing in it.
    let Some(mark) = &seen.written.attempt else {
        return too_late(seen).unwrap_or_else(|| begin(seen));
    };
    let fresh = seen.sightings.listed.as_ref().filter(|listed| {
        !seen.written.attempt_unsent || mark.at > seen.now || listed.evidence.began_at >= mark.at
    });
    let Some(listed) = fresh else { return Step::List };
    if let Some(vps) = preferred(seen, listed) {
        return Step::Adopt(vps.provider_id.clone());
    }
    if listed.found.machines().iter().any(|vps| cloud::is_ours(seen, vps)) {
        return too_late(seen).unwrap_or_else(queued);
    }
    if seen.written.attempt_unsent {
        let may = mark.is_fresh(seen.now) && seen.frozen.is_none() && means(seen).is_ok();
        return if may { Step::Create } else { too_late(seen).unwrap_or_else(|| begin(seen)) };
    }
    if mark.is_from_the_future(seen.now) {
        return Step::Redate;
    }
    if mark.is_ruled_out(&listed.evidence, seen) {
        return too_late(seen).unwrap_or_else(|| begin(seen));
    }
    too_late(seen).unwrap_or_else(|| Step::Wait {
        reason: "OutcomeUnknown",
        message: "no VPS has come of a create call so far; none is ordered until the cloud's lists show that none will"
            .to_owned(),
        again: mark.wait(seen),
    })
}

/// Everything that it takes to order one.
fn means(seen: &Observed) -> Result<(), &Failure> {
    seen.ready_to_act.as_ref().map(|_| ())?;
    seen.order.as_ref().copied()
}

fn queued() -> Step {
    Step::wait("VPSQueued", "the VPS waits to be made")
}

/// Intent is written before the call.
fn begin(seen: &Observed) -> Step {
    if let Err(failure) = means(seen) {
        return cloud::told_and_tried_again(seen, Operation::FindForCreate, failure);
    }
    if let Some(step) = cloud::frozen(seen) {
        return step;
    }
    if !seen.token_wanted {
        return Step::MarkAttempt;
    }
    match &seen.token {
        None => Step::FindToken,
        Some(TokenSeen::None { free }) => Step::MakeToken(free.clone()),
        Some(TokenSeen::Own(token)) if !token.valid => Step::DropToken(token.clone()),
        Some(TokenSeen::Own(_)) => Step::MarkAttempt,
    }
}

/// The cloud has said no: nothing was made, and it will say so again.
fn refused(seen: &Observed, failure: &Failure) -> Step {
    if seen.written.attempt.is_some() {
        return Step::ClearAttempt;
    }
    provisioning_failed(seen, &cloud::words(failure))
}

fn is_overdue(seen: &Observed) -> bool {
    let since = seen.since(Kind::VPSReady).unwrap_or(seen.written.created_at);
    left(seen.now, since, seen.limits.provisioning).is_none()
}

fn overdue(seen: &Observed) -> String {
    format!("the VPS did not run within {} s", seen.limits.provisioning.as_secs())
}

/// Whether it has taken too long. What may still come of it is taken away then.
pub(super) fn too_late(seen: &Observed) -> Option<Step> {
    is_overdue(seen).then(|| provisioning_failed(seen, &overdue(seen)))
}
