//! Gardener's own machine-controller-manager makes Machines of a MachineDeployment, Hostler makes servers of them.

use crate::stage::{Directory, Stage, crypto, given_kubeconfig, store, supervisor};
use hostler_apiserver::{
    ApiServer,
    serve::{self, Certificates},
};
use hostler_base::{Chance, Clock, Entropy};
use hostler_control_plane::gardener;
use hostler_sim::{Plan, World};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{fs, path::Path};
use tokio::net::TcpListener;

fn deployments(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("machine.sapcloud.io", "v1alpha1", "MachineDeployment");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "minReadySeconds": 0,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "selector": {"matchLabels": {"pool": name}},
            "template": {
                "metadata": {"labels": {"pool": name}},
                "spec": {"class": {"kind": "MachineClass", "name": "small"}},
            },
        },
    })
}

async fn available(deployments: &Api<DynamicObject>, name: &str) -> u64 {
    let found = deployments.get(name).await.ok();
    found.and_then(|object| object.data["status"]["availableReplicas"].as_u64()).unwrap_or_default()
}

async fn scale(deployments: &Api<DynamicObject>, name: &str, replicas: u32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Created, scaled up and down, deleted. Without our controller there are Machines, and nothing else.
async fn a_machine_deployment_lives(mut stage: Stage, kubeconfig: &Path) {
    let (manager, _) = gardener::manager(&store(), kubeconfig, &stage.namespace).unwrap();
    let mut manager = manager.start(&supervisor(), stage.directory.path()).unwrap();
    stage.create_class_and_secret().await;
    // Machines and nodes are named after it.
    let name = stage.namespace.clone();
    let deployments = deployments(&stage.admin, &stage.namespace);
    let object: DynamicObject = serde_json::from_value(deployment(&name, 2)).unwrap();
    deployments.create(&PostParams::default(), &object).await.unwrap();
    let machines = stage.machines();
    stage
        .run_until("the manager has made Machines", async |_| {
            machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.len() == 2)
        })
        .await;
    assert_eq!((stage.servers().len(), available(&deployments, &name).await), (0, 0));

    stage.start_controller(&[]);
    stage.run_until("two are available", async |_| available(&deployments, &name).await == 2).await;
    assert_eq!(stage.servers().len(), 2);
    scale(&deployments, &name, 3).await;
    stage.run_until("three are available", async |_| available(&deployments, &name).await == 3).await;
    scale(&deployments, &name, 1).await;
    stage
        .run_until("one is left", async |_| {
            machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.len() == 1)
        })
        .await;
    assert_eq!((stage.servers().len(), Stage::running(&machines).await), (1, 1), "{}", stage.story());
    deployments.delete(&name, &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    stage
        .run_until("the deployment is gone", async |_| matches!(deployments.get_opt(&name).await, Ok(None)))
        .await;
    assert_eq!(stage.violations(), [""; 0], "{}", stage.story());
    manager.check().unwrap();
    manager.stop().await;
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_deployment_lives_on_the_real_server() {
    let stage = Stage::around_the_real_one("gardener", Plan::seeded(1)).await;
    a_machine_deployment_lives(stage, &given_kubeconfig()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_deployment_lives_on_the_embedded_server() {
    crypto();
    let (clock, chance) = (Clock::system(), Chance::from_entropy());
    let certificates = Certificates::generate(&[], clock.now()).unwrap();
    let token: secrecy::SecretString = uuid::Uuid::new_v4().to_string().into();
    let entropy = Entropy::guessable(chance.split("entropy"));
    let mut options = hostler_apiserver::Options::new(clock, chance.split("kubernetes"), entropy);
    options.users.push((token.clone(), ApiServer::admin()));
    let mut world = World::in_real_time(chance, options, Some(Plan::seeded(1)));
    world.start_cluster(hostler_cluster::Options::all());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let directory = Directory::new();
    let kubeconfig = directory.path().join("kubeconfig");
    let text = serve::kubeconfig(listener.local_addr().unwrap(), &certificates.ca_pem, &token);
    fs::write(&kubeconfig, text).unwrap();
    let (api, shutdown) = (world.api().cloned().unwrap(), world.shutdown().clone());
    let serving = tokio::spawn(async move { serve::serve(&api, listener, &certificates, shutdown).await });
    gardener::install(&store(), &world.client()).await.unwrap();
    let stage = Stage::around(world, "gardener").await;
    a_machine_deployment_lives(stage, &kubeconfig).await;
    serving.await.unwrap().unwrap();
}
