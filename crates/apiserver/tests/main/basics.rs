use crate::kit::{Raw, server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test(start_paused = true)]
async fn an_object_lives_and_dies() {
    let raw = Raw::new(&server());
    let (code, created) = raw.json("POST", MAPS, &map("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(raw.json("POST", MAPS, &map("a")).await.1["reason"], "AlreadyExists");
    let path = format!("{MAPS}/a");
    let (_, patched) = raw.merge(&path, &json!({"data": {"b": "2"}})).await;
    assert_eq!(patched["data"], json!({"a": "1", "b": "2"}));
    assert_ne!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let (code, stale) = raw.json("PUT", &path, &created).await;
    assert_eq!((code, &stale["reason"]), (409, &json!("Conflict")), "{stale}");
    let (_, same) = raw.merge(&path, &json!({"data": {"b": "2"}})).await;
    assert_eq!(same["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);
    let (code, status) = raw.delete(&path).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    assert_eq!(raw.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_back() {
    let raw = Raw::new(&server());
    let mut object = map("a");
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    raw.json("POST", MAPS, &object).await;
    let path = format!("{MAPS}/a");
    let (code, waiting) = raw.delete(&path).await;
    assert_eq!(code, 200);
    assert_eq!(waiting["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(raw.get(&path).await.0, 200);
    raw.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(raw.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_and_dry_runs_leave_nothing() {
    let raw = Raw::new(&server());
    let object = json!({"metadata": {"generateName": "x-"}});
    let (code, created) = raw.json("POST", MAPS, &object).await;
    assert_eq!(code, 201);
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 7);
    let (code, tried) = raw.json("POST", &format!("{MAPS}?dryRun=All"), &map("dry")).await;
    assert_eq!((code, &tried["metadata"]["resourceVersion"]), (201, &Value::Null));
    assert_eq!(raw.get(&format!("{MAPS}/dry")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_one_moment() {
    let server = server();
    let raw = Raw::new(&server);
    for name in ["a", "b", "c"] {
        raw.json("POST", MAPS, &map(name)).await;
    }
    let (_, first) = raw.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    raw.delete(&format!("{MAPS}/c")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = raw.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    server.compact();
    let (code, expired) = raw.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = raw.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((code, rest["items"].as_array().unwrap().len()), (200, 0));
}
