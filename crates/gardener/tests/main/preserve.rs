//! Machines that are kept for a while because somebody wants to look at them.

use crate::{
    flow::{NAMESPACE, Stage, machine, ours},
    sets::{set, start_sets},
};
use hostler_gardener::api::{Machine, MachineSet, Phase};
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Process, Sweep, stackit::Settings};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_mins(5);
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
const NOTED: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";
const ALONE: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const ALONE_BY_US: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm";

async fn running(plan: Plan, spec: Value) -> (Stage, Process) {
    let mut stage = Stage::new(plan, Settings::default()).await;
    let process = stage.start_controller();
    stage.create_class_and_secret().await;
    let mut kept = machine("m-2");
    kept["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    stage.create(stage.machines(), kept).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    (stage, process)
}

fn an_hour() -> Value {
    json!({"machinePreserveTimeout": "1h", "healthTimeout": "1m"})
}

fn nodes(stage: &Stage) -> Api<Node> {
    Api::all(stage.admin.clone())
}

async fn node(stage: &Stage) -> Node {
    nodes(stage).get("m-2").await.unwrap()
}

async fn seen(stage: &Stage) -> Machine {
    Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE).get("m-2").await.unwrap()
}

async fn annotate_node(stage: &Stage, value: Value) {
    stage
        .patch(
            Api::<Node>::all(stage.user.clone()),
            "m-2",
            json!({"metadata": {"annotations": {PRESERVE: value}}}),
        )
        .await;
}

async fn annotate_machine(stage: &Stage, value: Value) {
    stage.patch(stage.machines(), "m-2", json!({"metadata": {"annotations": {PRESERVE: value}}})).await;
}

/// The node says so of itself.
async fn deadlock(stage: &Stage, name: &str, status: &str) {
    let patch =
        json!({"status": {"conditions": [{"type": "KernelDeadlock", "status": status, "reason": "Test"}]}});
    nodes(stage).patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}

fn preserved(node: &Node) -> Option<NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Preserved").cloned()
}

fn said(node: &Node) -> String {
    preserved(node).map_or_else(String::new, |condition| {
        format!(
            "{} {} {}",
            condition.status,
            condition.reason.unwrap_or_default(),
            condition.message.unwrap_or_default()
        )
    })
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

fn is_left_alone(node: &Node) -> bool {
    [ALONE, ALONE_BY_US].iter().all(|name| node.annotations().get(*name).map(String::as_str) == Some("true"))
}

fn is_kept(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.current_status.preserve_expiry_time.is_some())
}

async fn run_until_said(stage: &mut Stage, words: &str, limit: Duration) -> Result<(), String> {
    let nodes = nodes(stage);
    let what = format!("the node says {words:?}");
    let says = async || nodes.get("m-2").await.is_ok_and(|node| said(&node).starts_with(words));
    stage.world.run_until(&what, limit, says).await
}

async fn run_until_let_go(stage: &mut Stage, limit: Duration) -> Result<(), String> {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let let_go = async || machines.get("m-2").await.is_ok_and(|machine| !is_kept(&machine));
    stage.world.run_until("it is let go", limit, let_go).await
}

async fn put_a_pod_on(stage: &Stage) {
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "m-2", "containers": [{"name": "c", "image": "i"}]}});
    stage.create(pods, pod).await;
}

async fn has_pod(stage: &Stage) -> bool {
    Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE).get_opt("p").await.unwrap().is_some()
}

/// A machine fails, is drained and kept, and is let go when its time is over.
async fn kept_for_a_while(stage: &mut Stage) -> Result<(), String> {
    put_a_pod_on(stage).await;
    annotate_node(stage, json!("when-failed")).await;
    stage.world.run_for(Duration::from_secs(30)).await;
    if is_kept(&seen(stage).await) {
        return Err("it is kept before it has failed".to_owned());
    }
    deadlock(stage, "m-2", "True").await;
    stage.run_until_phase("m-2", Phase::Failed, SOON).await?;
    run_until_said(
        stage,
        "True Preserved by user. Preserved node drained successfully. Machine preserved until ",
        SOON,
    )
    .await?;
    let (there, kept) = (node(stage).await, seen(stage).await);
    if has_pod(stage).await || !is_left_alone(&there) || !is_cordoned(&there) || !is_kept(&kept) {
        return Err(format!("it is not kept as it should be: {there:?}\n{kept:?}"));
    }
    if kept.annotations().get(NOTED).map(String::as_str) != Some("when-failed") {
        return Err("what the node said is not noted".to_owned());
    }
    run_until_let_go(stage, Duration::from_mins(61)).await?;
    let (there, free) = (node(stage).await, seen(stage).await);
    let notes: Vec<_> = there
        .annotations()
        .keys()
        .filter(|key| key.contains("preserve") || key.contains("scale-down"))
        .collect();
    if is_cordoned(&there) || !notes.is_empty() || said(&there) != "False Preservation stopped. " {
        return Err(format!("something is left on the node: {there:?}"));
    }
    if free.annotations().keys().any(|key| key.contains("preserve")) {
        return Err(format!("something is left on the machine: {:?}", free.annotations()));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_is_drained_kept_and_let_go_when_its_time_is_over() {
    let (mut stage, _) = running(Plan::seeded(90), an_hour()).await;
    kept_for_a_while(&mut stage).await.unwrap();
    stage.world.run_for(SOON).await;
    let machine = seen(&stage).await;
    assert_eq!(machine.status.unwrap().current_status.phase, Phase::Failed);
    let told = stage.told("m-2").await;
    for reason in ["Preserved: ", "PreservationStopped: "] {
        assert!(told.iter().any(|event| event.starts_with(reason)), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_runs_is_kept_from_now_on_and_what_others_cordoned_stays_so() {
    let (mut stage, _) = running(Plan::seeded(91), an_hour()).await;
    put_a_pod_on(&stage).await;
    annotate_machine(&stage, json!("now")).await;
    stage.patch(nodes(&stage), "m-2", json!({"spec": {"unschedulable": true}})).await;
    run_until_said(&mut stage, "True Preserved by user. Machine preserved until ", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(2)).await;
    let recorded = seen(&stage).await.status.unwrap().conditions;
    assert!(recorded.iter().any(|condition| condition.type_ == "Preserved" && condition.status == "True"));
    assert!(is_left_alone(&node(&stage).await) && is_kept(&seen(&stage).await));
    assert!(has_pod(&stage).await, "it runs");

    // It fails and recovers: it is drained, and still cordoned.
    deadlock(&stage, "m-2", "True").await;
    run_until_said(&mut stage, "True Preserved by user. Preserved node drained", SOON).await.unwrap();
    assert!(!has_pod(&stage).await);
    deadlock(&stage, "m-2", "False").await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    run_until_said(&mut stage, "True Preserved by user. Machine preserved until ", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert!(is_cordoned(&node(&stage).await) && is_kept(&seen(&stage).await));

    // Once it is ours, it is undone.
    stage.patch(nodes(&stage), "m-2", json!({"spec": {"unschedulable": null}})).await;
    deadlock(&stage, "m-2", "True").await;
    run_until_said(&mut stage, "True Preserved by user. Preserved node drained", SOON).await.unwrap();
    assert!(is_cordoned(&node(&stage).await));
    deadlock(&stage, "m-2", "False").await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert!(!is_cordoned(&node(&stage).await));

    annotate_machine(&stage, Value::Null).await;
    run_until_let_go(&mut stage, SOON).await.unwrap();
    assert_eq!(said(&node(&stage).await), "False Preservation stopped. ");
    assert!(!node(&stage).await.annotations().contains_key(ALONE));
}

#[tokio::test(start_paused = true)]
async fn the_nodes_word_goes_before_the_machines_and_nonsense_is_told() {
    let (mut stage, _) = running(Plan::seeded(92), an_hour()).await;
    // The operator of the cluster wants it to be left alone, whoever else wants what.
    stage.patch(nodes(&stage), "m-2", json!({"metadata": {"annotations": {ALONE: "true"}}})).await;
    annotate_machine(&stage, json!("now")).await;
    run_until_said(&mut stage, "True", SOON).await.unwrap();
    annotate_node(&stage, json!("false")).await;
    run_until_let_go(&mut stage, SOON).await.unwrap();
    assert_eq!(
        node(&stage).await.annotations().get(ALONE).map(String::as_str),
        Some("true"),
        "it is not ours"
    );
    let machine = seen(&stage).await;
    assert_eq!(machine.annotations().get(PRESERVE), None);
    assert_eq!(machine.annotations()[NOTED], "false");

    annotate_node(&stage, json!("forever")).await;
    let told = stage.told("m-2").await;
    let nonsense: Vec<_> = told.iter().filter(|event| event.starts_with("InvalidPreserveValue")).collect();
    assert_eq!(nonsense.len(), 1, "{told:?}");
    assert!(nonsense[0].contains("\"forever\""));
    assert!(!is_kept(&seen(&stage).await));
}

#[tokio::test(start_paused = true)]
async fn of_a_sets_failed_machines_as_many_are_kept_as_it_wants_and_replaced_afterwards() {
    let mut stage = Stage::new(Plan::seeded(93), Settings::default()).await;
    stage.start_controller();
    start_sets(&mut stage.world);
    stage.create_class_and_secret().await;
    let mut pool = set("pool", 1);
    pool["spec"]["autoPreserveFailedMachineMax"] = json!(1);
    pool["spec"]["template"]["spec"].as_object_mut().unwrap().extend(an_hour().as_object().unwrap().clone());
    stage.create(Api::<MachineSet>::namespaced(stage.user.clone(), NAMESPACE), pool).await;
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let all = async || machines.list(&ListParams::default()).await.unwrap().items;
    let is = |machine: &Machine, phase: Phase| {
        machine.status.as_ref().is_some_and(|status| status.current_status.phase == phase)
    };
    let runs = async || matches!(&all().await[..], [one] if is(one, Phase::Running));
    stage.world.run_until("it runs", SOON, runs).await.unwrap();
    let first = all().await.remove(0).name_any();
    deadlock(&stage, &first, "True").await;
    let kept = async || {
        matches!(&all().await[..], [one] if is(one, Phase::Failed) && is_kept(one)
            && one.annotations().get(PRESERVE).map(String::as_str) == Some("auto-preserved"))
    };
    stage.world.run_until("it is kept", SOON, kept).await.unwrap();
    stage.world.run_for(Duration::from_mins(50)).await;
    assert!(kept().await, "it is there for an hour");
    assert!(
        said(&nodes(&stage).get(&first).await.unwrap())
            .starts_with("True Preserved by MCM. Preserved node drained")
    );
    let replaced =
        async || matches!(&all().await[..], [one] if one.name_any() != first && is(one, Phase::Running));
    stage.world.run_until("it is replaced", Duration::from_mins(30), replaced).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_server_is_kept_until_its_time_is_over_and_no_longer() {
    let mut stage = Stage::new(Plan::seeded(94), Settings::default()).await;
    stage.start_controller();
    let mut kept = machine("m-2");
    kept["metadata"]["annotations"] = json!({PRESERVE: "now"});
    kept["spec"]["machinePreserveTimeout"] = json!("1h");
    stage.create(stage.machines(), kept).await;
    stage.run_until_phase("m-2", Phase::CrashLoopBackOff, SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    let until = seen(&stage).await.status.unwrap().current_status.preserve_expiry_time;
    assert!(until.is_some());
    stage.run_until_phase("m-2", Phase::Failed, Duration::from_mins(30)).await.unwrap();
    stage.world.run_for(Duration::from_mins(10)).await;
    assert_eq!(
        seen(&stage).await.status.unwrap().current_status.preserve_expiry_time,
        until,
        "its end does not move"
    );
    run_until_let_go(&mut stage, Duration::from_mins(40)).await.unwrap();
    assert_eq!(seen(&stage).await.annotations().get(PRESERVE), None);
}

async fn a_while(plan: Plan) -> Finished {
    let short = json!({"machinePreserveTimeout": "5m", "healthTimeout": "30s"});
    let (mut stage, _) = running(plan, short).await;
    let goal = kept_for_a_while(&mut stage).await;
    stage.world.finish(goal)
}

/// What is done to keep a machine; how it came to run is broken elsewhere.
fn of_the_keeping(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let unknown = *fault == Fault::CrashAfter;
    let nth_of_machine = boundary.template.ends_with("/machines/{name}/status") && boundary.nth > 2
        || boundary.template.ends_with("/machines/{name}") && boundary.nth > 3;
    let concerned =
        boundary.template.contains("/nodes/") || boundary.template.contains("/eviction") || nth_of_machine;
    class == Class::Effect && boundary.actor == "machine-controller" && unknown && concerned
}

#[test]
fn a_machine_is_kept_and_let_go_whatever_breaks() {
    let report = Sweep::new("a preserved machine", 1).only(of_the_keeping).run(a_while).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}
