//! An embedded API server with the definitions, and requests to it as the administrator.

use hostler_apiserver::{ApiServer, Options};
use hostler_base::{Chance, Clock, Entropy, Transport, transport};
use hostler_nodegroup::api::crds;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const GROUP: &str = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/kube-system";
pub const REFERENCE_GROUP: &str = include_str!("../reference/nodegroup.yaml");
pub const REFERENCE_NODE: &str = include_str!("../reference/vpsienode.yaml");

pub struct Server(Transport);

impl Server {
    /// Where the definitions of this crate are established.
    pub async fn start() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let options = Options::new(clock, Chance::from_seed(1), Entropy::guessable(Chance::from_seed(2)));
        let server = Self(ApiServer::new(options).transport(ApiServer::admin()));
        for crd in crds() {
            let mut crd = serde_json::to_value(crd).unwrap();
            crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
            crd["kind"] = json!("CustomResourceDefinition");
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let (code, answer) = server.json("POST", path, &crd).await;
            assert_eq!(code, 201, "{answer}");
        }
        server
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: String) -> (u16, Value) {
        let request = Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(path)
            .header("content-type", kind)
            .header("accept", "application/json")
            .body(transport::full(body.into_bytes()))
            .unwrap();
        let response = self.0.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub async fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, path, "application/json", body.to_string()).await
    }

    /// Creates an object in `kube-system`, as strict about unknown fields as kubectl.
    pub async fn create(&self, plural: &str, object: &Value) -> (u16, Value) {
        self.json("POST", &format!("{GROUP}/{plural}?fieldValidation=Strict"), object).await
    }

    pub async fn get(&self, what: &str) -> Value {
        let (code, answer) = self.json("GET", &format!("{GROUP}/{what}"), &Value::Null).await;
        assert_eq!(code, 200, "{answer}");
        answer
    }

    /// The same from a manifest, byte for byte as it is.
    pub async fn create_from(&self, plural: &str, manifest: &str) -> (u16, Value) {
        let path = format!("{GROUP}/{plural}?fieldValidation=Strict");
        self.send("POST", &path, "application/yaml", manifest.to_owned()).await
    }

    pub async fn merge(&self, what: &str, patch: &Value) -> (u16, Value) {
        let path = format!("{GROUP}/{what}?fieldValidation=Strict");
        self.send("PATCH", &path, "application/merge-patch+json", patch.to_string()).await
    }
}

/// A NodeGroup with nothing but what is required.
pub fn small_group() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": "workers", "namespace": "kube-system"},
        "spec": {
            "minNodes": 1, "maxNodes": 3, "datacenterID": "dc-us-east-1",
            "offeringIDs": ["small-2cpu-4gb", "medium-4cpu-8gb"], "osImageID": "ubuntu-22.04-lts",
        },
    })
}

/// A VPSieNode without a VPS.
pub fn small_node() -> Value {
    json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": {"name": "workers-1", "namespace": "kube-system"},
        "spec": {
            "vpsieInstanceID": 0, "instanceType": "small-2cpu-4gb", "nodeGroupName": "workers",
            "datacenterID": "dc-us-east-1",
        },
    })
}
