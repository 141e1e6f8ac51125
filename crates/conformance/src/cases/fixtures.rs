//! Small valid objects.

use crate::Look;
use serde_json::{Value, json};

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

pub(crate) fn labelled(mut object: Value, labels: &Value) -> Value {
    object["metadata"]["labels"] = labels.clone();
    object
}

pub(crate) fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": "dmFsdWU="}})
}

pub(crate) fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]}})
}

/// A pod that is bound, so that its deletion waits for a kubelet.
pub(crate) fn bound_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "no-such-node".into();
    pod
}

pub(crate) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// Without replicas, so that no controller has anything to do for it.
pub(crate) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]}}}})
}

/// A namespaced kind `Thing` in a group of the case's own, with this schema for `spec`.
pub(crate) fn crd(ns: &str, spec_schema: &Value) -> Value {
    let group = crd_group(ns);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "properties": {"spec": spec_schema, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

pub(crate) fn crd_group(ns: &str) -> String {
    format!("{ns}.example.com")
}

pub(crate) fn thing(ns: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{}/v1", crd_group(ns)), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// Creates a CRD and waits until its resources can be used.
pub(crate) async fn install(c: &crate::Ctx, crd: &Value) -> Result<Value, crate::Failure> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = c.create_shared(definitions, crd).await?;
    let name = made.text("/metadata/name");
    let established = |reply: &crate::Reply| {
        reply.at("/status/conditions").as_array().is_some_and(|conditions| {
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        })
    };
    let ready = c.eventually("Established", &format!("{definitions}/{name}"), established).await?;
    let versions = crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for version in versions.iter().filter(|version| version["served"] == true) {
        let path = format!(
            "/apis/{}/{}/{}",
            crd.text("/spec/group"),
            version.text("/name"),
            crd.text("/spec/names/plural")
        );
        c.eventually("being served", &path, |reply| reply.status == 200).await?;
        let path = format!("/apis/{}/{}", crd.text("/spec/group"), version.text("/name"));
        c.eventually("discovery", &path, |reply| reply.status == 200).await?;
    }
    Ok(ready.json)
}
