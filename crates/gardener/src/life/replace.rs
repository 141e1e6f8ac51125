//! Which of several servers is the machine's, and when one gives way to another: only one that failed before it ever
//! ran.
//!
//! Its id is taken off the Machine first and kept as the one to be replaced, so that at no time a Machine names a
//! server that is gone; another one is ordered only when the cloud has said twice that the first is.

use super::{
    LOOK_AGAIN, Observed, Step,
    decide::{ORDER_IN_HAND, foreign_or_own, in_hand, is_overdue, period},
};
use crate::api::Phase;
use hostler_driver::{Failure, Finding, Machine as Server, Operation, ProviderId, State, gone_twice};
use jiff::SignedDuration;
use std::time::Duration;

/// The server to keep when several carry the identity: the one whose node is registered, else the oldest that
/// runs, else the oldest. The others are orphans.
pub(super) fn preferred<'a>(seen: &Observed, finding: &'a Finding) -> Option<&'a Server> {
    let present = finding.found.machines().iter().filter(|server| is_there(server));
    let worth = |server: &&Server| {
        let is_node = seen.node_on.as_ref().is_some_and(|on| on.names_same_server(&server.provider_id));
        (!is_node, server.state != State::Running, server.created_at, server.provider_id.clone())
    };
    present.min_by_key(worth)
}

fn is_there(server: &Server) -> bool {
    !matches!(server.state, State::Deleting | State::Deleted)
}

/// Whether the machine's node, or one of its name, runs on this server.
fn has_node(seen: &Observed, server: &Server) -> bool {
    seen.node.is_some() || seen.node_on.as_ref().is_some_and(|on| on.names_same_server(&server.provider_id))
}

/// Whether nothing is lost with this server, and another one is still wanted.
fn may_go(seen: &Observed, server: &Server) -> bool {
    matches!(server.state, State::Failed { .. })
        && server.launched_at.is_none()
        && seen.ran.as_ref() != Some(&server.provider_id)
        && !has_node(seen, server)
        && matches!(seen.phase, Phase::Empty | Phase::CrashLoopBackOff)
        && !is_overdue(seen)
}

/// How long a failed server stays before it gives way: as long as a failed order is not repeated, and twice as long after
/// each one that gave way before, but not longer than the longest of the waiting times.
fn patience(seen: &Observed, failure: &Failure) -> Duration {
    let first = period(seen, Operation::Create, failure);
    let grown = first.saturating_mul(1_u32.checked_shl(seen.given_way).unwrap_or(u32::MAX));
    grown.min(seen.periods.long.max(first))
}

/// What to do about a failed server once its failure is told, in place of asking for it again and again.
pub(super) fn give_way(seen: &Observed, server: &Server, failure: &Failure) -> Option<Step> {
    if !may_go(seen, server) {
        return None;
    }
    let period = patience(seen, failure);
    let told = seen.operation_at.map_or(SignedDuration::MAX, |at| seen.now.duration_since(at));
    let left = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX).saturating_sub(told);
    if left <= SignedDuration::ZERO {
        return Some(Step::Disown(server.provider_id.clone()));
    }
    // A clock that was set back makes nobody wait longer than the whole time.
    let again = left.unsigned_abs().clamp(Duration::from_secs(1), period);
    Some(Step::TryAgain { failure: failure.clone(), again })
}

/// What comes before another server is ordered in place of `old`; nothing once that one is gone for sure.
pub(super) fn away_with(seen: &Observed, old: &ProviderId) -> Option<Step> {
    let Some(asked) = &seen.sightings.asked else { return Some(Step::Ask(old.clone())) };
    let waiting = || Step::Wait {
        reason: "ServerDeleting",
        message: format!("waiting for the cloud to delete {old}, which failed"),
        again: LOOK_AGAIN.unsigned_abs(),
    };
    if let Some(server) = asked.found.machines().first() {
        return Some(match foreign_or_own(seen, server) {
            Err(step) => step,
            Ok(()) if !is_there(server) => waiting(),
            Ok(()) if may_go(seen, server) => Step::DeleteServer(old.clone()),
            // It came to life after all, or it is too late for another one.
            Ok(()) => Step::Adopt(old.clone()),
        });
    }
    let Some(listed) = &seen.sightings.listed else { return Some(Step::List) };
    let is_shown = |server: &Server| server.provider_id == *old;
    if listed.found.machines().iter().any(is_shown) {
        return Some(waiting());
    }
    let others = listed.found.machines().iter().any(|server| server.provider_id != *old);
    if let Some(message) = in_hand(listed).filter(|_| !others) {
        return Some(Step::Wait { reason: ORDER_IN_HAND, message, again: LOOK_AGAIN.unsigned_abs() });
    }
    (!others && !gone_twice(asked, listed)).then_some(Step::List)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{
        Sightings, decide,
        test_support::{self, observed},
    };
    use hostler_driver::{Code, Evidence, Found, How, Identity, Periods};
    use jiff::Timestamp;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn id(server: &str) -> ProviderId {
        ProviderId::stackit("p", server).unwrap()
    }

    fn server(name: &str, state: State, created: i64) -> Server {
        Server { created_at: Some(at(created)), ..test_support::server(name, state) }
    }

    fn failed(name: &str) -> Server {
        server(name, State::Failed { code: Code::Internal, message: "no".into() }, 0)
    }

    fn found(how: How, minute: i64, servers: &[Server]) -> Finding {
        let evidence = Evidence { how, began_at: at(minute), answered_at: at(minute) };
        Finding { found: Found::from_machines(servers.to_vec()), evidence }
    }

    /// A machine in its sixth minute whose server `a` failed, which was told three minutes ago.
    fn told() -> Observed {
        Observed {
            now: at(6),
            created_at: at(0),
            phase: Phase::CrashLoopBackOff,
            description: "Cloud provider message - machine codes error: code = [Internal] message = [the server stackit://p/a failed: no]".into(),
            operation_at: Some(at(3)),
            provider_id: Some(Ok(id("a"))),
            has_node_label: true,
            ready_to_act: Ok(Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }),
            sightings: Sightings { asked: Some(found(How::Asked, 5, &[failed("a")])), ..Sightings::default() },
            ..observed()
        }
    }

    #[test]
    fn the_server_with_the_node_is_kept_else_the_oldest_that_runs() {
        let running = |name: &str, created| server(name, State::Running, created);
        let booting = |name: &str, created| server(name, State::Pending, created);
        let going = |name: &str| server(name, State::Deleting, 0);
        let table = [
            (None, vec![running("a", 2), running("b", 1)], Some("b")),
            (None, vec![booting("a", 1), running("b", 2)], Some("b")),
            (None, vec![booting("a", 2), booting("b", 1)], Some("b")),
            (Some("stackit://a"), vec![running("a", 2), running("b", 1)], Some("a")),
            (Some("stackit:///a"), vec![booting("a", 2), running("b", 1)], Some("a")),
            (Some("stackit://p/a"), vec![running("a", 2), running("b", 1)], Some("a")),
            (Some("stackit://q/a"), vec![running("a", 2), running("b", 1)], Some("b")),
            (Some("stackit://c"), vec![running("a", 2), running("b", 1)], Some("b")),
            (Some("stackit://a"), vec![going("a"), running("b", 1)], Some("b")),
            (None, vec![going("a")], None),
            (None, vec![failed("a"), booting("b", 1)], Some("a")),
        ];
        for (node, servers, expected) in table {
            let seen = Observed { node_on: node.map(|on| on.parse().unwrap()), ..observed() };
            let finding = found(How::Listed, 0, &servers);
            let kept = preferred(&seen, &finding).map(|server| server.provider_id.server());
            assert_eq!(kept, expected, "{node:?} {servers:?}");
        }
    }

    #[test]
    fn only_a_server_that_never_ran_and_was_told_for_long_gives_way() {
        assert_eq!(decide(&told()), Step::Disown(id("a")));
        let another_ran = Observed { ran: Some(id("b")), ..told() };
        assert_eq!(decide(&another_ran), Step::Disown(id("a")));
        let launched = Server { launched_at: Some(at(1)), ..failed("a") };
        let ran = Sightings { asked: Some(found(How::Asked, 5, &[launched])), ..Sightings::default() };
        let kept = [
            ("it ran", Observed { sightings: ran, ..told() }),
            ("it was seen running", Observed { ran: Some(id("a")), ..told() }),
            ("it has a node", Observed { node: Some(crate::life::NodeView::default()), ..told() }),
            ("a node says so", Observed { node_on: Some("stackit://a".parse().unwrap()), ..told() }),
            ("it is too late", Observed { creation_timeout: SignedDuration::from_mins(5), ..told() }),
            ("just told", Observed { operation_at: Some(at(5)), ..told() }),
            ("its machine has failed", Observed { phase: Phase::Failed, ..told() }),
            ("another one gave way before", Observed { given_way: 1, ..told() }),
        ];
        for (why, seen) in kept {
            let step = decide(&seen);
            assert!(!matches!(step, Step::Disown(_) | Step::DeleteServer(_)), "{why}: {step:?}");
        }
        let Step::TryAgain { again, .. } = decide(&Observed { operation_at: Some(at(5)), ..told() }) else {
            panic!("it is tried again")
        };
        assert_eq!(again, Duration::from_mins(2));
        let untold = Observed { description: String::new(), ..told() };
        assert!(matches!(decide(&untold), Step::WriteStatus(_)), "it is told first");
    }

    #[test]
    fn each_one_that_fails_is_waited_for_twice_as_long_as_the_one_before() {
        let usual = Periods::default();
        let patient = usual.with_resource_exhausted(Duration::from_mins(25));
        let table = [
            (usual, Code::Internal, [3, 6, 10, 10, 10]),
            (usual, Code::ResourceExhausted, [10; 5]),
            // Who wants to wait longer than that waits so long each time.
            (patient, Code::ResourceExhausted, [25; 5]),
            (patient, Code::Internal, [3, 6, 10, 10, 10]),
        ];
        for (periods, code, minutes) in table {
            for (given_way, minutes) in [0, 1, 2, 3, u32::MAX].into_iter().zip(minutes) {
                let seen = Observed { given_way, periods, ..told() };
                let waits = patience(&seen, &Failure::new(code, "no"));
                assert_eq!(waits, Duration::from_mins(minutes), "{code:?} after {given_way}");
            }
        }
        // It is what the decision goes by.
        let second = |minute| Observed { now: at(minute), given_way: 1, ..told() };
        assert_eq!(decide(&second(9)), Step::Disown(id("a")));
        let Step::TryAgain { again, .. } = decide(&second(8)) else { panic!("it is too soon") };
        assert_eq!(again, Duration::from_mins(1));
    }

    #[test]
    fn only_one_of_a_machine_that_is_new_or_keeps_failing_gives_way() {
        let failure = Failure::new(Code::Internal, "no");
        for (phase, gives_way) in [
            (Phase::Empty, true),
            (Phase::CrashLoopBackOff, true),
            (Phase::Pending, false),
            (Phase::Available, false),
            (Phase::Running, false),
            (Phase::Unknown, false),
            (Phase::Failed, false),
            (Phase::Terminating, false),
            (Phase::InPlaceUpdating, false),
            (Phase::InPlaceUpdateSuccessful, false),
            (Phase::InPlaceUpdateFailed, false),
        ] {
            let seen = Observed { phase, ..told() };
            let expected = gives_way.then(|| Step::Disown(id("a")));
            assert_eq!(give_way(&seen, &failed("a"), &failure), expected, "{phase:?}");
            // Its id is off the Machine already.
            let seen = Observed { provider_id: None, replaces: Some(id("a")), ..seen };
            let expected = if gives_way { Step::DeleteServer(id("a")) } else { Step::Adopt(id("a")) };
            assert_eq!(away_with(&seen, &id("a")), Some(expected), "{phase:?}");
        }
    }

    #[test]
    fn another_one_is_ordered_when_the_first_is_gone_for_sure() {
        let asked = |servers: &[Server]| Some(found(How::Asked, 4, servers));
        let listed = |minute, servers: &[Server]| Some(found(How::Listed, minute, servers));
        let running = server("a", State::Running, 0);
        let going = server("a", State::Deleting, 0);
        let deleted = server("a", State::Deleted, 0);
        let other = server("b", State::Running, 0);
        let away = Step::DeleteServer(id("a"));
        let table = [
            ("look", None, None, Some(Step::Ask(id("a")))),
            ("delete", asked(&[failed("a")]), None, Some(away)),
            ("it lives", asked(&[running]), None, Some(Step::Adopt(id("a")))),
            ("list", asked(&[]), None, Some(Step::List)),
            ("an older list", asked(&[]), listed(3, &[]), Some(Step::List)),
            ("gone", asked(&[]), listed(5, &[]), Some(Step::MarkAttempt)),
            ("another one", asked(&[]), listed(5, &[other]), Some(Step::Adopt(id("b")))),
            ("it is going", asked(std::slice::from_ref(&going)), None, None),
            ("it is shown as deleted", asked(std::slice::from_ref(&deleted)), None, None),
            ("the list shows it as deleted", asked(&[]), listed(5, std::slice::from_ref(&deleted)), None),
            ("the list shows it", asked(&[]), listed(5, &[going]), None),
            ("the list shows it as it was", asked(&[]), listed(5, &[failed("a")]), None),
        ];
        for (what, asked, listed, expected) in table {
            let sightings = Sightings { asked, listed, ..Sightings::default() };
            let seen = Observed {
                provider_id: None,
                replaces: Some(id("a")),
                has_node_label: false,
                sightings,
                ..told()
            };
            match (decide(&seen), expected) {
                (step, Some(expected)) => assert_eq!(step, expected, "{what}"),
                (Step::Wait { reason, .. }, None) => assert_eq!(reason, "ServerDeleting", "{what}"),
                (step, None) => panic!("{what}: {step:?}"),
            }
        }
    }
}
