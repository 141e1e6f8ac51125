//! A MachineDeployment is updated in each of the three ways, with servers, beside a second cluster's machines of the
//! same names, broken at every call of both controllers.

use crate::{
    crowd::{Crowd, Weather},
    crowd_sweep::{committed, in_foul_weather, other, passed},
    flow::{OTHER_CLUSTER, class, machine},
    orphans::plant,
    sets::{api, deployment, machines, patch, phase, rolling, start_sets},
};
use hostler_gardener::api::{Machine, MachineDeployment, MachineSet, Phase};
use hostler_sim::{Boundary, Fault, Finished, Plan, Sweep, agent::AgentSettings};
use kube::{Client, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const LONG: Duration = Duration::from_mins(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Rolling,
    Recreate,
    InPlace,
}

impl Way {
    fn strategy(self) -> Value {
        match self {
            Self::Rolling => rolling(1, 0),
            Self::Recreate => json!({"type": "Recreate"}),
            Self::InPlace => json!({"type": "InPlaceUpdate", "inPlaceUpdate":
                {"maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto"}}),
        }
    }

    /// How many machines there may be at once, those that go not counted, with the one beside the deployment.
    fn most(self) -> usize {
        if self == Self::Rolling { 4 } else { 3 }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Rolling => "update-rolling.txt",
            Self::Recreate => "update-recreate.txt",
            Self::InPlace => "update-in-place.txt",
        }
    }
}

/// The deployment's machines.
async fn pool(admin: &Client) -> Vec<Machine> {
    let all = machines(admin).await;
    all.into_iter().filter(|machine| machine.labels().contains_key("pool")).collect()
}

/// Whether the deployment has two machines of this class, and both run. Asked after every call, so most of it only when
/// it may be so.
async fn is_at(admin: &Client, class: &str) -> bool {
    let Ok(found) = api::<MachineDeployment>(admin).get("d").await else { return false };
    let status = found.status.unwrap_or_default();
    if [status.updated_replicas, status.available_replicas, status.replicas] != [2; 3] {
        return false;
    }
    let sets = api::<MachineSet>(admin).list(&ListParams::default()).await.map(|list| list.items);
    let full = |set: &MachineSet| set.spec.template.spec.class.name == class && set.spec.replicas == 2;
    let pool = pool(admin).await;
    sets.is_ok_and(|sets| sets.iter().any(full))
        && pool.len() == 2
        && pool.iter().all(|machine| phase(machine) == Phase::Running)
}

/// After every call: no more machines than allowed.
fn watch_numbers(crowd: &Crowd, most: usize) {
    let admin = crowd.stage.admin.clone();
    crowd.stage.world.observe(Arc::new(move || {
        let admin = admin.clone();
        Box::pin(async move {
            let all = api::<Machine>(&admin).list_metadata(&ListParams::default()).await;
            let all = all.map_err(|error| error.to_string())?.items;
            let stay = all.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count();
            if stay > most {
                Err(format!("doubled: there are {stay} machines, {most} are allowed"))
            } else {
                Ok(())
            }
        })
    }));
}

async fn one_update(plan: Plan, weather: Weather, way: Way) -> Finished {
    let mut crowd = Crowd::new(plan, weather).await;
    let goal = update(&mut crowd, way).await;
    crowd.stage.world.finish(goal)
}

async fn update(crowd: &mut Crowd, way: Way) -> Result<(), String> {
    if way == Way::InPlace {
        crowd.stage.world.start_agents(AgentSettings::default());
    }
    crowd.stage.start_controller();
    start_sets(&mut crowd.stage.world);
    crowd.stage.create_class_and_secret().await;
    let mut medium = class();
    medium["metadata"]["name"] = json!("medium");
    medium["providerSpec"]["machineType"] = json!("c2i.4");
    crowd.stage.create(crowd.stage.classes(), medium).await;
    crowd.stage.create(crowd.stage.machines(), machine("m-1")).await;
    let (user, admin) = (crowd.stage.user.clone(), crowd.stage.admin.clone());
    crowd.stage.create(api::<MachineDeployment>(&user), deployment("d", 2, &way.strategy())).await;
    crowd.stage.run_until_phase("m-1", Phase::Running, LONG).await?;
    crowd.stage.world.run_until("it is up", LONG, async || is_at(&admin, "small").await).await?;
    let before: Vec<String> = pool(&admin).await.iter().map(ResourceExt::name_any).collect();
    for name in &before {
        plant(&crowd.stage, name, "small", OTHER_CLUSTER);
    }
    crowd.take_for_strangers().await;

    crowd.stage.world.wire().ok_or("there is no wire")?.sweep_from_here();
    watch_numbers(crowd, way.most());
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "medium"}}}}});
    patch::<MachineDeployment>(&user, "d", class).await;
    crowd.stage.world.run_until("it is updated", LONG, async || is_at(&admin, "medium").await).await?;
    // What was on its way would show up now.
    crowd.stage.world.run_for(Duration::from_mins(1)).await;
    let after: Vec<String> = pool(&admin).await.iter().map(ResourceExt::name_any).collect();
    let same = after.iter().filter(|name| before.contains(name)).count();
    let stayed = if way == Way::InPlace { 2 } else { 0 };
    if same != stayed {
        return Err(format!("there were {before:?}, now there are {after:?}"));
    }
    crowd.exactly_the_wanted().await
}

fn survives(way: Way) {
    let name = format!("an update, {way:?}");
    let flow = async |plan| one_update(plan, Weather::Fair, way).await;
    // With both controllers and all they make a run is dear: every call is followed by a crash, and of everything else
    // that can happen to it a part is tried.
    let crashes = Sweep::new(&name, 1).only(|_, _, fault| *fault == Fault::CrashAfter);
    passed(&crashes.run(flow).unwrap());
    let others = |class, boundary: &Boundary, fault: &Fault| {
        *fault == Fault::TimeoutAfter || other(class, boundary, fault)
    };
    passed(&Sweep::new(&format!("{name}, other faults"), 1).only(others).every(47).run(flow).unwrap());
    in_foul_weather(&name, 21, async |plan, weather| one_update(plan, weather, way).await);
}

#[test]
fn updates_make_the_committed_calls() {
    for way in [Way::Rolling, Way::Recreate, Way::InPlace] {
        let calm = one_update(Plan::seeded(1), Weather::Fair, way);
        committed(&hostler_sim::sweep::paused(calm).unwrap(), way.file());
    }
}

#[test]
fn a_rolling_update_survives_every_kind_of_fault() {
    survives(Way::Rolling);
}

#[test]
fn an_update_that_recreates_survives_every_kind_of_fault() {
    survives(Way::Recreate);
}

#[test]
fn an_update_in_place_survives_every_kind_of_fault() {
    survives(Way::InPlace);
}
