//! What the tests have in common: the control plane that they were given, and a world around an API server with
//! the real `hostler` as its machine controller.

use futures::future::BoxFuture;
use hostler_base::{Chance, Clock, Transport};
use hostler_control_plane::{Process, Program, Store};
use hostler_gardener::api::{Machine, MachineClass};
use hostler_sim::{
    Context, HollowNodes, Paths, Plan, Proxy, World,
    stackit::{NicView, ServerView, Settings, Stackit, VolumeView},
};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    env,
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long anything may take before it counts as hanging; on a busy machine everything takes long.
pub const PATIENCE: Duration = Duration::from_secs(300);
pub const CONTROLLER: &str = "machine-controller";
/// The cluster with the Machines; here always the same as the one with the nodes.
const CONTROL: &str = "control";
/// That of the samples.
pub const PROJECT: &str = "7a1e2b4c-3d5f-4a6b-8c7d-9e0f1a2b3c4d";
const REGION: &str = "eu01";

/// The program that supervises processes.
pub fn supervisor() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_hostler-control-plane"))
}

pub fn store() -> Store {
    Store::of_user().unwrap()
}

/// The administrator's kubeconfig of the control plane that these tests were given.
pub fn given_kubeconfig() -> PathBuf {
    named("HOSTLER_REAL_KUBECONFIG")
}

/// The `hostler` that is tested.
pub fn hostler() -> PathBuf {
    named("HOSTLER_BINARY")
}

/// What `cargo xtask test real` has named in a variable.
pub fn named(variable: &str) -> PathBuf {
    let value = env::var_os(variable);
    PathBuf::from(value.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test real`")))
}

pub fn crypto() {
    // Another test of this process may have been first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

pub async fn config(kubeconfig: &Path) -> Config {
    crypto();
    let read = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    config
}

pub async fn transport(kubeconfig: &Path) -> Transport {
    hostler_controller::transport_to(config(kubeconfig).await).unwrap()
}

/// A directory that is removed with all that is in it.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        Self(hostler_control_plane::temporary_directory().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A world around an API server: a cloud, hollow nodes, and a namespace of its own.
pub struct Stage {
    pub world: World,
    pub cloud: Stackit,
    pub nodes: HollowNodes,
    pub admin: Client,
    pub namespace: String,
    pub directory: Arc<Directory>,
    /// A server of somebody else's in the same project.
    foreign: String,
    /// Names of servers that never had a Machine.
    orphans: Arc<Mutex<BTreeSet<String>>>,
}

impl Stage {
    /// Around the control plane that these tests were given, with Gardener's definitions.
    pub async fn around_the_real_one(name: &str, plan: Plan) -> Self {
        let kubernetes = transport(&given_kubeconfig()).await;
        let world = World::beside(kubernetes, Clock::system(), Chance::from_entropy(), Some(plan));
        hostler_control_plane::gardener::install(&store(), &world.client()).await.unwrap();
        Self::around(world, name).await
    }

    pub async fn around(mut world: World, name: &str) -> Self {
        crypto();
        let admin = world.client();
        let namespace = format!("{name}-{}", uuid::Uuid::new_v4().simple());
        create(Api::<Namespace>::all(admin.clone()), json!({"metadata": {"name": namespace}})).await;
        let settings = Settings {
            boot_time: Duration::from_millis(200),
            delete_time: Duration::from_millis(200),
            join_time: Duration::from_millis(100),
            // The user data of these tests has no place for one.
            joins_without_token: true,
            ..Settings::default()
        };
        let cloud = Stackit::new(settings, world.clock().clone(), world.chance("stackit"));
        let labels = [
            ("kubernetes.io/machine", name),
            ("kubernetes.io/machineclass", "small"),
            ("kubernetes.io/cluster", "somebody-else"),
        ];
        let foreign = cloud.add_foreign(PROJECT, REGION, name, &labels);
        let servers = "/v2/projects/{project}/regions/{region}/servers";
        let server = format!("{servers}/{{server}}");
        let attachment = format!("{server}/volume-attachments/{{volume}}");
        let paths = Paths::templates([servers, &server, &attachment]);
        world.add_cloud("stackit", paths, cloud.router());
        let kubernetes = world.kubernetes();
        world.add_server(CONTROL, Paths::Kubernetes, kubernetes);
        let nodes = world.start_hollow_nodes();
        world.add_background(cloud.clone().drive(nodes.clone()));
        let directory = Arc::new(Directory::new());
        let orphans = Arc::default();
        let stage = Self { world, cloud, nodes, admin, namespace, directory, foreign, orphans };
        stage.watch_invariants();
        stage
    }

    /// Starts the real `hostler machine-controller`. Its calls cross the wire; a crash there kills it.
    pub fn start_controller(&mut self, more: &[&str]) -> hostler_sim::Process {
        let program = self.controller(more);
        self.world.start(CONTROLLER, program)
    }

    /// The same with the rights that transports to the control cluster and the target cluster bring.
    pub fn start_controller_through(
        &mut self,
        control: Transport,
        target: Transport,
        more: &[&str],
    ) -> hostler_sim::Process {
        self.world.add_server(CONTROL, Paths::Kubernetes, control);
        let program = self.controller(more);
        self.world.start_through(target, CONTROLLER, program)
    }

    fn controller(
        &self,
        more: &[&str],
    ) -> impl Fn(Context) -> BoxFuture<'static, ()> + Send + Sync + 'static {
        let (directory, namespace) = (self.directory.clone(), self.namespace.clone());
        let more: Vec<String> = more.iter().map(|&argument| argument.to_owned()).collect();
        move |context| {
            let (directory, namespace, more) = (directory.clone(), namespace.clone(), more.clone());
            Box::pin(async move { run_binary(context, &directory, &namespace, &more).await })
        }
    }

    /// After every call: no machine has two servers, no server outlives its machine, and what belongs to
    /// others is untouched.
    fn watch_invariants(&self) {
        let (cloud, foreign, machines) = (self.cloud.clone(), self.foreign.clone(), self.machines());
        let orphans = self.orphans.clone();
        self.world.observe(Arc::new(move || {
            let (cloud, foreign, machines) = (cloud.clone(), foreign.clone(), machines.clone());
            let orphans = orphans.lock().unwrap().clone();
            Box::pin(async move {
                // First the servers: a Machine that comes or goes meanwhile must not look like a leak.
                let servers = cloud.servers();
                if !servers.iter().any(|server| server.id == foreign && server.status != "DELETING") {
                    return Err("foreign touched: somebody else's server is going".to_owned());
                }
                let mut seen = BTreeSet::new();
                let going = |server: &&ServerView| server.status == "DELETING";
                for server in servers.iter().filter(|server| server.id != foreign && !going(server)) {
                    if !seen.insert(server.name.clone()) {
                        return Err(format!("doubled: there are two servers for {}", server.name));
                    }
                    let machine = machines.get_opt(&server.name).await.map_err(|error| error.to_string())?;
                    if machine.is_none()
                        && !orphans.contains(&server.name)
                        && cloud.servers().iter().any(|now| now.id == server.id && !going(&now))
                    {
                        return Err(format!("leaked: {} has a server and no Machine", server.name));
                    }
                }
                Ok(())
            })
        }));
    }

    pub fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// The servers that are not somebody else's.
    pub fn servers(&self) -> Vec<ServerView> {
        let servers = self.cloud.servers();
        servers.into_iter().filter(|server| server.id != self.foreign).collect()
    }

    /// Puts a server of the class `small` there whose Machine is gone.
    pub fn plant_orphan(&self, name: &str) {
        self.orphans.lock().unwrap().insert(name.to_owned());
        let labels = [
            ("kubernetes.io/machine", name),
            ("kubernetes.io/machineclass", "small"),
            ("kubernetes.io/cluster", &self.namespace),
        ];
        self.cloud.add_foreign(PROJECT, REGION, name, &labels);
    }

    /// The volumes that are not those of somebody else's server.
    pub fn volumes(&self) -> Vec<VolumeView> {
        let volumes = self.cloud.volumes().into_iter();
        volumes.filter(|volume| volume.server.as_ref() != Some(&self.foreign)).collect()
    }

    /// The same of NICs.
    pub fn nics(&self) -> Vec<NicView> {
        let nics = self.cloud.nics().into_iter();
        nics.filter(|nic| nic.server.as_ref() != Some(&self.foreign)).collect()
    }

    /// The id of somebody else's server.
    pub fn foreign(&self) -> &str {
        &self.foreign
    }

    /// Those of the samples: a Secret, and the class `small`.
    pub async fn create_class_and_secret(&self) {
        let secret = self.sample("secret");
        assert_eq!(secret["stringData"]["project-id"], PROJECT);
        create(Api::<Secret>::namespaced(self.admin.clone(), &self.namespace), secret).await;
        let class = self.sample("machine-class");
        assert_eq!(
            (&class["metadata"]["name"], &class["providerSpec"]["region"]),
            (&json!("small"), &json!(REGION))
        );
        create(Api::<MachineClass>::namespaced(self.admin.clone(), &self.namespace), class).await;
    }

    /// What a file in `samples/` has, for this namespace, which is also the name of the cluster.
    pub fn sample(&self, name: &str) -> Value {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        let text = fs::read_to_string(directory.join(format!("{name}.yaml"))).unwrap();
        let text = text.replace("namespace: default\n", &format!("namespace: {}\n", self.namespace)).replace(
            "kubernetes.io/cluster: playground\n",
            &format!("kubernetes.io/cluster: {}\n", self.namespace),
        );
        serde_saphyr::from_str(&text).unwrap()
    }

    pub async fn run_until(&mut self, what: &str, condition: impl AsyncFn(&Client) -> bool) {
        let admin = self.admin.clone();
        if let Err(reason) = self.world.run_until(what, PATIENCE, async || condition(&admin).await).await {
            panic!("{reason}\n{}", self.story());
        }
    }

    /// How many Machines are Running.
    pub async fn running(machines: &Api<Machine>) -> usize {
        let listed = machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let phase = |machine: &Machine| machine.status.as_ref().map(|status| status.current_status.phase);
        listed.iter().filter(|machine| phase(machine) == Some(hostler_gardener::api::Phase::Running)).count()
    }

    /// Nothing of ours is left, in the cloud or in the cluster.
    pub async fn nothing_is_left(&mut self) {
        let machines = self.machines();
        self.run_until("all Machines are gone", async |_| {
            machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.is_empty())
        })
        .await;
        let servers: Vec<String> = self.servers().into_iter().map(|server| server.name).collect();
        assert_eq!(servers, [""; 0], "servers were leaked\n{}", self.story());
        assert_eq!(self.volumes(), [], "volumes were leaked\n{}", self.story());
        assert_eq!(self.nics(), [], "NICs were leaked\n{}", self.story());
        let nodes = Api::<Node>::all(self.admin.clone()).list(&ListParams::default()).await.unwrap();
        let prefix = &self.namespace;
        let left: Vec<&str> = nodes
            .items
            .iter()
            .filter_map(|node| node.metadata.name.as_deref())
            .filter(|name| name.starts_with(prefix))
            .collect();
        assert_eq!(left, [""; 0], "nodes were left\n{}", self.story());
        assert_eq!(self.bootstrap_tokens().await, [""; 0], "tokens were left\n{}", self.story());
    }

    /// What the bootstrap tokens of this stage's machines say of themselves.
    pub async fn bootstrap_tokens(&self) -> Vec<String> {
        let secrets = Api::<Secret>::namespaced(self.admin.clone(), "kube-system");
        let tokens = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        let descriptions = secrets.list(&tokens).await.unwrap().items.into_iter().filter_map(|secret| {
            let description = secret.data?.remove("description")?;
            String::from_utf8(description.0).ok()
        });
        descriptions.filter(|description| description.contains(&self.namespace)).collect()
    }

    /// What happened: the trace of calls, and what the controller said.
    pub fn story(&self) -> String {
        let trace = self.world.wire().map(hostler_sim::Wire::trace).unwrap_or_default();
        let log =
            fs::read_to_string(self.directory.path().join(format!("{CONTROLLER}.log"))).unwrap_or_default();
        format!("{trace}\n{log}")
    }

    pub fn violations(&self) -> Vec<String> {
        let violations = self.world.wire().map(hostler_sim::Wire::violations).unwrap_or_default();
        violations.into_iter().map(|violation| violation.message).collect()
    }
}

/// One incarnation: the binary with a proxy before each server. Whoever drops this kills it.
async fn run_binary(context: Context, directory: &Directory, namespace: &str, more: &[String]) {
    let target = Proxy::start(context.transport("kubernetes")).await.unwrap();
    let control = Proxy::start(context.transport(CONTROL)).await.unwrap();
    let cloud = Proxy::start(context.transport("stackit")).await.unwrap();
    let kubeconfig = |name: &str, proxy: &Proxy| {
        let file =
            directory.path().join(format!("{}-{}-{name}.kubeconfig", context.actor, context.incarnation));
        fs::write(&file, kubeconfig_to(&proxy.url())).unwrap();
        file
    };
    let program = Program::new(&context.actor, hostler())
        .arg("machine-controller")
        .flag("control-kubeconfig", kubeconfig("control", &control))
        .flag("target-kubeconfig", kubeconfig("target", &target))
        .flag("namespace", namespace)
        .flag("address", "127.0.0.1")
        .flag("port", "0")
        .flag("log-level", "info,hostler_gardener=debug")
        .env("STACKIT_IAAS_ENDPOINT", cloud.url())
        .env("NO_PROXY", "127.0.0.1")
        .without_grace();
    let program = more.iter().fold(program, Program::arg);
    let mut process: Process = program.start(&supervisor(), directory.path()).unwrap();
    while process.ended().is_none() && !context.shutdown.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A kubeconfig without credentials: the proxy brings them.
pub fn kubeconfig_to(url: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: proxy
  cluster: {{server: {url:?}}}
users:
- name: none
  user: {{}}
contexts:
- name: proxy
  context: {{cluster: proxy, user: none}}
current-context: proxy
"
    )
}

pub async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}
