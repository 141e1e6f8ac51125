//! From a VPS to a node, and how the two are doing.

use super::{
    LOOK_AGAIN, Observed, SpecChange, Step, TokenSeen,
    cloud::{self, Absence},
    decide::provisioning_failed,
    failed, left, order,
    report::{Draft, Event},
};
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase},
    names::{error, event, reason},
};
use hostler_driver::{AddressKind, Machine as Vps, Operation, ProviderId, State};
use jiff::SignedDuration;

/// For so long a drain that failed stays in the conditions.
const DRAIN_FAILED_FOR: SignedDuration = SignedDuration::from_mins(5);

pub(super) fn live(seen: &Observed, id: &ProviderId) -> Step {
    let failed = cloud::failed_on_the_way_in(seen).or_else(|| {
        let failure = seen.ready_to_act.as_ref().err()?;
        Some(cloud::told_and_tried_again(seen, Operation::FindForCreate, failure))
    });
    if let Some(told) = failed {
        // What is known of its node counts whatever becomes of the cloud.
        return late(seen).or_else(|| of_node(seen)).unwrap_or(told);
    }
    let Some(looked) = &seen.sightings.looked else { return Step::Look(id.clone()) };
    let there = looked.found.machines().first().filter(|vps| vps.state.is_present()).cloned();
    let vps = match there {
        Some(vps) => vps,
        None => match cloud::absence(seen, id) {
            Absence::There(vps) => *vps,
            Absence::Ask(step) | Absence::Once(step) => return step,
            Absence::Proven => return vanished(seen, id),
        },
    };
    if seen.written.absent_since.is_some() {
        return Step::ForgetAbsence;
    }
    match &vps.state {
        State::Running => running(seen, &vps),
        State::Failed { message, .. } => {
            provisioning_failed(seen, &format!("the VPS {} failed: {message}", id.server()))
        }
        State::Deleting | State::Deleted => {
            let wait = Step::wait("VPSDeleting", format!("the VPS {} is being deleted", id.server()));
            not_running(seen, reason::VPS_DELETING, "VPS is being deleted on VPSie platform", wait)
        }
        State::Stopped => {
            let wait = Step::wait("VPSStopped", format!("the VPS {} is switched off", id.server()));
            not_running(seen, reason::VPS_STOPPED, "VPS is switched off on VPSie platform", wait)
        }
        State::Pending | State::Unrecognised => {
            let wait = Step::wait("VPSStarting", format!("the VPS {} is {}", id.server(), vps.raw_state));
            not_running(seen, reason::VPS_STARTING, "VPS is being created on VPSie platform", wait)
        }
    }
}

/// Whether it took too long for its phase.
fn late(seen: &Observed) -> Option<Step> {
    match seen.phase() {
        Some(Phase::Pending | Phase::Provisioning) => order::too_late(seen),
        Some(Phase::Provisioned | Phase::Joining) => join_too_late(seen),
        _ => None,
    }
}

/// It is there and does not run: on the way in it is waited for, later its node's health decides.
fn not_running(seen: &Observed, reason: &str, message: &str, wait: Step) -> Step {
    let draft = answered(seen).condition(Kind::VPSReady, false, reason, message);
    late(seen).or_else(|| draft.write()).or_else(|| of_node(seen)).unwrap_or(wait)
}

/// The cloud can be asked again.
fn answered(seen: &Observed) -> Draft<'_> {
    let draft = Draft::of(seen);
    match seen.error() {
        Some(reason::CLOUD_NOT_USABLE | reason::INVALID_CONFIGURATION | reason::VPS_VANISHED) => {
            draft.no_error()
        }
        _ => draft,
    }
}

/// Somebody has deleted the VPS, or VPSie has.
fn vanished(seen: &Observed, id: &ProviderId) -> Step {
    if let Some(step) = cloud::frozen(seen) {
        return step;
    }
    let message = format!("the VPS {} is not there any more: it was not deleted from here", id.server());
    failed::fail_gone(seen, &message)
}

fn is_up(draft: Draft<'_>) -> Draft<'_> {
    draft.condition(Kind::VPSReady, true, reason::VPS_RUNNING, "VPS is running on VPSie platform")
}

fn running(seen: &Observed, vps: &Vps) -> Step {
    if let Some(change) = spec_change(seen, vps) {
        return Step::WriteSpec(change);
    }
    match seen.phase() {
        Some(Phase::Pending | Phase::Provisioning) => {
            let made = cloud::is_ours(seen, vps);
            let draft = is_up(Draft::of(seen).phase(Phase::Provisioned)).no_error();
            let draft = if made {
                let message = format!("VPS {} ({}) created on VPSie", vps.name, vps.provider_id.server());
                draft.tell(Event::normal(event::VPS_CREATED, message))
            } else {
                draft
            };
            draft.write_or(Step::Done)
        }
        Some(Phase::Provisioned) => match &seen.node {
            Some(_) => is_up(Draft::of(seen))
                .phase(Phase::Joining)
                .condition(
                    Kind::NodeJoined,
                    true,
                    reason::NODE_JOINED_CLUSTER,
                    "Node successfully joined Kubernetes cluster",
                )
                .condition(Kind::NodeReady, false, reason::NODE_NOT_READY, "Kubernetes node is not ready yet")
                .tell(Event::normal(event::NODE_JOINED, "Node joined Kubernetes cluster"))
                .write_or(Step::Done),
            None => join_too_late(seen)
                .or_else(|| is_up(answered(seen)).write())
                .unwrap_or_else(|| joining(seen, "the VPS runs; its node has not joined yet")),
        },
        _ => is_up(answered(seen)).write().or_else(|| of_node(seen)).unwrap_or(Step::Rest(LOOK_AGAIN)),
    }
}

/// What the spec says once it is known.
fn spec_change(seen: &Observed, vps: &Vps) -> Option<SpecChange> {
    let of = |v6: bool| {
        let external = |kind| matches!(kind, AddressKind::ExternalIp | AddressKind::InternalIp);
        let mut fitting: Vec<_> = vps
            .addresses
            .iter()
            .filter(|address| external(address.kind) && address.address.contains(':') == v6)
            .collect();
        // A public one is the primary one.
        fitting.sort_by_key(|address| address.kind != AddressKind::ExternalIp);
        fitting.first().map(|address| address.address.clone())
    };
    let said = &seen.written.said;
    let node = seen.node.as_ref().map(|node| node.name.clone());
    let change = SpecChange {
        node_name: node.or_else(|| said.node_name.clone()),
        ip_address: of(false).or_else(|| said.ip_address.clone()),
        ipv6_address: of(true).or_else(|| said.ipv6_address.clone()),
    };
    (change != *said).then_some(change)
}

fn join_too_late(seen: &Observed) -> Option<Step> {
    let since = seen.written.status.provisioned_at.as_ref().map_or(seen.written.created_at, |time| time.0);
    if left(seen.now, since, seen.limits.joining).is_some() {
        return None;
    }
    let minutes = seen.limits.joining.as_mins();
    let message = match &seen.node {
        None => format!("{}: no node has joined within {minutes} min", error::JOIN_TIMEOUT),
        Some(node) => {
            format!("{}: node {} was not Ready within {minutes} min", error::JOIN_TIMEOUT, node.name)
        }
    };
    Some(failed::fail(seen, reason::JOIN_FAILED, &message, Some(event::JOIN_FAILED)))
}

fn joining(seen: &Observed, message: &str) -> Step {
    let since = seen.written.status.provisioned_at.as_ref().map_or(seen.written.created_at, |time| time.0);
    let again = left(seen.now, since, seen.limits.joining).unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
    Step::Wait { reason: "NodeJoining", message: message.to_owned(), again }
}

/// What is to be done about a node that has joined; nothing if all is well.
fn of_node(seen: &Observed) -> Option<Step> {
    let is_ready = seen.phase() == Some(Phase::Ready);
    if !is_ready && seen.phase() != Some(Phase::Joining) {
        return None;
    }
    let Some(node) = &seen.node else { return without_node(seen, is_ready) };
    if node.going {
        return without_node(seen, is_ready);
    }
    if let Some(patch) = &node.behind {
        return Some(Step::PatchNode(patch.clone()));
    }
    // Whoever has joined needs no token any more.
    if let Some(TokenSeen::Own(token)) = &seen.token {
        return Some(Step::DropToken(token.clone()));
    }
    if !is_ready {
        return Some(join_step(seen, node.ready));
    }
    let draft = Draft::of(seen).condition(
        Kind::NodeReady,
        node.ready,
        if node.ready { reason::NODE_READY } else { reason::NODE_NOT_READY },
        if node.ready {
            "Kubernetes node is ready to accept workloads"
        } else {
            "Kubernetes node is not ready"
        },
    );
    let lately = seen.written.removal_failed.is_some_and(|at| left(seen.now, at, DRAIN_FAILED_FOR).is_some());
    let over = seen.error() == Some(reason::DRAIN_FAILED) && !lately;
    if over { draft.no_error().write() } else { draft.write() }
}

fn join_step(seen: &Observed, ready: bool) -> Step {
    if !ready {
        return join_too_late(seen)
            .unwrap_or_else(|| joining(seen, "the node has joined and is not Ready yet"));
    }
    Draft::of(seen)
        .phase(Phase::Ready)
        .condition(Kind::NodeReady, true, reason::NODE_READY, "Kubernetes node is ready to accept workloads")
        .no_error()
        .tell(Event::normal(event::NODE_READY, "Node is ready to accept workloads"))
        .write_or(Step::Done)
}

/// Its node was there. A node that somebody deletes takes its VPSieNode with it: the kubelet does not come back.
fn without_node(seen: &Observed, was_ready: bool) -> Option<Step> {
    let gone = seen.node_lost || seen.node.as_ref().is_some_and(|node| node.going);
    if !gone {
        return None;
    }
    if !was_ready {
        return join_too_late(seen).or_else(|| Some(joining(seen, "the node has left before it was Ready")));
    }
    if !seen.wishes.protected {
        return Some(Step::DeleteSelf);
    }
    Draft::of(seen)
        .condition(
            Kind::NodeReady,
            false,
            reason::NODE_DELETED,
            "The Kubernetes node was deleted, and the VPS is kept because of do-not-delete",
        )
        .write()
}
