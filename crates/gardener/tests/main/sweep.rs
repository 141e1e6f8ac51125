//! One machine's life, broken at every call it makes, in every way a call can break.

use crate::{crowd::Weather, flow::one_life};
use hostler_sim::{Boundary, Class, Fault, Plan, Sweep, stackit::Settings};
use std::{path::Path, time::Duration};

/// A create call cannot be told from its copy: the API knows no idempotency key. What the network doubles is
/// doubled; it goes when the machine goes.
fn survivable(_: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let create = boundary.verb == "POST" && boundary.template.ends_with("/servers");
    !(create && *fault == Fault::Duplicate)
}

fn sweep(name: &str, settings: Settings, chosen: fn(Class, &Boundary, &Fault) -> bool) {
    let report =
        Sweep::new(name, 1).only(chosen).run(async |plan| one_life(plan, settings.clone()).await).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn one_life_makes_the_committed_calls() {
    let finished = hostler_sim::sweep::paused(one_life(Plan::seeded(1), Settings::default())).unwrap();
    assert_eq!(finished.goal, Ok(()));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/one-life.txt");
    if let Err(difference) = finished.recording.check(&committed) {
        panic!("{difference}");
    }
}

#[test]
fn one_life_survives_every_fault_at_every_call() {
    sweep("one life", Settings::default(), survivable);
}

fn unknown_outcomes(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let unknown = matches!(fault, Fault::CrashBefore | Fault::CrashAfter | Fault::TimeoutAfter);
    class == Class::Effect && unknown && survivable(class, boundary, fault)
}

#[test]
fn one_life_survives_unknown_outcomes_with_a_lagging_list_and_an_ignored_selector() {
    let settings =
        Settings { list_lag: Duration::from_secs(25), ignores_selector: true, ..Settings::default() };
    sweep("one life, lists lag, selector ignored", settings, unknown_outcomes);
}

#[test]
fn one_life_survives_unknown_outcomes_in_every_weather() {
    for weather in [&[Weather::Fair][..], &Weather::FOUL].concat() {
        let sweep = Sweep::new(&format!("one life, {weather:?}"), 1).only(unknown_outcomes);
        let life = async |plan| one_life(weather.plan(plan), weather.settings()).await;
        crate::crowd_sweep::passed(&sweep.run(life).unwrap());
    }
}
