//! A whole cluster in one process: scheduler, workloads and hollow nodes together.

use hostler_sim::{Finished, MachineSpec, Plan, World, sweep::paused};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

const LIMIT: Duration = Duration::from_mins(5);

/// Two machines boot, a Deployment of four runs on them, and is deleted again.
pub(crate) async fn run(plan: Plan) -> Finished {
    let mut world = World::in_virtual_time(plan);
    world.start_cluster(hostler_cluster::Options::all());
    let nodes = world.start_hollow_nodes();
    for name in ["n-1", "n-2"] {
        nodes.boot(MachineSpec::new(name));
    }
    let goal = story(&mut world).await;
    world.finish(goal)
}

async fn story(world: &mut World) -> Result<(), String> {
    let user = world.client_of("user");
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let labels = json!({ "app": "web" });
    let container = json!({
        "name": "c", "image": "example.com/web",
        "resources": { "requests": { "cpu": "1500m" } },
    });
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 4,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    }))
    .map_err(|error| error.to_string())?;
    let deployments: Api<Deployment> = Api::default_namespaced(user);
    deployments.create(&PostParams::default(), &deployment).await.map_err(|error| error.to_string())?;
    let spread = async || {
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let running = pods
            .iter()
            .filter(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
        let nodes: Vec<_> = running.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        nodes.len() == 4 && nodes.into_iter().collect::<BTreeSet<_>>().len() == 2
    };
    world.run_until("four pods run on two nodes", LIMIT, spread).await?;
    deployments.delete("web", &DeleteParams::background()).await.map_err(|error| error.to_string())?;
    let empty = async || pods.list(&ListParams::default()).await.unwrap().items.is_empty();
    world.run_until("the pods are gone", LIMIT, empty).await
}

#[test]
fn a_deployment_runs_on_hollow_nodes_and_goes() {
    let finished = paused(run(Plan::seeded(1))).unwrap();
    assert_eq!(finished.goal, Ok(()), "{}", finished.trace);
}
