//! What the cloud's answers mean, and how failures of calls are told.

use super::{LOOK_AGAIN, Observed, Step, Tried, left, report::Draft};
use crate::names::{error, reason};
use hostler_driver::{
    Code, Failure, Finding, Identity, Machine as Vps, Operation, ProviderId, Recognition, State, gone_twice,
    retry,
};
use std::time::Duration;

/// Whether the cloud did not do what was asked for, and will not.
pub(super) fn is_refusal(failure: &Failure) -> bool {
    matches!(
        failure.code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    )
}

/// Whether people have said something that cannot be done.
fn is_of_configuration(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::OutOfRange)
}

/// The failure in words that people look up.
pub(super) fn words(failure: &Failure) -> String {
    let known = match failure.code {
        Code::Unauthenticated | Code::PermissionDenied => Some(error::AUTHENTICATION_FAILED),
        Code::ResourceExhausted => Some(error::INSUFFICIENT_QUOTA),
        _ => None,
    };
    match known {
        Some(known) if !failure.message.contains(known) => format!("{known}: {}", failure.message),
        _ => failure.message.clone(),
    }
}

/// Its own VPS among those that carry the identity: one that runs goes before the others, then the oldest.
pub(super) fn preferred<'a>(seen: &Observed, finding: &'a Finding) -> Option<&'a Vps> {
    let there =
        finding.found.machines().iter().filter(|vps| is_ours(seen, vps) && is_there(vps) && !is_queued(vps));
    there.min_by_key(|vps| (vps.state != State::Running, vps.created_at, vps.provider_id.clone()))
}

pub(super) fn is_there(vps: &Vps) -> bool {
    !matches!(vps.state, State::Deleting | State::Deleted)
}

/// It waits to be made and cannot be asked for, nor deleted.
pub(super) fn is_queued(vps: &Vps) -> bool {
    vps.provider_id.server().starts_with(super::QUEUED)
}

/// It carries the identity.
pub(super) fn is_ours(seen: &Observed, vps: &Vps) -> bool {
    let ours = |identity: &Identity| identity.recognise(&vps.marks) == Recognition::Ours;
    seen.ready_to_act.as_ref().is_ok_and(ours)
}

/// What of a VPS's absence has been shown.
pub(super) enum Absence {
    /// This has to be asked first.
    Ask(Step),
    /// It is there after all.
    There(Box<Vps>),
    /// It was shown once, and has to be shown again.
    Once(Step),
    /// It is gone.
    Proven,
}

/// Whether the VPS is gone: absent from list and queue and when it is asked for, twice, a minute apart.
pub(super) fn absence(seen: &Observed, id: &ProviderId) -> Absence {
    let Some(asked) = &seen.sightings.asked else { return Absence::Ask(Step::Ask(id.clone())) };
    if let Some(vps) = asked.found.machines().first().filter(|vps| vps.state.is_present()) {
        return Absence::There(Box::new(vps.clone()));
    }
    let Some(listed) = &seen.sightings.listed else { return Absence::Ask(Step::List) };
    if let Some(vps) =
        listed.found.machines().iter().find(|vps| vps.provider_id == *id && vps.state.is_present())
    {
        return Absence::There(Box::new(vps.clone()));
    }
    let shown_absent = asked.found.machines().is_empty();
    if shown_absent && !gone_twice(asked, &without_others(listed, id)) {
        return Absence::Ask(Step::List);
    }
    let apart = seen.limits.gone_apart;
    match seen.written.absent_since {
        None => Absence::Once(Step::NoteAbsence(seen.now)),
        // By a clock that was ahead.
        Some(since) if since > seen.now => Absence::Once(Step::NoteAbsence(seen.now)),
        Some(since) if asked.evidence.began_at.duration_since(since) >= apart => Absence::Proven,
        Some(since) => Absence::Once(Step::Wait {
            reason: "VPSNotFound",
            message: format!("the VPS {} is shown nowhere; it is looked for once more", id.server()),
            again: left(seen.now, since, apart).unwrap_or(Duration::from_secs(1)),
        }),
    }
}

/// Surplus ones of the same identity say nothing about this one.
fn without_others(listed: &Finding, id: &ProviderId) -> Finding {
    let same = |vps: &&Vps| vps.provider_id == *id && vps.state.is_present();
    let machines = listed.found.machines().iter().filter(same).cloned().collect();
    Finding { found: hostler_driver::Found::from_machines(machines), evidence: listed.evidence }
}

/// A failure that time may heal: it is told once and tried again.
pub(super) fn told_and_tried_again(seen: &Observed, operation: Operation, failure: &Failure) -> Step {
    let period = seen.periods.of(retry::retry(operation, failure.code)).unwrap_or(seen.periods.short);
    let again = Step::TryAgain { failure: failure.clone(), again: period };
    let text = words(failure);
    // What passes by itself within seconds is not worth a write.
    let passing = matches!(failure.code, Code::Aborted | Code::DeadlineExceeded | Code::Unavailable);
    if passing && seen.error().is_none() {
        return again;
    }
    let why = if is_of_configuration(failure.code) {
        reason::INVALID_CONFIGURATION
    } else {
        reason::CLOUD_NOT_USABLE
    };
    Draft::of(seen).error(why, &text).write_or(again)
}

/// What failed on the way in.
pub(super) fn failed_on_the_way_in(seen: &Observed) -> Option<Step> {
    let (tried, failure) = seen.failure.as_ref()?;
    let operation = match tried {
        Tried::Look => Operation::FindForCreate,
        Tried::Create => Operation::Create,
        Tried::Delete | Tried::PowerOff => Operation::Delete,
    };
    Some(told_and_tried_again(seen, operation, failure))
}

pub(super) fn frozen(seen: &Observed) -> Option<Step> {
    let why = seen.frozen.as_ref()?;
    let wait = Step::Wait { reason: reason::VPS_VANISHED, message: why.clone(), again: LOOK_AGAIN };
    Some(Draft::of(seen).error(reason::VPS_VANISHED, why).write_or(wait))
}

/// The id as it is written, or that it cannot be read.
pub(super) fn unreadable(why: &str) -> Failure {
    Failure::new(
        Code::InvalidArgument,
        format!("annotation {}: {why}: correct it", crate::names::note::VPS_IDENTIFIER),
    )
}
