//! What `samples/` has, as a person applies it: it lives, is scaled and rolled, and nothing of it is left.

use crate::{
    flow::{CLUSTER, NAMESPACE, Stage, from, ours},
    sets::{SOON, api, count, machines, nothing_is_left, patch, phase, start_sets},
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

/// In which order the samples are deleted.
enum Order {
    /// All at once, as `kubectl delete -f samples/` has it: files by name.
    ByName,
    /// All at once, the last file first.
    Backwards,
    /// Those of one kind first, and all others only a while later.
    First(&'static str),
}

impl Order {
    /// What goes first, and what goes when a while has passed.
    fn of(self, all: &[DynamicObject]) -> (Vec<&DynamicObject>, Vec<&DynamicObject>) {
        match self {
            Self::ByName => (all.iter().collect(), Vec::new()),
            Self::Backwards => (all.iter().rev().collect(), Vec::new()),
            Self::First(first) => all.iter().partition(|object| kind(object) == first),
        }
    }
}

/// The samples are there: one machine, a set and a deployment of them run.
async fn applied(seed: u64) -> (Stage, Vec<DynamicObject>) {
    // Nobody joins who has no bootstrap token.
    let settings = Settings { joins_without_token: false, ..Settings::default() };
    let mut stage = Stage::new(Plan::seeded(seed), settings).await;
    stage.start_controller();
    start_sets(&mut stage.world);
    let all = samples();
    assert_eq!(all.len(), 6);
    for object in &all {
        home(&stage.user, object).create(&PostParams::default(), object).await.unwrap();
    }
    let admin = stage.admin.clone();
    let six_run = async || count(&admin).await == (6, 6);
    stage.world.run_until("one, a set and a deployment of machines run", SOON, six_run).await.unwrap();
    (stage, all)
}

/// The deployment's machines become those of the full class.
async fn roll(stage: &mut Stage) {
    let (user, admin) = (stage.user.clone(), stage.admin.clone());
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "full"}}}}});
    patch::<MachineDeployment>(&user, "pool", class).await;
    let rolled = async || pool_is(&admin, "full", 2).await;
    stage.world.run_until("the deployment is rolled", SOON, rolled).await.unwrap();
}

/// They are deleted in this order, and no object, server, volume, NIC, node or token is left.
async fn delete(mut stage: Stage, all: &[DynamicObject], order: Order) {
    let (user, admin) = (stage.user.clone(), stage.admin.clone());
    let (before, after) = order.of(all);
    assert!(!before.is_empty());
    for object in before {
        home(&user, object).delete(&object.name_any(), &DeleteParams::background()).await.unwrap();
    }
    if !after.is_empty() {
        stage.world.run_for(Duration::from_secs(30)).await;
    }
    for object in after {
        home(&user, object).delete(&object.name_any(), &DeleteParams::background()).await.unwrap();
    }
    let none = async || {
        nothing_is_left(&admin).await
            && api::<MachineClass>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
            && api::<Secret>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
    };
    stage.world.run_until("no object is left", SOON, none).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
    let wire = stage.world.wire().unwrap();
    assert_eq!(wire.violations().len(), 0, "{:?}", wire.violations());
}

#[tokio::test(start_paused = true)]
async fn the_samples_live_are_scaled_and_rolled_and_leave_nothing() {
    let (mut stage, all) = applied(39).await;
    let (user, admin) = (stage.user.clone(), stage.admin.clone());
    for replicas in [4, 2] {
        patch::<MachineDeployment>(&user, "pool", json!({"spec": {"replicas": replicas}})).await;
        let scaled = async || pool_is(&admin, "small", replicas).await;
        stage.world.run_until("the deployment is scaled", SOON, scaled).await.unwrap();
    }
    roll(&mut stage).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 5);
    let allowed = stage.cloud.nics().iter().filter(|nic| !nic.allowed_addresses.is_empty()).count();
    assert_eq!(allowed, 2, "the NICs of the full class may send from more addresses");
    delete(stage, &all, Order::ByName).await;
}

#[tokio::test(start_paused = true)]
async fn samples_deleted_all_at_once_leave_nothing() {
    let (stage, all) = applied(40).await;
    delete(stage, &all, Order::ByName).await;
}

#[tokio::test(start_paused = true)]
async fn samples_deleted_all_at_once_and_backwards_leave_nothing() {
    let (stage, all) = applied(41).await;
    delete(stage, &all, Order::Backwards).await;
}

#[tokio::test(start_paused = true)]
async fn samples_whose_secret_goes_first_leave_nothing() {
    let (stage, all) = applied(42).await;
    delete(stage, &all, Order::First("Secret")).await;
}

#[tokio::test(start_paused = true)]
async fn samples_whose_classes_go_first_leave_nothing() {
    let (stage, all) = applied(43).await;
    delete(stage, &all, Order::First("MachineClass")).await;
}

#[tokio::test(start_paused = true)]
async fn samples_deleted_before_any_machine_runs_leave_nothing() {
    // Orders are on their way, tokens are there, and nodes are about to join.
    for (seed, seconds) in (44..).zip([0, 1, 2, 3, 4]) {
        let settings = Settings { joins_without_token: false, ..Settings::default() };
        let mut stage = Stage::new(Plan::seeded(seed), settings).await;
        stage.start_controller();
        start_sets(&mut stage.world);
        let all = samples();
        for object in &all {
            home(&stage.user, object).create(&PostParams::default(), object).await.unwrap();
        }
        stage.world.run_for(Duration::from_secs(seconds)).await;
        delete(stage, &all, Order::ByName).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deployed_applies_as_it_is() {
    let stage = Stage::unobserved(Plan::seeded(49), Settings::default()).await;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/gardener");
    let mut kinds = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for object in documents.into_iter().map(from::<DynamicObject>) {
            let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
            let resource = ApiResource::from_gvk(&gvk);
            let api = match object.namespace() {
                Some(namespace) => Api::namespaced_with(stage.admin.clone(), &namespace, &resource),
                None => Api::all_with(stage.admin.clone(), &resource),
            };
            api.create(&PostParams::default(), &object).await.unwrap();
            kinds.push(kind(&object).to_owned());
        }
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        ["ClusterRole", "ClusterRoleBinding", "Deployment", "Role", "RoleBinding", "ServiceAccount"]
    );
}
