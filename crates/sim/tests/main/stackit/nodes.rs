//! Servers become nodes, with the bootstrap token that is in their user data.

use super::{IMAGE, NETWORK, at};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_base::{Transport, transport};
use hostler_sim::{
    Plan, World,
    stackit::{Settings, Stackit},
};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(2);
const TOKEN: &str = "abcdef.0123456789abcdef";

fn world(settings: Settings) -> (World, Stackit) {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let nodes = world.start_hollow_nodes();
    let cloud = Stackit::new(settings, world.clock().clone(), world.chance("stackit"));
    world.add_background(cloud.clone().drive(nodes));
    (world, cloud)
}

async fn call(to: &Transport, method: &str, path: &str, body: Option<Value>) -> Value {
    let body = body.map_or_else(transport::empty, |body| transport::full(body.to_string()));
    let request = Request::builder().method(method).uri(at(path)).body(body).unwrap();
    let answer = transport::exchange(to, request, 1 << 20).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    serde_json::from_slice(answer.body()).unwrap_or_default()
}

async fn create(cloud: &Stackit, name: &str, user_data: Option<&str>) -> String {
    let mut body = json!({"name": name, "machineType": "c2i.4", "imageId": IMAGE,
        "networking": {"networkId": NETWORK}, "labels": {"kubernetes.io/machine": name}});
    if let Some(user_data) = user_data {
        body["userData"] = json!(STANDARD.encode(user_data));
    }
    super::id(&call(&cloud.transport(), "POST", "servers", Some(body)).await)
}

async fn until_there(world: &mut World, name: &str) -> Node {
    let nodes: Api<Node> = Api::all(world.client());
    let there = async || {
        let node = nodes.get_opt(name).await.unwrap();
        node.and_then(|node| node.status?.addresses).is_some()
    };
    world.run_until("the node is there", LIMIT, there).await.unwrap();
    nodes.get(name).await.unwrap()
}

fn secret() -> Secret {
    let fields = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true"});
    let metadata = json!({"name": "bootstrap-token-abcdef"});
    let kind = "bootstrap.kubernetes.io/token";
    serde_json::from_value(json!({"metadata": metadata, "type": kind, "stringData": fields})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_joins_with_the_token_in_its_user_data_and_comes_back_without_it() {
    let (mut world, cloud) = world(Settings::default());
    let id = create(&cloud, "m-1", Some(&format!("#cloud-config\ntoken: {TOKEN}\n"))).await;
    world.run_for(LIMIT).await;
    let nodes: Api<Node> = Api::all(world.client());
    assert!(nodes.get_opt("m-1").await.unwrap().is_none(), "the token is not valid yet");
    let secrets: Api<Secret> = Api::namespaced(world.client(), "kube-system");
    secrets.create(&PostParams::default(), &secret()).await.unwrap();
    let node = until_there(&mut world, "m-1").await;
    let spec = node.spec.unwrap();
    assert_eq!(spec.provider_id, Some(format!("stackit://{id}")));
    let addresses = node.status.unwrap().addresses.unwrap();
    let server = call(&cloud.transport(), "GET", &format!("servers/{id}?details=true"), None).await;
    assert!(addresses.iter().any(|address| server["nics"][0]["ipv4"] == address.address.as_str()));
    assert_eq!(node.metadata.labels.unwrap()["topology.kubernetes.io/zone"], "eu01-m");

    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    nodes.delete("m-1", &DeleteParams::default()).await.unwrap();
    call(&cloud.transport(), "POST", &format!("servers/{id}/reboot"), None).await;
    until_there(&mut world, "m-1").await;
}

#[tokio::test(start_paused = true)]
async fn whether_a_server_without_a_token_joins_is_a_switch() {
    for joins in [true, false] {
        let (world, cloud) = world(Settings { joins_without_token: joins, ..Settings::default() });
        create(&cloud, "m-1", None).await;
        world.run_for(LIMIT).await;
        let node = Api::<Node>::all(world.client()).get_opt("m-1").await.unwrap();
        assert_eq!(node.is_some(), joins);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_token_nobody_has_filled_in_never_joins() {
    for unfilled in ["token: <<BOOTSTRAP_TOKEN>>", "data:,%3C%3CBOOTSTRAP_TOKEN%3E%3E"] {
        let (world, cloud) = world(Settings::default());
        create(&cloud, "m-1", Some(unfilled)).await;
        world.run_for(LIMIT).await;
        let node = Api::<Node>::all(world.client()).get_opt("m-1").await.unwrap();
        assert!(node.is_none(), "{unfilled}");
    }
}
