//! What nobody outside STACKIT knows, in every setting: machines come and go all the same.

use crate::{crowd::Weather, crowd_sweep::three_lives_with};
use hostler_sim::{
    Plan,
    stackit::{EmptyNetworking, SelectorGrammar, Settings},
};
use std::time::Duration;

#[test]
fn machines_come_and_go_whatever_nobody_knows() {
    let grammars = [SelectorGrammar::Equality, SelectorGrammar::Kubernetes];
    let networking = [EmptyNetworking::Refused, EmptyNetworking::WithoutNic, EmptyNetworking::DefaultNetwork];
    for selector_grammar in grammars {
        for empty_networking in networking {
            for (list_lag, gone_lag) in [(0, 0), (25, 0), (0, 25), (25, 25)] {
                let settings = Settings {
                    selector_grammar,
                    empty_networking,
                    list_lag: Duration::from_secs(list_lag),
                    gone_lag: Duration::from_secs(gone_lag),
                    ..Weather::Fair.settings()
                };
                let what = format!("{selector_grammar:?} {empty_networking:?} {list_lag} {gone_lag}");
                let finished =
                    hostler_sim::sweep::paused(three_lives_with(Plan::seeded(1), settings)).unwrap();
                assert_eq!(finished.goal, Ok(()), "{what}\n{}", finished.trace);
                assert_eq!(finished.violations, [], "{what}");
            }
        }
    }
}

#[test]
fn no_list_relies_on_a_selector() {
    let run = |weather: Weather| {
        let settings = weather.settings();
        hostler_sim::sweep::paused(three_lives_with(Plan::seeded(1), settings)).unwrap()
    };
    let (heeded, ignored) = (run(Weather::Fair), run(Weather::IgnoredSelector));
    assert_eq!(heeded.goal, Ok(()));
    // One list serves all machines of a project, so it has no selector, and whose a server is we find out ourselves. The
    // sweeps with an ignored selector begin to matter when somebody sends one again.
    assert!(!heeded.trace.contains("label_selector"), "{}", heeded.trace);
    assert_eq!(heeded.trace, ignored.trace);
}
