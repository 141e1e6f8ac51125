//! A class is let go only after a list of its servers that was empty. Whoever cannot list them keeps it and says why.

use crate::flow::{CLUSTER, LONG, NAMESPACE, PROJECT, REGION, SOON, Stage, class, ours, secret};
use hostler_gardener::api::MachineClass;
use hostler_sim::{
    Plan,
    stackit::{Fault, Settings, Spoiled},
};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use std::sync::Arc;

const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";

/// A server of the class that no Machine owns.
fn plant(stage: &Stage) {
    let labels = [
        ("kubernetes.io/machine", "lost-1"),
        ("kubernetes.io/machineclass", "small"),
        ("kubernetes.io/cluster", CLUSTER),
    ];
    stage.cloud.add_foreign(PROJECT, REGION, "lost-1", &labels);
}

/// Seen from outside of the world.
fn classes(stage: &Stage) -> Api<MachineClass> {
    Api::namespaced(stage.admin.clone(), NAMESPACE)
}

/// After every call: the class is there as long as one of its servers is.
fn observe(stage: &Stage) {
    let cloud = stage.cloud.clone();
    let classes = classes(stage);
    stage.world.observe(Arc::new(move || {
        let (cloud, classes) = (cloud.clone(), classes.clone());
        Box::pin(async move {
            let left = ours(&cloud.servers()).count();
            let there = classes.get_opt("small").await.map_err(|error| error.to_string())?.is_some();
            if left > 0 && !there {
                Err(format!("the class is gone, {left} of its servers are not"))
            } else {
                Ok(())
            }
        })
    }));
}

/// A class that is being deleted and that no Machine uses any more, with a server that is left of it.
async fn leaving(seed: u64, class: Value, secret: Option<Value>) -> Stage {
    let settings = Settings { joins_without_token: false, ..Settings::default() };
    let stage = Stage::unobserved(Plan::seeded(seed), settings).await;
    plant(&stage);
    if let Some(secret) = secret {
        stage.create(stage.secrets(), secret).await;
    }
    let mut class = class;
    class["metadata"]["finalizers"] = json!([FINALIZER]);
    stage.create(stage.classes(), class).await;
    stage.classes().delete("small", &DeleteParams::default()).await.unwrap();
    observe(&stage);
    stage
}

async fn stays_and_says(stage: &mut Stage, why: &str, what: &str) {
    stage.start_controller();
    stage.world.run_for(LONG).await;
    assert!(stage.classes().get_opt("small").await.unwrap().is_some(), "{what}: it was let go");
    let told = stage.told("small").await;
    let says = |event: &String| event.starts_with("ServersUnknown: ") && event.contains(why);
    assert!(told.iter().any(says), "{what}: {told:?}");
    assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{what}");
}

/// Nobody knows of the server but the class: it is collected, and then the class may go.
async fn goes(stage: &mut Stage, what: &str) {
    let classes = classes(stage);
    let gone = async || classes.get_opt("small").await.is_ok_and(|class| class.is_none());
    stage
        .world
        .run_until("the class is gone", LONG, gone)
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(ours(&stage.cloud.servers()).count(), 0, "{what}");
    let violations = stage.world.wire().unwrap().violations();
    assert_eq!(violations, [], "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_leads_to_no_cloud_is_kept_until_it_does_again() {
    let mut no_project = secret();
    no_project["stringData"]["project-id"] = json!("");
    let mut unreadable = class();
    unreadable["providerSpec"]["labels"] = json!(7);
    let table = [
        ("its Secret is gone", class(), None, "there is no Secret shoot/credentials"),
        ("its Secret names no project", class(), Some(no_project), "project"),
        ("it cannot be read", unreadable, Some(secret()), "labels"),
    ];
    for (number, (what, broken, there, why)) in table.into_iter().enumerate() {
        let mut stage = leaving(130 + number as u64, broken, there.clone()).await;
        stays_and_says(&mut stage, why, what).await;
        match there {
            None => stage.create(stage.secrets(), secret()).await,
            Some(_) => stage.patch(stage.secrets(), "credentials", secret()).await,
        }
        stage.patch(stage.classes(), "small", json!({"providerSpec": class()["providerSpec"]})).await;
        goes(&mut stage, what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_servers_cannot_be_listed_is_kept_until_they_can() {
    let spoiled = |answer| Fault { answer, ..Fault::on("ListServers").status(200) };
    let table = [
        ("401", Fault::on("ListServers").status(401)),
        ("403", Fault::on("ListServers").status(403)),
        ("404", Fault::on("ListServers").status(404)),
        ("500", Fault::on("ListServers").status(500)),
        ("no answer", Fault::on("ListServers").dropped()),
        ("an empty answer", spoiled(Spoiled::Empty)),
        ("a page of a proxy", spoiled(Spoiled::Page)),
    ];
    for (number, (what, fault)) in table.into_iter().enumerate() {
        let mut stage = leaving(140 + number as u64, class(), Some(secret())).await;
        stage.cloud.add_fault(fault).unwrap();
        stays_and_says(&mut stage, "until its servers can be listed", what).await;
        stage.cloud.clear_faults();
        goes(&mut stage, what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_not_used_has_no_finalizer_only_if_a_list_was_empty() {
    let mut stage = Stage::unobserved(Plan::seeded(150), Settings::default()).await;
    let mut kept = class();
    kept["metadata"]["finalizers"] = json!([FINALIZER]);
    stage.create(stage.classes(), kept).await;
    stage.start_controller();
    stage.world.run_for(SOON).await;
    let finalizers = async |stage: &Stage| stage.classes().get("small").await.unwrap().metadata.finalizers;
    assert!(finalizers(&stage).await.is_some(), "its Secret is not there, so nobody has listed anything");
    stage.create(stage.secrets(), secret()).await;
    stage.world.run_for(LONG).await;
    assert_eq!(finalizers(&stage).await, None);
    assert!(stage.cloud.calls()["ListServers"] > 0);
}
