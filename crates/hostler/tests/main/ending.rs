//! `machine-controller` is asked to end in the middle of its work, and goes on in another process.

use crate::{
    machine_controller::{ask, port_of},
    playground::{Directory, Playground, Process, hostler, wait_for},
    process::{client, wait_until_async},
};
use hostler_gardener::api::{Machine, MachineClass, Phase};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod, Secret},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap, fmt::Debug, io::Write, net::TcpStream, os::unix::fs::symlink, process::Command,
    time::Duration,
};

/// The playground's own controller looks elsewhere.
pub const NAMESPACE: &str = "kube-public";
const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
/// The grace period of the pod in which Gardener has its machine controllers.
const GRACE: Duration = Duration::from_secs(5);
/// A day: whoever waits for it waits for ever.
const FOR_EVER: &str = "delay=86400";

pub async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A simulated STACKIT in a process of its own.
pub struct Cloud {
    address: String,
    _process: Process,
}

impl Cloud {
    pub fn start(directory: &Directory) -> Self {
        let times = ["--set=bootTime=0", "--set=deleteTime=0"];
        let mut command = hostler(&["sim", "stackit", "--listen=127.0.0.1:0"]);
        command.args(times);
        let process = Process::start(directory, "sim", command);
        let address = wait_for("it says where it is", || {
            let said = process.stdout();
            Some(said.lines().next()?.strip_prefix("A simulated STACKIT is at http://")?.to_owned())
        });
        Self { address, _process: process }
    }

    pub fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or(Value::Null)
    }

    pub fn fault(&self, fault: &str) {
        let taken = self.call("POST", "/_sim/faults", &json!(fault));
        assert!(taken["operation"].is_string(), "{taken}");
    }

    /// How many calls met the fault of this operation.
    pub fn met(&self, operation: &str) -> u64 {
        let faults = self.call("GET", "/_sim/faults", &Value::Null);
        let items = faults["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["fault"]["operation"] == operation).unwrap();
        found["calls"].as_u64().unwrap()
    }

    /// How many servers there are of each name.
    pub fn servers(&self) -> BTreeMap<String, usize> {
        let state = self.call("GET", "/_sim/state", &Value::Null);
        let mut servers = BTreeMap::new();
        for server in state["servers"].as_array().unwrap() {
            *servers.entry(server["name"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        servers
    }
}

/// The program as an image of Gardener's provider binaries calls it.
fn start(playground: &Playground, cloud: &Cloud, name: &str) -> Process {
    start_with(playground, cloud, name, &[])
}

/// The same with more arguments.
pub fn start_with(playground: &Playground, cloud: &Cloud, name: &str, more: &[&str]) -> Process {
    let program = playground.directory.file("machine-controller");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_hostler"), &program).unwrap();
    }
    let mut command = Command::new(program);
    let kubeconfig = playground.kubeconfig.display();
    command
        .arg(format!("--control-kubeconfig={kubeconfig}"))
        .arg(format!("--target-kubeconfig={kubeconfig}"))
        .arg(format!("--namespace={NAMESPACE}"))
        .args(["--address=127.0.0.1", "--port=0", "--kube-api-qps=100", "--kube-api-burst=200", "--v=4"])
        .args(more)
        .env("STACKIT_IAAS_ENDPOINT", format!("http://{}", cloud.address))
        .env("NO_PROXY", "127.0.0.1")
        .env_remove("RUST_LOG");
    Process::start(&playground.directory, name, command)
}

pub fn machine(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}})
}

pub async fn create_class_and_secret(client: &Client) {
    let secret = json!({"metadata": {"name": "credentials"},
        "stringData": {"project-id": PROJECT, "apiToken": "open sesame", "userData": "#cloud-config"}});
    create(Api::<Secret>::namespaced(client.clone(), NAMESPACE), secret).await;
    let class = json!({"metadata": {"name": "small"}, "provider": "stackit",
        "secretRef": {"name": "credentials", "namespace": NAMESPACE},
        "providerSpec": {"region": "eu01", "machineType": "c2i.2", "imageId": PROJECT, "bootVolume": {"size": 50},
            "networking": {"networkId": PROJECT}, "labels": {"kubernetes.io/cluster": "ending"}}});
    create(Api::<MachineClass>::namespaced(client.clone(), NAMESPACE), class).await;
}

/// A Node of this name that is Ready, with a pod on it that nobody ends.
async fn create_node_and_pod(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    create(nodes.clone(), json!({"metadata": {"name": name}})).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    let pod = json!({"metadata": {"name": "stays", "finalizers": ["test.example/stays"]},
        "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"operator": "Exists"}]}});
    create(Api::<Pod>::namespaced(client.clone(), NAMESPACE), pod).await;
}

#[tokio::test]
async fn one_that_is_asked_to_end_while_nothing_answers_ends_gives_its_lease_back_and_nothing_is_doubled() {
    let playground = Playground::start();
    let cloud = Cloud::start(&playground.directory);
    let client = client(&playground.kubeconfig, |_| {}).await;
    let mut first = start(&playground, &cloud, "first");
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let phase = async |name: &str| {
        let status = machines.get_opt(name).await.unwrap()?.status?;
        Some(status.current_status.phase)
    };
    create_class_and_secret(&client).await;

    // One machine is in the middle of a drain that takes as long as its pod does.
    create(machines.clone(), machine("drains")).await;
    wait_until_async(async || phase("drains").await == Some(Phase::Pending)).await;
    create_node_and_pod(&client, "drains").await;
    wait_until_async(async || phase("drains").await == Some(Phase::Running)).await;
    machines.delete("drains", &DeleteParams::default()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until_async(async || pods.get("stays").await.unwrap().metadata.deletion_timestamp.is_some()).await;
    // Others are ordered, and the cloud does what it is told but never says so.
    cloud.fault(&format!("CreateServer {FOR_EVER} after=true"));
    let names = ["ordered-1", "ordered-2", "ordered-3"];
    for name in names {
        create(machines.clone(), machine(name)).await;
    }
    wait_for("all orders are given", || (cloud.met("CreateServer") == 3).then_some(()));
    cloud.fault(&format!("* {FOR_EVER}"));
    let servers: BTreeMap<String, usize> =
        names.into_iter().chain(["drains"]).map(|name| (name.to_owned(), 1)).collect();
    assert_eq!(cloud.servers(), servers);

    assert_eq!(first.end_within(GRACE).code(), Some(0), "{}", first.stderr());
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let holder = leases.get("machine-controller").await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(holder.as_deref(), Some(""), "the lease was not given back\n{}", first.stderr());

    // The next one finds what was ordered, and goes on with the drain.
    cloud.call("DELETE", "/_sim/faults", &Value::Null);
    let mut second = start(&playground, &cloud, "second");
    for name in names {
        wait_until_async(async || phase(name).await == Some(Phase::Pending)).await;
    }
    assert_eq!(cloud.servers(), servers, "{}", second.stderr());
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("stays", &PatchParams::default(), &released).await.unwrap();
    pods.delete("stays", &DeleteParams::default().grace_period(0)).await.ok();
    wait_until_async(async || machines.get_opt("drains").await.unwrap().is_none()).await;
    for name in names {
        machines.delete(name, &DeleteParams::default()).await.unwrap();
    }
    for name in names {
        wait_until_async(async || machines.get_opt(name).await.unwrap().is_none()).await;
    }
    assert_eq!(cloud.servers(), BTreeMap::new());
    assert_eq!(second.end_within(GRACE).code(), Some(0), "{}", second.stderr());
}

/// The process has noticed that nobody answers, and is healthy all the same.
fn is_healthy_without_an_api_server(process: &mut Process, port: u16) {
    wait_for("it has noticed", || {
        if let Some(status) = process.has_ended() {
            panic!("ended with {status}: {}", process.stderr());
        }
        let (_, metrics) = ask(port, "/metrics")?;
        metrics.contains("rest_client_requests_total{code=\"<error>\"").then_some(())
    });
    assert_eq!(ask(port, "/healthz"), Some((200, "ok\n".to_owned())), "{}", process.stderr());
}

#[tokio::test]
async fn one_whose_api_server_goes_away_stays_healthy() {
    let (control, mut target) = (Playground::start(), Playground::start());
    let begin = |name: &str, arguments: &[&str]| {
        let mut command = hostler(&["machine-controller", "--address=127.0.0.1", "--port=0"]);
        command
            .arg(format!("--control-kubeconfig={}", control.kubeconfig.display()))
            .arg(format!("--target-kubeconfig={}", target.kubeconfig.display()))
            .arg(format!("--namespace={NAMESPACE}"))
            .args(arguments);
        let mut process = Process::start(&control.directory, name, command);
        let port = port_of(&mut process);
        (process, port)
    };
    let (mut leader, port) = begin("leader", &[]);
    wait_for("it leads", || (ask(port, "/readyz")? == (200, "ok\n".to_owned())).then_some(()));
    let (mut waiting, other) = begin("waiting", &[]);
    let standing_by = (200, "standing by: another process leads\n".to_owned());
    wait_for("the other one waits", || (ask(other, "/readyz")? == standing_by).then_some(()));
    let (mut alone, third) = begin("alone", &["--leader-elect=false"]);
    wait_for("one works without a lease", || {
        (ask(third, "/readyz")? == (200, "ok\n".to_owned())).then_some(())
    });

    target.process.signal("KILL");
    target.process.wait();
    is_healthy_without_an_api_server(&mut leader, port);
    is_healthy_without_an_api_server(&mut alone, third);
    let Playground { mut process, directory: _directory, .. } = control;
    process.signal("KILL");
    process.wait();
    is_healthy_without_an_api_server(&mut waiting, other);
    assert_eq!(ask(third, "/healthz"), Some((200, "ok\n".to_owned())));
    // Who cannot renew the lease any more ends, so that nobody works beside the next one.
    assert_eq!(leader.wait().code(), Some(1));
    assert!(leader.stderr().contains("the lease machine-controller was lost"), "{}", leader.stderr());
    is_healthy_without_an_api_server(&mut waiting, other);
    is_healthy_without_an_api_server(&mut alone, third);
}
