use super::*;
use crate::life::{
    InPlace, NodeView, OwnToken, Stage, TokenSeen, Tried, decide, node as drains, test_support::observed,
};
use hostler_driver::{Code, Failure, Identity, ProviderId};
use jiff::Timestamp;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn node(ready: bool) -> NodeView {
    NodeView {
        name: "m".into(),
        ready,
        recorded: true,
        conditions: "Ready: no".into(),
        ..NodeView::default()
    }
}

/// A machine that was made in minute 0 and has been in its phase since minute 100; it is minute 105.
fn seen(phase: Phase, node: Option<NodeView>) -> Observed {
    Observed {
        now: at(105),
        created_at: at(0),
        phase,
        phase_since: Some(at(100)),
        operation: Some((OperationType::HealthCheck, OperationState::Processing)),
        provider_id: Some(Ok(ProviderId::stackit("p", "s").unwrap())),
        has_node_label: true,
        ready_to_act: Ok(Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }),
        token: Some(TokenSeen::None { free: "616263".into() }),
        node,
        health_timeout: Some(SignedDuration::from_mins(10)),
        ..observed()
    }
}

fn written(step: Step) -> (Phase, OperationType, OperationState, String) {
    match step {
        Step::WriteStatus(change) | Step::GiveUp(change) => {
            (change.phase.unwrap(), change.operation, change.state, change.description)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_is_well_makes_its_machine_run() {
    for phase in [
        Phase::Pending,
        Phase::CrashLoopBackOff,
        Phase::Available,
        Phase::Unknown,
        Phase::Failed,
        Phase::InPlaceUpdateSuccessful,
    ] {
        let (to, operation, state, said) = written(decide(&seen(phase, Some(node(true)))));
        assert_eq!(
            (to, operation, state),
            (Phase::Running, OperationType::HealthCheck, OperationState::Successful)
        );
        assert_eq!(said, "Machine m successfully re-joined the cluster", "{phase:?}");
    }
    let mut new = seen(Phase::Pending, Some(node(true)));
    new.operation = Some((OperationType::Create, OperationState::Processing));
    let (_, operation, _, said) = written(decide(&new));
    assert_eq!(
        (operation, said.as_str()),
        (OperationType::Create, "Machine m successfully joined the cluster")
    );
    for phase in [Phase::InPlaceUpdating, Phase::InPlaceUpdateFailed] {
        assert!(!matches!(decide(&seen(phase, Some(node(true)))), Step::WriteStatus(_)), "{phase:?}");
    }
    assert_eq!(decide(&seen(Phase::Running, Some(node(true)))), Step::Done);
}

#[test]
fn a_machine_whose_node_is_well_does_not_fail_for_what_is_still_to_be_done_to_its_server() {
    let refused = Failure::new(Code::PermissionDenied, "no");
    for (phase, node, expected) in [
        (Phase::Empty, Some(node(true)), Phase::CrashLoopBackOff),
        (Phase::CrashLoopBackOff, Some(node(true)), Phase::Running),
        (Phase::Empty, Some(node(false)), Phase::Failed),
        (Phase::CrashLoopBackOff, Some(node(false)), Phase::Failed),
        (Phase::CrashLoopBackOff, None, Phase::Failed),
    ] {
        let seen = Observed { failure: Some((Tried::Settle, refused.clone())), ..seen(phase, node.clone()) };
        assert_eq!(written(decide(&seen)).0, expected, "{phase:?} {node:?}");
    }
}

#[test]
fn a_machine_that_runs_after_all_has_no_token_any_more() {
    let own = OwnToken { id: "616263".into(), uid: "u".into(), valid: true };
    for phase in [Phase::Pending, Phase::CrashLoopBackOff, Phase::Unknown] {
        let seen = Observed { token: Some(TokenSeen::Own(own.clone())), ..seen(phase, Some(node(true))) };
        let dropped = decide(&seen) == Step::DropToken(own.clone());
        assert_eq!(dropped, phase != Phase::Unknown, "{phase:?}");
    }
}

#[test]
fn critical_components_hold_back_new_machines_only() {
    let held = NodeView { critical_components_missing: true, ..node(true) };
    let mut young = seen(Phase::Pending, Some(held.clone()));
    young.created_at = at(100);
    assert!(matches!(decide(&young), Step::Wait { reason: "CriticalComponentsNotReady", .. }));
    assert_eq!(written(decide(&seen(Phase::Unknown, Some(held)))).0, Phase::Running);
}

#[test]
fn a_node_that_is_unwell_or_missing_makes_its_machine_unknown() {
    for (node, expected) in [
        (None, "Node object went missing. Machine m is unhealthy - changing MachinePhase to Unknown"),
        (
            Some(node(false)),
            "Machine m is unhealthy - changing MachinePhase to Unknown. Node conditions: Ready: no",
        ),
    ] {
        let (phase, operation, state, said) = written(decide(&seen(Phase::Running, node)));
        assert_eq!(
            (phase, operation, state),
            (Phase::Unknown, OperationType::HealthCheck, OperationState::Processing)
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn conditions_are_recorded_before_anything_is_concluded_from_time() {
    for phase in [Phase::Pending, Phase::Unknown, Phase::Running, Phase::InPlaceUpdating] {
        let unwell = NodeView { recorded: false, ..node(phase == Phase::Running) };
        assert_eq!(decide(&seen(phase, Some(unwell))), Step::RecordConditions, "{phase:?}");
    }
}

#[test]
fn a_machine_fails_when_its_time_is_over() {
    let mut pending = seen(Phase::Pending, None);
    let (phase, operation, state, said) = written(decide(&pending));
    assert_eq!((phase, operation, state), (Phase::Failed, OperationType::Create, OperationState::Failed));
    assert_eq!(said, "Machine m failed to join the cluster in 20m0s minutes.");
    pending.creation_timeout = SignedDuration::from_mins(105);
    assert!(
        matches!(decide(&pending), Step::Wait { reason: "NodeNotReady", again, .. } if again.as_secs() == 1)
    );

    for (since, expected) in [(96, Some(60)), (95, Some(1)), (94, None)] {
        let mut unwell = seen(Phase::Unknown, Some(node(false)));
        unwell.phase_since = Some(at(since));
        match (decide(&unwell), expected) {
            (Step::Wait { reason: "NodeUnhealthy", again, .. }, Some(seconds)) => {
                assert_eq!(again.as_secs(), seconds);
            }
            (Step::GiveUp(change), None) => assert_eq!(
                change.description,
                "Machine m health checks failing since last 10m0s minutes. Updating machine phase to Failed. Node Conditions: Ready: no"
            ),
            (other, _) => panic!("{since}: {other:?}"),
        }
    }
}

#[test]
fn a_machine_may_be_unwell_for_ever() {
    let mut unwell = seen(Phase::Unknown, Some(node(false)));
    unwell.phase_since = Some(at(0));
    assert!(matches!(decide(&unwell), Step::GiveUp(_)));
    unwell.health_timeout = None;
    assert_eq!(decide(&unwell), Step::Done);
}

#[test]
fn only_one_machine_of_a_deployment_is_replaced_at_a_time() {
    let mut unwell = seen(Phase::Unknown, None);
    unwell.phase_since = Some(at(0));
    unwell.replaced = Some("m-2".into());
    let Step::Wait { reason: "ReplacementInProgress", message, .. } = decide(&unwell) else { panic!() };
    assert!(message.contains("m-2 is being replaced"), "{message}");
}

#[test]
fn a_machine_that_could_not_be_updated_keeps_its_operation_when_it_fails() {
    let mut failed = seen(Phase::InPlaceUpdateFailed, Some(node(true)));
    failed.phase_since = Some(at(0));
    failed.operation = Some((OperationType::InPlaceUpdate, OperationState::Failed));
    let (phase, operation, _, _) = written(decide(&failed));
    assert_eq!((phase, operation), (Phase::Failed, OperationType::InPlaceUpdate));
}

fn updating(phase: Phase, place: InPlace) -> Observed {
    let mut seen = seen(phase, Some(NodeView { in_place: place, ..node(true) }));
    seen.operation = Some((OperationType::InPlaceUpdate, OperationState::Processing));
    seen
}

#[test]
fn an_update_in_place_goes_from_drain_to_result() {
    let selected =
        InPlace { candidate: true, selected: true, stage: Some(Stage::SelectedForUpdate), result: None };
    let mut drains = updating(Phase::Running, selected.clone());
    drains.drain = Some(drains::Step::Act(drains::Act::Cordon));
    assert_eq!(decide(&drains), Step::OnNode(drains::Act::Cordon));
    let waiting = |failing| {
        drains::Step::Wait(drains::Waiting {
            reason: "Why",
            message: "because".into(),
            failing,
            again: Duration::from_secs(7),
        })
    };
    drains.drain = Some(waiting(None));
    assert!(matches!(decide(&drains), Step::Wait { reason: "Why", .. }));
    drains.drain = Some(waiting(Some(drains::Failing::Drain("no".into()))));
    let Step::WriteStatus(told) = decide(&drains) else { panic!() };
    assert_eq!(
        (told.phase, told.operation, told.state),
        (None, OperationType::DrainNode, OperationState::Processing)
    );
    drains.description = told.description;
    assert!(matches!(decide(&drains), Step::Wait { reason: "Why", .. }), "it is told once");
    let done = drains::Drained { forced: None, failed: None, volumes_left: false, took: Duration::ZERO };
    drains.drain = Some(drains::Step::Done(done));
    let (phase, operation, state, said) = written(decide(&drains));
    assert_eq!(
        (phase, operation, state),
        (Phase::InPlaceUpdating, OperationType::InPlaceUpdate, OperationState::Processing)
    );
    assert_eq!(said, "Machine m is undergoing an in-place update");

    let stage = |seen: &Observed| match decide(seen) {
        Step::SetInPlace(stage, _) => stage,
        other => panic!("{other:?}"),
    };
    assert_eq!(stage(&updating(Phase::InPlaceUpdating, selected.clone())), Stage::DrainSuccessful);
    let at = |stage| InPlace { stage: Some(stage), ..selected.clone() };
    assert_eq!(stage(&updating(Phase::InPlaceUpdating, at(Stage::DrainSuccessful))), Stage::ReadyForUpdate);
    let ready = updating(Phase::InPlaceUpdating, at(Stage::ReadyForUpdate));
    assert!(matches!(decide(&ready), Step::Wait { reason: "Updating", .. }));

    let with = |phase, result| updating(phase, InPlace { result: Some(result), ..at(Stage::ReadyForUpdate) });
    let (phase, _, state, said) = written(decide(&with(Phase::InPlaceUpdating, UpdateResult::Successful)));
    assert_eq!((phase, state), (Phase::InPlaceUpdateSuccessful, OperationState::Successful));
    assert_eq!(said, "Machine m successfully updated dependencies");
    let failed = UpdateResult::Failed("no room".into());
    let (phase, _, state, said) = written(decide(&with(Phase::InPlaceUpdating, failed.clone())));
    assert_eq!((phase, state), (Phase::InPlaceUpdateFailed, OperationState::Failed));
    assert_eq!(said, "Machine m failed to update dependencies: no room");
    assert_eq!(stage(&with(Phase::InPlaceUpdateFailed, failed)), Stage::UpdateFailed);
    let late = with(Phase::InPlaceUpdateFailed, UpdateResult::Successful);
    assert_eq!(written(decide(&late)).0, Phase::InPlaceUpdateSuccessful, "a failed one may still succeed");
}

#[test]
fn an_update_in_place_has_its_time() {
    let mut late = updating(
        Phase::InPlaceUpdating,
        InPlace { stage: Some(Stage::ReadyForUpdate), ..InPlace::default() },
    );
    late.phase_since = Some(at(84));
    let (phase, operation, state, said) = written(decide(&late));
    assert_eq!(
        (phase, operation, state),
        (Phase::InPlaceUpdateFailed, OperationType::InPlaceUpdate, OperationState::Failed)
    );
    assert_eq!(said, "Machine m failed to in-place update in 20m0s minutes.");
}
