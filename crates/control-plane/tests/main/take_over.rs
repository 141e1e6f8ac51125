//! The Go machine controller and Hostler take over from each other, killed in the middle of everything.

use crate::stage::{PROJECT, Stage, create, given_kubeconfig, hostler, store, supervisor};
use hostler_control_plane::{Process, Program, catalogue::STACKIT_MACHINE_CONTROLLER, free_port};
use hostler_gardener::api::{Machine, MachineClass};
use hostler_sim::{Plan, stackit::Stackit};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};

const MACHINES: usize = 20;
/// Not the one that somebody else's server is labelled with: the Go controller takes that for its own whatever
/// cluster it says it is of.
const CLASS: &str = "taken-over";
/// Keeps a pod from ending, so that drains take as long as the test wants.
const HELD: &str = "test.hostler.dev/held";

#[derive(Clone, Copy)]
enum Who {
    Go,
    Hostler,
}

/// What must never be seen in the cloud, whoever works.
#[derive(Default)]
struct Watched {
    /// Machines that nobody wants to go, and the server that each got.
    kept: BTreeMap<String, Option<String>>,
    wrong: BTreeSet<String>,
}

impl Watched {
    fn look(&mut self, cloud: &Stackit, names: &[String]) {
        let servers = cloud.servers();
        for name in names {
            let ids: Vec<&String> = servers
                .iter()
                .filter(|server| server.name == *name && server.status != "DELETING")
                .map(|server| &server.id)
                .collect();
            if ids.len() > 1 {
                self.wrong.insert(format!("{name} has {} servers", ids.len()));
            }
            if let Some(kept) = self.kept.get_mut(name) {
                match (&kept, ids.first()) {
                    (Some(had), now) if now != Some(&had) => {
                        self.wrong.insert(format!("{name} had the server {had} and has {now:?}"));
                    }
                    (None, Some(&now)) => *kept = Some(now.clone()),
                    _ => {}
                }
            }
        }
    }
}

struct Play {
    stage: Stage,
    address: String,
    names: Vec<String>,
    watched: Arc<Mutex<Watched>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Play {
    async fn set_up() -> Self {
        let stage = Stage::around_the_real_one("take-over", Plan::seeded(1)).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        // Nodes are named as machines are, and share one cluster with those of other tests.
        let names: Vec<String> =
            (0..MACHINES).map(|number| format!("{}-{number}", stage.namespace)).collect();
        let kept = names.iter().map(|name| (name.clone(), None)).collect();
        let watched = Arc::new(Mutex::new(Watched { kept, ..Watched::default() }));
        let (cloud, looked, all) = (stage.cloud.clone(), watched.clone(), names.clone());
        let looking = tokio::spawn(async move {
            loop {
                looked.lock().unwrap().look(&cloud, &all);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let serving = tokio::spawn(stage.cloud.clone().serve(listener));
        let secret = json!({"metadata": {"name": "credentials"}, "stringData": {
            "project-id": PROJECT, "serviceaccount.json": "{}", "userData": "#cloud-config\n"}});
        create(Api::<Secret>::namespaced(stage.admin.clone(), &stage.namespace), secret).await;
        let class = json!({"metadata": {"name": CLASS}, "provider": "stackit",
            "secretRef": {"name": "credentials", "namespace": stage.namespace},
            "providerSpec": {"region": "eu01", "machineType": "c2i.2",
                // Without a word about it the Go controller leaves boot volumes behind.
                "bootVolume": {"size": 50, "deleteOnTermination": true, "source": {"type": "image", "id": PROJECT}},
                "networking": {"networkId": PROJECT}, "labels": {"kubernetes.io/cluster": stage.namespace}}});
        create(Api::<MachineClass>::namespaced(stage.admin.clone(), &stage.namespace), class).await;
        Self { stage, address, names, watched, tasks: vec![looking, serving] }
    }

    /// Starts one of them; whoever stops it kills it.
    fn start(&self, who: Who) -> Process {
        let program = match who {
            Who::Go => Program::new("go", store().path(&STACKIT_MACHINE_CONTROLLER)),
            Who::Hostler => Program::new("hostler", hostler()).arg("machine-controller"),
        };
        let program = program
            .flag("control-kubeconfig", given_kubeconfig())
            .flag("target-kubeconfig", given_kubeconfig())
            .flag("namespace", &self.stage.namespace)
            .flag("address", "127.0.0.1")
            .flag("port", free_port().unwrap().to_string())
            .flag("kube-api-qps", "100")
            .flag("kube-api-burst", "200")
            // A short lease, so that a killed leader is not waited for long.
            .flag("leader-elect-lease-duration", "3s")
            .flag("leader-elect-renew-deadline", "2s")
            .flag("leader-elect-retry-period", "300ms")
            .env("STACKIT_IAAS_ENDPOINT", &self.address)
            .env("STACKIT_NO_AUTH", "true")
            .env("NO_PROXY", "127.0.0.1")
            .without_grace();
        program.start(&supervisor(), self.stage.directory.path()).unwrap()
    }

    /// So many of the Machines have a server that is not going.
    fn served(stage: &Stage) -> usize {
        stage.servers().iter().filter(|server| server.status != "DELETING").count()
    }

    async fn until(&mut self, what: &str, enough: impl Fn(usize) -> bool) {
        let cloud = self.stage.cloud.clone();
        let namespace = self.stage.namespace.clone();
        self.stage
            .run_until(what, async |_| {
                let servers = cloud.servers();
                let ours = servers.iter().filter(|server| server.name.starts_with(&namespace));
                enough(ours.filter(|server| server.status != "DELETING").count())
            })
            .await;
    }

    async fn until_running(&mut self, count: usize) {
        let machines = self.stage.machines();
        let what = format!("{count} machines run");
        self.stage.run_until(&what, async |_| Stage::running(&machines).await == count).await;
    }

    /// These may go from now on.
    async fn delete(&self, names: &[String]) {
        for name in names {
            self.watched.lock().unwrap().kept.remove(name);
        }
        let machines: Api<Machine> = self.stage.machines();
        for name in names {
            machines.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }

    fn assert_well(&self) {
        let wrong: Vec<String> = self.watched.lock().unwrap().wrong.iter().cloned().collect();
        assert_eq!(wrong, [""; 0], "{}", self.stage.story());
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stage.admin.clone(), &self.stage.namespace)
    }

    /// A pod on each of these nodes that does not end until it is let go.
    async fn hold(&self, nodes: &[String]) {
        for node in nodes {
            let pod = json!({"metadata": {"name": node, "finalizers": [HELD]}, "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "held", "image": "held"}]}});
            create(self.pods(), pod).await;
        }
    }

    async fn leaving(&mut self, count: usize) {
        let pods = self.pods();
        self.stage
            .run_until("drains have begun", async |_| {
                let listed =
                    pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
                listed.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count() >= count
            })
            .await;
    }

    async fn let_go(&self, nodes: &[String]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for node in nodes {
            // It may have been gone before.
            let _ = self.pods().patch(node, &PatchParams::default(), &patch).await;
        }
    }
}

/// Both ways: who begins is killed in the middle of creates, drains and deletes, and the other one goes on.
async fn each_takes_over(first: Who, second: Who) {
    let mut play = Play::set_up().await;
    let names = play.names.clone();
    let (going, staying) = names.split_at(MACHINES / 2);

    let working = play.start(first);
    let machines: Api<Machine> = play.stage.machines();
    for name in &names {
        let spec = json!({"class": {"kind": "MachineClass", "name": CLASS}});
        create(machines.clone(), json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    play.until("some are ordered", |servers| servers >= MACHINES / 4).await;
    working.stop().await;
    let working = play.start(second);
    play.until_running(MACHINES).await;
    assert_eq!(Play::served(&play.stage), MACHINES);
    play.assert_well();

    play.hold(going).await;
    play.delete(going).await;
    play.leaving(going.len() / 2).await;
    working.stop().await;
    let working = play.start(first);
    play.leaving(going.len()).await;
    assert_eq!(Play::served(&play.stage), MACHINES, "nothing goes before its node is drained");
    play.let_go(going).await;
    play.until("some are deleted", |servers| servers < MACHINES).await;
    working.stop().await;
    let working = play.start(second);
    let machines: Api<Machine> = play.stage.machines();
    play.stage
        .run_until("the others are gone", async |_| {
            machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.len() == staying.len())
        })
        .await;
    let left: BTreeSet<String> = play.stage.servers().into_iter().map(|server| server.name).collect();
    assert_eq!(left, staying.iter().cloned().collect());
    play.assert_well();

    play.delete(staying).await;
    play.stage.nothing_is_left().await;
    play.assert_well();
    working.stop().await;
    for task in play.tasks {
        task.abort();
    }
    play.stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostler_goes_on_where_the_go_controller_was_killed_and_back() {
    each_takes_over(Who::Go, Who::Hostler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_controller_goes_on_where_hostler_was_killed_and_back() {
    each_takes_over(Who::Hostler, Who::Go).await;
}
