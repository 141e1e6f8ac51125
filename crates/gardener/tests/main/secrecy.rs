//! Nobody is shown a secret: not in log lines of any level, not in an event, a status, a metric.

use crate::flow::{LONG, NAMESPACE, PROJECT, SOON, Seat, Stage, class, controller_on, machine, secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_gardener::{
    Options,
    api::{Machine, Phase},
};
use hostler_sim::{
    Plan,
    stackit::{Fault, NewKey, Settings},
};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

const WORD: &str = "hunter2-is-the-word";

/// Everything that was logged by this thread, down to the last detail.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Takes lines as long as the guards live. With a second subscriber that nobody uses, threads without one do not
    /// switch anything off for all.
    fn capture() -> (Self, impl Sized) {
        let lines = Self::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let other = tracing::Dispatch::new(tracing_subscriber::registry());
        (lines, (tracing::subscriber::set_default(subscriber), other))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A secret in the forms in which it could be shown: as it is, and somewhere in base64.
fn forms(secret: &str) -> Vec<String> {
    let shifted = (0..3).map(|shift| {
        let whole = STANDARD.encode(format!("{}{secret}", "x".repeat(shift)));
        // What stands at the ends depends on what stands beside it.
        whole[4..whole.len() - 4].to_owned()
    });
    [secret.to_owned()].into_iter().chain(shifted).collect()
}

/// The secret in what is shown, with some words around it.
fn found_in(shown: &str, secrets: &[String]) -> Vec<String> {
    let hits = secrets.iter().filter_map(|secret| shown.find(secret.as_str()));
    let around = |at: usize| {
        let start = shown[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = shown[at..].find('\n').map_or(shown.len(), |end| at + end);
        shown[start..end].chars().take(600).collect()
    };
    hits.map(around).collect()
}

/// What everybody may read: Machines, Nodes and events, as they are.
async fn readable(stage: &Stage) -> String {
    let all = ListParams::default();
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE).list(&all).await.unwrap();
    let nodes = Api::<Node>::all(stage.admin.clone()).list(&all).await.unwrap();
    let events = Api::<Event>::all(stage.admin.clone()).list(&all).await.unwrap();
    [json!(machines.items), json!(nodes.items), json!(events.items)]
        .map(|objects| objects.to_string())
        .join("\n")
}

/// A life with everything that can go wrong in it. Gives the secrets of it, what was logged and what can be read.
async fn life(credentials: Value, in_class: bool) -> (Vec<String>, String, String) {
    let (lines, _guards) = Lines::capture();
    let user_data =
        format!("#cloud-config\npassword: {WORD}\ntoken: <<BOOTSTRAP_TOKEN>>\n# {}", "z".repeat(200));
    let console = format!("cloud-init: joining\nexport PASSWORD={WORD}\nkubelet: no");
    let settings = Settings {
        require_token: true,
        tokens: [format!("token-{WORD}")].into(),
        consoles: [("w-9".to_owned(), console)].into(),
        ..Settings::default()
    };
    let mut stage = Stage::new(Plan::seeded(800), settings).await;
    let account =
        stage.cloud.issue_key(NewKey { mail: "nodes@sa.stackit.cloud".into(), ..NewKey::default() }).unwrap();
    let seat = Seat::default();
    let metrics = seat.metrics.clone();
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, Options::default()))
    });
    let (mut class, mut own) = (class(), secret());
    own["stringData"] = json!({"project-id": PROJECT});
    if in_class {
        class["providerSpec"]["userData"] = json!(user_data);
    } else {
        own["stringData"]["userData"] = json!(user_data);
    }
    for (key, value) in credentials.as_object().unwrap() {
        own["stringData"][key] = if value.is_null() { json!(account.to_string()) } else { value.clone() };
    }
    class["providerSpec"]["allowedAddresses"] = json!(["10.0.0.0/8"]);
    class["providerSpec"]["bootVolume"] = Value::Null;
    stage.create(stage.classes(), class).await;

    // A Secret that cannot be read, and one that is refused.
    let mut wrong = own.clone();
    wrong["stringData"]["serviceaccount.json"] = json!(format!("{{\"credentials\": \"{WORD}"));
    stage.create(stage.secrets(), wrong).await;
    stage.create(stage.machines(), machine("w-1")).await;
    stage.run_until_said("w-1", "is not JSON", SOON).await.unwrap();
    let text = format!("{{\"credentials\": {{\"kid\": \"{WORD}\", \"privateKey\": 7}}}}");
    stage.patch(stage.secrets(), "credentials", json!({"stringData": {"serviceaccount.json": text}})).await;
    stage.run_until_said("w-1", "is not a service account key", SOON).await.unwrap();
    let none = json!({"data": {"serviceaccount.json": null}});
    stage.patch(stage.secrets(), "credentials", none).await;
    let refused = json!({"stringData": {"apiToken": format!("wrong-{WORD}")}});
    stage.patch(stage.secrets(), "credentials", refused).await;
    stage.run_until_said("w-1", "STACKIT answered 401", SOON).await.unwrap();

    // The right one, and a cloud that repeats what it was sent, refuses, and gives no answer.
    stage.patch(stage.secrets(), "credentials", json!({"data": {"apiToken": null}})).await;
    let sent = STANDARD.encode(&user_data);
    let echo = Fault {
        message: Some(format!("the body does not match: {{\"userData\":\"{sent}\"}}")),
        ..Fault::on("CreateServer").status(400).times(1)
    };
    stage.cloud.add_fault(echo).unwrap();
    for fault in [
        Fault::on("CreateServer").dropped().times(2),
        Fault::on("UpdateNic").status(500).times(2),
        Fault::on("ListServers").status(502).times(4),
        Fault::on("DeleteServer").status(403).times(1),
        Fault::on("GetServer").dropped().times(4),
    ] {
        stage.cloud.add_fault(fault).unwrap();
    }
    stage.patch(stage.secrets(), "credentials", json!({"stringData": own["stringData"]})).await;
    stage.run_until_said("w-1", "the body does not match", LONG).await.unwrap();
    let mut secrets = forms(WORD);
    let mut tokens = Vec::new();
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), NAMESPACE);
    for _ in 0..1_200 {
        tokens.extend(
            stage.tokens().await.into_iter().map(|(_, token)| token.data.unwrap()["token-secret"].0.clone()),
        );
        let status = machines.get("w-1").await.unwrap().status.unwrap_or_default();
        if status.current_status.phase == Phase::Running {
            break;
        }
        stage.world.run_for(Duration::from_secs(1)).await;
    }
    stage.run_until_phase("w-1", Phase::Running, SOON).await.unwrap();
    assert!(!tokens.is_empty(), "there was a token for it");
    secrets.extend(tokens.into_iter().flat_map(|token| forms(&String::from_utf8(token).unwrap())));
    secrets.extend(
        account["credentials"]["privateKey"]
            .as_str()
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .map(str::to_owned),
    );
    // Whatever the cloud gives out as a token, and what is shown to it, is a JSON web token.
    secrets.push("eyJ".to_owned());

    // One whose node does not join, so that its console is shown.
    let silent = json!({"metadata": {"name": "w-9"}, "spec": {"creationTimeout": "3m",
        "class": {"kind": "MachineClass", "name": "small"}}});
    stage.cloud.set(|settings| settings.join_time = Duration::from_hours(5));
    stage.create(stage.machines(), silent).await;
    stage.run_until_phase("w-9", Phase::Failed, LONG).await.unwrap();
    let told = stage.told("w-9").await;
    assert!(told.iter().any(|event| event.contains("kubelet: no")), "{told:?}");
    let mut shown = readable(&stage).await;
    for name in ["w-1", "w-9"] {
        stage.delete_machine(name).await;
        stage.run_until_gone(name, LONG).await.unwrap();
    }
    stage.world.run_for(SOON).await;
    shown.push_str(&readable(&stage).await);
    shown.push_str(&metrics.text());
    (secrets, lines.text(), shown)
}

#[tokio::test(start_paused = true)]
async fn nobody_is_shown_a_secret_in_a_whole_life() {
    let table =
        [(json!({"serviceaccount.json": null}), false), (json!({"apiToken": format!("token-{WORD}")}), true)];
    for (credentials, in_class) in table {
        let (secrets, logged, shown) = life(credentials.clone(), in_class).await;
        // Otherwise nothing of this means anything.
        for expected in ["TRACE", "DEBUG", "STACKIT refused a call", "decided", "w-1"] {
            assert!(logged.contains(expected), "{expected} was not logged");
        }
        assert!(secrets.len() > 8, "{}", secrets.len());
        // A class is logged by nobody, though it may hold user data.
        assert_eq!(found_in(&logged, &secrets), [""; 0], "logged");
        assert_eq!(found_in(&shown, &secrets), [""; 0], "shown");
    }
}
