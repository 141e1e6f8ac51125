//! The Go machine controller and Hostler take over from each other, killed in the middle of everything.

use crate::stage::{PATIENCE, PROJECT, Stage, create, given_kubeconfig, hostler, store, supervisor};
use hostler_control_plane::{Process, Program, catalogue::STACKIT_MACHINE_CONTROLLER, free_port};
use hostler_gardener::api::{Machine, MachineClass};
use hostler_sim::{
    Plan,
    stackit::{ServerView, Stackit},
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};

const MACHINES: usize = 20;
/// The servers are looked at so often, their Machines once in so many times.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const OWNERS_EVERY: usize = 10;
/// Not the one that somebody else's server is labelled with: the Go controller takes that for its own whatever
/// cluster it says it is of.
const CLASS: &str = "taken-over";
/// Keeps a pod from ending, so that drains take as long as the test wants.
const HELD: &str = "test.hostler.dev/held";
/// No server joins without its token.
const USER_DATA: &str = "#cloud-config
runcmd:
- kubeadm join --token <<BOOTSTRAP_TOKEN>> --discovery-token-unsafe-skip-ca-verification api.example.org:443
";

#[derive(Clone, Copy)]
pub enum Who {
    Go,
    Hostler,
}

/// What must never be seen in the cloud, whoever works.
#[derive(Default)]
pub struct Watched {
    /// Machines that nobody wants to go, and the server that each got.
    kept: BTreeMap<String, Option<String>>,
    wrong: BTreeSet<String>,
}

impl Watched {
    fn look(&mut self, servers: &[ServerView], foreign: &str, names: &[String]) {
        if !servers.iter().any(|server| server.id == foreign && stays(server)) {
            self.wrong.insert("somebody else's server is going".to_owned());
        }
        for name in names {
            let ids: Vec<&String> = servers
                .iter()
                .filter(|server| server.name == *name && stays(server))
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

    /// The servers were there before the Machines were listed, and those of `now` still are: a Machine goes after its
    /// server, so there is none without one.
    fn look_for_owners(
        &mut self,
        servers: &[ServerView],
        foreign: &str,
        machines: &BTreeSet<String>,
        now: &[ServerView],
    ) {
        for server in servers.iter().filter(|server| server.id != foreign && stays(server)) {
            let is_left = now.iter().any(|left| left.id == server.id && stays(left));
            if is_left && !machines.contains(&server.name) {
                self.wrong.insert(format!("{} has a server and no Machine", server.name));
            }
        }
    }
}

fn stays(server: &ServerView) -> bool {
    server.status != "DELETING"
}

/// Looks on for ever.
async fn watch(
    cloud: Stackit,
    foreign: String,
    machines: Api<Machine>,
    names: Vec<String>,
    into: Arc<Mutex<Watched>>,
) {
    for round in 0_usize.. {
        let servers = cloud.servers();
        into.lock().unwrap().look(&servers, &foreign, &names);
        if round.is_multiple_of(OWNERS_EVERY)
            && let Ok(listed) = machines.list(&ListParams::default()).await
        {
            let listed = listed.items.iter().map(ResourceExt::name_any).collect();
            into.lock().unwrap().look_for_owners(&servers, &foreign, &listed, &cloud.servers());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub struct Play {
    pub stage: Stage,
    address: String,
    pub names: Vec<String>,
    watched: Arc<Mutex<Watched>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Play {
    /// So many machines whose names have this letter. The id of a token has only three characters of a name, and the
    /// Go controller takes another machine's token for its own: no other test's machines may have the letter there.
    pub async fn set_up(letter: char, machines: usize) -> Self {
        let stage = Stage::around_the_real_one("take-over", Plan::seeded(1)).await;
        stage.cloud.set(|settings| settings.joins_without_token = false);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        // Nodes are named as machines are, and share one cluster with those of other tests.
        let names: Vec<String> =
            (0..machines).map(|number| format!("{}-{letter}{number:02}go", stage.namespace)).collect();
        let kept = names.iter().map(|name| (name.clone(), None)).collect();
        let watched = Arc::new(Mutex::new(Watched { kept, ..Watched::default() }));
        let looking = tokio::spawn(watch(
            stage.cloud.clone(),
            stage.foreign().to_owned(),
            stage.machines(),
            names.clone(),
            watched.clone(),
        ));
        let serving = tokio::spawn(stage.cloud.clone().serve(listener));
        let secret = json!({"metadata": {"name": "credentials"}, "stringData": {
            "project-id": PROJECT, "serviceaccount.json": "{}", "userData": USER_DATA}});
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
    pub fn start(&self, who: Who) -> Process {
        self.start_at(who, &given_kubeconfig(), &self.address)
    }

    /// The same with its own ways to the API server and to the cloud.
    pub fn start_at(&self, who: Who, kubeconfig: &Path, cloud: &str) -> Process {
        let program = match who {
            Who::Go => Program::new("go", store().path(&STACKIT_MACHINE_CONTROLLER)),
            Who::Hostler => Program::new("hostler", hostler()).arg("machine-controller"),
        };
        let program = program
            .flag("control-kubeconfig", kubeconfig)
            .flag("target-kubeconfig", kubeconfig)
            .flag("namespace", &self.stage.namespace)
            .flag("address", "127.0.0.1")
            .flag("port", free_port().unwrap().to_string())
            .flag("kube-api-qps", "100")
            .flag("kube-api-burst", "200")
            // A short lease, so that a killed leader is not waited for long.
            .flag("leader-elect-lease-duration", "3s")
            .flag("leader-elect-renew-deadline", "2s")
            .flag("leader-elect-retry-period", "300ms")
            .env("STACKIT_IAAS_ENDPOINT", cloud)
            .env("STACKIT_NO_AUTH", "true")
            .env("NO_PROXY", "127.0.0.1")
            .without_grace();
        program.start(&supervisor(), self.stage.directory.path()).unwrap()
    }

    /// The Machines that have a server which is not going.
    fn served(&self) -> BTreeSet<String> {
        self.stage.servers().into_iter().filter(stays).map(|server| server.name).collect()
    }

    /// Looks often: who is to be killed in the middle is soon through.
    async fn until(&self, what: &str, enough: impl Fn(usize) -> bool) {
        let reached = async {
            while !enough(self.served().len()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "not reached: {what}\n{}", self.stage.story());
    }

    /// Whether servers that boot from now on become nodes. Those that wait do so as soon as they may.
    fn let_join(&self, may: bool) {
        let cluster = self.stage.namespace.clone();
        self.stage.cloud.set(|settings| {
            settings.other_clusters = if may { BTreeSet::new() } else { BTreeSet::from([cluster]) };
        });
    }

    /// The Secrets with the tokens of these machines, by machine.
    async fn tokens(&self, names: &BTreeSet<String>) -> BTreeMap<String, Option<String>> {
        let secrets = Api::<Secret>::namespaced(self.stage.admin.clone(), "kube-system");
        let listed = secrets.list(&ListParams::default()).await.unwrap().items.into_iter();
        let of = |secret: &Secret| {
            let description = secret.data.as_ref()?.get("description")?;
            let description = String::from_utf8(description.0.clone()).ok()?;
            names.iter().find(|name| description.contains(&format!("{name:?}"))).cloned()
        };
        listed.filter_map(|secret| Some((of(&secret)?, secret.metadata.uid))).collect()
    }

    /// Makes Machines of these names.
    pub async fn create(&self, names: &[String]) {
        for name in names {
            let spec = json!({"class": {"kind": "MachineClass", "name": CLASS}});
            create(self.stage.machines(), json!({"metadata": {"name": name}, "spec": spec})).await;
        }
    }

    pub async fn until_running(&mut self, count: usize) {
        let machines = self.stage.machines();
        let what = format!("{count} machines run");
        self.stage.run_until(&what, async |_| Stage::running(&machines).await == count).await;
    }

    /// There are no other Machines any more.
    pub async fn until_only(&mut self, names: &[String]) {
        let machines = self.stage.machines();
        self.stage
            .run_until("the others are gone", async |_| {
                let listed = machines.list(&ListParams::default()).await.map(|list| list.items);
                listed.is_ok_and(|left| left.iter().all(|machine| names.contains(&machine.name_any())))
            })
            .await;
    }

    /// These may go from now on.
    pub async fn delete(&self, names: &[String]) {
        for name in names {
            self.watched.lock().unwrap().kept.remove(name);
        }
        let machines: Api<Machine> = self.stage.machines();
        for name in names {
            machines.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }

    pub fn assert_well(&self) {
        let wrong: Vec<String> = self.watched.lock().unwrap().wrong.iter().cloned().collect();
        assert_eq!(wrong, [""; 0], "{}", self.stage.story());
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stage.admin.clone(), &self.stage.namespace)
    }

    /// A pod on each of these nodes that does not end until it is let go.
    pub async fn hold(&self, nodes: &[String]) {
        for node in nodes {
            let pod = json!({"metadata": {"name": node, "finalizers": [HELD]}, "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "held", "image": "held"}]}});
            create(self.pods(), pod).await;
        }
    }

    pub async fn leaving(&mut self, count: usize) {
        let pods = self.pods();
        self.stage
            .run_until("drains have begun", async |_| {
                let listed =
                    pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
                listed.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count() >= count
            })
            .await;
    }

    pub async fn let_go(&self, nodes: &[String]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for node in nodes {
            // It may have been gone before.
            let _ = self.pods().patch(node, &PatchParams::default(), &patch).await;
        }
    }

    /// Only what belongs to these is left in the cloud, and no token.
    async fn assert_only_left(&self, names: &[String]) {
        let story = || self.stage.story();
        let left: BTreeSet<String> = self.stage.servers().into_iter().map(|server| server.name).collect();
        assert_eq!(left, names.iter().cloned().collect(), "{}", story());
        assert_eq!(self.stage.volumes().len(), names.len(), "volumes\n{}", story());
        assert_eq!(self.stage.nics().len(), names.len(), "NICs\n{}", story());
        assert_eq!(self.stage.bootstrap_tokens().await, [""; 0], "tokens\n{}", story());
    }

    /// All is well at the end.
    pub async fn end(self, working: Process) {
        self.assert_well();
        working.stop().await;
        for task in self.tasks {
            task.abort();
        }
        self.stage.world.stop().await;
    }
}

/// Both ways: who begins is killed in the middle of creates, drains and deletes, and the other one goes on.
async fn each_takes_over(first: Who, second: Who, letter: char) {
    let mut play = Play::set_up(letter, MACHINES).await;
    let names = play.names.clone();
    let (going, staying) = names.split_at(MACHINES / 2);

    // Nobody joins until the other one works: with the tokens of the first, which only it has seen.
    play.let_join(false);
    let working = play.start(first);
    play.create(&names).await;
    play.until("some are ordered", |servers| servers >= MACHINES / 4).await;
    working.stop().await;
    let begun = play.served();
    let given = play.tokens(&begun).await;
    assert_eq!(given.keys().collect::<Vec<_>>(), begun.iter().collect::<Vec<_>>(), "each has its token");
    println!("killed at {} of {MACHINES} orders, the other one ends them", begun.len());
    let working = play.start(second);
    play.until("all are ordered", |servers| servers == MACHINES).await;
    assert_eq!(play.tokens(&begun).await, given, "what is in a server's user data stays good");
    play.let_join(true);
    play.until_running(MACHINES).await;
    play.assert_only_left(&names).await;
    play.assert_well();

    play.hold(going).await;
    play.delete(going).await;
    play.leaving(going.len() / 2).await;
    working.stop().await;
    let working = play.start(first);
    play.leaving(going.len()).await;
    assert_eq!(play.served().len(), MACHINES, "nothing goes before its node is drained");
    play.let_go(going).await;
    play.until("some are deleted", |servers| servers < MACHINES).await;
    working.stop().await;
    let working = play.start(second);
    play.until_only(staying).await;
    play.assert_only_left(staying).await;
    play.assert_well();

    play.delete(staying).await;
    play.stage.nothing_is_left().await;
    play.end(working).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostler_goes_on_where_the_go_controller_was_killed_and_back() {
    each_takes_over(Who::Go, Who::Hostler, 'y').await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_controller_goes_on_where_hostler_was_killed_and_back() {
    each_takes_over(Who::Hostler, Who::Go, 'u').await;
}
