use super::snapshot::tests::{node, pod, roomy};
use super::*;
use serde_json::json;
use std::sync::Arc;

fn small(name: &str) -> NodeView {
    node(json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}
    }))
}

fn message(verdict: Verdict) -> String {
    match verdict {
        Verdict::Unschedulable(message) => message,
        Verdict::Place { node, .. } => format!("placed on {node}"),
    }
}

#[test]
fn refusals_are_worded_as_the_real_scheduler_does() {
    let tainted = |name: &str| {
        node(json!({
            "metadata": {"name": name},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "10"}}
        }))
    };
    let cordoned = |name: &str| node(json!({"metadata": {"name": name}, "spec": {"unschedulable": true}}));
    let mut half_full = small("half");
    half_full.add(Arc::new(pod(json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}
    }))));
    let asking =
        |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let daemon = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    }}}, "containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]}});
    let mut patient = asking("700m");
    patient["spec"]["preemptionPolicy"] = json!("Never");
    let mut important = asking("700m");
    important["spec"]["priority"] = json!(1000);
    let mut guarded = small("guarded");
    let mut guard = asking("500m");
    guard["spec"]["priority"] = json!(1000);
    guarded.add(Arc::new(pod(guard)));
    for (nodes, asked, expected) in [
        (vec![], json!({}), "no nodes available to schedule pods"),
        (
            vec![small("a"), tainted("b"), tainted("c")],
            asking("2"),
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
             preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            vec![half_full.clone(), cordoned("b")],
            asking("700m"),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. \
             preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling.",
        ),
        (
            vec![half_full.clone(), guarded],
            important,
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
             1 No preemption victims found for incoming pod, \
             1 node(s) have pods of lower priority, which this scheduler does not remove.",
        ),
        (
            vec![half_full],
            patient,
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            vec![small("a"), small("b")],
            daemon,
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            vec![small("a")],
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}),
            "0/1 nodes are available: persistentvolumeclaim \"data\" not found. \
             preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
    ] {
        let snapshot = Snapshot { nodes, ..Snapshot::default() };
        assert_eq!(message(decide(&pod(asked), &snapshot)), expected);
    }
}

#[test]
fn a_nominated_node_is_kept() {
    let snapshot = Snapshot { nodes: vec![roomy("a", &[]), small("b")], ..Snapshot::default() };
    let nominated = pod(json!({"status": {"nominatedNodeName": "b"}}));
    assert_eq!(decide(&nominated, &snapshot), Verdict::Place { node: 1, late: vec![] });
    assert_eq!(decide(&pod(json!({})), &snapshot), Verdict::Place { node: 0, late: vec![] });
}

mod volumes {
    use super::*;
    use serde_json::Value;

    fn claim(
        name: &str,
        class: &str,
        volume: Option<&str>,
        extra: &Value,
    ) -> ((String, String), Arc<k8s_openapi::api::core::v1::PersistentVolumeClaim>) {
        let mut value = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}
            }
        });
        if let Some(volume) = volume {
            value["spec"]["volumeName"] = json!(volume);
            value["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        }
        for (key, change) in extra.as_object().unwrap() {
            for (inner, change) in change.as_object().unwrap() {
                value[key][inner] = change.clone();
            }
        }
        (("default".to_owned(), name.to_owned()), Arc::new(serde_json::from_value(value).unwrap()))
    }

    fn volume(
        name: &str,
        spec: &Value,
        labels: &Value,
    ) -> (String, Arc<k8s_openapi::api::core::v1::PersistentVolume>) {
        let mut value = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Available"}
        });
        for (key, change) in spec.as_object().unwrap() {
            value["spec"][key] = change.clone();
        }
        (name.to_owned(), Arc::new(serde_json::from_value(value).unwrap()))
    }

    fn class(
        name: &str,
        provisioner: &str,
        mode: &str,
        zones: Option<&str>,
    ) -> (String, Arc<k8s_openapi::api::storage::v1::StorageClass>) {
        let mut value =
            json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
        if let Some(zone) = zones {
            value["allowedTopologies"] =
                json!([{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]);
        }
        (name.to_owned(), Arc::new(serde_json::from_value(value).unwrap()))
    }

    fn in_zone(zone: &str) -> Value {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}})
    }

    /// Nodes a and b in zones of the same names; node b has room for one volume of the driver.
    fn world() -> Snapshot {
        let nodes = vec![
            roomy("a", &[("zone", "a"), ("topology.kubernetes.io/zone", "a")]),
            roomy("b", &[("zone", "b"), ("topology.kubernetes.io/zone", "b")]),
        ];
        let none = json!({});
        let csi = |handle: &str| json!({"csi": {"driver": "disk.example", "volumeHandle": handle}});
        let mut local = csi("local");
        local["nodeAffinity"] = in_zone("b");
        let mut free = json!({"storageClassName": "static", "capacity": {"storage": "2Gi"}});
        free["nodeAffinity"] = in_zone("b");
        let storage = storage::Storage {
            claims: [
                claim("bound", "fast", Some("plain"), &none),
                claim("bound-b", "fast", Some("local"), &none),
                claim("zoned", "fast", Some("zoned"), &none),
                claim("lost", "fast", Some("nowhere"), &none),
                claim("waiting", "now", None, &none),
                claim("late", "late", None, &none),
                claim("late-b", "late-b", None, &none),
                claim("late-chosen", "late", None, &json!({"metadata": {"annotations": {storage::SELECTED_NODE: "b"}}})),
                claim("static", "static", None, &none),
                claim("static-large", "static", None, &json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})),
                claim("alone", "fast", Some("plain"), &json!({"spec": {"accessModes": ["ReadWriteOncePod"]}})),
            ]
            .into(),
            volumes: [
                volume("plain", &csi("plain"), &none),
                volume("local", &local, &none),
                volume("zoned", &csi("zoned"), &json!({"topology.kubernetes.io/zone": "b__c"})),
                volume("free", &free, &none),
            ]
            .into(),
            classes: [
                class("now", "disk.example", "Immediate", None),
                class("late", "disk.example", "WaitForFirstConsumer", None),
                class("late-b", "disk.example", "WaitForFirstConsumer", Some("b")),
                class("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", None),
            ]
            .into(),
            csi_nodes: [(
                "a".to_owned(),
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": {"name": "a"},
                        "spec": {"drivers": [{"name": "disk.example", "nodeID": "a", "allocatable": {"count": 1}}]}
                    }))
                    .unwrap(),
                ),
            )]
            .into(),
            attachments: vec![],
        };
        Snapshot { nodes, storage, ..Snapshot::default() }
    }

    fn using(claims: &[&str]) -> Pod {
        let volumes: Vec<Value> = claims
            .iter()
            .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        pod(json!({"metadata": {"name": "user"}, "spec": {"volumes": volumes}}))
    }

    fn outcome(pod: &Pod, snapshot: &Snapshot) -> String {
        match decide(pod, snapshot) {
            Verdict::Place { node, late } => {
                let late: Vec<&str> = late
                    .iter()
                    .map(|one| match one {
                        LateBinding::Reserve { .. } => "reserve",
                        LateBinding::Provision { .. } => "provision",
                        LateBinding::Await => "await",
                    })
                    .collect();
                format!("{} {}", snapshot.nodes[node].name, late.join(",")).trim().to_owned()
            }
            Verdict::Unschedulable(message) => {
                message.split(". preemption").next().unwrap().replace("0/2 nodes are available: ", "")
            }
        }
    }

    #[test]
    fn claims_decide_where_a_pod_can_go() {
        for (claims, expected) in [
            (&["bound"][..], "a"),
            (&["bound-b"], "b"),
            (&["zoned"], "b"),
            (&["lost"], "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
            (&["waiting"], "pod has unbound immediate PersistentVolumeClaims"),
            (&["late"], "a provision"),
            (&["late-b"], "b provision"),
            (&["late-chosen"], "b await"),
            (&["static"], "b reserve"),
            (&["static-large"], "2 node(s) didn't find available persistent volumes to bind"),
            (&["bound", "late"], "b provision"),
        ] {
            assert_eq!(outcome(&using(claims), &world()), expected, "{claims:?}");
        }
    }

    #[test]
    fn attached_volumes_count_against_the_nodes_limit() {
        let mut snapshot = world();
        snapshot.storage.attachments.push(Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "x"},
                "spec": {"attacher": "disk.example", "nodeName": "a", "source": {"persistentVolumeName": "zoned"}}
            }))
            .unwrap(),
        ));
        assert_eq!(outcome(&using(&["bound"]), &snapshot), "b");
        snapshot.nodes.truncate(1);
        assert!(outcome(&using(&["bound"]), &snapshot).contains("1 node(s) exceed max volume count"));
    }

    #[test]
    fn a_volume_for_one_pod_only_is_not_shared() {
        let mut snapshot = world();
        assert_eq!(outcome(&using(&["alone"]), &snapshot), "a");
        let mut other = using(&["alone"]);
        other.metadata.uid = Some("other".to_owned());
        snapshot.nodes[1].add(Arc::new(other));
        assert_eq!(
            outcome(&using(&["alone"]), &snapshot),
            "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        );
    }
}
