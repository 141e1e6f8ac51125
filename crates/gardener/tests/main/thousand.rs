//! A thousand machines at once: none is lost or doubled, and the cloud is not asked more than it has to be.

use crate::flow::{LONG, NAMESPACE, Stage, machine, ours};
use futures::{StreamExt, stream};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{Plan, stackit::Settings};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const MACHINES: usize = 1_000;
const AT_ONCE: usize = 50;
/// To look at all servers after each of so many calls would take longer than the calls.
const LOOKED_EVERY: usize = 100;
/// To order a server, to delete it and to ask whether it is gone; the rest is shared by all.
const FLOOR: u64 = 3;

fn observe_doubles(stage: &Stage) {
    let (cloud, foreign, calls) = (stage.cloud.clone(), stage.foreign.clone(), AtomicUsize::new(0));
    stage.world.observe(Arc::new(move || {
        let looked = calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKED_EVERY);
        let servers = if looked { cloud.servers() } else { Vec::new() };
        let mut seen = BTreeSet::new();
        let doubled = ours(&servers).find(|server| !seen.insert(server.name.as_str()));
        let verdict = match doubled {
            Some(server) => Err(format!("doubled: there are two servers for {}", server.name)),
            None if looked && !servers.iter().any(|server| server.id == foreign) => {
                Err("foreign touched: somebody else's server is gone".to_owned())
            }
            None => Ok(()),
        };
        Box::pin(async move { verdict })
    }));
}

/// Looks at all Machines once a second: after every call would take longer than the calls. The error says how many
/// are there in the end.
async fn run_until(stage: &Stage, condition: impl Fn(&[Machine]) -> bool) -> Result<(), usize> {
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), NAMESPACE);
    let mut there = 0;
    for _ in 0..LONG.as_secs() {
        stage.world.run_for(Duration::from_secs(1)).await;
        let listed = machines.list(&ListParams::default()).await.unwrap().items;
        if condition(&listed) {
            return Ok(());
        }
        there = listed.len();
    }
    Err(there)
}

/// What was called since.
fn since(
    before: &BTreeMap<&'static str, u64>,
    now: &BTreeMap<&'static str, u64>,
) -> BTreeMap<&'static str, u64> {
    let calls =
        now.iter().map(|(&name, &count)| (name, count - before.get(name).copied().unwrap_or_default()));
    calls.filter(|(_, count)| *count > 0).collect()
}

#[expect(clippy::cast_precision_loss, reason = "only shown")]
fn show(what: &str, calls: &BTreeMap<&'static str, u64>) {
    let sum: u64 = calls.values().sum();
    println!("{MACHINES} machines {what}: {:.2} cloud calls each, {calls:?}", sum as f64 / MACHINES as f64);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_machines_come_and_go_with_few_calls() {
    let mut stage = Stage::unobserved(Plan::seeded(60), Settings::default()).await;
    observe_doubles(&stage);
    stage.start_controller();
    stage.create_class_and_secret().await;
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), NAMESPACE);
    let names: Vec<String> = (0..MACHINES).map(|number| format!("many-{number}")).collect();
    let before = stage.cloud.calls();
    let orders = names.iter().map(|name| stage.create(machines.clone(), machine(name)));
    stream::iter(orders).buffer_unordered(AT_ONCE).collect::<()>().await;
    run_until(&stage, |all| {
        let phases = all.iter().filter_map(|machine| Some(machine.status.as_ref()?.current_status.phase));
        phases.filter(|phase| *phase == Phase::Running).count() == MACHINES
    })
    .await
    .unwrap();
    let up = stage.cloud.calls();
    let made = since(&before, &up);
    show("up", &made);
    assert_eq!(made.get("CreateServer"), Some(&(MACHINES as u64)));
    assert_eq!(ours(&stage.cloud.servers()).count(), MACHINES);

    let ends = names.iter().map(|name| {
        let machines = machines.clone();
        async move { machines.delete(name, &DeleteParams::default()).await.unwrap() }
    });
    stream::iter(ends).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    run_until(&stage, <[Machine]>::is_empty).await.unwrap();
    let down = stage.cloud.calls();
    let ended = since(&up, &down);
    show("down", &ended);
    assert_eq!(ended.get("DeleteServer"), Some(&(MACHINES as u64)));
    assert_eq!(stage.leftovers().await, [""; 0]);
    let violations = stage.world.wire().map(hostler_sim::Wire::violations).unwrap_or_default();
    assert!(violations.is_empty(), "{:?}", violations.first().map(|one| &one.message));

    let calls: u64 = since(&before, &down).values().sum();
    let shared = calls.saturating_sub(FLOOR * MACHINES as u64);
    println!("{shared} calls beyond {FLOOR} per machine");
    assert!(shared < MACHINES as u64, "{calls} calls to the cloud: {:?}", since(&before, &down));
}
