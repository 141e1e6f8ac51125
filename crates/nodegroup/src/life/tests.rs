#![expect(clippy::unnecessary_wraps, reason = "it is put where there may be nothing")]

use super::*;
use crate::{
    api::{VPSieNodeConditionType as Kind, VPSieNodePhase as Phase, VPSieNodeStatus as Status},
    names::{event, reason},
};
use hostler_driver::{
    Address, AddressKind, Attempt, Code, Evidence, Found, How, Machine as Vps, Marks, State,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn identity() -> Identity {
    Identity { domain: "cluster".into(), machine: "uid".into(), class: "group".into() }
}

fn id() -> ProviderId {
    ProviderId::vpsie("v1").unwrap()
}

fn vps(state: State) -> Vps {
    Vps {
        provider_id: id(),
        name: "workers-1".into(),
        marks: Marks {
            domain: Some("cluster".into()),
            machine: Some("uid".into()),
            class: Some("group".into()),
            attempt: None,
        },
        raw_state: format!("{state:?}").to_lowercase(),
        state,
        addresses: Vec::new(),
        created_at: None,
        launched_at: None,
    }
}

fn found(how: How, vpss: &[Vps]) -> Option<Finding> {
    let evidence = Evidence { how, began_at: at(100), answered_at: at(100) };
    Some(Finding { found: Found::from_machines(vpss.to_vec()), evidence })
}

/// A VPSieNode made at minute 90, looked at at minute 100.
fn observed() -> Observed {
    Observed {
        now: at(100),
        started_at: at(0),
        written: Written {
            has_finalizer: true,
            generation: 1,
            created_at: at(90),
            status: Status::default(),
            ..Written::default()
        },
        wishes: Wishes::default(),
        limits: Limits::default(),
        ready_to_act: Ok(identity()),
        order: Ok(()),
        frozen: None,
        sightings: Sightings::default(),
        failure: None,
        resources: None,
        node: None,
        node_lost: false,
        token_wanted: false,
        token: Some(TokenSeen::None { free: "abcdef".into() }),
        drain: None,
        list_lag: Duration::from_secs(30),
        periods: Periods::default(),
    }
}

/// The same in a phase, with a VPS that runs unless it has none yet.
fn in_phase(phase: Phase) -> Observed {
    let mut seen = observed();
    while seen.phase() != Some(phase) {
        let step = match seen.phase() {
            None => decide(&seen),
            Some(Phase::Pending) => decide(&seen),
            Some(Phase::Provisioning) => {
                seen.written.vps = Some(Ok(id()));
                seen.written.instance_id = 1001;
                seen.sightings.looked = found(How::Listed, &[vps(State::Running)]);
                decide(&seen)
            }
            Some(Phase::Provisioned) => {
                seen.node = Some(NodeView { name: "workers-1".into(), ..NodeView::default() });
                seen.written.said.node_name = Some("workers-1".into());
                decide(&seen)
            }
            Some(Phase::Joining) => {
                seen.node.as_mut().unwrap().ready = true;
                decide(&seen)
            }
            other => panic!("{phase:?} is not reached from {other:?}"),
        };
        match step {
            Step::Write(report) => seen.written.status = report.status,
            other => panic!("on the way to {phase:?}: {other:?}"),
        }
    }
    seen
}

/// What comes after the status says what is known.
fn settled(seen: &mut Observed) -> Step {
    match decide(seen) {
        Step::Write(report) if report.event.is_none() && report.status.phase == seen.phase() => {
            seen.written.status = report.status;
            decide(seen)
        }
        other => other,
    }
}

/// A phase, an event with whether it warns, and conditions.
type Told = (Option<Phase>, Option<(&'static str, bool)>, Vec<(Kind, String, String)>);

/// What is written: phase, event, and the conditions that changed.
fn told(seen: &Observed) -> Told {
    match decide(seen) {
        Step::Write(report) => {
            let before = &seen.written.status.conditions;
            let changed = report.status.conditions.iter().filter(|one| !before.contains(one));
            let changed = changed.map(|one| (one.kind, one.status.clone(), one.reason.clone())).collect();
            (report.status.phase, report.event.map(|event| (event.reason, event.warning)), changed)
        }
        other => panic!("{other:?}"),
    }
}

fn last_error(seen: &Observed) -> String {
    match decide(seen) {
        Step::Write(report) => report.status.last_error,
        other => panic!("{other:?}"),
    }
}

fn condition(kind: Kind, status: &str, reason: &str) -> (Kind, String, String) {
    (kind, status.into(), reason.into())
}

#[test]
fn a_life_goes_through_its_phases_in_order_and_tells_each() {
    let mut seen = observed();
    let new = told(&seen);
    assert_eq!((new.0, new.1), (Some(Phase::Pending), None));
    assert_eq!(
        new.2,
        [
            condition(Kind::VPSReady, "Unknown", "VPSNotCreated"),
            condition(Kind::NodeJoined, "False", "NodeNotJoined"),
            condition(Kind::NodeReady, "False", "NodeNotReady"),
            condition(Kind::Error, "False", "NoErrors"),
        ]
    );
    seen = in_phase(Phase::Pending);
    let expected = (Some(Phase::Provisioning), None, vec![condition(Kind::VPSReady, "False", "VPSStarting")]);
    assert_eq!(told(&seen), expected);

    seen = in_phase(Phase::Provisioning);
    seen.written.vps = Some(Ok(id()));
    seen.sightings.looked = found(How::Listed, &[vps(State::Running)]);
    let running = vec![condition(Kind::VPSReady, "True", "VPSRunning")];
    assert_eq!(told(&seen), (Some(Phase::Provisioned), Some((event::VPS_CREATED, false)), running));

    seen = in_phase(Phase::Provisioned);
    seen.node = Some(NodeView { name: "workers-1".into(), ready: true, ..NodeView::default() });
    assert!(
        matches!(decide(&seen), Step::WriteSpec(change) if change.node_name.as_deref() == Some("workers-1"))
    );
    seen.written.said.node_name = Some("workers-1".into());
    let joined = told(&seen);
    assert_eq!((joined.0, joined.1), (Some(Phase::Joining), Some((event::NODE_JOINED, false))));
    assert_eq!(joined.2[0], condition(Kind::NodeJoined, "True", "NodeJoinedCluster"));

    seen = in_phase(Phase::Joining);
    seen.node.as_mut().unwrap().ready = true;
    let ready = told(&seen);
    assert_eq!((ready.0, ready.1), (Some(Phase::Ready), Some((event::NODE_READY, false))));
    assert_eq!(ready.2, [condition(Kind::NodeReady, "True", "NodeReady")]);

    seen = in_phase(Phase::Ready);
    assert_eq!(decide(&seen), Step::Rest(LOOK_AGAIN));
    seen.written.deleting = true;
    assert_eq!(told(&seen), (Some(Phase::Terminating), Some((event::TERMINATING, false)), vec![]));
}

#[test]
fn no_moment_of_a_life_lies_before_the_one_before_it() {
    let mut seen = in_phase(Phase::Joining);
    seen.written.status.joined_at = Some(Time(at(120)));
    seen.node.as_mut().unwrap().ready = true;
    let Step::Write(report) = decide(&seen) else { panic!() };
    assert_eq!(report.status.ready_at, Some(Time(at(120))), "by a clock that was set back");
    assert_eq!(report.status.created_at, Some(Time(at(90))), "that of the object");
}

#[test]
fn intent_is_written_then_everything_is_listed_then_one_is_ordered() {
    let mark = |second: i64| AttemptMark {
        attempt: Attempt("x".into()),
        at: at(100) - SignedDuration::from_secs(second),
    };
    let base = || in_phase(Phase::Provisioning);
    let with = |change: &dyn Fn(&mut Observed)| {
        let mut seen = base();
        change(&mut seen);
        decide(&seen)
    };
    let listed = |seen: &mut Observed, vpss: &[Vps]| seen.sightings.listed = found(How::Listed, vpss);
    assert_eq!(with(&|_| {}), Step::MarkAttempt);
    assert_eq!(
        with(&|seen| {
            seen.token_wanted = true;
            seen.token = None;
        }),
        Step::FindToken
    );
    assert_eq!(with(&|seen| seen.token_wanted = true), Step::MakeToken("abcdef".into()));
    let fresh = |seen: &mut Observed| {
        seen.written.attempt = Some(mark(0));
        seen.written.attempt_unsent = true;
    };
    assert_eq!(with(&fresh), Step::List);
    assert_eq!(
        with(&|seen| {
            fresh(seen);
            listed(seen, &[]);
        }),
        Step::Create
    );
    assert_eq!(
        with(&|seen| {
            fresh(seen);
            seen.written.attempt = Some(mark(11));
            listed(seen, &[]);
        }),
        Step::MarkAttempt,
        "held up for too long"
    );
    assert_eq!(
        with(&|seen| {
            fresh(seen);
            listed(seen, &[vps(State::Pending)]);
        }),
        Step::Adopt(id())
    );
    // After an unknown outcome none is ordered before lists must show it: 10 s to send, 50 s to act, 30 s of lag.
    for (second, expected) in [(89, None), (91, Some(Step::MarkAttempt))] {
        let step = with(&|seen| {
            seen.written.attempt = Some(mark(second));
            listed(seen, &[]);
        });
        match expected {
            Some(expected) => assert_eq!(step, expected),
            None => assert!(matches!(step, Step::Wait { reason: "OutcomeUnknown", .. }), "{step:?}"),
        }
    }
    let queued = Vps { provider_id: ProviderId::vpsie("pending:7").unwrap(), ..vps(State::Pending) };
    let step = with(&|seen| {
        seen.written.attempt = Some(mark(300));
        listed(seen, std::slice::from_ref(&queued));
    });
    assert!(matches!(step, Step::Wait { reason: "VPSQueued", .. }), "it is on its way: {step:?}");
    let step = with(&|seen| {
        seen.written.attempt = Some(mark(300));
        let older = Vps {
            created_at: Some(at(1)),
            provider_id: ProviderId::vpsie("v0").unwrap(),
            ..vps(State::Pending)
        };
        listed(seen, &[older, vps(State::Running)]);
    });
    assert_eq!(step, Step::Adopt(id()), "of two the one that runs");
    let foreign = Vps { marks: Marks::default(), ..vps(State::Running) };
    let step = with(&|seen| {
        fresh(seen);
        listed(seen, std::slice::from_ref(&foreign));
    });
    assert_eq!(step, Step::Create, "a name alone makes nobody ours");
}

#[test]
fn refusals_fail_at_once_and_what_passes_is_tried_again() {
    let failed = |code, message: &str| {
        let mut seen = in_phase(Phase::Provisioning);
        seen.failure = Some((Tried::Create, Failure::new(code, message)));
        seen
    };
    let table = [
        (Code::ResourceExhausted, "quota exceeded", "Insufficient VPSie quota: quota exceeded"),
        (Code::Unauthenticated, "401", "VPSie API authentication failed: 401"),
        (Code::InvalidArgument, "Instance type not available: small", "Instance type not available: small"),
        (Code::NotFound, "Datacenter not found: x", "Datacenter not found: x"),
        (Code::ResourceExhausted, "Insufficient VPSie quota", "Insufficient VPSie quota"),
    ];
    for (code, message, expected) in table {
        let mut seen = failed(code, message);
        seen.written.attempt = Some(AttemptMark { attempt: Attempt("x".into()), at: at(100) });
        assert_eq!(decide(&seen), Step::ClearAttempt, "nothing was made");
        seen.written.attempt = None;
        let (phase, event, _) = told(&seen);
        assert_eq!((phase, event), (Some(Phase::Failed), Some((event::PROVISIONING_FAILED, true))));
        assert_eq!(last_error(&seen), expected);
    }
    for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted] {
        assert!(matches!(decide(&failed(code, "x")), Step::TryAgain { .. }), "{code}");
    }
    let (phase, _, changed) = told(&failed(Code::Unknown, "odd"));
    assert_eq!(phase, Some(Phase::Provisioning));
    assert_eq!(changed, [condition(Kind::Error, "True", "VPSieAPIError")]);
    let mut late = failed(Code::Unavailable, "gone fishing");
    late.now = at(110);
    assert_eq!(last_error(&late), "the VPS did not run within 600 s: gone fishing");
}

#[test]
fn what_it_takes_is_asked_for_before_anything_is_begun() {
    for phase in [Phase::Pending, Phase::Provisioning] {
        let mut seen = in_phase(phase);
        seen.order = Err(Failure::new(Code::InvalidArgument, "spec.osImageID: there is no image x"));
        let (written, event, changed) = told(&seen);
        assert_eq!((written, event), (Some(phase), None));
        assert_eq!(changed, [condition(Kind::Error, "True", "InvalidConfiguration")]);
    }
    let mut frozen = in_phase(Phase::Provisioning);
    frozen.frozen = Some("9 of 10 VPSs are missing".into());
    assert_eq!(told(&frozen).2, [condition(Kind::Error, "True", "VPSsVanished")]);
}

#[test]
fn who_does_not_join_in_time_has_failed() {
    let minutes = |phase, minutes: i64| {
        let mut seen = in_phase(phase);
        seen.now = at(100 + minutes);
        seen
    };
    let table = [
        (Phase::Provisioned, "Node join timeout: no node has joined within 15 min"),
        (Phase::Joining, "Node join timeout: node workers-1 was not Ready within 15 min"),
    ];
    for (phase, text) in table {
        assert!(matches!(decide(&minutes(phase, 14)), Step::Wait { reason: "NodeJoining", .. }));
        let late = minutes(phase, 15);
        let (failed, event, changed) = told(&late);
        assert_eq!((failed, event), (Some(Phase::Failed), Some((event::JOIN_FAILED, true))));
        assert_eq!(
            (changed, last_error(&late).as_str()),
            (vec![condition(Kind::Error, "True", "JoinFailed")], text)
        );
    }
    let mut slow = in_phase(Phase::Provisioning);
    slow.written.vps = Some(Ok(id()));
    slow.sightings.looked = found(How::Listed, &[vps(State::Pending)]);
    assert!(matches!(settled(&mut slow), Step::Wait { reason: "VPSStarting", .. }));
    slow.now = at(110);
    assert_eq!(last_error(&slow), "the VPS did not run within 600 s");
    let mut ready = minutes(Phase::Joining, 60);
    ready.node.as_mut().unwrap().ready = true;
    assert_eq!(told(&ready).0, Some(Phase::Ready), "it came late, and before anybody looked");
}

#[test]
fn what_is_out_of_band_is_seen() {
    let ready = || in_phase(Phase::Ready);
    let mut stopped = ready();
    stopped.sightings.looked = found(How::Listed, &[vps(State::Stopped)]);
    assert_eq!(told(&stopped).2, [condition(Kind::VPSReady, "False", "VPSStopped")]);
    let mut renamed = ready();
    renamed.sightings.looked = found(How::Listed, &[Vps { name: "mine-now".into(), ..vps(State::Running) }]);
    let Step::Write(report) = decide(&renamed) else { panic!() };
    assert_eq!((report.status.hostname.as_str(), report.status.phase), ("mine-now", Some(Phase::Ready)));
    let mut unready = ready();
    unready.node.as_mut().unwrap().ready = false;
    assert_eq!(told(&unready).2, [condition(Kind::NodeReady, "False", "NodeNotReady")]);
    let mut deleted = ready();
    deleted.node = None;
    assert_eq!(decide(&deleted), Step::Rest(LOOK_AGAIN), "a cache may be behind");
    deleted.node_lost = true;
    assert_eq!(decide(&deleted), Step::DeleteSelf);
    deleted.wishes.protected = true;
    assert_eq!(told(&deleted).2, [condition(Kind::NodeReady, "False", "NodeDeleted")]);
}

#[test]
fn gone_is_what_is_shown_nowhere_twice_a_minute_apart() {
    let mut seen = in_phase(Phase::Ready);
    seen.sightings.looked = found(How::Listed, &[]);
    assert_eq!(decide(&seen), Step::Ask(id()), "one list is no proof");
    let there = Observed {
        sightings: Sightings { asked: found(How::Asked, &[vps(State::Running)]), ..seen.sightings.clone() },
        ..seen.clone()
    };
    assert_eq!(decide(&there), Step::Rest(LOOK_AGAIN));
    seen.sightings.asked = found(How::Asked, &[]);
    assert_eq!(decide(&seen), Step::List);
    seen.sightings.listed = found(How::Listed, &[]);
    assert_eq!(decide(&seen), Step::NoteAbsence(at(100)));
    seen.written.absent_since = Some(at(100) - SignedDuration::from_secs(59));
    assert!(matches!(decide(&seen), Step::Wait { reason: "VPSNotFound", .. }));
    seen.written.absent_since = Some(at(99));
    let frozen = Observed { frozen: Some("many".into()), ..seen.clone() };
    assert_eq!(told(&frozen).2, [condition(Kind::Error, "True", "VPSsVanished")]);
    let (phase, _, changed) = told(&seen);
    assert_eq!(phase, Some(Phase::Failed));
    assert_eq!(
        changed,
        [condition(Kind::VPSReady, "False", "VPSNotFound"), condition(Kind::Error, "True", "VPSNotFound")]
    );
    seen.sightings.looked = found(How::Listed, &[vps(State::Running)]);
    assert_eq!(decide(&seen), Step::ForgetAbsence, "it is back");
}

fn leaving(phase: Phase) -> Observed {
    let mut seen = in_phase(Phase::Ready);
    seen.written.deleting = true;
    seen.written.status.phase = Some(phase);
    seen.written.status.terminating_at = Some(Time(at(100)));
    seen.sightings = Sightings { asked: found(How::Asked, &[vps(State::Running)]), ..Sightings::default() };
    seen
}

fn waits() -> Option<node::Step<node::Drained>> {
    Some(node::Step::Wait(node::Waiting {
        reason: "Budget",
        message: "pod shop/db-0 is held back by budget shop/db".into(),
        failing: None,
        again: Duration::from_secs(20),
    }))
}

fn drained() -> Option<node::Step<node::Drained>> {
    Some(node::Step::Done(node::Drained {
        forced: None,
        failed: None,
        volumes_left: false,
        took: Duration::ZERO,
    }))
}

#[test]
fn a_deletion_drains_then_deletes_then_proves() {
    let mut seen = leaving(Phase::Terminating);
    seen.sightings.asked = None;
    assert_eq!(decide(&seen), Step::Ask(id()), "before anything is done to it it is looked at");
    seen = leaving(Phase::Terminating);
    assert_eq!(decide(&seen), Step::CordonNode);
    seen.node.as_mut().unwrap().cordon = Cordon::Ours;
    assert!(matches!(decide(&seen), Step::Wait { reason: "DrainUnknown", .. }));
    seen.drain = Some(node::Step::Act(node::Act::Verify));
    assert_eq!(decide(&seen), Step::OnNode(node::Act::Verify));
    seen.drain = waits();
    assert!(matches!(decide(&seen), Step::Wait { reason: "Budget", .. }));
    seen.now = at(110);
    let Step::Write(report) = decide(&seen) else { panic!() };
    let error = "node cannot be drained within 10 min: pod shop/db-0 is held back by budget shop/db";
    assert_eq!(
        (report.status.last_error.as_str(), report.event.unwrap().reason),
        (error, event::DRAIN_FAILED)
    );
    seen.written.status = report.status;
    assert!(
        matches!(decide(&seen), Step::Wait { reason: "Budget", .. }),
        "it goes on trying, and tells it once"
    );
    seen.drain = drained();
    assert_eq!(told(&seen).0, Some(Phase::Deleting));
    seen.written.status.phase = Some(Phase::Deleting);
    assert_eq!(decide(&seen), Step::DeleteVps(id()));
    let frozen = Observed { frozen: Some("many".into()), ..seen.clone() };
    assert_eq!(told(&frozen).2[0], condition(Kind::Error, "True", "VPSsVanished"));
    seen.sightings.asked = found(How::Asked, &[vps(State::Deleting)]);
    assert!(matches!(decide(&seen), Step::Wait { reason: "VPSDeleting", .. }));
    seen.sightings.asked = found(How::Asked, &[]);
    assert_eq!(decide(&seen), Step::List);
    seen.sightings.listed = found(How::Listed, &[]);
    assert_eq!(decide(&seen), Step::NoteAbsence(at(110)));
    seen.written.absent_since = Some(at(98));
    assert_eq!(decide(&seen), Step::DeleteNode);
    seen.node = None;
    let token = OwnToken { id: "abcdef".into(), uid: "u".into(), valid: true };
    seen.token = Some(TokenSeen::Own(token.clone()));
    assert_eq!(decide(&seen), Step::DropToken(token));
    seen.token = Some(TokenSeen::None { free: String::new() });
    assert_eq!(decide(&seen), Step::RemoveFinalizer);
    seen.frozen = Some("many".into());
    assert_ne!(decide(&seen), Step::RemoveFinalizer);
}

#[test]
fn what_is_switched_off_or_gone_needs_no_drain() {
    for (state, expected) in [(State::Stopped, Step::DeleteVps(id())), (State::Running, Step::CordonNode)] {
        let mut seen = leaving(Phase::Deleting);
        seen.sightings.asked = found(How::Asked, &[vps(state.clone())]);
        assert_eq!(decide(&seen), expected, "{state:?}");
    }
}

#[test]
fn what_is_not_ours_is_released_unless_somebody_says_otherwise() {
    let bare = Vps { marks: Marks::default(), ..vps(State::Running) };
    let theirs = Vps { marks: Marks { domain: Some("theirs".into()), ..Marks::default() }, ..bare.clone() };
    let claim = |delete_with_it| Some(Claim { named: "1001".into(), taken_by: None, delete_with_it });
    let table = [
        ("adopted", &bare, claim(false), false),
        ("adopted, and to be deleted", &bare, claim(true), true),
        ("nothing is said any more", &bare, None, false),
        ("another cluster's", &theirs, claim(true), false),
    ];
    for (what, vps, claim, deleted) in table {
        let mut seen = leaving(Phase::Deleting);
        seen.node = None;
        seen.written.claim = claim;
        seen.sightings.asked = found(How::Asked, std::slice::from_ref(vps));
        let expected = if deleted { Step::DeleteVps(id()) } else { Step::RemoveFinalizer };
        assert_eq!(decide(&seen), expected, "{what}");
    }
}

#[test]
fn a_removal_by_the_autoscaler_is_taken_back_when_it_hurts() {
    let removed = |why: Why, change: &dyn Fn(&mut Observed)| {
        let mut seen = in_phase(Phase::Ready);
        seen.written.removal = Some(Removal { why, since: at(100) });
        seen.written.status.phase = Some(Phase::Terminating);
        seen.node.as_mut().unwrap().cordon = Cordon::Ours;
        seen.drain = waits();
        change(&mut seen);
        seen
    };
    let step = |why, change: &dyn Fn(&mut Observed)| decide(&removed(why, change));
    assert!(matches!(step(Why::ScaleDown, &|_| {}), Step::Wait { reason: "Budget", .. }));
    let back = Step::CancelRemoval { failed: false };
    assert_eq!(step(Why::ScaleDown, &|seen| seen.wishes.paused = true), back);
    assert_eq!(step(Why::Surplus, &|seen| seen.wishes.protected = true), back);
    assert_eq!(step(Why::Unhealthy, &|seen| seen.node.as_mut().unwrap().ready = true), back);
    assert_eq!(step(Why::ScaleDown, &|seen| seen.drain = drained()), Step::DeleteSelf);
    assert_eq!(step(Why::ScaleDown, &|seen| seen.node = None), Step::DeleteSelf);
    // After ten minutes it is told, then given up.
    let mut late = removed(Why::ScaleDown, &|seen| seen.now = at(110));
    let (phase, event, _) = told(&late);
    assert_eq!((phase, event), (Some(Phase::Terminating), Some((event::DRAIN_FAILED, true))));
    let Step::Write(report) = decide(&late) else { panic!() };
    late.written.status = report.status;
    assert_eq!(decide(&late), Step::CancelRemoval { failed: true });
    late.written.removal = None;
    late.written.removal_failed = Some(at(110));
    assert_eq!(decide(&late), Step::UncordonNode);
    late.node.as_mut().unwrap().cordon = Cordon::No;
    let Step::Write(report) = decide(&late) else { panic!() };
    assert_eq!((report.status.phase, report.status.terminating_at.clone()), (Some(Phase::Ready), None));
    late.written.status = report.status;
    assert_eq!(decide(&late), Step::Rest(LOOK_AGAIN));
    late.now = at(116);
    assert_eq!(told(&late).2, [condition(Kind::Error, "False", "NoErrors")]);
    // One whose node does not answer is switched off, and only then let go.
    let dead = |change: &dyn Fn(&mut Observed)| {
        let mut seen = removed(Why::Unhealthy, &|seen| seen.now = at(110));
        seen.node.as_mut().unwrap().ready = false;
        seen.written.status.conditions.retain(|one| one.kind != Kind::Error);
        let error = crate::api::VPSieNodeCondition {
            kind: Kind::Error,
            status: "True".into(),
            last_transition_time: Time(at(110)),
            reason: reason::DRAIN_FAILED.into(),
            message: String::new(),
        };
        seen.written.status.conditions.push(error);
        change(&mut seen);
        decide(&seen)
    };
    assert_eq!(dead(&|_| {}), Step::Ask(id()));
    assert_eq!(
        dead(&|seen| seen.sightings.asked = found(How::Asked, &[vps(State::Running)])),
        Step::PowerOff(id())
    );
    assert_eq!(
        dead(&|seen| seen.sightings.asked = found(How::Asked, &[vps(State::Stopped)])),
        Step::DeleteSelf
    );
    let bare = Vps { marks: Marks::default(), ..vps(State::Running) };
    let foreign = dead(&|seen| seen.sightings.asked = found(How::Asked, std::slice::from_ref(&bare)));
    assert_eq!(foreign, Step::CancelRemoval { failed: true });
}

#[test]
fn a_persons_cordon_is_never_undone() {
    let mut seen = in_phase(Phase::Ready);
    seen.written.status.phase = Some(Phase::Terminating);
    seen.node.as_mut().unwrap().cordon = Cordon::Theirs;
    assert_eq!(told(&seen).0, Some(Phase::Ready));
}

#[test]
fn a_vps_of_somebodys_own_is_adopted_by_name_only() {
    let example = || {
        let mut seen = in_phase(Phase::Pending);
        seen.written.instance_id = 1001;
        seen.sightings.listed = found(How::Listed, &[]);
        seen
    };
    let refused = |seen: &Observed| {
        let (phase, event, changed) = told(seen);
        assert_eq!((phase, event), (Some(Phase::Failed), Some((event::PROVISIONING_FAILED, true))));
        assert_eq!(changed, [condition(Kind::Error, "True", "AdoptionRefused")]);
        last_error(seen)
    };
    let mut seen = example();
    let hint = refused(&seen);
    assert!(hint.contains("annotate the VPSieNode with autoscaler.vpsie.com/adopt=1001"), "{hint}");
    let Step::Write(report) = decide(&seen) else { panic!() };
    seen.written.status = report.status;
    assert_eq!(decide(&seen), Step::Done, "told once");
    let claim = |named: &str| Some(Claim { named: named.into(), taken_by: None, delete_with_it: false });
    seen.written.claim = claim("1001");
    assert_eq!(decide(&seen), Step::AskForClaim, "somebody followed the hint");
    let bare = Vps { marks: Marks::default(), ..vps(State::Running) };
    seen.sightings.asked = found(How::Asked, std::slice::from_ref(&bare));
    assert_eq!(decide(&seen), Step::Adopt(id()));
    seen.written.vps = Some(Ok(id()));
    assert_eq!(told(&seen).0, Some(Phase::Pending));

    let with = |change: &dyn Fn(&mut Observed)| {
        let mut seen = example();
        seen.written.claim = claim("1001");
        seen.sightings.asked = found(How::Asked, std::slice::from_ref(&bare));
        change(&mut seen);
        refused(&seen)
    };
    let table = [
        (with(&|seen| seen.sightings.asked = found(How::Asked, &[])), "there is no VPS 1001"),
        (
            with(&|seen| seen.written.claim = claim("1002")),
            "names VPS 1002, and spec.vpsieInstanceID is 1001",
        ),
        (
            with(&|seen| seen.written.claim.as_mut().unwrap().taken_by = Some("workers-2".into())),
            "VPS 1001 belongs to VPSieNode workers-2",
        ),
        (
            with(&|seen| {
                let marks = Marks { domain: Some("theirs".into()), ..Marks::default() };
                seen.sightings.asked = found(How::Asked, &[Vps { marks, ..bare.clone() }]);
            }),
            "VPS 1001 was made by another cluster",
        ),
    ];
    for (told, expected) in table {
        assert!(told.contains(expected), "{told}");
    }
    // One that was refused has nothing to be proven gone.
    let mut gone = example();
    let Step::Write(report) = decide(&gone) else { panic!() };
    gone.written.status = Status { phase: Some(Phase::Terminating), ..report.status };
    gone.written.deleting = true;
    assert_eq!(decide(&gone), Step::RemoveFinalizer);
}

#[test]
fn its_own_vps_is_found_again_should_the_note_of_it_be_lost() {
    for phase in [Phase::Provisioned, Phase::Ready] {
        let mut seen = in_phase(phase);
        seen.written.vps = None;
        assert_eq!(decide(&seen), Step::List);
        seen.sightings.listed = found(How::Listed, &[vps(State::Running)]);
        assert_eq!(decide(&seen), Step::Adopt(id()));
    }
}

#[test]
fn what_failed_is_taken_away_and_stays_readable_for_a_while() {
    let mut seen = in_phase(Phase::Provisioned);
    seen.now = at(115);
    let Step::Write(report) = decide(&seen) else { panic!() };
    seen.written.status = report.status;
    assert_eq!(seen.phase(), Some(Phase::Failed));
    let kept = Observed { wishes: Wishes { protected: true, paused: false }, ..seen.clone() };
    assert_eq!(decide(&kept), Step::Done);
    assert_eq!(decide(&seen), Step::Ask(id()));
    seen.sightings.asked = found(How::Asked, &[vps(State::Running)]);
    assert_eq!(decide(&seen), Step::DeleteVps(id()));
    seen.sightings.asked = found(How::Asked, &[]);
    seen.sightings.listed = found(How::Listed, &[]);
    seen.written.absent_since = Some(at(90));
    assert_eq!(told(&seen).2, [condition(Kind::VPSReady, "False", "VPSNotFound")]);
    let mut clean = seen.clone();
    let Step::Write(report) = decide(&clean) else { panic!() };
    clean.written.status = report.status;
    clean.sightings = Sightings::default();
    assert_eq!(decide(&clean), Step::Rest(Duration::from_mins(30)), "nobody is asked again");
    clean.now = at(145);
    assert_eq!(decide(&clean), Step::DeleteSelf);
    // A node that came all the same is emptied first.
    seen.sightings = Sightings { asked: found(How::Asked, &[vps(State::Running)]), ..Sightings::default() };
    seen.written.absent_since = None;
    seen.node = Some(NodeView { name: "workers-1".into(), ready: true, ..NodeView::default() });
    assert_eq!(decide(&seen), Step::CordonNode);
}

#[test]
fn addresses_and_resources_are_written_down() {
    let mut seen = in_phase(Phase::Ready);
    let address = |kind, address: &str| Address { kind, address: address.into() };
    let addresses = vec![
        address(AddressKind::InternalIp, "10.0.0.5"),
        address(AddressKind::ExternalIp, "192.0.2.10"),
        address(AddressKind::ExternalIp, "2001:db8::1"),
    ];
    seen.sightings.looked = found(How::Listed, &[Vps { addresses, ..vps(State::Running) }]);
    let expected = SpecChange {
        node_name: Some("workers-1".into()),
        ip_address: Some("192.0.2.10".into()),
        ipv6_address: Some("2001:db8::1".into()),
    };
    assert_eq!(decide(&seen), Step::WriteSpec(expected.clone()));
    seen.written.said = expected;
    seen.resources = Some(NodeResources { cpu: 4, memory_mb: 8192, disk_gb: 100, bandwidth_gb: 2000 });
    let Step::Write(report) = decide(&seen) else { panic!() };
    assert_eq!(report.status.resources.map(|resources| resources.bandwidth_gb), Some(2000));
}

#[test]
fn nobody_is_held_who_has_nothing() {
    let mut seen = observed();
    seen.written.has_finalizer = false;
    assert_eq!(decide(&seen), Step::AddFinalizer, "nothing is made for one that nobody holds");
    seen.written.deleting = true;
    assert_eq!(decide(&seen), Step::Done);
    seen.written.has_finalizer = true;
    assert_eq!(told(&seen).0, Some(Phase::Terminating));
    seen.written.status.phase = Some(Phase::Terminating);
    assert_eq!(decide(&seen), Step::RemoveFinalizer, "there never was a VPS");
    seen.written.attempt = Some(AttemptMark { attempt: Attempt("x".into()), at: at(100) });
    assert_eq!(told(&seen).0, Some(Phase::Deleting), "there may be one");
}
