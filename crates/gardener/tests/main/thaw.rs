//! After an API server was away everybody gets another chance, and one that cannot be given one holds up no other.

use crate::flow::{LONG, NAMESPACE, SOON, Stage, machine};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{Fault, Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const RESET: &str = "Machine Health Timeout was reset due to APIServer being unreachable";

/// What is wrong with the API servers at the moment.
#[derive(Clone, Default)]
struct Trouble {
    /// Nobody answers the question whether somebody answers.
    down: Arc<AtomicBool>,
    /// The machine `m-2` cannot be given another chance.
    refused: Arc<AtomicBool>,
}

/// Why a machine cannot be given another chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It cannot be read.
    Unreadable,
    /// Its status cannot be written.
    Unwritable,
}

impl Trouble {
    fn plan(&self, seed: u64, why: Why) -> Plan {
        let Self { down, refused } = self.clone();
        Plan::seeded(seed).fault_when(move |boundary, _| {
            let probe = boundary.object.ends_with("dummy_name") && down.load(Ordering::Relaxed);
            let (verb, end) = match why {
                Why::Unreadable => ("GET", "/machines/{name}"),
                Why::Unwritable => ("PUT", "/machines/{name}/status"),
            };
            let status = boundary.verb == verb
                && boundary.template.ends_with(end)
                && boundary.object.ends_with("/m-2")
                && refused.load(Ordering::Relaxed);
            let conflict = Fault::Answer { status: 409, after_effect: false };
            probe.then_some(Fault::Refused).or_else(|| status.then_some(conflict))
        })
    }
}

async fn seen(stage: &Stage, name: &str) -> (Phase, String) {
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let status = machines.get(name).await.unwrap().status.unwrap();
    (status.current_status.phase, status.last_operation.description)
}

/// Nobody hears of these nodes any more.
async fn silence(stage: &Stage, names: &[&str]) {
    for name in names {
        stage.nodes.silence(name);
    }
    stage.world.run_for(Duration::from_secs(1)).await;
    let unknown =
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test"}]}});
    for name in names {
        let nodes = Api::<Node>::all(stage.admin.clone());
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(unknown.clone())).await.unwrap();
    }
}

/// Three machines, of which two are Unknown and one is well, when an API server has been away for half an hour.
async fn frozen(trouble: &Trouble, seed: u64, why: Why) -> Stage {
    let mut stage = Stage::new(trouble.plan(seed, why), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    for name in ["m-2", "m-3", "m-4"] {
        stage.create(stage.machines(), machine(name)).await;
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    }
    silence(&stage, &["m-2", "m-3"]).await;
    for name in ["m-2", "m-3"] {
        stage.run_until_phase(name, Phase::Unknown, SOON).await.unwrap();
    }
    trouble.down.store(true, Ordering::Relaxed);
    stage.world.run_for(LONG).await;
    for name in ["m-2", "m-3"] {
        assert_eq!(seen(&stage, name).await.0, Phase::Unknown, "{name} failed although nobody could tell");
    }
    stage
}

#[tokio::test(start_paused = true)]
async fn every_unknown_machine_gets_another_chance_and_no_other_is_written() {
    let trouble = Trouble::default();
    let mut stage = frozen(&trouble, 120, Why::Unwritable).await;
    let well = seen(&stage, "m-4").await;
    trouble.down.store(false, Ordering::Relaxed);
    for name in ["m-2", "m-3"] {
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
        assert_eq!(seen(&stage, name).await.1, RESET, "{name}");
    }
    assert_eq!(seen(&stage, "m-4").await, well);
    // Their nodes are as silent as before: they are Unknown again, and their time begins anew.
    for name in ["m-2", "m-3"] {
        stage.run_until_phase(name, Phase::Unknown, Duration::from_mins(2)).await.unwrap();
    }
    stage.world.run_for(Duration::from_mins(9)).await;
    for name in ["m-2", "m-3"] {
        assert_eq!(seen(&stage, name).await.0, Phase::Unknown, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_thawed_holds_up_no_other_and_does_not_fail_for_it() {
    for why in [Why::Unreadable, Why::Unwritable] {
        let trouble = Trouble::default();
        let mut stage = frozen(&trouble, 121, why).await;
        trouble.refused.store(true, Ordering::Relaxed);
        trouble.down.store(false, Ordering::Relaxed);
        stage.run_until_said("m-3", RESET, SOON).await.unwrap();
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        // Longer than a machine may be Unknown.
        stage.world.run_for(LONG).await;
        assert_eq!(seen(&stage, "m-3").await.0, Phase::Failed, "it had its chance");
        let (phase, said) = seen(&stage, "m-2").await;
        assert_eq!(phase, Phase::Unknown, "{why:?}: {said}");

        trouble.refused.store(false, Ordering::Relaxed);
        stage.run_until_said("m-2", RESET, Duration::from_mins(1)).await.unwrap();
        assert_eq!(seen(&stage, "m-2").await.0, Phase::Running);
        stage.run_until_phase("m-2", Phase::Unknown, Duration::from_mins(2)).await.unwrap();
        stage.world.run_for(Duration::from_mins(9)).await;
        assert_eq!(seen(&stage, "m-2").await.0, Phase::Unknown, "its time begins anew");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_was_left_alone_is_told_so_afterwards() {
    let trouble = Trouble::default();
    let mut stage = frozen(&trouble, 123, Why::Unwritable).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.world.run_for(SOON).await;
    for name in ["m-2", "m-3", "m-4", "m-5"] {
        let told = stage.told(name).await;
        assert!(!told.iter().any(|text| text.starts_with("WasFrozen: ")), "{name}: {told:?}");
    }
    trouble.down.store(false, Ordering::Relaxed);
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    for (name, waited) in [("m-2", true), ("m-3", true), ("m-4", false), ("m-5", true)] {
        let told = stage.told(name).await;
        let words = "an API server gave no answer, and nothing was done for this machine until";
        let so = told.iter().filter(|text| text.starts_with("WasFrozen: ") && text.contains(words)).count();
        assert_eq!(so, usize::from(waited), "{name}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_frozen_alone_can_be_deleted() {
    let trouble = Trouble::default();
    let mut stage = frozen(&trouble, 122, Why::Unwritable).await;
    trouble.refused.store(true, Ordering::Relaxed);
    trouble.down.store(false, Ordering::Relaxed);
    stage.run_until_said("m-3", RESET, SOON).await.unwrap();
    stage.delete_machine("m-2").await;
    trouble.refused.store(false, Ordering::Relaxed);
    stage.run_until_gone("m-2", LONG).await.unwrap();
}
