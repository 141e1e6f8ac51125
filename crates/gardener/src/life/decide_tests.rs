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

#[test]
fn a_machine_that_nobody_has_begun_with_is_held_with_its_first_mark() {
    let nothing = || Sightings { listed: Some(found(How::Listed, &[])), ..Sightings::default() };
    let new = || Observed {
        has_finalizer: false,
        untouched: true,
        placed: false,
        ready_to_act: Ok(identity()),
        token_wanted: true,
        ..observed()
    };
    let listed = || Observed { sightings: nothing(), ..new() };
    let late = server("late", State::Running);
    let shown = Sightings { listed: Some(found(How::Listed, std::slice::from_ref(&late))), ..nothing() };
    let unsent = || Observed {
        now: at(30),
        has_finalizer: true,
        untouched: false,
        placed: true,
        attempt: Some(marked(30)),
        attempt_unsent: true,
        ..new()
    };
    let valid = || token::TokenSeen::Own(token::OwnToken { id: "i".into(), uid: "u".into(), valid: true });
    let table = vec![
        ("it is looked for", new(), Step::List),
        ("it is marked", listed(), Step::MarkAttempt),
        ("it has a server", Observed { sightings: shown, ..new() }, Step::Adopt(late.provider_id.clone())),
        ("a token", unsent(), Step::FindToken),
        ("the last look", Observed { token: Some(valid()), ..unsent() }, Step::List),
        ("the order", Observed { token: Some(valid()), sightings: nothing(), ..unsent() }, Step::Create),
        (
            "the token took too long",
            Observed { now: at(31), token: Some(valid()), sightings: nothing(), ..unsent() },
            Step::MarkAttempt,
        ),
        ("it has an id", Observed { provider_id: Some(Err("odd".into())), ..new() }, Step::AddFinalizer),
        (
            "it was marked",
            Observed { attempt: Some(marked(0)), untouched: false, ..new() },
            Step::AddFinalizer,
        ),
        ("it has a node", Observed { has_node_label: true, ..new() }, Step::AddFinalizer),
        ("it has run", Observed { phase: Phase::Running, ..new() }, Step::AddFinalizer),
        ("it is deleted", Observed { deleting: true, ..new() }, Step::Done),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
    }
    let missing = Observed { ready_to_act: Err(Failure::new(Code::FailedPrecondition, "no class")), ..new() };
    assert!(matches!(decide(&missing), Step::WriteStatus(_)), "what is missing is told all the same");
}

#[test]
fn an_order_of_another_program_is_waited_for() {
    let nothing = || Sightings { listed: Some(found(How::Listed, &[])), ..Sightings::default() };
    let begun = || Observed {
        now: at(30),
        created_at: at(29),
        placed: false,
        ready_to_act: Ok(identity()),
        sightings: nothing(),
        ..observed()
    };
    let going = || Observed {
        deleting: true,
        phase: Phase::Terminating,
        description: text::DELETE_VM.into(),
        ..begun()
    };
    for seen in [begun(), going()] {
        assert_eq!(decide(&seen), Step::MarkOthers);
        let marked = Observed { attempt: Some(marked(30)), placed: true, ..seen.clone() };
        assert!(matches!(decide(&marked), Step::Wait { reason: "OutcomeUnknown", .. }));
        let gone = Observed { ready_to_act: Err(Failure::new(Code::FailedPrecondition, "no class")), ..seen };
        assert!(matches!(decide(&gone), Step::WriteStatus(change) if change.state == OperationState::Failed));
    }
    let given_up = Observed { phase: Phase::Failed, created_at: at(0), ..begun() };
    assert_eq!(decide(&given_up), Step::MarkOthers);
    assert_eq!(decide(&Observed { placed: true, ..given_up }), Step::Done);
}

#[test]
fn where_a_server_of_another_program_is_gets_noted_while_it_is_known() {
    let own = server("a", State::Running);
    let id = || own.provider_id.clone();
    let asked = |servers: &[Server]| Sightings {
        asked: Some(found(How::Asked, servers)),
        settled: true,
        ..Sightings::default()
    };
    let run = || Observed {
        phase: Phase::Running,
        provider_id: Some(Ok(id())),
        has_node_label: true,
        placed: false,
        has_target: false,
        ready_to_act: Ok(identity()),
        ..observed()
    };
    let mut foreign = own.clone();
    foreign.marks.domain = Some("e".into());
    let failure = Failure::new(Code::Unavailable, "later");
    let rest = Step::Rest(upkeep::EVERY);
    let table = [
        ("it is looked at", run(), Step::Ask(id())),
        (
            "it is there",
            Observed { sightings: asked(std::slice::from_ref(&own)), ..run() },
            Step::Adopt(id()),
        ),
        ("it is not there", Observed { sightings: asked(&[]), ..run() }, rest.clone()),
        ("it is another one's", Observed { sightings: asked(&[foreign]), ..run() }, rest.clone()),
        ("nobody knows", Observed { failure: Some((Tried::Look, failure)), ..run() }, rest),
        ("it is noted", Observed { placed: true, ..run() }, Step::Done),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
        let leaving = Observed { deleting: true, ..seen };
        let noting = matches!(expected, Step::Ask(_) | Step::Adopt(_));
        let step = decide(&leaving);
        assert!(
            if noting { step == expected } else { matches!(step, Step::WriteStatus(_)) },
            "{what}: {step:?}"
        );
    }
}

#[test]
fn a_mark_is_ruled_out_by_a_list_that_is_late_enough_for_every_clock() {
    let lag = Duration::from_secs(30);
    // Seconds of a mark, of the start of this process and of the list; then whether there is nothing to wait for.
    for (mark, start, list, expected) in [
        (1_000, 0, 1_090, false),
        (1_000, 0, 1_091, true),
        (1_000, 1_005, 1_086, false),
        (1_000, 1_011, 1_091, false),
        (1_000, 1_011, 1_092, true),
        (0, 1_000, 1_080, false),
        (0, 1_000, 1_081, true),
    ] {
        let second = |second| Timestamp::from_second(second).unwrap();
        let seen = Observed { now: second(list), started_at: second(start), list_lag: lag, ..observed() };
        let mark = AttemptMark { attempt: Attempt("a".into()), at: second(mark) };
        let evidence = Evidence { how: How::Listed, began_at: seen.now, answered_at: seen.now };
        assert_eq!(mark.ruled_out_by(&evidence, &seen), expected, "{mark:?} {start} {list}");
        let left = mark.wait(&seen);
        assert!(left == Duration::from_secs(1) || !expected, "{mark:?} {start} {list}: {left:?}");
    }
}

#[test]
fn nothing_is_ordered_but_on_a_look_that_came_after_the_mark_and_soon() {
    let second = |second: i64| at(0) + SignedDuration::from_secs(second);
    // When it was marked, when the look began, what time it is now, whether it is ordered or marked anew.
    for (marked, looked, now, ordered) in [
        (100, 100, 100, true),
        (100, 103, 105, true),
        (100, 110, 110, true),
        (100, 99, 105, false),
        (100, 0, 105, false),
        (100, 111, 111, false),
        (100, 105, 111, false),
    ] {
        let evidence = Evidence { how: How::Listed, began_at: second(looked), answered_at: second(looked) };
        let listed = Some(Finding { found: Found::from_machines(Vec::new()), evidence });
        let seen = Observed {
            now: second(now),
            attempt: Some(AttemptMark { attempt: Attempt("a".into()), at: second(marked) }),
            attempt_unsent: true,
            ready_to_act: Ok(identity()),
            sightings: Sightings { listed, ..Sightings::default() },
            ..observed()
        };
        let expected = if ordered { Step::Create } else { Step::MarkAttempt };
        assert_eq!(decide(&seen), expected, "marked {marked}, looked {looked}, now {now}");
    }
}

#[test]
fn an_order_that_the_cloud_has_in_hand_is_waited_for() {
    let listed = |how, servers: &[Server]| Sightings {
        asked: Some(found(How::Asked, &[])),
        listed: Some(found(how, servers)),
        ..Sightings::default()
    };
    let other = server("other", State::Running);
    let coming = Observed {
        now: at(10),
        phase: Phase::Empty,
        attempt: Some(marked(1)),
        sightings: listed(How::Queued, &[]),
        ..failed()
    };
    let waits = |seen: Observed| matches!(decide(&seen), Step::Wait { reason: ORDER_IN_HAND, .. });
    assert!(waits(coming.clone()), "nothing rules the attempt out");
    assert!(waits(Observed { attempt: None, ..coming.clone() }), "whoever ordered it");
    assert!(waits(Observed { attempt_unsent: true, ..coming.clone() }), "no second order beside it");
    let ruled_out = Observed { sightings: listed(How::Listed, &[]), ..coming.clone() };
    assert_eq!(decide(&ruled_out), Step::MarkAttempt, "without it another one is ordered");
    let shown = Observed { sightings: listed(How::Queued, std::slice::from_ref(&other)), ..coming.clone() };
    assert_eq!(decide(&shown), Step::Adopt(other.provider_id.clone()), "what is shown counts");
    let late = Observed { now: at(30), ..coming.clone() };
    let Step::WriteStatus(told) = decide(&late) else { panic!("people are told") };
    assert_eq!((told.phase, told.error_code), (Some(Phase::Failed), Some(Code::DeadlineExceeded)));
    assert!(
        waits(Observed { phase: Phase::Failed, description: told.description, ..late }),
        "and it is waited for"
    );

    let replacing = Observed { attempt: None, replaces: Some(other.provider_id.clone()), ..coming.clone() };
    assert!(waits(replacing), "also in place of one that failed");

    let going = Observed {
        deleting: true,
        phase: Phase::Terminating,
        description: text::DELETE_VM.into(),
        operation_at: Some(at(9)),
        ..coming
    };
    assert!(waits(going.clone()));
    assert!(waits(Observed { attempt: None, ..going.clone() }), "nothing is left behind");
    let known = Observed { attempt: None, provider_id: Some(Ok(other.provider_id)), ..going.clone() };
    assert!(waits(known), "it is not asked for again and again");
    let told = decide(&Observed { now: at(20), ..going });
    assert!(matches!(&told, Step::WriteStatus(change) if change.description.contains("portal")), "{told:?}");
}
