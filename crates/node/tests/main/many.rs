use crate::stage::{Stage, template};
use hostler_sim::Plan;
use serde_json::json;
use std::time::Duration;

/// Hundreds of nodes with two pods each, all to be drained at once.
#[tokio::test(start_paused = true)]
async fn many_drains_at_once_cost_no_more_than_one_after_another() {
    const NODES: usize = 500;
    let stage = Stage::bare(Plan::seeded(1));
    for number in 0..NODES {
        let node = format!("n-{number}");
        stage.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})).await;
        for letter in ["a", "b"] {
            let mut pod = template("web", json!({}));
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!(format!("{letter}-{number}"));
            pod["spec"]["nodeName"] = json!(node);
            // Nobody is there to stop it.
            pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
            stage.create(pod).await;
        }
    }
    for number in 0..NODES {
        stage.order(&format!("n-{number}")).await;
    }
    stage.world.run_for(Duration::from_mins(2)).await;
    for number in 0..NODES {
        assert_eq!(stage.done(&format!("n-{number}")).await.as_deref(), Some("drained"), "n-{number}");
    }
    let calls = stage.world.wire().unwrap().recording().0;
    let writes =
        calls.iter().filter(|(_, call)| matches!(call.verb.as_str(), "POST" | "PATCH" | "DELETE")).count();
    let lists = calls.iter().filter(|(_, call)| call.verb == "LIST").count();
    println!("{NODES} drains: {writes} writes and {lists} lists");
    // Condition, cordon, two evictions, the result and a text for people who wonder; one look whether it is empty.
    assert!(writes <= 6 * NODES, "{writes} writes");
    assert!(lists <= NODES + 20, "{lists} lists");
}
