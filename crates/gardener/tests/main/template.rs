//! What a Machine and its class say about the Node comes to the Node.

use crate::flow::{SOON, Stage, class, machine, secret};
use hostler_gardener::api::Phase;
use hostler_sim::{Boundary, Fault, Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const NAME: &str = "node.gardener.cloud/machine-name";
const APPLIED: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
const CAPACITY: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

fn with_template() -> serde_json::Value {
    let mut machine = machine("m-5");
    machine["spec"]["nodeTemplate"] = json!({
        "metadata": {"labels": {"pool": "x", "more": "1"}, "annotations": {"note": "y"}},
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}});
    machine
}

async fn node(stage: &Stage) -> Node {
    Api::<Node>::all(stage.admin.clone()).get("m-5").await.unwrap()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.clone().unwrap().taints.unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).collect()
}

#[tokio::test(start_paused = true)]
async fn a_template_follows_its_machine_to_the_node() {
    let mut stage = Stage::new(Plan::seeded(60), Settings::default()).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    let mut class = class();
    let resources = json!({"capacity": {"cpu": "2", "gpu": "0", "memory": "4Gi"}, "virtualCapacity": {"x.org/slots": "3"},
        "instanceType": "c2i.2", "region": "eu01", "zone": "eu01-1"});
    class["nodeTemplate"] = resources;
    stage.create(stage.classes(), class).await;
    stage.create(stage.machines(), with_template()).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    let seen = node(&stage).await;
    assert_eq!((seen.labels()["pool"].as_str(), seen.labels()[NAME].as_str()), ("x", "m-5"));
    assert_eq!(seen.annotations()["note"], "y");
    assert!(taints(&seen).contains(&"dedicated".to_owned()));
    assert_eq!(seen.status.as_ref().unwrap().capacity.as_ref().unwrap()["x.org/slots"].0, "3");
    assert_eq!(seen.annotations()[CAPACITY], r#"{"x.org/slots":"3"}"#);
    assert!(seen.annotations()[APPLIED].starts_with(r#"{"metadata":{"#));

    // Somebody else's stays, what leaves the template leaves the node.
    let own = json!({"metadata": {"labels": {"own": "1"}}});
    stage.patch(Api::<Node>::all(stage.admin.clone()), "m-5", own).await;
    let less = json!({"spec": {"nodeTemplate": {"metadata": {"labels": {"more": null, "pool": "z"}}, "spec": null}}});
    stage.patch(stage.machines(), "m-5", less).await;
    stage.patch(stage.classes(), "small", json!({"nodeTemplate": {"virtualCapacity": null}})).await;
    stage.world.run_for(Duration::from_secs(30)).await;
    let seen = node(&stage).await;
    assert_eq!((seen.labels()["pool"].as_str(), seen.labels()["own"].as_str()), ("z", "1"));
    assert!(!seen.labels().contains_key("more"));
    assert!(!taints(&seen).contains(&"dedicated".to_owned()));
    assert!(!seen.status.as_ref().unwrap().capacity.as_ref().unwrap().contains_key("x.org/slots"));
    assert!(!seen.annotations().contains_key(CAPACITY));

    let version = seen.metadata.resource_version;
    stage.patch(stage.machines(), "m-5", json!({"metadata": {"labels": {"touched": "1"}}})).await;
    stage.world.run_for(Duration::from_secs(5)).await;
    let patches = stage.world.wire().unwrap().trace();
    let again = patches.lines().rev().take(20).any(|line| line.contains("PATCH /api/v1/nodes/m-5 "));
    assert!(!again, "nothing was to be brought: {version:?}\n{patches}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_changed_holds_nothing_up_and_is_changed_later() {
    for status in [403, 409] {
        changed_once_it_can_be(status).await;
    }
}

async fn changed_once_it_can_be(status: u16) {
    let denied = Arc::new(AtomicBool::new(true));
    let is_denied = Arc::clone(&denied);
    let plan = Plan::seeded(61).fault_when(move |boundary: &Boundary, _| {
        let patch = boundary.verb == "PATCH" && boundary.template == "/api/v1/nodes/{name}";
        let denial = Fault::Answer { status, after_effect: false };
        (patch && is_denied.load(Ordering::Relaxed)).then_some(denial)
    });
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), with_template()).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    assert!(!node(&stage).await.labels().contains_key("pool"));
    denied.store(false, Ordering::Relaxed);
    let nodes = Api::<Node>::all(stage.admin.clone());
    let labelled = async || nodes.get("m-5").await.is_ok_and(|node| node.labels().contains_key("pool"));
    stage.world.run_until("the label is there", Duration::from_mins(20), labelled).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_lacks_what_gardeners_controllers_want_is_told_and_used() {
    let mut stage = Stage::new(Plan::seeded(467), Settings::default()).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    let mut class = class();
    class["nodeTemplate"] = json!({"capacity": {"cpu": "2", "memory": "4Gi"}, "instanceType": "c2i.2",
        "region": "eu01", "zone": ""});
    stage.create(stage.classes(), class).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    let told = stage.told("m-5").await;
    let words = "LooksWrong: the MachineClass's nodeTemplate lacks capacity.gpu, zone: ";
    assert_eq!(told.iter().filter(|text| text.starts_with(words)).count(), 1, "{told:?}");
}
