//! What `samples/` has, as a person applies it: it lives, is scaled and rolled, and nothing of it is left.

use crate::{
    flow::{CLUSTER, NAMESPACE, Stage, from, ours},
    sets::{SOON, api, count, left_of_ours, machines, nothing_is_left, patch, phase, start_sets},
};
use hostler_gardener::api::{Machine, MachineClass, MachineDeployment, Phase};
use hostler_sim::{Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// All objects of the samples, files by name, for the namespace and the cluster of these tests.
fn samples() -> Vec<DynamicObject> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| -> Vec<DynamicObject> {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("\n  namespace: default\n"), "{}", file.display());
        let text = text
            .replace("namespace: default\n", &format!("namespace: {NAMESPACE}\n"))
            .replace("kubernetes.io/cluster: playground\n", &format!("kubernetes.io/cluster: {CLUSTER}\n"));
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        documents.into_iter().map(from).collect()
    };
    files.iter().flat_map(read).collect()
}

fn kind(object: &DynamicObject) -> &str {
    &object.types.as_ref().unwrap().kind
}

fn home(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

/// Whether the deployment's machines are so many of this class, and all run.
async fn pool_is(admin: &Client, class: &str, replicas: usize) -> bool {
    let all = machines(admin).await;
    let pool: Vec<&Machine> = all
        .iter()
        .filter(|machine| machine.labels().get("pool").is_some_and(|pool| pool == "pool"))
        .collect();
    let fits = |machine: &&Machine| machine.spec.class.name == class && phase(machine) == Phase::Running;
    pool.len() == replicas && pool.iter().all(fits)
}

/// The samples live, and are deleted: objects of this kind first, all others a little later.
async fn the_samples_live(seed: u64, first: &str) {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    stage.start_controller();
    start_sets(&mut stage.world);
    let (user, admin) = (stage.user.clone(), stage.admin.clone());
    let all = samples();
    assert_eq!(all.len(), 6);
    for object in &all {
        home(&user, object).create(&PostParams::default(), object).await.unwrap();
    }
    let six_run = async || count(&admin).await == (6, 6);
    stage.world.run_until("one, a set and a deployment of machines run", SOON, six_run).await.unwrap();
    for replicas in [4, 2] {
        patch::<MachineDeployment>(&user, "pool", json!({"spec": {"replicas": replicas}})).await;
        let scaled = async || pool_is(&admin, "small", replicas).await;
        stage.world.run_until("the deployment is scaled", SOON, scaled).await.unwrap();
    }
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "full"}}}}});
    patch::<MachineDeployment>(&user, "pool", class).await;
    let rolled = async || pool_is(&admin, "full", 2).await;
    stage.world.run_until("the deployment is rolled", SOON, rolled).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 5);
    let allowed = stage.cloud.nics().iter().filter(|nic| !nic.allowed_addresses.is_empty()).count();
    assert_eq!(allowed, 2, "the NICs of the full class may send from more addresses");

    let (before, after): (Vec<_>, Vec<_>) = all.iter().partition(|object| kind(object) == first);
    assert!(!before.is_empty());
    for object in before {
        home(&user, object).delete(&object.name_any(), &DeleteParams::default()).await.unwrap();
    }
    stage.world.run_for(Duration::from_secs(30)).await;
    for object in after {
        home(&user, object).delete(&object.name_any(), &DeleteParams::default()).await.unwrap();
    }
    let none = async || {
        nothing_is_left(&admin).await
            && api::<MachineClass>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
            && api::<Secret>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
    };
    stage.world.run_until("no object is left", SOON, none).await.unwrap();
    assert_eq!(left_of_ours(&stage).await, [""; 0]);
    let wire = stage.world.wire().unwrap();
    assert_eq!(wire.violations().len(), 0, "{:?}", wire.violations());
}

#[tokio::test(start_paused = true)]
async fn the_samples_live_roll_and_leave_nothing() {
    for (seed, first) in [(39, "Secret"), (40, "MachineClass")] {
        the_samples_live(seed, first).await;
    }
}
