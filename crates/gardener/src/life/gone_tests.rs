use super::{
    Observed, Sightings, Step, decide,
    test_support::{self, observed},
    text,
};
use crate::api::Phase;
use hostler_driver::{Evidence, Finding, Found, How, Identity, Marks, State};
use jiff::Timestamp;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

/// What was found by a question that was put and answered in this minute.
fn found(how: How, minute: i64, state: Option<State>) -> Finding {
    let servers = state.map(|state| test_support::server("a", state)).into_iter().collect();
    let evidence = Evidence { how, began_at: at(minute), answered_at: at(minute) };
    Finding { found: Found::from_machines(servers), evidence }
}

/// A machine whose server `a` is to be deleted.
fn deleting(asked: Option<Finding>, listed: Option<Finding>) -> Observed {
    let server = test_support::server("a", State::Running);
    Observed {
        now: at(10),
        deleting: true,
        phase: Phase::Terminating,
        description: text::DELETE_VM.to_owned(),
        operation_at: Some(at(9)),
        provider_id: Some(Ok(server.provider_id)),
        has_node_label: true,
        ready_to_act: Ok(Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }),
        sightings: Sightings { asked, listed, ..Sightings::default() },
        ..observed()
    }
}

#[test]
fn a_server_is_gone_when_two_questions_in_this_order_have_said_so() {
    let asked = |minute, state| Some(found(How::Asked, minute, state));
    let listed = |minute, state| Some(found(How::Listed, minute, state));
    let table = [
        ("nobody was asked", None, None, "ask"),
        ("a list alone", None, listed(5, None), "ask"),
        ("an answer alone", asked(5, None), None, "list"),
        ("a list from before the answer", asked(5, None), listed(4, None), "list"),
        ("a list after the answer", asked(5, None), listed(6, None), "gone"),
        ("shown as deleted", asked(5, Some(State::Deleted)), listed(6, None), "wait"),
        ("the list shows it as deleted", asked(5, None), listed(6, Some(State::Deleted)), "wait"),
        ("both do", asked(5, Some(State::Deleted)), listed(6, Some(State::Deleted)), "wait"),
        ("two lists", listed(5, None), listed(6, None), "list"),
        ("the list shows it", asked(5, None), listed(6, Some(State::Running)), "delete"),
        ("the answer shows it", asked(5, Some(State::Running)), listed(6, None), "delete"),
        ("it is going", asked(5, None), listed(6, Some(State::Deleting)), "wait"),
        ("nobody knows what it does", asked(5, None), listed(6, Some(State::Unrecognised)), "delete"),
    ];
    for (what, asked, listed, expected) in table {
        let step = decide(&deleting(asked, listed));
        let said = match &step {
            Step::Ask(_) => "ask",
            Step::List => "list",
            Step::DeleteServer(_) => "delete",
            Step::Wait { reason: "ServerDeleting", .. } => "wait",
            Step::WriteStatus(change) if change.description.ends_with(text::DELETE_NODE) => "gone",
            _ => "something else",
        };
        assert_eq!(said, expected, "{what}: {step:?}");
    }
}

#[test]
fn a_node_of_which_nothing_is_known_is_asked_for_before_its_machine_goes() {
    let gone = || Observed {
        description: text::DELETE_NODE.to_owned(),
        token: Some(super::TokenSeen::None { free: String::new() }),
        ..deleting(None, None)
    };
    let node = || Some(super::NodeView::default());
    let table = [
        ("it was seen", gone(), Step::RemoveFinalizer),
        ("it was never seen", Observed { node_unseen: true, ..gone() }, Step::FindNode),
        ("it is there", Observed { node_unseen: true, node: node(), ..gone() }, Step::DeleteNode),
    ];
    for (what, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{what}");
    }
}

#[test]
fn a_server_that_is_labelled_as_another_ones_by_now_is_neither_deleted_nor_taken_for_gone() {
    let changes: [fn(&mut Marks); 3] = [
        |marks| marks.domain = Some("other".into()),
        |marks| marks.machine = Some("other".into()),
        |marks| marks.machine = None,
    ];
    for change in changes {
        for state in [State::Running, State::Deleting] {
            let mut server = test_support::server("a", state);
            change(&mut server.marks);
            let evidence = Evidence { how: How::Asked, began_at: at(5), answered_at: at(5) };
            let asked = Finding { found: Found::from_machines(vec![server]), evidence };
            let step = decide(&deleting(Some(asked), Some(found(How::Listed, 6, None))));
            let Step::WriteStatus(told) = &step else { panic!("{step:?}") };
            let expected = "code = [InvalidArgument] message = [spec.providerID: the server stackit://p/a is not labelled as machine \"m\" and is left alone";
            assert!(told.description.contains(expected), "{}", told.description);
            assert!(told.description.ends_with(text::DELETE_VM), "{}", told.description);
        }
    }
}
