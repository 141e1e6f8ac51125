//! `metrics.k8s.io`: what nodes and pods use, as a test or a playground says.
//!
//! Behind the embedded API server it stands by [`Metrics::extension`]; a real one reaches it by the objects of
//! [`Metrics::registration`] where [`Metrics::serve`] listens.

use hostler_apiserver::{
    ApiServer, Extension, ExtensionResource, Options,
    serve::{self, Certificates},
};
use hostler_base::{Body, Chance, Clock, Entropy, Transport, transport};
use http::{Method, Request, Response, StatusCode, header};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// Over how long the usage is an average.
const WINDOW: &str = "20s";

/// What something uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In thousandths of a core.
    pub cpu: u64,
    /// In MiB.
    pub memory: u64,
}

/// The loads; clones are the same ones.
#[derive(Clone)]
pub struct Metrics {
    clock: Clock,
    loads: Arc<Mutex<Loads>>,
}

#[derive(Default)]
struct Loads {
    nodes: BTreeMap<String, Usage>,
    /// By namespace and name; usage by container.
    pods: BTreeMap<(String, String), BTreeMap<String, Usage>>,
}

impl Metrics {
    pub fn new(clock: Clock) -> Self {
        Self { clock, loads: Arc::default() }
    }

    /// Says what a node uses; nothing if it is not to be known any more.
    pub fn set_node(&self, name: &str, usage: Option<Usage>) {
        let mut loads = self.lock();
        match usage {
            Some(usage) => loads.nodes.insert(name.to_owned(), usage),
            None => loads.nodes.remove(name),
        };
    }

    /// Says what the containers of a pod use; without any the pod is not known any more.
    pub fn set_pod(&self, namespace: &str, name: &str, containers: &[(&str, Usage)]) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut loads = self.lock();
        if containers.is_empty() {
            loads.pods.remove(&key);
        } else {
            let usages = containers.iter().map(|(container, usage)| ((*container).to_owned(), *usage));
            loads.pods.insert(key, usages.collect());
        }
    }

    /// For an embedded API server.
    pub fn extension(&self) -> Extension {
        let resource = |name: &str, kind: &str, namespaced| ExtensionResource {
            name: name.to_owned(),
            singular: String::new(),
            kind: kind.to_owned(),
            namespaced,
            verbs: vec!["get".to_owned(), "list".to_owned()],
        };
        Extension {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            resources: vec![resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
            server: self.transport(),
        }
    }

    /// Answers calls without asking who makes them.
    pub fn transport(&self) -> Transport {
        let metrics = self.clone();
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let answer = metrics.answer(request.method(), request.uri().path(), request.uri().query());
            async move { Ok::<Response<Body>, Infallible>(answer) }
        }))
    }

    /// Serves the group over HTTPS, as an API server expects it of what stands behind an APIService. Whoever can
    /// reach it may read it: it is for clusters that are there for trying things.
    pub async fn serve(
        &self,
        listener: TcpListener,
        certificates: &Certificates,
        entropy: Entropy,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        let options = Options::new(self.clock.clone(), Chance::from_seed(0), entropy);
        let server = ApiServer::new(options);
        server.extend(self.extension());
        open(&server).await.map_err(io::Error::other)?;
        serve::serve(&server, listener, certificates, shutdown).await
    }

    /// What a real API server needs to know to find it at this host and port: a Service and an APIService.
    pub fn registration(host: &str, port: u16) -> [Value; 2] {
        let (name, namespace) = ("simulated-metrics", "kube-system");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": host, "ports": [{"port": port, "protocol": "TCP"}]},
        });
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{VERSION}.{GROUP}")},
            "spec": {
                "group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"name": name, "namespace": namespace, "port": port},
            },
        });
        [service, api_service]
    }

    fn answer(&self, method: &Method, path: &str, query: Option<&str>) -> Response<Body> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let ["apis", GROUP, rest @ ..] = segments.as_slice() else { return no_such_path() };
        if method != Method::GET && method != Method::HEAD {
            return refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "only get and list are served",
            );
        }
        let selects = |pair: &str| pair.starts_with("labelSelector=") || pair.starts_with("fieldSelector=");
        if query.unwrap_or_default().split('&').any(|pair| selects(pair) && !pair.ends_with('=')) {
            return refusal(StatusCode::BAD_REQUEST, "BadRequest", "selectors are not served here");
        }
        match rest {
            [] => json_response(StatusCode::OK, &group()),
            [VERSION] => json_response(StatusCode::OK, &resources()),
            [VERSION, "nodes"] => Self::list("NodeMetricsList", self.all_nodes()),
            [VERSION, "nodes", name] => Self::one("nodemetrics", name, self.node(name)),
            [VERSION, "pods"] => Self::list("PodMetricsList", self.all_pods(None)),
            [VERSION, "namespaces", namespace, "pods"] => {
                Self::list("PodMetricsList", self.all_pods(Some(namespace)))
            }
            [VERSION, "namespaces", namespace, "pods", name] => {
                Self::one("podmetrics", &format!("{namespace}/{name}"), self.pod(namespace, name))
            }
            _ => no_such_path(),
        }
    }

    fn list(kind: &str, items: Vec<Value>) -> Response<Body> {
        let api_version = format!("{GROUP}/{VERSION}");
        let body = json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items});
        json_response(StatusCode::OK, &body)
    }

    fn one(resource: &str, name: &str, found: Option<Value>) -> Response<Body> {
        let Some(mut body) = found else {
            let message = format!("{resource}.{GROUP} {name:?} not found");
            return refusal(StatusCode::NOT_FOUND, "NotFound", &message);
        };
        body["kind"] = json!(if resource == "nodemetrics" { "NodeMetrics" } else { "PodMetrics" });
        body["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
        json_response(StatusCode::OK, &body)
    }

    fn all_nodes(&self) -> Vec<Value> {
        let loads = self.lock();
        loads
            .nodes
            .iter()
            .map(|(name, usage)| self.shown(json!({"name": name}), "usage", amounts(*usage)))
            .collect()
    }

    fn node(&self, name: &str) -> Option<Value> {
        let usage = *self.lock().nodes.get(name)?;
        Some(self.shown(json!({"name": name}), "usage", amounts(usage)))
    }

    fn all_pods(&self, wanted: Option<&str>) -> Vec<Value> {
        let loads = self.lock();
        let here = loads.pods.iter().filter(|((place, _), _)| wanted.is_none_or(|wanted| place == wanted));
        here.map(|((place, name), containers)| self.shown_pod(place, name, containers)).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        let loads = self.lock();
        let containers = loads.pods.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(self.shown_pod(namespace, name, containers))
    }

    fn shown_pod(&self, namespace: &str, name: &str, containers: &BTreeMap<String, Usage>) -> Value {
        let containers: Vec<Value> = containers
            .iter()
            .map(|(container, usage)| json!({"name": container, "usage": amounts(*usage)}))
            .collect();
        self.shown(json!({"name": name, "namespace": namespace}), "containers", json!(containers))
    }

    fn shown(&self, mut metadata: Value, field: &str, value: Value) -> Value {
        let now = json!(self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        metadata["creationTimestamp"] = now.clone();
        json!({"metadata": metadata, "timestamp": now, "window": WINDOW, field: value})
    }

    fn lock(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As the usual server of this group writes amounts: in billionths of a core and in KiB.
fn amounts(usage: Usage) -> Value {
    json!({"cpu": format!("{}n", usage.cpu * 1_000_000), "memory": format!("{}Ki", usage.memory * 1024)})
}

fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version],
        "preferredVersion": version})
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)]})
}

fn no_such_path() -> Response<Body> {
    refusal(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16()});
    json_response(code, &body)
}

fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(transport::full(body.to_string()));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Lets everybody read the group at this server, which has nothing else.
async fn open(server: &ApiServer) -> Result<(), String> {
    let client = crate::incarnation::kube_client(server.transport(ApiServer::admin()));
    let role = json!({"metadata": {"name": "metrics-for-all"}, "rules": [
        {"apiGroups": [GROUP], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/apis", "/apis/*"], "verbs": ["get"]}]});
    let binding = json!({"metadata": {"name": "metrics-for-all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-for-all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}]});
    let role: ClusterRole = serde_json::from_value(role).map_err(|error| error.to_string())?;
    let binding: ClusterRoleBinding = serde_json::from_value(binding).map_err(|error| error.to_string())?;
    let (roles, bindings) = (Api::all(client.clone()), Api::all(client));
    roles.create(&PostParams::default(), &role).await.map_err(|error| error.to_string())?;
    bindings.create(&PostParams::default(), &binding).await.map_err(|error| error.to_string())?;
    Ok(())
}
