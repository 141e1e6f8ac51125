//! Three machines of two classes come and go beside a second cluster's of the same names, broken at every call.

use crate::crowd::{Crowd, MACHINES, Weather};
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Sweep, stackit::Settings, sweep::Report};
use std::{path::Path, time::Duration};

const LONG: Duration = Duration::from_mins(30);

/// All are wished for, come, are given back and go; nothing of them is left.
async fn three_lives(plan: Plan, weather: Weather) -> Finished {
    three_lives_with(weather.plan(plan), weather.settings()).await
}

pub async fn three_lives_with(plan: Plan, settings: Settings) -> Finished {
    let mut crowd = Crowd::with(plan, settings).await;
    crowd.stage.start_controller();
    let goal = live(&mut crowd).await;
    crowd.stage.world.finish(goal)
}

async fn live(crowd: &mut Crowd) -> Result<(), String> {
    crowd.create_classes().await;
    crowd.create_machines().await;
    crowd.run_until_all_run().await?;
    crowd.attach_csi_volume("m-1").await?;
    for (name, _) in MACHINES {
        crowd.stage.delete_machine(name).await;
    }
    for (name, _) in MACHINES {
        crowd.stage.run_until_gone(name, LONG).await?;
    }
    // What was on its way when the machines went would show up now.
    crowd.stage.world.run_for(Duration::from_mins(3)).await;
    crowd.left().await
}

/// A create call cannot be told from its copy: the API knows no idempotency key. What the network doubles is
/// doubled; it goes when the machine goes.
pub fn survivable(boundary: &Boundary, fault: &Fault) -> bool {
    let create = boundary.verb == "POST" && boundary.template.ends_with("/servers");
    !(create && *fault == Fault::Duplicate)
}

/// What leaves it unknown what became of a call: the process dies after it, or its answer is lost.
pub fn unknown(class: Class, fault: &Fault) -> bool {
    match fault {
        Fault::CrashAfter => true,
        Fault::TimeoutAfter => class == Class::Effect,
        _ => false,
    }
}

/// All other kinds of faults. That a watch breaks later than after its first event is broken with one machine.
pub fn other(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    !unknown(class, fault) && survivable(boundary, fault) && !matches!(fault, Fault::Watch { after: 2.., .. })
}

/// Breaks a flow in fair weather: at every call so that its outcome is unknown; and in every other way, of which only every
/// so-manieth is tried, because all of them are with one machine.
pub fn in_fair_weather(name: &str, every: usize, flow: impl AsyncFn(Plan) -> Finished) {
    let others = Sweep::new(&format!("{name}, other faults"), 1).only(other).every(every);
    passed(&others.run(&flow).unwrap());
    let sweep = Sweep::new(name, 1).only(|class, _, fault| unknown(class, fault));
    passed(&sweep.run(&flow).unwrap());
}

/// Leaves the outcome of calls unknown while the weather is foul: of those with an effect, and, less often tried, crashes
/// after what was only read.
pub fn in_foul_weather(name: &str, every: usize, flow: impl AsyncFn(Plan, Weather) -> Finished) {
    for weather in Weather::FOUL {
        // No list has a selector, see `no_list_relies_on_a_selector`: what happens is the same as in fair weather.
        let every = if weather == Weather::IgnoredSelector { 3 * every } else { every };
        let effects = |class, fault: &Fault| class == Class::Effect && unknown(class, fault);
        let sweep =
            Sweep::new(&format!("{name}, {weather:?}"), 1).only(move |class, _, fault| effects(class, fault));
        passed(&sweep.every(every).run(async |plan| flow(plan, weather).await).unwrap());
        let reads = |class, fault: &Fault| class != Class::Effect && unknown(class, fault);
        let sweep = Sweep::new(&format!("{name}, crashes after reads, {weather:?}"), 1)
            .only(move |class, _, fault| reads(class, fault));
        passed(&sweep.every(3 * every).run(async |plan| flow(plan, weather).await).unwrap());
    }
}

/// Shows what was counted; what failed fails the test.
pub fn passed(report: &Report) {
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}

/// Whether a flow makes the calls that are committed.
pub fn committed(finished: &Finished, file: &str) {
    assert_eq!(finished.goal, Ok(()));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries").join(file);
    let difference = finished.recording.check(&committed).err().unwrap_or_default();
    assert!(difference.is_empty(), "{difference}");
}

#[test]
fn three_lives_survive_every_kind_of_fault_at_every_call() {
    in_fair_weather("three lives", 9, async |plan| three_lives(plan, Weather::Fair).await);
}

#[test]
fn three_lives_make_the_committed_calls() {
    let calm = three_lives(Plan::seeded(1), Weather::Fair);
    committed(&hostler_sim::sweep::paused(calm).unwrap(), "three-lives.txt");
}

#[test]
fn three_lives_survive_unknown_outcomes_in_foul_weather() {
    in_foul_weather("three lives", 9, three_lives);
}
