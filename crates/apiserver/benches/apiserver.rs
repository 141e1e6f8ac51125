//! What the embedded API server costs, beside a limit measured in the same run: `cargo xtask bench`.

use axum::{Router, body::Bytes};
use hostler_apiserver::{ApiServer, Options};
use hostler_base::{Body, Chance, Clock, Entropy, Transport, transport};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tower::ServiceExt;

const PODS: usize = 10_000;
const WATCHERS: usize = 100;
const TOKEN: &str = "benchmark";
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

/// What needs a process of its own: memory that nobody used before, tables that nobody read before.
const MEMORY: &str = "memory";
const START: &str = "start";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // Cargo adds arguments of its own.
        match std::env::args().nth(1).as_deref() {
            Some(MEMORY) => memory().await,
            Some(START) => first_answer().await,
            Some("creates") => creates(pods_asked_for()).await,
            Some("list") => list().await,
            Some("fan-out") => fan_out().await,
            _ => {
                println!("pod: {} bytes of JSON; one thread, in process, no sockets\n", pod(0).len());
                creates(PODS).await;
                list().await;
                fan_out().await;
                start_up();
                in_new_process(MEMORY);
            }
        }
    });
}

fn name(number: usize) -> String {
    format!("web-7d4b9c6f5-{number:05}")
}

/// A pod of about 1.4 KB, as a Deployment of a real application has them.
fn pod(number: usize) -> Vec<u8> {
    let environment: Vec<Value> = (0..10)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("value-of-setting-{index}-for-the-application")}))
        .collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number), "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "tier": "frontend"},
            "annotations": {"example.com/revision": "42", "example.com/owner": "team-web"},
        },
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.example.com/web/frontend:1.2.3",
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}], "env": environment,
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            }],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    });
    pod.to_string().into_bytes()
}

/// A server, and the way in through its router, as it is behind a socket.
fn server() -> (ApiServer, Transport) {
    let entropy = Entropy::guessable(Chance::from_seed(2));
    let mut options = Options::new(Clock::system(), Chance::from_seed(1), entropy);
    options.users.push((SecretString::from(TOKEN), ApiServer::admin()));
    let server = ApiServer::new(options);
    let transport = routed(server.router());
    (server, transport)
}

fn routed(router: Router) -> Transport {
    transport::from_service(router.map_request(|request: Request<Body>| request.map(axum::body::Body::new)))
}

async fn send(transport: &Transport, method: &str, path: &str, body: Vec<u8>) -> Response<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(
            "content-type",
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
        )
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(transport::full(body))
        .expect("a request");
    transport.clone().oneshot(request).await.expect("an answer")
}

async fn answered(transport: &Transport, method: &str, path: &str, body: Vec<u8>) -> Bytes {
    let response = send(transport, method, path, body).await;
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(status.is_success(), "{method} {path}: {status} {}", String::from_utf8_lossy(&body));
    body
}

/// The time this thread has been running. Where the system does not tell it, the time that has passed: the same on a
/// machine that does nothing else, since nothing here waits.
fn busy(since: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.as_deref().and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

async fn create_all(transport: &Transport, count: usize) -> Duration {
    let bodies: Vec<Vec<u8>> = (0..count).map(pod).collect();
    let zero = Instant::now();
    let start = busy(zero);
    for body in bodies {
        answered(transport, "POST", PODS_PATH, body).await;
    }
    busy(zero).saturating_sub(start)
}

/// How many changes the server keeps, and so does the handler beside it.
const HISTORY: usize = 2048;

/// One state of an object: its encoding and what selectors ask for.
struct Kept {
    name: (Box<str>, Box<str>),
    bytes: Bytes,
    _labels: Box<[(Box<str>, Box<str>)]>,
}

#[derive(Default)]
struct Shelf {
    revision: u64,
    objects: BTreeMap<(Box<str>, Box<str>), Arc<Kept>>,
    log: VecDeque<Arc<Kept>>,
}

/// A handler that knows nothing of kinds and does what every server that keeps encoded objects with a history must
/// do: it parses, sets the metadata that only a server can, finds the labels, encodes, stores under the name if that
/// is free, remembers the change for watchers and rings for them, and answers with the object.
struct StoreOnly {
    shelf: Mutex<Shelf>,
    changed: Notify,
    clock: Clock,
    chance: Chance,
}

impl StoreOnly {
    fn create(&self, namespace: &str, body: &[u8]) -> Result<Bytes, StatusCode> {
        let mut object: Value = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = metadata.ok_or(StatusCode::BAD_REQUEST)?;
        let uid = self.chance.u128();
        let uid = format!("{:08x}-{:04x}-4{:03x}-8000-{:012x}", uid >> 96, uid >> 112, uid >> 116, uid >> 80);
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("namespace".to_owned(), namespace.into());
        metadata.insert("creationTimestamp".to_owned(), self.clock.now().to_string().into());
        let name = metadata.get("name").and_then(Value::as_str).ok_or(StatusCode::UNPROCESSABLE_ENTITY)?;
        let name: (Box<str>, Box<str>) = (namespace.into(), name.into());
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
        let mut shelf = self.shelf.lock().expect("no panic");
        let revision = shelf.revision + 1;
        metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        if shelf.objects.contains_key(&name) {
            return Err(StatusCode::CONFLICT);
        }
        let bytes = Bytes::from(object.to_string().into_boxed_str().into_boxed_bytes());
        let kept = Arc::new(Kept { name, bytes, _labels: labels });
        let answer = kept.bytes.clone();
        shelf.objects.insert(kept.name.clone(), Arc::clone(&kept));
        shelf.log.push_back(kept);
        if shelf.log.len() > HISTORY {
            shelf.log.pop_front();
        }
        shelf.revision = revision;
        drop(shelf);
        self.changed.notify_waiters();
        Ok(answer)
    }
}

/// The server's own router with that handler behind it: token, rights and body are dealt with in the same way.
fn store_only() -> Transport {
    let handler = StoreOnly {
        shelf: Mutex::default(),
        changed: Notify::new(),
        clock: Clock::system(),
        chance: Chance::from_seed(1),
    };
    let (server, _) = server();
    routed(server.router_with(move |asked, body| {
        let mut response = Response::new(transport::empty());
        match handler.create(&asked.namespace, body) {
            Ok(created) => {
                *response.status_mut() = StatusCode::CREATED;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                *response.body_mut() = transport::full(created);
            }
            Err(status) => *response.status_mut() = status,
        }
        response
    }))
}

fn per_second(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("a small number")) / time.as_secs_f64()
}

const ROUNDS: usize = 9;

/// A second argument: for a profiler that is slow.
fn pods_asked_for() -> usize {
    std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(PODS)
}

async fn creates(pods: usize) {
    let mut ratios = Vec::new();
    let (mut ours, mut limit) = (0.0_f64, 0.0_f64);
    // The two take turns, so that a busy moment of the machine hits both.
    for _ in 0..ROUNDS {
        let (_server, embedded) = server();
        let this = per_second(pods, create_all(&embedded, pods).await);
        let that = per_second(pods, create_all(&store_only(), pods).await);
        ratios.push(this / that);
        (ours, limit) = (ours.max(this), limit.max(that));
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "creates: {ours:.0}/s of processor time, a handler that only parses and stores: {limit:.0}/s (each the best of \
         {ROUNDS})"
    );
    println!(
        "         ratio {:.2} (of the best), {:.2} (median of the rounds), goal at least 0.4",
        ours / limit,
        ratios[ROUNDS / 2]
    );
}

async fn list() {
    let (_server, embedded) = server();
    create_all(&embedded, PODS).await;
    let mut times = Vec::new();
    let mut size = 0;
    for _ in 0..9 {
        let start = Instant::now();
        let response = send(&embedded, "GET", "/api/v1/pods", Vec::new()).await;
        assert!(response.status().is_success(), "{}", response.status());
        // As a connection does: part by part, without a copy of the whole.
        let mut body = response.into_body();
        size = 0;
        while let Some(frame) = body.frame().await {
            size += frame.expect("a part").data_ref().map_or(0, Bytes::len);
        }
        times.push(start.elapsed());
    }
    println!(
        "list:    {PODS} pods, {:.1} MB, {:.1} ms to the last byte (median of 9), goal at most 50 ms",
        per_second(size, Duration::from_secs(1_000_000)),
        milliseconds(median(times))
    );
}

/// Every watcher is a task of its own, as connections are.
async fn fan_out() {
    let (_server, embedded) = server();
    create_all(&embedded, 1).await;
    let (seen, mut all_seen) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..WATCHERS {
        let path = format!("{PODS_PATH}?watch=true&resourceVersion=0");
        let mut body = send(&embedded, "GET", &path, Vec::new()).await.into_body();
        let seen = seen.clone();
        tokio::spawn(async move {
            while let Some(Ok(_)) = body.frame().await {
                if seen.send(()).is_err() {
                    return;
                }
            }
        });
    }
    for _ in 0..WATCHERS {
        all_seen.recv().await.expect("the first event");
    }
    let mut times = Vec::new();
    for round in 0..21 {
        let change = json!({"metadata": {"labels": {"round": round.to_string()}}}).to_string().into_bytes();
        let start = Instant::now();
        answered(&embedded, "PATCH", &format!("{PODS_PATH}/{}", name(0)), change).await;
        for _ in 0..WATCHERS {
            all_seen.recv().await.expect("an event");
        }
        times.push(start.elapsed());
    }
    println!(
        "fan-out: one change to {WATCHERS} watchers in {:.2} ms (median of 21, with the request that makes it), goal at \
         most 5 ms",
        milliseconds(median(times))
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Starts this program again for one measurement that prints its own line.
fn in_new_process(measurement: &str) {
    let program = std::env::current_exe().expect("the path of this program");
    let status = Command::new(program).arg(measurement).status().expect("the program starts again");
    assert!(status.success(), "{measurement}: {status}");
}

fn start_up() {
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        in_new_process(START);
        times.push(start.elapsed());
    }
    println!(
        "start:   {:.1} ms from exec to the answer of /readyz and the end of the process (median of 9), goal at most 200 ms",
        milliseconds(median(times))
    );
}

async fn first_answer() {
    let (_server, embedded) = server();
    answered(&embedded, "GET", "/readyz", Vec::new()).await;
}

/// Resident memory of this process, where the system tells it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

async fn memory() {
    let (_server, embedded) = server();
    let create = async |number| answered(&embedded, "POST", PODS_PATH, pod(number)).await.len();
    // What is made once stays out of the account.
    for number in 0..100 {
        create(number).await;
    }
    let before = resident();
    let mut encoded = 0;
    for number in 100..100 + PODS {
        encoded += create(number).await;
    }
    let (Some(before), Some(after)) = (before, resident()) else {
        println!("memory:  not measured: this system does not tell it in /proc/self/status");
        return;
    };
    let (each, stored) = (after.saturating_sub(before) / PODS, encoded / PODS);
    println!(
        "memory:  {each} bytes per pod resident, {stored} of them its encoding; {} above it, goal at most 2048",
        each.saturating_sub(stored)
    );
}
