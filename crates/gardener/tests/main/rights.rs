//! The controller works with the rights that `deploy/gardener` gives it, which are none beyond those that Gardener gives
//! the container it takes the place of, and also where it may not write events.

use crate::flow::{NAMESPACE, Seat, Stage, controller_on, machine};
use hostler_apiserver::User;
use hostler_gardener::{Options, api::Phase};
use hostler_sim::{Paths, Plan, stackit::Settings};
use k8s_openapi::api::core::v1::{Event, Pod};
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

/// A machine with a pod on it comes and goes; gives the calls that were forbidden, and how many events there are.
async fn live(directory: &str, wanted: impl Fn(&Value) -> bool + Copy) -> (Vec<String>, usize) {
    let mut stage = Stage::new(Plan::seeded(92), Settings::default()).await;
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
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE);
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": "m-2", "containers": [{"name": "c", "image": "i"}]}});
    stage.create(pods, pod).await;
    stage.world.run_for(Duration::from_secs(10)).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
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
