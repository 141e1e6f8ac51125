//! What the cloud refuses, at each of its calls: what people are told, when it is tried again, and that it goes on as
//! soon as the cloud gives way.

use crate::flow::{CLUSTER, LONG, NAMESPACE, PROJECT, REGION, SOON, Stage, class, machine, ours, secret};
use hostler_gardener::{
    Options,
    api::{LastOperation, Phase},
};
use hostler_sim::{
    Plan,
    stackit::{Fault, Settings, Spoiled},
};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// How long it is watched how often something is tried, in seconds.
const WHILE: u64 = 900;
const STATUSES: [u16; 9] = [400, 401, 403, 404, 409, 413, 429, 500, 502];

/// A class whose servers need every call that there is.
fn demanding() -> Value {
    let mut class = class();
    class["providerSpec"]["allowedAddresses"] = json!(["10.0.0.0/8"]);
    class["providerSpec"]["bootVolume"] = Value::Null;
    class
}

async fn stage(seed: u64, class: Value) -> Stage {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    stage.create(stage.classes(), class).await;
    stage
}

async fn operation(stage: &Stage, name: &str) -> LastOperation {
    stage.machines().get(name).await.unwrap().status.unwrap().last_operation
}

fn calls(stage: &Stage, operation: &str) -> u64 {
    stage.cloud.calls().get(operation).copied().unwrap_or_default()
}

/// When a Machine tries again what was refused, at the latest.
fn wait(word: &str) -> Duration {
    match word {
        "5s" => Duration::from_secs(5),
        "3m" => Duration::from_mins(3),
        "10m" => Duration::from_mins(10),
        other => panic!("{other}"),
    }
}

/// A refusal, for as long as it is not cleared, and the words that follow it.
struct Case {
    call: &'static str,
    status: u16,
    code: &'static str,
    again: &'static str,
}

/// One line per call: how a refusal with each of the statuses is called, and when it is tried again.
fn cases(table: &[(&'static str, &'static str)]) -> Vec<Case> {
    let line = |(call, line): &(&'static str, &'static str)| {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        assert_eq!(words.len(), STATUSES.len(), "{call}");
        let call = *call;
        let case = move |(status, word): (u16, &'static str)| {
            let (code, again) = word.split_once('/').unwrap();
            Case { call, status, code, again }
        };
        STATUSES.into_iter().zip(words).map(case).collect::<Vec<_>>()
    };
    table.iter().flat_map(line).collect()
}

impl Case {
    fn name(&self) -> String {
        format!("{} {}", self.call, self.status)
    }

    /// A cloud that needs the call.
    fn settings(&self) -> Settings {
        if self.is_about_a_volume() {
            let fixed_attachments = ["CREATING".to_owned()].into();
            return Settings { boot_time: LONG * 4, fixed_attachments, ..Settings::default() };
        }
        Settings { silent_boot_volumes: self.call == "GetAttachedVolume", ..Settings::default() }
    }

    /// It concerns a boot volume that does not go with its server.
    fn is_about_a_volume(&self) -> bool {
        matches!(self.call, "UpdateVolume" | "GetVolume" | "DeleteVolume")
    }

    fn begin(&self, stage: &Stage) {
        stage.cloud.add_fault(Fault::on(self.call).status(self.status)).unwrap();
        if self.call == "GetNic" {
            // Only a NIC that somebody else has changed is read again.
            stage.cloud.add_fault(Fault::on("UpdateNic").status(409)).unwrap();
        }
    }

    /// Tries often enough, and not more often than a quarter sooner than it may take.
    async fn is_tried_now_and_then(&self, stage: &Stage) {
        let before = calls(stage, self.call);
        stage.world.run_for(Duration::from_secs(WHILE)).await;
        let often = calls(stage, self.call) - before;
        let (calls, pause) = match self.call {
            // Not before lists have shown for a while that nothing came of the last order; sent again only for 429.
            "CreateServer" => (if self.status == 429 { 3 } else { 1 }, 90),
            _ => (4, 1),
        };
        let most = calls * (WHILE / (wait(self.again).as_secs() * 3 / 4).max(pause) + 1);
        // The shared poller lists, too, while somebody waits.
        let most = if self.call == "ListServers" { most + WHILE / 5 } else { most };
        assert!((1..=most).contains(&often), "{}: {often} times in a quarter of an hour", self.name());
    }
}

/// Whatever is refused on the way in. A server whose order was refused is not ordered again before lists have shown
/// for a while that none came of it.
#[tokio::test(start_paused = true)]
async fn a_refusal_on_the_way_in_is_told_and_tried_again() {
    let table = [
        (
            "ListServers",
            "InvalidArgument/3m Unauthenticated/3m PermissionDenied/3m NotFound/5s Aborted/5s InvalidArgument/3m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "CreateServer",
            "InvalidArgument/3m Unauthenticated/3m PermissionDenied/3m FailedPrecondition/3m Aborted/5s ResourceExhausted/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetServer",
            "InvalidArgument/5s Unauthenticated/5s PermissionDenied/5s NotFound/5s Aborted/5s InvalidArgument/5s Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "UpdateNic",
            "InvalidArgument/5s Unauthenticated/5s PermissionDenied/5s NotFound/5s Aborted/5s ResourceExhausted/5s Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "UpdateAttachedVolume",
            "InvalidArgument/5s Unauthenticated/5s PermissionDenied/5s NotFound/5s Aborted/5s ResourceExhausted/5s Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetAttachedVolume",
            "InvalidArgument/5s Unauthenticated/5s PermissionDenied/5s NotFound/5s Aborted/5s InvalidArgument/5s Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetNic",
            "InvalidArgument/5s Unauthenticated/5s PermissionDenied/5s NotFound/5s Aborted/5s InvalidArgument/5s Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
    ];
    let own_options = Options { creation_timeout: Duration::from_hours(2), ..Options::default() };
    for (number, case) in cases(&table).iter().enumerate() {
        let name = case.name();
        // Whose node is Ready runs, whatever is still refused.
        let is_ordered = !matches!(case.call, "ListServers" | "CreateServer");
        let join_time = Duration::from_secs(if is_ordered { 22 * 60 } else { 1 });
        let settings = Settings { join_time, ..case.settings() };
        let mut stage = Stage::new(Plan::seeded(400 + u64::try_from(number).unwrap()), settings).await;
        stage.start_controller_with(&own_options);
        case.begin(&stage);
        stage.create(stage.secrets(), secret()).await;
        stage.create(stage.classes(), demanding()).await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_said("m-5", "machine codes error", SOON).await.unwrap();
        let told = operation(&stage, "m-5").await;
        assert_eq!(told.error_code, case.code, "{name}: {}", told.description);
        let way = if matches!(case.call, "ListServers" | "CreateServer") {
            "Cloud provider message - "
        } else {
            "Provider error: "
        };
        assert!(told.description.starts_with(way), "{name}: {}", told.description);
        let answered = format!("STACKIT answered {}", case.status);
        // A server that is gone is no failure of the call.
        if name != "GetServer 404" {
            assert!(told.description.contains(&answered), "{name}: {}", told.description);
            assert!(told.description.contains("[X-Request-Id:req-"), "{name}: {}", told.description);
        }
        case.is_tried_now_and_then(&stage).await;
        assert!(ours(&stage.cloud.servers()).count() <= 1, "{name}");
        let written = stage.machines().get("m-5").await.unwrap().metadata.resource_version;
        let phase = stage.machines().get("m-5").await.unwrap().status.unwrap().current_status.phase;
        assert_eq!(phase, Phase::CrashLoopBackOff, "{name}");
        stage.world.run_for(Duration::from_mins(5)).await;
        let still = stage.machines().get("m-5").await.unwrap().metadata.resource_version;
        // An order is marked on the Machine each time.
        if case.call != "CreateServer" {
            assert_eq!(still, written, "{name}: the same failure is written once");
        }
        stage.cloud.clear_faults();
        // After an order lists have to show for a while that nothing came of it.
        let within = wait(case.again) + Duration::from_mins(3);
        stage
            .run_until_phase("m-5", Phase::Running, within)
            .await
            .unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

/// Whatever is refused on the way out: nothing but the API's own word that a server is gone ends the Machine.
#[tokio::test(start_paused = true)]
async fn a_refusal_on_the_way_out_is_told_and_tried_again() {
    let table = [
        (
            "ListServers",
            "InvalidArgument/3m Unauthenticated/3m PermissionDenied/3m NotFound/5s Aborted/5s InvalidArgument/3m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetServer",
            "InvalidArgument/3m Unauthenticated/3m PermissionDenied/3m gone/5s Aborted/5s InvalidArgument/3m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "DeleteServer",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m stays/5s Aborted/5s InvalidArgument/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "UpdateAttachedVolume",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m NotFound/5s Aborted/5s ResourceExhausted/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetAttachedVolume",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m NotFound/5s Aborted/5s InvalidArgument/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        // Where the attachment cannot be changed the volume is labelled, and deleted after its server.
        (
            "UpdateVolume",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m gone/5s Aborted/5s ResourceExhausted/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "GetVolume",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m gone/5s Aborted/5s InvalidArgument/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
        (
            "DeleteVolume",
            "InvalidArgument/10m Unauthenticated/10m PermissionDenied/10m gone/5s Aborted/5s InvalidArgument/10m Unavailable/5s Unavailable/5s Unavailable/5s",
        ),
    ];
    for (number, case) in cases(&table).iter().enumerate() {
        let name = case.name();
        let class = if case.is_about_a_volume() { demanding() } else { class() };
        let mut stage = stage(500 + u64::try_from(number).unwrap(), class).await;
        stage.cloud.set(|settings| {
            *settings = Settings { other_clusters: settings.other_clusters.clone(), ..case.settings() }
        });
        stage.create(stage.machines(), machine("m-5")).await;
        if case.is_about_a_volume() {
            // Only of a server that is still being made nothing can be changed.
            let machines = stage.machines();
            let known =
                async || machines.get("m-5").await.is_ok_and(|machine| !machine.spec.provider_id.is_empty());
            stage.world.run_until("the server is known", SOON, known).await.unwrap();
        } else {
            stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        }
        if case.call == "UpdateAttachedVolume" {
            let server = ours(&stage.cloud.servers()).next().unwrap().id.clone();
            assert!(stage.cloud.let_volumes_stay(&server));
        }
        case.begin(&stage);
        stage.delete_machine("m-5").await;
        match case.code {
            // What the API itself calls gone is gone, once a list does not show it either.
            "gone" => {
                stage.run_until_gone("m-5", LONG).await.unwrap();
                assert_eq!(ours(&stage.cloud.servers()).count(), 0, "{name}");
                continue;
            }
            // The order itself is no proof.
            "stays" => stage.world.run_for(Duration::from_mins(1)).await,
            code => {
                let words = format!("code = [{code}]");
                stage.run_until_said("m-5", &words, SOON).await.unwrap_or_else(|why| panic!("{name}: {why}"));
                let told = operation(&stage, "m-5").await;
                assert!(told.description.contains("[X-Request-Id:req-"), "{name}: {}", told.description);
                assert!(told.description.ends_with("Initiate VM deletion"), "{name}: {}", told.description);
                assert_eq!(told.error_code, "", "{name}: only creations have a code");
            }
        }
        case.is_tried_now_and_then(&stage).await;
        assert!(stage.machines().get("m-5").await.is_ok(), "{name}");
        let server_stays = match case.call {
            "DeleteServer" | "UpdateAttachedVolume" | "GetAttachedVolume" | "UpdateVolume" => Some(1),
            "GetVolume" | "DeleteVolume" => Some(0),
            _ => None,
        };
        if let Some(count) = server_stays {
            assert_eq!(ours(&stage.cloud.servers()).count(), count, "{name}");
        }
        stage.cloud.clear_faults();
        let within = wait(case.again) + Duration::from_mins(2);
        stage.run_until_gone("m-5", within).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(stage.leftovers().await, [""; 0], "{name}");
    }
}

/// Who cannot list the NICs asks the servers themselves.
#[tokio::test(start_paused = true)]
async fn a_refused_list_of_nics_holds_up_nobody() {
    for status in STATUSES {
        let mut class = class();
        class["providerSpec"]["allowedAddresses"] = json!(["10.0.0.0/8"]);
        let mut stage = stage(570, class).await;
        stage.cloud.add_fault(Fault::on("ListProjectNICs").status(status)).unwrap();
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        assert!(calls(&stage, "ListProjectNICs") > 0, "{status}");
        let nics = stage.cloud.nics();
        let own = nics.iter().filter(|nic| nic.server.as_ref() != Some(&stage.foreign));
        let allowed: Vec<&[String]> = own.map(|nic| nic.allowed_addresses.as_slice()).collect();
        assert_eq!(allowed, [["10.0.0.0/8"]], "{status}");
    }
}

/// Who cannot list the volumes knows of none that a server left, and looks after servers all the same.
#[tokio::test(start_paused = true)]
async fn a_refused_list_of_volumes_holds_up_nobody() {
    for status in STATUSES {
        let mut stage = stage(571, class()).await;
        stage.cloud.add_fault(Fault::on("ListVolumes").status(status)).unwrap();
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        assert!(calls(&stage, "ListVolumes") > 0, "{status}");
        stage.delete_machine("m-5").await;
        stage.run_until_gone("m-5", SOON).await.unwrap();
        assert_eq!(stage.leftovers().await, [""; 0], "{status}");
    }
}

/// A console that cannot be read keeps nobody from learning that the node did not join.
#[tokio::test(start_paused = true)]
async fn a_console_that_fails_does_not_hold_up_the_end_of_a_machine() {
    let refusals = STATUSES.map(|status| Fault::on("GetServerLog").status(status));
    let others = [
        Fault::on("GetServerLog").dropped(),
        Fault { answer: Spoiled::Page, ..Fault::on("GetServerLog") },
        Fault { delay: 3600.0, ..Fault::on("GetServerLog") },
    ];
    for fault in refusals.into_iter().chain(others) {
        let mut secret = secret();
        secret["stringData"]["userData"] = json!("#cloud-config");
        let settings = Settings { joins_without_token: false, ..Settings::default() };
        let mut stage = Stage::new(Plan::seeded(580), settings).await;
        stage.start_controller();
        stage.cloud.add_fault(fault.clone()).unwrap();
        stage.create(stage.secrets(), secret).await;
        stage.create(stage.classes(), class()).await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Pending, SOON).await.unwrap();
        let patience = Duration::from_mins(22);
        stage
            .run_until_phase("m-5", Phase::Failed, patience)
            .await
            .unwrap_or_else(|why| panic!("{fault:?}: {why}"));
        assert!(calls(&stage, "GetServerLog") > 0, "{fault:?}");
        let told = stage.told("m-5").await;
        assert!(!told.iter().any(|event| event.starts_with("NodeDidNotJoin")), "{fault:?}: {told:?}");
    }
}

/// The same at the call for orphans: who is told nothing deletes nothing.
#[tokio::test(start_paused = true)]
async fn a_refused_list_collects_nothing_and_goes_on_later() {
    for status in STATUSES {
        let mut stage = Stage::unobserved(Plan::seeded(600), Settings::default()).await;
        stage.start_controller();
        stage.create_class_and_secret().await;
        for name in ["m-5", "m-6", "m-7"] {
            stage.create(stage.machines(), machine(name)).await;
            stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
        }
        let labels = [
            ("kubernetes.io/machine", "m-9"),
            ("kubernetes.io/machineclass", "small"),
            ("kubernetes.io/cluster", CLUSTER),
        ];
        stage.cloud.add_fault(Fault::on("ListServers").status(status)).unwrap();
        let orphan = stage.cloud.add_foreign(PROJECT, REGION, "m-9", &labels);
        stage.world.run_for(Duration::from_hours(1)).await;
        let servers = stage.cloud.servers();
        assert!(servers.iter().any(|server| server.id == orphan), "{status}");
        assert_eq!(ours(&servers).count(), 4, "{status}");
        let seen = stage.machines().get("m-5").await.unwrap().status.unwrap();
        assert_eq!(seen.current_status.phase, Phase::Running, "{status}");
        stage.cloud.clear_faults();
        let cloud = stage.cloud.clone();
        let is_gone = async || !cloud.servers().iter().any(|server| server.id == orphan);
        stage.world.run_until("the orphan is gone", LONG, is_gone).await.unwrap();
        assert_eq!(ours(&stage.cloud.servers()).count(), 3, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_ids_of_a_refused_call_reach_people_and_cost_no_writes() {
    let mut stage = stage(610, class()).await;
    stage.cloud.add_fault(Fault::on("CreateServer").status(409)).unwrap();
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_said("m-5", "code = [Aborted]", SOON).await.unwrap();
    let first = operation(&stage, "m-5").await.description;
    let (_, rest) = first.split_once("[X-Request-Id:req-").expect("the request's id");
    let (request, rest) = rest.split_once("]: [X-Trace-Id:").expect("the trace's id");
    let (trace, rest) = rest.split_once("]: ").unwrap();
    assert!(request.len() == 32 && trace == request, "{first}");
    assert!(rest.starts_with("STACKIT answered 409"), "{first}");
    // However often the same happens, the first ids stay, and one event counts.
    stage.world.run_for(Duration::from_mins(10)).await;
    assert!(calls(&stage, "CreateServer") > 2);
    assert_eq!(operation(&stage, "m-5").await.description, first);
    let told = stage.told("m-5").await;
    let about: Vec<&String> = told.iter().filter(|event| event.starts_with("CloudFailure")).collect();
    assert_eq!(about.len(), 1, "{told:?}");
    assert!(about[0].contains(request), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_that_alternate_are_counted_and_not_told_anew() {
    let mut stage = stage(611, class()).await;
    for number in 0..8 {
        let status = if number % 2 == 0 { 409 } else { 500 };
        let one = Fault { skip: number, ..Fault::on("CreateServer").status(status).times(1) };
        stage.cloud.add_fault(one).unwrap();
    }
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, Duration::from_mins(19)).await.unwrap();
    assert_eq!(calls(&stage, "CreateServer"), 9);
    let events = Api::<Event>::namespaced(stage.admin.clone(), NAMESPACE);
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let failures = all.into_iter().filter(|event| event.reason.as_deref() == Some("CloudFailure"));
    let counts: Vec<i32> = failures.filter_map(|event| event.count).collect();
    assert_eq!(counts, [4, 4], "one event for each kind of failure");
}

/// Nobody waits any longer who has changed what was wrong.
#[tokio::test(start_paused = true)]
async fn an_order_that_is_made_of_something_else_does_not_wait() {
    for what in ["class", "Secret", "Machine"] {
        let settings = Settings { quotas: [("vcpu".to_owned(), 0)].into(), ..Settings::default() };
        let mut stage = Stage::new(Plan::seeded(621), settings).await;
        stage.start_controller();
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_said("m-5", "code = [ResourceExhausted]", SOON).await.unwrap();
        stage.cloud.set(|settings| settings.quotas.clear());
        stage.world.run_for(Duration::from_mins(3)).await;
        assert_eq!(calls(&stage, "CreateServer"), 1, "{what}: it waits");
        match what {
            "class" => {
                let patch = json!({"providerSpec": {"machineType": "c2i.4"}});
                stage.patch(stage.classes(), "small", patch).await;
            }
            "Secret" => {
                let patch = json!({"stringData": {"userData": "#!/bin/sh -- <<BOOTSTRAP_TOKEN>>"}});
                stage.patch(stage.secrets(), "credentials", patch).await;
            }
            _ => stage.patch(stage.machines(), "m-5", json!({"spec": {"creationTimeout": "30m0s"}})).await,
        }
        let soon = Duration::from_secs(30);
        stage
            .run_until_phase("m-5", Phase::Running, soon)
            .await
            .unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

/// When each of these machines ordered, in seconds since the world began.
fn orders(stage: &Stage) -> Vec<u64> {
    let trace = stage.world.wire().unwrap().trace();
    let order = |line: &str| {
        let (time, rest) = line.trim_start().split_once(' ')?;
        let is_order = rest.contains("POST") && rest.contains("/servers");
        is_order.then(|| time.split('.').next()?.parse().ok())?
    };
    trace.lines().filter_map(order).collect()
}

#[tokio::test(start_paused = true)]
async fn many_machines_that_hit_one_quota_do_not_come_again_at_once() {
    const MANY: usize = 60;
    let settings = Settings { quotas: [("vcpu".to_owned(), 0)].into(), ..Settings::default() };
    let mut stage = Stage::unobserved(Plan::seeded(620), settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    for number in 0..MANY {
        stage.create(stage.machines(), machine(&format!("w-{number}"))).await;
    }
    for number in 0..MANY {
        let name = format!("w-{number}");
        stage.run_until_said(&name, "code = [ResourceExhausted]", SOON).await.unwrap();
    }
    let first = orders(&stage).len();
    assert_eq!(first, MANY);
    stage.world.run_for(Duration::from_mins(11)).await;
    let again: Vec<u64> = orders(&stage)[first..].to_vec();
    // Each came again, none later than it may, and in no ten seconds more than a few of them.
    assert_eq!(again.len(), MANY, "{again:?}");
    let mut by_time: BTreeMap<u64, usize> = BTreeMap::new();
    for second in &again {
        *by_time.entry(second / 10).or_default() += 1;
    }
    let most = by_time.values().max().copied().unwrap_or_default();
    assert!(most <= MANY / 4, "{by_time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_failed_without_a_server_costs_the_cloud_nothing_any_more() {
    let mut stage = stage(630, class()).await;
    stage.cloud.add_fault(Fault::on("CreateServer").status(400)).unwrap();
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Failed, Duration::from_mins(40)).await.unwrap();
    assert_eq!(operation(&stage, "m-5").await.error_code, "InvalidArgument");
    // The last order may still have had an effect: that is found out first.
    stage.world.run_for(Duration::from_mins(10)).await;
    let (orders, lists) = (calls(&stage, "CreateServer"), calls(&stage, "ListServers"));
    stage.world.run_for(Duration::from_hours(3)).await;
    assert_eq!(calls(&stage, "CreateServer"), orders, "nothing is ordered any more");
    let listed = calls(&stage, "ListServers") - lists;
    assert!(listed <= 3 * 60 + 20, "{listed} lists in three hours in which nobody waits");
    // The class is corrected, but its time is over: whoever made the Machine decides.
    stage.cloud.clear_faults();
    stage.patch(stage.classes(), "small", json!({"providerSpec": {"machineType": "c2i.4"}})).await;
    stage.world.run_for(LONG).await;
    assert_eq!(calls(&stage, "CreateServer"), orders);
    // Whoever wants it after all gives it more time.
    let more =
        json!({"metadata": {"annotations": {"node.machine.sapcloud.io/effective-creation-timeout": "24h"}}});
    stage.patch(stage.machines(), "m-5", more).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_came_after_all_is_found_though_its_machine_has_failed() {
    let mut stage = stage(640, class()).await;
    // Every order has its effect much later than its answer, and no list shows the server for an hour.
    stage.cloud.set(|settings| settings.list_lag = Duration::from_hours(1));
    stage.cloud.add_fault(Fault::on("CreateServer").status(504).after().times(1)).unwrap();
    stage.cloud.add_fault(Fault::on("CreateServer").status(400)).unwrap();
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Failed, Duration::from_mins(40)).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 1);
    stage.world.run_for(Duration::from_hours(2)).await;
    assert!(!stage.machines().get("m-5").await.unwrap().spec.provider_id.is_empty());
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

/// The order had its effect, and its answer cannot be read or tells of somebody else's server.
#[tokio::test(start_paused = true)]
async fn an_order_whose_answer_says_nothing_makes_one_server() {
    let spoiled = |answer, status| {
        let fault = Fault { answer, ..Fault::on("CreateServer").after().times(1) };
        Some(if let Some(status) = status { fault.status(status) } else { fault })
    };
    let answers = [
        ("a page", spoiled(Spoiled::Page, Some(200))),
        ("a page of a gateway", spoiled(Spoiled::Page, None)),
        ("nothing", spoiled(Spoiled::Empty, None)),
        ("nothing, created", spoiled(Spoiled::Empty, Some(201))),
        ("a dropped connection", spoiled(Spoiled::Dropped, None)),
        ("somebody else's server", None),
    ];
    for (what, fault) in answers {
        let mut stage = stage(650, class()).await;
        match fault {
            Some(fault) => stage.cloud.add_fault(fault).unwrap(),
            None => {
                let foreign = [("m-5".to_owned(), stage.foreign.clone())];
                stage.cloud.set(|settings| settings.answers_about = foreign.into());
            }
        }
        stage.create(stage.machines(), machine("m-5")).await;
        stage
            .run_until_phase("m-5", Phase::Running, SOON)
            .await
            .unwrap_or_else(|why| panic!("{what}: {why}"));
        let servers = stage.cloud.servers();
        let own: Vec<String> =
            ours(&servers).map(|server| format!("stackit://{PROJECT}/{}", server.id)).collect();
        assert_eq!(own, [stage.machines().get("m-5").await.unwrap().spec.provider_id], "{what}");
        assert_eq!(calls(&stage, "CreateServer"), 1, "{what}");
        stage.delete_machine("m-5").await;
        stage.run_until_gone("m-5", LONG).await.unwrap_or_else(|why| panic!("{what}: {why}"));
        assert_eq!(stage.leftovers().await, [""; 0], "{what}");
    }
}
