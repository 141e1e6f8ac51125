//! Whatever is sent, the answer is an object or a Status: requests built from discovery, by chance.

use crate::kit::{Raw, server};
use hostler_base::Chance;
use serde_json::{Map, Value, json};

const REQUESTS: usize = 20_000;

/// Values that are at home nowhere and possible everywhere.
fn value(chance: &Chance, depth: usize) -> Value {
    match chance.below(if depth == 0 { 9 } else { 12 }) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1.5e300),
        5 => json!(""),
        6 => json!("a"),
        7 => json!("2026-01-01T00:00:00Z"),
        8 => json!("\u{0}\u{ffff}💥"),
        9 => Value::Array((0..chance.below(3)).map(|_| value(chance, depth - 1)).collect()),
        _ => object(chance, depth - 1),
    }
}

const FIELDS: [&str; 40] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "spec",
    "status",
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "containers",
    "image",
    "conditions",
    "type",
    "data",
    "stringData",
    "rules",
    "subjects",
    "roleRef",
    "versions",
    "schema",
    "openAPIV3Schema",
    "group",
    "names",
    "plural",
    "target",
    "propagationPolicy",
    "preconditions",
    "items",
    "$patch",
];

fn object(chance: &Chance, depth: usize) -> Value {
    let count = chance.below(4);
    let fields = (0..count).map(|_| {
        let field = FIELDS[chance.below(FIELDS.len())].to_owned();
        (field, value(chance, depth))
    });
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Mostly of the right kind, so that requests get past the first door.
fn body(chance: &Chance, api_version: &str, kind: &str, name: &str) -> Vec<u8> {
    let mut body = object(chance, 4);
    if chance.hit(0.8) {
        body["apiVersion"] = json!(api_version);
        body["kind"] = json!(kind);
    }
    if chance.hit(0.8) {
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        body["metadata"]["name"] = json!(name);
    }
    let mut bytes = match chance.below(12) {
        0 => return Vec::new(),
        1 => value(chance, 3).to_string().into_bytes(),
        2 => json!([{"op": "add", "path": "/metadata/labels", "value": value(chance, 2)}])
            .to_string()
            .into_bytes(),
        3 => [b"k8s\0".to_vec(), body.to_string().into_bytes()].concat(),
        _ => body.to_string().into_bytes(),
    };
    if chance.hit(0.1) {
        bytes.truncate(chance.below(bytes.len()));
    }
    bytes
}

struct Entry {
    base: String,
    api_version: String,
    kind: String,
    namespaced: bool,
    resource: String,
}

async fn kinds(raw: &Raw) -> Vec<Entry> {
    let (_, groups) = raw.get("/apis").await;
    let versions =
        groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
    let mut places = vec![("/api/v1".to_owned(), "v1".to_owned())];
    places.extend(versions.map(|version| {
        let name = version["groupVersion"].as_str().unwrap();
        (format!("/apis/{name}"), name.to_owned())
    }));
    let mut kinds = Vec::new();
    for (base, api_version) in places {
        let (_, list) = raw.get(&base).await;
        for resource in list["resources"].as_array().unwrap() {
            kinds.push(Entry {
                base: base.clone(),
                api_version: api_version.clone(),
                kind: resource["kind"].as_str().unwrap().to_owned(),
                namespaced: resource["namespaced"] == true,
                resource: resource["name"].as_str().unwrap().to_owned(),
            });
        }
    }
    kinds
}

const QUERIES: [&str; 16] = [
    "dryRun=All",
    "dryRun=x",
    "limit=1",
    "limit=-1",
    "limit=x",
    "continue=x",
    "resourceVersion=1",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "labelSelector=a%3Db",
    "labelSelector=%21",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=x%3Dy",
    "fieldValidation=Strict",
    "propagationPolicy=Foreground",
    "timeoutSeconds=1&watch=true",
];

fn path(chance: &Chance, kind: &Entry, name: &str) -> String {
    let scope = if kind.namespaced && chance.hit(0.95) { "/namespaces/default" } else { "" };
    let (resource, sub) = kind.resource.split_once('/').unwrap_or((&kind.resource, ""));
    let mut path = format!("{}{scope}/{resource}", kind.base);
    if chance.hit(0.6) || !sub.is_empty() {
        path = format!("{path}/{name}");
    }
    if !sub.is_empty() {
        path = format!("{path}/{sub}");
    }
    let queries: Vec<&str> = (0..chance.below(3)).map(|_| QUERIES[chance.below(QUERIES.len())]).collect();
    if queries.is_empty() { path } else { format!("{path}?{}", queries.join("&")) }
}

#[tokio::test(start_paused = true)]
async fn every_request_is_answered_by_an_object_or_a_status() {
    let raw = Raw::new(&server());
    let chance = Chance::from_seed(7);
    let kinds = kinds(&raw).await;
    let methods = ["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS"];
    let types = [
        "application/json",
        "application/json",
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let accepts = [
        "application/json",
        "*/*",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "text/html",
    ];
    let (mut done, mut refused) = (0, 0);
    for _ in 0..REQUESTS {
        let kind = &kinds[chance.below(kinds.len())];
        let name = ["a", "b", "c", "A!", "default"][chance.below(5)];
        let path = path(&chance, kind, name);
        let method = methods[chance.below(methods.len())];
        let media =
            if method == "PATCH" { types[6 + chance.below(4)] } else { types[chance.below(types.len())] };
        let accept = if chance.hit(0.8) { "application/json" } else { accepts[chance.below(accepts.len())] };
        let body = body(&chance, &kind.api_version, &kind.kind, name);
        let (code, answer) =
            raw.send(method, &path, &[("content-type", media), ("accept", accept)], body).await;
        assert_ne!(code, 0);
        if answer["kind"] == "Status" {
            assert_eq!(answer["apiVersion"], "v1");
            refused += usize::from(answer["status"] == "Failure");
            if answer["status"] == "Failure" {
                assert_eq!(answer["code"], code, "{method} {path}: {answer}");
                assert!(
                    !answer["message"].as_str().unwrap_or_default().is_empty(),
                    "{method} {path}: {answer}"
                );
            }
        } else if !path.contains("watch=true") && code != 204 {
            assert!(answer["kind"].is_string(), "{method} {path} answered {code}: {answer}");
            done += 1;
        }
    }
    // Both sides of every door were seen.
    assert!(done > REQUESTS / 50 && refused > REQUESTS / 10, "{done} answered, {refused} refused");
}
