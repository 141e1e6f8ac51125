//! The proof of the machinery: the sweep passes on the correct controller and catches each of the wrong
//! ones, for its own reason and at a named boundary.

use crate::tiny::{cloud::Switches, controller::Variant, flow};
use hostler_sim::{Boundary, Class, Fault, Sweep, sweep::Report};
use jiff::SignedDuration;
use std::path::Path;

const LAG: SignedDuration = SignedDuration::from_secs(10);
const PLAIN: Switches = Switches { list_lag: SignedDuration::ZERO, ignores_filter: false };
const LAGGING: Switches = Switches { list_lag: LAG, ignores_filter: false };
const UNFILTERED: Switches = Switches { list_lag: SignedDuration::ZERO, ignores_filter: true };
const WORST: Switches = Switches { list_lag: LAG, ignores_filter: true };

const POST: &str = "tiny POST /v1/things a #1";
const PUT: &str = "tiny PUT /api/v1/namespaces/{namespace}/configmaps/{name} default/a";

/// A create in the tiny cloud has no precondition, so nobody can survive that it is sent twice, or sent
/// by a process that slept through its own replacement at exactly this point.
fn survivable(_: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let create = boundary.verb == "POST" && boundary.template == "/v1/things";
    !(create && matches!(fault, Fault::Duplicate | Fault::Stall(_)))
}

/// What a wrong controller trips over in the cloud, if it does.
fn effects(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    survivable(class, boundary, fault) && class == Class::Effect
}

/// What it trips over when it sees an old state.
fn watches(class: Class, _: &Boundary, fault: &Fault) -> bool {
    class == Class::Watch && matches!(fault, Fault::Watch { .. })
}

type Chosen = fn(Class, &Boundary, &Fault) -> bool;

fn sweep(variant: Variant, switches: Switches, chosen: Chosen) -> Report {
    let name = format!("{variant:?}, lag {}, ignored filter {}", switches.list_lag, switches.ignores_filter);
    let report = Sweep::new(&name, 1)
        .only(chosen)
        .run(async |plan| flow::run(plan, variant, switches).await)
        .expect("a runtime");
    println!("{report}");
    report
}

fn passes(variant: Variant, switches: Switches, chosen: Chosen) -> Report {
    let report = sweep(variant, switches, chosen);
    assert!(report.failures.is_empty(), "{report}");
    report
}

/// At least one run failed at this boundary with this fault, and said this.
#[track_caller]
fn caught(report: &Report, boundary: &str, fault: &str, because: &str) {
    let found = report.failures.iter().any(|failure| {
        let place = failure.at.as_ref().map(|(at, fault)| (at.to_string(), fault.to_string()));
        place.is_some_and(|(at, what)| at.starts_with(boundary) && what.starts_with(fault))
            && failure.to_string().contains(because)
    });
    assert!(found, "not caught at {boundary}: {fault}, because {because:?}\n{report}");
}

fn reasons(report: &Report) -> Vec<String> {
    let mut reasons: Vec<String> = report
        .failures
        .iter()
        .flat_map(|failure| failure.violations.iter().map(|violation| violation.message.clone()))
        .collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

#[test]
fn the_correct_one_survives_everything() {
    let report = passes(Variant::Correct, PLAIN, survivable);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/tiny.txt");
    if let Err(difference) = report.recording.check(&committed) {
        panic!("{difference}");
    }
}

#[test]
fn the_correct_one_survives_a_lagging_list() {
    passes(Variant::Correct, LAGGING, survivable);
}

#[test]
fn the_correct_one_survives_an_ignored_filter() {
    passes(Variant::Correct, UNFILTERED, survivable);
}

#[test]
fn the_correct_one_survives_both() {
    passes(Variant::Correct, WORST, survivable);
}

#[test]
fn not_finding_first_doubles_after_an_unknown_outcome() {
    let report = sweep(Variant::DoesNotFindFirst, PLAIN, effects);
    caught(&report, POST, "crash after the effect", "doubled");
    caught(&report, POST, "timeout after the effect", "doubled");
    assert_eq!(reasons(&report), ["doubled: there are two of \"a\""]);
}

#[test]
fn a_failed_run_prints_boundary_fault_seed_and_trace() {
    let report = Sweep::new("told", 7)
        .only(|_, boundary, fault| boundary.to_string() == POST && *fault == Fault::CrashAfter)
        .run(async |plan| flow::run(plan, Variant::DoesNotFindFirst, PLAIN).await)
        .expect("a runtime");
    assert_eq!((report.runs, report.failures.len()), (2, 1), "{report}");
    let printed = report.to_string();
    for line in [
        "at tiny POST /v1/things a #1: crash after the effect (seed 7)",
        "  violated after tiny POST /v1/things a #2: doubled: there are two of \"a\"",
        "tiny/1 POST /v1/things a #1 -> 201 ** crash after the effect",
        "tiny/1 crashed",
        "tiny/2 POST /v1/things a #2 -> 201",
    ] {
        assert!(printed.contains(line), "{line:?} is not in\n{printed}");
    }
}

#[test]
fn trusting_the_filter_takes_what_is_foreign() {
    passes(Variant::TrustsTheFilter, LAGGING, effects);
    let report = sweep(Variant::TrustsTheFilter, UNFILTERED, effects);
    let failure = report.failures.first().expect("a failure");
    let violation = failure.violations.first().expect("a violation");
    assert_eq!(violation.message, "foreign taken: \"a\" names a thing that is not its own");
    assert!(violation.after.to_string().starts_with(PUT), "{report}");
}

#[test]
fn status_before_effect_forgets_the_effect() {
    let report = sweep(Variant::StatusBeforeEffect, PLAIN, effects);
    caught(&report, POST, "crash before the effect", "goal not reached: not reached within");
    caught(&report, POST, "refused", "goal not reached: not reached within");
    caught(&report, POST, "500 before the effect", "goal not reached: not reached within");
    assert_eq!(reasons(&report), Vec::<String>::new());
}

#[test]
fn intent_in_memory_dies_with_the_process() {
    passes(Variant::IntentOnlyInMemory, PLAIN, effects);
    let report = sweep(Variant::IntentOnlyInMemory, LAGGING, effects);
    caught(&report, POST, "crash after the effect", "doubled");
    assert_eq!(reasons(&report), ["doubled: there are two of \"a\""]);
    let at_timeouts = report.failures.iter().filter(|failure| {
        failure.at.as_ref().is_some_and(|(at, fault)| at.verb == "POST" && *fault == Fault::TimeoutAfter)
    });
    assert_eq!(at_timeouts.count(), 0, "a process that lives on remembers\n{report}");
}

#[test]
fn deleting_without_identity_hits_what_is_foreign() {
    let report = sweep(Variant::DeletesWithoutIdentity, PLAIN, effects);
    let failure = report.failures.first().expect("a failure");
    let violation = failure.violations.first().expect("a violation");
    assert_eq!(violation.message, "foreign touched: \"a\" was deleted");
    assert_eq!(violation.after.verb, "DELETE", "{report}");
}

#[test]
fn ignoring_a_conflict_acts_on_an_old_object() {
    passes(Variant::Ignores409, PLAIN, watches);
    let report = sweep(Variant::Ignores409, LAGGING, watches);
    caught(&report, "tiny WATCH /api/v1/namespaces/{namespace}/configmaps", "watch broken", "doubled");
    let all_behind = report
        .failures
        .iter()
        .all(|failure| failure.at.as_ref().is_some_and(|(_, fault)| fault.to_string().contains("behind")));
    assert!(all_behind, "{report}");
}
