//! A VPS that is there already becomes a VPSieNode's own, if somebody says so in so many words.

use super::{Claim, Observed, Step, cloud, failed, report::Draft};
use crate::{
    api::VPSieNodePhase as Phase,
    names::{annotation, event, reason},
};
use hostler_driver::{Machine as Vps, Operation};

pub(super) fn adopt(seen: &Observed) -> Step {
    if let Some(step) = cloud::failed_on_the_way_in(seen) {
        return step;
    }
    let identity = match &seen.ready_to_act {
        Ok(identity) => identity,
        Err(failure) => return cloud::told_and_tried_again(seen, Operation::FindForCreate, failure),
    };
    // Its own VPS is found by its identity, should only the note of it be lost.
    let Some(listed) = &seen.sightings.listed else { return Step::List };
    if let Some(vps) = cloud::preferred(seen, listed) {
        return Step::Adopt(vps.provider_id.clone());
    }
    let number = seen.written.instance_id;
    if number == 0 && seen.written.claim.is_none() {
        return failed::fail_gone(
            seen,
            "its VPS is not written down any more, and none carries its identity",
        );
    }
    let Some(claim) = &seen.written.claim else {
        let hint = format!(
            "spec.vpsieInstanceID is {number}, but this VPS was not made for this VPSieNode. To adopt it annotate the \
             VPSieNode with {}={number}; to have a new one set vpsieInstanceID to 0 in a new VPSieNode",
            annotation::ADOPT
        );
        return refuse(seen, &hint);
    };
    if number != 0 && claim.named.parse() != Ok(number) && claim.named.parse::<i64>().is_ok() {
        let hint = format!(
            "annotation {} names VPS {}, and spec.vpsieInstanceID is {number}",
            annotation::ADOPT,
            claim.named
        );
        return refuse(seen, &hint);
    }
    let Some(asked) = &seen.sightings.asked else { return Step::AskForClaim };
    match asked.found.machines().first().filter(|vps| cloud::is_there(vps)) {
        None => {
            let missing = format!("annotation {}: there is no VPS {}", annotation::ADOPT, claim.named);
            refuse(seen, &missing)
        }
        Some(vps) => match objection(claim, vps, &identity.domain) {
            Some(hint) => refuse(seen, &hint),
            None => Step::Adopt(vps.provider_id.clone()),
        },
    }
}

/// Why this VPS is somebody else's.
fn objection(claim: &Claim, vps: &Vps, domain: &str) -> Option<String> {
    if let Some(owner) = &claim.taken_by {
        return Some(format!("VPS {} belongs to VPSieNode {owner}", claim.named));
    }
    let other = vps.marks.domain.as_deref().is_some_and(|other| other != domain);
    other.then(|| format!("VPS {} was made by another cluster", claim.named))
}

fn refuse(seen: &Observed, message: &str) -> Step {
    failed::fail(seen, reason::ADOPTION_REFUSED, message, Some(event::PROVISIONING_FAILED))
}

/// What was refused is looked at again whenever there is a reason to look: somebody may have written a claim since.
pub(super) fn after_refusal(seen: &Observed) -> Step {
    if seen.written.vps.is_some() {
        return Draft::of(seen).phase(Phase::Pending).no_error().write_or(Step::Done);
    }
    let failure = seen.failure.as_ref().map(|(_, failure)| failure);
    match failure.or_else(|| seen.ready_to_act.as_ref().err()) {
        // The refusal stays readable.
        Some(failure) => Step::TryAgain { failure: failure.clone(), again: seen.periods.medium },
        None => adopt(seen),
    }
}
