//! Machines whose nodes are not well: how long they are borne, how many are given up at once, and what happens when
//! nobody can tell.

use crate::flow::{LONG, NAMESPACE, PROJECT, SOON, Stage, class, machine, ours, secret};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{
    Boundary, Break, Class, Fault, Plan,
    stackit::{Fault as Refusal, Settings},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const A_BIT: Duration = Duration::from_secs(30);

/// Machines of these names and with these fields, which run.
async fn running(plan: Plan, names: &[&str], spec: Value, labels: Value) -> Stage {
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    for name in names {
        let mut machine = machine(name);
        machine["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        machine["metadata"]["labels"] = labels.clone();
        stage.create(stage.machines(), machine).await;
    }
    for name in names {
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    }
    stage
}

/// The kubelet is not heard of any more, and somebody else says this about its node.
pub async fn say(stage: &Stage, node: &str, kind: &str, status: &str) {
    stage.nodes.silence(node);
    stage.world.run_for(Duration::from_secs(1)).await;
    let patch = json!({"status": {"conditions": [{"type": kind, "status": status, "reason": "Test"}]}});
    let nodes = Api::<Node>::all(stage.admin.clone());
    nodes.patch_status(node, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}

pub async fn phase(stage: &Stage, name: &str) -> Phase {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    machines.get(name).await.unwrap().status.unwrap_or_default().current_status.phase
}

async fn said(stage: &Stage, name: &str) -> String {
    stage.machines().get(name).await.unwrap().status.unwrap().last_operation.description
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_unknown_then_failed_and_runs_again_when_its_node_is_well() {
    let mut stage = running(Plan::seeded(50), &["m-2"], json!({}), json!({})).await;
    say(&stage, "m-2", "Ready", "Unknown").await;
    stage.run_until_phase("m-2", Phase::Unknown, A_BIT).await.unwrap();
    let text = said(&stage, "m-2").await;
    assert!(
        text.starts_with("Machine m-2 is unhealthy - changing MachinePhase to Unknown. Node conditions: ")
            && text.contains("Type: Ready | Status: Unknown | Reason: Test"),
        "{text}"
    );
    let recorded = stage.machines().get("m-2").await.unwrap().status.unwrap().conditions;
    let node = Api::<Node>::all(stage.admin.clone()).get("m-2").await.unwrap();
    assert_eq!(Some(recorded), node.status.unwrap().conditions);

    stage.world.run_for(Duration::from_mins(9)).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::Unknown);
    stage.run_until_phase("m-2", Phase::Failed, Duration::from_mins(2)).await.unwrap();
    let text = said(&stage, "m-2").await;
    assert!(
        text.starts_with(
            "Machine m-2 health checks failing since last 10m0s minutes. Updating machine phase to Failed."
        ),
        "{text}"
    );
    say(&stage, "m-2", "Ready", "True").await;
    stage.run_until_phase("m-2", Phase::Running, A_BIT).await.unwrap();
    assert_eq!(said(&stage, "m-2").await, "Machine m-2 successfully re-joined the cluster");
    let operation = stage.machines().get("m-2").await.unwrap().status.unwrap().last_operation;
    assert_eq!(serde_json::to_value(operation.operation).unwrap(), "HealthCheck");
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_say_what_is_unhealthy_and_for_how_long() {
    let own = json!({"healthTimeout": "2m", "nodeConditions": "Tired,Bored"});
    let mut stage = running(Plan::seeded(51), &["m-2"], own, json!({})).await;
    say(&stage, "m-2", "DiskPressure", "True").await;
    stage.world.run_for(SOON).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::Running);
    say(&stage, "m-2", "Bored", "True").await;
    stage.run_until_phase("m-2", Phase::Unknown, A_BIT).await.unwrap();
    stage.run_until_phase("m-2", Phase::Failed, Duration::from_mins(3)).await.unwrap();

    let mut stage =
        running(Plan::seeded(52), &["m-2"], json!({"disableHealthTimeout": true}), json!({})).await;
    say(&stage, "m-2", "DiskPressure", "True").await;
    stage.run_until_phase("m-2", Phase::Unknown, A_BIT).await.unwrap();
    stage.world.run_for(Duration::from_hours(1)).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_machine_runs_as_soon_as_its_node_is_well_though_its_server_is_not_finished() {
    let mut stage = Stage::new(Plan::seeded(57), Settings::default()).await;
    stage.start_controller();
    stage.cloud.add_fault(Refusal::on("UpdateNic").status(403)).unwrap();
    stage.create(stage.secrets(), secret()).await;
    let mut class = class();
    class["providerSpec"]["allowedAddresses"] = json!(["10.0.0.0/8"]);
    stage.create(stage.classes(), class).await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::CrashLoopBackOff, SOON).await.unwrap();
    stage.run_until_phase("m-2", Phase::Running, A_BIT).await.unwrap();
    assert_eq!(said(&stage, "m-2").await, "Machine m-2 successfully joined the cluster");
    assert_eq!(stage.tokens().await.len(), 0, "nobody needs its token any more");

    // Also beyond the time that a creation may take.
    for _ in 0..30 {
        stage.world.run_for(Duration::from_mins(1)).await;
        assert_eq!(phase(&stage, "m-2").await, Phase::Running);
    }
    stage.cloud.clear_faults();
    stage.world.run_for(Duration::from_mins(11)).await;
    let nics = stage.cloud.nics();
    let allowed = nics.iter().find(|nic| nic.network == PROJECT).map(|nic| nic.allowed_addresses.clone());
    assert_eq!(allowed.unwrap(), ["10.0.0.0/8"], "what was refused is done later");
}

/// After every call: at most one machine has failed.
fn observe_gate(stage: &Stage) {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    stage.world.observe(Arc::new(move || {
        let machines = machines.clone();
        Box::pin(async move {
            let all = machines.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let failed = all.iter().filter(|machine| {
                let phase = machine.status.as_ref().map(|status| status.current_status.phase);
                matches!(phase, Some(Phase::Failed | Phase::Terminating))
            });
            match failed.count() {
                0 | 1 => Ok(()),
                many => Err(format!("{many} machines are being replaced at once")),
            }
        })
    }));
}

async fn failed(stage: &Stage, names: &[&'static str]) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for name in names {
        if phase(stage, name).await == Phase::Failed {
            failed.push(*name);
        }
    }
    failed
}

#[tokio::test(start_paused = true)]
async fn of_a_deployment_one_machine_is_given_up_at_a_time() {
    const NAMES: [&str; 3] = ["m-2", "m-3", "m-4"];
    let mut stage = running(Plan::seeded(53), &NAMES, json!({}), json!({"name": "pool"})).await;
    observe_gate(&stage);
    for name in NAMES {
        say(&stage, name, "Ready", "Unknown").await;
    }
    stage.world.run_for(Duration::from_mins(20)).await;
    let first = failed(&stage, &NAMES).await;
    assert_eq!(first.len(), 1, "{first:?}");
    let other = NAMES.into_iter().find(|name| *name != first[0]).unwrap();
    let told = stage.told(other).await;
    assert!(
        told.iter().any(|event| event.starts_with("ReplacementInProgress") && event.contains(first[0])),
        "{told:?}"
    );

    stage.delete_machine(first[0]).await;
    stage.run_until_gone(first[0], LONG).await.unwrap();
    stage.world.run_for(Duration::from_mins(1)).await;
    let left: Vec<&str> = NAMES.into_iter().filter(|name| *name != first[0]).collect();
    assert_eq!(failed(&stage, &left).await.len(), 1);
    assert_eq!(stage.world.wire().unwrap().violations().len(), 0);

    // One that nobody wants to replace at once does not stand in the way.
    let kept = failed(&stage, &left).await[0];
    let now = json!({"metadata": {"annotations": {"node.machine.sapcloud.io/preserve": "now"}}});
    stage.patch(stage.machines(), kept, now).await;
    let last = left.into_iter().find(|name| *name != kept).unwrap();
    let done = async || phase(&stage, last).await == Phase::Failed;
    let mut waited = 0;
    while !done().await {
        assert!(waited < 60, "{last} is not given up");
        stage.world.run_for(Duration::from_secs(1)).await;
        waited += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn not_even_blind_are_two_given_up_at_once() {
    const NAMES: [&str; 3] = ["m-2", "m-3", "m-4"];
    let blind = Arc::new(AtomicBool::new(false));
    let is_blind = Arc::clone(&blind);
    let plan = Plan::seeded(54).fault_when(move |boundary, class| {
        let machines = class == Class::Watch && boundary.template.ends_with("/machines");
        let dead = Fault::Watch { after: 0, then: Break::Dead };
        (machines && is_blind.load(Ordering::Relaxed)).then_some(dead)
    });
    let stage = running(plan, &NAMES, json!({}), json!({"name": "pool"})).await;
    observe_gate(&stage);
    for name in NAMES {
        say(&stage, name, "Ready", "Unknown").await;
    }
    stage.world.run_for(Duration::from_mins(1)).await;
    // From now on the controller learns nothing new about Machines.
    blind.store(true, Ordering::Relaxed);
    stage.world.run_for(LONG).await;
    assert_eq!(failed(&stage, &NAMES).await.len(), 1);
    assert_eq!(stage.world.wire().unwrap().violations().len(), 0);
}

fn is_probe_of(kind: &str, boundary: &Boundary) -> bool {
    boundary.template.ends_with(kind) && boundary.object.contains("dummy_name")
}

#[tokio::test(start_paused = true)]
async fn while_nobody_answers_nobody_fails() {
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let plan = Plan::seeded(55).fault_when(move |boundary, class| {
        let broken = match class {
            Class::Watch => Fault::Watch { after: 0, then: Break::Dead },
            _ => Fault::Refused,
        };
        let kubernetes = boundary.template.starts_with("/api");
        (kubernetes && is_down.load(Ordering::Relaxed)).then_some(broken)
    });
    let mut stage = running(plan, &["m-2"], json!({}), json!({})).await;
    say(&stage, "m-2", "Ready", "Unknown").await;
    stage.run_until_phase("m-2", Phase::Unknown, A_BIT).await.unwrap();
    stage.world.run_for(Duration::from_mins(1)).await;
    down.store(true, Ordering::Relaxed);
    stage.world.run_for(LONG).await;
    down.store(false, Ordering::Relaxed);
    stage.run_until_phase("m-2", Phase::Running, Duration::from_mins(3)).await.unwrap();
    assert_eq!(
        said(&stage, "m-2").await,
        "Machine Health Timeout was reset due to APIServer being unreachable"
    );
    stage.run_until_phase("m-2", Phase::Unknown, Duration::from_mins(2)).await.unwrap();
    stage.world.run_for(Duration::from_mins(9)).await;
    assert_eq!(phase(&stage, "m-2").await, Phase::Unknown, "its time begins anew");
    stage.run_until_phase("m-2", Phase::Failed, Duration::from_mins(2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machines_are_left_alone_but_deletions_go_on_while_one_api_server_is_down() {
    for kind in ["/nodes/{name}", "/machines/{name}"] {
        let down = Arc::new(AtomicBool::new(false));
        let is_down = Arc::clone(&down);
        let plan = Plan::seeded(56).fault_when(move |boundary, _| {
            (is_probe_of(kind, boundary) && is_down.load(Ordering::Relaxed)).then_some(Fault::Refused)
        });
        let mut stage = running(plan, &["m-2"], json!({}), json!({})).await;
        down.store(true, Ordering::Relaxed);
        stage.world.run_for(Duration::from_mins(2)).await;
        stage.create(stage.machines(), machine("m-3")).await;
        say(&stage, "m-2", "Ready", "Unknown").await;
        stage.world.run_for(LONG).await;
        assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{kind}: a server was ordered");
        assert_eq!(phase(&stage, "m-2").await, Phase::Running, "{kind}");
        stage.delete_machine("m-2").await;
        stage.run_until_gone("m-2", LONG).await.unwrap();

        down.store(false, Ordering::Relaxed);
        stage.run_until_phase("m-3", Phase::Running, SOON).await.unwrap();
    }
}
