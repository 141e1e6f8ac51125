//! No boot volume is left of a server, also where the cloud lets nobody change what becomes of it.

use crate::{
    crowd_sweep::passed,
    flow::{LONG, SOON, Stage, class, machine, ours, secret},
};
use hostler_gardener::api::Phase;
use hostler_sim::stackit::Settings;
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Sweep, stackit};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// Nothing is said about boot volumes, so the cloud keeps them unless it is told otherwise.
fn without_word() -> Value {
    let mut class = class();
    class["providerSpec"]["bootVolume"] = Value::Null;
    class
}

/// Servers in these statuses let nobody change their attachments.
fn fixed(statuses: &[&str]) -> Settings {
    let fixed_attachments = statuses.iter().map(|status| (*status).to_owned()).collect();
    Settings { fixed_attachments, ..Settings::default() }
}

async fn stage(plan: Plan, settings: Settings) -> Stage {
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    stage.create(stage.classes(), without_word()).await;
    stage
}

fn calls(stage: &Stage, operation: &str) -> u64 {
    stage.cloud.calls().get(operation).copied().unwrap_or_default()
}

/// A machine is given up while its server is still being made.
async fn given_up_early(plan: Plan) -> Finished {
    let mut stage = stage(plan, Settings { boot_time: LONG * 4, ..fixed(&["CREATING"]) }).await;
    let goal = given_up_early_on(&mut stage).await;
    stage.world.finish(goal)
}

async fn given_up_early_on(stage: &mut Stage) -> Result<(), String> {
    stage.create(stage.machines(), machine("m-2")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("the server is ordered", LONG, ordered).await?;
    stage.world.run_for(Duration::from_secs(5)).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", LONG).await?;
    match stage.leftovers().await.as_slice() {
        [] => Ok(()),
        left => Err(format!("left behind: {}", left.join(", "))),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_given_up_while_it_is_made_leaves_no_volume() {
    let mut stage = stage(Plan::seeded(700), Settings { boot_time: LONG * 4, ..fixed(&["CREATING"]) }).await;
    given_up_early_on(&mut stage).await.unwrap();
    assert_eq!((calls(&stage, "UpdateVolume"), calls(&stage, "DeleteVolume")), (1, 1));
    assert!(stage.cloud.volumes().iter().all(|volume| volume.server.as_ref() == Some(&stage.foreign)));
}

/// The cloud's calls, and what is written between them.
fn concerns(_: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let of_interest =
        boundary.template.contains("/regions/") || boundary.template.ends_with("/machines/{name}");
    let create = boundary.verb == "POST" && boundary.template.ends_with("/servers");
    boundary.actor == "machine-controller" && of_interest && !(create && *fault == Fault::Duplicate)
}

#[test]
fn no_volume_is_left_whatever_call_goes_wrong() {
    let sweep = Sweep::new("a server that is given up early", 1).only(concerns);
    passed(&sweep.run(given_up_early).unwrap());
}

#[tokio::test(start_paused = true)]
async fn servers_that_failed_and_were_replaced_leave_no_volume() {
    let failing = Settings { fails: ["m-2".to_owned()].into(), ..fixed(&["CREATING", "ERROR"]) };
    let mut stage = stage(Plan::seeded(701), failing).await;
    let mut patient = machine("m-2");
    patient["spec"]["creationTimeout"] = json!("1h0m0s");
    stage.create(stage.machines(), patient).await;
    let cloud = stage.cloud.clone();
    let replaced = async || cloud.calls().get("CreateServer").is_some_and(|calls| *calls >= 3);
    stage.world.run_until("it is replaced twice", LONG, replaced).await.unwrap();
    let attached: BTreeSet<Option<String>> =
        stage.cloud.volumes().into_iter().map(|volume| volume.server).collect();
    assert!(!attached.contains(&None), "a volume is left of a server that was replaced");
    stage.cloud.set(|settings| settings.fails.clear());
    stage.run_until_phase("m-2", Phase::Running, LONG).await.unwrap();
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_deleted_is_told_and_holds_its_machine() {
    let mut stage = stage(Plan::seeded(702), Settings { boot_time: LONG * 4, ..fixed(&["CREATING"]) }).await;
    stage.cloud.add_fault(stackit::Fault::on("DeleteVolume").status(409)).unwrap();
    stage.create(stage.machines(), machine("m-2")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("the server is ordered", SOON, ordered).await.unwrap();
    stage.world.run_for(Duration::from_secs(5)).await;
    stage.delete_machine("m-2").await;
    stage.run_until_said("m-2", "is left and cannot be deleted: STACKIT answered 409", LONG).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 0);
    let told = stage.told("m-2").await;
    assert!(
        told.iter().any(|event| event.starts_with("CloudFailure") && event.contains("boot volume")),
        "{told:?}"
    );
    stage.cloud.clear_faults();
    stage.run_until_gone("m-2", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_the_class_says_later_does_not_orphan_a_volume() {
    let later = [
        ("a boot volume", json!({"bootVolume": {"size": 50}}), false),
        ("nothing that can be read", json!({"region": 7, "labels": null}), false),
        ("that it stays", json!({"bootVolume": {"deleteOnTermination": false}}), true),
    ];
    for (what, spec, stays) in later {
        // Nothing is settled before the deletion: only that decides.
        let mut stage =
            stage(Plan::seeded(703), Settings { boot_time: LONG * 4, ..Settings::default() }).await;
        stage.create(stage.machines(), machine("m-2")).await;
        let machines = stage.machines();
        let known =
            async || machines.get("m-2").await.is_ok_and(|machine| !machine.spec.provider_id.is_empty());
        stage.world.run_until("the server is known", SOON, known).await.unwrap();
        stage.patch(stage.classes(), "small", json!({"providerSpec": spec})).await;
        stage.delete_machine("m-2").await;
        stage.run_until_gone("m-2", LONG).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(
            stage.leftovers().await.len(),
            usize::from(stays),
            "{what}: {:?}",
            stage.leftovers().await
        );
    }
}
