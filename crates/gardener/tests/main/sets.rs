//! MachineSets and MachineDeployments in a world: with the Machine controller, or with a puppet in its place that
//! makes machines run and go in a few seconds.

use crate::flow::{NAMESPACE, Stage, from, machine, ours};
use hostler_base::Clock;
use hostler_controller::{Election, Health, LeaseOptions, Metrics, StackOptions, kube_client};
use hostler_gardener::{
    api::{Machine, MachineClass, MachineDeployment, MachineSet, Phase, crds, names},
    sets::{self, LEASE, SetOptions, SetParts},
};
use hostler_sim::{Context, Plan, Process, World, stackit::Settings};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Event, Namespace, Node, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

pub const SOON: Duration = Duration::from_mins(10);

/// The controllers as a process has them: they wait for their lease, and nothing they change gets through without it.
pub async fn machine_sets(context: Context) {
    machine_sets_with(context, SetOptions::default()).await;
}

async fn machine_sets_with(context: Context, options: SetOptions) {
    let (clock, chance, metrics) = (context.clock.clone(), context.chance.clone(), Metrics::new());
    let instance = format!("{}-{}", context.actor, context.incarnation);
    let unfenced = StackOptions {
        timeout: Duration::from_secs(5),
        ..StackOptions::alone("kubernetes", metrics.clone(), clock.clone())
    };
    let client = kube_client(context.transport("kubernetes"), &unfenced, NAMESPACE);
    let lease = LeaseOptions::new(NAMESPACE, LEASE, &instance);
    let election = Election::new(client, lease, clock.clone(), &chance, metrics.clone());
    let fenced = StackOptions { fence: election.fence(), ..unfenced };
    let client = kube_client(context.transport("kubernetes"), &fenced, NAMESPACE);
    let parts = SetParts {
        control: client.clone(),
        namespace: NAMESPACE.to_owned(),
        target: Some(client),
        clock,
        chance,
        health: Health::new(metrics.clone()),
        metrics,
        instance,
        options,
    };
    let stop = context.shutdown.clone();
    election.lead(&stop, || Box::pin(sets::run(parts, stop.clone()))).await;
}

pub fn start_sets(world: &mut World) -> Process {
    world.start("machine-sets", |context| Box::pin(machine_sets(context)))
}

pub fn start_sets_with(world: &mut World, options: &SetOptions) -> Process {
    let options = options.clone();
    world.start("machine-sets", move |context| Box::pin(machine_sets_with(context, options.clone())))
}

/// A world without clouds, in which a puppet lets machines run.
pub async fn puppet_world(plan: Plan) -> World {
    let mut world = World::in_virtual_time(plan);
    let admin = world.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    for crd in crds() {
        definitions.create(&PostParams::default(), &crd).await.unwrap();
    }
    let namespace: Namespace = from(json!({"metadata": {"name": NAMESPACE}}));
    Api::all(admin.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    world.add_background(puppet(admin, world.clock().clone()));
    world
}

/// On a Machine: the puppet leaves it alone.
pub const LEAVE: &str = "leave-alone";

/// Every machine gets a finalizer and runs after a look or two; one that is deleted goes after a while.
async fn puppet(admin: Client, clock: Clock) {
    let machines: Api<Machine> = Api::namespaced(admin, NAMESPACE);
    loop {
        clock.sleep(Duration::from_secs(1)).await;
        let Ok(all) = machines.list(&ListParams::default()).await else { continue };
        for machine in all.items.into_iter().filter(|machine| !machine.labels().contains_key(LEAVE)) {
            let name = machine.name_any();
            let (patch, status) = if let Some(since) = &machine.metadata.deletion_timestamp {
                if clock.now().duration_since(since.0).as_secs() < 3 {
                    continue;
                }
                (json!({"metadata": {"finalizers": null}}), false)
            } else if machine.finalizers().is_empty() {
                (json!({"metadata": {"finalizers": [names::FINALIZER]}}), false)
            } else if phase(&machine) == Phase::Empty {
                (json!({"status": {"currentStatus": {"phase": "Running"}}}), true)
            } else {
                continue;
            };
            let (patch, params) = (Patch::Merge(patch), PatchParams::default());
            // What changed meanwhile is looked at next time.
            let _ = if status {
                machines.patch_status(&name, &params, &patch).await
            } else {
                machines.patch(&name, &params, &patch).await
            };
        }
    }
}

pub fn phase(machine: &Machine) -> Phase {
    machine.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default()
}

pub fn template(name: &str, class: &str) -> Value {
    json!({"metadata": {"labels": {"pool": name}}, "spec": {"class": {"kind": "MachineClass", "name": class}}})
}

pub fn set(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"pool": name}}, "template": template(name, "small")}})
}

pub fn deployment(name: &str, replicas: i32, strategy: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "strategy": strategy,
        "selector": {"matchLabels": {"pool": name}}, "template": template(name, "small")}})
}

pub fn rolling(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

pub fn api<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), NAMESPACE)
}

pub async fn patch<K>(client: &Client, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    api::<K>(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Machines that stay, and those of them that run.
pub async fn count(admin: &Client) -> (usize, usize) {
    let all = api::<Machine>(admin).list(&ListParams::default()).await.unwrap().items;
    let stay: Vec<_> = all.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).collect();
    (stay.len(), stay.iter().filter(|machine| phase(machine) == Phase::Running).count())
}

pub async fn machines(admin: &Client) -> Vec<Machine> {
    api(admin).list(&ListParams::default()).await.unwrap().items
}

/// All machines that are there are of this class, so many, and run; the deployment says so too.
pub async fn is_rolled_out(admin: &Client, name: &str, class: &str, replicas: i32) -> bool {
    let deployment = api::<MachineDeployment>(admin).get_opt(name).await.unwrap();
    let status = deployment.as_ref().and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    if [status.updated_replicas, status.available_replicas, status.replicas] != [replicas; 3] {
        return false;
    }
    let all = machines(admin).await;
    let fits = |machine: &Machine| machine.spec.class.name == class && phase(machine) == Phase::Running;
    all.len() == usize::try_from(replicas).unwrap() && all.iter().all(fits)
}

pub async fn nothing_is_left(admin: &Client) -> bool {
    machines(admin).await.is_empty()
        && api::<MachineSet>(admin).list(&ListParams::default()).await.unwrap().items.is_empty()
        && api::<MachineDeployment>(admin).list(&ListParams::default()).await.unwrap().items.is_empty()
}

/// The foreign server may have a node of its own.
pub async fn left_of_ours(stage: &Stage) -> Vec<String> {
    stage.leftovers().await.into_iter().filter(|left| left != "node m-1").collect()
}

#[tokio::test(start_paused = true)]
async fn a_machine_set_has_as_many_machines_as_it_should() {
    let mut stage = Stage::new(Plan::seeded(30), Settings::default()).await;
    stage.start_controller();
    start_sets(&mut stage.world);
    stage.create_class_and_secret().await;
    stage.create(api::<MachineSet>(&stage.user), set("s", 3)).await;
    let admin = stage.admin.clone();
    for replicas in [3, 5, 2] {
        patch::<MachineSet>(&stage.user, "s", json!({"spec": {"replicas": replicas}})).await;
        let there = async || {
            let status = api::<MachineSet>(&admin).get("s").await.unwrap().status.unwrap_or_default();
            machines(&admin).await.len() == usize::try_from(replicas).unwrap()
                && (status.replicas, status.ready_replicas) == (replicas, replicas)
        };
        stage.world.run_until("as many run", SOON, there).await.unwrap();
        assert_eq!(ours(&stage.cloud.servers()).count(), usize::try_from(replicas).unwrap());
    }
    let told = stage.told("s").await;
    assert_eq!(
        told.iter().filter(|event| event.starts_with("SuccessfulCreate: Created Machine: s-")).count(),
        5
    );
    assert_eq!(
        told.iter().filter(|event| event.starts_with("SuccessfulDelete: Deleted machine: s-")).count(),
        3
    );
    api::<MachineSet>(&stage.user).delete("s", &DeleteParams::default()).await.unwrap();
    stage.world.run_until("nothing is left", SOON, async || nothing_is_left(&admin).await).await.unwrap();
    assert_eq!(left_of_ours(&stage).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_and_is_recreated_and_scaled() {
    let mut stage = Stage::new(Plan::seeded(31), Settings::default()).await;
    stage.start_controller();
    start_sets(&mut stage.world);
    stage.create_class_and_secret().await;
    let mut large = crate::flow::class();
    large["metadata"]["name"] = json!("large");
    stage.create(stage.classes(), large).await;
    let mut wanted = deployment("d", 3, &rolling(1, 0));
    // As in Gardener's own manager: kept and not heeded. Each step of the update would take longer than is waited for all.
    wanted["spec"]["minReadySeconds"] = json!(500);
    stage.create(api::<MachineDeployment>(&stage.user), wanted).await;
    let (user, admin) = (stage.user.clone(), stage.admin.clone());
    let rolled = async |class: &str, replicas: i32| is_rolled_out(&admin, "d", class, replicas).await;
    stage.world.run_until("it is up", SOON, async || rolled("small", 3).await).await.unwrap();

    let allowed = Allowed::watch(&stage.world, 4, 3);
    let class = |name: &str| json!({"spec": {"template": {"spec": {"class": {"name": name}}}}});
    patch::<MachineDeployment>(&user, "d", class("large")).await;
    stage.world.run_until("it is rolled out", SOON, async || rolled("large", 3).await).await.unwrap();

    allowed.change(5, 0);
    patch::<MachineDeployment>(&user, "d", json!({"spec": {"replicas": 5}})).await;
    stage.world.run_until("it is larger", SOON, async || rolled("large", 5).await).await.unwrap();
    let recreate = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null},
        "template": {"spec": {"class": {"name": "small"}}}}});
    patch::<MachineDeployment>(&user, "d", recreate).await;
    stage.world.run_until("it is recreated", SOON, async || rolled("small", 5).await).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).count(), 5);
    let sets = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 2, "the first one is used again");

    // Everything at once: class and Secret stay until the last server is gone.
    for name in ["small", "large"] {
        stage.classes().delete(name, &DeleteParams::default()).await.unwrap();
    }
    stage.secrets().delete("credentials", &DeleteParams::default()).await.unwrap();
    api::<MachineDeployment>(&user).delete("d", &DeleteParams::default()).await.unwrap();
    let all_gone = async || {
        nothing_is_left(&admin).await
            && api::<MachineClass>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
            && api::<Secret>(&admin).list(&ListParams::default()).await.unwrap().items.is_empty()
    };
    stage.world.run_until("nothing is left", SOON, all_gone).await.unwrap();
    assert_eq!(left_of_ours(&stage).await, [""; 0]);
}

/// What is allowed at present.
#[derive(Clone)]
pub struct Allowed(Arc<Mutex<(usize, usize)>>);

impl Allowed {
    /// From now on, after every call: no more machines than this, those that go included, and no fewer that run.
    pub fn watch(world: &World, most: usize, least: usize) -> Self {
        let (admin, allowed) = (world.client(), Self(Arc::new(Mutex::new((most, least)))));
        let limits = allowed.clone();
        world.observe(Arc::new(move || {
            let (admin, (most, least)) = (admin.clone(), *limits.0.lock().unwrap());
            Box::pin(async move {
                let ((_, running), all) = (count(&admin).await, machines(&admin).await.len());
                if all > most {
                    return Err(format!("{all} machines at once, {most} are allowed"));
                }
                if running < least {
                    return Err(format!("only {running} machines run, {least} have to"));
                }
                Ok(())
            })
        }));
        allowed
    }

    pub fn change(&self, most: usize, least: usize) {
        *self.0.lock().unwrap() = (most, least);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_machines_are_replaced_unless_somebody_keeps_them() {
    let mut world = puppet_world(Plan::seeded(32)).await;
    start_sets(&mut world);
    let admin = world.client();
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(set("s", 3))).await.unwrap();
    let three_run = async || count(&admin).await == (3, 3);
    world.run_until("three run", SOON, three_run).await.unwrap();
    let names: Vec<_> = machines(&admin).await.iter().map(ResourceExt::name_any).collect();
    let keep = json!({"metadata": {"annotations": {names::PRESERVE_ANNOTATION: "now"}}});
    patch::<Machine>(&admin, &names[1], keep).await;
    let failed = json!({"status": {"currentStatus": {"phase": "Failed"},
        "lastOperation": {"type": "HealthCheck", "state": "Failed", "description": "unhealthy"}}});
    for name in &names[..2] {
        let patch = Patch::Merge(&failed);
        api::<Machine>(&admin).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    let replaced = async || {
        let there: Vec<_> = machines(&admin).await.iter().map(ResourceExt::name_any).collect();
        there.len() == 3 && !there.contains(&names[0]) && count(&admin).await == (3, 2)
    };
    world.run_until("the failed one is replaced", SOON, replaced).await.unwrap();
    world.run_for(Duration::from_mins(1)).await;
    let set = api::<MachineSet>(&admin).get("s").await.unwrap().status.unwrap();
    assert_eq!((set.replicas, set.available_replicas, set.failed_machines.len()), (3, 2, 1));
    assert!(api::<Machine>(&admin).get(&names[1]).await.is_ok(), "somebody wants to look at it");
}

#[tokio::test(start_paused = true)]
async fn machines_are_adopted_and_released_by_their_labels() {
    let mut world = puppet_world(Plan::seeded(33)).await;
    start_sets(&mut world);
    let admin = world.client();
    let mut orphan = machine("orphan");
    orphan["metadata"]["labels"] = json!({"pool": "s"});
    api::<Machine>(&admin).create(&PostParams::default(), &from(orphan)).await.unwrap();
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(set("s", 2))).await.unwrap();
    world.run_until("two run", SOON, async || count(&admin).await == (2, 2)).await.unwrap();
    assert_eq!(api::<Machine>(&admin).get("orphan").await.unwrap().owner_references()[0].name, "s");

    patch::<Machine>(&admin, "orphan", json!({"metadata": {"labels": {"pool": "other"}}})).await;
    world.run_until("there is another one", SOON, async || count(&admin).await == (3, 3)).await.unwrap();
    assert!(api::<Machine>(&admin).get("orphan").await.unwrap().owner_references().is_empty());
    api::<MachineSet>(&admin).delete("s", &DeleteParams::default()).await.unwrap();
    world
        .run_until("only the released one is left", SOON, async || count(&admin).await == (1, 1))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_while_somebody_else_has_the_lease() {
    let mut world = puppet_world(Plan::seeded(34)).await;
    let admin = world.client();
    let lease = |seconds: i32| {
        let now = world.clock().now();
        json!({"metadata": {"name": LEASE}, "spec": {"holderIdentity": "gardener", "leaseDurationSeconds": seconds,
            "renewTime": format!("{now:.6}"), "acquireTime": format!("{now:.6}"), "leaseTransitions": 0}})
    };
    api::<Lease>(&admin).create(&PostParams::default(), &from(lease(60))).await.unwrap();
    start_sets(&mut world);
    start_sets(&mut world).start_another();
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(set("s", 2))).await.unwrap();
    world.run_for(Duration::from_secs(50)).await;
    let untouched = api::<MachineSet>(&admin).get("s").await.unwrap();
    assert_eq!((untouched.finalizers().len(), machines(&admin).await.len()), (0, 0));
    // The other one stops renewing it. Three are waiting; one of them works.
    Allowed::watch(&world, 2, 0);
    world.run_until("two run", SOON, async || count(&admin).await == (2, 2)).await.unwrap();
    world.run_for(Duration::from_mins(2)).await;
    assert_eq!(count(&admin).await, (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_set_with_far_too_many_machines_is_frozen() {
    let mut world = puppet_world(Plan::seeded(35)).await;
    start_sets(&mut world);
    let admin = world.client();
    let mut stuck = deployment("d", 1, &rolling(0, 1));
    // These never go.
    stuck["spec"]["template"]["metadata"]["labels"][LEAVE] = json!("");
    stuck["spec"]["template"]["metadata"]["finalizers"] = json!(["some/finalizer"]);
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &from(stuck)).await.unwrap();
    for number in 1..=3 {
        let there = async || machines(&admin).await.len() == number;
        world.run_until("another one is there", SOON, there).await.unwrap();
        if number < 3 {
            let active =
                machines(&admin).await.into_iter().find(|one| one.metadata.deletion_timestamp.is_none());
            api::<Machine>(&admin)
                .delete(&active.unwrap().name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
    }
    let frozen = async || {
        let set = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items.remove(0);
        let deployment = api::<MachineDeployment>(&admin).get("d").await.unwrap();
        set.labels().contains_key("freeze") && deployment.labels().contains_key("freeze")
    };
    world.run_until("set and deployment are frozen", SOON, frozen).await.unwrap();
    let set = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(set.status.clone().unwrap().conditions[0].reason, "OverShootingReplicaCount");
    for one in machines(&admin).await {
        api::<Machine>(&admin).delete(&one.name_any(), &DeleteParams::default()).await.unwrap();
    }
    world.run_for(Duration::from_mins(3)).await;
    assert_eq!(machines(&admin).await.len(), 3, "no more are made");
    let events = api::<Event>(&admin).list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("FrozeMachineSet")));

    for one in machines(&admin).await {
        patch::<Machine>(&admin, &one.name_any(), json!({"metadata": {"finalizers": null}})).await;
    }
    let thawed = async || !frozen().await && machines(&admin).await.len() == 1;
    world.run_until("a machine is made again", SOON, thawed).await.unwrap();
    world.run_for(Duration::from_secs(2)).await;
    let events = api::<Event>(&admin).list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("UnfrozeMachineSet")));
}

/// The controllers without a lease, and what they measure.
fn measured_sets(world: &mut World) -> Metrics {
    let metrics = hostler_gardener::metrics();
    let parts = SetParts {
        control: world.client(),
        namespace: NAMESPACE.to_owned(),
        target: None,
        clock: world.clock().clone(),
        chance: world.chance("sets"),
        health: Health::new(metrics.clone()),
        metrics: metrics.clone(),
        instance: "one".to_owned(),
        options: SetOptions::default(),
    };
    let stop = world.shutdown().clone();
    world.add_background(sets::run(parts, stop));
    metrics
}

#[tokio::test(start_paused = true)]
async fn machines_that_were_unhealthy_for_too_long_are_counted_and_others_are_not() {
    let mut world = puppet_world(Plan::seeded(38)).await;
    let (admin, metrics) = (world.client(), measured_sets(&mut world));
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(set("s", 3))).await.unwrap();
    world.run_until("three run", SOON, async || count(&admin).await == (3, 3)).await.unwrap();
    let names: Vec<_> = machines(&admin).await.iter().map(ResourceExt::name_any).collect();
    // The last one just goes.
    let ends = [(Some(("Failed", "Create")), 0), (Some(("Failed", "HealthCheck")), 1), (None, 1)];
    for (name, (end, counted)) in names.iter().zip(ends) {
        if let Some((phase, operation)) = end {
            let failed = json!({"status": {"currentStatus": {"phase": phase},
                "lastOperation": {"type": operation, "state": "Failed", "description": "no"}}});
            let failed = Patch::Merge(failed);
            api::<Machine>(&admin).patch_status(name, &PatchParams::default(), &failed).await.unwrap();
        } else {
            patch::<MachineSet>(&admin, "s", json!({"spec": {"replicas": 0}})).await;
        }
        let gone = async || api::<Machine>(&admin).get_opt(name).await.unwrap().is_none();
        world.run_until("it is gone", SOON, gone).await.unwrap();
        let line = format!("mcm_machine_stale_machines_total {counted}\n");
        assert!(metrics.text().contains(&line), "{line:?} after {end:?}: {}", metrics.text());
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_of_sets_and_deployments_and_forget_them() {
    let mut world = puppet_world(Plan::seeded(36)).await;
    let (admin, metrics) = (world.client(), measured_sets(&mut world));
    let mut wanted = deployment("d", 2, &rolling(1, 0));
    wanted["spec"]["revisionHistoryLimit"] = json!(3);
    wanted["spec"]["progressDeadlineSeconds"] = json!(600);
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &from(wanted)).await.unwrap();
    world.run_until("it is up", SOON, async || is_rolled_out(&admin, "d", "small", 2).await).await.unwrap();
    world.run_for(Duration::from_secs(1)).await;
    let text = metrics.text();
    let names = "name=\"d\",namespace=\"shoot\"";
    for line in [
        "mcm_machine_set_items_total 1".to_owned(),
        "mcm_workqueue_adds_total{name=\"machineset\"}".to_owned(),
        "mcm_workqueue_adds_total{name=\"machinedeployment\"}".to_owned(),
        "mcm_workqueue_adds_total{name=\"machinesafetyovershooting\"}".to_owned(),
        "mcm_machine_set_status_replicas{".to_owned(),
        "mcm_machine_set_status_available_replicas{".to_owned(),
        "mcm_machine_set_status_fully_labelled_replicas{".to_owned(),
        "mcm_machine_set_status_ready_replicas{".to_owned(),
        "mcm_machine_set_info{".to_owned(),
        "mcm_machine_set_info_spec_replicas{".to_owned(),
        "mcm_machine_set_info_spec_min_ready_seconds{".to_owned(),
        "mcm_machine_stale_machines_total 0".to_owned(),
        "mcm_machine_deployment_items_total 1".to_owned(),
        format!(
            "mcm_machine_deployment_info{{{names},createdAt=\"1767225600\",spec_strategy_type=\"RollingUpdate\"}} 1"
        ),
        format!("mcm_machine_deployment_info_spec_replicas{{{names}}} 2"),
        format!("mcm_machine_deployment_info_spec_paused{{{names}}} 0"),
        format!("mcm_machine_deployment_info_spec_min_ready_seconds{{{names}}} 0"),
        format!("mcm_machine_deployment_info_spec_rolling_update_max_surge{{{names}}} 1"),
        format!("mcm_machine_deployment_info_spec_rolling_update_max_unavailable{{{names}}} 0"),
        format!("mcm_machine_deployment_info_spec_revision_history_limit{{{names}}} 3"),
        format!("mcm_machine_deployment_info_spec_progress_deadline_seconds{{{names}}} 600"),
        format!("mcm_machine_deployment_status_condition{{{names},condition=\"Available\"}} 1"),
        format!("mcm_machine_deployment_status_available_replicas{{{names}}} 2"),
        format!("mcm_machine_deployment_status_unavailable_replicas{{{names}}} 0"),
        format!("mcm_machine_deployment_status_ready_replicas{{{names}}} 2"),
        format!("mcm_machine_deployment_status_updated_replicas{{{names}}} 2"),
        format!("mcm_machine_deployment_status_replicas{{{names}}} 2"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    api::<MachineDeployment>(&admin).delete("d", &DeleteParams::default()).await.unwrap();
    world.run_until("nothing is left", SOON, async || nothing_is_left(&admin).await).await.unwrap();
    world.run_for(Duration::from_secs(1)).await;
    assert!(!metrics.text().contains(names), "{}", metrics.text());
}

#[tokio::test(start_paused = true)]
async fn machines_are_updated_in_place_in_a_cluster() {
    let mut world = puppet_world(Plan::seeded(37)).await;
    start_sets(&mut world);
    let admin = world.client();
    let nodes: Api<Node> = Api::all(admin.clone());
    let strategy = json!({"type": "InPlaceUpdate", "inPlaceUpdate":
        {"maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto"}});
    api::<MachineDeployment>(&admin)
        .create(&PostParams::default(), &from(deployment("d", 2, &strategy)))
        .await
        .unwrap();
    world.run_until("it is up", SOON, async || is_rolled_out(&admin, "d", "small", 2).await).await.unwrap();
    let before: Vec<_> = machines(&admin).await.iter().map(ResourceExt::name_any).collect();
    for name in &before {
        let node: Node = from(json!({"metadata": {"name": name}}));
        nodes.create(&PostParams::default(), &node).await.unwrap();
        patch::<Machine>(&admin, name, json!({"metadata": {"labels": {"node": name}}})).await;
    }
    let class = json!({"spec": {"template": {"spec": {"class": {"name": "large"}}}}});
    patch::<MachineDeployment>(&admin, "d", class).await;
    for _ in 0..2 {
        let selected = async || !selected_nodes(&nodes).await.is_empty();
        world.run_until("a node is selected", SOON, selected).await.unwrap();
        world.run_for(Duration::from_secs(30)).await;
        let selected = selected_nodes(&nodes).await;
        assert_eq!(selected.len(), 1, "one at a time");
        // Whoever updates nodes, and the machine controller.
        let condition = json!([{"type": "InPlaceUpdate", "status": "True", "reason": "UpdateSuccessful"}]);
        let (params, name) = (PatchParams::default(), &selected[0]);
        let done = Patch::Merge(json!({"status": {"conditions": condition}}));
        nodes.patch_status(name, &params, &done).await.unwrap();
        let result =
            Patch::Merge(json!({"metadata": {"labels": {names::UPDATE_RESULT_LABEL: "successful"}}}));
        nodes.patch(name, &params, &result).await.unwrap();
        let done = Patch::Merge(json!({"status": {"conditions": condition}}));
        api::<Machine>(&admin).patch_status(name, &params, &done).await.unwrap();
        let back = async || nodes.get(name).await.unwrap().labels().is_empty();
        world.run_until("it is back in service", SOON, back).await.unwrap();
    }
    let complete = async || {
        let sets = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items;
        let replicas: BTreeMap<_, _> =
            sets.iter().map(|set| (set.spec.template.spec.class.name.clone(), set.spec.replicas)).collect();
        replicas == BTreeMap::from([("small".to_owned(), 0), ("large".to_owned(), 2)])
    };
    world.run_until("all replicas have moved", SOON, complete).await.unwrap();
    world.run_for(Duration::from_mins(1)).await;
    let after: Vec<_> = machines(&admin).await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(after, before, "the same machines");
}

async fn selected_nodes(nodes: &Api<Node>) -> Vec<String> {
    let all = nodes.list(&ListParams::default()).await.unwrap().items;
    let selected = all.iter().filter(|node| {
        node.labels().contains_key(names::SELECTED_LABEL)
            && !node.labels().contains_key(names::UPDATE_RESULT_LABEL)
    });
    selected.map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_else_has_is_passed_by() {
    let mut world = puppet_world(Plan::seeded(38)).await;
    let admin = world.client();
    let up = async |world: &mut World| {
        world
            .run_until("it is up", SOON, async || is_rolled_out(&admin, "d", "small", 1).await)
            .await
            .unwrap();
    };
    let wanted = || from(deployment("d", 1, &rolling(1, 0)));
    start_sets(&mut world);
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &wanted()).await.unwrap();
    up(&mut world).await;
    let name = api::<MachineSet>(&admin).list(&ListParams::default()).await.unwrap().items[0].name_any();
    api::<MachineDeployment>(&admin).delete("d", &DeleteParams::default()).await.unwrap();
    world.run_until("nothing is left", SOON, async || nothing_is_left(&admin).await).await.unwrap();
    let mut taken = set("other", 0);
    taken["metadata"]["name"] = json!(name);
    api::<MachineSet>(&admin).create(&PostParams::default(), &from(taken)).await.unwrap();
    api::<MachineDeployment>(&admin).create(&PostParams::default(), &wanted()).await.unwrap();
    up(&mut world).await;
    let deployment = api::<MachineDeployment>(&admin).get("d").await.unwrap();
    assert_eq!(deployment.status.unwrap().collision_count, Some(1));
    assert_eq!(api::<MachineSet>(&admin).get(&name).await.unwrap().spec.replicas, 0);
}
