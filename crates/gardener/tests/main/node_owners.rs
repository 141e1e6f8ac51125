//! Whose node it is that was deleted: a machine goes only with the one that is its own, and only this machine does.

use crate::flow::{NAMESPACE, PROJECT, REGION, SOON, Stage, controller, machine, ours};
use hostler_base::transport;
use hostler_gardener::{
    Options,
    api::{Machine, Phase},
};
use hostler_sim::{Break, Class, Fault, Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const HELD: &str = "node.machine.sapcloud.io/machine-controller";
const NOBODYS: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
const ELSEWHERE: &str = "stackit:///99999999-9999-4999-8999-999999999999";

/// What the controller cannot do or see at the moment.
#[derive(Clone, Default)]
struct Limits {
    /// No node can be changed, so none can be held.
    unheld: Arc<AtomicBool>,
    /// No Machine can be deleted.
    no_deletion: Arc<AtomicBool>,
    /// Nothing new is learnt about Nodes.
    blind_to_nodes: Arc<AtomicBool>,
    /// Nothing new is learnt about Machines.
    blind_to_machines: Arc<AtomicBool>,
}

impl Limits {
    fn plan(&self, seed: u64) -> Plan {
        let limits = self.clone();
        Plan::seeded(seed).fault_when(move |boundary, class| {
            let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            let (verb, template) = (boundary.verb.as_str(), boundary.template.as_str());
            let dead = Fault::Watch { after: 0, then: Break::Dead };
            match () {
                () if boundary.actor != "machine-controller" => None,
                () if verb == "PATCH" && template.ends_with("/nodes/{name}") && is(&limits.unheld) => {
                    Some(Fault::Refused)
                }
                () if verb == "DELETE"
                    && template.ends_with("/machines/{name}")
                    && is(&limits.no_deletion) =>
                {
                    Some(Fault::Refused)
                }
                () if class == Class::Watch && template.ends_with("/nodes") && is(&limits.blind_to_nodes) => {
                    Some(dead)
                }
                () if class == Class::Watch
                    && template.ends_with("/machines")
                    && is(&limits.blind_to_machines) =>
                {
                    Some(dead)
                }
                () => None,
            }
        })
    }
}

fn set(flag: &AtomicBool, value: bool) {
    flag.store(value, Ordering::Relaxed);
}

async fn running(plan: Plan, names: &[&str]) -> Stage {
    let mut stage = Stage::unobserved(plan, Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    for name in names {
        stage.create(stage.machines(), machine(name)).await;
    }
    for name in names {
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    }
    stage
}

fn nodes(stage: &Stage) -> Api<Node> {
    Api::all(stage.admin.clone())
}

async fn delete_node(stage: &Stage, name: &str) {
    nodes(stage).delete(name, &DeleteParams::default()).await.unwrap();
}

async fn is_deleted(stage: &Stage, machine: &str) -> bool {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let seen = machines.get_opt(machine).await.unwrap();
    seen.is_none_or(|machine| machine.metadata.deletion_timestamp.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_that_it_is_nobodys_takes_no_machine_along() {
    for says_so in [true, false] {
        let limits = Limits::default();
        set(&limits.unheld, true);
        let stage = running(limits.plan(320), &["m-2"]).await;
        let annotations = if says_so { json!({NOBODYS: "1"}) } else { json!({}) };
        let held = json!({"metadata": {"annotations": annotations, "finalizers": ["some/body"]}});
        stage.patch(nodes(&stage), "m-2", held).await;
        delete_node(&stage, "m-2").await;
        stage.world.run_for(SOON).await;
        assert_eq!(is_deleted(&stage, "m-2").await, !says_so, "while it goes, says so: {says_so}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_vanished_takes_only_the_one_machine_along_that_it_was_of() {
    let limits = Limits::default();
    set(&limits.unheld, true);
    // Two machines say that it is theirs.
    let stage = running(limits.plan(321), &["m-2", "m-3"]).await;
    let theirs = |name: &str| json!({"metadata": {"labels": {"node": name}}});
    stage.patch(stage.machines(), "m-3", theirs("m-2")).await;
    stage.world.run_for(Duration::from_secs(5)).await;
    delete_node(&stage, "m-2").await;
    stage.world.run_for(SOON).await;
    assert!(!is_deleted(&stage, "m-2").await && !is_deleted(&stage, "m-3").await);

    // One says so of a node that runs on another server.
    let stage = running(limits.plan(322), &["m-2"]).await;
    stage
        .create(nodes(&stage), json!({"metadata": {"name": "stranger"}, "spec": {"providerID": ELSEWHERE}}))
        .await;
    stage.patch(stage.machines(), "m-2", theirs("stranger")).await;
    stage.world.run_for(Duration::from_secs(5)).await;
    delete_node(&stage, "stranger").await;
    stage.world.run_for(SOON).await;
    assert!(!is_deleted(&stage, "m-2").await, "it was another server's");
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_no_machine_along_that_was_made_anew() {
    let limits = Limits::default();
    let stage = running(limits.plan(323), &["m-2"]).await;
    // From now on the controller learns nothing new about Machines.
    set(&limits.blind_to_machines, true);
    stage.world.run_for(Duration::from_mins(2)).await;
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"finalizers": null}})).await;
    stage.delete_machine("m-2").await;
    // It cannot take over what its predecessor had.
    let mut anew = machine("m-2");
    anew["spec"]["class"]["name"] = json!("none");
    stage.create(stage.machines(), anew).await;
    delete_node(&stage, "m-2").await;
    stage.world.run_for(Duration::from_mins(2)).await;
    assert!(!is_deleted(&stage, "m-2").await, "the node was of its predecessor");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_server_takes_no_machine_along_whatever_was_seen_before() {
    let limits = Limits::default();
    let stage = running(limits.plan(324), &["m-2"]).await;
    set(&limits.no_deletion, true);
    delete_node(&stage, "m-2").await;
    stage.world.run_for(Duration::from_secs(40)).await;
    // From now on the controller learns nothing new about Nodes.
    set(&limits.blind_to_nodes, true);
    stage.world.run_for(Duration::from_mins(2)).await;
    stage.patch(nodes(&stage), "m-2", json!({"metadata": {"finalizers": null}})).await;
    let other =
        json!({"metadata": {"name": "m-2", "finalizers": ["some/body"]}, "spec": {"providerID": ELSEWHERE}});
    stage.create(nodes(&stage), other).await;
    delete_node(&stage, "m-2").await;
    set(&limits.no_deletion, false);
    stage.world.run_for(Duration::from_mins(2)).await;
    assert!(!is_deleted(&stage, "m-2").await, "the node that goes is another server's");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_names_a_machine_which_does_not_know_of_it_is_nobodys() {
    let stage = running(Plan::seeded(325), &["m-2"]).await;
    let named = json!({"metadata": {"name": "pretender", "finalizers": [HELD],
        "labels": {"node.gardener.cloud/machine-name": "m-2"}}});
    stage.create(nodes(&stage), named).await;
    stage.world.run_for(Duration::from_mins(25)).await;
    let pretender = nodes(&stage).get("pretender").await.unwrap();
    assert_eq!(pretender.annotations().get(NOBODYS).map(String::as_str), Some("1"));
    assert_eq!(pretender.finalizers(), [""; 0]);
    let own = nodes(&stage).get("m-2").await.unwrap();
    assert!(own.finalizers() == [HELD] && !own.annotations().contains_key(NOBODYS));
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_with_the_machine_that_it_names_though_that_one_forgot_it() {
    let mut stage = Stage::unobserved(Plan::seeded(326), Settings::default()).await;
    let awake = Arc::new(AtomicBool::new(true));
    let is_awake = awake.clone();
    let process = stage.world.start("machine-controller", move |context| {
        let awake = is_awake.clone();
        Box::pin(async move {
            while !awake.load(Ordering::Relaxed) {
                context.clock.sleep(Duration::from_secs(1)).await;
            }
            controller(context, Options::default()).await;
        })
    });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();

    // While nobody looks its server goes, and it does not say any more which node is its own.
    set(&awake, false);
    process.crash();
    for server in ours(&stage.cloud.servers()) {
        let path = format!("/v2/projects/{PROJECT}/regions/{REGION}/servers/{}", server.id);
        let request = http::Request::delete(path).body(transport::empty()).unwrap();
        transport::exchange(&stage.cloud.transport(), request, 1 << 20).await.unwrap();
    }
    stage.world.run_for(Duration::from_secs(10)).await;
    let forgets = json!({"metadata": {"labels": {"node": null}}, "spec": {"providerID": ""}});
    stage.patch(stage.machines(), "m-2", forgets).await;
    stage.delete_machine("m-2").await;
    assert!(nodes(&stage).get_opt("m-2").await.unwrap().is_some());
    let marks = |stage: &Stage| {
        let calls = stage.world.wire().unwrap().recording().0;
        let marks = calls
            .iter()
            .filter(|(_, call)| call.verb == "PATCH" && call.template.ends_with("/nodes/{name}/status"));
        marks.count()
    };
    let before = marks(&stage);
    set(&awake, true);
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
    assert!(marks(&stage) > before, "it was drained, and not just deleted");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_server_stays_whichever_machine_it_names() {
    let mut stage = running(Plan::seeded(327), &["m-2"]).await;
    let pretender = json!({"metadata": {"name": "another", "labels": {"node.gardener.cloud/machine-name": "m-2"}},
        "spec": {"providerID": ELSEWHERE}});
    stage.create(nodes(&stage), pretender).await;
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"labels": {"node": null}}})).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert!(nodes(&stage).get_opt("m-2").await.unwrap().is_none());
    let another = nodes(&stage).get("another").await.unwrap();
    assert_eq!(another.spec.and_then(|spec| spec.unschedulable), None);
}
