//! The manifests of `deploy/` give each controller what it needs, and nothing is missing.

use crate::stage::{Stage, create, given_kubeconfig};
use hostler_base::Transport;
use hostler_sim::Plan;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::path::Path;

/// Applies the manifests of a directory under `deploy/`, made for this namespace.
async fn apply(client: &Client, directory: &str, namespace: &str) {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(directory);
    for mut object in hostler_control_plane::manifests::read(&deploy).unwrap() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let cluster_wide = kind.starts_with("Cluster");
        if cluster_wide {
            // Other tests have theirs in the same cluster.
            object["metadata"]["name"] =
                json!(format!("{}-{namespace}", object["metadata"]["name"].as_str().unwrap()));
            if object["roleRef"].is_object() {
                object["roleRef"]["name"] = object["metadata"]["name"].clone();
            }
        } else {
            object["metadata"]["namespace"] = json!(namespace);
        }
        for subject in object["subjects"].as_array_mut().into_iter().flatten() {
            subject["namespace"] = json!(namespace);
        }
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = if cluster_wide {
            Api::all_with(client.clone(), &resource)
        } else {
            Api::namespaced_with(client.clone(), namespace, &resource)
        };
        create(api, object).await;
    }
}

/// A transport with the rights of a service account.
async fn as_account(client: &Client, namespace: &str, account: &str) -> Transport {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&request).unwrap());
    let answer: Value = client.request(request.unwrap()).await.unwrap();
    let mut config = crate::stage::config(&given_kubeconfig()).await;
    config.auth_info = kube::config::AuthInfo {
        token: Some(answer["status"]["token"].as_str().unwrap().to_owned().into()),
        ..kube::config::AuthInfo::default()
    };
    hostler_controller::transport_to(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_controller_needs_no_more_than_it_is_given() {
    let mut stage = Stage::around_the_real_one("rights", Plan::seeded(1)).await;
    apply(&stage.admin, "gardener", &stage.namespace).await;
    let account = as_account(&stage.admin, &stage.namespace, "machine-controller").await;
    stage.start_controller_through(account, &[]);
    stage.create_class_and_secret().await;
    let machine = format!("{}-m", stage.namespace);
    let machines = stage.machines();
    create(
        machines.clone(),
        json!({"metadata": {"name": machine}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}}),
    )
    .await;
    stage.run_until("the machine runs", async |_| Stage::running(&machines).await == 1).await;
    machines.delete(&machine, &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    let forbidden: Vec<String> =
        stage.story().lines().filter(|line| line.contains("-> 403")).map(str::to_owned).collect();
    assert_eq!(forbidden, [""; 0], "the manifests of deploy/gardener do not allow what the controller does");
    stage.world.stop().await;
}
