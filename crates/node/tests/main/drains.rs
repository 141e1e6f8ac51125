use crate::stage::{Stage, deployment, template};
use hostler_node::Node;
use hostler_sim::{Break, Fault, Plan, csi::CsiSettings, hollow::STOP_AFTER};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use std::time::Duration;

fn plan() -> Plan {
    Plan::seeded(1)
}

async fn running(stage: &mut Stage, count: usize) {
    stage
        .until("all pods run", async |stage| {
            stage.list::<Pod>().await.iter().filter(|pod| crate::stage::is_ready(pod)).count() == count
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_leave_and_those_of_the_node_stay() {
    let mut stage = Stage::new(plan(), CsiSettings::default(), &["one", "two"]).await;
    stage.create(deployment("web", 4, json!({}))).await;
    let mut daemon = deployment("agent", 1, json!({}));
    daemon["kind"] = json!("DaemonSet");
    daemon["spec"].as_object_mut().unwrap().remove("replicas");
    stage.create(daemon).await;
    let mut mirror = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "proxy", "namespace": "default",
        "annotations": {"kubernetes.io/config.mirror": "x"}}});
    mirror["spec"] = template("proxy", json!({}))["spec"].clone();
    mirror["spec"]["nodeName"] = json!("one");
    stage.create(mirror).await;
    running(&mut stage, 7).await;
    assert!(stage.pods_on("one").await.len() > 2, "nothing to drain");
    stage.order("one").await;
    assert_eq!(stage.until_done("one").await, "drained");
    let mut left = stage.pods_on("one").await;
    left.retain(|name| !name.starts_with("agent-") && name != "proxy");
    assert_eq!(left, [""; 0]);
    assert_eq!(stage.pods_on("one").await.len(), 2, "the agent and the mirror pod stay");
    let node = Api::<Node>::all(stage.admin.clone()).get("one").await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    let conditions = node.status.unwrap().conditions.unwrap();
    let going = conditions.iter().find(|one| one.type_ == "Terminating").unwrap();
    assert_eq!((going.status.as_str(), going.reason.as_deref()), ("True", Some("ScaleDown")));
    assert!(conditions.iter().any(|one| one.type_ == "Ready"), "what the kubelet says stays");
    let other = Api::<Node>::all(stage.admin.clone()).get("two").await.unwrap();
    assert_eq!(other.spec.unwrap().unschedulable, None);
}

/// One node with pods that take most of an hour to stop.
async fn with_slow_pods(pods: u32) -> Stage {
    let mut stage = Stage::new(plan(), CsiSettings::default(), &["one"]).await;
    let mut slow = deployment("slow", pods, json!({STOP_AFTER: "3000"}));
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    stage.create(slow).await;
    running(&mut stage, pods as usize).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_grace_periods_and_can_be_forced_meanwhile() {
    let stage = with_slow_pods(2).await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_mins(10)).await;
    assert_eq!(stage.done("one").await, None);
    assert_eq!(stage.waits("one").await, "PodsLeaving: pods are leaving node one");
    assert_eq!(stage.pods_on("one").await.len(), 2);
    stage.force("one").await;
    stage.world.run_for(Duration::from_secs(3)).await;
    assert_eq!(stage.done("one").await.as_deref(), Some("forced: it was asked for"));
    assert_eq!(stage.pods_on("one").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_takes_too_long_is_forced_on_time() {
    let stage = with_slow_pods(1).await;
    stage.order_within("one", 90).await;
    stage.world.run_for(Duration::from_secs(85)).await;
    assert_eq!(stage.done("one").await, None);
    stage.world.run_for(Duration::from_secs(8)).await;
    assert_eq!(stage.done("one").await.as_deref(), Some("forced: the drain timeout is over"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_for_long_is_not_waited_for() {
    let mut stage = Stage::new(plan(), CsiSettings::default(), &["one"]).await;
    let mut web = deployment("web", 1, json!({}));
    // It is not evicted by the cluster itself.
    web["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    stage.create(web).await;
    running(&mut stage, 1).await;
    stage.nodes.silence("one");
    stage.order("one").await;
    stage.world.run_for(Duration::from_mins(4)).await;
    assert_eq!(stage.done("one").await, None);
    assert_eq!(stage.until_done("one").await, "forced: the node is NotReady for over 5min");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_ends_its_drain_without_any_pod_being_waited_for() {
    let stage = with_slow_pods(1).await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_secs(5)).await;
    stage.nodes.shutdown("one");
    let nodes = Api::<Node>::all(stage.admin.clone());
    nodes.delete("one", &DeleteParams::default()).await.unwrap();
    stage.world.run_for(Duration::from_secs(30)).await;
    assert_eq!(stage.calls("POST", "/eviction"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_undone_is_done_again() {
    let stage = with_slow_pods(1).await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_mins(1)).await;
    let nodes = Api::<Node>::all(stage.admin.clone());
    let uncordon = kube::api::Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes.patch("one", &kube::api::PatchParams::default(), &uncordon).await.unwrap();
    stage.world.run_for(Duration::from_secs(5)).await;
    assert_eq!(nodes.get("one").await.unwrap().spec.unwrap().unschedulable, Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_watch_has_shown_is_not_overlooked() {
    // The controller's watch of pods is silently dead from the beginning; that is noticed after half a minute.
    let plan = plan().fault_when(|boundary, _| {
        let pods =
            boundary.actor == "drainer" && boundary.verb == "WATCH" && boundary.template.ends_with("/pods");
        (pods && boundary.nth == 1).then_some(Fault::Watch { after: 0, then: Break::Dead })
    });
    let mut stage = Stage::new(plan, CsiSettings::default(), &["one", "two"]).await;
    stage.world.run_for(Duration::from_secs(2)).await;
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "default"}});
    pod["spec"] = template("late", json!({}))["spec"].clone();
    pod["spec"]["nodeName"] = json!("one");
    stage.create(pod).await;
    stage.order("one").await;
    stage.world.run_for(Duration::from_secs(5)).await;
    assert_eq!(stage.done("one").await, None, "it is not empty");
    assert_eq!(
        stage.waits("one").await,
        "PodsUnseen: whether pods are left on node one is not clear: default/late is there"
    );
    assert_eq!(stage.until_done("one").await, "drained");
    assert_eq!((stage.pods_on("one").await, stage.calls("POST", "/eviction")), (Vec::new(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_elsewhere_is_left_alone() {
    use hostler_controller::{Key, Metrics, Queue, QueueOptions, Watch, WatchOptions};
    use hostler_node::{Act, Drainer, Limits, Order, Parts, PodId, Removal, Remove};
    let mut stage = Stage::without_controller(plan(), CsiSettings::default(), &["one"]).await;
    stage.create(crate::stage::stateful_set("db", 1)).await;
    running(&mut stage, 1).await;
    let (clock, chance, metrics) = (stage.world.clock().clone(), stage.world.chance("x"), Metrics::new());
    let nodes = Watch::<Node>::all(
        stage.admin.clone(),
        WatchOptions::default(),
        clock.clone(),
        &chance,
        metrics.clone(),
    );
    let queue = Queue::new(QueueOptions::new("x"), clock.clone(), &chance, metrics.clone());
    let (client, evictions) = (stage.admin.clone(), stage.admin.clone());
    let parts =
        Parts { client, evictions, nodes: nodes.cache(), queue, clock, chance, metrics: metrics.clone() };
    let (drainer, _) = Drainer::new(parts);
    let order = Order {
        key: Key::new("Node", "", "old"),
        node: "old".into(),
        is_meant: std::sync::Arc::new(|_| true),
        since: stage.world.clock().now(),
        limits: Limits::default(),
        force: false,
        mark: None,
        volumes: None,
        leave_ended: false,
    };
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), "default");
    let before = pods.get("db-0").await.unwrap();
    drainer.look(&order);
    for how in [Remove::Evict, Remove::Delete] {
        let pod = PodId { namespace: "default".into(), name: "db-0".into(), uid: "of-an-earlier-one".into() };
        drainer.act(&order, &Act::Remove(vec![Removal { pod, how, share: None }])).await;
        let now = pods.get("db-0").await.unwrap();
        assert_eq!((now.uid(), now.metadata.deletion_timestamp), (before.uid(), None), "{how:?}");
    }
    let text = metrics.text();
    for how in ["evict", "delete"] {
        let line = format!("hostler_drain_removals_total{{how=\"{how}\",result=\"conflict\"}} 1");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
