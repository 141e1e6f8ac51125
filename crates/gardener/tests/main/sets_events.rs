//! What people are told about MachineSets and MachineDeployments.

use crate::{
    flow::from,
    sets::{SOON, api, deployment, is_rolled_out, machines, patch, puppet_world, rolling, set, start_sets},
};
use hostler_gardener::api::{MachineDeployment, MachineSet};
use hostler_sim::{Fault, Plan, World};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The events about an object, as `reason: message`.
async fn told(world: &World, admin: &Client, kind: &str, name: &str) -> Vec<String> {
    // They are written behind the controller's back.
    world.run_for(Duration::from_secs(2)).await;
    let all = api::<Event>(admin).list(&ListParams::default()).await.unwrap().items;
    let about = all.into_iter().filter(|event| {
        event.involved_object.kind.as_deref() == Some(kind)
            && event.involved_object.name.as_deref() == Some(name)
    });
    about
        .map(|event| format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn people_are_told_how_sets_of_a_deployment_are_scaled() {
    let mut world = puppet_world(Plan::seeded(480)).await;
    start_sets(&mut world);
    let admin = world.client();
    let wanted = from(deployment("d", 2, &rolling(1, 0)));
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &wanted).await.unwrap();
    let up = async || is_rolled_out(&admin, "d", "small", 2).await;
    world.run_until("it is up", SOON, up).await.unwrap();
    let first = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items[0].name_any();
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "large"}}}}});
    patch::<MachineDeployment>(&admin, "d", class).await;
    let rolled = async || is_rolled_out(&admin, "d", "large", 2).await;
    world.run_until("it is rolled out", SOON, rolled).await.unwrap();
    let told = told(&world, &admin, "MachineDeployment", "d").await;
    let second = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items;
    let second = second.iter().map(ResourceExt::name_any).find(|name| *name != first).unwrap();
    for expected in [
        format!("ScalingMachineSet: Scaled up machine set {first} to 2"),
        format!("ScalingMachineSet: Scaled up machine set {second} to 2"),
        format!("ScalingMachineSet: Scaled down machine set {first} to 0"),
    ] {
        assert!(told.contains(&expected), "{expected}: {told:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_told_of_a_machine_that_cannot_be_made_or_deleted() {
    let refused = Arc::new(AtomicBool::new(true));
    let refuses = refused.clone();
    let plan = Plan::seeded(481).fault_when(move |boundary, _| {
        let machines = boundary.template.ends_with("/machines") && boundary.verb == "POST"
            || boundary.template.ends_with("/machines/{name}") && boundary.verb == "DELETE";
        let of_sets = boundary.actor == "machine-sets" && machines;
        (of_sets && refuses.load(Ordering::Relaxed))
            .then_some(Fault::Answer { status: 500, after_effect: false })
    });
    let mut world = puppet_world(plan).await;
    start_sets(&mut world);
    let admin = world.client();
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(set("s", 2))).await.unwrap();
    world.run_for(Duration::from_mins(1)).await;
    let said = told(&world, &admin, "MachineSet", "s").await;
    assert!(said.iter().any(|event| event.starts_with("FailedCreate: Error creating: ")), "{said:#?}");
    refused.store(false, Ordering::Relaxed);
    let are_there = async |count: usize| machines(&admin).await.len() == count;
    world.run_until("both are there", SOON, async || are_there(2).await).await.unwrap();
    refused.store(true, Ordering::Relaxed);
    patch::<MachineSet>(&admin, "s", json!({"spec": {"replicas": 1}})).await;
    world.run_for(Duration::from_mins(1)).await;
    let said = told(&world, &admin, "MachineSet", "s").await;
    assert!(said.iter().any(|event| event.starts_with("FailedDelete: Error deleting: ")), "{said:#?}");
    assert!(are_there(2).await);
    refused.store(false, Ordering::Relaxed);
    world.run_until("one is left", SOON, async || are_there(1).await).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_does_not_fit_its_template_is_told_and_makes_nothing() {
    let mut world = puppet_world(Plan::seeded(482)).await;
    start_sets(&mut world);
    let admin = world.client();
    let mut wrong_set = set("s", 2);
    wrong_set["spec"]["selector"]["matchLabels"]["pool"] = json!("another");
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(wrong_set)).await.unwrap();
    let mut wrong = deployment("d", 2, &rolling(1, 0));
    wrong["spec"]["selector"]["matchLabels"]["pool"] = json!("another");
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &from(wrong)).await.unwrap();
    world.run_for(Duration::from_mins(5)).await;
    for (kind, name) in [("MachineSet", "s"), ("MachineDeployment", "d")] {
        let said = told(&world, &admin, kind, name).await;
        let invalid: Vec<&String> = said.iter().filter(|event| event.starts_with("InvalidSpec: ")).collect();
        assert!(invalid.len() == 1 && invalid[0].contains("selector"), "{kind}: {said:#?}");
    }
    assert_eq!(machines(&admin).await.len(), 0);
}
