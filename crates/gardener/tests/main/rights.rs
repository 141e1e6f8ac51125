//! The controller works with the rights that `deploy/gardener` gives it, which are none beyond those that Gardener gives
//! the container it takes the place of, and also where it may not write events.

use crate::{
    flow::{CLUSTER, LONG, NAMESPACE, Seat, Stage, controller_on, machine},
    orphans::plant,
};
use hostler_apiserver::User;
use hostler_gardener::{Options, api::Phase};
use hostler_sim::{
    Paths, Plan,
    agent::AgentSettings,
    csi::{CsiSettings, STACKIT_BLOCK_STORAGE},
    stackit::Settings,
};
use k8s_openapi::api::{
    core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path, time::Duration};

const DEPLOYED: &str = "../../deploy/gardener";
const SIDECAR: &str = "tests/sidecar";
const SOON: Duration = Duration::from_mins(10);
/// Who works in the target cluster, so that a right in the wrong file is missed.
const TARGET_ACCOUNT: &str = "machine-controller-target";

/// The objects of a cluster's file in a directory.
fn manifests(directory: &str, cluster: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(format!("{cluster}-cluster.yaml"));
    serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Applies them for this namespace and account, each rule if it is wanted.
async fn apply(client: &Client, objects: Vec<Value>, account: &str, wanted: impl Fn(&Value) -> bool) {
    for mut object in objects {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let namespace = match object["metadata"]["namespace"].as_str() {
            Some("default") => Some(NAMESPACE),
            Some(_) => Some("kube-system"),
            None => None,
        };
        object["metadata"]["namespace"] = json!(namespace);
        if let Some(rules) = object["rules"].as_array_mut() {
            rules.retain(&wanted);
        }
        for subject in object["subjects"].as_array_mut().into_iter().flatten() {
            subject["namespace"] = json!(NAMESPACE);
            subject["name"] = json!(account);
        }
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
}

fn account(name: &str) -> User {
    let groups = ["system:serviceaccounts", "system:authenticated"];
    User {
        name: format!("system:serviceaccount:{NAMESPACE}:{name}"),
        uid: String::new(),
        groups: groups.map(str::to_owned).into(),
    }
}

/// A pod with a volume that is attached to its node.
async fn put_a_pod_on(stage: &mut Stage, node: &str) {
    let pv = json!({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": STACKIT_BLOCK_STORAGE, "volumeHandle": "v"},
        "claimRef": {"name": "data", "namespace": NAMESPACE}}});
    stage.create(Api::<PersistentVolume>::all(stage.admin.clone()), pv).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"volumeName": "pv",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), NAMESPACE);
    stage.create(claims, claim).await;
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), pod).await;
    let attachments = Api::<VolumeAttachment>::all(stage.admin.clone());
    let attachment = json!({"metadata": {"name": "va"}, "spec": {"attacher": STACKIT_BLOCK_STORAGE,
        "nodeName": node, "source": {"persistentVolumeName": "pv"}}});
    stage.create(attachments.clone(), attachment).await;
    let attached = async || {
        let status = attachments.get("va").await.ok().and_then(|one| one.status);
        status.is_some_and(|status| status.attached)
    };
    stage.world.run_until("the volume is attached", SOON, attached).await.unwrap();
}

/// Until the node's condition gives this reason.
async fn until_told(stage: &mut Stage, node: &str, condition: &str, reason: &str) {
    let nodes = Api::<Node>::all(stage.admin.clone());
    let what = format!("the node says {condition} {reason}");
    let told = async || {
        let status = nodes.get(node).await.ok().and_then(|node| node.status).unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        let told = conditions.find(|told| told.type_ == condition);
        told.and_then(|told| told.reason).as_deref() == Some(reason)
    };
    stage.world.run_until(&what, SOON, told).await.unwrap();
}

/// A node is kept for somebody and let go, then updated in place.
async fn keep_and_update(stage: &mut Stage, node: &str) {
    let nodes = Api::<Node>::all(stage.admin.clone());
    let preserve = "node.machine.sapcloud.io/preserve";
    stage.patch(nodes.clone(), node, json!({"metadata": {"annotations": {preserve: "now"}}})).await;
    until_told(stage, node, "Preserved", "Preserved by user.").await;
    stage.patch(nodes.clone(), node, json!({"metadata": {"annotations": {preserve: null}}})).await;
    until_told(stage, node, "Preserved", "Preservation stopped.").await;
    for label in ["candidate-for-update", "selected-for-update"] {
        let label = format!("node.machine.sapcloud.io/{label}");
        stage.patch(nodes.clone(), node, json!({"metadata": {"labels": {label: "true"}}})).await;
    }
    until_told(stage, node, "InPlaceUpdate", "UpdateSuccessful").await;
}

/// A machine is kept for a while, updated in place and drained of a pod with a volume, and a server has lost its Machine;
/// gives the calls that were forbidden, and how many events there are.
async fn live(directory: &str, wanted: impl Fn(&Value) -> bool + Copy) -> (Vec<String>, usize) {
    // What has no token does not join: the server that nobody owns is no node.
    let settings = Settings { joins_without_token: false, ..Settings::default() };
    let mut stage = Stage::unobserved(Plan::seeded(92), settings).await;
    let orphan = plant(&stage, "lost", "small", CLUSTER);
    stage.world.start_agents(AgentSettings::default());
    stage.world.start_csi(CsiSettings::default());
    let api = stage.world.api().unwrap().clone();
    apply(&stage.admin, manifests(directory, "control"), "machine-controller", wanted).await;
    apply(&stage.admin, manifests(directory, "target"), TARGET_ACCOUNT, wanted).await;
    stage.world.add_server("control", Paths::Kubernetes, api.transport(account("machine-controller")));
    let seat = Seat { control: "control", ..Seat::default() };
    stage.world.start_through(api.transport(account(TARGET_ACCOUNT)), "machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, Options::default()))
    });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    keep_and_update(&mut stage, "m-2").await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    put_a_pod_on(&mut stage, "m-2").await;
    let cloud = stage.cloud.clone();
    let collected = async || !cloud.servers().iter().any(|server| server.id == orphan);
    stage.world.run_until("the orphan is gone", LONG, collected).await.unwrap();
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
    let attachments = Api::<VolumeAttachment>::all(stage.admin.clone());
    assert_eq!(attachments.get_opt("va").await.unwrap(), None, "its volume lets go of the node that is gone");
    let events = Api::<Event>::namespaced(stage.admin.clone(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let own = events.iter().filter(|event| {
        event.source.as_ref().is_some_and(|source| source.component.as_deref() == Some("machine-controller"))
    });
    let trace = stage.world.wire().unwrap().trace();
    assert!(trace.contains("-> 20"), "the trace tells of answers:\n{trace}");
    (trace.lines().filter(|line| line.contains("-> 403")).map(str::to_owned).collect(), own.count())
}

#[tokio::test(start_paused = true)]
async fn no_call_is_forbidden_with_the_rights_that_are_deployed_or_gardener_gives() {
    for directory in [DEPLOYED, SIDECAR] {
        let (forbidden, events) = live(directory, |_| true).await;
        assert_eq!(forbidden, [""; 0], "{directory}");
        assert!(events > 0, "{directory}: events are written");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_works_where_events_are_forbidden() {
    let (forbidden, events) = live(SIDECAR, |rule| rule["resources"] != json!(["events"])).await;
    assert!(!forbidden.is_empty() && events == 0);
    let others: Vec<&String> = forbidden.iter().filter(|line| !line.contains("/events ")).collect();
    assert_eq!(others, [""; 0]);
}

/// What is allowed, as (scope, group, resource, name, verb).
fn allowed(directory: &str) -> BTreeSet<[String; 5]> {
    let mut allowed = BTreeSet::new();
    for cluster in ["control", "target"] {
        for object in manifests(directory, cluster) {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("everywhere");
            for rule in object["rules"].as_array().into_iter().flatten() {
                let texts = |field: &str| -> Vec<String> {
                    let list = rule[field].as_array().into_iter().flatten();
                    list.map(|text| text.as_str().unwrap().to_owned()).collect()
                };
                let names =
                    if rule["resourceNames"].is_array() { texts("resourceNames") } else { vec!["*".into()] };
                for (group, resource, name) in texts("apiGroups").into_iter().flat_map(|group| {
                    let names = &names;
                    texts("resources").into_iter().flat_map(move |resource| {
                        let group = group.clone();
                        names.iter().map(move |name| (group.clone(), resource.clone(), name.clone()))
                    })
                }) {
                    let scope = format!("{cluster}/{namespace}");
                    allowed.extend(
                        texts("verbs")
                            .into_iter()
                            .map(|verb| [scope.clone(), group.clone(), resource.clone(), name.clone(), verb]),
                    );
                }
            }
        }
    }
    allowed
}

#[test]
fn nothing_is_deployed_that_gardener_does_not_give() {
    let given = allowed(SIDECAR);
    let fits = |wanted: &[String; 5]| {
        let fits_one = |one: &[String; 5]| {
            let same = |index: usize| one[index] == "*" || one[index] == wanted[index];
            one[0] == wanted[0] && one[1] == wanted[1] && same(2) && same(3) && same(4)
        };
        given.iter().any(fits_one)
    };
    let deployed = allowed(DEPLOYED);
    assert!(deployed.len() > 30, "{deployed:?}");
    let beyond: Vec<_> = deployed.iter().filter(|wanted| !fits(wanted)).collect();
    assert_eq!(beyond, Vec::<&[String; 5]>::new());
}
