//! A MachineDeployment's life, broken at every call of the controllers that look after it.

use crate::{
    flow::from,
    sets::{
        SOON, api, deployment, is_rolled_out, machines, nothing_is_left, patch, puppet_world, rolling,
        start_sets,
    },
};
use hostler_gardener::api::{MachineDeployment, MachineSet};
use hostler_sim::{Boundary, Break, Class, Fault, Finished, Plan, Sweep, World};
use kube::{
    Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// After every call: no more machines than replicas and surge, those that go not counted, and one set per template.
fn watch_invariants(world: &World, most: &Arc<AtomicUsize>) {
    let (admin, most) = (world.client(), most.clone());
    world.observe(Arc::new(move || {
        let (admin, most) = (admin.clone(), most.load(Ordering::Relaxed));
        Box::pin(async move {
            let all = machines(&admin).await;
            let stay = all.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count();
            if stay > most {
                return Err(format!("doubled: there are {stay} machines, {most} are allowed"));
            }
            let sets = api::<MachineSet>(&admin)
                .list(&ListParams::default())
                .await
                .map_err(|error| error.to_string())?;
            let mut classes = BTreeSet::new();
            for set in sets.items {
                let class = set.spec.template.spec.class.name.clone();
                if !classes.insert(class.clone()) {
                    return Err(format!("doubled: there are two sets for the class {class}"));
                }
            }
            Ok(())
        })
    }));
}

async fn run_until(
    world: &mut World,
    what: &str,
    admin: &Client,
    condition: impl AsyncFn(&Client) -> bool,
) -> Result<(), String> {
    world.run_until(what, SOON, async || condition(admin).await).await
}

/// Created, updated, scaled up and down, deleted.
async fn one_deployment(plan: Plan) -> Finished {
    let mut world = puppet_world(plan).await;
    let most = Arc::new(AtomicUsize::new(3));
    watch_invariants(&world, &most);
    start_sets(&mut world);
    let goal = live(&mut world, &most).await;
    world.finish(goal)
}

async fn live(world: &mut World, most: &AtomicUsize) -> Result<(), String> {
    let (user, admin) = (world.client_of("user"), world.client());
    let wanted: MachineDeployment = from(deployment("d", 2, &rolling(1, 0)));
    api::<MachineDeployment>(&user)
        .create(&PostParams::default(), &wanted)
        .await
        .map_err(|error| error.to_string())?;
    run_until(world, "it is up", &admin, async |admin| is_rolled_out(admin, "d", "small", 2).await).await?;
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "large"}}}}});
    patch::<MachineDeployment>(&user, "d", class).await;
    run_until(world, "it is rolled out", &admin, async |admin| is_rolled_out(admin, "d", "large", 2).await)
        .await?;
    most.store(4, Ordering::Relaxed);
    patch::<MachineDeployment>(&user, "d", json!({"spec": {"replicas": 3}})).await;
    run_until(world, "it is larger", &admin, async |admin| is_rolled_out(admin, "d", "large", 3).await)
        .await?;
    patch::<MachineDeployment>(&user, "d", json!({"spec": {"replicas": 1}})).await;
    run_until(world, "it is smaller", &admin, async |admin| is_rolled_out(admin, "d", "large", 1).await)
        .await?;
    api::<MachineDeployment>(&user)
        .delete("d", &DeleteParams::default())
        .await
        .map_err(|error| error.to_string())?;
    run_until(world, "nothing is left", &admin, nothing_is_left).await?;
    // What was on its way when the deployment went would show up now.
    world.run_for(Duration::from_secs(30)).await;
    if nothing_is_left(&admin).await { Ok(()) } else { Err("something came late and stays".to_owned()) }
}

/// What leaves the outcome of a call unknown, or what is known outdated. Events change nothing.
fn of_interest(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    if boundary.actor != "machine-sets" || boundary.template.contains("/events") {
        return false;
    }
    let late = Duration::from_secs(12);
    match (class, fault) {
        (Class::Effect, Fault::CrashAfter | Fault::TimeoutAfter) => true,
        (Class::Effect, Fault::Answer { status: 403 | 409, .. } | Fault::Page { status: 200, .. }) => true,
        (Class::Effect, Fault::Delay(by)) => *by == late && boundary.verb != "PATCH",
        (Class::Effect, Fault::Duplicate | Fault::CrashBefore) => boundary.verb == "POST",
        (Class::Read, Fault::Behind(revisions)) => *revisions == 3,
        (Class::Watch, Fault::Watch { after: 1, then }) => {
            matches!(then, Break::Skip(_) | Break::Behind { revisions: 3, .. })
        }
        (Class::Lease, Fault::CrashAfter | Fault::Stall(_)) => boundary.nth == 1,
        _ => false,
    }
}

#[test]
fn a_deployment_survives_unknown_outcomes_and_stale_views_at_every_call() {
    let report = Sweep::new("one deployment", 3).only(of_interest).run(one_deployment).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/one-deployment.txt");
    if let Err(difference) = report.recording.check(&committed) {
        panic!("{difference}");
    }
}

#[test]
fn the_same_seed_gives_the_same_deployment() {
    let run = || hostler_sim::sweep::paused(one_deployment(Plan::seeded(7))).unwrap();
    let (first, second) = (run(), run());
    assert_eq!(first.goal, Ok(()));
    assert_eq!(first.trace, second.trace);
}
