//! A server that failed before it ever ran gives way to another one; none that ran does.

use crate::flow::{LONG, PROJECT, SOON, Stage, machine, ours};
use hostler_gardener::api::Phase;
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Sweep, stackit::Settings};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

fn failing() -> Settings {
    Settings { fails: ["m-5".to_owned()].into(), ..Settings::default() }
}

async fn stage(plan: Plan, settings: Settings) -> Stage {
    stage_of(plan, settings, machine("m-5")).await
}

async fn stage_of(plan: Plan, settings: Settings, wanted: Value) -> Stage {
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), wanted).await;
    stage
}

/// One that may take long.
fn patient_machine() -> Value {
    let mut patient = machine("m-5");
    patient["spec"]["creationTimeout"] = json!("2h0m0s");
    patient
}

async fn annotation(stage: &Stage, name: &str) -> Option<String> {
    stage.machines().get("m-5").await.unwrap().metadata.annotations?.remove(name)
}

fn servers(stage: &Stage) -> Vec<String> {
    let servers = stage.cloud.servers();
    ours(&servers).filter(|server| server.status != "DELETING").map(|server| server.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ran_is_replaced_after_a_while() {
    let mut stage = stage_of(Plan::seeded(80), failing(), patient_machine()).await;
    stage.run_until_said("m-5", "could not start the server", SOON).await.unwrap();
    let failed = servers(&stage);
    stage.world.run_for(Duration::from_mins(2)).await;
    assert_eq!(servers(&stage), failed, "not at once");
    let orders = stage.cloud.calls()["CreateServer"];
    stage.world.run_for(Duration::from_mins(9)).await;
    let repeated = stage.cloud.calls()["CreateServer"] - orders;
    assert_eq!(repeated, 2, "after three minutes, and after six more");
    stage.cloud.set(|settings| settings.fails.clear());
    stage.run_until_phase("m-5", Phase::Running, Duration::from_mins(10)).await.unwrap();
    let [server] = servers(&stage).try_into().unwrap();
    let seen = stage.machines().get("m-5").await.unwrap();
    assert_eq!(seen.spec.provider_id, format!("stackit://{PROJECT}/{server}"));
    let annotations = seen.metadata.annotations.unwrap();
    assert!(!annotations.contains_key("machine.hostler.dev/replaces"), "{annotations:?}");
    let told = stage.told("m-5").await;
    assert!(told.iter().any(|event| event.starts_with("ServerReplaced")), "{told:?}");
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

/// How long it took from each order to the next, in seconds.
fn pauses(stage: &Stage) -> Vec<u64> {
    let trace = stage.world.wire().unwrap().trace();
    let order = |line: &str| {
        let (time, rest) = line.trim_start().split_once(' ')?;
        let is_order = rest.contains("POST") && rest.contains("/servers");
        is_order.then(|| time.split('.').next()?.parse::<u64>().ok())?
    };
    let orders: Vec<u64> = trace.lines().filter_map(order).collect();
    orders.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn each_server_that_fails_is_waited_for_longer_whoever_works_by_then() {
    let mut stage = Stage::new(Plan::seeded(83), failing()).await;
    let process = stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), patient_machine()).await;
    stage.run_until_said("m-5", "could not start the server", SOON).await.unwrap();
    for given_way in 1..=5 {
        let cloud = stage.cloud.clone();
        let ordered = async || cloud.calls()["CreateServer"] > given_way;
        stage.world.run_until("another one is ordered", Duration::from_mins(11), ordered).await.unwrap();
        let written = annotation(&stage, "machine.hostler.dev/servers-given-way").await;
        assert_eq!(written, Some(given_way.to_string()));
        // The next one begins with what is written down.
        stage.world.run_for(Duration::from_secs(30)).await;
        process.crash();
    }
    let pauses = pauses(&stage);
    assert_eq!(pauses.len(), 5);
    // Up to a quarter sooner by the machine's name; and what the cloud needs comes on top.
    for (pause, minutes) in pauses.iter().zip([3, 6, 10, 10, 10]) {
        let expected = minutes * 60 * 3 / 4..=minutes * 60 + 30;
        assert!(expected.contains(pause), "{pauses:?}: {minutes} minutes");
    }
    stage.cloud.set(|settings| settings.fails.clear());
    stage.run_until_phase("m-5", Phase::Running, Duration::from_mins(11)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_room_is_waited_for_longer_and_after_the_creation_timeout_not_at_all() {
    let settings = Settings { capacity: [("*".to_owned(), 1)].into(), ..Settings::default() };
    let mut stage = stage(Plan::seeded(81), settings).await;
    stage.run_until_said("m-5", "code = [ResourceExhausted]", SOON).await.unwrap();
    let first = servers(&stage);
    stage.world.run_for(Duration::from_mins(8)).await;
    assert_eq!(servers(&stage), first);
    stage.run_until_phase("m-5", Phase::Failed, LONG).await.unwrap();
    let operation = stage.machines().get("m-5").await.unwrap().status.unwrap().last_operation;
    assert_eq!(operation.error_code, "ResourceExhausted");
    let orders = stage.cloud.calls()["CreateServer"];
    assert!((2..=3).contains(&orders), "{orders}: one or two more within twenty minutes");
    stage.world.run_for(LONG).await;
    assert_eq!(stage.cloud.calls()["CreateServer"], orders);
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ran_is_never_replaced() {
    for tells_launch in [true, false] {
        fails_after_it_ran(Settings { tells_launch, ..Settings::default() }).await;
    }
}

/// What is to be done to it fails, so the machine stays new; then the server breaks.
async fn fails_after_it_ran(settings: Settings) {
    let plan = Plan::seeded(82).fault_when(|boundary: &Boundary, _| {
        let settles = boundary.verb == "PATCH" && boundary.template.contains("/nics/");
        settles.then_some(Fault::Answer { status: 500, after_effect: false })
    });
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage
        .patch(stage.classes(), "small", json!({"providerSpec": {"allowedAddresses": ["10.0.0.0/8"]}}))
        .await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::CrashLoopBackOff, SOON).await.unwrap();
    let [server] = servers(&stage).try_into().unwrap();
    assert!(stage.cloud.fail_server(&server, "the hypervisor is on fire"));
    stage.run_until_said("m-5", "on fire", SOON).await.unwrap();
    stage.world.run_for(Duration::from_mins(12)).await;
    assert_eq!(servers(&stage), [server]);
}

/// One machine whose first server fails, is replaced, and goes.
async fn second_try(plan: Plan) -> Finished {
    let mut stage = stage(plan, failing()).await;
    let goal = async {
        stage.run_until_said("m-5", "could not start the server", LONG).await?;
        stage.cloud.set(|settings| settings.fails.clear());
        stage.run_until_phase("m-5", Phase::Running, LONG).await?;
        stage.delete_machine("m-5").await;
        stage.run_until_gone("m-5", LONG).await?;
        stage.world.run_for(Duration::from_mins(3)).await;
        match stage.leftovers().await.as_slice() {
            [] => Ok(()),
            left => Err(format!("left behind: {}", left.join(", "))),
        }
    };
    let goal = goal.await;
    stage.world.finish(goal)
}

/// What leaves the outcome of a call to the cloud or of a write of the Machine unknown.
fn unknown_outcomes(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let cloud = boundary.template.contains("/regions/");
    let machine = boundary.verb == "PUT" && boundary.template.ends_with("/machines/{name}");
    let unknown = matches!(fault, Fault::CrashBefore | Fault::CrashAfter | Fault::TimeoutAfter);
    class == Class::Effect && (cloud || machine) && unknown
}

#[test]
fn a_replacement_survives_unknown_outcomes() {
    let report = Sweep::new("a second try", 1).only(unknown_outcomes).run(second_try).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/second-try.txt");
    if let Err(difference) = report.recording.check(&committed) {
        panic!("{difference}");
    }
}
