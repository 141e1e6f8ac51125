use crate::support::{Bench, DEPLOYMENT, POD, condition, deployment};
use hostler_cluster::Options;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use std::time::Duration;

async fn complete(bench: &Bench, name: &str, replicas: i32) -> Value {
    bench
        .until(&format!("{name} is complete"), || async {
            let found = bench.get(DEPLOYMENT, "default", name).await?;
            let status = &found["status"];
            let done = status["observedGeneration"] == found["metadata"]["generation"]
                && status["updatedReplicas"].as_i64().unwrap_or(0) == i64::from(replicas)
                && status["availableReplicas"].as_i64().unwrap_or(0) == i64::from(replicas)
                && status["replicas"].as_i64().unwrap_or(0) == i64::from(replicas);
            done.then_some(found)
        })
        .await
}

fn replica_set(name: &str, replicas: i32) -> Value {
    let mut set = deployment(name, replicas, "one");
    set["kind"] = json!("ReplicaSet");
    set
}

fn revision(object: &Value) -> &str {
    object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_rolled_out_updated_scaled_and_rolled_back() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    bench.node("n2", "8").await;
    bench.create(deployment("web", 4, "one")).await;
    let found = complete(&bench, "web", 4).await;
    assert_eq!(revision(&found), "1");
    assert_eq!(condition(&found, "Available").unwrap()["reason"], "MinimumReplicasAvailable");
    assert_eq!(condition(&found, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");

    let image = |image: &str| json!({"spec": {"template": crate::support::template("web", image, "100m")}});
    bench.patch(DEPLOYMENT, "default", "web", image("two")).await;
    let found = complete(&bench, "web", 4).await;
    assert_eq!(revision(&found), "2");
    let pods = bench.pods("default", "app=web").await;
    assert!(pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two")));

    bench.patch(DEPLOYMENT, "default", "web", json!({"spec": {"replicas": 7}})).await;
    complete(&bench, "web", 7).await;
    bench.patch(DEPLOYMENT, "default", "web", json!({"spec": {"replicas": 2}})).await;
    complete(&bench, "web", 2).await;

    bench.patch(DEPLOYMENT, "default", "web", image("one")).await;
    let found = complete(&bench, "web", 2).await;
    assert_eq!(revision(&found), "3");
    let sets = bench
        .api("apps/v1", "ReplicaSet", Some("default"))
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    assert_eq!(sets.items.len(), 2, "the first set is used again");

    bench
        .api("apps/v1", "Deployment", Some("default"))
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    bench
        .until("sets and pods are gone", || async {
            let sets = bench
                .api("apps/v1", "ReplicaSet", Some("default"))
                .list(&kube::api::ListParams::default())
                .await
                .unwrap();
            (sets.items.is_empty() && bench.pods("default", "app=web").await.is_empty()).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_does_not_get_ready_times_out_and_keeps_the_old_pods() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    let mut web = deployment("web", 3, "one");
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    bench.create(web).await;
    complete(&bench, "web", 3).await;
    let broken = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "broken"}]}}}});
    bench.patch(DEPLOYMENT, "default", "web", broken).await;
    let found = bench
        .until("the rollout times out", || async {
            let found = bench.get(DEPLOYMENT, "default", "web").await?;
            let reason = condition(&found, "Progressing")?["reason"].clone();
            (reason == "ProgressDeadlineExceeded").then_some(found)
        })
        .await;
    assert_eq!(found["status"]["availableReplicas"], 3);
    assert_eq!(condition(&found, "Available").unwrap()["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_what_is_lost_and_adopts_what_matches() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    bench
        .create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stray", "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "one"}]}
        }))
        .await;
    bench.create(replica_set("web", 2)).await;
    let ready = |count: i64| {
        let bench = &bench;
        async move {
            bench
                .until("replicas are ready", || async {
                    let set = bench.get(("apps/v1", "ReplicaSet"), "default", "web").await?;
                    (set["status"]["readyReplicas"].as_i64() == Some(count)).then_some(())
                })
                .await;
        }
    };
    ready(2).await;
    let pods = bench.pods("default", "app=web").await;
    assert_eq!(pods.len(), 2, "the stray one was adopted");
    assert!(
        pods.iter().all(|pod| pod.metadata.owner_references.as_ref().is_some_and(|owners| owners.len() == 1))
    );
    let api = bench.api("v1", "Pod", Some("default"));
    api.delete("stray", &DeleteParams::default()).await.unwrap();
    bench
        .until("the lost one is replaced", || async {
            let pods = bench.pods("default", "app=web").await;
            let lost = pods.iter().any(|pod| pod.metadata.name.as_deref() == Some("stray"));
            (pods.len() == 2 && !lost).then_some(())
        })
        .await;
    ready(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_leaving_is_replaced_before_it_is_gone() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    bench.create(replica_set("web", 2)).await;
    bench
        .until("two pods", || async { (bench.pods("default", "app=web").await.len() == 2).then_some(()) })
        .await;
    let leaver = bench.pods("default", "app=web").await[0].metadata.name.clone().unwrap();
    bench.patch(POD, "default", &leaver, json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
    bench.api("v1", "Pod", Some("default")).delete(&leaver, &DeleteParams::default()).await.unwrap();
    bench
        .until("another one is there", || async {
            let pods = bench.pods("default", "app=web").await;
            let leaving = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
            (pods.len() == 3 && leaving == 1).then_some(())
        })
        .await;
    bench
        .until("the one that is leaving does not count", || async {
            let set = bench.get(("apps/v1", "ReplicaSet"), "default", "web").await?;
            let status = &set["status"];
            (status["replicas"] == 2 && status["readyReplicas"] == 2).then_some(())
        })
        .await;
    bench.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.pods("default", "app=web").await.len(), 3, "one is enough");
}

#[tokio::test(start_paused = true)]
async fn what_was_made_counts_before_the_watch_shows_it() {
    let bench = Bench::lagging(Options::all(), "/api/v1/pods", Duration::from_millis(500));
    bench.node("n1", "8").await;
    bench.create(replica_set("web", 3)).await;
    bench
        .until("all are ready", || async {
            let set = bench.get(("apps/v1", "ReplicaSet"), "default", "web").await?;
            (set["status"]["readyReplicas"] == 3).then_some(())
        })
        .await;
    assert_eq!(bench.created("/api/v1/namespaces/default/pods"), 3);
}
