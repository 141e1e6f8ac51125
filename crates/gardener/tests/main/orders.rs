//! What is ordered, what is refused before anything is ordered, and what is done to a server afterwards.

use crate::flow::{
    CLUSTER, LONG, NAMESPACE, PROJECT, REGION, SOON, Stage, class, machine, open_to_all, ours, secret,
};
use hostler_base::transport;
use hostler_gardener::api::Phase;
use hostler_sim::{Boundary, Class, Fault, Finished, Plan, Sweep, stackit::Settings};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

async fn with(plan: Plan, settings: Settings, class: Value, secret: Value) -> Stage {
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret).await;
    stage.create(stage.classes(), class).await;
    stage
}

/// A class whose servers need everything that is done after the create call.
fn demanding() -> Value {
    let mut class = class();
    class["providerSpec"]["allowedAddresses"] = json!(["10.0.0.1/8", "fd00::/8"]);
    class["providerSpec"]["bootVolume"] = Value::Null;
    class
}

async fn posts(stage: &Stage) -> u64 {
    stage.world.run_for(LONG).await;
    stage.cloud.calls().get("CreateServer").copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_made_is_told_before_any_order() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut class = class();
        change(&mut class);
        class
    };
    let table = [
        (changed(&|class| class["provider"] = json!("aws")), "m-5", "provider: \"aws\" is not \"stackit\""),
        (
            changed(&|class| class["providerSpec"]["machineType"] = json!("big")),
            "m-5",
            "providerSpec.machineType",
        ),
        (
            changed(&|class| class["providerSpec"]["networking"] = Value::Null),
            "m-5",
            "\"networkId\" in the Secret",
        ),
        (class(), &"m".repeat(64), "metadata.name"),
    ];
    for (class, name, words) in table {
        let mut stage = with(Plan::seeded(31), Settings::default(), class, secret()).await;
        stage.create(stage.machines(), machine(name)).await;
        stage.run_until_said(name, words, SOON).await.unwrap();
        let operation = stage.machines().get(name).await.unwrap().status.unwrap().last_operation;
        assert_eq!(operation.error_code, "InvalidArgument", "{words}");
        assert_eq!(posts(&stage).await, 0, "{words}");
        stage.delete_machine(name).await;
        stage.run_until_gone(name, LONG).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_with_things_that_exist_once_is_for_one_machine() {
    let mut class = class();
    class["providerSpec"]["networking"] = json!({"nicIds": [PROJECT]});
    let mut stage = with(Plan::seeded(32), Settings::default(), class, secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_said("m-2", "providerSpec.networking.nicIds", SOON).await.unwrap();
    // Less than the time in which it has to be there.
    stage.world.run_for(Duration::from_mins(10)).await;
    assert_eq!(stage.cloud.calls().get("CreateServer"), None);
    stage.delete_machine("m-2").await;
    stage.run_until_phase("m-5", Phase::Running, LONG).await.unwrap();
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    let nics: Vec<String> = stage.cloud.nics().into_iter().map(|nic| nic.id).collect();
    assert!(nics.contains(&PROJECT.to_owned()), "a NIC that was given stays: {nics:?}");
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_the_seed_and_any_spelling_of_the_provider_will_do() {
    let mut class = class();
    class["provider"] = json!("STACKIT");
    class["providerSpec"]["region"] = Value::Null;
    class["providerSpec"]["networking"] = Value::Null;
    class["providerSpec"]["userData"] = json!("#!/bin/sh");
    let old = json!({"metadata": {"name": "credentials"}, "stringData": {"projectId": "my-project",
        "apiToken": "open sesame", "region": format!("{REGION}-2"), "networkId": PROJECT}});
    let mut stage = with(Plan::seeded(33), open_to_all(), class, old).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    let servers = stage.cloud.servers();
    let server = ours(&servers).next().unwrap();
    assert_eq!((server.project.as_str(), server.region.as_str()), ("my-project", REGION));
    let told = stage.told("m-5").await;
    assert!(
        told.iter().any(|event| event.starts_with("LooksWrong") && event.contains("my-project")),
        "{told:?}"
    );
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_class_need_not_name_its_provider() {
    for provider in [Some(""), None] {
        let mut class = class();
        class["provider"] = json!(provider);
        if provider.is_none() {
            class.as_object_mut().unwrap().remove("provider");
        }
        let mut stage = with(Plan::seeded(36), Settings::default(), class, secret()).await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        stage.delete_machine("m-5").await;
        stage.run_until_gone("m-5", LONG).await.unwrap();
        assert_eq!(stage.leftovers().await, [""; 0], "{provider:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_room_is_resource_exhausted() {
    let settings = Settings { capacity: [("*".to_owned(), 1)].into(), ..Settings::default() };
    let mut stage = with(Plan::seeded(34), settings, class(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_said("m-5", "No valid host was found", SOON).await.unwrap();
    let operation = stage.machines().get("m-5").await.unwrap().status.unwrap().last_operation;
    assert_eq!(operation.error_code, "ResourceExhausted");
    assert!(operation.description.contains("code = [ResourceExhausted]"), "{}", operation.description);
}

#[tokio::test(start_paused = true)]
async fn everything_is_done_to_a_server_before_it_counts() {
    let mut stage = with(Plan::seeded(35), Settings::default(), demanding(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Pending, SOON).await.unwrap();
    let nics = stage.cloud.nics();
    let nic = nics.iter().find(|nic| nic.network == PROJECT).unwrap();
    assert_eq!(nic.allowed_addresses, ["10.0.0.1/8", "fd00::/8"]);
    let status = stage.machines().get("m-5").await.unwrap().status.unwrap();
    assert!(!status.addresses.is_empty());
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new(), "the boot volume too");
}

/// What the NICs in our network may send from.
fn allowed(stage: &Stage) -> Vec<String> {
    let nics = stage.cloud.nics();
    let nic = nics.iter().find(|nic| nic.network == PROJECT).unwrap();
    nic.allowed_addresses.clone()
}

#[tokio::test(start_paused = true)]
async fn allowed_addresses_hold_also_when_somebody_takes_them_away() {
    let mut stage = with(Plan::seeded(41), Settings::default(), demanding(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    let nic = stage.cloud.nics().into_iter().find(|nic| nic.network == PROJECT).unwrap();
    let path = format!("/v2/projects/{PROJECT}/regions/{REGION}/networks/{PROJECT}/nics/{}", nic.id);
    let body = transport::full(json!({"allowedAddresses": ["192.168.0.0/16"]}).to_string());
    let request = http::Request::patch(path).header("content-type", "application/json").body(body).unwrap();
    let answer = transport::exchange(&stage.cloud.transport(), request, 1 << 20).await.unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    stage.world.run_for(Duration::from_mins(21)).await;
    let mut now = allowed(&stage);
    now.sort();
    assert_eq!(now, ["10.0.0.1/8", "192.168.0.0/16", "fd00::/8"], "what others put there stays");
    let looks = || stage.cloud.calls()["GetServer"];
    let before = looks();
    stage.world.run_for(Duration::from_mins(60)).await;
    let often = looks() - before;
    assert!((6..=14).contains(&often), "two looks every ten minutes: {often}");
    // Whatever becomes of the NIC, the machine is well.
    let phase = stage.machines().get("m-5").await.unwrap().status.unwrap().current_status.phase;
    assert_eq!(phase, Phase::Running);
}

#[tokio::test(start_paused = true)]
async fn labels_that_a_class_gets_later_change_no_server() {
    let mut stage = with(Plan::seeded(43), Settings::default(), demanding(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    let labels = || ours(&stage.cloud.servers()).next().unwrap().labels.clone();
    let before = labels();
    stage.patch(stage.classes(), "small", json!({"providerSpec": {"labels": {"team": "new"}}})).await;
    stage.world.run_for(Duration::from_hours(1)).await;
    assert_eq!(stage.cloud.calls().get("UpdateServer"), None);
    assert_eq!(labels(), before);
    // Those that come later have them.
    stage.create(stage.machines(), machine("m-6")).await;
    stage.run_until_phase("m-6", Phase::Running, SOON).await.unwrap();
    let servers = stage.cloud.servers();
    let later = ours(&servers).find(|server| server.name == "m-6").unwrap();
    assert_eq!(later.labels.get("team").map(String::as_str), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn ranges_that_a_class_gets_later_reach_the_machines_that_run() {
    for first in [json!(["10.0.0.0/8"]), Value::Null] {
        let mut class = class();
        class["providerSpec"]["allowedAddresses"] = first.clone();
        let mut stage = with(Plan::seeded(42), Settings::default(), class, secret()).await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        assert_eq!(json!(allowed(&stage)), if first.is_null() { json!([]) } else { first.clone() });
        let later = json!({"providerSpec": {"allowedAddresses": ["10.0.0.0/8", "192.168.0.0/16"]}});
        stage.patch(stage.classes(), "small", later).await;
        stage.world.run_for(Duration::from_mins(11)).await;
        assert_eq!(allowed(&stage), ["10.0.0.0/8", "192.168.0.0/16"], "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ran_takes_its_boot_volume_along() {
    let settings = Settings { fails: ["m-5".to_owned()].into(), ..Settings::default() };
    let mut stage = with(Plan::seeded(36), settings, demanding(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_said("m-5", "could not start", SOON).await.unwrap();
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_boot_volume_that_is_to_stay_stays() {
    let mut class = class();
    class["providerSpec"]["bootVolume"] = json!({"deleteOnTermination": false});
    let mut stage = with(Plan::seeded(37), Settings::default(), class, secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    // Also when the class says nothing about it any more.
    stage.patch(stage.classes(), "small", json!({"providerSpec": {"bootVolume": null}})).await;
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    let left = stage.leftovers().await;
    assert!(left.len() == 1 && left[0].starts_with("volume"), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_too_long_is_told_with_the_last_status_and_goes_on() {
    let settings = Settings { stuck_deleting: ["m-5".to_owned()].into(), ..Settings::default() };
    let mut stage = with(Plan::seeded(38), settings, class(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    stage.delete_machine("m-5").await;
    stage.run_until_said("m-5", "code = [DeadlineExceeded]", LONG).await.unwrap();
    let said = stage.machines().get("m-5").await.unwrap().status.unwrap().last_operation.description;
    assert!(said.contains("is still DELETING") && said.ends_with("Initiate VM deletion"), "{said}");
    stage.world.run_for(LONG).await;
    stage.cloud.set(|settings| settings.stuck_deleting.clear());
    stage.run_until_gone("m-5", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_console_tells_why_a_node_did_not_join() {
    let console = "kubelet: certificate has expired".to_owned();
    let settings = Settings {
        joins_without_token: false,
        consoles: [("m-5".to_owned(), console)].into(),
        ..Settings::default()
    };
    let mut class = class();
    class["providerSpec"]["userData"] = json!("#!/bin/sh");
    let mut stage = with(Plan::seeded(39), settings, class, secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Failed, Duration::from_mins(40)).await.unwrap();
    let told = stage.told("m-5").await;
    let why =
        |event: &String| event.starts_with("NodeDidNotJoin") && event.contains("certificate has expired");
    assert_eq!(told.iter().filter(|event| why(event)).count(), 1, "{told:?}");
}

/// One machine of the demanding class is wished for, comes, is given back and goes.
async fn demanding_life(plan: Plan) -> Finished {
    let mut stage = with(plan, Settings::default(), demanding(), secret()).await;
    stage.create(stage.machines(), machine("m-5")).await;
    let goal = async {
        stage.run_until_phase("m-5", Phase::Running, LONG).await?;
        let deleted = stage.machines().delete("m-5", &DeleteParams::default()).await;
        deleted.map_err(|error| error.to_string())?;
        stage.run_until_gone("m-5", LONG).await?;
        match stage.leftovers().await.as_slice() {
            [] => Ok(()),
            left => Err(format!("left behind in {NAMESPACE} of {CLUSTER}: {}", left.join(", "))),
        }
    };
    let goal = goal.await;
    stage.world.finish(goal)
}

/// What is done to a server after the create call.
fn afterwards(class: Class, boundary: &Boundary, _: &Fault) -> bool {
    class == Class::Effect && boundary.verb == "PATCH" && boundary.template.contains("/regions/")
}

#[test]
fn what_is_done_afterwards_survives_every_fault() {
    let report = Sweep::new("a demanding life", 1).only(afterwards).run(demanding_life).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    let of = |part: &str| report.recording.to_text().contains(part);
    assert!(of("/nics/{nic}") && of("/volume-attachments/{volume}"), "nothing was broken");
}

/// What can go wrong between the mark of an order and the order.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_comes_of_an_order_that_was_never_sent() {
    type Wrong = fn(&Boundary) -> Option<Fault>;
    let table: [(&str, Wrong); 3] = [
        ("the token cannot be made", |boundary| {
            let token =
                boundary.verb == "POST" && boundary.template.ends_with("/namespaces/{namespace}/secrets");
            (token && boundary.nth == 1).then_some(Fault::Refused)
        }),
        ("the last look fails", |boundary| {
            let look = boundary.verb == "GET" && boundary.template.ends_with("/servers");
            (look && boundary.nth == 2).then_some(Fault::Refused)
        }),
        ("the class is not kept for a while", |boundary| {
            let token =
                boundary.verb == "POST" && boundary.template.ends_with("/namespaces/{namespace}/secrets");
            let keep = boundary.verb == "PATCH" && boundary.template.contains("machineclasses");
            let late = if token { 2 } else { 6 };
            let first_or_second = if token { 1 } else { 2 };
            let meant = (token || keep) && boundary.nth == first_or_second;
            meant.then_some(Fault::Late(Duration::from_secs(late)))
        }),
    ];
    for (what, wrong) in table {
        let plan = Plan::seeded(36).fault_when(move |boundary, _| {
            (boundary.actor == "machine-controller").then(|| wrong(boundary)).flatten()
        });
        let mut stage = with(plan, Settings::default(), class(), secret()).await;
        stage.create(stage.machines(), machine("m-5")).await;
        let machines = stage.machines();
        let marked = async || {
            machines.get("m-5").await.is_ok_and(|machine| {
                machine
                    .metadata
                    .annotations
                    .is_some_and(|all| all.keys().any(|key| key.ends_with("/create-attempt")))
            })
        };
        stage.world.run_until("it is marked", SOON, marked).await.unwrap();
        assert_eq!(stage.cloud.calls().get("CreateServer"), None, "{what}: it is too late to fail");
        if what.starts_with("the class") {
            let nothing = json!({"metadata": {"finalizers": null}});
            stage.classes().patch("small", &PatchParams::default(), &Patch::Merge(nothing)).await.unwrap();
        }
        // An order whose outcome is unknown would be waited for longer than this.
        stage.run_until_phase("m-5", Phase::Pending, Duration::from_secs(45)).await.unwrap_or_else(|error| {
            panic!("{what}: {error}");
        });
        assert_eq!(stage.cloud.calls().get("CreateServer"), Some(&1), "{what}");
    }
}
