//! What a machine's controller sees of the world.

use super::{Actor, Age, Life, Node, Token, Written};
use crate::life::{AttemptMark, Behind, NodeView, Observed, OwnToken, Sightings, TokenSeen, Tried, node};
use hostler_driver::{
    Attempt, Code, Evidence, Failure, Finding, Found, How, Identity, Machine as Server, Marks, ProviderId,
    Recognition, State,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const LIST_LAG: Duration = Duration::from_secs(30);

/// What a machine does not decide itself.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) class: bool,
    pub(super) rich: bool,
    pub(super) has_target: bool,
}

pub(super) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn id(number: u8) -> ProviderId {
    ProviderId::stackit("p", &format!("s{number}")).unwrap()
}

pub(super) fn number(id: &ProviderId) -> u8 {
    id.server().trim_start_matches('s').parse().unwrap()
}

fn identity(actor: usize) -> Identity {
    Identity { domain: format!("cluster-{actor}"), machine: "m".into(), class: "c".into() }
}

fn server(number: u8, owner: usize, life: Life) -> Server {
    let identity = identity(owner);
    Server {
        provider_id: id(number),
        name: identity.machine.clone(),
        marks: Marks {
            domain: Some(identity.domain),
            machine: Some(identity.machine),
            class: Some(identity.class),
            attempt: None,
        },
        state: match life {
            Life::Booting => State::Pending,
            Life::Up => State::Running,
            Life::Failed | Life::Broken => State::Failed { code: Code::Internal, message: "no".into() },
            Life::Deleting => State::Deleting,
        },
        raw_state: String::new(),
        addresses: Vec::new(),
        created_at: None,
        launched_at: (!matches!(life, Life::Booting | Life::Failed)).then(now),
    }
}

fn failure() -> Failure {
    Failure::new(Code::Unavailable, "try again")
}

impl Actor {
    pub(super) fn observe(&self, written: &Written, actor: usize, around: Around) -> Observed {
        let Around { class, rich, has_target } = around;
        let memory = &self.memory;
        // Moments of this run lie in the last minute, in the order in which they happened.
        let moment = |event| now() + SignedDuration::from_secs(memory.rank(event) - 10);
        let at = match written.attempt {
            Some(Age::Young) if memory.unsent => moment('m'),
            Some(Age::Young) => now() - SignedDuration::from_secs(9),
            Some(Age::Stale) => now() - SignedDuration::from_secs(30),
            Some(Age::Future) => now() + SignedDuration::from_hours(1),
            _ => now() - SignedDuration::from_hours(2),
        };
        let asked = memory.asked.as_ref().map(|vms| Finding {
            found: Found::from_machines(
                vms.iter().map(|(number, owner, life)| server(*number, *owner, *life)).collect(),
            ),
            evidence: Evidence { how: How::Asked, began_at: moment('a'), answered_at: moment('a') },
        });
        let listed = memory.listed.as_ref().map(|vms| {
            let ours = vms.iter().map(|(number, owner, life)| server(*number, *owner, *life));
            let ours = ours.filter(|server| identity(actor).recognise(&server.marks) == Recognition::Ours);
            let began_at = if memory.listed_when_settled || written.attempt != Some(Age::Settled) {
                moment('l')
            } else {
                at
            };
            Finding {
                found: Found::from_machines(ours.collect()),
                evidence: Evidence { how: How::Listed, began_at, answered_at: began_at },
            }
        });
        Observed {
            now: now(),
            started_at: now() - SignedDuration::from_hours(3),
            name: "m".into(),
            created_at: now() - SignedDuration::from_secs(60),
            creation_timeout: SignedDuration::from_mins(20),
            deleting: written.deleting,
            has_finalizer: written.finalizer,
            phase: written.phase,
            phase_since: Some(now() - SignedDuration::from_mins(if written.long { 60 } else { 1 })),
            description: written.description.clone(),
            operation: None,
            operation_at: Some(if written.long_told { now() - SignedDuration::from_hours(1) } else { now() }),
            provider_id: written
                .provider_id
                .or_else(|| written.replaces.filter(|_| written.deleting))
                .map(|number| Ok(id(number))),
            replaces: written.replaces.map(id),
            given_way: 0,
            ran: None,
            has_node_label: written.node_label,
            attempt: written.attempt.map(|_| AttemptMark { attempt: Attempt("x".into()), at }),
            attempt_unsent: memory.unsent,
            untouched: written.attempt.is_none() && !written.place && written.replaces.is_none(),
            placed: written.place,
            ready_to_act: if class { Ok(identity(actor)) } else { Err(failure()) },
            not_kept: None,
            refused: None,
            order_in: None,
            sightings: Sightings {
                asked,
                listed,
                created: memory.created.map(|number| Box::new(server(number, actor, Life::Booting))),
                settled: memory.settled,
            },
            failure: memory.failed.map(|tried| {
                let tried = [Tried::Look, Tried::Create, Tried::Settle, Tried::Delete][usize::from(tried)];
                (tried, failure())
            }),
            upkeep_in: rich.then(|| Duration::from_secs(if self.upkeep_due { 0 } else { 60 })),
            has_target,
            token_wanted: rich && class && has_target,
            token: memory.token.or_else(|| (!rich).then_some(Token::None)).map(|token| match token {
                Token::None => TokenSeen::None { free: "id".into() },
                Token::Valid | Token::Expired => TokenSeen::Own(OwnToken {
                    id: "id".into(),
                    uid: "uid".into(),
                    valid: token == Token::Valid && self.token != Token::Expired,
                }),
            }),
            node: match self.node {
                _ if !written.node_label => None,
                Node::None => None,
                Node::Joined { ready, labelled, going, .. } => {
                    let behind = Behind { status: None, node: (!labelled).then(|| "label it".into()) };
                    let recorded = written.recorded;
                    Some(NodeView {
                        name: "m".into(),
                        ready,
                        behind,
                        recorded,
                        held: labelled,
                        going,
                        in_place: self.update.seen(),
                        ..NodeView::default()
                    })
                }
            },
            node_unseen: false,
            node_lost: false,
            node_on: None,
            node_naming_it: match self.node {
                Node::Joined { labelled: true, .. } if !written.node_label => Some("m".into()),
                _ => None,
            },
            health_timeout: Some(SignedDuration::from_mins(10)),
            in_place_timeout: SignedDuration::from_mins(20),
            preserve: self.keep.seen(if written.node_label { self.node } else { Node::None }),
            replaced: None,
            drain: written.node_label.then_some(match self.node {
                Node::Joined { cordoned: false, .. } => node::Step::Act(node::Act::Cordon),
                _ => node::Step::Done(node::Drained {
                    forced: None,
                    failed: None,
                    volumes_left: false,
                    took: Duration::ZERO,
                }),
            }),
            attachments: written.node_label.then_some(node::Step::Done(node::Cleared::Detached)),
            list_lag: LIST_LAG,
            periods: hostler_driver::Periods::default(),
        }
    }
}
