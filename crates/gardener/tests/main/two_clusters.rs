//! The Machines are in one cluster, the nodes in another, and neither knows of what is in the other one.

use crate::{
    flow::{CLUSTER, CONTROL, LONG, NAMESPACE, SOON, Seat, Stage, controller_on, machine},
    orphans::plant,
};
use hostler_gardener::{Options, OrphanOptions, api::Phase};
use hostler_sim::{Plan, hollow::STOP_AFTER, stackit::Settings};
use k8s_openapi::{
    api::core::v1::{Event, Node, Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::ListParams};
use serde_json::json;
use std::time::Duration;

const PODS: &str = "default";

fn start(stage: &mut Stage, options: Options) {
    let seat = Seat { control: CONTROL, ..Seat::default() };
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, options.clone()))
    });
}

/// Nothing is in the cluster with the Machines that belongs to nodes, and the other one never heard of Machines.
async fn are_apart(stage: &Stage) {
    let all = ListParams::default();
    let definitions = Api::<CustomResourceDefinition>::all(stage.target.clone()).list(&all).await.unwrap();
    assert!(definitions.items.is_empty(), "the cluster with the nodes has definitions");
    let tokens = Api::<Secret>::namespaced(stage.admin.clone(), "kube-system").list(&all).await.unwrap();
    assert!(tokens.items.is_empty(), "tokens are of no use in the cluster with the Machines");
    let events = Api::<Event>::all(stage.target.clone()).list(&all).await.unwrap();
    let own = events.items.iter().filter(|event| {
        event.source.as_ref().is_some_and(|source| source.component.as_deref() == Some("machine-controller"))
    });
    assert_eq!(own.count(), 0, "events are written where the Machines are");
}

#[tokio::test(start_paused = true)]
async fn a_machine_lives_in_one_cluster_and_its_node_in_another() {
    let settings = Settings { joins_without_token: false, ..Settings::default() };
    let mut stage = Stage::of_two_clusters(Plan::seeded(440), settings).await;
    stage.watch_invariants();
    start(&mut stage, Options::default());
    stage.create_class_and_secret().await;

    // Of its name, and no business of anybody.
    let decoy = json!({"metadata": {"name": "m-2", "labels": {"node.gardener.cloud/machine-name": "m-2"}}});
    stage.create(Api::<Node>::all(stage.admin.clone()), decoy).await;
    let of = |node: &str| {
        json!({"metadata": {"name": "web", "annotations": {STOP_AFTER: "60"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 120, "containers": [{"name": "c", "image": "i"}]}})
    };
    stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), of("m-2")).await;

    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    assert_eq!(stage.tokens().await.len(), 0, "it has joined");
    let nodes = Api::<Node>::all(stage.target.clone());
    let node = nodes.get("m-2").await.unwrap();
    assert_eq!(node.metadata.labels.unwrap()["node.gardener.cloud/machine-name"], "m-2");
    are_apart(&stage).await;

    let pods = Api::<Pod>::namespaced(stage.target.clone(), PODS);
    stage.create(pods.clone(), of("m-2")).await;
    stage.world.run_for(Duration::from_secs(10)).await;
    stage.delete_machine("m-2").await;
    stage.run_until_said("m-2", "Initiate node drain", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(20)).await;
    assert_eq!(nodes.get("m-2").await.unwrap().spec.unwrap().unschedulable, Some(true));
    assert!(pods.get("web").await.unwrap().metadata.deletion_timestamp.is_some(), "it is evicted");
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
    assert!(pods.get_opt("web").await.unwrap().is_none());

    let decoy = Api::<Node>::all(stage.admin.clone()).get("m-2").await.unwrap();
    assert_eq!(decoy.spec.and_then(|spec| spec.unschedulable), None, "it is another cluster's");
    assert_eq!(decoy.metadata.finalizers, None);
    let pod = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE).get("web").await.unwrap();
    assert_eq!(pod.metadata.deletion_timestamp, None);
    are_apart(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_deletes_the_node_in_one_cluster_deletes_the_machine_in_the_other() {
    let mut stage = Stage::of_two_clusters(Plan::seeded(441), Settings::default()).await;
    stage.watch_invariants();
    start(&mut stage, Options::default());
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    let nodes = Api::<Node>::all(stage.target.clone());
    nodes.delete("m-2", &kube::api::DeleteParams::default()).await.unwrap();
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_machine_goes_whatever_nodes_there_are() {
    let mut stage = Stage::of_two_clusters(Plan::seeded(442), Settings::default()).await;
    let orphans = OrphanOptions {
        grace: Duration::from_mins(1),
        period: Duration::from_mins(5),
        ..OrphanOptions::default()
    };
    start(&mut stage, Options { orphans, ..Options::default() });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.create(stage.machines(), machine("m-3")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    stage.run_until_phase("m-3", Phase::Running, SOON).await.unwrap();
    let lost = plant(&stage, "lost", "small", CLUSTER);
    let cloud = stage.cloud.clone();
    let gone = async || !cloud.servers().iter().any(|server| server.id == lost);
    stage.world.run_until("the orphan is gone", LONG, gone).await.unwrap();
    assert_eq!(crate::flow::ours(&stage.cloud.servers()).count(), 2, "the machines' own stay");
}
