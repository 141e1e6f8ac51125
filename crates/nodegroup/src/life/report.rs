//! What is written into the status, and what is told with it.

use super::Observed;
use crate::{
    api::{
        VPSieNodeCondition as Condition, VPSieNodeConditionType as Kind, VPSieNodePhase as Phase,
        VPSieNodeStatus as Status,
    },
    names::reason,
};
use hostler_driver::AddressKind;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Something that people are told when the status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: false, reason, message: message.into() }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, reason, message: message.into() }
    }
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub status: Status,
    pub event: Option<Event>,
}

/// A status that changes bit by bit.
pub(super) struct Draft<'a> {
    seen: &'a Observed,
    status: Status,
    event: Option<Event>,
}

impl<'a> Draft<'a> {
    /// The status as it is written, with what is known of node and VPS.
    pub(super) fn of(seen: &'a Observed) -> Self {
        let mut status = seen.written.status.clone();
        status.observed_generation = seen.written.generation;
        status.created_at.get_or_insert(Time(seen.written.created_at));
        if let Some(node) = &seen.node {
            status.node_name.clone_from(&node.name);
        }
        let sightings = &seen.sightings;
        let vps = [&sightings.asked, &sightings.looked]
            .into_iter()
            .flatten()
            .find_map(|finding| finding.found.machines().first());
        if let Some(vps) = vps {
            status.vpsie_status.clone_from(&vps.raw_state);
            status.hostname.clone_from(&vps.name);
            let named = vps.addresses.iter().find(|address| address.kind == AddressKind::Hostname);
            if let Some(hostname) = named {
                status.hostname.clone_from(&hostname.address);
            }
        }
        if let Some(resources) = seen.resources {
            status.resources = Some(resources);
        }
        Self { seen, status, event: None }
    }

    /// The phase with its timestamp. No moment of a life lies before the one before it.
    pub(super) fn phase(mut self, phase: Phase) -> Self {
        let status = &mut self.status;
        let latest = [&status.created_at, &status.provisioned_at, &status.joined_at, &status.ready_at]
            .into_iter()
            .flatten()
            .map(|time| time.0)
            .max();
        let now = latest.map_or(self.seen.now, |latest| latest.max(self.seen.now));
        let stamp = match phase {
            Phase::Provisioned => Some(&mut status.provisioned_at),
            Phase::Joining => Some(&mut status.joined_at),
            Phase::Ready => Some(&mut status.ready_at),
            Phase::Terminating => Some(&mut status.terminating_at),
            Phase::Pending | Phase::Provisioning | Phase::Deleting | Phase::Failed => None,
        };
        if let Some(stamp) = stamp {
            stamp.get_or_insert(Time(now));
        }
        status.phase = Some(phase);
        self
    }

    /// The phase that it was in before it was to go.
    pub(super) fn back(mut self) -> Self {
        let status = &mut self.status;
        status.terminating_at = None;
        let known = self.seen.written.vps.is_some();
        status.phase = Some(match (&status.ready_at, &status.joined_at, &status.provisioned_at) {
            (Some(_), _, _) => Phase::Ready,
            (None, Some(_), _) => Phase::Joining,
            (None, None, Some(_)) => Phase::Provisioned,
            (None, None, None) if known || self.seen.written.attempt.is_some() => Phase::Provisioning,
            (None, None, None) => Phase::Pending,
        });
        self
    }

    pub(super) fn condition(self, kind: Kind, is: bool, reason: &str, message: impl Into<String>) -> Self {
        self.raw_condition(kind, if is { "True" } else { "False" }, reason, message.into())
    }

    /// Nobody knows, because nobody has asked for it yet.
    pub(super) fn not_yet(self, kind: Kind, reason: &str, message: impl Into<String>) -> Self {
        self.raw_condition(kind, "Unknown", reason, message.into())
    }

    fn raw_condition(mut self, kind: Kind, status: &str, reason: &str, message: String) -> Self {
        let conditions = &mut self.status.conditions;
        let old = conditions.iter_mut().find(|condition| condition.kind == kind);
        let since = match &old {
            Some(old) if old.status == status => old.last_transition_time.clone(),
            _ => Time(self.seen.now),
        };
        let (status, reason) = (status.to_owned(), reason.to_owned());
        let condition = Condition { kind, status, last_transition_time: since, reason, message };
        match old {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
        conditions.sort_by_key(|condition| condition.kind);
        self
    }

    /// What went wrong; it stays readable after it is over.
    pub(super) fn error(mut self, reason: &str, message: &str) -> Self {
        self.status.last_error = message.to_owned();
        self.condition(Kind::Error, true, reason, message)
    }

    pub(super) fn no_error(self) -> Self {
        self.condition(Kind::Error, false, reason::NO_ERRORS, "")
    }

    pub(super) fn tell(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    /// The step that writes it, if there is anything to write.
    pub(super) fn write(self) -> Option<super::Step> {
        let Self { seen, status, event } = self;
        (status != seen.written.status).then(|| super::Step::Write(Box::new(Report { status, event })))
    }

    /// The same, or else this.
    pub(super) fn write_or(self, otherwise: super::Step) -> super::Step {
        self.write().unwrap_or(otherwise)
    }
}

impl Observed {
    pub(super) fn phase(&self) -> Option<Phase> {
        self.written.status.phase
    }

    pub(super) fn condition(&self, kind: Kind) -> Option<&Condition> {
        self.written.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Why the VPS is ready, or is not.
    pub(super) fn vps_ready_because(&self) -> Option<&str> {
        self.condition(Kind::VPSReady).map(|condition| condition.reason.as_str())
    }

    /// The reason of the Error condition, if it is True.
    pub(super) fn error(&self) -> Option<&str> {
        self.condition(Kind::Error).filter(|error| error.status == "True").map(|error| error.reason.as_str())
    }

    /// Since when it is so.
    pub(super) fn since(&self, kind: Kind) -> Option<Timestamp> {
        self.condition(kind).map(|condition| condition.last_transition_time.0)
    }
}
