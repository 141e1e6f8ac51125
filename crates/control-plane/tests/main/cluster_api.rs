//! Cluster API's core manager starts and takes a Cluster.

use crate::stage::{Directory, PATIENCE, create, crypto, store, supervisor};
use hostler_control_plane::{ControlPlane, Options, cluster_api};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_taken_and_gets_a_status() {
    crypto();
    let directory = Directory::new();
    let mut options = Options::new(store(), directory.path().to_owned());
    options.supervisor = Some(supervisor());
    // Its webhooks are for a whole cluster, so it gets one of its own.
    options.parts.clear();
    let mut plane = ControlPlane::start(options).await.unwrap();
    let mut manager = cluster_api::start(&mut plane, cluster_api::Manager::Core).await.unwrap();
    let client = plane.client().await.unwrap();
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    let clusters: Api<DynamicObject> = Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind));
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "one"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MetalStackCluster", "name": "one"}},
    });
    create(clusters.clone(), cluster).await;
    let start = Instant::now();
    loop {
        let cluster = clusters.get("one").await.unwrap();
        if cluster.data["status"]["phase"] == "Provisioning" {
            assert!(!cluster.data["status"]["conditions"].as_array().unwrap().is_empty());
            break;
        }
        manager.check().unwrap();
        assert!(start.elapsed() < PATIENCE, "{cluster:?}\n{}", manager.tail());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    manager.stop().await;
    plane.stop().await;
}
