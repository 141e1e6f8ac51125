//! What has failed: people can read why for a while, and nothing of it is left to be paid.

use super::{
    LOOK_AGAIN, Observed, Step, adopt,
    leave::{self, End},
    left,
    report::{Draft, Event},
};
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase},
    names::reason,
};

pub(super) fn fail(seen: &Observed, why: &str, message: &str, event: Option<&'static str>) -> Step {
    let draft = Draft::of(seen).phase(Phase::Failed).error(why, message);
    let draft = match event {
        Some(event) => draft.tell(Event::warning(event, message)),
        None => draft,
    };
    draft.write_or(Step::Done)
}

/// The same, of a VPS that is gone.
pub(super) fn fail_gone(seen: &Observed, message: &str) -> Step {
    Draft::of(seen)
        .phase(Phase::Failed)
        .condition(Kind::VPSReady, false, reason::VPS_NOT_FOUND, "VPS is not there any more")
        .error(reason::VPS_NOT_FOUND, message)
        .write_or(Step::Done)
}

pub(super) fn failed(seen: &Observed) -> Step {
    if seen.error() == Some(reason::ADOPTION_REFUSED) {
        return adopt::after_refusal(seen);
    }
    if seen.written.removal.is_some() {
        return Step::CancelRemoval { failed: false };
    }
    if seen.wishes.protected {
        return Step::Done;
    }
    let told = matches!(seen.vps_ready_because(), Some(reason::VPS_NOT_FOUND | reason::VPS_RELEASED));
    let not_ready =
        |why, message: &str| Draft::of(seen).condition(Kind::VPSReady, false, why, message).write();
    let told = match leave::take_away(seen, !told && leave::may_have_vps(seen)) {
        Err(step) => return step,
        Ok(End::Nothing) => None,
        Ok(End::Gone) => not_ready(reason::VPS_NOT_FOUND, "VPS is not there any more"),
        Ok(End::Released) => {
            not_ready(reason::VPS_RELEASED, "VPS was not made for this VPSieNode and is kept")
        }
    };
    if let Some(step) = told {
        return step;
    }
    let since = seen.since(Kind::Error).unwrap_or(seen.written.created_at);
    match left(seen.now, since, seen.limits.failed_ttl) {
        None => Step::DeleteSelf,
        Some(left) => Step::Rest(left.max(LOOK_AGAIN)),
    }
}
