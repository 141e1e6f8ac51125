use super::{Observed, Preserve, Sightings};
use crate::api::Phase;
use hostler_driver::{Code, Failure, Machine as Server, Marks, ProviderId, State};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// A Machine `m` of which nothing is known but that it has its finalizer.
pub(super) fn observed() -> Observed {
    let now = Timestamp::UNIX_EPOCH;
    Observed {
        now,
        started_at: now - SignedDuration::from_hours(3),
        name: "m".into(),
        created_at: now,
        creation_timeout: SignedDuration::from_mins(20),
        deleting: false,
        has_finalizer: true,
        phase: Phase::Empty,
        phase_since: None,
        description: String::new(),
        operation: None,
        operation_at: None,
        provider_id: None,
        replaces: None,
        given_way: 0,
        ran: None,
        has_node_label: false,
        attempt: None,
        attempt_unsent: false,
        untouched: false,
        placed: true,
        ready_to_act: Err(Failure::new(Code::Unavailable, "not needed")),
        not_kept: None,
        refused: None,
        order_in: None,
        sightings: Sightings::default(),
        failure: None,
        upkeep_in: None,
        has_target: true,
        token_wanted: false,
        token: None,
        node: None,
        node_unseen: false,
        node_lost: false,
        node_on: None,
        node_naming_it: None,
        health_timeout: None,
        in_place_timeout: SignedDuration::from_mins(20),
        preserve: Preserve::default(),
        replaced: None,
        drain: None,
        attachments: None,
        list_lag: Duration::ZERO,
        periods: hostler_driver::Periods::default(),
    }
}

/// Server `name` of Machine `m` in cluster `d`, as the cloud shows it.
pub(super) fn server(name: &str, state: State) -> Server {
    Server {
        provider_id: ProviderId::stackit("p", name).unwrap(),
        name: "m".into(),
        marks: Marks {
            domain: Some("d".into()),
            machine: Some("m".into()),
            class: Some("c".into()),
            attempt: None,
        },
        state,
        raw_state: String::new(),
        addresses: Vec::new(),
        created_at: None,
        launched_at: None,
    }
}
