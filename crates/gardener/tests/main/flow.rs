//! A world with the Machine controller in it, and the flow that takes one machine from wish to gone.

use hostler_apiserver::ApiServer;
use hostler_base::{Entropy, Transport};
use hostler_controller::{Fence, Health, Metrics, Rate, StackOptions};
use hostler_gardener::{
    Options, Parts, Target,
    api::{Machine, MachineClass, Phase, crds},
};
use hostler_sim::{
    Context, Finished, HollowNodes, Paths, Plan, World,
    stackit::{ServerView, Settings, Stackit},
};
use hostler_stackit::{ApiMetrics, StackitFactory};
use k8s_openapi::{
    api::core::v1::{Event, Namespace, Node, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, Resource, api::PostParams, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

/// What is waited for in the world's time: it costs next to nothing.
pub const SOON: Duration = Duration::from_mins(5);
pub const LONG: Duration = Duration::from_mins(30);
/// The name by which a world knows the cluster with the Machines where it is not the one with the nodes.
pub const CONTROL: &str = "control";
pub const NAMESPACE: &str = "shoot";
pub const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
pub const REGION: &str = "eu01";
pub const CLUSTER: &str = "shoot-one";
pub const GROUPS: &str = "system:bootstrappers:workers";
pub const OTHER_CLUSTER: &str = "somebody-else";

/// The world of these tests and the handles on its parts.
pub struct Stage {
    pub world: World,
    pub cloud: Stackit,
    pub nodes: HollowNodes,
    /// These two see the cluster with the Machines.
    pub user: Client,
    pub admin: Client,
    /// The cluster with the nodes, which is the same one unless a test wants two.
    pub target: Client,
    /// A server of somebody else with the same machine name and class, in the same project.
    pub foreign: String,
}

impl Stage {
    pub async fn new(plan: Plan, settings: Settings) -> Self {
        let stage = Self::unobserved(plan, settings).await;
        stage.watch_invariants();
        stage
    }

    /// The same without anybody who looks at it after every call.
    pub async fn unobserved(plan: Plan, settings: Settings) -> Self {
        Self::in_clusters(plan, settings, false).await
    }

    /// The same, with the Machines in a cluster of their own, [`CONTROL`]: the one with the nodes knows nothing of them.
    pub async fn of_two_clusters(plan: Plan, settings: Settings) -> Self {
        Self::in_clusters(plan, settings, true).await
    }

    async fn in_clusters(plan: Plan, mut settings: Settings, two: bool) -> Self {
        settings.other_clusters.insert(OTHER_CLUSTER.to_owned());
        let mut world = World::in_virtual_time(plan);
        let control = two.then(|| {
            let chance = world.chance(CONTROL);
            let entropy = Entropy::guessable(chance.split("entropy"));
            let options = hostler_apiserver::Options::new(world.clock().clone(), chance, entropy);
            let server = ApiServer::new(options).transport(ApiServer::admin());
            world.add_server(CONTROL, Paths::Kubernetes, server.clone());
            server
        });
        let cloud = Stackit::new(settings, world.clock().clone(), world.chance("stackit"));
        let labels = [
            ("kubernetes.io/machine", "m-1"),
            ("kubernetes.io/machineclass", "small"),
            ("kubernetes.io/cluster", OTHER_CLUSTER),
        ];
        let foreign = cloud.add_foreign(PROJECT, REGION, "m-1", &labels);
        let mut stage = Self::around(world, cloud, foreign, control).await;
        let drive = stage.cloud.clone().drive(stage.nodes.clone());
        stage.world.add_background(drive);
        stage
    }

    /// Another cluster with the same cloud, whose servers do not become nodes in it.
    pub async fn beside(&self, plan: Plan) -> Self {
        let world = World::in_virtual_time(plan);
        Self::around(world, self.cloud.clone(), self.foreign.clone(), None).await
    }

    async fn around(mut world: World, cloud: Stackit, foreign: String, control: Option<Transport>) -> Self {
        let target = world.client();
        let (user, admin) = match control {
            None => (world.client_of("user"), world.client()),
            Some(control) => {
                let stack = StackOptions::alone("test", Metrics::new(), world.clock().clone());
                let client = |transport| hostler_controller::kube_client(transport, &stack, NAMESPACE);
                (client(world.transport_of("user", CONTROL)), client(control))
            }
        };
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        for crd in crds() {
            definitions.create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespace: Namespace = from(json!({"metadata": {"name": NAMESPACE}}));
        Api::all(admin.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let place = "/v2/projects/{project}/regions/{region}";
        let paths = [
            "servers",
            "servers/{server}",
            "servers/{server}/volume-attachments/{volume}",
            "networks/{network}/nics/{nic}",
            "nics",
            "volumes",
            "volumes/{volume}",
        ];
        let paths = paths.map(|path| format!("{place}/{path}"));
        let paths = Paths::templates(paths.iter().map(String::as_str));
        world.add_cloud("stackit", paths, cloud.router());
        let nodes = world.start_hollow_nodes();
        Self { world, cloud, nodes, user, admin, target, foreign }
    }

    pub fn start_controller(&mut self) -> hostler_sim::Process {
        self.start_controller_with(&Options::default())
    }

    pub fn start_controller_with(&mut self, options: &Options) -> hostler_sim::Process {
        let options = options.clone();
        self.world.start("machine-controller", move |context| Box::pin(controller(context, options.clone())))
    }

    /// A controller whose clients are held back as those of a process are.
    pub fn start_controller_at(&mut self, per_second: f64, burst: u32) -> hostler_sim::Process {
        let seat = Seat { rate: Some(Rate { per_second, burst }), ..Seat::default() };
        self.world.start("machine-controller", move |context| {
            Box::pin(controller_on(seat.clone(), context, Options::default()))
        })
    }

    /// A controller that knows of no cluster for the nodes.
    pub fn start_controller_without_target(&mut self) -> hostler_sim::Process {
        self.world.start("machine-controller", |context| {
            Box::pin(controller_with(context, Options::default(), false))
        })
    }

    /// After every call: no machine has two servers, no server outlives its machine, and what belongs to
    /// others is untouched.
    pub fn watch_invariants(&self) {
        let (cloud, foreign) = (self.cloud.clone(), self.foreign.clone());
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        self.world.observe(Arc::new(move || {
            let (cloud, foreign, machines) = (cloud.clone(), foreign.clone(), machines.clone());
            Box::pin(async move {
                let servers = cloud.servers();
                if !servers.iter().any(|server| server.id == foreign && server.status != "DELETING") {
                    return Err("foreign touched: somebody else's server is going".to_owned());
                }
                let listed = machines
                    .list(&kube::api::ListParams::default())
                    .await
                    .map_err(|error| error.to_string())?;
                let wanted: BTreeSet<String> =
                    listed.items.iter().filter_map(|machine| machine.metadata.name.clone()).collect();
                let mut seen = BTreeSet::new();
                for server in ours(&servers).filter(|server| server.status != "DELETING") {
                    if !seen.insert(server.name.clone()) {
                        return Err(format!("doubled: there are two servers for {}", server.name));
                    }
                    if !wanted.contains(&server.name) {
                        return Err(format!("leaked: {} has a server and no Machine", server.name));
                    }
                }
                Ok(())
            })
        }));
    }

    pub async fn create<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        api.create(&PostParams::default(), &from(object)).await.unwrap();
    }

    pub fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.user.clone(), NAMESPACE)
    }

    pub async fn create_class_and_secret(&self) {
        self.create(Api::<Secret>::namespaced(self.user.clone(), NAMESPACE), secret()).await;
        self.create(Api::<MachineClass>::namespaced(self.user.clone(), NAMESPACE), class()).await;
    }

    pub async fn run_until_phase(&mut self, name: &str, phase: Phase, limit: Duration) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let what = format!("{name} is {phase:?}");
        self.world
            .run_until(&what, limit, async || {
                let machine = machines.get_opt(name).await.ok().flatten();
                machine
                    .and_then(|machine| machine.status)
                    .is_some_and(|status| status.current_status.phase == phase)
            })
            .await
    }

    /// The machine's last operation says so, in these words.
    pub async fn run_until_said(&mut self, name: &str, words: &str, limit: Duration) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let what = format!("{name} says {words:?}");
        let said = async || {
            let machine = machines.get_opt(name).await.ok().flatten();
            machine
                .and_then(|machine| machine.status)
                .is_some_and(|status| status.last_operation.description.contains(words))
        };
        self.world.run_until(&what, limit, said).await
    }

    /// What the controller told people about the machine, as `reason: message`.
    pub async fn told(&self, name: &str) -> Vec<String> {
        // Events are written behind the controller's back.
        self.world.run_for(Duration::from_secs(2)).await;
        let events = Api::<Event>::namespaced(self.admin.clone(), NAMESPACE);
        let all = events.list(&kube::api::ListParams::default()).await.unwrap();
        let about = all.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        about
            .map(|event| {
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect()
    }

    pub async fn patch<K>(&self, api: Api<K>, name: &str, patch: Value)
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let patch = kube::api::Patch::Merge(patch);
        api.patch(name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    }

    pub fn classes(&self) -> Api<MachineClass> {
        Api::namespaced(self.user.clone(), NAMESPACE)
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.user.clone(), NAMESPACE)
    }

    pub async fn delete_machine(&self, name: &str) {
        self.machines().delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }

    pub async fn run_until_gone(&mut self, name: &str, limit: Duration) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let what = format!("{name} is gone");
        self.world.run_until(&what, limit, async || matches!(machines.get_opt(name).await, Ok(None))).await
    }

    /// Whether there is nothing of a kind in the namespace.
    pub async fn admin_sees_no<K>(&self) -> bool
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.admin.clone(), NAMESPACE);
        api.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty()
    }

    /// What is left of ours in the cloud and in the cluster.
    pub async fn leftovers(&self) -> Vec<String> {
        let servers = self.cloud.servers();
        let mut left: Vec<String> = ours(&servers).map(|server| format!("server {}", server.name)).collect();
        let foreign = Some(&self.foreign);
        let volumes = self.cloud.volumes().into_iter().filter(|volume| volume.server.as_ref() != foreign);
        left.extend(volumes.map(|volume| format!("volume {} {}", volume.id, volume.status)));
        let nics = self.cloud.nics().into_iter().filter(|nic| nic.server.as_ref() != foreign);
        left.extend(nics.map(|nic| format!("NIC {}", nic.id)));
        let nodes =
            Api::<Node>::all(self.target.clone()).list(&kube::api::ListParams::default()).await.unwrap();
        let theirs = Some(format!("stackit://{}", self.foreign));
        let nodes = nodes
            .items
            .into_iter()
            .filter(|node| node.spec.as_ref().is_none_or(|spec| spec.provider_id != theirs));
        left.extend(nodes.filter_map(|node| node.metadata.name).map(|name| format!("node {name}")));
        left.extend(self.tokens().await.into_iter().map(|(name, _)| name));
        left
    }

    /// The bootstrap tokens that are there, by the names of their Secrets.
    pub async fn tokens(&self) -> Vec<(String, Secret)> {
        let secrets = Api::<Secret>::namespaced(self.target.clone(), "kube-system");
        let all = secrets.list(&kube::api::ListParams::default()).await.unwrap();
        let tokens =
            all.items.into_iter().filter(|one| one.type_.as_deref() == Some("bootstrap.kubernetes.io/token"));
        tokens.map(|one| (one.metadata.name.clone().unwrap(), one)).collect()
    }
}

/// A cloud whose servers become nodes whoever ordered them, with a bootstrap token or without.
pub fn open_to_all() -> Settings {
    Settings { joins_without_token: true, ..Settings::default() }
}

pub fn ours(servers: &[ServerView]) -> impl Iterator<Item = &ServerView> {
    servers.iter().filter(|server| is_ours(server))
}

pub fn is_ours(server: &ServerView) -> bool {
    server.labels.get("kubernetes.io/cluster").is_some_and(|label| label == CLUSTER)
}

pub fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn secret() -> Value {
    json!({"metadata": {"name": "credentials"}, "stringData": {"project-id": PROJECT, "apiToken": "open sesame",
        "userData": "#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>"}})
}

pub fn class() -> Value {
    json!({"metadata": {"name": "small"}, "provider": "stackit",
        "secretRef": {"name": "credentials", "namespace": NAMESPACE},
        "providerSpec": {"region": REGION, "machineType": "c2i.2", "imageId": PROJECT, "bootVolume": {"size": 50},
            "networking": {"networkId": PROJECT}, "labels": {"kubernetes.io/cluster": CLUSTER}}})
}

pub fn machine(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}})
}

/// The controller as a process has it, on this world's transports.
pub async fn controller(context: Context, options: Options) {
    controller_with(context, options, true).await;
}

/// The same, with a cluster for the nodes or without one.
pub async fn controller_with(context: Context, options: Options, has_target: bool) {
    controller_on(Seat { has_target, ..Seat::default() }, context, options).await;
}

/// Where a controller sits, and who looks at it.
#[derive(Clone)]
pub struct Seat {
    pub metrics: Metrics,
    pub health: Health,
    /// Which server of the world has the Machines.
    pub control: &'static str,
    /// Whether there is a cluster for the nodes.
    pub has_target: bool,
    /// Open while the controller leads; without one it is the only one.
    pub fence: Option<Fence>,
    /// What each of its clients of Kubernetes may call; without one, as much as it likes.
    pub rate: Option<Rate>,
}

impl Default for Seat {
    fn default() -> Self {
        let metrics = hostler_gardener::metrics();
        let health = Health::new(metrics.clone());
        Self { metrics, health, control: "kubernetes", has_target: true, fence: None, rate: None }
    }
}

/// The same from a certain seat.
pub async fn controller_on(seat: Seat, context: Context, options: Options) {
    let Seat { metrics, health, control, has_target, fence, rate } = seat;
    let alone = StackOptions::alone("kubernetes", metrics.clone(), context.clock.clone());
    let fence = fence.unwrap_or_else(|| alone.fence.clone());
    let limited = StackOptions { server: Some("https://kubernetes".to_owned()), fence, rate, ..alone };
    // Each with a limit of its own, as in `hostler machine-controller`.
    let client_of = |server| hostler_controller::kube_client(context.transport(server), &limited, NAMESPACE);
    let stack = StackOptions { client: "stackit", server: None, rate: None, ..limited.clone() };
    let calls = metrics.register_with(ApiMetrics::new);
    let cloud = calls.counted(context.transport("stackit"), context.clock.clone());
    let cloud = hostler_controller::stack(cloud, &stack);
    let parts = Parts {
        events: client_of(control),
        control: client_of(control),
        namespace: NAMESPACE.to_owned(),
        target: has_target
            .then(|| Target { client: client_of("kubernetes"), evictions: client_of("kubernetes") }),
        options,
        drivers: Arc::new(StackitFactory::new(cloud, "", context.clock.clone())),
        other_drivers: Vec::new(),
        clock: context.clock.clone(),
        chance: context.chance.clone(),
        health,
        metrics,
        instance: format!("{}-{}", context.actor, context.incarnation),
        entropy: Entropy::guessable(context.chance.split("entropy")),
        token_groups: GROUPS.to_owned(),
    };
    Box::pin(hostler_gardener::run(parts, context.shutdown.clone())).await;
}

/// One machine is wished for, comes, is given back and goes; nothing of it is left.
pub async fn one_life(plan: Plan, settings: Settings) -> Finished {
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    let goal = one_life_on(&mut stage).await;
    stage.world.finish(goal)
}

async fn one_life_on(stage: &mut Stage) -> Result<(), String> {
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Running, Duration::from_mins(15)).await?;
    stage
        .machines()
        .delete("m-1", &kube::api::DeleteParams::default())
        .await
        .map_err(|error| error.to_string())?;
    stage.run_until_gone("m-1", Duration::from_mins(30)).await?;
    // What was on its way when the machine went would show up now.
    stage.world.run_for(Duration::from_mins(3)).await;
    match stage.leftovers().await.as_slice() {
        [] => Ok(()),
        left => Err(format!("left behind: {}", left.join(", "))),
    }
}
