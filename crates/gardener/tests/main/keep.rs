//! Classes and Secrets are kept for exactly those who refer to them.

use crate::flow::{NAMESPACE, Stage, class, machine, secret};
use hostler_gardener::api::MachineClass;
use hostler_sim::{Plan, stackit::Settings};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{fmt::Debug, time::Duration};

fn named(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}

/// Lets the controller do what it would do, and says which of these objects it keeps.
async fn kept<K>(stage: &mut Stage, names: &[&'static str]) -> Vec<&'static str>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    stage.world.run_for(Duration::from_secs(10)).await;
    let api = Api::<K>::namespaced(stage.admin.clone(), NAMESPACE);
    let mut kept = Vec::new();
    for name in names {
        if api.get(name).await.unwrap().meta().finalizers.is_some() {
            kept.push(*name);
        }
    }
    kept
}

const SECRETS: [&str; 3] = ["credentials", "more", "unused"];

#[tokio::test(start_paused = true)]
async fn a_secret_is_kept_for_the_classes_that_name_it_now() {
    let mut stage = Stage::new(Plan::seeded(20), Settings::default()).await;
    stage.start_controller();
    for name in SECRETS {
        let secrets = Api::<Secret>::namespaced(stage.user.clone(), NAMESPACE);
        stage.create(secrets, named(secret(), name)).await;
    }
    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), NAMESPACE);
    let mut both = class();
    both["credentialsSecretRef"] = json!({"name": "more"});
    stage.create(classes.clone(), both).await;
    assert_eq!(kept::<Secret>(&mut stage, &SECRETS).await, ["credentials", "more"], "either way counts");

    let elsewhere = json!({
        "secretRef": {"name": "more", "namespace": NAMESPACE},
        "credentialsSecretRef": {"name": "credentials", "namespace": "elsewhere"}
    });
    classes.patch("small", &PatchParams::default(), &Patch::Merge(elsewhere)).await.unwrap();
    assert_eq!(kept::<Secret>(&mut stage, &SECRETS).await, ["more"], "the other one is of another namespace");
}

#[tokio::test(start_paused = true)]
async fn a_class_is_kept_for_the_machines_that_name_it_now() {
    let mut stage = Stage::new(Plan::seeded(21), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), NAMESPACE);
    stage.create(classes, named(class(), "large")).await;
    stage.create(stage.machines(), machine("m-1")).await;
    assert_eq!(kept::<MachineClass>(&mut stage, &["small", "large"]).await, ["small"]);
    let other = json!({"spec": {"class": {"name": "large"}}});
    stage.machines().patch("m-1", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    assert_eq!(kept::<MachineClass>(&mut stage, &["small", "large"]).await, ["large"]);
}
