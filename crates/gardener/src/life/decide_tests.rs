use super::*;
use crate::life::{
    AttemptMark, Sightings,
    test_support::{observed, server},
};
use hostler_driver::{Attempt, Evidence, Finding, Found, How, Reference};
use jiff::Timestamp;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn identity() -> Identity {
    Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }
}

fn found(how: How, servers: &[Server]) -> Finding {
    let evidence = Evidence { how, began_at: at(30), answered_at: at(30) };
    Finding { found: Found::from_machines(servers.to_vec()), evidence }
}

/// A machine that failed ten minutes ago, after its twenty, and whose cloud can be asked.
fn failed() -> Observed {
    let ready_to_act = Ok(identity());
    Observed { now: at(30), created_at: at(0), phase: Phase::Failed, ready_to_act, ..observed() }
}

fn marked(minute: i64) -> AttemptMark {
    AttemptMark { attempt: Attempt("a".into()), at: at(minute) }
}

#[test]
fn a_machine_that_failed_without_a_server_orders_none_any_more() {
    let listed =
        |servers: &[Server]| Sightings { listed: Some(found(How::Listed, servers)), ..Sightings::default() };
    let nothing = || listed(&[]);
    let gone = || Err(Failure::new(Code::FailedPrecondition, "no class"));
    let late = server("late", State::Running);
    let adopted = Step::Adopt(late.provider_id.clone());
    let table = [
        ("nothing was ordered", failed(), Step::Done),
        ("nothing can be asked", Observed { ready_to_act: gone(), ..failed() }, Step::Done),
        ("something was ordered", Observed { attempt: Some(marked(19)), ..failed() }, Step::List),
        (
            "nothing came of it",
            Observed { attempt: Some(marked(19)), sightings: nothing(), ..failed() },
            Step::Done,
        ),
        (
            "it came late",
            Observed {
                attempt: Some(marked(19)),
                sightings: listed(std::slice::from_ref(&late)),
                ..failed()
            },
            adopted,
        ),
        (
            "it has more time now",
            Observed { creation_timeout: SignedDuration::from_hours(1), ..failed() },
            Step::List,
        ),
        (
            "it may order",
            Observed { creation_timeout: SignedDuration::from_hours(1), sightings: nothing(), ..failed() },
            Step::MarkAttempt,
        ),
        (
            "it is late and did not fail yet",
            Observed { phase: Phase::CrashLoopBackOff, sightings: nothing(), ..failed() },
            Step::MarkAttempt,
        ),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
    }
    let unknown = Observed { attempt: Some(marked(30)), sightings: nothing(), ..failed() };
    assert!(matches!(decide(&unknown), Step::Wait { reason: "OutcomeUnknown", .. }));
}

#[test]
fn what_the_cloud_refused_is_not_ordered_again_before_its_time() {
    let listed = || Sightings { listed: Some(found(How::Listed, &[])), ..Sightings::default() };
    let minute = Some(Duration::from_mins(1));
    let failed =
        || Observed { phase: Phase::CrashLoopBackOff, sightings: listed(), order_in: minute, ..failed() };
    let late = server("late", State::Running);
    let shown = Sightings { listed: Some(found(How::Listed, std::slice::from_ref(&late))), ..listed() };
    let wrong = Failure::new(Code::InvalidArgument, "wrong");
    let table = [
        ("not yet", failed(), Step::Rest(Duration::from_mins(1))),
        (
            "not yet, after an attempt",
            Observed { attempt: Some(marked(20)), ..failed() },
            Step::Rest(Duration::from_mins(1)),
        ),
        ("now", Observed { order_in: None, ..failed() }, Step::MarkAttempt),
        ("a server came", Observed { sightings: shown, ..failed() }, Step::Adopt(late.provider_id.clone())),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
    }
    let told = decide(&Observed { refused: Some(wrong), ..failed() });
    assert!(matches!(told, Step::WriteStatus(_)), "what cannot be ordered at all is told: {told:?}");
}

#[test]
fn the_same_failure_of_another_call_is_not_written_again() {
    let failure = |message: &str, request: &str| {
        Failure::new(Code::PermissionDenied, message).of_call(Reference::new(Some(request), Some("t")))
    };
    for tried in [Tried::Look, Tried::Create, Tried::Settle, Tried::Delete] {
        let after = |seen: Observed, message: &str, request: &str| {
            decide(&Observed { failure: Some((tried, failure(message, request))), ..seen })
        };
        let coming = Observed { phase: Phase::Empty, ready_to_act: Ok(identity()), ..observed() };
        let going = Observed {
            deleting: true,
            phase: Phase::Terminating,
            description: text::DELETE_VM.into(),
            ..coming.clone()
        };
        for seen in [coming, going] {
            let Step::WriteStatus(change) = after(seen.clone(), "no", "req-1") else {
                panic!("{tried:?}: it is told")
            };
            assert!(change.description.contains("[X-Request-Id:req-1]: [X-Trace-Id:t]: no"), "{change:?}");
            let phase = change.phase.unwrap_or(seen.phase);
            let told = Observed { phase, description: change.description, ..seen };
            let again = after(told.clone(), "no", "req-2");
            assert!(matches!(&again, Step::TryAgain { failure, .. } if failure.message == "no"), "{again:?}");
            assert!(matches!(after(told, "never", "req-3"), Step::WriteStatus(_)), "another one is told");
        }
    }
}

#[test]
fn what_could_not_be_finished_is_told_in_gardeners_words() {
    let failure = Failure::new(Code::Aborted, "no");
    let told = |tried| {
        let failure = Some((tried, failure.clone()));
        match decide(&Observed { failure, ready_to_act: Ok(identity()), ..observed() }) {
            Step::WriteStatus(change) => change.description,
            step => panic!("{step:?}"),
        }
    };
    let error = "machine codes error: code = [Aborted] message = [no]";
    assert_eq!(told(Tried::Create), format!("Cloud provider message - {error}"));
    assert_eq!(told(Tried::Look), format!("Cloud provider message - {error}"));
    assert_eq!(told(Tried::Settle), format!("Provider error: {error}. Initialize VM Instance"));
}

/// What is done about a server that is known, by its state: in time, and when the creation has taken too long.
#[test]
fn every_state_of_a_server_has_its_step() {
    let states = [
        (State::Running, "settle", "settle"),
        (State::Pending, "wait", "DeadlineExceeded"),
        (State::Stopped, "wait", "DeadlineExceeded"),
        (State::Deleting, "wait", "DeadlineExceeded"),
        (State::Unrecognised, "wait", "DeadlineExceeded"),
        (State::Failed { code: Code::Internal, message: "no".into() }, "Internal", "Internal"),
        (State::Deleted, "NotFound", "NotFound"),
    ];
    for (state, in_time, too_late) in states {
        for (minute, expected) in [(5, in_time), (30, too_late)] {
            let mut known = server("a", state.clone());
            known.raw_state = "AS-IT-IS".into();
            let seen = Observed {
                now: at(minute),
                phase: Phase::CrashLoopBackOff,
                provider_id: Some(Ok(known.provider_id.clone())),
                has_node_label: true,
                sightings: Sightings { asked: Some(found(How::Asked, &[known])), ..Sightings::default() },
                ..failed()
            };
            let step = match decide(&seen) {
                Step::Settle(_) => "settle".to_owned(),
                Step::Wait { reason: "ServerStarting", message, .. } => {
                    assert!(message.contains("AS-IT-IS"), "{message}");
                    "wait".to_owned()
                }
                Step::WriteStatus(change) => {
                    if expected == "DeadlineExceeded" {
                        assert!(change.description.contains("AS-IT-IS"), "{change:?}");
                    }
                    change.error_code.unwrap().to_string()
                }
                other => panic!("{state:?}: {other:?}"),
            };
            assert_eq!(step, expected, "{state:?} after {minute} minutes");
        }
    }
}
