//! Keys and Secrets that change under way: the old key ends in the middle of many creations, and what was broken
//! works as soon as it is corrected.

use crate::flow::{PROJECT, SOON, Stage, class, machine, ours};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{
    Plan,
    stackit::{Fault, NewKey, Settings, Stackit},
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const MANY: usize = 100;

fn locked() -> Settings {
    Settings { require_token: true, ..Settings::default() }
}

fn key(cloud: &Stackit) -> Value {
    cloud.issue_key(NewKey { mail: "nodes@sa.stackit.cloud".into(), ..NewKey::default() }).unwrap()
}

fn kid(key: &Value) -> &str {
    key["credentials"]["kid"].as_str().unwrap()
}

fn secret(account: &str) -> Value {
    json!({"metadata": {"name": "credentials"}, "stringData": {"project-id": PROJECT,
        "serviceaccount.json": account, "userData": "#cloud-config\ntoken: <<BOOTSTRAP_TOKEN>>"}})
}

/// A stage whose Secret has this key.
async fn stage(seed: u64, key: impl FnOnce(&Stackit) -> String) -> Stage {
    let mut stage = Stage::new(Plan::seeded(seed), locked()).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret(&key(&stage.cloud))).await;
    stage.create(stage.classes(), class()).await;
    stage
}

async fn rotate(stage: &Stage, account: &str) {
    let data = json!({"stringData": {"serviceaccount.json": account}});
    stage.patch(stage.secrets(), "credentials", data).await;
}

/// Lets a hundred machines come; gives the phases that were seen on the way.
async fn until_all_run(stage: &Stage, limit: Duration) -> BTreeSet<String> {
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), crate::flow::NAMESPACE);
    let mut seen = BTreeSet::new();
    let mut left = limit.as_secs();
    loop {
        let all = machines.list(&ListParams::default()).await.unwrap().items;
        let phases: Vec<Phase> = all
            .iter()
            .map(|one| one.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default())
            .collect();
        seen.extend(phases.iter().map(|phase| format!("{phase:?}")));
        if phases.len() == MANY && phases.iter().all(|phase| *phase == Phase::Running) {
            return seen;
        }
        let late: Vec<String> = all
            .iter()
            .filter(|one| {
                one.status.as_ref().is_none_or(|status| status.current_status.phase != Phase::Running)
            })
            .map(ResourceExt::name_any)
            .collect();
        assert!(left > 0, "not all run within {limit:?}: {late:?}");
        left -= 1;
        stage.world.run_for(Duration::from_secs(1)).await;
    }
}

async fn a_hundred_with(seed: u64, change: impl AsyncFnOnce(&Stage, &Value, &Value)) -> BTreeSet<String> {
    let mut first = Value::Null;
    let stage = stage(seed, |cloud| {
        first = key(cloud);
        first.to_string()
    })
    .await;
    // Each order takes its time, so that the old key ends while some of them are on their way.
    stage.cloud.add_fault(Fault { delay: 2.0, ..Fault::on("CreateServer") }).unwrap();
    for number in 0..MANY {
        stage.create(stage.machines(), machine(&format!("w-{number}"))).await;
    }
    let mut waited = 0;
    while stage.cloud.calls().get("CreateServer").copied().unwrap_or_default() < 10 {
        stage.world.run_for(Duration::from_millis(100)).await;
        waited += 1;
        assert!(waited < 1_000, "nothing is ordered");
    }
    let second = key(&stage.cloud);
    change(&stage, &first, &second).await;
    let seen = until_all_run(&stage, SOON).await;
    let servers = stage.cloud.servers();
    assert_eq!(ours(&servers).count(), MANY);
    assert!(!seen.contains("Failed"), "{seen:?}");
    seen
}

#[tokio::test(start_paused = true)]
async fn the_old_key_ends_in_the_middle_of_a_hundred_creations_and_no_machine_fails() {
    let seen = a_hundred_with(700, async |stage, first, second| {
        assert!(stage.cloud.revoke_key(kid(first)));
        stage.world.run_for(Duration::from_secs(10)).await;
        let refused = stage.cloud.calls()["Token"];
        assert!(refused > 1, "the key was asked for tokens again");
        rotate(stage, &second.to_string()).await;
    })
    .await;
    assert!(seen.contains("CrashLoopBackOff"), "some met the end of the old key: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_replaced_before_its_end_is_not_missed() {
    let seen = a_hundred_with(701, async |stage, first, second| {
        rotate(stage, &second.to_string()).await;
        // Orders on their way still carry the old key's token.
        stage.world.run_for(Duration::from_secs(3)).await;
        assert!(stage.cloud.revoke_key(kid(first)));
    })
    .await;
    assert!(!seen.contains("CrashLoopBackOff"), "{seen:?}");
}

/// What can be wrong with a Secret, and the words in which it is told.
fn broken(cloud: &Stackit) -> Vec<(&'static str, Value, &'static str)> {
    let revoked = key(cloud);
    cloud.revoke_key(kid(&revoked));
    let mut other = key(cloud);
    other["credentials"]["privateKey"] = key(cloud)["credentials"]["privateKey"].clone();
    let account = |text: &str| json!({"serviceaccount.json": text});
    vec![
        ("cut off", account("{\"credentials\": {"), "is not JSON"),
        ("no key file", account("{}"), "has no \"credentials\""),
        ("only the private key", account("-----BEGIN PRIVATE KEY-----\nx"), "holds a private key where"),
        (
            "a key that was deleted",
            account(&revoked.to_string()),
            "gave nodes@sa.stackit.cloud no access token",
        ),
        (
            "another one's private key",
            account(&other.to_string()),
            "gave nodes@sa.stackit.cloud no access token",
        ),
        ("no project", json!({"project-id": null}), "\"project-id\" is missing"),
        ("no key at all", json!({"serviceaccount.json": null}), "STACKIT answered 401"),
    ]
}

async fn set(stage: &Stage, data: &Value) {
    let mut data = data.clone();
    for value in data.as_object_mut().unwrap().values_mut().filter(|value| value.is_string()) {
        let text = value.as_str().unwrap().to_owned();
        *value = json!(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text));
    }
    stage.patch(stage.secrets(), "credentials", json!({"data": data})).await;
}

fn whole(cloud: &Stackit) -> Value {
    json!({"project-id": PROJECT, "serviceaccount.json": key(cloud).to_string()})
}

#[tokio::test(start_paused = true)]
async fn a_broken_secret_works_at_once_when_it_is_corrected() {
    // Else it would be minutes.
    const AT_ONCE: Duration = Duration::from_secs(30);
    let mut stage = stage(710, |cloud| key(cloud).to_string()).await;
    for (number, (what, data, words)) in broken(&stage.cloud).into_iter().enumerate() {
        let name = format!("w-{number}");
        set(&stage, &data).await;
        stage.create(stage.machines(), machine(&name)).await;
        let told = words;
        stage.run_until_said(&name, told, SOON).await.unwrap_or_else(|why| panic!("{what}: {why}"));
        let seen = stage.machines().get(&name).await.unwrap().status.unwrap();
        assert_eq!(seen.current_status.phase, Phase::CrashLoopBackOff, "{what}");
        // By now it would be tried in minutes only.
        stage.world.run_for(Duration::from_secs(20)).await;
        set(&stage, &whole(&stage.cloud)).await;
        stage
            .run_until_phase(&name, Phase::Running, AT_ONCE)
            .await
            .unwrap_or_else(|why| panic!("{what}: {why}"));

        // The same on the way out.
        set(&stage, &data).await;
        stage.delete_machine(&name).await;
        stage.world.run_for(Duration::from_secs(40)).await;
        if data["project-id"].is_null() && data.get("project-id").is_some() {
            // Where the server is stands on the Machine.
            assert!(stage.machines().get_opt(&name).await.unwrap().is_none(), "{what}");
        } else {
            let seen = stage.machines().get(&name).await.unwrap().status.unwrap().last_operation;
            assert!(seen.description.contains(told), "{what}: {}", seen.description);
        }
        set(&stage, &whole(&stage.cloud)).await;
        stage.run_until_gone(&name, AT_ONCE).await.unwrap_or_else(|why| panic!("{what}: {why}"));
        assert_eq!(stage.leftovers().await, [""; 0], "{what}");
    }
}

/// Whoever gets no token cannot call at all: that is told like a refusal of the call itself, on the way in and on the way
/// out, and is over soon after the cloud gives way.
#[tokio::test(start_paused = true)]
async fn a_refused_token_is_told_and_tried_again() {
    const PASSING: (&str, u64) = ("Unavailable", 5);
    const REFUSED: (&str, u64) = ("Unauthenticated", 180);
    let table = [
        (400, REFUSED),
        (401, REFUSED),
        (403, REFUSED),
        (409, REFUSED),
        (413, REFUSED),
        (429, PASSING),
        (500, PASSING),
        (502, PASSING),
    ];
    for (number, (status, (code, seconds))) in table.into_iter().enumerate() {
        let mut stage = Stage::new(Plan::seeded(730 + u64::try_from(number).unwrap()), locked()).await;
        let process = stage.start_controller();
        let refusal = Fault::on("Token").status(status);
        stage.cloud.add_fault(refusal.clone()).unwrap();
        let key = key(&stage.cloud).to_string();
        stage.create(stage.secrets(), secret(&key)).await;
        stage.create(stage.classes(), class()).await;
        stage.create(stage.machines(), machine("w-1")).await;
        let told = format!("code = [{code}]");
        stage.run_until_said("w-1", &told, SOON).await.unwrap_or_else(|why| panic!("{status}: {why}"));
        let seen = stage.machines().get("w-1").await.unwrap();
        let operation = &seen.status.as_ref().unwrap().last_operation;
        assert_eq!(operation.error_code, code, "{status}");
        assert!(operation.description.contains(&format!("answered {status}")), "{operation:?}");
        stage.world.run_for(Duration::from_mins(10)).await;
        let later = stage.machines().get("w-1").await.unwrap();
        assert_eq!(later.metadata.resource_version, seen.metadata.resource_version, "{status}: told once");
        assert_eq!(ours(&stage.cloud.servers()).count(), 0, "{status}");
        stage.cloud.clear_faults();
        let within = Duration::from_secs(seconds + 30);
        stage
            .run_until_phase("w-1", Phase::Running, within)
            .await
            .unwrap_or_else(|why| panic!("{status}: {why}"));

        // The next process has no token.
        stage.cloud.add_fault(refusal).unwrap();
        process.crash();
        stage.delete_machine("w-1").await;
        stage.run_until_said("w-1", &told, SOON).await.unwrap_or_else(|why| panic!("{status}: {why}"));
        stage.world.run_for(Duration::from_mins(10)).await;
        assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{status}");
        stage.cloud.clear_faults();
        stage.run_until_gone("w-1", within).await.unwrap_or_else(|why| panic!("{status}: {why}"));
        assert_eq!(stage.leftovers().await, [""; 0], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_projects_and_keys_are_used_at_once() {
    let mut stage = Stage::new(Plan::seeded(720), locked()).await;
    stage.start_controller();
    let project = |number: usize| format!("{number}1111111-2222-4333-8444-555555555555");
    for number in 1..=4 {
        let only = NewKey {
            mail: format!("nodes-{number}@sa.stackit.cloud"),
            projects: [project(number)].into(),
            ..NewKey::default()
        };
        let key = stage.cloud.issue_key(only).unwrap();
        let mut secret = secret(&key.to_string());
        secret["metadata"]["name"] = json!(format!("credentials-{number}"));
        secret["stringData"]["project-id"] = json!(project(number));
        stage.create(stage.secrets(), secret).await;
        let mut class = class();
        class["metadata"]["name"] = json!(format!("class-{number}"));
        class["secretRef"]["name"] = json!(format!("credentials-{number}"));
        stage.create(stage.classes(), class).await;
        for copy in ["a", "b"] {
            let mut machine = machine(&format!("w-{number}-{copy}"));
            machine["spec"]["class"]["name"] = json!(format!("class-{number}"));
            stage.create(stage.machines(), machine).await;
        }
    }
    for number in 1..=4 {
        for copy in ["a", "b"] {
            stage.run_until_phase(&format!("w-{number}-{copy}"), Phase::Running, SOON).await.unwrap();
        }
    }
    let servers = stage.cloud.servers();
    for server in ours(&servers) {
        let number = server.name.split('-').nth(1).unwrap().parse().unwrap();
        assert_eq!(server.project, project(number), "{}", server.name);
    }
    assert_eq!(ours(&servers).count(), 8);
}
