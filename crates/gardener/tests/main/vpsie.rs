//! Machines on VPSie: the order that tells no id, the queue, the gap, and the same name in another cluster.

use crate::{
    crowd_sweep::passed,
    flow::{GROUPS, NAMESPACE, from, machine},
};
use hostler_base::Entropy;
use hostler_controller::{Health, StackOptions};
use hostler_driver::{
    Attempt, Code, Credentials, DriverFactory, Identity, Order, UserData, Written, client::Surroundings,
};
use hostler_gardener::{
    Options, Parts, Target,
    api::{Machine, MachineClass, Phase, crds},
};
use hostler_sim::{
    Boundary, Class, Context, Fault, Finished, Plan, Sweep, World,
    vpsie::{Settings, VmStage, VmView, Vpsie},
};
use hostler_stackit::StackitFactory;
use hostler_vpsie::VpsieFactory;
use k8s_openapi::{
    api::core::v1::{Namespace, Node, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const CLUSTER: &str = "shoot-one";
const OTHER_CLUSTER: &str = "somebody-else";
const URL: &str = "http://localhost/apps/v2";
const SOON: Duration = Duration::from_mins(10);

fn spec(cluster: &str) -> Value {
    json!({"cluster": cluster, "datacenterID": "dc-us-east-1", "offeringID": "small-2cpu-4gb",
        "osImageID": "ubuntu-22.04-lts", "tags": ["web"], "notes": "made for a test"})
}

fn class() -> Value {
    json!({"metadata": {"name": "small"}, "provider": "vpsie",
        "secretRef": {"name": "vpsie-secret", "namespace": NAMESPACE}, "providerSpec": spec(CLUSTER)})
}

fn secret() -> Value {
    json!({"metadata": {"name": "vpsie-secret"}, "stringData": {"token": "open sesame", "url": URL,
        "userData": "#cloud-config\nruncmd:\n- kubeadm join --token <<BOOTSTRAP_TOKEN>> --discovery-token-unsafe-skip-ca-verification api.example.org:443"}})
}

fn is_ours(vm: &VmView) -> bool {
    vm.notes.as_deref().is_some_and(|notes| notes.contains(";small;m-1;") && notes.contains(CLUSTER))
}

struct Stage {
    world: World,
    cloud: Vpsie,
    admin: Client,
    user: Client,
    /// A VPS of the same name that another cluster has made in the same account.
    namesake: String,
}

impl Stage {
    async fn new(plan: Plan, settings: Settings) -> Self {
        let mut world = World::in_virtual_time(plan);
        let cloud = Vpsie::new(settings, world.clock().clone(), world.chance("vpsie"));
        let namesake = namesake(&world, &cloud).await;
        let (admin, user) = (world.client(), world.client_of("user"));
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        for crd in crds() {
            definitions.create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespace: Namespace = from(json!({"metadata": {"name": NAMESPACE}}));
        Api::all(admin.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        world.add_cloud("vpsie", Vpsie::paths(), cloud.router());
        let nodes = world.start_hollow_nodes();
        world.add_background(cloud.clone().drive(nodes));
        let stage = Self { world, cloud, admin, user, namesake };
        stage.watch_invariants();
        stage
    }

    fn start_controller(&mut self) {
        self.world.start("machine-controller", |context| Box::pin(controller(context)));
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.user.clone(), NAMESPACE)
    }

    fn ours(&self) -> Vec<VmView> {
        self.cloud.vms().into_iter().filter(is_ours).collect()
    }

    async fn create_all(&self) {
        let parameters = PostParams::default();
        Api::<Secret>::namespaced(self.user.clone(), NAMESPACE)
            .create(&parameters, &from(secret()))
            .await
            .unwrap();
        Api::<MachineClass>::namespaced(self.user.clone(), NAMESPACE)
            .create(&parameters, &from(class()))
            .await
            .unwrap();
        self.machines().create(&parameters, &from(machine("m-1"))).await.unwrap();
    }

    async fn run_until_phase(&mut self, phase: Phase) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let is_so = async || {
            let machine = machines.get_opt("m-1").await.ok().flatten();
            let status = machine.and_then(|machine| machine.status);
            status.is_some_and(|status| status.current_status.phase == phase)
        };
        self.world.run_until(&format!("m-1 is {phase:?}"), SOON, is_so).await
    }

    async fn run_until_gone(&mut self) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let is_gone = async || matches!(machines.get_opt("m-1").await, Ok(None));
        self.world.run_until("m-1 is gone", Duration::from_mins(40), is_gone).await
    }

    /// After every call: no machine has two VPSs, none outlives its machine, and another cluster's is left alone.
    fn watch_invariants(&self) {
        let (cloud, namesake) = (self.cloud.clone(), self.namesake.clone());
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        self.world.observe(Arc::new(move || {
            let (cloud, namesake, machines) = (cloud.clone(), namesake.clone(), machines.clone());
            Box::pin(async move {
                let vms = cloud.vms();
                let stays = |vm: &&VmView| vm.stage != VmStage::Leaving;
                if !vms.iter().filter(stays).any(|vm| vm.identifier == namesake) {
                    return Err("foreign touched: another cluster's VPS is going".to_owned());
                }
                let ours = vms.iter().filter(stays).filter(|vm| is_ours(vm)).count();
                let listed =
                    machines.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
                match ours {
                    0 => Ok(()),
                    1 if listed.items.is_empty() => Err("leaked: a VPS without a Machine".to_owned()),
                    1 => Ok(()),
                    many => Err(format!("doubled: there are {many} VPSs for m-1")),
                }
            })
        }));
    }

    async fn leftovers(&self) -> Vec<String> {
        let mut left: Vec<String> =
            self.ours().into_iter().map(|vm| format!("VPS {}", vm.hostname)).collect();
        let nodes = Api::<Node>::all(self.admin.clone()).list(&ListParams::default()).await.unwrap();
        left.extend(
            nodes.items.into_iter().filter_map(|node| node.metadata.name).map(|name| format!("node {name}")),
        );
        left
    }
}

/// Orders a VPS of the same name for another cluster; gives its identifier once it is there.
async fn namesake(world: &World, cloud: &Vpsie) -> String {
    let surroundings = Surroundings {
        transport: cloud.transport(),
        clock: world.clock().clone(),
        chance: world.chance("somebody else"),
    };
    let credentials = Credentials::new([("token", "another one"), ("url", URL)]);
    let factory = VpsieFactory::new(surroundings);
    let driver = factory.driver(&credentials, &spec(OTHER_CLUSTER), Written::default()).unwrap();
    let identity = Identity { domain: OTHER_CLUSTER.into(), machine: "m-1".into(), class: "small".into() };
    let order = Order {
        identity: identity.clone(),
        attempt: Attempt("theirs".into()),
        spec: Arc::new(spec(OTHER_CLUSTER)),
        user_data: Some(UserData::new("#cloud-config")),
    };
    assert_eq!(driver.create(&order).await.unwrap_err().code, Code::Uninitialized);
    loop {
        world.clock().sleep(Duration::from_secs(1)).await;
        if let Some(machine) = driver.find(&identity, None).await.unwrap().found.machines().first() {
            let id = machine.provider_id.server().to_owned();
            // Off, so that its machine is not taken for a node of this cluster.
            assert!(cloud.suspend(&id, true));
            return id;
        }
    }
}

/// The controller as a process has it: STACKIT is its first cloud, the class names the other one.
async fn controller(context: Context) {
    let metrics = hostler_gardener::metrics();
    let stack = StackOptions::alone("kubernetes", metrics.clone(), context.clock.clone());
    let client = || hostler_controller::kube_client(context.transport("kubernetes"), &stack, NAMESPACE);
    let options = StackOptions { client: "vpsie", server: None, ..stack.clone() };
    let cloud = hostler_controller::stack(context.transport("vpsie"), &options);
    let surroundings = Surroundings {
        transport: cloud.clone(),
        clock: context.clock.clone(),
        chance: context.chance.split("vpsie"),
    };
    let parts = Parts {
        events: client(),
        control: client(),
        namespace: NAMESPACE.to_owned(),
        target: Some(Target { client: client(), evictions: client() }),
        options: Options::default(),
        drivers: Arc::new(StackitFactory::new(cloud, "", context.clock.clone())),
        other_drivers: vec![Arc::new(VpsieFactory::new(surroundings))],
        clock: context.clock.clone(),
        chance: context.chance.clone(),
        health: Health::new(metrics.clone()),
        metrics,
        instance: format!("{}-{}", context.actor, context.incarnation),
        entropy: Entropy::guessable(context.chance.split("entropy")),
        token_groups: GROUPS.to_owned(),
    };
    Box::pin(hostler_gardener::run(parts, context.shutdown.clone())).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_becomes_a_vps_and_a_ready_node_and_then_nothing() {
    let mut stage = Stage::new(Plan::seeded(1), Settings::default()).await;
    stage.start_controller();
    stage.create_all().await;
    stage.run_until_phase(Phase::Running).await.unwrap();
    let ours = stage.ours();
    let [vm] = ours.as_slice() else { panic!("{ours:?}") };
    let machine = stage.machines().get("m-1").await.unwrap();
    assert_eq!(machine.spec.provider_id, format!("vpsie://{}", vm.identifier));
    assert_eq!(
        machine.metadata.annotations.unwrap()["machine.hostler.dev/place"],
        format!("VPSie at localhost cluster {CLUSTER}")
    );
    assert_eq!((vm.hostname.as_str(), vm.plan.as_str()), ("m-1", "small-2cpu-4gb"));
    assert!(
        vm.notes.as_deref().unwrap().ends_with("] made for a test") && vm.tags.contains(&"web".to_owned())
    );
    Api::<Node>::all(stage.admin.clone()).get("m-1").await.unwrap();

    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    stage.run_until_gone().await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
    assert_eq!(stage.cloud.calls()["CreateVM"], 2, "this one and the other cluster's");
    assert_eq!(stage.cloud.calls()["DeleteVM"], 1);
}

/// How VPSie is that day.
fn weathers() -> BTreeMap<&'static str, Settings> {
    let seconds = Duration::from_secs;
    let slow = Settings {
        queue_lag: seconds(20),
        queue_time: seconds(150),
        list_gap: seconds(40),
        boot_time: seconds(60),
        delete_time: seconds(90),
        ..Settings::default()
    };
    let quick = Settings {
        queue_lag: Duration::ZERO,
        queue_time: Duration::ZERO,
        list_gap: seconds(30),
        ..Settings::default()
    };
    let odd = Settings {
        errors_with_200: true,
        capital_hostnames: true,
        delete_needs_stop: true,
        total: hostler_sim::vpsie::Total::WithSpace,
        create_answer: hostler_sim::vpsie::CreateAnswer::Nothing,
        lists_images: true,
        jitter: seconds(5),
        ..Settings::default()
    };
    BTreeMap::from([("usual", Settings::default()), ("slow", slow), ("quick", quick), ("odd", odd)])
}

async fn one_life(plan: Plan, settings: Settings) -> Finished {
    let mut stage = Stage::new(plan, settings).await;
    stage.start_controller();
    let goal = one_life_on(&mut stage).await;
    stage.world.finish(goal)
}

async fn one_life_on(stage: &mut Stage) -> Result<(), String> {
    stage.create_all().await;
    stage.run_until_phase(Phase::Running).await?;
    stage.machines().delete("m-1", &DeleteParams::default()).await.map_err(|error| error.to_string())?;
    stage.run_until_gone().await?;
    // What was on its way when the machine went would show up now.
    stage.world.run_for(Duration::from_mins(5)).await;
    match stage.leftovers().await.as_slice() {
        [] => Ok(()),
        left => Err(format!("left behind: {}", left.join(", "))),
    }
}

/// The API knows no idempotency key: what the network doubles is doubled, and goes when the machine goes.
fn unknown_outcomes(class: Class, _: &Boundary, fault: &Fault) -> bool {
    class == Class::Effect && matches!(fault, Fault::CrashBefore | Fault::CrashAfter | Fault::TimeoutAfter)
}

#[test]
fn one_life_survives_unknown_outcomes_however_slow_vpsie_is() {
    for (name, settings) in weathers() {
        let sweep = Sweep::new(&format!("one life on VPSie, {name}"), 1).only(unknown_outcomes);
        passed(&sweep.run(async |plan| one_life(plan, settings.clone()).await).unwrap());
    }
}
