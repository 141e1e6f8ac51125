//! A machine and its node: the node is held until the server is gone, whoever deletes it deletes the machine, and one
//! that is nobody's says so.

use crate::flow::{NAMESPACE, Stage, machine, ours};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{Boundary, Break, Class, Fault, Finished, Plan, Process, Sweep, stackit::Settings};
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

const SOON: Duration = Duration::from_mins(5);
const FINALIZER: &str = "node.machine.sapcloud.io/machine-controller";
const NOBODYS: &str = "node.machine.sapcloud.io/not-managed-by-mcm";

async fn running(plan: Plan, names: &[&str]) -> (Stage, Process) {
    let mut stage = Stage::new(plan, Settings::default()).await;
    let process = stage.start_controller();
    stage.create_class_and_secret().await;
    for name in names {
        stage.create(stage.machines(), machine(name)).await;
    }
    for name in names {
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    }
    (stage, process)
}

fn nodes(stage: &Stage) -> Api<Node> {
    Api::all(stage.admin.clone())
}

async fn delete_node(stage: &Stage, name: &str) {
    Api::<Node>::all(stage.user.clone()).delete(name, &DeleteParams::default()).await.unwrap();
}

async fn is_deleted(stage: &Stage, machine: &str) -> bool {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let seen = machines.get_opt(machine).await.unwrap();
    seen.is_none_or(|machine| machine.metadata.deletion_timestamp.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_node_is_held_until_its_server_is_gone_and_only_by_us() {
    let (mut stage, _) = running(Plan::seeded(80), &["m-2"]).await;
    let node = nodes(&stage).get("m-2").await.unwrap();
    assert_eq!(node.finalizers(), [FINALIZER]);
    stage.patch(nodes(&stage), "m-2", json!({"metadata": {"finalizers": [FINALIZER, "some/body"]}})).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    let node = nodes(&stage).get("m-2").await.unwrap();
    assert!(node.metadata.deletion_timestamp.is_some());
    assert_eq!(node.finalizers(), ["some/body"], "what others hold stays held");
}

/// Somebody deletes a node; machine, server and node go.
async fn node_deletion(plan: Plan) -> Finished {
    let (mut stage, _) = running(plan, &["m-2"]).await;
    delete_node(&stage, "m-2").await;
    let goal = match stage.run_until_gone("m-2", Duration::from_mins(30)).await {
        Ok(()) if !stage.leftovers().await.is_empty() => Err(format!("left: {:?}", stage.leftovers().await)),
        gone => gone,
    };
    stage.world.finish(goal)
}

#[tokio::test(start_paused = true)]
async fn whoever_deletes_the_node_deletes_the_machine() {
    let (mut stage, _) = running(Plan::seeded(81), &["m-2", "m-3"]).await;
    delete_node(&stage, "m-2").await;
    let node = nodes(&stage).get("m-2").await.unwrap();
    assert!(node.metadata.deletion_timestamp.is_some(), "it waits for its server");
    stage.run_until_gone("m-2", SOON).await.unwrap();
    let told = stage.told("m-2").await;
    assert!(told.iter().any(|event| event.starts_with("NodeDeleted: ")), "{told:?}");
    assert!(nodes(&stage).get_opt("m-2").await.unwrap().is_none());
    assert!(!is_deleted(&stage, "m-3").await);
    assert_eq!(ours(&stage.cloud.servers()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_deleted_while_nobody_looked_takes_its_machine_along() {
    let (mut stage, process) = running(Plan::seeded(82), &["m-2"]).await;
    process.stall();
    delete_node(&stage, "m-2").await;
    process.crash();
    process.start_another();
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

/// Nodes cannot be changed, so none can be held.
fn unheld(seed: u64) -> Plan {
    Plan::seeded(seed).fault_when(|boundary, class| {
        let patch = class == Class::Effect
            && boundary.verb == "PATCH"
            && boundary.template.ends_with("/nodes/{name}")
            && boundary.actor == "machine-controller";
        patch.then_some(Fault::Refused)
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_that_could_not_be_held_takes_its_machine_along_all_the_same() {
    let (stage, _) = running(unheld(83), &["m-2"]).await;
    assert_eq!(nodes(&stage).get("m-2").await.unwrap().finalizers(), [""; 0]);
    delete_node(&stage, "m-2").await;
    assert!(nodes(&stage).get_opt("m-2").await.unwrap().is_none());
    stage.world.run_for(Duration::from_secs(10)).await;
    assert!(is_deleted(&stage, "m-2").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_two_machines_claim_takes_none_along() {
    let (mut stage, _) = running(Plan::seeded(84), &["m-2", "m-3"]).await;
    let claim = |name: &str| json!({"metadata": {"labels": {"node": name}}});
    stage.patch(stage.machines(), "m-3", claim("m-2")).await;
    stage.world.run_for(Duration::from_secs(5)).await;
    delete_node(&stage, "m-2").await;
    stage.world.run_for(SOON).await;
    assert!(!is_deleted(&stage, "m-2").await);
    assert!(!is_deleted(&stage, "m-3").await);
    stage.patch(stage.machines(), "m-3", claim("m-3")).await;
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"annotations": {"look": "again"}}})).await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert!(!is_deleted(&stage, "m-3").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_runs_elsewhere_takes_no_machine_along() {
    let (stage, _) = running(Plan::seeded(85), &["m-2"]).await;
    // Somebody else's node has the name that the machine wrote down.
    let metadata = json!({"name": "stranger", "finalizers": [FINALIZER]});
    let spec = json!({"providerID": "stackit:///99999999-9999-4999-8999-999999999999"});
    stage.create(nodes(&stage), json!({"metadata": metadata, "spec": spec})).await;
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"labels": {"node": "stranger"}}})).await;
    stage.world.run_for(Duration::from_secs(5)).await;
    delete_node(&stage, "stranger").await;
    stage.world.run_for(SOON).await;
    assert!(!is_deleted(&stage, "m-2").await);
    // Nobody waits for ever.
    stage.world.run_for(Duration::from_mins(20)).await;
    assert!(nodes(&stage).get_opt("stranger").await.unwrap().is_none());
    assert!(!is_deleted(&stage, "m-2").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_again_takes_no_machine_along() {
    let (refuse, blind) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (refuses, is_blind) = (Arc::clone(&refuse), Arc::clone(&blind));
    let plan = Plan::seeded(88).fault_when(move |boundary, class| {
        let delete = boundary.verb == "DELETE" && boundary.template.ends_with("/machines/{name}");
        let nodes = class == Class::Watch && boundary.template.ends_with("/nodes");
        match () {
            () if boundary.actor != "machine-controller" => None,
            () if delete && refuses.load(Ordering::Relaxed) => Some(Fault::Refused),
            () if nodes && is_blind.load(Ordering::Relaxed) => {
                Some(Fault::Watch { after: 0, then: Break::Dead })
            }
            () => None,
        }
    });
    let (stage, _) = running(plan, &["m-2"]).await;
    let before = nodes(&stage).get("m-2").await.unwrap();
    refuse.store(true, Ordering::Relaxed);
    delete_node(&stage, "m-2").await;
    stage.world.run_for(Duration::from_secs(40)).await;
    // From now on the controller learns nothing new about Nodes.
    blind.store(true, Ordering::Relaxed);
    stage.world.run_for(Duration::from_secs(40)).await;
    stage.patch(nodes(&stage), "m-2", json!({"metadata": {"finalizers": null}})).await;
    let again =
        json!({"metadata": {"name": "m-2"}, "spec": {"providerID": before.spec.unwrap().provider_id}});
    stage.create(nodes(&stage), again).await;
    refuse.store(false, Ordering::Relaxed);
    stage.world.run_for(Duration::from_mins(2)).await;
    assert!(!is_deleted(&stage, "m-2").await);
}

fn is_nobodys(node: &Node) -> bool {
    node.annotations().get(NOBODYS).map(String::as_str) == Some("1")
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_says_so_when_it_is_old_enough() {
    let (stage, _) = running(Plan::seeded(86), &["m-2"]).await;
    stage.create(nodes(&stage), json!({"metadata": {"name": "by-hand"}})).await;
    let held = json!({"metadata": {"name": "left", "finalizers": [FINALIZER, "some/body"]}});
    stage.create(nodes(&stage), held).await;
    stage.world.run_for(Duration::from_mins(19)).await;
    for name in ["by-hand", "left"] {
        assert!(!is_nobodys(&nodes(&stage).get(name).await.unwrap()), "{name}");
    }
    stage.world.run_for(Duration::from_mins(2)).await;
    for name in ["by-hand", "left"] {
        assert!(is_nobodys(&nodes(&stage).get(name).await.unwrap()), "{name}");
    }
    assert_eq!(nodes(&stage).get("left").await.unwrap().finalizers(), ["some/body"]);
    let own = nodes(&stage).get("m-2").await.unwrap();
    assert!(!is_nobodys(&own));
    assert_eq!(own.finalizers(), [FINALIZER]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_says_so_although_the_first_word_is_refused() {
    for status in [403, 409] {
        let plan = Plan::seeded(88).fault_when(move |boundary: &Boundary, _| {
            let first = boundary.verb == "PATCH" && boundary.object == "by-hand" && boundary.nth == 1;
            first.then_some(Fault::Answer { status, after_effect: false })
        });
        let (stage, _) = running(plan, &["m-2"]).await;
        stage.create(nodes(&stage), json!({"metadata": {"name": "by-hand"}})).await;
        stage.world.run_for(Duration::from_mins(22)).await;
        assert!(is_nobodys(&nodes(&stage).get("by-hand").await.unwrap()), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_a_machine_is_taken_back() {
    let (mut stage, _) = running(Plan::seeded(87), &["m-2"]).await;
    stage
        .patch(nodes(&stage), "m-2", json!({"metadata": {"annotations": {NOBODYS: "1"}, "finalizers": null}}))
        .await;
    stage.world.run_for(Duration::from_secs(5)).await;
    let node = nodes(&stage).get("m-2").await.unwrap();
    assert!(!is_nobodys(&node), "its machine is there");
    assert_eq!(node.finalizers(), [FINALIZER]);
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

/// What is done because the node was deleted; how the machine came to run is broken elsewhere.
fn of_the_node(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let unknown = matches!(fault, Fault::CrashAfter | Fault::TimeoutAfter);
    let concerned = boundary.template.contains("/nodes/") || boundary.verb == "DELETE";
    class == Class::Effect && boundary.actor == "machine-controller" && unknown && concerned
}

#[test]
fn a_node_that_is_deleted_leaves_nothing_behind_whatever_breaks() {
    let report = Sweep::new("a deleted node", 1).only(of_the_node).run(node_deletion).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}
