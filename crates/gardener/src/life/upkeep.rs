//! What was done to a server when it came up may be undone by others later: it is looked at from time to time.

use super::{Observed, Step, decide::foreign_or_own};
use crate::api::Phase;
use hostler_driver::State;
use std::time::Duration;

/// How often a server is looked at that something was done to.
pub const EVERY: Duration = Duration::from_mins(10);

/// What to do once `rest`, the step of everything else, has nothing to do. Whatever fails here changes nothing for
/// the machine but that it is tried again.
pub(super) fn beside(seen: &Observed, rest: Step) -> Step {
    let Some(due_in) = seen.upkeep_in else { return rest };
    let up = matches!(seen.phase, Phase::Pending | Phase::Available | Phase::Running | Phase::Unknown);
    let (true, Some(Ok(id))) = (up, &seen.provider_id) else { return rest };
    let soonest = match &rest {
        Step::Done => EVERY,
        Step::Wait { again, .. } => *again,
        _ => return rest,
    };
    let resting = |time: Duration| if rest == Step::Done { Step::Rest(time) } else { rest.clone() };
    if let Some((_, failure)) = &seen.failure {
        return Step::TryAgain { failure: failure.clone(), again: soonest.min(EVERY) };
    }
    if !due_in.is_zero() {
        return resting(due_in);
    }
    let Some(asked) = &seen.sightings.asked else { return Step::Ask(id.clone()) };
    match asked.found.machines().first() {
        Some(server) if server.state == State::Running && foreign_or_own(seen, server).is_ok() => {
            Step::Settle(Box::new(server.clone()))
        }
        // Its health is another matter.
        _ => resting(EVERY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{
        Sightings, Tried,
        test_support::{self, observed},
    };
    use hostler_driver::{
        Code, Evidence, Failure, Finding, Found, How, Identity, Machine as Server, ProviderId,
    };

    fn id() -> ProviderId {
        ProviderId::stackit("p", "s").unwrap()
    }

    fn server(state: State, cluster: &str) -> Server {
        let mut server = test_support::server("s", state);
        server.marks.domain = Some(cluster.into());
        server
    }

    fn running(asked: Option<Server>) -> Observed {
        let at = observed().now;
        let asked = asked.map(|server| Finding {
            found: Found::from_machines(vec![server]),
            evidence: Evidence { how: How::Asked, began_at: at, answered_at: at },
        });
        Observed {
            phase: Phase::Running,
            provider_id: Some(Ok(id())),
            ready_to_act: Ok(Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }),
            upkeep_in: Some(Duration::ZERO),
            sightings: Sightings { asked, ..Sightings::default() },
            ..observed()
        }
    }

    #[test]
    fn a_server_is_looked_at_when_it_is_due_and_only_ones_own() {
        let minute = Duration::from_mins(1);
        let failure = Failure::new(Code::Unavailable, "later");
        let wait = || Step::Wait { reason: "x", message: String::new(), again: minute };
        let (own, foreign) = (server(State::Running, "d"), server(State::Running, "e"));
        let later = Observed { upkeep_in: Some(minute), ..running(None) };
        let failed = Observed { failure: Some((Tried::Settle, failure.clone())), ..running(None) };
        let table = [
            ("nothing to keep up", Observed { upkeep_in: None, ..running(None) }, Step::Done, Step::Done),
            ("not yet", later.clone(), Step::Done, Step::Rest(minute)),
            ("not yet, and something waits", later, wait(), wait()),
            ("due", running(None), Step::Done, Step::Ask(id())),
            ("seen", running(Some(own.clone())), Step::Done, Step::Settle(Box::new(own.clone()))),
            ("foreign", running(Some(foreign)), Step::Done, Step::Rest(EVERY)),
            ("stopped", running(Some(server(State::Stopped, "d"))), Step::Done, Step::Rest(EVERY)),
            ("something else comes first", running(Some(own)), Step::DeleteNode, Step::DeleteNode),
            ("failed", failed, wait(), Step::TryAgain { failure, again: minute }),
            ("it has failed", Observed { phase: Phase::Failed, ..running(None) }, Step::Done, Step::Done),
        ];
        for (what, seen, rest, expected) in table {
            assert_eq!(beside(&seen, rest), expected, "{what}");
        }
    }
}
