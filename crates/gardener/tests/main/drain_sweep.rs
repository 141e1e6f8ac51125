//! One of three machines goes with everything on it: pods under a budget, and pods with volumes, broken at every call.

use crate::{
    crowd::{Crowd, Weather},
    crowd_sweep::{committed, in_fair_weather, in_foul_weather},
    flow::{NAMESPACE, from, ours},
};
use hostler_sim::{
    Finished, Plan,
    csi::{Csi, CsiSettings, STACKIT_BLOCK_STORAGE},
};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const LONG: Duration = Duration::from_mins(30);
const GOING: &str = "m-1";
const STAYING: [&str; 2] = ["m-2", "m-3"];

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i"}]}})
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn is_on(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node))
}

/// Two pods under a budget that lets one of them go, and two that have a volume each.
async fn create_workloads(crowd: &Crowd) {
    let (admin, params) = (&crowd.stage.admin, PostParams::default());
    let class: StorageClass =
        from(json!({"metadata": {"name": "disk"}, "provisioner": STACKIT_BLOCK_STORAGE,
        "volumeBindingMode": "WaitForFirstConsumer"}));
    Api::all(admin.clone()).create(&params, &class).await.unwrap();
    let web: Deployment = from(json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}}));
    Api::namespaced(admin.clone(), NAMESPACE).create(&params, &web).await.unwrap();
    let budget: PodDisruptionBudget = from(json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "web"}}}}));
    Api::namespaced(admin.clone(), NAMESPACE).create(&params, &budget).await.unwrap();
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let db: StatefulSet =
        from(json!({"metadata": {"name": "db"}, "spec": {"replicas": 2, "serviceName": "db",
        "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db"), "volumeClaimTemplates": [claim]}}));
    Api::namespaced(admin.clone(), NAMESPACE).create(&params, &db).await.unwrap();
}

async fn cordon_others(crowd: &Crowd, cordoned: bool) {
    for node in STAYING {
        let nodes = Api::<Node>::all(crowd.stage.admin.clone());
        crowd.stage.patch(nodes, node, json!({"spec": {"unschedulable": cordoned}})).await;
    }
}

/// After every call: the budget is kept, and the server does not go before its pods and their volumes have.
fn watch_drain(crowd: &Crowd, csi: &Csi) {
    // Whoever looks so often does not read everything.
    let kind = ApiResource::erase::<Pod>(&());
    let pods = Api::<DynamicObject>::namespaced_with(crowd.stage.admin.clone(), NAMESPACE, &kind);
    let (cloud, csi) = (crowd.stage.cloud.clone(), csi.clone());
    let volumes: BTreeSet<String> = csi.history().into_iter().map(|moved| moved.volume).collect();
    crowd.stage.world.observe(Arc::new(move || {
        let (pods, cloud, csi, volumes) = (pods.clone(), cloud.clone(), csi.clone(), volumes.clone());
        Box::pin(async move {
            let servers = cloud.servers();
            let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let is_ready = |pod: &&DynamicObject| {
                let conditions = pod.data["status"]["conditions"].as_array().into_iter().flatten();
                let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
                pod.metadata.deletion_timestamp.is_none() && conditions.into_iter().any(ready)
            };
            let of_web = |pod: &&DynamicObject| pod.labels().get("app").is_some_and(|app| app == "web");
            if !all.iter().filter(of_web).any(|pod| is_ready(&pod)) {
                return Err("budget broken: none of the pods is ready".to_owned());
            }
            if ours(&servers).any(|server| server.name == GOING && server.status != "DELETING") {
                return Ok(());
            }
            if let Some(pod) = all.iter().find(|pod| pod.data["spec"]["nodeName"] == GOING) {
                return Err(format!("torn away: the server of {} goes with it", pod.name_any()));
            }
            match volumes.iter().find(|volume| csi.place(volume).as_deref() == Some(GOING)) {
                Some(volume) => Err(format!("torn away: the server goes with the volume {volume} on it")),
                None => Ok(()),
            }
        })
    }));
}

/// Three machines run, and everything is on the one that goes; it goes, and everything runs elsewhere.
async fn one_drain(plan: Plan, weather: Weather) -> Finished {
    let mut crowd = Crowd::new(plan, weather).await;
    let goal = drain(&mut crowd).await;
    crowd.stage.world.finish(goal)
}

async fn drain(crowd: &mut Crowd) -> Result<(), String> {
    let cluster =
        hostler_cluster::Options { attacher: false, events: false, ..hostler_cluster::Options::all() };
    crowd.stage.world.start_cluster(cluster);
    let csi = crowd.stage.world.start_csi(CsiSettings::default());
    crowd.stage.start_controller();
    crowd.create_classes().await;
    crowd.create_machines().await;
    crowd.run_until_all_run().await?;
    cordon_others(crowd, true).await;
    create_workloads(crowd).await;
    let admin = crowd.stage.admin.clone();
    let ready_on = async |fits: &dyn Fn(&Pod) -> bool| {
        let all = pods(&admin).list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        all.iter().filter(|pod| is_ready(pod) && fits(pod)).count()
    };
    let all_there = async || csi.history().len() == 2 && ready_on(&|pod| is_on(pod, GOING)).await == 4;
    crowd.stage.world.run_until("all pods run on the machine that goes", LONG, all_there).await?;
    crowd.attach_csi_volume(GOING).await?;
    cordon_others(crowd, false).await;
    crowd.stage.world.run_for(Duration::from_secs(5)).await;

    crowd.stage.world.wire().ok_or("there is no wire")?.sweep_from_here();
    watch_drain(crowd, &csi);
    crowd.stage.delete_machine(GOING).await;
    crowd.stage.run_until_gone(GOING, LONG).await?;
    let elsewhere = async || ready_on(&|pod| !is_on(pod, GOING)).await == 4;
    crowd.stage.world.run_until("all pods run elsewhere", LONG, elsewhere).await?;
    crowd.stage.world.run_for(Duration::from_mins(1)).await;
    let left = crowd.stage.cloud.servers();
    let mut left: Vec<&String> = ours(&left).map(|server| &server.name).collect();
    left.sort();
    if left == STAYING { Ok(()) } else { Err(format!("there are {left:?}")) }
}

#[test]
fn a_drain_survives_every_kind_of_fault_at_every_call() {
    in_fair_weather("a drain among three", 7, async |plan| one_drain(plan, Weather::Fair).await);
}

#[test]
fn a_drain_makes_the_committed_calls() {
    let calm = one_drain(Plan::seeded(1), Weather::Fair);
    committed(&hostler_sim::sweep::paused(calm).unwrap(), "one-drain.txt");
}

#[test]
fn a_drain_survives_unknown_outcomes_in_foul_weather() {
    in_foul_weather("a drain among three", 3, one_drain);
}
