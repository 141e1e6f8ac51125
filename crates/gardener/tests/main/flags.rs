//! What flags set makes a difference: each is tried with a value that is not its default.

use crate::{
    flow::{SOON, Seat, Stage, controller_on, from, machine},
    sets::{LEAVE, api, deployment, machines, patch, phase, puppet_world, rolling, start_sets_with},
};
use hostler_gardener::{
    FreezeOptions, Options,
    api::{Machine, MachineDeployment, MachineSet, Phase},
    sets::SetOptions,
};
use hostler_sim::{
    Fault, Plan, World,
    stackit::{Fault as Refusal, Settings},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const MINUTE: Duration = Duration::from_mins(1);

/// A controller, and what it counts.
fn start(stage: &mut Stage, options: Options) -> hostler_controller::Metrics {
    let seat = Seat::default();
    let metrics = seat.metrics.clone();
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, options.clone()))
    });
    metrics
}

fn value(metrics: &hostler_controller::Metrics, series: &str) -> f64 {
    let text = metrics.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).trim().parse().unwrap()
}

/// How often a machine that runs is looked at in an hour.
async fn looks_in_an_hour(resync: Duration) -> f64 {
    let mut stage = Stage::new(Plan::seeded(460), Settings::default()).await;
    let metrics = start(&mut stage, Options { resync, ..Options::default() });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    // Its node has nothing more to say.
    stage.nodes.silence("m-2");
    stage.world.run_for(MINUTE).await;
    let series = "mcm_workqueue_adds_total{name=\"machine\"}";
    let before = value(&metrics, series);
    stage.world.run_for(60 * MINUTE).await;
    value(&metrics, series) - before
}

#[tokio::test(start_paused = true)]
async fn machines_are_looked_at_as_often_as_the_resync_period_says() {
    let rarely = looks_in_an_hour(Duration::from_hours(12)).await;
    let often = looks_in_an_hour(10 * MINUTE).await;
    assert!((rarely + 5.0..=rarely + 7.0).contains(&often), "{often} and {rarely}");
}

/// How many orders are under way at once when each takes a while.
async fn orders_at_once(workers: usize) -> u64 {
    let mut stage = Stage::new(Plan::seeded(461), Settings::default()).await;
    let slow = Refusal { delay: 6.0, ..Refusal::on("CreateServer") };
    stage.cloud.add_fault(slow).unwrap();
    stage.create_class_and_secret().await;
    for name in ["m-2", "m-3", "m-4", "m-5"] {
        stage.create(stage.machines(), machine(name)).await;
    }
    stage.start_controller_with(&Options { workers, ..Options::default() });
    let cloud = stage.cloud.clone();
    let began = async || cloud.calls().contains_key("CreateServer");
    stage.world.run_until("something is ordered", SOON, began).await.unwrap();
    stage.world.run_for(Duration::from_secs(3)).await;
    stage.cloud.calls()["CreateServer"]
}

#[tokio::test(start_paused = true)]
async fn as_many_machines_are_worked_on_at_once_as_concurrent_syncs_says() {
    for (workers, expected) in [(1, 1), (3, 3), (50, 4)] {
        assert_eq!(orders_at_once(workers).await, expected, "{workers} workers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_kept_as_long_as_the_preserve_timeout_says() {
    let mut stage = Stage::new(Plan::seeded(462), Settings::default()).await;
    stage.start_controller_with(&Options { preserve_timeout: 7 * MINUTE, ..Options::default() });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    let now = json!({"metadata": {"annotations": {"node.machine.sapcloud.io/preserve": "now"}}});
    stage.patch(stage.machines(), "m-2", now).await;
    let since = stage.world.clock().now();
    stage.world.run_for(Duration::from_secs(5)).await;
    let status = stage.machines().get("m-2").await.unwrap().status.unwrap();
    let until = status.current_status.preserve_expiry_time.unwrap().0;
    // The API tells whole seconds.
    assert!((415..=425).contains(&until.duration_since(since).as_secs()), "{until}");
}

/// Whether machines are left alone after one of the API servers has been away for so many minutes, one after another.
async fn frozen_after(options: FreezeOptions, minutes: &[u64]) -> Vec<bool> {
    let away = Arc::new(AtomicBool::new(false));
    let asked = away.clone();
    let plan = Plan::seeded(463).fault_when(move |boundary, _| {
        let probe = boundary.object.ends_with("dummy_name") && asked.load(Ordering::Relaxed);
        probe.then_some(Fault::Refused)
    });
    let mut stage = Stage::new(plan, Settings::default()).await;
    let metrics = start(&mut stage, Options { freeze: options, ..Options::default() });
    stage.world.run_for(Duration::from_secs(5)).await;
    away.store(true, Ordering::Relaxed);
    let (mut passed, mut frozen) = (0, Vec::new());
    for minute in minutes {
        stage.world.run_for(Duration::from_mins(minute - passed)).await;
        passed = *minute;
        frozen.push(value(&metrics, "mcm_machine_controller_frozen") > 0.5);
    }
    frozen
}

#[tokio::test(start_paused = true)]
async fn api_servers_are_asked_and_borne_with_as_the_status_checks_say() {
    let options = |period, timeout| FreezeOptions { period: period * MINUTE, timeout: timeout * MINUTE };
    let minutes = [4, 9, 14, 23, 40];
    // It is noticed after the period at the latest, and borne with for the timeout and a fifth of it.
    assert_eq!(frozen_after(options(1, 1), &minutes).await, [true; 5]);
    assert_eq!(frozen_after(options(10, 1), &minutes).await, [false, false, true, true, true]);
    assert_eq!(frozen_after(options(10, 10), &minutes).await, [false, false, false, true, true]);
}

/// A deployment of one machine that has so many, since those that were deleted never go.
async fn overshooting(options: &SetOptions, count: usize) -> (World, Client) {
    let mut world = puppet_world(Plan::seeded(464)).await;
    start_sets_with(&mut world, options);
    let admin = world.client();
    let mut stuck = deployment("d", 1, &rolling(0, 1));
    stuck["spec"]["template"]["metadata"]["labels"][LEAVE] = json!("");
    stuck["spec"]["template"]["metadata"]["finalizers"] = json!(["some/finalizer"]);
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &from(stuck)).await.unwrap();
    for number in 1..=count {
        let there = async || machines(&admin).await.len() == number;
        world.run_until("another one is there", SOON, there).await.unwrap();
        if number < count {
            let all = machines(&admin).await;
            let active = all.iter().find(|one| one.metadata.deletion_timestamp.is_none()).unwrap();
            let name = active.name_any();
            api::<Machine>(&admin).delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    (world, admin)
}

async fn is_frozen(admin: &Client) -> bool {
    let sets = api::<MachineSet>(admin).list(&ListParams::default()).await.unwrap().items;
    sets.iter().any(|set| set.labels().contains_key("freeze"))
}

#[tokio::test(start_paused = true)]
async fn sets_are_frozen_and_thawed_by_as_many_machines_as_the_safety_flags_say() {
    let with = |safety_up, safety_down| SetOptions { safety_up, safety_down, ..SetOptions::default() };
    for (safety_up, count, expected) in [(1, 2, true), (2, 2, false), (2, 3, true), (4, 3, false)] {
        let (world, admin) = overshooting(&with(safety_up, 1), count).await;
        world.run_for(3 * MINUTE).await;
        assert_eq!(is_frozen(&admin).await, expected, "{count} machines, up {safety_up}");
    }
    for (safety_down, expected) in [(1, false), (2, true)] {
        let (world, admin) = overshooting(&with(2, safety_down), 3).await;
        world.run_for(3 * MINUTE).await;
        let all = machines(&admin).await;
        let going = all.iter().find(|one| one.metadata.deletion_timestamp.is_some()).unwrap();
        patch::<Machine>(&admin, &going.name_any(), json!({"metadata": {"finalizers": null}})).await;
        world.run_for(3 * MINUTE).await;
        assert_eq!(machines(&admin).await.len(), 2);
        assert_eq!(is_frozen(&admin).await, expected, "one fewer, down {safety_down}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_are_counted_as_often_as_the_overshooting_period_says() {
    for (minutes, expected) in [(1, false), (30, true)] {
        let overshooting_period = Duration::from_mins(minutes);
        let (world, admin) =
            overshooting(&SetOptions { overshooting_period, ..SetOptions::default() }, 3).await;
        world.run_for(MINUTE).await;
        assert!(is_frozen(&admin).await, "a new machine is counted at once");
        let all = machines(&admin).await;
        let going = all.iter().find(|one| one.metadata.deletion_timestamp.is_some()).unwrap();
        patch::<Machine>(&admin, &going.name_any(), json!({"metadata": {"finalizers": null}})).await;
        world.run_for(5 * MINUTE).await;
        assert_eq!(is_frozen(&admin).await, expected, "every {minutes} minutes");
        world.run_for(30 * MINUTE).await;
        assert!(!is_frozen(&admin).await, "every {minutes} minutes");
    }
}

/// Whether the autoscaler was told to leave nodes alone while their machines were exchanged.
async fn autoscaler_is_held_back(disable_scale_down_during_rollout: bool) -> bool {
    let mut world = puppet_world(Plan::seeded(465)).await;
    let options = SetOptions { disable_scale_down_during_rollout, ..SetOptions::default() };
    start_sets_with(&mut world, &options);
    let admin = world.client();
    let wanted: Value = deployment("d", 2, &rolling(1, 0));
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &from(wanted)).await.unwrap();
    let runs = async || machines(&admin).await.iter().filter(|one| phase(one) == Phase::Running).count() == 2;
    world.run_until("both run", SOON, runs).await.unwrap();
    let nodes: Api<Node> = Api::all(admin.clone());
    for one in machines(&admin).await {
        let name = one.name_any();
        nodes.create(&PostParams::default(), &from(json!({"metadata": {"name": name}}))).await.unwrap();
        patch::<Machine>(&admin, &name, json!({"metadata": {"labels": {"node": name}}})).await;
    }
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "large"}}}}});
    patch::<MachineDeployment>(&admin, "d", class).await;
    let mut held_back = false;
    for _ in 0..120 {
        world.run_for(Duration::from_secs(1)).await;
        let all = nodes.list(&ListParams::default()).await.unwrap().items;
        let told = |node: &Node| {
            node.annotations().contains_key("cluster-autoscaler.kubernetes.io/scale-down-disabled")
        };
        held_back |= all.iter().any(told);
    }
    let all = machines(&admin).await;
    assert!(all.iter().all(|one| one.spec.class.name == "large"), "they were exchanged");
    held_back
}

#[tokio::test(start_paused = true)]
async fn the_autoscaler_is_held_back_during_a_rollout_unless_the_flag_says_otherwise() {
    assert!(autoscaler_is_held_back(true).await);
    assert!(!autoscaler_is_held_back(false).await);
}
