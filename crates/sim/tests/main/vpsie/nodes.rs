//! VPSs and workers become nodes, with what is in their user data.

use super::{patient, vm};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_base::{Transport, transport};
use hostler_sim::{
    Plan, World,
    vpsie::{Settings, Vpsie, identifier_of},
};
use http::Request;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(2);
const TOKEN: &str = "abcdef.0123456789abcdef";

fn world(settings: Settings) -> (World, Vpsie) {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let nodes = world.start_hollow_nodes();
    let cloud = Vpsie::new(settings, world.clock().clone(), world.chance("vpsie"));
    world.add_background(cloud.clone().drive(nodes));
    world.add_cloud("vpsie", Vpsie::paths(), cloud.router());
    (world, cloud)
}

async fn call(to: &Transport, method: &str, path: &str, body: Value) -> Value {
    let body = if body.is_null() { transport::empty() } else { transport::full(body.to_string()) };
    let request = Request::builder().method(method).uri(format!("/apps/v2/{path}")).body(body).unwrap();
    let answer = transport::exchange(to, request, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    assert_eq!(body["error"], false, "{body}");
    body
}

/// Cloud-init's way into a cluster.
fn joins(token: &str) -> String {
    format!(
        "#cloud-config
write_files:
- path: /etc/default/kubelet
  content: KUBELET_EXTRA_ARGS=--node-labels=autoscaler.vpsie.com/nodegroup=g,a=b --provider-id=vpsie://n-1 --register-with-taints=x=y:NoSchedule
runcmd:
- kubeadm join 10.0.0.1:6443 --token {token} --discovery-token-unsafe-skip-ca-verification
"
    )
}

async fn create(cloud: &Vpsie, hostname: &str, user_data: Option<&str>) {
    let mut body = vm(hostname);
    if let Some(user_data) = user_data {
        body["userData"] = json!(STANDARD.encode(user_data));
    }
    call(&cloud.transport(), "POST", "vm", body).await;
}

async fn allow(world: &World, expiration: Option<&str>) {
    let mut fields = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true"});
    if let Some(expiration) = expiration {
        fields["expiration"] = json!(expiration);
    }
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token", "stringData": fields}))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(world.client(), "kube-system");
    secrets.create(&PostParams::default(), &secret).await.unwrap();
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

async fn is_there(world: &World, name: &str) -> bool {
    Api::<Node>::all(world.client()).get_opt(name).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn what_a_node_is_comes_from_its_user_data() {
    let (mut world, cloud) = world(patient());
    create(&cloud, "N-1", Some(&joins(TOKEN))).await;
    world.run_for(LIMIT).await;
    assert!(!is_there(&world, "n-1").await, "the token is not valid yet");
    allow(&world, None).await;
    let node = until_there(&mut world, "n-1").await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!((labels["a"].as_str(), labels["autoscaler.vpsie.com/nodegroup"].as_str()), ("b", "g"));
    assert!(!labels.contains_key("topology.kubernetes.io/zone"), "nobody has said where it is");
    let spec = node.spec.unwrap();
    assert_eq!(spec.provider_id.as_deref(), Some("vpsie://n-1"));
    let taints = spec.taints.unwrap();
    assert!(taints.iter().any(|taint| taint.key == "x" && taint.value.as_deref() == Some("y")), "{taints:?}");
    let status = node.status.unwrap();
    let amounts = |amounts: Option<std::collections::BTreeMap<String, _>>| {
        let amounts = serde_json::to_value(amounts).unwrap();
        (amounts["cpu"].as_str().unwrap().to_owned(), amounts["memory"].as_str().unwrap().to_owned())
    };
    assert_eq!(amounts(status.capacity), ("2".to_owned(), "3973Mi".to_owned()));
    assert_eq!(amounts(status.allocatable), ("1900m".to_owned(), "3617Mi".to_owned()));
    let ip = cloud.vms()[0].default_ip.clone().unwrap();
    assert!(status.addresses.unwrap().iter().any(|address| address.address == ip));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_or_expired_token_never_joins() {
    for (token, expiration) in [
        ("abcdef.ffffffffffffffff", None),
        ("fedcba.0123456789abcdef", None),
        (TOKEN, Some("2026-01-01T00:00:01Z")),
        ("{{ token }}", None),
    ] {
        let (world, cloud) = world(patient());
        allow(&world, expiration).await;
        create(&cloud, "n-1", Some(&joins(token))).await;
        world.run_for(LIMIT).await;
        assert!(!is_there(&world, "n-1").await, "{token} {expiration:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_with_its_vps_and_comes_back_without_a_token() {
    let (mut world, cloud) = world(patient());
    allow(&world, None).await;
    create(&cloud, "n-1", Some(&joins(TOKEN))).await;
    until_there(&mut world, "n-1").await;
    let secrets: Api<Secret> = Api::namespaced(world.client(), "kube-system");
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    let nodes: Api<Node> = Api::all(world.client());
    let id = cloud.vms()[0].identifier.clone();
    call(&cloud.transport(), "POST", "vm/stop", json!({"vmIdentifier": id})).await;
    world.run_for(LIMIT).await;
    nodes.delete("n-1", &DeleteParams::default()).await.unwrap();
    world.run_for(LIMIT).await;
    assert!(!is_there(&world, "n-1").await, "nothing runs that could register");
    call(&cloud.transport(), "POST", "vm/start", json!({"vmIdentifier": id})).await;
    until_there(&mut world, "n-1").await;
    call(&cloud.transport(), "DELETE", "vm", json!({"vmIdentifier": id, "password": ""})).await;
    world.run_for(LIMIT).await;
    nodes.delete("n-1", &DeleteParams::default()).await.unwrap();
    world.run_for(LIMIT).await;
    assert!(!is_there(&world, "n-1").await);
}

#[tokio::test(start_paused = true)]
async fn of_two_with_one_name_the_other_goes_on() {
    let (mut world, cloud) = world(patient());
    allow(&world, None).await;
    for _ in 0..2 {
        create(&cloud, "n-1", Some(&joins(TOKEN))).await;
    }
    until_there(&mut world, "n-1").await;
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-node-lease");
    let renewed = async || leases.get("n-1").await.unwrap().spec.unwrap().renew_time;
    for (number, lives) in [(1, true), (0, false)] {
        let id = cloud.vms()[number].identifier.clone();
        call(&cloud.transport(), "DELETE", "vm", json!({"vmIdentifier": id, "password": ""})).await;
        world.run_for(LIMIT).await;
        let before = renewed().await;
        world.run_for(LIMIT).await;
        assert_eq!(renewed().await != before, lives, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_it_is_a_switch_and_some_never_join() {
    for (joins_without_token, never, expected) in [(false, "", false), (true, "", true), (true, "n-*", false)]
    {
        let never_joins = [never.to_owned()].into();
        let (world, cloud) = world(Settings { joins_without_token, never_joins, ..patient() });
        create(&cloud, "n-1", None).await;
        world.run_for(LIMIT).await;
        assert_eq!(is_there(&world, "n-1").await, expected, "{joins_without_token} {never}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_up_script_joins_as_well() {
    let (mut world, cloud) = world(patient());
    allow(&world, None).await;
    let to = cloud.transport();
    let content = format!("#!/bin/bash\nkubeadm join 10.0.0.1:6443 --token {TOKEN}\n");
    let script = json!({"name": "join", "scriptContent": content, "scriptType": "bash", "tags": []});
    call(&to, "POST", "script/add", script).await;
    let scripts = call(&to, "GET", "scripts", Value::Null).await;
    let script = scripts["data"][0].clone();
    assert_eq!(script["script_name"], "join.sh");
    let mut body = vm("n-1");
    body["scriptIdentifier"] = script["identifier"].clone();
    call(&to, "POST", "vm", body).await;
    call(&to, "DELETE", "script", json!({"scriptIdentifier": script["identifier"]})).await;
    until_there(&mut world, "n-1").await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_plan_may_lend_its_guest_less_memory() {
    let settings = Settings { joins_without_token: true, ballooned_memory: Some(1024), ..patient() };
    let (mut world, cloud) = world(settings);
    let mut body = vm("n-1");
    body["resourceIdentifier"] = json!(identifier_of("shared-2cpu-4gb"));
    call(&cloud.transport(), "POST", "vm", body).await;
    let node = until_there(&mut world, "n-1").await;
    assert_eq!(node.status.unwrap().capacity.unwrap()["memory"].0, "993Mi");
}

#[tokio::test(start_paused = true)]
async fn workers_of_managed_clusters_join_by_themselves() {
    for (worker_hints, elsewhere) in [(false, false), (true, false), (false, true)] {
        let mut settings = Settings { worker_hints, ..patient() };
        if elsewhere {
            settings.other_clusters.insert("c".to_owned());
        }
        let (world, cloud) = world(settings);
        let to = cloud.transport();
        let body = json!({"clusterName": "c", "dcIdentifier": identifier_of("dc-us-east-1"), "nodesCountSlave": 1,
            "kuberVer": "1.31.0", "resourceIdentifier": identifier_of("small-2cpu-4gb"),
            "projectIdentifier": identifier_of("Default")});
        call(&to, "POST", "k8s/create/cluster", body).await;
        world.run_for(LIMIT).await;
        let nodes = Api::<Node>::all(world.client()).list(&ListParams::default()).await.unwrap().items;
        assert_eq!(nodes.len(), usize::from(!elsewhere));
        let Some(node) = nodes.into_iter().next() else { continue };
        let worker = cloud.workers().remove(0);
        assert_eq!(node.metadata.name.as_ref(), Some(&worker.hostname));
        let id = node.spec.unwrap().provider_id;
        assert_eq!(id.is_some_and(|id| id.ends_with(&worker.identifier)), worker_hints);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_it_have_names_that_are_the_same_in_every_run() {
    let (world, _cloud) = world(patient());
    let to = world.transport_of("user", "vpsie");
    call(&to, "POST", "vm", vm("n-1")).await;
    world.run_for(Duration::from_secs(6)).await;
    let list = call(&to, "GET", "vm", Value::Null).await;
    let id = list["data"][0]["identifier"].as_str().unwrap().to_owned();
    call(&to, "GET", &format!("vm/{id}"), Value::Null).await;
    call(&to, "DELETE", "vm", json!({"vmIdentifier": id, "password": ""})).await;
    let story = world.wire().unwrap().story();
    for expected in ["POST /apps/v2/vm n-1", "GET /apps/v2/vm/{vm} n-1", "DELETE /apps/v2/vm n-1"] {
        assert!(story.contains(expected), "{expected} is not in\n{story}");
    }
}
