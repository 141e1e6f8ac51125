use crate::stage::{Stage, budget, deployment, is_of, is_ready};
use hostler_sim::{Plan, csi::CsiSettings, hollow::READY_AFTER};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

async fn ready(stage: &mut Stage, app: &str, count: usize) {
    stage
        .until("its pods are ready", async |stage| {
            let pods = stage.list::<Pod>().await;
            pods.iter().filter(|pod| is_of(pod, app) && is_ready(pod)).count() == count
        })
        .await;
    stage
        .until("its budget has seen them", async |stage| {
            let budgets = stage.list::<PodDisruptionBudget>().await;
            let healthy =
                |one: &PodDisruptionBudget| one.status.as_ref().and_then(|status| status.current_healthy);
            budgets.iter().all(|one| healthy(one) == i32::try_from(count).ok())
        })
        .await;
}

/// From now on, after every call: at least so many pods of the app are well.
fn keep(stage: &Stage, app: &'static str, least: usize) {
    let pods = Api::<Pod>::all(stage.admin.clone());
    stage.world.observe(Arc::new(move || {
        let pods = pods.clone();
        Box::pin(async move {
            let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let well = all.items.iter().filter(|pod| is_of(pod, app) && is_ready(pod)).count();
            if well < least {
                Err(format!("budget broken: {well} of {least} pods of {app} are well"))
            } else {
                Ok(())
            }
        })
    }));
}

#[tokio::test(start_paused = true)]
async fn many_drains_share_what_a_budget_allows() {
    let names = ["a", "b", "c", "d", "e"];
    let mut stage = Stage::new(Plan::seeded(2), CsiSettings::default(), &names).await;
    stage.create(deployment("web", 8, json!({READY_AFTER: "3"}))).await;
    stage.create(budget("web", 7)).await;
    ready(&mut stage, "web", 8).await;
    keep(&stage, "web", 7);
    let mut pods = 0;
    for name in &names[..4] {
        pods += stage.pods_on(name).await.len();
        stage.order(name).await;
    }
    assert!(pods > 4, "nothing to drain");
    for name in &names[..4] {
        assert_eq!(stage.until_done(name).await, "drained");
    }
    assert_eq!(stage.pods_on("e").await.len(), 8);
    let asked = stage.calls("POST", "/eviction");
    // Most are asked for once: the budget's own changes say when, not a clock.
    assert!(asked <= 2 * pods, "{asked} evictions for {pods} pods");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_allows_anything_is_told_and_works_when_corrected() {
    let mut stage = Stage::new(Plan::seeded(3), CsiSettings::default(), &["one", "two"]).await;
    stage.create(deployment("web", 2, json!({}))).await;
    stage.create(budget("web", 2)).await;
    stage.create(deployment("other", 2, json!({}))).await;
    stage
        .until("all run", async |stage| {
            stage.list::<Pod>().await.iter().filter(|pod| is_ready(pod)).count() == 4
        })
        .await;
    keep(&stage, "web", 1);
    assert!(stage.pods_on("one").await.iter().any(|name| name.starts_with("web-")));
    stage.order("one").await;
    stage.world.run_for(Duration::from_mins(3)).await;
    let waits = stage.waits("one").await;
    assert!(waits.starts_with("DrainFailing: error while evicting pod \"web-"), "{waits}");
    assert!(
        waits.ends_with(
            "pod disruption budget default/web is misconfigured and requires zero voluntary evictions"
        ),
        "{waits}"
    );
    assert!(!stage.pods_on("one").await.iter().any(|name| name.starts_with("other-")), "the others go on");
    let asked = stage.calls("POST", "/eviction");
    assert!(asked < 15, "{asked} evictions: it is asked again and again");
    let budgets = Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    budgets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert_eq!(stage.done("one").await.as_deref(), Some("drained"));
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_told_and_the_timeout_ends_it() {
    let mut stage = Stage::new(Plan::seeded(4), CsiSettings::default(), &["one"]).await;
    stage.create(deployment("web", 1, json!({}))).await;
    stage.create(budget("web", 0)).await;
    let mut second = budget("web", 0);
    second["metadata"]["name"] = json!("web-too");
    stage.create(second).await;
    ready(&mut stage, "web", 1).await;
    stage.order_within("one", 120).await;
    stage.world.run_for(Duration::from_secs(60)).await;
    let waits = stage.waits("one").await;
    assert!(waits.contains("This pod has more than one PodDisruptionBudget"), "{waits}");
    assert!(
        waits.contains("FAILING error when evicting pod \"web-") && waits.ends_with("scheduled on node one"),
        "{waits}"
    );
    stage.world.run_for(Duration::from_secs(65)).await;
    assert_eq!(stage.done("one").await.as_deref(), Some("forced: the drain timeout is over"));
}

#[tokio::test(start_paused = true)]
async fn who_is_held_back_by_which_budget_is_told() {
    let mut stage = Stage::new(Plan::seeded(5), CsiSettings::default(), &["one"]).await;
    // One of the two never gets well, so the other may not go.
    stage.create(deployment("web", 1, json!({}))).await;
    stage.create(budget("web", 1)).await;
    ready(&mut stage, "web", 1).await;
    let mut lame = deployment("lame", 1, json!({READY_AFTER: "100000"}));
    lame["spec"]["template"]["metadata"]["labels"]["app"] = json!("web");
    lame["spec"]["selector"]["matchLabels"] = json!({"app": "web"});
    lame["metadata"]["name"] = json!("lame");
    stage.create(lame).await;
    keep(&stage, "web", 1);
    stage.world.run_for(Duration::from_secs(20)).await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_mins(2)).await;
    let waits = stage.waits("one").await;
    assert!(
        waits.starts_with("DisruptionBudget: PodDisruptionBudget default/web holds back default/web-"),
        "{waits}"
    );
    assert_eq!(stage.pods_on("one").await.len(), 1, "the lame one could go");
}
