//! Twenty thousand requests nobody would send on purpose, built from what the server's own discovery names.
//! Each is answered by a Status, an object, a list, a table or a document of discovery; nothing panics, hangs or
//! grows without bound. `HOSTLER_SEED` repeats a run.

use crate::{
    kit::{Raw, server},
    noise::{Noise, Prepared},
};
use bytes::Bytes;
use futures::FutureExt;
use hostler_base::{Chance, transport};
use hostler_sim::{MachineSpec, World};
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{env, panic::AssertUnwindSafe, process::Command, time::Duration};
use tower::ServiceExt;

const REQUESTS: usize = 20_000;
const SEED: u64 = 3;

/// More frames than any watch of a few seconds has.
const MOST_FRAMES: usize = 2_000;

/// How much the second half of the requests may add to the process. History and objects are bounded, bodies are let
/// go: after the first half the most that is ever needed has nearly been seen.
const MOST_GROWTH: u64 = 64 * 1024 * 1024;

/// Set in a process that has nothing to do but one test.
const ALONE: &str = "HOSTLER_TEST_ALONE";

/// A resource or subresource as discovery names it.
pub(crate) struct Offer {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

async fn discover(raw: &Raw) -> Vec<Offer> {
    let mut roots = vec![("/api/v1".to_owned(), String::new(), "v1".to_owned())];
    let (_, groups) = raw.get("/apis").await;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let path = format!("/apis/{}", text(&version["groupVersion"]));
            roots.push((path, text(&group["name"]), text(&version["version"])));
        }
    }
    let mut offers = Vec::new();
    for (path, group, version) in roots {
        let (code, list) = raw.get(&path).await;
        assert_eq!(code, 200, "{path}");
        for resource in list["resources"].as_array().unwrap() {
            offers.push(Offer {
                group: group.clone(),
                version: version.clone(),
                name: resource["name"].as_str().unwrap().to_owned(),
                kind: resource["kind"].as_str().unwrap().to_owned(),
                namespaced: resource["namespaced"].as_bool().unwrap(),
                verbs: serde_json::from_value(resource["verbs"].clone()).unwrap(),
            });
        }
    }
    offers
}

fn definition(plural: &str, kind: &str, scope: &str) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "default": 1, "minimum": 0},
                "size": {"x-kubernetes-int-or-string": true},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "ports": {
                    "type": "array", "maxItems": 20, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string", "maxLength": 20}, "port": {"type": "integer"},
                    }},
                },
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.mode) || self.replicas < 100", "message": "too many for a mode"},
                {"rule": "!has(oldSelf.mode) || has(self.mode)", "message": "the mode stays"},
                {"rule": "!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q.name == p.name))"},
            ],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let subresources = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
    }});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}, "subresources": subresources});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.noise.example.com")},
        "spec": {
            "group": "noise.example.com", "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
    cut_off: bool,
}

/// Sends a request and reads the answer. A watch ends by itself after the seconds it asked for.
async fn ask(raw: &Raw, prepared: &Prepared) -> Result<Answer, String> {
    let method: Method = prepared.method.parse().map_err(|error| format!("{error}"))?;
    let mut request = Request::builder().method(method).uri(&prepared.target);
    for (name, value) in &prepared.headers {
        request = request.header(name.as_str(), value.as_str());
    }
    let request = request.body(transport::full(prepared.body.clone())).map_err(|error| error.to_string())?;
    let response = raw.0.clone().oneshot(request).await.map_err(|error| format!("no answer: {error}"))?;
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the body broke off: {error}"))?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        frames += 1;
        if frames > MOST_FRAMES {
            break;
        }
    }
    Ok(Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: bytes.into(),
        cut_off: frames > MOST_FRAMES,
    })
}

/// Why an answer is none, if it is none.
fn fault(prepared: &Prepared, answer: &Answer) -> Option<String> {
    let text = String::from_utf8_lossy(&answer.body);
    let shown: String = text.chars().take(300).collect();
    if answer.cut_off {
        return Some("the answer has no end".to_owned());
    }
    let content =
        answer.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if prepared.method == "HEAD" {
        return (!answer.body.is_empty()).then(|| "a body for HEAD".to_owned());
    }
    if answer.code == 204 {
        // The log of a pod that never ran.
        return (!answer.body.is_empty()).then(|| "a body where there is none".to_owned());
    }
    if content.starts_with("text/plain") {
        let plain = ["/healthz", "/livez", "/readyz", "/metrics"]
            .iter()
            .any(|path| prepared.target.starts_with(path));
        return (!plain).then(|| format!("plain text: {shown}"));
    }
    if content.starts_with("application/yaml") {
        return text.trim().is_empty().then(|| "an empty YAML document".to_owned());
    }
    if !content.starts_with("application/json") {
        return Some(format!("content type {content:?}, code {}: {shown}", answer.code));
    }
    let mut documents = 0;
    for document in serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>() {
        let Ok(document) = document else { return Some(format!("no JSON: {shown}")) };
        documents += 1;
        if let Some(fault) = document_fault(prepared, answer.code, &document) {
            return Some(format!("{fault}: {shown}"));
        }
    }
    let watched = prepared.target.contains("watch");
    (documents != 1 && !watched).then(|| format!("{documents} documents: {shown}"))
}

fn document_fault(prepared: &Prepared, code: u16, document: &Value) -> Option<String> {
    let is_refusal = document["kind"] == "Status" && document["status"] == "Failure";
    if is_refusal {
        if document["apiVersion"] != "v1" {
            return Some("a Status of no version".to_owned());
        }
        if document["code"] != code {
            return Some(format!("a Status of another code than {code}"));
        }
        if document["message"].as_str().unwrap_or_default().is_empty() {
            return Some("a Status without a message".to_owned());
        }
        // A real server answers some mistakes with 500 and no reason; trouble of its own is an `InternalError`.
        let trouble = document["reason"] == "InternalError"
            && !document["message"].as_str().unwrap_or_default().contains("the spec replicas field");
        return trouble.then(|| "an internal error".to_owned());
    }
    if code >= 400 {
        return Some(format!("code {code} without a Status"));
    }
    let event = document.get("type").is_some() && document.get("object").is_some();
    let object = document["kind"].is_string() && document["apiVersion"].is_string();
    let path = prepared.target.split('?').next().unwrap_or_default();
    let open = path == "/" || path == "/api" || path.starts_with("/version") || path.starts_with("/openapi");
    (!event && !object && !open).then(|| "neither object nor list nor Status".to_owned())
}

/// Memory of this process; zero where it cannot be asked for.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// Only the memory of a whole process can be asked for: what looks at it runs in one of its own. True there.
fn is_alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = Command::new(env::current_exe().unwrap());
    let alone = alone.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&alone.stdout);
    println!("{told}");
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    assert!(told.contains("1 passed"), "there is no test {test}");
    false
}

/// Fails if the process has grown much since it had this size.
fn has_hardly_grown(since: u64) {
    let (now, mebibyte) = (resident(), 1024 * 1024);
    println!("{} MiB after one half, {} MiB after the other", since / mebibyte, now / mebibyte);
    let growth = now.saturating_sub(since);
    assert!(growth < MOST_GROWTH, "the process grew by {} MiB", growth / mebibyte);
}

fn seed() -> u64 {
    let seed = std::env::var("HOSTLER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("seed {seed}: HOSTLER_SEED={seed} repeats this run");
    seed
}

async fn noise(raw: &Raw, seed: u64) -> Noise {
    for crd in [definition("noises", "Noise", "Namespaced"), definition("hums", "Hum", "Cluster")] {
        let (code, answer) =
            raw.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        assert_eq!(code, 201, "{answer}");
    }
    let offers = discover(raw).await;
    assert!(offers.len() > 60, "discovery names only {} resources", offers.len());
    Noise::new(Chance::from_seed(seed), offers)
}

#[tokio::test(start_paused = true)]
async fn every_generated_request_is_answered() {
    if !is_alone("generated_requests::every_generated_request_is_answered") {
        return;
    }
    let seed = seed();
    let server = server();
    let raw = Raw::new(&server);
    let noise = noise(&raw, seed).await;
    let mut half = 0;
    let mut codes = std::collections::BTreeMap::<u16, usize>::new();
    let mut faults = Vec::new();
    for number in 0..REQUESTS {
        if number == REQUESTS / 2 {
            half = resident();
        }
        let prepared = noise.request();
        let asked = AssertUnwindSafe(tokio::time::timeout(Duration::from_secs(7200), ask(&raw, &prepared)));
        let fault = match asked.catch_unwind().await {
            Err(_) => Some("a panic".to_owned()),
            Ok(Err(_)) => Some("no end within two hours".to_owned()),
            Ok(Ok(Err(error))) => Some(error),
            Ok(Ok(Ok(answer))) => {
                *codes.entry(answer.code).or_default() += 1;
                fault(&prepared, &answer)
            }
        };
        if let Some(fault) = fault {
            faults.push(format!("request {number}: {prepared}\n    {fault}"));
            if faults.len() >= 20 {
                break;
            }
        }
    }
    println!("{} requests, answered with {codes:?}", codes.values().sum::<usize>());
    assert!(faults.is_empty(), "seed {seed}: {} faults\n{}", faults.len(), faults.join("\n"));
    let good: usize = codes.iter().filter(|(code, _)| **code < 300).map(|(_, count)| count).sum();
    assert!(good > REQUESTS / 20, "hardly any request makes sense: {codes:?}");
    let refused: usize = codes.iter().filter(|(code, _)| **code >= 400).map(|(_, count)| count).sum();
    assert!(refused > REQUESTS / 10, "hardly any request is refused: {codes:?}");
    has_hardly_grown(half);
    assert_eq!(raw.get("/readyz").await.0, 200, "the server still answers");
}

/// How many requests go to a server with a cluster behind it, which has work with each.
const WORKED_ON: usize = 2_000;

/// Objects with the largest numbers that their fields take.
fn largest() -> Vec<(&'static str, Value)> {
    let most = i32::MAX;
    let huge = "1e2147483647";
    let template = |restart: &str| {
        let resources = json!({"requests": {"cpu": huge, "memory": "1.5e40", "hugepages-2Mi": "2Mi"},
            "limits": {"hugepages-2Mi": "2Mi"}});
        json!({
            "metadata": {"labels": {"app": "huge"}, "annotations": {
                "sim.hostler.dev/ready-after-seconds": i64::MAX.to_string(),
                "sim.hostler.dev/stop-after-seconds": i64::MAX.to_string(),
                "sim.hostler.dev/complete-after-seconds": i64::MIN.to_string(),
            }},
            "spec": {
                "restartPolicy": restart, "terminationGracePeriodSeconds": i64::MAX,
                "containers": [{"name": "c", "image": "x", "resources": resources}]
            },
        })
    };
    let selector = json!({"matchLabels": {"app": "huge"}});
    let mut bound = json!({"kind": "Pod", "metadata": {"name": "huge"}, "spec": template("Never")["spec"]});
    bound["metadata"]["annotations"] = template("Never")["metadata"]["annotations"].clone();
    bound["spec"]["nodeName"] = json!("after");
    bound["spec"]["containers"][0]["resources"] = json!({});
    let surge = json!({"maxSurge": "9223372036854775807%", "maxUnavailable": "100%"});
    let indexes = json!({"rules": [{"succeededIndexes": "0-2147483646"}]});
    let job = |more: Value| {
        let mut spec = json!({"parallelism": most, "completions": most, "template": template("Never")});
        more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
        spec
    };
    vec![
        ("/api/v1/namespaces/after/pods", bound),
        (
            "/apis/batch/v1/namespaces/after/jobs",
            json!({"metadata": {"name": "wide"}, "spec": job(json!({"activeDeadlineSeconds": i64::MAX}))}),
        ),
        (
            "/apis/batch/v1/namespaces/after/jobs",
            json!({"metadata": {"name": "indexed"}, "spec": job(json!({
                "parallelism": 5, "completionMode": "Indexed", "successPolicy": indexes
            }))}),
        ),
        (
            "/apis/apps/v1/namespaces/after/statefulsets",
            json!({"metadata": {"name": "wide"}, "spec": {
                "replicas": most, "podManagementPolicy": "Parallel", "selector": selector,
                "ordinals": {"start": 7}, "template": template("Always")
            }}),
        ),
        (
            "/apis/apps/v1/namespaces/after/deployments",
            json!({"metadata": {"name": "wide"}, "spec": {
                "replicas": most, "strategy": {"rollingUpdate": surge}, "selector": selector,
                "minReadySeconds": most - 1, "progressDeadlineSeconds": most, "template": template("Always")
            }}),
        ),
        (
            "/apis/policy/v1/namespaces/after/poddisruptionbudgets",
            json!({"metadata": {"name": "wide"}, "spec": {"maxUnavailable": "100%", "selector": selector}}),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_cluster_behind_the_server_bears_it_too() {
    if !is_alone("generated_requests::a_cluster_behind_the_server_bears_it_too") {
        return;
    }
    let seed = seed();
    let mut world = World::in_real_time(Chance::from_seed(seed), crate::kit::options(), None);
    world.start_cluster(hostler_cluster::Options::all());
    let nodes = world.start_hollow_nodes();
    nodes.boot(MachineSpec::new("before"));
    let raw = Raw(world.kubernetes());
    let noise = noise(&raw, seed).await;
    world.run_for(Duration::from_mins(1)).await;
    let (mut sent, mut half) = (0, 0);
    while sent < WORKED_ON {
        if sent == WORKED_ON / 2 {
            half = resident();
        }
        let prepared = noise.request();
        // Hours of a watch would be hours of a cluster's work.
        if !prepared.target.contains("watch") {
            ask(&raw, &prepared).await.unwrap();
            world.run_for(Duration::from_millis(20)).await;
            sent += 1;
        }
    }
    has_hardly_grown(half);
    nodes.boot(MachineSpec { boot_time: Duration::ZERO, ..MachineSpec::new("after") });
    let (code, answer) =
        raw.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "after"}})).await;
    assert_eq!(code, 201, "{answer}");
    world.run_for(Duration::from_secs(10)).await;
    for (path, object) in largest() {
        let (code, answer) = raw.json("POST", path, &object).await;
        assert_eq!(code, 201, "{answer}");
    }
    let marked = json!({"status": {"completedIndexes": "0-2147483640", "succeeded": 2_147_483_641}});
    let (code, answer) = raw.merge("/apis/batch/v1/namespaces/after/jobs/indexed/status", &marked).await;
    assert_eq!(code, 200, "{answer}");
    world.run_for(Duration::from_millis(30)).await;
    for (path, object) in largest().iter().skip(1) {
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let orphan = json!({"propagationPolicy": "Orphan"});
        let (code, answer) = raw.json("DELETE", &path, &orphan).await;
        assert_eq!(code, 200, "{answer}");
    }
    world.run_for(Duration::from_secs(3)).await;
    let broken = tokio::time::timeout(Duration::from_secs(1), world.broken()).await;
    assert!(broken.is_err(), "seed {seed}: {broken:?}");
    let (_, pod) = raw.get("/api/v1/namespaces/after/pods/huge").await;
    assert_eq!(pod["status"]["phase"], "Succeeded", "the node still works: {pod}");
}
