//! What the controller sees of the world.

use super::world::{Life, Object, Pods, World, ago, now};
use crate::life::{
    AttemptMark, Cordon, Limits, NodeView, Observed, OwnToken, Removal, Sightings, TokenSeen, Tried, Wishes,
    Written, node,
};
use hostler_driver::{
    Attempt, Code, Evidence, Failure, Finding, Found, How, Identity, Machine as Vps, Marks, Periods,
    ProviderId, Recognition, State,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const LIST_LAG: Duration = Duration::from_secs(30);

pub(super) fn id(number: u8) -> ProviderId {
    ProviderId::vpsie(&format!("v{number}")).unwrap()
}

pub(super) fn number(id: &ProviderId) -> u8 {
    id.server().trim_start_matches('v').parse().unwrap()
}

fn identity(number: u8) -> Identity {
    let domain = if number == super::world::FOREIGN { "theirs" } else { "ours" };
    Identity { domain: domain.into(), machine: "uid".into(), class: "g".into() }
}

fn vps(number: u8, life: Life) -> Vps {
    let Identity { domain, machine, class } = identity(number);
    Vps {
        provider_id: id(number),
        name: "workers-1".into(),
        marks: Marks { domain: Some(domain), machine: Some(machine), class: Some(class), attempt: None },
        state: match life {
            Life::Booting => State::Pending,
            Life::Up => State::Running,
            Life::Off => State::Stopped,
            Life::Broken => State::Failed { code: Code::Internal, message: "no".into() },
            Life::Going => State::Deleting,
        },
        raw_state: "word".into(),
        addresses: Vec::new(),
        created_at: None,
        launched_at: None,
    }
}

pub(super) fn failure() -> Failure {
    Failure::new(Code::Unavailable, "try again")
}

impl World {
    /// Moments of this run lie in the second before its age, in the order in which they happened.
    fn moment(&self, event: char) -> Timestamp {
        let rank = self.memory.order.iter().position(|noted| *noted == event).unwrap_or(0);
        ago(self.memory.age) - SignedDuration::from_millis(100)
            + SignedDuration::from_millis(i64::try_from(rank).unwrap())
    }

    fn finding(&self, how: How, event: char, seen: impl Iterator<Item = (u8, Life)>) -> Finding {
        let at = self.moment(event);
        Finding {
            found: Found::from_machines(seen.map(|(number, life)| vps(number, life)).collect()),
            evidence: Evidence { how, began_at: at, answered_at: at },
        }
    }

    fn sightings(&self) -> Sightings {
        let memory = &self.memory;
        let ours = |(number, life): &(u8, Life)| {
            let own = identity(1).recognise(&vps(*number, *life).marks) == Recognition::Ours;
            own.then_some((*number, *life))
        };
        Sightings {
            looked: memory.looked.as_ref().map(|seen| self.finding(How::Listed, 'k', seen.iter().copied())),
            asked: memory.asked.as_ref().map(|seen| self.finding(How::Asked, 'a', seen.iter().copied())),
            listed: memory
                .listed
                .as_ref()
                .map(|seen| self.finding(How::Listed, 'l', seen.iter().filter_map(ours))),
            created: memory.created.map(|number| Box::new(vps(number, Life::Booting))),
        }
    }

    fn written(&self, object: &Object) -> Written {
        let mark = |age: i64| {
            let at = if self.memory.unsent { self.moment('m') } else { ago(age) };
            AttemptMark { attempt: Attempt("x".into()), at }
        };
        Written {
            deleting: object.deleting,
            has_finalizer: object.finalizer,
            generation: 1,
            created_at: object.status.created_at.as_ref().map_or_else(now, |time| time.0),
            instance_id: object.vps.map_or(0, i64::from),
            vps: object.vps.map(|number| Ok(id(number))),
            attempt: object.attempt.map(mark),
            attempt_unsent: self.memory.unsent,
            absent_since: object.absent.map(ago),
            removal: object.removal.map(|(why, age)| Removal { why, since: ago(age) }),
            removal_failed: object.removal_failed.map(ago),
            claim: None,
            status: object.status.clone(),
            said: object.said.clone(),
        }
    }

    pub(super) fn observe(&self, object: &Object) -> Observed {
        let means = || if self.means { Ok(()) } else { Err(failure_of_means()) };
        let drain = self.node.filter(|node| node.cordon != Cordon::No).map(|node| match node.pods {
            Pods::There => node::Step::Act(node::Act::Remove(Vec::new())),
            Pods::Leaving => node::Step::Wait(node::Waiting {
                reason: "PodsLeaving",
                message: "pod a/b".into(),
                failing: None,
                again: Duration::from_secs(5),
            }),
            Pods::None => node::Step::Done(node::Drained {
                forced: None,
                failed: None,
                volumes_left: false,
                took: Duration::ZERO,
            }),
        });
        let tried = |number: u8| [Tried::Look, Tried::Create, Tried::Delete][usize::from(number)];
        Observed {
            now: now(),
            started_at: ago(100_000),
            written: self.written(object),
            wishes: Wishes { protected: self.protected, paused: self.paused },
            limits: Limits::default(),
            ready_to_act: means().map(|()| identity(1)),
            order: means(),
            frozen: self.frozen.then(|| "very many are missing".into()),
            sightings: self.sightings(),
            failure: self.memory.failed.map(|number| (tried(number), failure())),
            resources: None,
            node: self.node.map(|node| NodeView {
                name: "workers-1".into(),
                ready: node.ready,
                cordon: node.cordon,
                going: false,
                behind: (!node.labelled).then(|| "label it".into()),
            }),
            node_lost: self.had_node && self.node.is_none(),
            token_wanted: self.features.tokens,
            token: Some(if self.token {
                TokenSeen::Own(OwnToken { id: "id".into(), uid: "uid".into(), valid: true })
            } else {
                TokenSeen::None { free: "id".into() }
            }),
            drain,
            list_lag: LIST_LAG,
            periods: Periods::default(),
        }
    }
}

fn failure_of_means() -> Failure {
    Failure::new(Code::InvalidArgument, "the Secret vpsie-secret is missing")
}
