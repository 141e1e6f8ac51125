//! A drain as the real API server and its budgets see it.

use crate::stage::{Stage, create};
use hostler_sim::Plan;
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{Api, api::DeleteParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_holds_up_a_drain_until_it_allows_it() {
    let mut stage = Stage::around_the_real_one("budget", Plan::seeded(1)).await;
    stage.start_controller(&[]);
    stage.create_class_and_secret().await;
    let machine = format!("{}-m", stage.namespace);
    let machines = stage.machines();
    create(
        machines.clone(),
        json!({"metadata": {"name": machine}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}}),
    )
    .await;
    stage.run_until("the machine runs", async |_| Stage::running(&machines).await == 1).await;
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let pod = json!({"metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"nodeName": machine, "containers": [{"name": "web", "image": "x"}]}});
    create(pods.clone(), pod).await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    create(budgets.clone(), budget).await;
    stage
        .run_until("the budget counts the pod", async |_| {
            let status = budgets.get("web").await.ok().and_then(|budget| budget.status);
            status.is_some_and(|status| {
                status.current_healthy == Some(1) && status.disruptions_allowed == Some(0)
            })
        })
        .await;
    machines.delete(&machine, &DeleteParams::default()).await.unwrap();
    let refused = |story: &str| {
        story.lines().filter(|line| line.contains("eviction") && line.contains("-> 429")).count()
    };
    let wire = stage.world.wire().unwrap().clone();
    stage.run_until("an eviction is refused", async |_| refused(&wire.trace()) > 0).await;
    let held = pods.get("web").await.unwrap().metadata;
    assert_eq!(held.deletion_timestamp, None, "the pod goes although its budget allows none to go");
    assert_eq!(stage.servers().len(), 1, "the server goes under its pod");
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    assert_eq!(stage.violations(), [""; 0], "{}", stage.story());
    stage.world.stop().await;
}
