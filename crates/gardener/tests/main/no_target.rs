//! Without a cluster for the nodes a machine is done when its server runs.

use crate::{
    flow::{CLUSTER, SOON, Stage, controller_with, machine, ours},
    orphans::plant,
};
use hostler_gardener::Options;
use hostler_gardener::api::{OperationState, Phase};
use hostler_sim::{Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[tokio::test(start_paused = true)]
async fn a_machine_is_available_with_its_addresses_and_goes_without_a_drain() {
    let mut stage = Stage::new(Plan::seeded(70), Settings::default()).await;
    stage.start_controller_without_target();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Available, SOON).await.unwrap();
    let seen = stage.machines().get("m-5").await.unwrap();
    assert_eq!(seen.metadata.labels, None, "no node is named");
    let status = seen.status.unwrap();
    assert_eq!(status.last_operation.description, "Created machine on cloud provider");
    assert_eq!(status.last_operation.state, Some(OperationState::Successful));
    assert!(!status.current_status.timeout_active);
    let kinds: Vec<&str> = status.addresses.iter().map(|address| address.type_.as_str()).collect();
    assert_eq!(kinds, ["Hostname", "InternalIP"], "{:?}", status.addresses);
    assert_eq!(status.addresses[0].address, "m-5");
    assert!(stage.tokens().await.is_empty(), "there is nothing to join");

    // Whatever becomes of clusters that it does not know of, it stays as it is.
    stage.world.run_for(Duration::from_mins(60)).await;
    let phase = stage.machines().get("m-5").await.unwrap().status.unwrap().current_status.phase;
    assert_eq!(phase, Phase::Available);
    stage.delete_machine("m-5").await;
    let skipping = "Running without target cluster, skipping node drain and volume attachment deletion";
    stage.run_until_said("m-5", skipping, SOON).await.unwrap();
    stage.run_until_gone("m-5", SOON).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 0);
    let trace = stage.world.wire().unwrap().trace();
    let strange = trace.lines().find(|line| {
        line.contains("machine-controller")
            && (line.contains("/nodes") || line.contains("/pods") || line.contains("kube-system"))
    });
    assert_eq!(strange, None);
}

#[tokio::test(start_paused = true)]
async fn one_that_had_a_node_is_not_drained_in_a_cluster_that_is_not_meant() {
    let mut stage = Stage::new(Plan::seeded(71), Settings::default()).await;
    let has_target = Arc::new(AtomicBool::new(true));
    let knows = Arc::clone(&has_target);
    let process = stage.world.start("machine-controller", move |context| {
        Box::pin(controller_with(context, Options::default(), knows.load(Ordering::Relaxed)))
    });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    has_target.store(false, Ordering::Relaxed);
    process.crash();
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", SOON).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 0);
    let node = Api::<Node>::all(stage.admin.clone()).get("m-5").await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, None, "cordoned");
}

/// A restored etcd: servers without Machines, of which nobody can say whether anything runs on them.
#[tokio::test(start_paused = true)]
async fn not_even_a_class_with_one_server_is_emptied_unasked() {
    for lost in [1, 2] {
        let mut stage = Stage::unobserved(Plan::seeded(72), Settings::default()).await;
        stage.create_class_and_secret().await;
        for number in 0..lost {
            plant(&stage, &format!("lost-{number}"), "small", CLUSTER);
        }
        stage.start_controller_without_target();
        stage.world.run_for(Duration::from_hours(2)).await;
        assert_eq!(ours(&stage.cloud.servers()).count(), lost);
        let told = stage.told("small").await;
        let many = format!("ManyOrphans: {lost} of {lost} servers");
        assert_eq!(told.iter().filter(|event| event.starts_with(&many)).count(), 1, "{told:?}");
        let yes = json!({"metadata": {"annotations": {"machine.hostler.dev/collect-orphans": "true"}}});
        stage.patch(stage.classes(), "small", yes).await;
        stage.world.run_for(Duration::from_mins(30)).await;
        assert_eq!(ours(&stage.cloud.servers()).count(), 0);
    }
}
