//! Things that Gardener's controllers are known to get wrong.

use crate::flow::{LONG, NAMESPACE, PROJECT, SOON, Stage, class, machine, secret};
use hostler_gardener::api::Phase;
use hostler_sim::{Plan, hollow::STOP_AFTER, stackit::Settings};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;

async fn running(seed: u64, name: &str) -> Stage {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine(name)).await;
    stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    stage
}

async fn put_a_slow_pod_on(stage: &Stage, node: &str) {
    let pod = json!({"metadata": {"name": "slow", "annotations": {STOP_AFTER: "3600"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 7200, "containers": [{"name": "c", "image": "i"}]}});
    stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), pod).await;
    stage.world.run_for(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_says_whether_it_was_well() {
    for (well, reason) in [(true, "ScaleDown"), (false, "Unhealthy")] {
        let mut stage = running(310, "m-2").await;
        put_a_slow_pod_on(&stage, "m-2").await;
        let nodes = Api::<Node>::all(stage.admin.clone());
        if !well {
            stage.nodes.silence("m-2");
            stage.world.run_for(Duration::from_secs(1)).await;
            let unknown =
                json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test"}]}});
            nodes.patch_status("m-2", &PatchParams::default(), &Patch::Strategic(unknown)).await.unwrap();
            stage.run_until_phase("m-2", Phase::Unknown, SOON).await.unwrap();
        }
        stage.delete_machine("m-2").await;
        stage.world.run_for(Duration::from_secs(20)).await;
        let conditions = nodes.get("m-2").await.unwrap().status.unwrap().conditions.unwrap();
        let going = conditions.iter().find(|one| one.type_ == "Terminating").expect("the condition");
        assert_eq!((going.status.as_str(), going.reason.as_deref()), ("True", Some(reason)));
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_any_length_have_tokens_nodes_and_an_end() {
    for name in ["m", "m2", "abcd", &"x".repeat(63)] {
        let mut stage = running(311, name).await;
        stage.delete_machine(name).await;
        stage.run_until_gone(name, LONG).await.unwrap();
        assert_eq!(stage.leftovers().await, [""; 0], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn attachments_of_volumes_without_a_name_are_let_go_with_the_others() {
    let mut stage = running(312, "m-2").await;
    put_a_slow_pod_on(&stage, "m-2").await;
    let attachments = Api::<VolumeAttachment>::all(stage.admin.clone());
    let inline = json!({"inlineVolumeSpec": {"csi": {"driver": "block-storage.csi.stackit.cloud", "volumeHandle": "v"}}});
    for (name, node, source) in [
        ("inline", "m-2", inline.clone()),
        ("named", "m-2", json!({"persistentVolumeName": "v"})),
        ("elsewhere", "another", inline),
    ] {
        let attachment = json!({"metadata": {"name": name}, "spec": {"attacher": "x", "nodeName": node, "source": source}});
        stage.create(attachments.clone(), attachment).await;
    }
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"labels": {"force-deletion": "true"}}})).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    for (name, stays) in [("inline", false), ("named", false), ("elsewhere", true)] {
        assert_eq!(attachments.get_opt(name).await.unwrap().is_some(), stays, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_twice_or_labelled_is_told_before_any_order() {
    let long = "c".repeat(64);
    let mut volumes = class();
    volumes["providerSpec"]["volumes"] = json!([PROJECT]);
    let mut boots = class();
    boots["providerSpec"]["bootVolume"] = json!({"source": {"type": "volume", "id": PROJECT}});
    let mut unfit = class();
    unfit["metadata"]["name"] = json!(long);
    let table = [
        (volumes, "small", "providerSpec.volumes"),
        (boots, "small", "providerSpec.bootVolume.source"),
        (unfit, long.as_str(), "63 characters"),
    ];
    for (class, name, words) in table {
        let mut stage = Stage::new(Plan::seeded(313), Settings::default()).await;
        stage.start_controller();
        stage.create(stage.secrets(), secret()).await;
        stage.create(stage.classes(), class).await;
        for one in ["m-2", "m-3"] {
            let mut wish = machine(one);
            wish["spec"]["class"]["name"] = json!(name);
            stage.create(stage.machines(), wish).await;
        }
        for one in ["m-2", "m-3"] {
            stage.run_until_said(one, words, SOON).await.unwrap();
            let operation = stage.machines().get(one).await.unwrap().status.unwrap().last_operation;
            assert_eq!(operation.error_code, "InvalidArgument", "{words}");
        }
        stage.world.run_for(SOON).await;
        assert_eq!(stage.cloud.calls().get("CreateServer"), None, "{words}");
    }
}
