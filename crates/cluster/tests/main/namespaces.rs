use crate::support::{Bench, POD, condition, deployment, widgets};
use hostler_cluster::Options;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: (&str, &str) = ("v1", "Namespace");

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_everything_in_it_is_gone() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    bench.create(widgets()).await;
    bench.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    let mut web = deployment("web", 3, "one");
    web["metadata"]["namespace"] = json!("team");
    bench.create(web).await;
    let widget = |name: &str, finalizers: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "team", "finalizers": finalizers}})
    };
    bench
        .until("widgets are served", || async {
            let api = bench.api("example.com/v1", "Widget", Some("team"));
            api.list(&kube::api::ListParams::default()).await.ok().map(|_| ())
        })
        .await;
    bench.create(widget("free", json!([]))).await;
    bench.create(widget("held", json!(["example.com/held"]))).await;
    bench
        .until("pods run", || async { (bench.pods("team", "app=web").await.len() == 3).then_some(()) })
        .await;

    bench.api("v1", "Namespace", None).delete("team", &DeleteParams::default()).await.unwrap();
    bench.clock.sleep(Duration::from_secs(60)).await;
    let team = bench.get(NAMESPACE, "", "team").await.expect("it waits for the widget that is held");
    assert_eq!(team["status"]["phase"], "Terminating");
    let left = condition(&team, "NamespaceContentRemaining").unwrap();
    assert_eq!(left["message"], "Some resources are remaining: widgets.example.com has 1 resource instances");
    let held = condition(&team, "NamespaceFinalizersRemaining").unwrap();
    assert_eq!(
        held["message"],
        "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances"
    );
    assert!(bench.pods("team", "").await.is_empty());
    assert!(bench.get(("apps/v1", "Deployment"), "team", "web").await.is_none());

    bench
        .patch(("example.com/v1", "Widget"), "team", "held", json!({"metadata": {"finalizers": null}}))
        .await;
    bench.until_gone(NAMESPACE, "", "team").await;
}

#[tokio::test(start_paused = true)]
async fn pods_end_before_what_they_may_still_need() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    let within = |kind: &str, name: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}});
        for (key, value) in more.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    bench.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    bench.create(within("ConfigMap", "settings", json!({}))).await;
    let mut pod = within("Pod", "worker", json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pod["metadata"]["finalizers"] = json!(["example.com/held"]);
    bench.create(pod).await;

    bench.api("v1", "Namespace", None).delete("team", &DeleteParams::default()).await.unwrap();
    bench.clock.sleep(Duration::from_secs(30)).await;
    let pod = bench.get(POD, "team", "worker").await.expect("the pod is held");
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let settings = bench.get(("v1", "ConfigMap"), "team", "settings").await.expect("it waits for the pod");
    assert_eq!(settings["metadata"]["deletionTimestamp"], Value::Null);
    bench.patch(POD, "team", "worker", json!({"metadata": {"finalizers": null}})).await;
    bench.until_gone(NAMESPACE, "", "team").await;
}
