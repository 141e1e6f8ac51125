use super::*;
use crate::{
    api::Phase,
    life::{Cursor, Sightings},
};
use hostler_driver::{Code, Failure};
use hostler_node::Forced;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// A Machine `m` in the middle of its deletion.
fn of_a_deletion(description: &str) -> Observed {
    let now = Timestamp::UNIX_EPOCH;
    Observed {
        now,
        name: "m".into(),
        created_at: now,
        creation_timeout: SignedDuration::from_mins(20),
        deleting: true,
        has_finalizer: true,
        phase: Phase::Terminating,
        phase_since: None,
        description: description.to_owned(),
        operation: None,
        operation_at: None,
        provider_id: None,
        has_node_label: true,
        attempt: None,
        attempt_unsent: false,
        untouched: false,
        ready_to_act: Err(Failure::new(Code::Unavailable, "not needed")),
        not_kept: None,
        refused: None,
        sightings: Sightings::default(),
        failure: None,
        node: None,
        health_timeout: None,
        in_place_timeout: SignedDuration::from_mins(20),
        replaced: None,
        drain: None,
        attachments: None,
        list_lag: Duration::ZERO,
        periods: hostler_driver::Periods::default(),
    }
}

fn drained(forced: Option<Forced>, failed: Option<&str>, volumes_left: bool) -> node::Step<Drained> {
    node::Step::Done(Drained {
        forced,
        failed: failed.map(str::to_owned),
        volumes_left,
        took: Duration::ZERO,
    })
}

fn waiting(failing: Option<Failing>) -> Waiting {
    Waiting { reason: "Why", message: "because".into(), failing, again: Duration::from_secs(7) }
}

/// What is written, or what is done instead.
fn told(step: &Step) -> String {
    match step {
        Step::WriteStatus(change) => format!("{:?} {}", change.state, change.description),
        Step::Wait { reason, message, again } => format!("wait {reason} {message} {}", again.as_secs()),
        other => format!("{other:?}"),
    }
}

#[test]
fn how_a_drain_ended_is_told_in_the_words_of_both_sides() {
    let cases = [
        (
            None,
            "Processing Skipping drain as nodeName is not a valid one for machine. Initiate VM deletion",
            Cursor::DeleteVm,
        ),
        (
            Some(drained(None, None, false)),
            "Processing Drain successful. Initiate VM deletion",
            Cursor::DeleteVm,
        ),
        (
            Some(drained(None, None, true)),
            "Processing Drain successful. Delete Volume Attachments",
            Cursor::DeleteAttachments,
        ),
        (
            Some(drained(Some(Forced::Asked), None, false)),
            "Processing Force Drain successful. Delete Volume Attachments",
            Cursor::DeleteAttachments,
        ),
        (
            Some(drained(Some(Forced::TimedOut), Some("no"), false)),
            "Processing Drain failed due to - no. However, since it's a force deletion shall continue deletion of VM. Delete Volume Attachments",
            Cursor::DeleteAttachments,
        ),
    ];
    for (step, expected, cursor) in cases {
        let seen = Observed { drain: step, ..of_a_deletion(text::DRAIN) };
        let step = drain(&seen);
        assert_eq!(told(&step), expected);
        let Step::WriteStatus(change) = step else { panic!("nothing is written") };
        assert_eq!(Cursor::read(&change.description), cursor, "{}", change.description);
    }
}

#[test]
fn what_fails_is_written_once_and_taken_back_when_it_does_not_any_more() {
    let failed = "Drain failed due to - no. Will retry in next sync. Initiate node drain";
    let condition = "Drain failed due to failure in update of node conditions - no. Will retry in next sync. Initiate node drain";
    for (written, failing, expected) in [
        (text::DRAIN, None, "wait Why because 7".to_owned()),
        (text::DRAIN, Some(Failing::Drain("no".into())), format!("Failed {failed}")),
        (failed, Some(Failing::Drain("no".into())), "wait Why because 7".to_owned()),
        (failed, None, "Processing Initiate node drain".to_owned()),
        (text::DRAIN, Some(Failing::Condition("no".into())), format!("Failed {condition}")),
    ] {
        assert_eq!(Cursor::read(written), Cursor::Drain);
        let step = Some(node::Step::Wait(waiting(failing.clone())));
        let seen = Observed { drain: step, ..of_a_deletion(written) };
        assert_eq!(told(&drain(&seen)), expected, "{written} {failing:?}");
    }
}

#[test]
fn attachments_are_cleared_before_the_server_goes() {
    let act = node::Act::Detach(vec!["a".into()]);
    for (step, expected) in [
        (Some(node::Step::Act(act.clone())), format!("{:?}", Step::OnNode(act))),
        (Some(node::Step::Wait(waiting(None))), "wait Why because 7".to_owned()),
        (
            Some(node::Step::Done(Cleared::NoneLive)),
            "Processing No Live VolumeAttachments for node: m. Moving to VM Deletion. Initiate VM deletion".to_owned(),
        ),
        (
            Some(node::Step::Done(Cleared::Detached)),
            "Processing Node Volumes for node: m are already detached. Moving to VM Deletion. Initiate VM deletion".to_owned(),
        ),
        (
            Some(node::Step::Done(Cleared::NodeGone)),
            "Processing Skipping deleteNodeVolAttachments due to - node \"m\" not found. Moving to VM Deletion. Initiate VM deletion".to_owned(),
        ),
        (
            None,
            "Processing Skipping deleteNodeVolAttachments due to - node \"\" not found. Moving to VM Deletion. Initiate VM deletion".to_owned(),
        ),
    ] {
        let seen = Observed { attachments: step, ..of_a_deletion(text::DELETE_ATTACHMENTS) };
        assert_eq!(told(&detach(&seen)), expected);
    }
}
