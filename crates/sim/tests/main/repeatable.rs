//! The same seed gives the same trace, byte for byte, in another process too.

use crate::{
    tiny::{cloud::Switches, controller::Variant, flow},
    town,
};
use hostler_sim::{Break, Fault, Plan, sweep::paused, wire::Odds};
use jiff::SignedDuration;
use std::{process::Command, time::Duration};

const CHILD: &str = "HOSTLER_SIM_TRACE_SEED";
const MARK: &str = "==== trace ====\n";

/// A run with many faults by chance.
fn trace(seed: u64) -> String {
    let answer = |status, after_effect| Fault::Answer { status, after_effect };
    let faults = vec![
        (0.05, Fault::Refused),
        (0.03, Fault::TimeoutBefore),
        (0.03, Fault::CrashBefore),
        (0.03, Fault::CrashAfter),
        (0.05, Fault::Delay(Duration::from_secs(3))),
        (0.05, answer(429, false)),
        (0.05, answer(500, false)),
        (0.3, Fault::Watch { after: 1, then: Break::Gone }),
        (0.3, Fault::Watch { after: 2, then: Break::Skip(Duration::from_secs(5)) }),
    ];
    let plan = Plan::seeded(seed).with_odds(Odds { faults, calm_after: Duration::from_mins(5) });
    let switches = Switches { list_lag: SignedDuration::from_secs(5), ignores_filter: true };
    let finished = paused(flow::run(plan, Variant::Correct, switches)).unwrap();
    assert!(finished.faults > 0, "a trace without faults shows little");
    assert_eq!(finished.goal, Ok(()), "seed {seed}\n{}", finished.trace);
    assert_eq!(finished.violations, [], "seed {seed}\n{}", finished.trace);
    finished.trace
}

/// The same for a world with a cluster and hollow nodes.
fn both(seed: u64) -> String {
    let town = paused(town::run(Plan::seeded(seed))).unwrap();
    assert_eq!(town.goal, Ok(()), "seed {seed}\n{}", town.trace);
    trace(seed) + &town.trace
}

#[test]
fn the_child_prints_its_trace() {
    if let Ok(seed) = std::env::var(CHILD) {
        println!("{MARK}{}{MARK}", both(seed.parse().unwrap()));
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    let here = both(7);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "repeatable::the_child_prints_its_trace", "--nocapture"])
        .env(CHILD, "7")
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    let there = output.split(MARK).nth(1).expect("the child's trace");
    assert_eq!(here, there);
    assert_ne!(here, both(8), "another seed is another story");
}

#[test]
fn the_correct_one_survives_what_chance_brings() {
    for seed in 100..120 {
        trace(seed);
    }
}
