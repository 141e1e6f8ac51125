//! A control plane, a cloud, kubelets that do nothing but join, and one contender.

use crate::contender::{Contender, Usage};
use anyhow::{Context, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use hostler_base::{Chance, Clock};
use hostler_control_plane::{
    ControlPlane, Options, Process, Store,
    catalogue::{MACHINE_CONTROLLER_MANAGER, STACKIT_MACHINE_CONTROLLER},
    gardener, temporary_directory,
};
use hostler_gardener::api::{Machine, MachineClass, Phase};
use hostler_sim::stackit::{Settings, Stackit};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Secret},
    flowcontrol::v1::FlowSchema,
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
    runtime::watcher::{self, Event},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{interval, sleep, timeout},
};

pub const BOOT_TIME: Duration = Duration::from_secs(2);
pub const DELETE_TIME: Duration = Duration::from_secs(1);
pub const JITTER: Duration = Duration::from_millis(500);
/// The same for everybody, so that boot and delete times are.
const SEED: u64 = 1;
const NAMESPACE: &str = "shoot--bench";
const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
const REGION: &str = "eu01";
/// The contender's user, and the name by which kube-apiserver counts its calls.
const USER: &str = "controller";
const AT_ONCE: usize = 16;
const LOOK: Duration = Duration::from_millis(100);
/// How long a new definition may take until it is served.
const NEW: Duration = Duration::from_secs(20);
/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// How long it took until Machines ran: from the first call until the last one did, and each of them.
pub struct Made {
    pub whole: Duration,
    pub each: Vec<Duration>,
}

/// What has become of the Machines.
#[derive(Default)]
struct Seen {
    there: BTreeSet<String>,
    running: BTreeMap<String, Instant>,
}

pub struct Stage {
    pub admin: Client,
    plane: ControlPlane,
    directory: PathBuf,
    cloud: Stackit,
    controller: Process,
    seen: watch::Receiver<Seen>,
    /// The cloud, the kubelets and the watch; they end with this.
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Stage {
    pub async fn start(
        contender: Contender,
        hostler: &Path,
        allowed_addresses: bool,
    ) -> anyhow::Result<Self> {
        let store = Store::of_user()?;
        let directory = temporary_directory()?;
        let mut options = Options::new(store.clone(), directory.clone());
        options.supervisor = Some(PathBuf::from(env!("CARGO_BIN_EXE_hostler-control-plane")));
        options.parts.clear();
        options.users.push((USER.to_owned(), None));
        let mut needed = options.binaries();
        // The manager does not run; its definitions are used.
        needed.extend([&MACHINE_CONTROLLER_MANAGER, &STACKIT_MACHINE_CONTROLLER]);
        store.build(&needed, &mut |line| println!("{line}"))?;
        let plane = ControlPlane::start(options).await?;
        let admin = plane.client().await?;
        gardener::install(&store, &admin).await?;
        count_calls(&plane, &admin).await?;
        furnish(&admin, allowed_addresses).await?;

        let mut tasks = JoinSet::new();
        let settings = Settings {
            boot_time: BOOT_TIME,
            delete_time: DELETE_TIME,
            jitter: JITTER,
            ..Settings::default()
        };
        let cloud = Stackit::new(settings, Clock::system(), Chance::from_seed(SEED));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let serving = cloud.clone();
        tasks.spawn(async move {
            serving.serve(listener).await;
            Ok(())
        });
        tasks.spawn(join(cloud.clone(), admin.clone()));
        let (sender, seen) = watch::channel(Seen::default());
        tasks.spawn(look(machines(&admin), sender));
        let program = contender.program(hostler, &store, &plane.kubeconfig(USER), NAMESPACE, &address)?;
        let controller = program.start(plane.supervisor(), plane.directory())?;
        let mut stage = Self { admin, plane, directory, cloud, controller, seen, tasks };
        stage.wait_for_leader().await?;
        Ok(stage)
    }

    /// Makes Machines and waits until they run.
    pub async fn make(&mut self, names: &[String]) -> anyhow::Result<Made> {
        let api = machines(&self.admin);
        let start = Instant::now();
        let calls = names.iter().map(|name| {
            let api = api.clone();
            async move {
                let start = Instant::now();
                let spec = json!({"class": {"kind": "MachineClass", "name": "small"}});
                create(&api, json!({"metadata": {"name": name}, "spec": spec})).await?;
                anyhow::Ok((name, start))
            }
        });
        let started: Vec<(&String, Instant)> =
            stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await?;
        self.until("all Machines run", |seen| names.iter().all(|name| seen.running.contains_key(name)))
            .await?;
        let whole = start.elapsed();
        let seen = self.seen.borrow();
        let took = |(name, start): (&String, Instant)| Some(seen.running.get(name)?.duration_since(start));
        Ok(Made { whole, each: started.into_iter().filter_map(took).collect() })
    }

    /// Deletes Machines and tells how long it takes until all are gone.
    pub async fn delete(&mut self, names: &[String]) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.ask_to_go(names).await?;
        self.until("all Machines are gone", |seen| !names.iter().any(|name| seen.there.contains(name)))
            .await?;
        Ok(start.elapsed())
    }

    pub async fn ask_to_go(&self, names: &[String]) -> anyhow::Result<()> {
        let api = machines(&self.admin);
        let calls = names.iter().map(|name| async {
            api.delete(name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        });
        stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await
    }

    pub async fn nothing_is_left(&self) -> anyhow::Result<()> {
        let servers = self.cloud.servers();
        ensure!(servers.is_empty(), "servers were left: {servers:?}");
        let nodes = Api::<Node>::all(self.admin.clone()).list(&ListParams::default()).await?;
        let names: Vec<Option<String>> = nodes.items.into_iter().map(|node| node.metadata.name).collect();
        ensure!(names.is_empty(), "nodes were left: {names:?}");
        Ok(())
    }

    /// How often each operation of the cloud was called.
    pub fn cloud_calls(&self) -> BTreeMap<&'static str, u64> {
        self.cloud.calls()
    }

    /// How many calls of the contender the API server has let in.
    pub async fn api_calls(&self) -> anyhow::Result<u64> {
        dispatched(&self.admin).await
    }

    /// How often the API server was asked what, by the contender and by this program together.
    pub async fn asked(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let text = self.admin.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let mut asked = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\""))?;
                rest.split_once('"').map(|(value, _)| value)
            };
            let (Some(verb), Some(resource), Some(subresource)) =
                (label("verb"), label("resource"), label(",subresource"))
            else {
                continue;
            };
            let count: u64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default();
            let slash = if subresource.is_empty() { "" } else { "/" };
            *asked.entry(format!("{verb} {resource}{slash}{subresource}")).or_default() += count;
        }
        Ok(asked)
    }

    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.controller.id().context("the controller has ended")?)
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.tasks.shutdown().await;
        self.controller.stop().await;
        self.plane.stop().await;
        std::fs::remove_dir_all(self.directory)?;
        Ok(())
    }

    /// A contender that does not lead yet has not been started yet.
    async fn wait_for_leader(&mut self) -> anyhow::Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let start = Instant::now();
        loop {
            let lease = leases.get_opt("machine-controller").await?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity);
            if holder.is_some_and(|holder| !holder.is_empty()) {
                return Ok(());
            }
            self.controller.check()?;
            ensure!(start.elapsed() < PATIENCE, "nobody leads");
            sleep(LOOK).await;
        }
    }

    async fn until(&mut self, what: &str, enough: impl Fn(&Seen) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let waited = timeout(Duration::from_secs(5), self.seen.wait_for(&enough)).await;
            match waited.map(|found| found.is_ok()) {
                Ok(true) => return Ok(()),
                Ok(false) => bail!("the watch of Machines has ended"),
                Err(_) => {}
            }
            self.controller.check()?;
            self.plane.check()?;
            let seen = self.seen.borrow();
            let (there, running) = (seen.there.len(), seen.running.len());
            ensure!(start.elapsed() < PATIENCE, "not in time: {what}; {there} are there, {running} run");
        }
    }
}

/// A name as MachineSets give it: the ids of bootstrap tokens are made from its last characters, so that numbers in
/// their place would be a trial that nobody has to stand.
pub fn name(prefix: &str, number: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const LENGTH: u32 = 5;
    // Every number has letters of its own: the factor and the number of words have no divisor in common.
    let mut rest = number.wrapping_mul(7_919_999).wrapping_add(1_234_567) % LETTERS.len().pow(LENGTH);
    let letters = (0..LENGTH).map(|_| {
        let letter = LETTERS[rest % LETTERS.len()];
        rest /= LETTERS.len();
        char::from(letter)
    });
    format!("{prefix}-{}", letters.collect::<String>())
}

fn machines(admin: &Client) -> Api<Machine> {
    Api::namespaced(admin.clone(), NAMESPACE)
}

pub async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    let object: K = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// The namespace, the Secret and the class.
async fn furnish(admin: &Client, allowed_addresses: bool) -> anyhow::Result<()> {
    create(&Api::<Namespace>::all(admin.clone()), json!({"metadata": {"name": NAMESPACE}})).await?;
    let secret = json!({"metadata": {"name": "small"}, "stringData": {
        "project-id": PROJECT, "serviceaccount.json": "{}",
        "userData": "#cloud-config\nruncmd:\n- join --token <<BOOTSTRAP_TOKEN>>\n"}});
    create(&Api::<Secret>::namespaced(admin.clone(), NAMESPACE), secret).await?;
    let addresses: &[&str] = if allowed_addresses { &["100.64.0.0/13"] } else { &[] };
    let class = json!({"metadata": {"name": "small"}, "provider": "stackit",
        "secretRef": {"name": "small", "namespace": NAMESPACE},
        "providerSpec": {"region": REGION, "machineType": "c2i.2",
            "networking": {"networkId": PROJECT}, "allowedAddresses": addresses,
            "bootVolume": {"size": 50, "performanceClass": "storage_premium_perf1",
                "source": {"type": "image", "id": PROJECT}},
            "labels": {"kubernetes.io/cluster": NAMESPACE}}});
    create(&Api::<MachineClass>::namespaced(admin.clone(), NAMESPACE), class).await
}

/// Gives the contender its rights, and lets the API server count its calls, which are never held back.
async fn count_calls(plane: &ControlPlane, admin: &Client) -> anyhow::Result<()> {
    let subject = json!({"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let binding = json!({"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]});
    create(&Api::<ClusterRoleBinding>::all(admin.clone()), binding).await?;
    let schema = json!({"metadata": {"name": USER}, "spec": {
    "matchingPrecedence": 10, "priorityLevelConfiguration": {"name": "exempt"},
    "rules": [{
        "subjects": [{"kind": "User", "user": {"name": USER}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
            "clusterScope": true}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }]}});
    create(&Api::<FlowSchema>::all(admin.clone()), schema).await?;
    let user = Client::try_from(plane.config(USER).await?)?;
    let start = Instant::now();
    while dispatched(admin).await? == 0 {
        ensure!(start.elapsed() < PATIENCE, "the API server does not count the calls of one user");
        // Right and count need a moment to be known.
        let _ = Api::<Namespace>::all(user.clone()).get("default").await;
        sleep(LOOK).await;
    }
    Ok(())
}

async fn dispatched(admin: &Client) -> anyhow::Result<u64> {
    let text = admin.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let schema = format!("flow_schema=\"{USER}\"");
    let counted = text.lines().filter(|line| {
        line.starts_with("apiserver_flowcontrol_dispatched_requests_total{") && line.contains(&schema)
    });
    let numbers = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(numbers.sum())
}

/// What kubelets do here: the node of a running server is there and Ready.
async fn join(cloud: Stackit, admin: Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(admin);
    let mut joined: BTreeSet<String> = BTreeSet::new();
    let mut ticks = interval(LOOK);
    loop {
        ticks.tick().await;
        let active: BTreeMap<String, String> = cloud
            .servers()
            .into_iter()
            .filter(|server| server.status == "ACTIVE")
            .map(|server| (server.id, server.name))
            .collect();
        joined.retain(|id| active.contains_key(id));
        let new = active.iter().filter(|(id, _)| !joined.contains(*id));
        let calls = new.map(|(id, name)| {
            let nodes = nodes.clone();
            async move {
                let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "spec": {"providerID": format!("stackit://{id}")},
                    "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
                create(&nodes, node).await?;
                anyhow::Ok(id.clone())
            }
        });
        let new: Vec<String> =
            stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect().await?;
        joined.extend(new);
    }
}

async fn look(machines: Api<Machine>, seen: watch::Sender<Seen>) -> anyhow::Result<()> {
    let mut events = Box::pin(watcher::watcher(machines, watcher::Config::default()));
    let start = Instant::now();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            // A definition that is new is not served at once; the watch begins again by itself.
            Err(_) if start.elapsed() < NEW => {
                sleep(LOOK).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        seen.send_modify(|seen| match event {
            Event::Apply(machine) | Event::InitApply(machine) => {
                let Some(name) = machine.metadata.name else { return };
                if machine.status.is_some_and(|status| status.current_status.phase == Phase::Running) {
                    seen.running.entry(name.clone()).or_insert(now);
                }
                seen.there.insert(name);
            }
            Event::Delete(machine) => {
                let Some(name) = machine.metadata.name else { return };
                seen.there.remove(&name);
                seen.running.remove(&name);
            }
            Event::Init => *seen = Seen::default(),
            Event::InitDone => {}
        });
    }
    Ok(())
}
