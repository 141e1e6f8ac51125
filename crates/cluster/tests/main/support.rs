//! A cluster to test: the API server, the parts, and somebody who plays the kubelets.

use futures::StreamExt;
use futures::future::BoxFuture;
use hostler_apiserver::ApiServer;
use hostler_base::{Chance, Clock, Entropy, transport};
use hostler_cluster::Options;
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) struct Bench {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// What the cluster has asked the server for.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Bench {
    pub(crate) fn start(options: Options) -> Self {
        Self::seeded(options, 1)
    }

    /// A cluster whose watch of this path tells everything late.
    pub(crate) fn lagging(options: Options, path: &'static str, late: Duration) -> Self {
        Self::with(options, 1, Some(Lag { path, late, watch: true }))
    }

    /// A cluster whose lists of this path come late.
    pub(crate) fn slow_to_list(options: Options, path: &'static str, late: Duration) -> Self {
        Self::with(options, 1, Some(Lag { path, late, watch: false }))
    }

    pub(crate) fn seeded(options: Options, seed: u64) -> Self {
        Self::with(options, seed, None)
    }

    fn with(options: Options, seed: u64, lag: Option<Lag>) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let chance = Chance::from_seed(seed);
        let entropy = Entropy::guessable(chance.split("entropy"));
        let options_of_server =
            hostler_apiserver::Options::new(clock.clone(), chance.split("server"), entropy);
        let server = ApiServer::new(options_of_server);
        let calls = Arc::new(Mutex::new(Vec::new()));
        let client = client(&server, &clock, &Arc::default(), None);
        let mut tasks = JoinSet::new();
        let cluster = hostler_cluster::run(
            self::client(&server, &clock, &calls, lag),
            clock.clone(),
            chance.split("cluster"),
            options,
            CancellationToken::new(),
        );
        tasks.spawn(async move { cluster.await.expect("the cluster runs") });
        tasks.spawn(kubelets(client.clone(), clock.clone()));
        Self { client, clock, calls, _tasks: tasks }
    }

    pub(crate) fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk(&kind);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn api_of(&self, object: &Value) -> Api<DynamicObject> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = object["metadata"]["namespace"].as_str();
        self.api(&text(&object["apiVersion"]), &text(&object["kind"]), namespace)
    }

    pub(crate) async fn create(&self, object: Value) -> DynamicObject {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        self.api_of(&object).create(&PostParams::default(), &typed).await.unwrap()
    }

    pub(crate) async fn patch(&self, kind: (&str, &str), namespace: &str, name: &str, patch: Value) {
        let api = self.api(kind.0, kind.1, Some(namespace));
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn node(&self, name: &str, cpu: &str) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}
        }))
        .await;
        let status = json!({"status": {
            "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
            "capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                "lastHeartbeatTime": self.clock.now().to_string(), "lastTransitionTime": self.clock.now().to_string()}]
        }});
        let api = Api::<Node>::all(self.client.clone());
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub(crate) async fn pods(&self, namespace: &str, labels: &str) -> Vec<Pod> {
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        api.list(&ListParams::default().labels(labels)).await.unwrap().items
    }

    pub(crate) async fn get(&self, kind: (&str, &str), namespace: &str, name: &str) -> Option<Value> {
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let found = self.api(kind.0, kind.1, namespace).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Waits in virtual time until the question has an answer.
    pub(crate) async fn until<T, F>(&self, what: &str, mut question: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        for _ in 0..6_000 {
            if let Some(answer) = question().await {
                return answer;
            }
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        let calls = self.calls.lock().unwrap();
        let last: Vec<&String> = calls.iter().rev().take(60).rev().collect();
        panic!("still not so after ten minutes: {what}; the last of {} calls: {last:#?}", calls.len());
    }

    /// How often the cluster made an object at this path.
    pub(crate) fn created(&self, path: &str) -> usize {
        let made = |call: &&String| call.starts_with(&format!("POST {path}?")) && call.ends_with(" 201");
        self.calls.lock().unwrap().iter().filter(made).count()
    }

    pub(crate) async fn until_gone(&self, kind: (&str, &str), namespace: &str, name: &str) {
        let what = format!("{} {namespace}/{name} is gone", kind.1);
        self.until(&what, || async { self.get(kind, namespace, name).await.is_none().then_some(()) }).await;
    }
}

type Answer = BoxFuture<'static, Result<Response<transport::Body>, transport::BoxError>>;

/// A watch whose events come late, or a list that does.
#[derive(Clone, Copy)]
struct Lag {
    path: &'static str,
    late: Duration,
    watch: bool,
}

impl Lag {
    fn concerns(self, call: &http::Uri) -> bool {
        let watch = call.query().is_some_and(|query| query.contains("watch=true"));
        call.path() == self.path && watch == self.watch
    }

    fn hold_back(self, body: transport::Body, clock: Clock) -> transport::Body {
        let frames = BodyStream::new(body).then(move |frame| {
            let clock = clock.clone();
            async move {
                clock.sleep(self.late).await;
                frame
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

/// A client whose calls and their outcomes are written down.
fn client(server: &ApiServer, clock: &Clock, calls: &Arc<Mutex<Vec<String>>>, lag: Option<Lag>) -> Client {
    let transport = server.transport(ApiServer::admin());
    let (clock, calls) = (clock.clone(), calls.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (transport, clock, calls) = (transport.clone(), clock.clone(), calls.clone());
        let call = format!("{} {}", request.method(), request.uri());
        let lag = lag.filter(|lag| lag.concerns(request.uri()));
        let answer: Answer = Box::pin(transport.oneshot(request.map(transport::boxed)));
        async move {
            let response = answer.await?;
            calls.lock().unwrap().push(format!("{call} {}", response.status().as_u16()));
            Ok::<_, transport::BoxError>(match lag {
                Some(lag) => response.map(|body| lag.hold_back(body, clock)),
                None => response,
            })
        }
    });
    Client::new(service, "default")
}

/// Lets bound pods run, and removes those that are being deleted.
async fn kubelets(client: Client, clock: Clock) {
    let pods = Api::<Pod>::all(client.clone());
    for round in 0_u64.. {
        if round % 100 == 0 {
            heartbeats(&client, &clock).await;
        }
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let name = pod.metadata.name.clone().unwrap();
            let api = Api::<Pod>::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap());
            if !bound {
                continue;
            }
            if pod.metadata.deletion_timestamp.is_some() {
                let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
            } else if phase == "Pending" && !never_ready(&pod) {
                let now = clock.now().to_string();
                let ended = pod.metadata.labels.as_ref().and_then(|labels| labels.get("ends")).cloned();
                let conditions = json!([
                    {"type": "Ready", "status": if ended.is_some() { "False" } else { "True" }, "lastTransitionTime": now},
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
                ]);
                let phase = ended.unwrap_or_else(|| "Running".to_owned());
                let status = json!({"status": {"phase": phase, "startTime": now, "conditions": conditions}});
                let _ = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
}

/// Every ten seconds each node says that it is there, but for those whose names begin with `silent`.
async fn heartbeats(client: &Client, clock: &Clock) {
    let nodes = Api::<Node>::all(client.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        let name = node.metadata.name.unwrap();
        if !name.starts_with("silent") {
            let beat =
                json!({"type": "Ready", "status": "True", "lastHeartbeatTime": clock.now().to_string()});
            let patch = Patch::Strategic(json!({"status": {"conditions": [beat]}}));
            let _ = nodes.patch_status(&name, &PatchParams::default(), &patch).await;
        }
    }
}

fn never_ready(pod: &Pod) -> bool {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("broken")
}

pub(crate) const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
pub(crate) const POD: (&str, &str) = ("v1", "Pod");

pub(crate) fn template(app: &str, image: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]}
    })
}

pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": template(name, image, "100m")
        }
    })
}

pub(crate) fn condition(object: &Value, kind: &str) -> Option<Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind).cloned()
}

/// The definition of a custom kind.
pub(crate) fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }]
        }
    })
}
