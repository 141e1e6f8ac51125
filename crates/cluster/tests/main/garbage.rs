use crate::support::{Bench, widgets};
use hostler_cluster::Options;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};
use std::time::Duration;

const MAP: (&str, &str) = ("v1", "ConfigMap");

fn map(name: &str, owners: &[&DynamicObject]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let types = owner.types.as_ref().unwrap();
            json!({
                "apiVersion": types.api_version, "kind": types.kind, "name": owner.metadata.name,
                "uid": owner.metadata.uid, "blockOwnerDeletion": true
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})
}

async fn chain(bench: &Bench) -> DynamicObject {
    let top = bench.create(map("top", &[])).await;
    let middle = bench.create(map("middle", &[&top])).await;
    bench.create(map("bottom", &[&middle])).await;
    top
}

async fn delete(bench: &Bench, name: &str, parameters: &DeleteParams) {
    bench.api("v1", "ConfigMap", Some("default")).delete(name, parameters).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_in_the_background() {
    let bench = Bench::start(Options::all());
    chain(&bench).await;
    delete(&bench, "top", &DeleteParams::background()).await;
    assert!(bench.get(MAP, "default", "top").await.is_none(), "the owner goes at once");
    bench.until_gone(MAP, "default", "bottom").await;
    bench.until_gone(MAP, "default", "middle").await;
}

#[tokio::test(start_paused = true)]
async fn dependents_go_first_in_the_foreground() {
    let bench = Bench::start(Options::all());
    let top = chain(&bench).await;
    let mut held = map("held", &[&top]);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    bench.create(held).await;
    delete(&bench, "top", &DeleteParams::foreground()).await;
    bench.until_gone(MAP, "default", "middle").await;
    assert!(bench.get(MAP, "default", "bottom").await.is_none(), "what the dependent owns goes before it");
    bench.clock.sleep(Duration::from_secs(60)).await;
    let top = bench.get(MAP, "default", "top").await.expect("the owner waits for the one that is held");
    assert_eq!(top["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    bench.patch(MAP, "default", "held", json!({"metadata": {"finalizers": null}})).await;
    bench.until_gone(MAP, "default", "top").await;
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_lose_their_owner() {
    let bench = Bench::start(Options::all());
    chain(&bench).await;
    delete(&bench, "top", &DeleteParams::orphan()).await;
    bench.until_gone(MAP, "default", "top").await;
    bench.clock.sleep(Duration::from_secs(10)).await;
    let middle = bench.get(MAP, "default", "middle").await.expect("the dependent stays");
    assert!(middle["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
    assert!(bench.get(MAP, "default", "bottom").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn one_owner_is_enough_to_stay() {
    let bench = Bench::start(Options::all());
    let one = bench.create(map("one", &[])).await;
    let two = bench.create(map("two", &[])).await;
    bench.create(map("child", &[&one, &two])).await;
    delete(&bench, "one", &DeleteParams::background()).await;
    bench
        .until("the reference to the lost owner is gone", || async {
            let child = bench.get(MAP, "default", "child").await.expect("the child stays");
            (child["metadata"]["ownerReferences"].as_array()?.len() == 1).then_some(())
        })
        .await;
    delete(&bench, "two", &DeleteParams::background()).await;
    bench.until_gone(MAP, "default", "child").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_is_as_good_as_gone() {
    let bench = Bench::start(Options::all());
    let mut ghost = bench.create(map("ghost", &[])).await;
    ghost.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    bench.create(map("child", &[&ghost])).await;
    bench.until_gone(MAP, "default", "child").await;
    assert!(bench.get(MAP, "default", "ghost").await.is_some());
}

async fn until_served(bench: &Bench) {
    let served = || async {
        let api = bench.api("example.com/v1", "Widget", Some("default"));
        api.list(&kube::api::ListParams::default()).await.ok().map(|_| ())
    };
    bench.until("widgets are served", served).await;
}

#[tokio::test(start_paused = true)]
async fn custom_objects_own_and_are_owned() {
    let bench = Bench::start(Options::all());
    bench.create(widgets()).await;
    let widget = |name: &str, owners: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})
    };
    until_served(&bench).await;
    let owner = bench.create(widget("owner", json!([]))).await;
    bench.create(map("owned", &[&owner])).await;
    let owners = map("x", &[&owner])["metadata"]["ownerReferences"].clone();
    bench.create(widget("child", owners)).await;
    bench.clock.sleep(Duration::from_secs(5)).await;
    assert!(bench.get(MAP, "default", "owned").await.is_some());
    let api = bench.api("example.com/v1", "Widget", Some("default"));
    api.delete("owner", &DeleteParams::background()).await.unwrap();
    bench.until_gone(MAP, "default", "owned").await;
    bench.until_gone(("example.com/v1", "Widget"), "default", "child").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_kinds_that_are_not_listed_yet() {
    let path = "/apis/example.com/v1/widgets";
    let bench = Bench::slow_to_list(Options::all(), path, Duration::from_secs(5));
    bench.clock.sleep(Duration::from_secs(2)).await;
    bench.create(widgets()).await;
    until_served(&bench).await;
    for (owner, parameters) in [("ahead", DeleteParams::foreground()), ("alone", DeleteParams::orphan())] {
        let top = bench.create(map(owner, &[])).await;
        let mut widget = map(owner, &[&top]);
        widget["apiVersion"] = json!("example.com/v1");
        widget["kind"] = json!("Widget");
        bench.create(widget).await;
        delete(&bench, owner, &parameters).await;
    }
    let widget = ("example.com/v1", "Widget");
    bench.until_gone(MAP, "default", "ahead").await;
    assert!(bench.get(widget, "default", "ahead").await.is_none(), "the dependent goes first");
    bench.until_gone(MAP, "default", "alone").await;
    let orphan = bench.get(widget, "default", "alone").await.expect("the orphan stays");
    assert!(orphan["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
}
