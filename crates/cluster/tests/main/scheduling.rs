use crate::support::{Bench, POD, condition, template};
use hostler_cluster::Options;
use serde_json::{Value, json};

fn pod(name: &str, cpu: &str, extra: &Value) -> Value {
    let mut spec = template("x", "one", cpu)["spec"].clone();
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

async fn node_of(bench: &Bench, name: &str) -> String {
    bench
        .until(&format!("{name} has a node"), || async {
            let pod = bench.get(POD, "default", name).await?;
            pod["spec"]["nodeName"].as_str().map(str::to_owned)
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_with_a_reason_until_a_node_comes() {
    let bench = Bench::start(Options::all());
    bench.node("small", "1").await;
    bench.create(pod("large", "4", &json!({}))).await;
    let waiting = bench
        .until("the pod says why it waits", || async {
            condition(&bench.get(POD, "default", "large").await?, "PodScheduled")
        })
        .await;
    assert_eq!(
        (waiting["status"].as_str(), waiting["reason"].as_str()),
        (Some("False"), Some("Unschedulable"))
    );
    assert_eq!(
        waiting["message"],
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    );
    bench.node("big", "8").await;
    assert_eq!(node_of(&bench, "large").await, "big");
    let events =
        bench.api("v1", "Event", Some("default")).list(&kube::api::ListParams::default()).await.unwrap();
    let reasons: Vec<&str> = events
        .items
        .iter()
        .filter(|event| event.data["involvedObject"]["name"] == "large")
        .filter_map(|event| event.data["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"FailedScheduling") && reasons.contains(&"Scheduled"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn gated_pods_wait_for_their_gates() {
    let bench = Bench::start(Options::all());
    bench.node("n", "4").await;
    bench.create(pod("gated", "1", &json!({"schedulingGates": [{"name": "example.com/gate"}]}))).await;
    let waiting = bench
        .until("the pod says why it waits", || async {
            condition(&bench.get(POD, "default", "gated").await?, "PodScheduled")
        })
        .await;
    assert_eq!(waiting["reason"], "SchedulingGated");
    bench.patch(POD, "default", "gated", json!({"spec": {"schedulingGates": null}})).await;
    assert_eq!(node_of(&bench, "gated").await, "n");
}

#[tokio::test(start_paused = true)]
async fn a_full_node_takes_no_more_than_it_has() {
    let bench = Bench::start(Options::all());
    bench.node("n", "4").await;
    for index in 0..10 {
        bench.create(pod(&format!("p{index}"), "1", &json!({}))).await;
    }
    bench
        .until("four run", || async {
            let pods = bench.pods("default", "").await;
            let bound = pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some()).count();
            let waiting = pods
                .iter()
                .filter(|pod| {
                    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
                    conditions.into_iter().flatten().any(|one| one.reason.as_deref() == Some("Unschedulable"))
                })
                .count();
            assert!(bound <= 4, "{bound} pods on a node with room for four");
            (bound == 4 && waiting == 6).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn other_schedulers_pods_are_left_alone() {
    let bench = Bench::start(Options::all());
    bench.node("n", "4").await;
    bench.create(pod("foreign", "1", &json!({"schedulerName": "mine"}))).await;
    bench.create(pod("ours", "1", &json!({}))).await;
    node_of(&bench, "ours").await;
    let foreign = bench.get(POD, "default", "foreign").await.unwrap();
    assert!(foreign["spec"]["nodeName"].is_null() && condition(&foreign, "PodScheduled").is_none());
}
