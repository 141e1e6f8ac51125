use crate::stage::{DETACH, REATTACH, Stage, deployment, is_ready, stateful_set};
use hostler_sim::{
    Fault, Plan,
    csi::{CsiSettings, Moved},
};
use jiff::SignedDuration;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;

async fn cordon(stage: &Stage, node: &str, cordoned: bool) {
    let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
    Api::<Node>::all(stage.admin.clone()).patch(node, &PatchParams::default(), &patch).await.unwrap();
}

/// All pods with their volumes on the node `one`, which then is to be drained to `two`.
async fn all_on_one(plan: Plan, settings: CsiSettings) -> Stage {
    let mut stage = Stage::new(plan, settings, &["one", "two"]).await;
    cordon(&stage, "two", true).await;
    stage.create(stateful_set("db", 3)).await;
    stage
        .until("all volumes are attached", async |stage| {
            let pods = stage.list::<Pod>().await;
            let named = Api::<Node>::all(stage.admin.clone()).get("one").await.unwrap().status.unwrap();
            pods.iter().filter(|pod| is_ready(pod)).count() == 3
                && stage.csi.history().len() == 3
                && named.volumes_attached.is_some_and(|volumes| volumes.len() == 3)
        })
        .await;
    cordon(&stage, "two", false).await;
    stage
}

async fn volume_of(stage: &Stage, claim: &str) -> String {
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), "default");
    claims.get(claim).await.unwrap().spec.unwrap().volume_name.unwrap()
}

fn moves(history: &[Moved]) -> Vec<(String, &str, bool)> {
    history.iter().map(|moved| (moved.volume.clone(), moved.node.as_str(), moved.attached)).collect()
}

#[tokio::test(start_paused = true)]
async fn volumes_move_one_after_another() {
    let settings = CsiSettings {
        attach_time: SignedDuration::from_secs(7),
        detach_time: SignedDuration::from_secs(11),
        ..CsiSettings::default()
    };
    let mut stage = all_on_one(Plan::seeded(1), settings).await;
    stage.order("one").await;
    assert_eq!(stage.until_done("one").await, "drained");
    let mut expected = Vec::new();
    for claim in ["data-db-0", "data-db-1", "data-db-2"] {
        let volume = volume_of(&stage, claim).await;
        expected.extend([(volume.clone(), "one", false), (volume, "two", true)]);
    }
    let history = stage.csi.history();
    assert_eq!(moves(&history[3..]), expected, "one after another, each to its end");
    assert_eq!(stage.calls("POST", "/eviction"), 3);
    assert_eq!(stage.pods_on("two").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_has_left_before_anybody_looked_is_waited_for() {
    // The answer to each eviction comes when the pod is gone and its volume detached.
    let plan = Plan::seeded(6)
        .fault_when(|boundary, _| boundary.template.ends_with("/eviction").then_some(Fault::TimeoutAfter));
    let settings = CsiSettings {
        attach_time: SignedDuration::from_secs(50),
        detach_time: SignedDuration::from_secs(1),
        ..CsiSettings::default()
    };
    let mut stage = all_on_one(plan, settings).await;
    stage.order("one").await;
    assert_eq!(stage.until_done("one").await, "drained");
    let history = stage.csi.history();
    let to_and_fro: Vec<(&str, bool)> =
        history[3..].iter().map(|moved| (moved.node.as_str(), moved.attached)).collect();
    assert_eq!(to_and_fro, [("one", false), ("two", true)].repeat(3), "one after another: {history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_nobody_attaches_again_is_waited_for_a_while_only() {
    let mut stage = all_on_one(Plan::seeded(2), CsiSettings::default()).await;
    cordon(&stage, "two", true).await;
    stage.order("one").await;
    let began = stage.world.clock().now();
    assert_eq!(stage.until_done("one").await, "drained");
    let took = stage.world.clock().now().duration_since(began).as_secs();
    // Each of the three takes 90 s and a little.
    assert!((270..330).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn volumes_are_waited_for_as_long_as_the_limits_say() {
    for (seconds, expected) in [(10, 30..60), (40, 120..160)] {
        let mut stage = all_on_one(Plan::seeded(2), CsiSettings::default()).await;
        cordon(&stage, "two", true).await;
        stage.annotate("one", &[(REATTACH, &seconds.to_string())]).await;
        stage.order("one").await;
        let began = stage.world.clock().now();
        assert_eq!(stage.until_done("one").await, "drained");
        let took = stage.world.clock().now().duration_since(began).as_secs();
        assert!(expected.contains(&took), "reattach {seconds} s: {took} s");
    }
    for (seconds, expected) in [(20, 1), (300, 0)] {
        let mut stage = all_on_one(Plan::seeded(3), CsiSettings::default()).await;
        let stuck = volume_of(&stage, "data-db-0").await;
        stage.csi.hold_on(&stuck);
        stage.annotate("one", &[(DETACH, &seconds.to_string())]).await;
        stage.order("one").await;
        let waits = async |stage: &Stage| stage.waits("one").await.starts_with("VolumesDetaching");
        stage.until("it is waited for", waits).await;
        // The grace period of a pod comes before it.
        stage.world.run_for(Duration::from_secs(100)).await;
        let next = stage.calls("POST", "/eviction") - 1;
        assert_eq!(next.min(1), expected, "detach {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_does_not_let_go_holds_up_neither_the_others_nor_the_end() {
    let mut stage = all_on_one(Plan::seeded(3), CsiSettings::default()).await;
    let stuck = volume_of(&stage, "data-db-0").await;
    stage.csi.hold_on(&stuck);
    stage.order_and_clear("one").await;
    stage
        .until("it is waited for", async |stage| stage.waits("one").await.starts_with("VolumesDetaching"))
        .await;
    assert_eq!(
        stage.waits("one").await,
        format!("VolumesDetaching: volumes are still attached to node one: {stuck}")
    );
    stage.world.run_for(Duration::from_secs(60)).await;
    assert_eq!(stage.calls("POST", "/eviction"), 1, "the next one waits");
    stage
        .until("the attachments are cleared", async |stage| {
            stage.done("one").await.is_some_and(|done| done.contains("cleared"))
        })
        .await;
    assert_eq!(stage.done("one").await.unwrap(), "drained, volumes left cleared NoneLive");
    assert_eq!(stage.calls("POST", "/eviction"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_forced_drain_deletes_attachments_at_once() {
    let stage = all_on_one(Plan::seeded(4), CsiSettings::default()).await;
    cordon(&stage, "two", true).await;
    stage.annotate("one", &[("drain.test/clear", "yes")]).await;
    stage.force("one").await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_secs(3)).await;
    let done = stage.done("one").await.unwrap_or_default();
    assert!(done.starts_with("forced: it was asked for cleared"), "{done}");
    assert_eq!(stage.pods_on("one").await, [""; 0]);
    let live: Vec<String> = stage
        .list::<VolumeAttachment>()
        .await
        .iter()
        .filter(|one| one.metadata.deletion_timestamp.is_none())
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(live, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_most_important_goes_first_and_a_crash_changes_nothing() {
    let settings = CsiSettings { detach_time: SignedDuration::from_secs(30), ..CsiSettings::default() };
    let mut stage = Stage::without_controller(Plan::seeded(5), settings, &["one", "two"]).await;
    let process = stage.start_controller();
    cordon(&stage, "two", true).await;
    stage
        .create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}))
        .await;
    stage.create(stateful_set("a", 1)).await;
    let mut high = stateful_set("z", 1);
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
    stage.create(high).await;
    stage.until("both are attached", async |stage| stage.csi.history().len() == 2).await;
    cordon(&stage, "two", false).await;
    stage.order("one").await;
    let (first, second) = (volume_of(&stage, "data-z-0").await, volume_of(&stage, "data-a-0").await);
    stage.until("it waits", async |stage| stage.waits("one").await.starts_with("VolumesDetaching")).await;
    process.crash();
    assert_eq!(stage.until_done("one").await, "drained");
    assert_eq!(process.started(), 2, "it did not crash");
    let history = stage.csi.history();
    assert_eq!(
        moves(&history[2..]),
        [
            (first.clone(), "one", false),
            (first, "two", true),
            (second.clone(), "one", false),
            (second, "two", true)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_another_pod_still_uses_is_not_waited_for() {
    let mut stage = Stage::new(Plan::seeded(7), CsiSettings::default(), &["one", "two"]).await;
    cordon(&stage, "two", true).await;
    stage
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "common"},
            "spec": {"storageClassName": "disk", "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let mut both = deployment("both", 2, json!({}));
    both["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "common"}}]);
    stage.create(both).await;
    stage
        .until("both run on one volume", async |stage| {
            let ready = stage.list::<Pod>().await.iter().filter(|pod| is_ready(pod)).count();
            let named = Api::<Node>::all(stage.admin.clone()).get("one").await.unwrap().status.unwrap();
            ready == 2 && named.volumes_attached.is_some_and(|volumes| volumes.len() == 1)
        })
        .await;
    // Whoever waited for it to be detached would wait for two minutes and more.
    stage.csi.hold_on(&volume_of(&stage, "common").await);
    stage.order("one").await;
    stage.until("the first is asked to leave", async |stage| stage.calls("POST", "/eviction") > 0).await;
    stage.world.run_for(Duration::from_secs(40)).await;
    assert_eq!(stage.calls("POST", "/eviction"), 2, "the second one did not have to wait");
}
