use crate::kit::{Raw, client, server};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
    runtime::watcher,
};
use serde_json::json;
use tokio::time::Instant;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn the_watcher_of_kube_follows_changes() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for streaming in [false, true] {
        let config = watcher::Config::default();
        let config = if streaming { config.streaming_lists() } else { config };
        let mut events = watcher(maps.clone(), config).boxed();
        let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        loop {
            if matches!(events.try_next().await.unwrap().unwrap(), watcher::Event::InitDone) {
                break;
            }
        }
        maps.create(&PostParams::default(), &object).await.unwrap();
        let Some(watcher::Event::Apply(seen)) = events.try_next().await.unwrap() else { panic!("no change") };
        assert_eq!(seen.name_any(), "a");
        maps.delete("a", &DeleteParams::default()).await.unwrap();
        assert!(matches!(events.try_next().await.unwrap(), Some(watcher::Event::Delete(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_a_selection_is_a_deletion() {
    let raw = Raw::new(&server());
    let mut watch = raw.watch(&format!("{MAPS}?watch=1&labelSelector=a%3D1")).await;
    raw.json("POST", MAPS, &json!({"metadata": {"name": "x", "labels": {"a": "1"}}})).await;
    assert_eq!(watch.brief().await.unwrap().0, "ADDED");
    let (_, changed) = raw.merge(&format!("{MAPS}/x"), &json!({"metadata": {"labels": {"a": "2"}}})).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["a"], "1");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn watches_end_and_tell_when_they_are_too_old() {
    let server = server();
    let raw = Raw::new(&server);
    let mut short = raw.watch(&format!("{MAPS}?watch=1&timeoutSeconds=5")).await;
    assert!(short.next().await.is_none());
    let mut open = raw.watch(&format!("{MAPS}?watch=1")).await;
    let before = server.revision();
    raw.json("POST", MAPS, &json!({"metadata": {"name": "x"}})).await;
    assert_eq!(open.brief().await.unwrap().0, "ADDED");
    server.restart();
    assert!(open.next().await.is_none());
    let mut old = raw.watch(&format!("{MAPS}?watch=1&resourceVersion={before}")).await;
    let event = old.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(old.next().await.is_none());
}

/// A client goes on from the last bookmark after a break: it has to move on, also while only other kinds change.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_a_bookmark_every_minute() {
    let server = server();
    let raw = Raw::new(&server);
    let start = server.revision();
    let secrets = "/api/v1/namespaces/default/secrets";
    let mut watch = raw.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=600")).await;
    let begun = Instant::now();
    let (mut versions, mut seconds) = (vec![start], Vec::new());
    while let Some(event) = watch.next().await {
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
        let version =
            event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(version, server.revision(), "all that happened is behind it");
        versions.push(version);
        seconds.push(begun.elapsed().as_secs());
        let name = format!("s{version}");
        assert_eq!(raw.json("POST", secrets, &json!({"metadata": {"name": name}})).await.0, 201);
    }
    assert_eq!(seconds, [60, 120, 180, 240, 300, 360, 420, 480, 540, 598]);
    assert!(versions[1..].is_sorted_by(|one, next| one < next), "{versions:?}");
    assert_eq!(begun.elapsed().as_secs(), 600);

    let mut silent = raw.watch(&format!("{MAPS}?watch=1&timeoutSeconds=600")).await;
    assert!(silent.next().await.is_none(), "nobody asked for bookmarks");
}
