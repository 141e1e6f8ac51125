//! Nodes that are updated in place: drained, updated by their agent, and back.

use crate::flow::{NAMESPACE, SOON, Stage, machine};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{
    Boundary, Class, Fault, Finished, Plan, Sweep,
    agent::{AgentSettings, Agents},
    stackit::Settings,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::{path::Path, time::Duration};

pub const CANDIDATE: &str = "node.machine.sapcloud.io/candidate-for-update";
pub const SELECTED: &str = "node.machine.sapcloud.io/selected-for-update";
const RESULT: &str = "node.machine.sapcloud.io/update-result";

async fn running(plan: Plan, settings: AgentSettings) -> Result<(Stage, Agents), String> {
    let mut stage = Stage::new(plan, Settings::default()).await;
    let agents = stage.world.start_agents(settings);
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await?;
    Ok((stage, agents))
}

pub async fn label(stage: &Stage, label: &str) {
    let nodes = Api::<Node>::all(stage.user.clone());
    stage.patch(nodes, "m-2", json!({"metadata": {"labels": {label: "true"}}})).await;
}

/// Waits until the node's condition gives this reason.
async fn run_until(stage: &mut Stage, reason: &str) -> Result<(), String> {
    let nodes = Api::<Node>::all(stage.admin.clone());
    let what = format!("the node is {reason}");
    let is = async || {
        let status = nodes.get("m-2").await.ok().and_then(|node| node.status).unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        let condition = conditions.find(|condition| condition.type_ == "InPlaceUpdate");
        condition.and_then(|condition| condition.reason).as_deref() == Some(reason)
    };
    stage.world.run_until(&what, SOON, is).await
}

async fn said(stage: &Stage) -> String {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    machines.get("m-2").await.unwrap().status.unwrap().last_operation.description
}

/// One node is updated and runs again.
async fn one_update(plan: Plan) -> Finished {
    let (mut stage, _agents) = running(plan, AgentSettings::default()).await.unwrap();
    let goal = update(&mut stage).await;
    stage.world.finish(goal)
}

async fn update(stage: &mut Stage) -> Result<(), String> {
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "m-2", "containers": [{"name": "c", "image": "i"}]}});
    stage.create(pods.clone(), pod).await;
    label(stage, CANDIDATE).await;
    run_until(stage, "CandidateForUpdate").await?;
    stage.world.run_for(Duration::from_secs(30)).await;
    if pods.get_opt("p").await.ok().flatten().is_none() {
        return Err("a candidate was drained".to_owned());
    }
    label(stage, SELECTED).await;
    run_until(stage, "ReadyForUpdate").await?;
    if pods.get_opt("p").await.ok().flatten().is_some() {
        return Err("it is updated with a pod on it".to_owned());
    }
    stage.run_until_phase("m-2", Phase::InPlaceUpdating, SOON).await?;
    run_until(stage, "UpdateSuccessful").await?;
    stage.run_until_phase("m-2", Phase::Running, SOON).await
}

#[tokio::test(start_paused = true)]
async fn a_node_is_drained_updated_and_runs_again() {
    let (mut stage, _agents) = running(Plan::seeded(70), AgentSettings::default()).await.unwrap();
    update(&mut stage).await.unwrap();
    let node = Api::<Node>::all(stage.admin.clone()).get("m-2").await.unwrap();
    assert_eq!(node.labels()[RESULT], "successful");
    assert_eq!(
        node.spec.unwrap().unschedulable,
        Some(true),
        "the MachineDeployment's controller takes it back"
    );
    let recorded = stage.machines().get("m-2").await.unwrap().status.unwrap().conditions;
    let condition = recorded.iter().find(|condition| condition.type_ == "InPlaceUpdate").unwrap();
    assert_eq!(condition.reason.as_deref(), Some("UpdateSuccessful"));
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_update_that_failed_is_told_and_may_succeed_later() {
    let fails = AgentSettings {
        fails: [("m-2".to_owned(), "no room".to_owned())].into(),
        ..AgentSettings::default()
    };
    let (mut stage, _agents) = running(Plan::seeded(71), fails).await.unwrap();
    label(&stage, CANDIDATE).await;
    label(&stage, SELECTED).await;
    run_until(&mut stage, "UpdateFailed").await.unwrap();
    stage.run_until_phase("m-2", Phase::InPlaceUpdateFailed, SOON).await.unwrap();
    assert_eq!(said(&stage).await, "Machine m-2 failed to update dependencies: no room");
    let nodes = Api::<Node>::all(stage.user.clone());
    stage.patch(nodes, "m-2", json!({"metadata": {"labels": {RESULT: "successful"}}})).await;
    run_until(&mut stage, "UpdateSuccessful").await.unwrap();
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_update_that_takes_too_long_has_failed() {
    let asleep = AgentSettings { asleep: ["m-2".to_owned()].into(), ..AgentSettings::default() };
    let (mut stage, agents) = running(Plan::seeded(72), asleep).await.unwrap();
    label(&stage, CANDIDATE).await;
    label(&stage, SELECTED).await;
    stage.run_until_phase("m-2", Phase::InPlaceUpdating, SOON).await.unwrap();
    stage.run_until_phase("m-2", Phase::InPlaceUpdateFailed, Duration::from_mins(22)).await.unwrap();
    assert_eq!(said(&stage).await, "Machine m-2 failed to in-place update in 20m0s minutes.");
    agents.set(|settings| settings.asleep.clear());
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

/// What is done for the update itself; how the machine came to run is broken elsewhere.
fn of_the_update(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let unknown = matches!(
        fault,
        Fault::CrashBefore
            | Fault::CrashAfter
            | Fault::TimeoutAfter
            | Fault::Duplicate
            | Fault::Answer { .. }
    );
    let concerned = boundary.template.contains("/nodes/")
        || boundary.template.contains("/eviction")
        || boundary.template.ends_with("/machines/{name}/status");
    class == Class::Effect && boundary.actor == "machine-controller" && unknown && concerned
}

#[test]
fn an_update_survives_faults_at_every_call_that_changes_something() {
    let report = Sweep::new("one update in place", 1).only(of_the_update).run(one_update).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/in-place.txt");
    if let Err(difference) = report.recording.check(&committed) {
        panic!("{difference}");
    }
}
