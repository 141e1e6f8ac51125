//! Two that could do the same work are there at the same time: only the one that holds the lease does it, and when that
//! one is killed the other one goes on in the middle.

use crate::{
    faults::LEASE,
    gardener::{all_are_new, available, deployment, deployments},
    stage::{
        Directory, Stage, create, given_kubeconfig, hostler, kubeconfig_to, store, supervisor, transport,
    },
    take_over::{Play, Who},
};
use hostler_base::{Body, Transport, transport::from_service, transport::send};
use hostler_control_plane::{Process, Program, free_port, gardener};
use hostler_gardener::api::{Machine, MachineSet};
use hostler_sim::{Plan, Proxy};
use http::{Method, Request};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// How many machines there are at the same time.
const FEW: usize = 3;
/// So often whoever waits for a lease has looked at it before it counts as waiting.
const LOOKS: usize = 3;
/// Keeps a pod from ending, so that a roll takes as long as the test wants.
const HELD: &str = "test.hostler.dev/held";

/// What somebody asked of a server, in order.
type Calls = Arc<Mutex<Vec<(Method, String)>>>;

/// A way to a server on which calls are written down.
async fn written_down(to: Transport) -> (Proxy, Calls) {
    let calls = Calls::default();
    let list = calls.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        list.lock().unwrap().push((request.method().clone(), request.uri().path().to_owned()));
        send(&to, request)
    });
    (Proxy::start(from_service(service)).await.unwrap(), calls)
}

/// Where one of the programs sits: it has ways of its own to the API server and to the cloud.
struct Seat {
    kubeconfig: PathBuf,
    cloud: Proxy,
    /// Of the API server and of the cloud.
    calls: [Calls; 2],
    /// It ends with its seat.
    _kubernetes: Proxy,
}

impl Seat {
    async fn take(stage: &Stage, directory: &Directory, name: &str) -> Self {
        let (kubernetes, asked) = written_down(transport(&given_kubeconfig()).await).await;
        let (cloud, ordered) = written_down(stage.cloud.transport()).await;
        let kubeconfig = directory.path().join(format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, kubeconfig_to(&kubernetes.url())).unwrap();
        Self { kubeconfig, cloud, calls: [asked, ordered], _kubernetes: kubernetes }
    }

    /// What whoever sits here has changed in the cluster, and everything it asked of the cloud. Its lease is its own.
    fn done(&self) -> Vec<String> {
        let [asked, ordered] = &self.calls;
        let changes = asked.lock().unwrap().clone().into_iter();
        let changes = changes.filter(|(method, path)| *method != Method::GET && !path.contains("/leases"));
        let orders = ordered.lock().unwrap().clone();
        changes.chain(orders).map(|(method, path)| format!("{method} {path}")).collect()
    }

    /// How often it has looked at a lease.
    fn looks(&self, lease: &str) -> usize {
        let looked = |(method, path): &&(Method, String)| {
            *method == Method::GET && path.ends_with(&format!("/leases/{lease}"))
        };
        self.calls[0].lock().unwrap().iter().filter(looked).count()
    }
}

async fn holder(client: &Client, namespace: &str, lease: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    leases.get_opt(lease).await.unwrap()?.spec?.holder_identity
}

/// Until somebody waits for a lease that another one has.
async fn until_waiting(stage: &mut Stage, seat: &Seat, lease: &str) {
    let before = seat.looks(lease);
    stage.run_until("the other one waits", async |_| seat.looks(lease) >= before + LOOKS).await;
}

/// Both are there; the first one works, is killed in the middle of drains, and the second one goes on.
async fn only_one_works(first: Who, second: Who, letter: char) {
    const NAME: &str = "machine-controller";
    let mut play = Play::set_up(letter, 3 * FEW).await;
    let directory = play.stage.directory.clone();
    let namespace = play.stage.namespace.clone();
    let names = play.names.clone();
    let [early, late, last] = [0, 1, 2].map(|part| &names[part * FEW..(part + 1) * FEW]);
    let one = Seat::take(&play.stage, &directory, "one").await;
    let other = Seat::take(&play.stage, &directory, "other").await;

    let working = play.start_at(first, &one.kubeconfig, &one.cloud.url());
    play.create(early).await;
    play.until_running(FEW).await;
    let leads = holder(&play.stage.admin, &namespace, NAME).await;
    let mut waiting = play.start_at(second, &other.kubeconfig, &other.cloud.url());
    until_waiting(&mut play.stage, &other, NAME).await;
    play.create(late).await;
    play.until_running(2 * FEW).await;
    play.delete(early).await;
    play.until_running(FEW).await;
    until_waiting(&mut play.stage, &other, NAME).await;
    waiting.check().unwrap();
    assert_eq!(other.done(), [""; 0], "who does not hold the lease does nothing");
    assert_eq!(holder(&play.stage.admin, &namespace, NAME).await, leads);

    play.hold(late).await;
    play.delete(late).await;
    play.leaving(FEW).await;
    play.create(last).await;
    assert_eq!(other.done(), [""; 0], "who does not hold the lease does nothing");
    working.stop().await;
    play.let_go(late).await;
    play.until_only(last).await;
    play.until_running(FEW).await;
    assert_ne!(holder(&play.stage.admin, &namespace, NAME).await, leads);
    assert!(!other.done().is_empty());
    play.delete(last).await;
    play.stage.nothing_is_left().await;
    waiting.check().unwrap();
    play.end(waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostler_waits_beside_the_go_controller_and_goes_on_when_it_is_killed() {
    only_one_works(Who::Go, Who::Hostler, 'i').await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_controller_waits_beside_hostler_and_goes_on_when_it_is_killed() {
    only_one_works(Who::Hostler, Who::Go, 'o').await;
}

/// Who looks after MachineSets and MachineDeployments.
#[derive(Clone, Copy)]
enum Manager {
    Gardeners,
    Hostlers,
}

impl Manager {
    /// Whoever stops it kills it. The machine controller is another process.
    fn start(self, stage: &Stage, seat: &Seat) -> Process {
        let program = match self {
            Self::Gardeners => gardener::manager(&store(), &seat.kubeconfig, &stage.namespace).unwrap().0,
            Self::Hostlers => Program::new("hostler-sets", hostler())
                .arg("machine-controller")
                .arg("--with-machine-sets")
                .flag("control-kubeconfig", &seat.kubeconfig)
                .flag("target-kubeconfig", &seat.kubeconfig)
                .flag("namespace", &stage.namespace)
                .flag("address", "127.0.0.1")
                .flag("port", free_port().unwrap().to_string())
                .env("STACKIT_IAAS_ENDPOINT", seat.cloud.url())
                .env("STACKIT_NO_AUTH", "true")
                .env("NO_PROXY", "127.0.0.1"),
        };
        let program = LEASE.iter().fold(program, |program, flag| program.arg(*flag)).without_grace();
        program.start(&supervisor(), stage.directory.path()).unwrap()
    }
}

/// The sets of the deployment: name, revision, hash, and how many machines each is to have.
async fn sets(stage: &Stage) -> BTreeSet<(String, String, String, i32)> {
    let sets: Api<MachineSet> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let listed = sets.list(&ListParams::default()).await.unwrap().items.into_iter();
    let told = listed.map(|set| {
        let revision = set.annotations().get("deployment.kubernetes.io/revision").cloned();
        let hash = set.labels().get("machine-template-hash").cloned();
        (set.name_any(), revision.unwrap_or_default(), hash.unwrap_or_default(), set.spec.replicas)
    });
    told.collect()
}

/// A pod on every node that does not end until it is let go; gives their names.
async fn hold_all(stage: &Stage, round: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let mut held = Vec::new();
    for machine in stage.machines().list(&ListParams::default()).await.unwrap().items {
        let (node, name) = (machine.labels()["node"].clone(), format!("{}-{round}", machine.name_any()));
        let pod = json!({"metadata": {"name": name, "finalizers": [HELD]}, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "held", "image": "held"}]}});
        create(pods.clone(), pod).await;
        held.push(name);
    }
    held
}

async fn let_go(stage: &Stage, held: &[String]) {
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for name in held {
        pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// Both managers are there; one begins a roll and is killed when a drain holds it up; the other one ends it with the
/// sets that are there.
async fn a_roll_changes_hands(
    stage: &mut Stage,
    deployments: &Api<DynamicObject>,
    label: &str,
    [working, waiting]: [(&Seat, Process); 2],
) -> Process {
    let name = stage.namespace.clone();
    let machines: Api<Machine> = stage.machines();
    until_waiting(stage, waiting.0, gardener_lease()).await;
    let leads = holder(&stage.admin, &name, gardener_lease()).await;
    let before = sets(stage).await;
    let held = hold_all(stage, label).await;
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {label: "yes"}}}}}));
    deployments.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    stage
        .run_until("the roll has begun, and one machine is to go", async |_| {
            let listed =
                machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            let going = listed.iter().any(|machine| machine.metadata.deletion_timestamp.is_some());
            going && listed.iter().any(|machine| machine.labels().contains_key(label))
        })
        .await;
    assert_eq!(waiting.0.done(), [""; 0], "who does not hold the lease does nothing");
    assert_eq!(holder(&stage.admin, &name, gardener_lease()).await, leads);
    let begun = sets(stage).await;
    assert_eq!(begun.len(), before.len() + 1, "{begun:?}");
    assert!(!all_are_new(&machines, label, FEW).await);
    working.1.stop().await;
    stage
        .run_until("the other one leads", async |admin| holder(admin, &name, gardener_lease()).await != leads)
        .await;
    let_go(stage, &held).await;
    stage.run_until("all are exchanged", async |_| all_are_new(&machines, label, FEW).await).await;
    stage
        .run_until("the new ones are available", async |_| {
            available(deployments, &name).await == 3 && Stage::running(&machines).await == FEW
        })
        .await;
    let ended = sets(stage).await;
    let who = |all: &BTreeSet<(String, String, String, i32)>| -> BTreeSet<_> {
        all.iter().map(|(name, revision, hash, _)| (name.clone(), revision.clone(), hash.clone())).collect()
    };
    assert_eq!(who(&ended), who(&begun), "it is the same roll");
    let of_the_last: Vec<i32> = ended
        .iter()
        .filter(|(_, revision, _, _)| *revision == ended.len().to_string())
        .map(|(.., replicas)| *replicas)
        .collect();
    assert_eq!(of_the_last, [3], "{ended:?}");
    assert_eq!(stage.servers().len(), FEW, "{}", stage.story());
    assert!(!waiting.0.done().is_empty());
    waiting.1
}

fn gardener_lease() -> &'static str {
    hostler_gardener::sets::LEASE
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_of_gardeners_manager_is_ended_by_hostler_and_back() {
    let mut stage = Stage::around_the_real_one("rolls", Plan::seeded(1)).await;
    let directory = stage.directory.clone();
    stage.start_controller(&LEASE);
    stage.create_class_and_secret().await;
    let name = stage.namespace.clone();
    let deployments = deployments(&stage.admin, &name);
    let mut wanted = deployment(&stage);
    wanted.data["spec"]["replicas"] = json!(FEW);
    deployments.create(&PostParams::default(), &wanted).await.unwrap();
    let mut seats = Vec::new();
    for number in 0..3 {
        seats.push(Seat::take(&stage, &directory, &format!("manager-{number}")).await);
    }
    let gardeners = Manager::Gardeners.start(&stage, &seats[0]);
    stage.run_until("all are available", async |_| available(&deployments, &name).await == 3).await;
    let hostlers = Manager::Hostlers.start(&stage, &seats[1]);
    let pair = [(&seats[0], gardeners), (&seats[1], hostlers)];
    let hostlers = a_roll_changes_hands(&mut stage, &deployments, "second", pair).await;
    let gardeners = Manager::Gardeners.start(&stage, &seats[2]);
    let pair = [(&seats[1], hostlers), (&seats[2], gardeners)];
    let mut gardeners = a_roll_changes_hands(&mut stage, &deployments, "third", pair).await;
    deployments.delete(&name, &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    assert_eq!(stage.violations(), [""; 0], "{}", stage.story());
    gardeners.check().unwrap();
    gardeners.stop().await;
    stage.world.stop().await;
}
