use hostler_snapshot::{Dump, KINDS, documents};
use serde_json::{Value, json};

fn load(documents: Vec<Value>) -> Result<hostler_snapshot::Loaded, String> {
    let mut dump = Dump::default();
    for document in documents {
        dump.add(document).map_err(|error| error.to_string())?;
    }
    let now = dump.newest().unwrap_or(0);
    dump.load(now).map_err(|error| error.to_string())
}

/// As kubectl prints several kinds, as it prints one object, and several of these behind each other.
const YAML: &str = r#"
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    creationTimestamp: "2026-11-01T00:00:00Z"
  status:
    allocatable: { cpu: "2", pods: "110" }
    conditions:
    - { type: Ready, status: "True", lastHeartbeatTime: "2026-11-01T01:00:00Z" }
- apiVersion: storage.k8s.io/v1
  kind: CSINode
  metadata: { name: n1 }
  spec: { drivers: [{ name: d, nodeID: n1, allocatable: { count: 3 } }] }
- apiVersion: apps/v1
  kind: Deployment
  metadata: { name: ignored, namespace: default }
kind: List
metadata: { resourceVersion: "" }
---
apiVersion: v1
kind: Namespace
metadata: { name: default, labels: { "on": "yes" } }
---
---
apiVersion: v1
kind: Pod
metadata: { name: p, namespace: default, deletionTimestamp: "2030-01-01T00:00:00Z" }
spec: { containers: [{ name: c, resources: { requests: { cpu: 1, memory: 1e3 } } }] }
"#;

#[test]
fn yaml_json_lists_and_single_objects() {
    let loaded = load(documents(YAML).unwrap()).unwrap();
    let cluster = loaded.cluster;
    assert_eq!((cluster.nodes.len(), cluster.pods.len(), cluster.namespaces.len()), (1, 1, 1));
    assert_eq!(cluster.nodes[0].attach_limits["d"], 3);
    assert_eq!(cluster.namespaces[0].labels["on"], "yes");
    // What is yet to come is not now.
    assert_eq!(cluster.now, 1_793_494_800);
    assert_eq!(cluster.pods[0].spec.containers[0].requests.memory, 1000);
    let missing: Vec<&str> = loaded.missing.iter().map(|kind| kind.resource).collect();
    assert_eq!(missing, ["daemonsets", "pdb", "pv", "pvc", "storageclasses", "priorityclasses"]);

    let typed = r#"{ "apiVersion": "v1", "kind": "NodeList", "items": [{ "metadata": { "name": "n2" } }] }"#;
    assert_eq!(load(documents(typed).unwrap()).unwrap().cluster.nodes[0].name, "n2");
    let flow = "{apiVersion: v1, kind: Namespace, metadata: {name: n}}";
    assert_eq!(load(documents(flow).unwrap()).unwrap().cluster.namespaces[0].name, "n");
    let two = format!("{typed}\n{}", typed.replace("n2", "n3"));
    assert_eq!(load(documents(&two).unwrap()).unwrap().cluster.nodes.len(), 2);
}

#[test]
fn what_comes_twice_counts_once() {
    let mut twice = documents(YAML).unwrap();
    twice.extend(documents(YAML).unwrap());
    let cluster = load(twice).unwrap().cluster;
    assert_eq!((cluster.nodes.len(), cluster.pods.len()), (1, 1));
}

#[test]
fn other_kinds_are_counted() {
    let mut dump = Dump::default();
    for document in documents(YAML).unwrap() {
        dump.add(document).unwrap();
    }
    // The same name in another group is another kind.
    dump.add(json!({ "apiVersion": "metrics.k8s.io/v1beta1", "kind": "Node", "metadata": { "name": "n9" } }))
        .unwrap();
    let group = json!({ "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "metadata": { "name": "g" } });
    dump.add(group.clone()).unwrap();
    assert_eq!(dump.node_groups, [group]);
    let ignored: Vec<(String, usize)> = dump.ignored.clone().into_iter().collect();
    assert_eq!(ignored, [("Deployment".to_owned(), 1), ("Node".to_owned(), 1)]);
}

#[test]
fn what_cannot_be_understood_is_named() {
    let table = [
        (json!({ "items": [] }), "a document without a name: has no kind: it is no Kubernetes object"),
        (
            json!({ "apiVersion": "v1", "kind": "List", "items": ["x"] }),
            "a document without a name: has no kind",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "n" },
                    "spec": { "containers": 5 } }),
            "Pod n/p: invalid type",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
                    "status": { "allocatable": { "cpu": "many" } } }),
            "Node n: status.allocatable.cpu: \"many\" is no quantity",
        ),
    ];
    for (document, expected) in table {
        let error = load(vec![document]).err().unwrap();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(documents("a: [1").is_err());
    assert!(documents("{ \"a\": ").is_err());
}

#[test]
fn every_kind_is_loaded() {
    let versions = [
        "v1",
        "v1",
        "apps/v1",
        "policy/v1",
        "v1",
        "v1",
        "storage.k8s.io/v1",
        "storage.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "v1",
    ];
    let documents: Vec<Value> = KINDS
        .iter()
        .zip(versions)
        .map(|(kind, version)| {
            let spec = json!({ "containers": [], "drivers": [], "selector": {}, "template": { "spec": { "containers": [] } } });
            json!({ "apiVersion": version, "kind": kind.kind, "metadata": { "name": "x", "namespace": "y" },
                    "spec": spec, "provisioner": "d", "value": 1 })
        })
        .collect();
    let loaded = load(documents).unwrap();
    assert!(loaded.missing.is_empty(), "{:?}", loaded.missing);
    let cluster = loaded.cluster;
    let counts = [
        cluster.nodes.len(),
        cluster.pods.len(),
        cluster.daemon_sets.len(),
        cluster.budgets.len(),
        cluster.volumes.len(),
        cluster.claims.len(),
        cluster.storage_classes.len(),
        cluster.namespaces.len(),
    ];
    assert_eq!(counts, [1; 8]);
}

#[test]
fn large_clusters_are_read() {
    let labels: Vec<String> = (0..10).map(|label| format!("      label-{label}: x\n")).collect();
    let labels = labels.concat();
    let start = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    namespace: default\n    labels:\n";
    let end = "  spec:\n    containers:\n    - name: c\n      image: i\n";
    let pods: Vec<String> = (0..20_000).map(|at| format!("{start}{labels}    name: p{at}\n{end}")).collect();
    let text = format!("apiVersion: v1\nkind: List\nitems:\n{}", pods.concat());
    assert_eq!(load(documents(&text).unwrap()).unwrap().cluster.pods.len(), 20_000);
}
