//! Machines that are given back before they have come: as soon as their order is marked, and as soon as it is sent.

use crate::{
    crowd::{Crowd, MACHINES, Weather},
    crowd_sweep::{committed, passed},
    flow::{NAMESPACE, ours},
};
use hostler_gardener::api::Machine;
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Sweep};
use kube::{Api, ResourceExt};
use std::time::Duration;

const ATTEMPT: &str = "machine.hostler.dev/create-attempt";
const LONG: Duration = Duration::from_mins(30);

/// When a machine is given back.
#[derive(Clone, Copy, Debug)]
enum Once {
    Marked,
    Ordered,
}

async fn lives_cut_short(plan: Plan, weather: Weather, once: Once) -> Finished {
    let mut crowd = Crowd::new(plan, weather).await;
    crowd.stage.start_controller();
    let goal = live(&mut crowd, once).await;
    crowd.stage.world.finish(goal)
}

async fn live(crowd: &mut Crowd, once: Once) -> Result<(), String> {
    crowd.create_classes().await;
    crowd.create_machines().await;
    let machines: Api<Machine> = Api::namespaced(crowd.stage.admin.clone(), NAMESPACE);
    for (name, _) in MACHINES {
        let cloud = crowd.stage.cloud.clone();
        let reached = async || match once {
            Once::Marked => machines.get(name).await.is_ok_and(|machine| {
                machine.annotations().contains_key(ATTEMPT) || !machine.spec.provider_id.is_empty()
            }),
            Once::Ordered => ours(&cloud.servers()).any(|server| server.name == name),
        };
        crowd.stage.world.run_until(&format!("{name} is {once:?}"), LONG, reached).await?;
        crowd.stage.delete_machine(name).await;
    }
    for (name, _) in MACHINES {
        crowd.stage.run_until_gone(name, LONG).await?;
    }
    // What was on its way when the machines went would show up now.
    crowd.stage.world.run_for(Duration::from_mins(3)).await;
    crowd.left().await
}

fn unknown(class: Class, _: &Boundary, fault: &Fault) -> bool {
    class == Class::Effect && matches!(fault, Fault::CrashBefore | Fault::CrashAfter | Fault::TimeoutAfter)
}

fn sweep(once: Once) {
    for weather in [Weather::Fair, Weather::LaggingLists, Weather::StaleCaches] {
        let sweep = Sweep::new(&format!("lives cut short once {once:?}, {weather:?}"), 1).only(unknown);
        passed(&sweep.run(async |plan| lives_cut_short(plan, weather, once).await).unwrap());
    }
}

#[test]
fn lives_cut_short_make_the_committed_calls() {
    for (once, file) in [(Once::Marked, "cut-short-marked.txt"), (Once::Ordered, "cut-short-ordered.txt")] {
        let calm = lives_cut_short(Plan::seeded(1), Weather::Fair, once);
        committed(&hostler_sim::sweep::paused(calm).unwrap(), file);
    }
}

#[test]
fn machines_that_go_once_their_order_is_marked_leave_nothing() {
    sweep(Once::Marked);
}

#[test]
fn machines_that_go_once_their_server_is_ordered_leave_nothing() {
    sweep(Once::Ordered);
}
