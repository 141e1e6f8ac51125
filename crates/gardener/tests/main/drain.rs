//! The drain in a machine's deletion.

use crate::flow::{NAMESPACE, SOON, Stage, machine};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{Fault, Plan, hollow::STOP_AFTER, stackit::Settings};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::VolumeAttachment,
};
use kube::Api;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

async fn running(seed: u64, machines: &[Value]) -> Stage {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    stage.start_controller();
    run(&mut stage, machines).await;
    stage
}

async fn run(stage: &mut Stage, machines: &[Value]) {
    stage.create_class_and_secret().await;
    for one in machines {
        stage.create(stage.machines(), one.clone()).await;
    }
    for one in machines {
        stage.run_until_phase(one["metadata"]["name"].as_str().unwrap(), Phase::Running, SOON).await.unwrap();
    }
}

/// A pod that takes an hour to stop.
pub async fn put_a_slow_pod_on(stage: &Stage, node: &str) {
    let pod = json!({"metadata": {"name": format!("slow-{node}"), "labels": {"app": "slow"}, "annotations": {STOP_AFTER: "3600"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 7200, "containers": [{"name": "c", "image": "i"}]}});
    stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), pod).await;
    stage.world.run_for(Duration::from_secs(10)).await;
}

async fn description(stage: &Stage, name: &str) -> String {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    machines.get(name).await.unwrap().status.unwrap().last_operation.description
}

#[tokio::test(start_paused = true)]
async fn force_is_noticed_in_the_middle_of_a_drain() {
    let mut stage = running(21, &[machine("m-1")]).await;
    put_a_slow_pod_on(&stage, "m-1").await;
    let attachment = json!({"metadata": {"name": "csi-1"}, "spec": {"attacher": "x", "nodeName": "m-1",
        "source": {"persistentVolumeName": "v"}}});
    let attachments = Api::<VolumeAttachment>::all(stage.admin.clone());
    stage.create(attachments.clone(), attachment).await;
    stage.delete_machine("m-1").await;
    stage.world.run_for(Duration::from_mins(30)).await;
    assert_eq!(description(&stage, "m-1").await, "Initiate node drain");
    let node = Api::<Node>::all(stage.admin.clone()).get("m-1").await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    let going = conditions.iter().find(|one| one.type_ == "Terminating").unwrap();
    assert_eq!(going.reason.as_deref(), Some("ScaleDown"));
    assert!(attachments.get_opt("csi-1").await.unwrap().is_some());

    stage.patch(stage.machines(), "m-1", json!({"metadata": {"labels": {"force-deletion": "True"}}})).await;
    stage.world.run_for(Duration::from_secs(3)).await;
    let said = description(&stage, "m-1").await;
    assert!(said.ends_with("Initiate VM deletion"), "{said}");
    assert!(attachments.get_opt("csi-1").await.unwrap().is_none(), "its volumes are let go");
    stage.run_until_gone("m-1", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_say_how_long_its_drain_may_take() {
    let mut patient = machine("m-1");
    patient["spec"]["drainTimeout"] = json!("10m0s");
    let mut stage = running(22, &[patient]).await;
    put_a_slow_pod_on(&stage, "m-1").await;
    stage.delete_machine("m-1").await;
    stage.world.run_for(Duration::from_mins(9)).await;
    assert_eq!(description(&stage, "m-1").await, "Initiate node drain");
    stage.run_until_gone("m-1", Duration::from_mins(3)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_holds_a_drain_up_is_written_on_the_machine() {
    let mut stage = running(23, &[machine("m-1")]).await;
    put_a_slow_pod_on(&stage, "m-1").await;
    for name in ["one", "two"] {
        let budget = json!({"metadata": {"name": name}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "slow"}}}});
        stage.create(Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE), budget).await;
    }
    stage.delete_machine("m-1").await;
    stage.run_until_said("m-1", "Drain failed due to - ", SOON).await.unwrap();
    assert_eq!(
        description(&stage, "m-1").await,
        "Drain failed due to - error when evicting pod \"slow-m-1\": This pod has more than one PodDisruptionBudget, which the eviction subresource does not support. scheduled on node m-1. Will retry in next sync. Initiate node drain"
    );
    let budgets = Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE);
    for name in ["one", "two"] {
        budgets.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    stage.world.run_for(Duration::from_secs(10)).await;
    assert_eq!(description(&stage, "m-1").await, "Initiate node drain", "it fails no more");
    let told = stage.told("m-1").await;
    assert!(told.iter().any(|text| text == "PodsLeaving: pods are leaving node m-1"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn attachments_that_cannot_be_deleted_are_told() {
    let refused = Arc::new(AtomicBool::new(true));
    let refuses = refused.clone();
    let plan = Plan::seeded(25).fault_when(move |boundary, _| {
        let deletion = boundary.verb == "DELETE" && boundary.template.contains("/volumeattachments");
        let refuses = deletion && boundary.actor == "machine-controller" && refuses.load(Ordering::Relaxed);
        refuses.then_some(Fault::Answer { status: 403, after_effect: false })
    });
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    run(&mut stage, &[machine("m-1")]).await;
    let attachment = json!({"metadata": {"name": "csi-1"}, "spec": {"attacher": "x", "nodeName": "m-1",
        "source": {"persistentVolumeName": "v"}}});
    stage.create(Api::<VolumeAttachment>::all(stage.admin.clone()), attachment).await;
    stage.patch(stage.machines(), "m-1", json!({"metadata": {"labels": {"force-deletion": "True"}}})).await;
    stage.delete_machine("m-1").await;
    stage.world.run_for(Duration::from_mins(1)).await;
    let told = stage.told("m-1").await;
    assert!(
        told.iter().any(|event| event.starts_with("AttachmentsLeft: VolumeAttachments could not")),
        "{told:?}"
    );
    refused.store(false, Ordering::Relaxed);
    stage.run_until_gone("m-1", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn drains_hold_up_no_creation() {
    for (per_second, burst) in [(20.0, 30), (100.0, 200)] {
        sixty_drains_at(per_second, burst).await;
    }
}

async fn sixty_drains_at(per_second: f64, burst: u32) {
    let many: Vec<Value> = (0..60).map(|number| machine(&format!("old-{number}"))).collect();
    let mut stage = Stage::new(Plan::seeded(24), Settings::default()).await;
    stage.start_controller_at(per_second, burst);
    run(&mut stage, &many).await;
    let begin = stage.world.clock().now();
    stage.create(stage.machines(), machine("alone")).await;
    stage.run_until_phase("alone", Phase::Running, SOON).await.unwrap();
    let alone = stage.world.clock().now().duration_since(begin);
    for number in 0..60 {
        put_a_slow_pod_on(&stage, &format!("old-{number}")).await;
        stage.delete_machine(&format!("old-{number}")).await;
    }
    stage.world.run_for(Duration::from_mins(1)).await;
    let begin = stage.world.clock().now();
    stage.create(stage.machines(), machine("new")).await;
    stage.run_until_phase("new", Phase::Running, SOON).await.unwrap();
    let beside = stage.world.clock().now().duration_since(begin);
    assert!(beside.as_secs() <= alone.as_secs() + 2, "{beside:?} beside 60 drains, {alone:?} without");
    assert_eq!(description(&stage, "old-59").await, "Initiate node drain");
}
