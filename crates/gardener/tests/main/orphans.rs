//! Servers that no Machine owns go, and no others.

use crate::{
    crowd::{Estate, Rules, Weather, watch_rules},
    crowd_sweep::{committed, other, passed, unknown},
    flow::{CLUSTER, LONG, NAMESPACE, OTHER_CLUSTER, PROJECT, REGION, SOON, Stage, class, secret},
};
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_gardener::{Options, OrphanOptions, api::Machine};
use hostler_sim::{
    Boundary, Break, Class, Fault, Finished, Plan, Sweep,
    stackit::{Fault as Refusal, Settings, Stackit},
};
use http::{Method, Request, Response};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";

/// A server as the machine controller would have ordered it, whoever's cluster it is.
pub fn plant(stage: &Stage, name: &str, class: &str, cluster: &str) -> String {
    let labels = [
        ("kubernetes.io/machine", name),
        ("kubernetes.io/machineclass", class),
        ("kubernetes.io/cluster", cluster),
    ];
    stage.cloud.add_foreign(PROJECT, REGION, name, &labels)
}

/// A Machine that has this server.
async fn own(stage: &Stage, name: &str, class: &str, server: &str, phase: &str) {
    let machine = json!({
        "metadata": {"name": name, "finalizers": [FINALIZER], "labels": {"node": name},
            "annotations": {"machinepriority.machine.sapcloud.io": "3"}},
        "spec": {"class": {"kind": "MachineClass", "name": class}, "providerID": format!("stackit://{PROJECT}/{server}")},
    });
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    stage.create(machines.clone(), machine).await;
    let status = json!({"status": {"currentStatus": {"phase": phase},
        "lastOperation": {"type": "Create", "state": "Successful", "description": "it runs"}}});
    machines.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

fn large() -> Value {
    let mut large = class();
    large["metadata"]["name"] = json!("large");
    large
}

/// Machines that run, two classes, servers of others; nobody looks after them yet.
struct Scene {
    stage: Stage,
    /// Servers that must stay whatever happens.
    kept: BTreeSet<String>,
}

impl Scene {
    async fn new(plan: Plan, settings: Settings) -> Self {
        // Without nodes nobody looks after them, and the scene is calm.
        let phase = if settings.joins_without_token { "Running" } else { "Available" };
        let stage = Stage::unobserved(plan, settings).await;
        stage.create_class_and_secret().await;
        stage.create(stage.classes(), large()).await;
        let mut kept: BTreeSet<String> = [stage.foreign.clone()].into();
        for (name, class) in [("m-1", "small"), ("m-2", "small"), ("m-3", "large")] {
            let server = plant(&stage, name, class, CLUSTER);
            own(&stage, name, class, &server, phase).await;
            kept.insert(server);
        }
        kept.insert(plant(&stage, "lost-1", "small", OTHER_CLUSTER));
        kept.insert(stage.cloud.add_foreign(PROJECT, REGION, "by-hand", &[]));
        let cluster = [("kubernetes.io/cluster", CLUSTER), ("kubernetes.io/machineclass", "small")];
        kept.insert(stage.cloud.add_foreign(PROJECT, REGION, "gateway", &cluster));
        stage.world.run_for(Duration::from_secs(15)).await;
        Self { stage, kept }
    }

    /// After every call: what must stay is there as it was, with its volumes and NICs, and nothing of the others is left
    /// alone.
    fn observe(&self) {
        let strangers = Estate::of(&self.stage.cloud).only(|server| self.kept.contains(&server.id));
        let rules = Rules { strangers, orphans: true, ..Rules::default() };
        let machines = Api::<Machine>::namespaced(self.stage.admin.clone(), NAMESPACE);
        watch_rules(&self.stage, Arc::new(Mutex::new(rules)), machines);
    }

    async fn run_until_gone(&mut self, server: &str, limit: Duration) -> Result<(), String> {
        let cloud = self.stage.cloud.clone();
        let what = format!("the server {server} is gone");
        let gone = async || !cloud.servers().iter().any(|there| there.id == server);
        self.stage.world.run_until(&what, limit, gone).await
    }

    fn has(&self, server: &str) -> bool {
        self.stage.cloud.servers().iter().any(|there| there.id == server && there.status != "DELETING")
    }
}

fn options(change: impl FnOnce(&mut OrphanOptions)) -> Options {
    let mut options = Options::default();
    change(&mut options.orphans);
    options
}

/// Two orphans of two classes are collected, and nothing else is touched.
async fn collection(plan: Plan, weather: Weather) -> Finished {
    let mut scene = Scene::new(weather.plan(plan), weather.settings()).await;
    let lost =
        [plant(&scene.stage, "lost-1", "small", CLUSTER), plant(&scene.stage, "lost-2", "large", CLUSTER)];
    scene.observe();
    scene.stage.start_controller_with(&options(|orphans| {
        orphans.grace = Duration::from_mins(1);
        orphans.period = Duration::from_mins(5);
    }));
    let mut goal = Ok(());
    for server in &lost {
        if goal.is_ok() {
            goal = scene.run_until_gone(server, Duration::from_hours(1)).await;
        }
    }
    // Whatever is on its way would show up now.
    scene.stage.world.run_for(Duration::from_secs(10)).await;
    scene.stage.world.finish(goal)
}

#[tokio::test(start_paused = true)]
async fn orphans_are_given_time_and_then_go() {
    let mut scene = Scene::new(Plan::seeded(1), Settings::default()).await;
    scene.observe();
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    scene.stage.start_controller();
    scene.stage.world.run_for(Duration::from_secs(290)).await;
    assert!(scene.has(&lost), "it was seen once");
    scene.run_until_gone(&lost, Duration::from_secs(30)).await.unwrap();
    let told = scene.stage.told("small").await;
    assert!(
        told.iter().any(|event| event.starts_with("OrphanDeletionOrdered") && event.contains(&lost)),
        "{told:?}"
    );
    scene.stage.world.run_for(LONG).await;
    assert_eq!(scene.stage.world.wire().unwrap().violations().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_an_orphan_goes_the_volume_that_nobody_told_to_go() {
    let mut scene = Scene::new(Plan::seeded(13), Settings::default()).await;
    let without_word = json!({"providerSpec": {"bootVolume": null}});
    scene.stage.patch(scene.stage.classes(), "small", without_word).await;
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    assert!(scene.stage.cloud.let_volumes_stay(&lost));
    scene.observe();
    let count = scene.stage.cloud.volumes().len();
    scene.stage.start_controller();
    scene.run_until_gone(&lost, LONG).await.unwrap();
    let volumes = scene.stage.cloud.volumes();
    assert_eq!(volumes.len(), count - 1);
    assert!(volumes.iter().all(|volume| volume.server.is_some()), "{volumes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_torn_out_of_its_finalizer_leaves_no_server() {
    let mut scene = Scene::new(Plan::seeded(2), Settings::default()).await;
    scene.stage.start_controller();
    scene.stage.world.run_for(Duration::from_mins(1)).await;
    let servers = scene.stage.cloud.servers();
    let lost = servers.iter().find(|server| server.name == "m-2").unwrap().id.clone();
    scene.stage.patch(scene.stage.machines(), "m-2", json!({"metadata": {"finalizers": null}})).await;
    scene.stage.delete_machine("m-2").await;
    scene.kept.remove(&lost);
    scene.observe();
    // Long before the next look that would be due.
    scene.run_until_gone(&lost, Duration::from_mins(6)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_which_a_go_controller_has_found_several_servers_is_looked_at_soon() {
    let mut scene = Scene::new(Plan::seeded(12), Settings::default()).await;
    scene.stage.start_controller_with(&options(|orphans| {
        orphans.grace = Duration::from_secs(30);
        orphans.period = Duration::from_hours(12);
    }));
    scene.stage.world.run_for(Duration::from_mins(1)).await;
    let second = plant(&scene.stage, "m-2", "small", CLUSTER);
    scene.observe();
    scene.stage.world.run_for(Duration::from_mins(30)).await;
    assert!(scene.has(&second), "nobody had a reason to look");
    let said = json!({"status": {"lastOperation": {"type": "Create", "state": "Failed",
        "description": "Cloud provider message - machine codes error: code = [OutOfRange] message = [two servers]"}}});
    let machines = Api::<Machine>::namespaced(scene.stage.admin.clone(), NAMESPACE);
    machines.patch_status("m-2", &PatchParams::default(), &Patch::Merge(said)).await.unwrap();
    scene.run_until_gone(&second, Duration::from_mins(2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_only_tells() {
    let mut scene = Scene::new(Plan::seeded(3), Settings::default()).await;
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    scene.kept.insert(lost.clone());
    scene.observe();
    scene.stage.start_controller_with(&options(|orphans| orphans.dry_run = true));
    scene.stage.world.run_for(Duration::from_hours(2)).await;
    let told = scene.stage.told("small").await;
    let found: Vec<&String> = told.iter().filter(|event| event.starts_with("OrphanFound")).collect();
    assert_eq!(found.len(), 1, "{told:?}");
    assert!(found[0].contains(&lost) && found[0].contains("lost-1"), "{found:?}");
    assert!(scene.has(&lost));
}

#[tokio::test(start_paused = true)]
async fn when_most_of_a_class_looks_orphaned_people_decide() {
    let mut scene = Scene::new(Plan::seeded(4), Settings::default()).await;
    scene.observe();
    let lost: Vec<String> =
        (1..=4).map(|number| plant(&scene.stage, &format!("lost-{number}"), "small", CLUSTER)).collect();
    let other = plant(&scene.stage, "lost-5", "large", CLUSTER);
    scene.stage.start_controller_with(&options(|orphans| orphans.limit = 2));
    scene.run_until_gone(&other, LONG).await.unwrap();
    scene.stage.world.run_for(Duration::from_hours(2)).await;
    assert!(lost.iter().all(|server| scene.has(server)), "another class is not concerned");
    let told = scene.stage.told("small").await;
    assert_eq!(
        told.iter().filter(|event| event.starts_with("ManyOrphans: 4 of 7 servers")).count(),
        1,
        "{told:?}"
    );

    let yes = json!({"metadata": {"annotations": {"machine.hostler.dev/collect-orphans": "true"}}});
    scene.stage.patch(scene.stage.classes(), "small", yes).await;
    scene.stage.world.run_for(Duration::from_secs(30)).await;
    assert_eq!(lost.iter().filter(|server| scene.has(server)).count(), 2, "not more than the limit at once");
    for server in &lost {
        scene.run_until_gone(server, SOON).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_cloud_does_not_answer_holds_up_no_other() {
    let settings = Settings { tokens: ["open sesame".to_owned()].into(), ..Settings::default() };
    let mut scene = Scene::new(Plan::seeded(5), settings).await;
    for (name, token) in [("refused", Some("wrong")), ("missing", None)] {
        if let Some(token) = token {
            let mut wrong = secret();
            wrong["metadata"]["name"] = json!(name);
            wrong["stringData"]["apiToken"] = json!(token);
            scene.stage.create(scene.stage.secrets(), wrong).await;
        }
        let mut class = class();
        // Before the others, in every order.
        class["metadata"]["name"] = json!(format!("a-{name}"));
        class["secretRef"]["name"] = json!(name);
        scene.stage.create(scene.stage.classes(), class).await;
    }
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    scene.kept.insert(plant(&scene.stage, "lost-2", "a-refused", CLUSTER));
    scene.observe();
    scene.stage.start_controller();
    scene.run_until_gone(&lost, LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_no_watch_has_shown_keeps_its_server() {
    let blind = Arc::new(AtomicBool::new(false));
    let is_blind = Arc::clone(&blind);
    let plan = Plan::seeded(6).fault_when(move |boundary, class| {
        let machines = class == Class::Watch && boundary.template.ends_with("/machines");
        let dead = Fault::Watch { after: 0, then: Break::Dead };
        (machines && is_blind.load(Ordering::Relaxed)).then_some(dead)
    });
    let mut scene = Scene::new(plan, Settings::default()).await;
    scene.stage.start_controller();
    scene.stage.world.run_for(Duration::from_mins(1)).await;
    blind.store(true, Ordering::Relaxed);
    scene.stage.world.run_for(Duration::from_mins(2)).await;
    let server = plant(&scene.stage, "m-9", "small", CLUSTER);
    own(&scene.stage, "m-9", "small", &server, "Running").await;
    scene.kept.insert(server);
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    scene.observe();
    scene.run_until_gone(&lost, LONG).await.unwrap();
    scene.stage.world.run_for(LONG).await;
    assert_eq!(scene.stage.world.wire().unwrap().violations().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_two_servers_of_a_machine_the_one_without_a_ready_node_goes() {
    let mut scene = Scene::new(Plan::seeded(7), Settings::default()).await;
    // Its node has another server's name already, so it has none of its own.
    let second = plant(&scene.stage, "m-2", "small", CLUSTER);
    scene.observe();
    scene.stage.start_controller();
    scene.run_until_gone(&second, LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_class_is_let_go_only_when_its_servers_are_gone() {
    let mut scene = Scene::new(Plan::seeded(8), Settings::default()).await;
    scene.stage.start_controller();
    scene.stage.world.run_for(Duration::from_secs(30)).await;
    let lost = plant(&scene.stage, "lost-1", "large", CLUSTER);
    scene.stage.classes().delete("large", &DeleteParams::default()).await.unwrap();
    scene.stage.delete_machine("m-3").await;
    scene.stage.run_until_gone("m-3", SOON).await.unwrap();
    scene.stage.world.run_for(Duration::from_mins(2)).await;
    assert!(scene.has(&lost) && scene.stage.classes().get_opt("large").await.unwrap().is_some());
    let told = scene.stage.told("large").await;
    assert!(told.iter().any(|event| event.starts_with("ServersLeft") && event.contains(&lost)), "{told:?}");

    // The node of the last one is Ready: somebody has to say that it is not needed.
    let yes = json!({"metadata": {"annotations": {"machine.hostler.dev/collect-orphans": "true"}}});
    scene.stage.patch(scene.stage.classes(), "large", yes).await;
    scene.run_until_gone(&lost, LONG).await.unwrap();
    let classes = scene.stage.classes();
    let gone = async || classes.get_opt("large").await.is_ok_and(|class| class.is_none());
    scene.stage.world.run_until("the class is gone", SOON, gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_class_stays_while_nobody_can_tell_whether_servers_are_left() {
    let settings = Settings { tokens: ["open sesame".to_owned()].into(), ..Settings::default() };
    let mut scene = Scene::new(Plan::seeded(9), settings).await;
    scene.stage.start_controller();
    scene.stage.world.run_for(Duration::from_secs(30)).await;
    scene.stage.classes().delete("large", &DeleteParams::default()).await.unwrap();
    scene.stage.patch(scene.stage.machines(), "m-3", json!({"metadata": {"finalizers": null}})).await;
    scene.stage.cloud.set(|settings| settings.tokens = ["another".to_owned()].into());
    scene.stage.delete_machine("m-3").await;
    scene.stage.world.run_for(LONG).await;
    assert!(scene.stage.classes().get_opt("large").await.unwrap().is_some());
    let told = scene.stage.told("large").await;
    assert!(told.iter().any(|event| event.starts_with("ServersUnknown")), "{told:?}");
}

/// The way to the cloud, on which whoever asks for this server is told other labels of it than lists tell.
fn with_other_labels(cloud: &Stackit, server: String, labels: Value) -> Transport {
    let cloud = cloud.transport();
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let asked = *request.method() == Method::GET && request.uri().path().ends_with(&server);
        let (labels, call) = (labels.clone(), transport::exchange(&cloud, request, 1 << 20));
        async move {
            let (head, body) = call.await?.into_parts();
            if !asked {
                return Ok::<_, BoxError>(Response::from_parts(head, transport::full(body)));
            }
            let mut told: Value = serde_json::from_slice(&body)?;
            told["labels"] = labels;
            Ok(Response::new(transport::full(told.to_string())))
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_shows_other_labels_to_who_asks_is_none() {
    let label = |machine: &str, class: &str, cluster: &str| {
        json!({"kubernetes.io/machine": machine, "kubernetes.io/machineclass": class,
            "kubernetes.io/cluster": cluster})
    };
    for (labels, goes) in [
        (label("lost-1", "small", CLUSTER), true),
        (label("lost-1", "small", OTHER_CLUSTER), false),
        (label("lost-1", "large", CLUSTER), false),
        (label("m-1", "small", CLUSTER), false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        let mut scene = Scene::new(Plan::seeded(14), Settings::default()).await;
        let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
        let way = with_other_labels(&scene.stage.cloud, lost.clone(), labels.clone());
        scene.stage.world.add_server("stackit", Stackit::paths(), way);
        scene.stage.start_controller();
        scene.stage.world.run_for(Duration::from_hours(1)).await;
        assert_eq!(scene.has(&lost), !goes, "{labels}");
        assert_eq!(scene.stage.cloud.calls().contains_key("DeleteServer"), goes, "{labels}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_cannot_be_deleted_is_told_and_tried_again() {
    let mut scene = Scene::new(Plan::seeded(15), Settings::default()).await;
    scene.stage.cloud.add_fault(Refusal::on("DeleteServer").status(403)).unwrap();
    let lost = plant(&scene.stage, "lost-1", "small", CLUSTER);
    scene.stage.start_controller();
    scene.stage.world.run_for(LONG).await;
    let told = scene.stage.told("small").await;
    let stays = format!("OrphanStays: the orphaned server stackit://{PROJECT}/{lost} could not be deleted: ");
    assert!(told.iter().any(|event| event.starts_with(&stays)), "{told:#?}");
    assert!(scene.has(&lost));
    scene.stage.cloud.clear_faults();
    scene.run_until_gone(&lost, LONG).await.unwrap();
}

/// The calls that collection makes or depends on; what else the controller does is broken elsewhere.
fn concerns(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let of_interest = ["/servers", "/servers/{server}", "/machines", "/machines/{name}", "/machineclasses"];
    let machines = boundary.actor == "machine-controller"
        && of_interest.iter().any(|end| boundary.template.ends_with(end));
    let watches = !matches!(fault, Fault::Watch { after: 2.., .. });
    machines && (class != Class::Watch || watches)
}

#[test]
fn collection_survives_every_fault_at_every_call() {
    let sweep = Sweep::new("orphan collection", 1).only(concerns);
    passed(&sweep.run(async |plan| collection(plan, Weather::Fair).await).unwrap());
}

/// The other calls of a process that collects: the lists of volumes, what is written on classes and Secrets, events, and
/// everything that is watched.
#[test]
fn collection_survives_a_crash_and_unknown_outcomes_at_all_its_other_calls() {
    let others = |class, boundary: &Boundary, fault: &Fault| !concerns(class, boundary, fault);
    let unknown_or_crashed = |class, fault: &Fault| *fault == Fault::CrashBefore || unknown(class, fault);
    let sweep = Sweep::new("orphan collection, other calls, unknown outcomes", 1).only(
        move |class, boundary, fault| unknown_or_crashed(class, fault) && others(class, boundary, fault),
    );
    passed(&sweep.run(async |plan| collection(plan, Weather::Fair).await).unwrap());
    let sweep =
        Sweep::new("orphan collection, other calls, other faults", 1).only(move |class, boundary, fault| {
            !unknown_or_crashed(class, fault)
                && other(class, boundary, fault)
                && others(class, boundary, fault)
        });
    passed(&sweep.every(7).run(async |plan| collection(plan, Weather::Fair).await).unwrap());
}

#[test]
fn collection_makes_the_committed_calls() {
    let calm = collection(Plan::seeded(1), Weather::Fair);
    committed(&hostler_sim::sweep::paused(calm).unwrap(), "orphans.txt");
}

fn unknown_outcomes(class: Class, boundary: &Boundary, fault: &Fault) -> bool {
    let unknown =
        matches!(fault, Fault::CrashBefore | Fault::CrashAfter | Fault::TimeoutAfter | Fault::Behind(_));
    unknown && concerns(class, boundary, fault)
}

#[test]
fn collection_survives_unknown_outcomes_in_foul_weather() {
    for weather in Weather::FOUL {
        let sweep = Sweep::new(&format!("orphan collection, {weather:?}"), 1).only(unknown_outcomes);
        passed(&sweep.run(async |plan| collection(plan, weather).await).unwrap());
        let sweep = Sweep::new(&format!("orphan collection, other calls, {weather:?}"), 1)
            .only(|class, boundary, fault| unknown(class, fault) && !concerns(class, boundary, fault));
        passed(&sweep.every(3).run(async |plan| collection(plan, weather).await).unwrap());
    }
}
