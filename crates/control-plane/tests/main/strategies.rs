//! What Gardener's own machine-controller-manager reads of Hostler's work, beside a rolling update: updates in place,
//! recreation, and machines that are kept.

use crate::{
    faults::LEASE,
    gardener::{all_are_new, available, deployment, deployments, scale},
    stage::{Stage, create, given_kubeconfig, store, supervisor},
};
use hostler_control_plane::{Process, gardener};
use hostler_gardener::api::{Machine, MachineSet, Phase};
use hostler_sim::{Plan, agent::AgentSettings};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// What a node that was updated in place must not have any more.
const UPDATE_LABELS: [&str; 3] = [
    "node.machine.sapcloud.io/candidate-for-update",
    "node.machine.sapcloud.io/selected-for-update",
    "node.machine.sapcloud.io/update-result",
];

/// Two machines of a MachineDeployment that Gardener's manager looks after.
struct Pool {
    stage: Stage,
    manager: Process,
    deployments: Api<DynamicObject>,
    name: String,
}

impl Pool {
    async fn start(test: &str, change: impl FnOnce(&mut Value)) -> Self {
        let mut stage = Stage::around_the_real_one(test, Plan::seeded(1)).await;
        let (manager, _) = gardener::manager(&store(), &given_kubeconfig(), &stage.namespace).unwrap();
        let manager = manager.start(&supervisor(), stage.directory.path()).unwrap();
        stage.create_class_and_secret().await;
        stage.start_controller(&LEASE);
        let name = stage.namespace.clone();
        let deployments = deployments(&stage.admin, &name);
        let mut wanted = deployment(&stage);
        change(&mut wanted.data["spec"]);
        deployments.create(&PostParams::default(), &wanted).await.unwrap();
        let mut pool = Self { stage, manager, deployments, name };
        pool.until_available(2).await;
        pool
    }

    async fn until_available(&mut self, count: u64) {
        let (deployments, name) = (self.deployments.clone(), self.name.clone());
        let what = format!("{count} are available");
        self.stage.run_until(&what, async |_| available(&deployments, &name).await == count).await;
    }

    /// Another template.
    async fn roll(&self) {
        let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"rolled": "yes"}}}}}));
        self.deployments.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn machines(&self) -> Vec<Machine> {
        self.stage.machines().list(&ListParams::default()).await.unwrap().items
    }

    /// The server of each machine.
    fn servers(&self) -> BTreeMap<String, String> {
        self.stage.servers().into_iter().map(|server| (server.name, server.id)).collect()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.stage.admin.clone())
    }

    /// The node says of itself whether it is stuck.
    async fn deadlock(&self, node: &str, status: &str) {
        let condition = json!([{"type": "KernelDeadlock", "status": status, "reason": "Test"}]);
        let patch = Patch::Strategic(json!({"status": {"conditions": condition}}));
        self.nodes().patch_status(node, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until(&mut self, machine: &str, what: &str, wanted: impl Fn(&Machine) -> bool) {
        let machines = self.stage.machines();
        let what = format!("{machine} {what}");
        self.stage
            .run_until(&what, async |_| machines.get(machine).await.is_ok_and(|seen| wanted(&seen)))
            .await;
    }

    async fn until_gone(&mut self, machine: &str) {
        let machines = self.stage.machines();
        let what = format!("{machine} is gone");
        self.stage.run_until(&what, async |_| matches!(machines.get_opt(machine).await, Ok(None))).await;
    }

    /// What a status of the deployment counts.
    async fn until_counted(&mut self, field: &str, count: u64) {
        let (deployments, name) = (self.deployments.clone(), self.name.clone());
        let what = format!("{field} is {count}");
        self.stage
            .run_until(&what, async |_| {
                let found = deployments.get(&name).await.ok();
                found.is_some_and(|object| object.data["status"][field].as_u64().unwrap_or_default() == count)
            })
            .await;
    }

    async fn end(mut self) {
        self.deployments.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.stage.nothing_is_left().await;
        assert_eq!(self.stage.violations(), [""; 0], "{}", self.stage.story());
        self.manager.check().unwrap();
        self.manager.stop().await;
        self.stage.world.stop().await;
    }
}

/// The sets that these machines belong to.
fn owners(machines: &[Machine]) -> BTreeSet<String> {
    let all = machines.iter().flat_map(ResourceExt::owner_references);
    all.map(|owner| owner.name.clone()).collect()
}

fn is_kept(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.current_status.preserve_expiry_time.is_some())
}

fn is(machine: &Machine, phase: Phase) -> bool {
    machine.status.as_ref().is_some_and(|status| status.current_status.phase == phase)
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_updated_in_place_and_none_is_exchanged() {
    let strategy = json!({"type": "InPlaceUpdate",
        "inPlaceUpdate": {"maxUnavailable": 1, "maxSurge": 0, "orchestrationType": "Auto"}});
    let mut pool = Pool::start("in-place", |spec| {
        spec["strategy"] = strategy;
        spec["template"]["spec"]["disableHealthTimeout"] = json!(true);
    })
    .await;
    let update_time = Duration::from_secs(1);
    pool.stage.world.start_agents(AgentSettings { update_time, ..AgentSettings::default() });
    let pods: Api<Pod> = Api::namespaced(pool.stage.admin.clone(), &pool.name);
    let (machines, servers) = (pool.machines().await, pool.servers());
    for machine in &machines {
        let spec = json!({"nodeName": machine.labels()["node"], "automountServiceAccountToken": false,
            "containers": [{"name": "web", "image": "web"}]});
        create(pods.clone(), json!({"metadata": {"name": machine.name_any()}, "spec": spec})).await;
    }
    let old = owners(&machines);
    pool.roll().await;
    let all = pool.stage.machines();
    pool.stage
        .run_until("all are the new set's", async |_| {
            let listed = all.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            !listed.is_empty() && owners(&listed).is_disjoint(&old)
        })
        .await;
    pool.until_counted("updatedReplicas", 2).await;
    pool.until_available(2).await;
    let nodes = pool.nodes();
    let updated: Vec<String> = machines.iter().map(|machine| machine.labels()["node"].clone()).collect();
    pool.stage
        .run_until("the nodes take pods again", async |_| {
            for node in &updated {
                let Ok(node) = nodes.get(node).await else { return false };
                let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
                if cordoned || UPDATE_LABELS.iter().any(|label| node.labels().contains_key(*label)) {
                    return false;
                }
            }
            true
        })
        .await;
    assert_eq!(pool.servers(), servers, "no server was exchanged\n{}", pool.stage.story());
    let sets: Api<MachineSet> = Api::namespaced(pool.stage.admin.clone(), &pool.name);
    let sets = sets.list(&ListParams::default()).await.unwrap().items;
    let new: Vec<String> =
        sets.iter().filter(|set| set.spec.replicas == 2).map(ResourceExt::name_any).collect();
    let owners = owners(&pool.machines().await);
    assert_eq!((sets.len(), new), (2, owners.into_iter().collect()), "all belong to the new set");
    let left = pods.list(&ListParams::default()).await.unwrap().items;
    assert!(left.is_empty(), "the nodes were drained: {left:?}");
    let running = pool.stage.machines();
    pool.stage.run_until("both run", async |_| Stage::running(&running).await == 2).await;
    pool.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recreation_waits_until_the_old_machines_are_gone() {
    let mut pool = Pool::start("recreate", |spec| spec["strategy"] = json!({"type": "Recreate"})).await;
    let old: BTreeSet<String> = pool.servers().into_values().collect();
    let (machines, cloud) = (pool.stage.machines(), pool.stage.cloud.clone());
    let mixed = AtomicBool::new(false);
    pool.roll().await;
    pool.stage
        .run_until("all are new", async |_| {
            let servers = cloud.servers();
            let is_old = servers.iter().any(|server| old.contains(&server.id));
            let listed =
                machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            let is_new = listed.iter().any(|machine| machine.labels().contains_key("rolled"));
            let still = cloud.servers().iter().any(|server| old.contains(&server.id));
            if is_old && is_new && still {
                mixed.store(true, Ordering::Relaxed);
            }
            all_are_new(&machines, "rolled", 2).await
        })
        .await;
    assert!(!mixed.load(Ordering::Relaxed), "a new one came before the old ones had gone");
    pool.until_available(2).await;
    assert_eq!(pool.servers().len(), 2, "{}", pool.stage.story());
    pool.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_machine_is_kept_because_its_set_wants_it_and_replaced_when_it_does_not() {
    let mut pool = Pool::start("auto-kept", |spec| {
        spec["autoPreserveFailedMachineMax"] = json!(1);
        spec["template"]["spec"]["machinePreserveTimeout"] = json!("1h");
    })
    .await;
    let failing = pool.machines().await.remove(0);
    let (name, server) = (failing.name_any(), pool.servers()[&failing.name_any()].clone());
    pool.deadlock(&failing.labels()["node"], "True").await;
    pool.until(&name, "is kept by its set", |machine| {
        let wish = machine.annotations().get(PRESERVE).map(String::as_str);
        is(machine, Phase::Failed) && is_kept(machine) && wish == Some("auto-preserved")
    })
    .await;
    pool.until_counted("preservedFailedReplicas", 1).await;
    assert_eq!(pool.servers().get(&name), Some(&server));
    // Nobody wants to look at it any more.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {PRESERVE: "false"}}}));
    pool.stage.machines().patch(&name, &PatchParams::default(), &patch).await.unwrap();
    // The next one that fails is not kept for the same reason.
    let patch = Patch::Merge(json!({"spec": {"autoPreserveFailedMachineMax": 0}}));
    pool.deployments.patch(&pool.name, &PatchParams::default(), &patch).await.unwrap();
    pool.until_gone(&name).await;
    pool.until_counted("preservedFailedReplicas", 0).await;
    pool.until_available(2).await;
    assert_eq!(pool.servers().len(), 2, "{}", pool.stage.story());
    pool.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_kept_because_somebody_wants_it() {
    let mut pool =
        Pool::start("kept", |spec| spec["template"]["spec"]["machinePreserveTimeout"] = json!("1h")).await;
    let [one, other] = &pool.machines().await[..] else { panic!("two machines") };
    let (one, other, node) = (one.name_any(), other.name_any(), one.labels()["node"].clone());
    let servers = pool.servers();

    let patch = Patch::Merge(json!({"metadata": {"annotations": {PRESERVE: "when-failed"}}}));
    pool.stage.machines().patch(&one, &PatchParams::default(), &patch).await.unwrap();
    pool.deadlock(&node, "True").await;
    pool.until(&one, "has failed and is kept", |machine| is(machine, Phase::Failed) && is_kept(machine))
        .await;
    pool.until_counted("preservedFailedReplicas", 1).await;
    assert_eq!(pool.servers(), servers, "it is neither replaced nor gone");
    pool.deadlock(&node, "False").await;
    pool.until(&one, "runs and is not kept any more", |machine| {
        is(machine, Phase::Running) && !is_kept(machine)
    })
    .await;
    pool.until_available(2).await;

    let patch = Patch::Merge(json!({"metadata": {"annotations": {PRESERVE: "now"}}}));
    pool.nodes().patch(&node, &PatchParams::default(), &patch).await.unwrap();
    pool.until(&one, "is kept", |machine| is(machine, Phase::Running) && is_kept(machine)).await;
    scale(&pool.deployments, &pool.name, 1).await;
    pool.until_gone(&other).await;
    assert_eq!(pool.servers(), [(one.clone(), servers[&one].clone())].into(), "who is kept goes last");
    pool.end().await;
}
