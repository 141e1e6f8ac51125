//! Hollow nodes, as seen through the API.

use hostler_base::{Chance, Clock, Entropy};
use hostler_sim::{HollowNodes, MachineSpec, Plan, World, hollow};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

const NODE: &str = "n-1";
const LIMIT: Duration = Duration::from_mins(2);

fn world() -> (World, HollowNodes) {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let nodes = world.start_hollow_nodes();
    (world, nodes)
}

async fn node(world: &World, name: &str) -> Option<Node> {
    Api::<Node>::all(world.client()).get_opt(name).await.unwrap()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == "node.kubernetes.io/not-ready")
}

async fn until_ready(world: &mut World, name: &str) {
    let client = world.client();
    let ready = async || {
        let node = Api::<Node>::all(client.clone()).get_opt(name).await.unwrap();
        node.is_some_and(|node| is_ready(&node) && !is_tainted(&node))
    };
    world.run_until("the node is ready", LIMIT, ready).await.unwrap();
}

async fn renewed(world: &World, name: &str) -> Option<Timestamp> {
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-node-lease");
    leases.get_opt(name).await.unwrap()?.spec?.renew_time.map(|time| time.0)
}

async fn create_pod(world: &World, name: &str, annotations: Value, restart_policy: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "nodeName": NODE, "restartPolicy": restart_policy,
            "containers": [{ "name": "c", "image": "example.com/c" }],
        },
    }))
    .unwrap();
    Api::default_namespaced(world.client()).create(&PostParams::default(), &pod).await.unwrap();
}

async fn phase(world: &World, name: &str) -> Option<String> {
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    pods.get_opt(name).await.unwrap()?.status?.phase
}

#[tokio::test(start_paused = true)]
async fn a_booted_machine_registers_and_becomes_ready() {
    let (mut world, nodes) = world();
    let mut machine = MachineSpec::new(NODE);
    machine.provider_id = Some("cloud://1".into());
    machine.labels.insert("pool".into(), "a".into());
    nodes.boot(machine);
    world.run_for(Duration::from_secs(19)).await;
    assert!(node(&world, NODE).await.is_none(), "it is still booting");
    world.run_for(Duration::from_secs(2)).await;
    let joined = node(&world, NODE).await.unwrap();
    assert!(!is_ready(&joined) && is_tainted(&joined), "{joined:?}");
    until_ready(&mut world, NODE).await;
    let ready = serde_json::to_value(node(&world, NODE).await.unwrap()).unwrap();
    assert_eq!(ready["spec"]["providerID"], "cloud://1");
    assert_eq!(ready["metadata"]["labels"]["pool"], "a");
    assert_eq!(ready["metadata"]["labels"]["kubernetes.io/hostname"], NODE);
    assert_eq!(ready["status"]["allocatable"]["cpu"], "4");
    assert_eq!(ready["status"]["addresses"][0], json!({ "type": "InternalIP", "address": "10.0.0.1" }));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_breaks_breaks_its_world() {
    let (mut world, nodes) = world();
    // No clock can show when it would be ready.
    nodes.boot(MachineSpec { ready_time: Duration::MAX, ..MachineSpec::new(NODE) });
    let broken = world.run_until("never", LIMIT, async || false).await.unwrap_err();
    assert!(broken.contains("a part of the world broke before never"), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_the_machine_goes() {
    let (mut world, nodes) = world();
    nodes.boot(MachineSpec::new(NODE));
    until_ready(&mut world, NODE).await;
    for _ in 0..5 {
        let before = renewed(&world, NODE).await;
        world.run_for(Duration::from_secs(11)).await;
        assert!(renewed(&world, NODE).await > before);
    }
    nodes.silence(NODE);
    world.run_for(Duration::from_secs(1)).await;
    let silent = renewed(&world, NODE).await;
    world.run_for(Duration::from_mins(1)).await;
    assert_eq!(renewed(&world, NODE).await, silent);
    nodes.hear(NODE);
    world.run_for(Duration::from_secs(1)).await;
    assert!(renewed(&world, NODE).await > silent);
    nodes.shutdown(NODE);
    world.run_for(Duration::from_secs(1)).await;
    let last = renewed(&world, NODE).await;
    world.run_for(Duration::from_mins(1)).await;
    assert_eq!(renewed(&world, NODE).await, last);
    assert!(node(&world, NODE).await.is_some(), "nobody has deleted the node");
    nodes.boot(MachineSpec::new(NODE));
    world.run_for(Duration::from_mins(1)).await;
    assert!(renewed(&world, NODE).await > last, "after a reboot it goes on with its node");
}

#[tokio::test(start_paused = true)]
async fn a_machine_can_fail_to_join() {
    let (world, nodes) = world();
    nodes.boot(MachineSpec { never_joins: true, ..MachineSpec::new(NODE) });
    world.run_for(Duration::from_hours(1)).await;
    assert!(node(&world, NODE).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_a_bootstrap_token_joins_only_while_the_token_is_valid() {
    let token = |secret: &str, expires: &str| -> Secret {
        let fields = json!({"token-id": "abcdef", "token-secret": secret, "expiration": expires,
            "usage-bootstrap-authentication": "true"});
        let metadata = json!({"name": "bootstrap-token-abcdef"});
        let kind = "bootstrap.kubernetes.io/token";
        serde_json::from_value(json!({"metadata": metadata, "type": kind, "stringData": fields})).unwrap()
    };
    let (mut world, nodes) = world();
    let bootstrap_token = Some("abcdef.0123456789abcdef".to_owned());
    nodes.boot(MachineSpec { bootstrap_token, ..MachineSpec::new(NODE) });
    world.run_for(Duration::from_mins(5)).await;
    assert!(node(&world, NODE).await.is_none(), "there is no such token");
    let secrets: Api<Secret> = Api::namespaced(world.client(), "kube-system");
    let expired = "2000-01-01T00:00:00Z";
    for wrong in [token("fedcba9876543210", "2100-01-01T00:00:00Z"), token("0123456789abcdef", expired)] {
        secrets.create(&PostParams::default(), &wrong).await.unwrap();
        world.run_for(Duration::from_mins(1)).await;
        assert!(node(&world, NODE).await.is_none());
        secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    }
    let right = token("0123456789abcdef", "2100-01-01T00:00:00Z");
    secrets.create(&PostParams::default(), &right).await.unwrap();
    until_ready(&mut world, NODE).await;
}

#[tokio::test(start_paused = true)]
async fn bound_pods_run_end_and_stop_in_their_grace_period() {
    let (mut world, nodes) = world();
    nodes.boot(MachineSpec::new(NODE));
    // Bound before its node is there: it runs as soon as it is.
    create_pod(&world, "early", json!({}), "Always").await;
    until_ready(&mut world, NODE).await;
    create_pod(&world, "job", json!({ hollow::COMPLETE_AFTER: "20" }), "Never").await;
    create_pod(&world, "stubborn", json!({ hollow::STOP_AFTER: "600" }), "Always").await;
    world.run_for(Duration::from_secs(5)).await;
    for name in ["early", "job", "stubborn"] {
        assert_eq!(phase(&world, name).await.as_deref(), Some("Running"), "{name}");
    }
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let listed = serde_json::to_value(pods.list(&ListParams::default()).await.unwrap().items).unwrap();
    let ips: Vec<&Value> = (0..3).map(|index| &listed[index]["status"]["podIP"]).collect();
    assert_eq!(ips, ["10.64.0.2", "10.64.0.3", "10.64.0.4"]);
    for name in ["early", "stubborn"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    world.run_for(Duration::from_secs(5)).await;
    assert_eq!(phase(&world, "early").await, None, "it stops at once");
    world.run_for(Duration::from_secs(20)).await;
    assert_eq!(phase(&world, "stubborn").await.as_deref(), Some("Running"), "it uses its 30 seconds");
    assert_eq!(phase(&world, "job").await.as_deref(), Some("Succeeded"));
    world.run_for(Duration::from_secs(10)).await;
    assert_eq!(phase(&world, "stubborn").await, None);
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_nodes_join_and_stay() {
    let (world, nodes) = world();
    for number in 0..250 {
        nodes.boot(MachineSpec::new(&format!("n-{number:03}")));
    }
    world.run_for(Duration::from_mins(1)).await;
    let joined = Api::<Node>::all(world.client()).list(&ListParams::default()).await.unwrap();
    let ready = joined.items.iter().filter(|node| is_ready(node)).count();
    assert_eq!(ready, 250);
    let now = world.clock().now();
    let leases = Api::<Lease>::namespaced(world.client(), "kube-node-lease");
    let leases = leases.list(&ListParams::default()).await.unwrap();
    let fresh = leases.items.iter().filter(|lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        renewed.is_some_and(|time| now.duration_since(time.0).as_secs() <= 11)
    });
    assert_eq!(fresh.count(), 250);
}

#[tokio::test]
async fn a_world_runs_in_real_time_too() {
    let entropy = Entropy::guessable(Chance::from_seed(2));
    let options = hostler_apiserver::Options::new(Clock::system(), Chance::from_seed(1), entropy);
    let mut world = World::in_real_time(Chance::from_seed(1), options, None);
    let nodes = world.start_hollow_nodes();
    nodes.boot(MachineSpec {
        boot_time: Duration::ZERO,
        ready_time: Duration::ZERO,
        ..MachineSpec::new(NODE)
    });
    until_ready(&mut world, NODE).await;
    world.stop().await;
}
