//! The manifests of `deploy/` give each controller what it needs, and nothing is missing; it also works with just the
//! rights of the container whose place it takes, and where it may not write events.

use crate::{
    gardener::a_machine_deployment_lives,
    stage::{Stage, create, given_kubeconfig},
};
use hostler_base::Transport;
use hostler_sim::{
    Boundary, Plan,
    agent::AgentSettings,
    csi::{CsiSettings, STACKIT_BLOCK_STORAGE},
};
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, time::Duration};

/// Who works in the target cluster.
const TARGET_ACCOUNT: &str = "machine-controller-target";

const DEPLOYED: &str = "../../deploy/gardener";
const SETS_DEPLOYED: &str = "../../deploy/gardener-machine-sets";
/// What Gardener gives its sidecar.
const SIDECAR: &str = "../gardener/tests/sidecar";

/// The rights among the objects of a directory, and who has them. Who works with them is started here.
fn manifests(directory: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let all = hostler_control_plane::manifests::read(&directory).unwrap();
    all.into_iter().filter(|object| object["kind"] != "Deployment").collect()
}

/// Applies manifests, made for this namespace: what is for the target cluster gets an account of its own, so
/// that a right in the wrong file is missed.
async fn apply(client: &Client, namespace: &str, manifests: Vec<Value>) {
    for mut object in manifests {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let cluster_wide = kind.starts_with("Cluster");
        let in_kube_system = object["metadata"]["namespace"] == "kube-system";
        let in_target = cluster_wide || in_kube_system;
        if in_target {
            // Other tests have theirs in the same cluster.
            let name = format!("{}-{namespace}", object["metadata"]["name"].as_str().unwrap());
            object["metadata"]["name"] = json!(name);
            if object["roleRef"].is_object() {
                object["roleRef"]["name"] = json!(name);
            }
        } else {
            object["metadata"]["namespace"] = json!(namespace);
        }
        for subject in object["subjects"].as_array_mut().into_iter().flatten() {
            subject["namespace"] = json!(namespace);
            if in_target {
                subject["name"] = json!(TARGET_ACCOUNT);
            }
        }
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = if cluster_wide {
            Api::all_with(client.clone(), &resource)
        } else {
            let namespace = if in_kube_system { "kube-system" } else { namespace };
            Api::namespaced_with(client.clone(), namespace, &resource)
        };
        create(api, object).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    create(accounts, json!({"metadata": {"name": TARGET_ACCOUNT}})).await;
}

/// A right: whether it is one in kube-system, the API group, the resource and the verb.
type Right = (bool, String, String, String);

/// What manifests allow.
fn allowed(manifests: &[Value]) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut allowed = BTreeSet::new();
    for object in manifests {
        let in_kube_system = object["metadata"]["namespace"] == "kube-system";
        for rule in object["rules"].as_array().into_iter().flatten() {
            for (group, resource) in texts(&rule["apiGroups"]).iter().flat_map(|group| {
                texts(&rule["resources"]).into_iter().map(move |resource| (group, resource))
            }) {
                let verbs = texts(&rule["verbs"]).into_iter();
                allowed.extend(verbs.map(|verb| (in_kube_system, group.clone(), resource.clone(), verb)));
            }
        }
    }
    allowed
}

/// What the controller did, in the same words.
fn done(stage: &Stage) -> BTreeSet<Right> {
    let recorded = stage.world.wire().unwrap().recording().0;
    recorded.into_iter().filter_map(|(_, call)| right(&call)).collect()
}

/// The right that a call needs; none if it is not for an API server.
fn right(call: &Boundary) -> Option<Right> {
    let verb = match call.verb.as_str() {
        "POST" => "create".to_owned(),
        "PUT" => "update".to_owned(),
        other => other.to_lowercase(),
    };
    let (group, path) = match call.template.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", call.template.strip_prefix("/api/")?),
    };
    let mut segments: Vec<&str> = path.split('/').skip(1).collect();
    let namespaced = segments.first() == Some(&"namespaces") && segments.len() > 2;
    if namespaced {
        segments.drain(..2);
    }
    segments.retain(|segment| !segment.starts_with('{'));
    let in_kube_system = namespaced && call.object.starts_with("kube-system");
    Some((in_kube_system, group.to_owned(), segments.join("/"), verb))
}

#[test]
fn calls_are_told_from_each_other() {
    let cases = [
        ("PATCH", "/api/v1/nodes/{name}", "n", Some((false, "", "nodes", "patch"))),
        (
            "POST",
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "a p",
            Some((false, "", "pods/eviction", "create")),
        ),
        (
            "LIST",
            "/api/v1/namespaces/{namespace}/secrets",
            "kube-system",
            Some((true, "", "secrets", "list")),
        ),
        (
            "PUT",
            "/apis/machine.sapcloud.io/v1alpha1/namespaces/{namespace}/machines/{name}/status",
            "a m",
            Some((false, "machine.sapcloud.io", "machines/status", "update")),
        ),
        ("GET", "/v2/projects/{project}/regions/{region}/servers", "", None),
    ];
    for (verb, template, object, expected) in cases {
        let call = Boundary {
            actor: "c".into(),
            verb: verb.into(),
            template: template.into(),
            object: object.into(),
            nth: 1,
        };
        let expected = expected.map(|(in_kube_system, group, resource, verb)| {
            (in_kube_system, group.to_owned(), resource.to_owned(), verb.to_owned())
        });
        assert_eq!(right(&call), expected, "{template}");
    }
}

/// A transport with the rights of a service account.
async fn as_account(client: &Client, namespace: &str, account: &str) -> Transport {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&request).unwrap());
    let answer: Value = client.request(request.unwrap()).await.unwrap();
    let mut config = crate::stage::config(&given_kubeconfig()).await;
    config.auth_info = kube::config::AuthInfo {
        token: Some(answer["status"]["token"].as_str().unwrap().to_owned().into()),
        ..kube::config::AuthInfo::default()
    };
    hostler_controller::transport_to(config).unwrap()
}

/// The machine controller with the rights that these manifests give, a class and its Secret.
async fn start_with(stage: &mut Stage, manifests: Vec<Value>, more: &[&str]) {
    apply(&stage.admin, &stage.namespace, manifests).await;
    let control = as_account(&stage.admin, &stage.namespace, "machine-controller").await;
    let target = as_account(&stage.admin, &stage.namespace, TARGET_ACCOUNT).await;
    stage.start_controller_through(control, target, more);
    stage.create_class_and_secret().await;
}

fn forbidden(stage: &Stage) -> Vec<String> {
    stage.story().lines().filter(|line| line.contains("-> 403")).map(str::to_owned).collect()
}

/// The Secret with the token that a machine would get if nobody else had its id.
fn first_token(machine: &str) -> String {
    let id = machine.bytes().skip(machine.len() - 5).take(3).map(|byte| format!("{byte:02x}"));
    format!("bootstrap-token-{}", id.collect::<String>())
}

/// Servers without a Machine are given little time, and so are volumes that nobody detaches.
const SOON: [&str; 4] = [
    "--machine-safety-orphan-vms-period=1s",
    "--machine-safety-orphan-vms-grace=1s",
    "--machine-pv-detach-timeout=1s",
    "--machine-pv-reattach-timeout=1s",
];

/// Brings something to a Node.
async fn mark(stage: &Stage, node: &str, metadata: Value) {
    let nodes: Api<Node> = Api::all(stage.admin.clone());
    let patch = Patch::Merge(json!({"metadata": metadata}));
    nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
}

/// Until the node's condition gives this reason.
async fn until_told(stage: &mut Stage, node: &str, condition: &str, reason: &str) {
    let nodes: Api<Node> = Api::all(stage.admin.clone());
    stage
        .run_until(&format!("the node says {condition} {reason}"), async |_| {
            let status = nodes.get(node).await.ok().and_then(|node| node.status).unwrap_or_default();
            let mut conditions = status.conditions.unwrap_or_default().into_iter();
            let told = conditions.find(|told| told.type_ == condition);
            told.and_then(|told| told.reason).as_deref() == Some(reason)
        })
        .await;
}

/// A node is kept for somebody and let go, then updated in place.
async fn keep_and_update(stage: &mut Stage, node: &str) {
    let preserve = "node.machine.sapcloud.io/preserve";
    mark(stage, node, json!({"annotations": {preserve: "now"}})).await;
    until_told(stage, node, "Preserved", "Preserved by user.").await;
    mark(stage, node, json!({"annotations": {preserve: null}})).await;
    until_told(stage, node, "Preserved", "Preservation stopped.").await;
    for label in ["candidate-for-update", "selected-for-update"] {
        mark(stage, node, json!({"labels": {format!("node.machine.sapcloud.io/{label}"): "true"}})).await;
    }
    until_told(stage, node, "InPlaceUpdate", "UpdateSuccessful").await;
    let machines = stage.machines();
    stage.run_until("the machine runs again", async |_| Stage::running(&machines).await == 1).await;
}

/// A claim with a volume of STACKIT's that is attached to a node.
async fn create_claim(stage: &Stage, name: &str, node: &str) {
    let volume = format!("{}-{name}", stage.namespace);
    let size = json!({"storage": "1Gi"});
    let csi = json!({"driver": STACKIT_BLOCK_STORAGE, "volumeHandle": volume});
    let spec = json!({"capacity": size, "accessModes": ["ReadWriteOnce"], "csi": csi, "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"name": name, "namespace": stage.namespace}});
    create(
        Api::<PersistentVolume>::all(stage.admin.clone()),
        json!({"metadata": {"name": volume}, "spec": spec}),
    )
    .await;
    let spec = json!({"volumeName": volume, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": size}});
    let claims = Api::<PersistentVolumeClaim>::namespaced(stage.admin.clone(), &stage.namespace);
    create(claims, json!({"metadata": {"name": name}, "spec": spec})).await;
    let attachment = json!({"metadata": {"name": volume}, "spec": {"attacher": STACKIT_BLOCK_STORAGE,
        "nodeName": node, "source": {"persistentVolumeName": volume}}});
    create(Api::<VolumeAttachment>::all(stage.admin.clone()), attachment).await;
}

/// Machines come and go, drained and by force, with the rights that these manifests give; one is kept for a while and
/// updated in place, a pod has a volume, and a server has lost its Machine. Gives the calls that were forbidden.
async fn live(stage: &mut Stage, manifests: Vec<Value>) -> Vec<String> {
    stage.cloud.set(|settings| settings.joins_without_token = false);
    let update_time = Duration::from_secs(1);
    stage.world.start_agents(AgentSettings { update_time, ..AgentSettings::default() });
    stage.world.start_csi(CsiSettings::default());
    start_with(stage, manifests, &SOON).await;
    let machine = format!("{}-m", stage.namespace);
    let machines = stage.machines();
    let wish =
        json!({"metadata": {"name": machine}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}});
    create(machines.clone(), wish).await;
    stage.run_until("the machine runs", async |_| Stage::running(&machines).await == 1).await;
    keep_and_update(stage, &machine).await;
    let orphan = format!("{}-o", stage.namespace);
    stage.plant_orphan(&orphan);
    // Something to drain, with a volume.
    create_claim(stage, "data", &machine).await;
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), &stage.namespace);
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": machine,
        "containers": [{"name": "web", "image": "x"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    create(pods.clone(), pod).await;
    let attachments: Api<VolumeAttachment> = Api::all(stage.admin.clone());
    let volume = format!("{}-data", stage.namespace);
    stage
        .run_until("the pod runs, and its volume is there", async |_| {
            let status = pods.get("web").await.ok().and_then(|pod| pod.status);
            let runs = status.and_then(|status| status.phase).as_deref() == Some("Running");
            let attachment = attachments.get(&volume).await.ok().and_then(|one| one.status);
            runs && attachment.is_some_and(|status| status.attached)
        })
        .await;
    let cloud = stage.cloud.clone();
    stage
        .run_until("the orphan is gone", async |_| {
            !cloud.servers().iter().any(|server| server.name == orphan)
        })
        .await;
    // Another one goes by force, and takes a pod and an attachment with it.
    let forced = format!("{}-f", stage.namespace);
    let wish = json!({"metadata": {"name": forced, "labels": {"force-deletion": "True"}},
        "spec": {"class": {"kind": "MachineClass", "name": "small"}}});
    // Its bootstrap token cannot have its first id: that is another machine's, as only a look at it tells.
    let tokens: Api<Secret> = Api::namespaced(stage.admin.clone(), "kube-system");
    let taken = first_token(&forced);
    create(tokens.clone(), json!({"metadata": {"name": taken}, "type": "bootstrap.kubernetes.io/token"}))
        .await;
    create(machines.clone(), wish).await;
    stage.run_until("both machines run", async |_| Stage::running(&machines).await == 2).await;
    tokens.delete(&taken, &DeleteParams::default()).await.unwrap();
    let pod = json!({"metadata": {"name": "slow"}, "spec": {"nodeName": forced, "containers": [{"name": "slow", "image": "x"}]}});
    create(pods.clone(), pod).await;
    let attachment = json!({"metadata": {"name": forced}, "spec": {"attacher": "nobody", "nodeName": forced,
        "source": {"persistentVolumeName": "nothing"}}});
    create(attachments.clone(), attachment).await;
    // The first one goes because its Node is deleted.
    let nodes: Api<Node> = Api::all(stage.admin.clone());
    nodes.delete(&machine, &DeleteParams::default()).await.unwrap();
    machines.delete(&forced, &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    for name in [&forced, &volume] {
        let left = attachments.get_opt(name).await.unwrap();
        assert!(left.is_none(), "the attachment {name} of a machine that is gone is left");
    }
    forbidden(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_controller_needs_no_more_and_no_less_than_it_is_given() {
    let mut stage = Stage::around_the_real_one("rights", Plan::seeded(1)).await;
    let forbidden = live(&mut stage, manifests(DEPLOYED)).await;
    assert_eq!(forbidden, [""; 0], "deploy/gardener does not allow what the controller does");
    let mut unused: BTreeSet<_> = allowed(&manifests(DEPLOYED)).difference(&done(&stage)).cloned().collect();
    // An event is changed only if it comes again, and a Node is read only if no watch has shown it.
    unused.retain(|(_, _, resource, verb)| {
        !matches!((verb.as_str(), resource.as_str()), ("patch", "events") | ("get", "nodes"))
    });
    assert_eq!(unused, BTreeSet::new(), "deploy/gardener allows what the controller never does");
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_controller_works_with_the_rights_of_gardeners_sidecar() {
    let mut stage = Stage::around_the_real_one("sidecar", Plan::seeded(1)).await;
    let forbidden = live(&mut stage, manifests(SIDECAR)).await;
    assert_eq!(forbidden, [""; 0], "Gardener does not allow what the controller does");
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_controller_works_where_events_are_forbidden() {
    let mut stage = Stage::around_the_real_one("no-events", Plan::seeded(1)).await;
    let mut manifests = manifests(SIDECAR);
    for rules in manifests.iter_mut().filter_map(|object| object["rules"].as_array_mut()) {
        rules.retain(|rule| rule["resources"] != json!(["events"]));
    }
    let forbidden = live(&mut stage, manifests).await;
    assert!(!forbidden.is_empty(), "events are forbidden");
    let others: Vec<&String> = forbidden.iter().filter(|line| !line.contains("/events ")).collect();
    assert_eq!(others, [""; 0]);
    stage.world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_sets_need_no_more_and_no_less_besides() {
    let mut stage = Stage::around_the_real_one("sets", Plan::seeded(1)).await;
    let besides = manifests(SETS_DEPLOYED);
    let all = manifests(DEPLOYED).into_iter().chain(besides.clone()).collect();
    start_with(&mut stage, all, &["--with-machine-sets"]).await;
    a_machine_deployment_lives(&mut stage).await;
    assert_eq!(forbidden(&stage), [""; 0], "deploy/gardener-machine-sets does not allow what sets do");
    let mut unused: BTreeSet<_> = allowed(&besides).difference(&done(&stage)).cloned().collect();
    // An event is changed only if it comes again; what a watch has shown is read only before something depends on it.
    unused
        .retain(|(_, _, resource, verb)| !matches!((verb.as_str(), resource.as_str()), ("patch", "events")));
    assert_eq!(unused, BTreeSet::new(), "deploy/gardener-machine-sets allows what sets never do");
    stage.world.stop().await;
}
