//! How long things may take, as flags say it: each is tried with a value that is not its default.

use crate::{
    drain::put_a_slow_pod_on,
    flow::{LONG, NAMESPACE, SOON, Stage, machine},
    health::{phase, say},
    in_place::{CANDIDATE, SELECTED, label},
};
use hostler_gardener::{Options, api::Phase};
use hostler_sim::{
    Plan,
    agent::AgentSettings,
    stackit::{Fault, Settings},
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// A machine that runs under a controller with these options.
async fn running(seed: u64, options: &Options) -> Stage {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    stage.start_controller_with(options);
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    stage
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_machine_fails_after_the_health_timeout() {
    for (minutes, expected) in [(3, Phase::Failed), (15, Phase::Unknown)] {
        let options = Options { health_timeout: minutes * MINUTE, ..Options::default() };
        let mut stage = running(470, &options).await;
        say(&stage, "m-2", "Ready", "Unknown").await;
        stage.run_until_phase("m-2", Phase::Unknown, MINUTE).await.unwrap();
        stage.world.run_for(2 * MINUTE).await;
        assert_eq!(phase(&stage, "m-2").await, Phase::Unknown, "after {minutes} minutes");
        stage.world.run_for(10 * MINUTE).await;
        assert_eq!(phase(&stage, "m-2").await, expected, "after {minutes} minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_named_conditions_of_a_node_make_its_machine_unhealthy() {
    let options = Options { node_conditions: "Tired,Bored".to_owned(), ..Options::default() };
    let mut stage = running(471, &options).await;
    say(&stage, "m-2", "DiskPressure", "True").await;
    stage.world.run_for(LONG).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::Running);
    say(&stage, "m-2", "Bored", "True").await;
    stage.run_until_phase("m-2", Phase::Unknown, MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_update_in_place_fails_after_its_timeout() {
    let options = Options { in_place_update_timeout: 5 * MINUTE, ..Options::default() };
    let mut stage = running(472, &options).await;
    let asleep = AgentSettings { asleep: ["m-2".to_owned()].into(), ..AgentSettings::default() };
    let _agents = stage.world.start_agents(asleep);
    label(&stage, CANDIDATE).await;
    label(&stage, SELECTED).await;
    stage.run_until_phase("m-2", Phase::InPlaceUpdating, SOON).await.unwrap();
    stage.world.run_for(4 * MINUTE).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::InPlaceUpdating);
    stage.run_until_phase("m-2", Phase::InPlaceUpdateFailed, 2 * MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_room_is_asked_again_after_the_time_for_it() {
    for (minutes, expected) in [(30, 1..=1), (10, 2..=3)] {
        let options = Options {
            resource_exhausted_retry: minutes * MINUTE,
            creation_timeout: 45 * MINUTE,
            ..Options::default()
        };
        let mut stage = Stage::new(Plan::seeded(473), Settings::default()).await;
        stage.cloud.add_fault(Fault::on("CreateServer").status(413)).unwrap();
        stage.start_controller_with(&options);
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("m-2")).await;
        stage.run_until_said("m-2", "code = [ResourceExhausted]", SOON).await.unwrap();
        stage.world.run_for(20 * MINUTE).await;
        let orders = stage.cloud.calls()["CreateServer"];
        assert!(expected.contains(&orders), "every {minutes} minutes: {orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_forced_after_its_timeout() {
    let mut options = Options::default();
    options.drain.timeout = 5 * MINUTE;
    let mut stage = running(474, &options).await;
    put_a_slow_pod_on(&stage, "m-2").await;
    stage.delete_machine("m-2").await;
    stage.world.run_for(4 * MINUTE).await;
    let said = stage.machines().get("m-2").await.unwrap().status.unwrap().last_operation.description;
    assert_eq!(said, "Initiate node drain");
    stage.run_until_gone("m-2", 3 * MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_budgets_hold_back_is_deleted_after_so_many_tries() {
    for (retries, expected) in [(3, true), (30, false)] {
        let mut options = Options::default();
        options.drain.evict_retries = retries;
        let stage = running(475, &options).await;
        let budgets = Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE);
        let nobody = json!({"metadata": {"name": "none"}, "spec": {"minAvailable": "100%",
            "selector": {"matchLabels": {"app": "web"}}}});
        stage.create(budgets, nobody).await;
        let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(stage.admin.clone(), NAMESPACE);
        let pod = json!({"metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"nodeName": "m-2", "containers": [{"name": "c", "image": "i"}]}});
        stage.create(pods.clone(), pod).await;
        stage.world.run_for(Duration::from_secs(10)).await;
        stage.delete_machine("m-2").await;
        stage.world.run_for(Duration::from_secs(45)).await;
        assert!(pods.get_opt("web").await.unwrap().is_some(), "{retries} tries");
        stage.world.run_for(2 * MINUTE).await;
        assert_eq!(pods.get_opt("web").await.unwrap().is_none(), expected, "{retries} tries");
    }
}
