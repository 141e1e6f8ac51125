//! Gardener's own machine-controller-manager makes Machines of a MachineDeployment, Hostler makes servers of them.

use crate::{
    faults::LEASE,
    stage::{Directory, Stage, crypto, given_kubeconfig, store, supervisor},
};
use hostler_apiserver::{
    ApiServer,
    serve::{self, Certificates},
};
use hostler_base::{Chance, Clock, Entropy};
use hostler_control_plane::gardener;
use hostler_gardener::api::Machine;
use hostler_sim::{Class, Fault, Plan, World};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::net::TcpListener;

/// Odd, so that it is killed both before and after calls.
const KILLED_EVERY: usize = 31;

pub fn deployments(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("machine.sapcloud.io", "v1alpha1", "MachineDeployment");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// That of the samples, with two replicas, under the name of the stage's namespace: nodes are named after it, and share
/// one cluster with those of other tests. A machine that fails is noticed soon.
pub fn deployment(stage: &Stage) -> DynamicObject {
    let mut sample: Value = stage.sample("machine-deployment");
    sample["metadata"]["name"] = json!(stage.namespace);
    sample["spec"]["replicas"] = json!(2);
    sample["spec"]["selector"]["matchLabels"]["pool"] = json!(stage.namespace);
    sample["spec"]["template"]["metadata"]["labels"]["pool"] = json!(stage.namespace);
    sample["spec"]["template"]["spec"]["healthTimeout"] = json!("3s");
    serde_json::from_value(sample).unwrap()
}

pub async fn available(deployments: &Api<DynamicObject>, name: &str) -> u64 {
    let found = deployments.get(name).await.ok();
    found.and_then(|object| object.data["status"]["availableReplicas"].as_u64()).unwrap_or_default()
}

pub async fn scale(deployments: &Api<DynamicObject>, name: &str, replicas: u32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Whether all machines are of the template with this label, and there are so many.
pub async fn all_are_new(machines: &Api<Machine>, label: &str, number: usize) -> bool {
    let listed = machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    listed.len() == number && listed.iter().all(|machine| machine.labels().contains_key(label))
}

async fn all_have_the_timeout(machines: &Api<Machine>, number: usize) -> bool {
    let listed = machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let timeout =
        |machine: &Machine| serde_json::to_value(machine).unwrap()["spec"]["creationTimeout"].clone();
    listed.len() == number && listed.iter().all(|machine| timeout(machine) == "25m0s")
}

/// The kubelet of one machine is not heard of any more, and its node is said to be lost until the machine is gone.
async fn one_fails(stage: &mut Stage) {
    let machines = stage.machines();
    let nodes = Api::<Node>::all(stage.admin.clone());
    let failing = machines.list(&ListParams::default()).await.unwrap().items.remove(0);
    let (name, node) = (failing.name_any(), failing.labels()["node"].clone());
    stage.nodes.silence(&node);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test"}]}});
    stage
        .run_until("the failed machine is gone", async |_| {
            // What the kubelet had under way may come after the first of these; the last finds no node.
            let _ = nodes.patch_status(&node, &PatchParams::default(), &Patch::Strategic(&lost)).await;
            matches!(machines.get_opt(&name).await, Ok(None))
        })
        .await;
    let servers: Vec<String> = stage.servers().into_iter().map(|server| server.name).collect();
    assert!(!servers.contains(&name), "{servers:?}\n{}", stage.story());
}

/// Created if it is not there yet, scaled up, one of them fails, rolled, scaled down, deleted.
pub async fn a_machine_deployment_lives(stage: &mut Stage) {
    // Machines and nodes are named after it.
    let name = stage.namespace.clone();
    let (deployments, machines) = (deployments(&stage.admin, &name), stage.machines());
    if deployments.get_opt(&name).await.unwrap().is_none() {
        deployments.create(&PostParams::default(), &deployment(stage)).await.unwrap();
    }
    stage.run_until("two are available", async |_| available(&deployments, &name).await == 2).await;
    assert_eq!(stage.servers().len(), 2);
    scale(&deployments, &name, 3).await;
    stage.run_until("three are available", async |_| available(&deployments, &name).await == 3).await;
    one_fails(stage).await;
    stage
        .run_until("three are available again", async |_| {
            available(&deployments, &name).await == 3 && Stage::running(&machines).await == 3
        })
        .await;
    assert_eq!(stage.servers().len(), 3, "{}", stage.story());
    // What is no reason to exchange machines is brought to those that are there.
    let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"creationTimeout": "25m0s"}}}}));
    deployments.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    stage.run_until("all have the new timeout", async |_| all_have_the_timeout(&machines, 3).await).await;
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"rolled": "yes"}}}}}));
    deployments.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    stage.run_until("all are exchanged", async |_| all_are_new(&machines, "rolled", 3).await).await;
    stage.run_until("the new ones are available", async |_| available(&deployments, &name).await == 3).await;
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
}

/// The same by Gardener's manager. Without our controller there are Machines, and nothing else.
async fn under_the_manager(mut stage: Stage, kubeconfig: &Path) {
    let (manager, _) = gardener::manager(&store(), kubeconfig, &stage.namespace).unwrap();
    let mut manager = manager.start(&supervisor(), stage.directory.path()).unwrap();
    stage.create_class_and_secret().await;
    let name = stage.namespace.clone();
    let (deployments, machines) = (deployments(&stage.admin, &name), stage.machines());
    deployments.create(&PostParams::default(), &deployment(&stage)).await.unwrap();
    stage
        .run_until("the manager has made Machines", async |_| {
            machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.len() == 2)
        })
        .await;
    assert_eq!((stage.servers().len(), available(&deployments, &name).await), (0, 0));
    stage.start_controller(&LEASE);
    a_machine_deployment_lives(&mut stage).await;
    manager.check().unwrap();
    manager.stop().await;
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_deployment_lives_on_the_real_server() {
    // Hostler is killed again and again: in creates, in the roll, in deletions, wherever it is then.
    let effects = AtomicUsize::new(0);
    let plan = Plan::seeded(1).fault_when(move |_, class| {
        if class != Class::Effect {
            return None;
        }
        let number = effects.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = if number.is_multiple_of(2) { Fault::CrashBefore } else { Fault::CrashAfter };
        number.is_multiple_of(KILLED_EVERY).then_some(fault)
    });
    let stage = Stage::around_the_real_one("gardener", plan).await;
    let wire = stage.world.wire().unwrap().clone();
    under_the_manager(stage, &given_kubeconfig()).await;
    assert!(wire.faults() >= 3, "Hostler was killed {} times only", wire.faults());
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
    under_the_manager(stage, &kubeconfig).await;
    serving.await.unwrap().unwrap();
}
