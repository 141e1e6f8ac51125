use crate::{object, part};
use hostler_planner::model::{Effect, Node, Taint};
use hostler_snapshot::node;
use serde_json::{Value, json};

fn of(value: Value) -> Node {
    node(&object(value), None).unwrap()
}

#[test]
fn a_node_with_all_that_counts() {
    let full = of(json!({
        "metadata": { "name": "n", "creationTimestamp": "2026-11-01T00:00:00Z", "labels": { "zone": "a" },
                      "annotations": { "x": "y" } },
        "spec": { "unschedulable": true, "taints": [{ "key": "k", "value": "v", "effect": "NoExecute" }] },
        "status": {
            "capacity": { "cpu": "4" },
            "allocatable": { "cpu": "3920m", "memory": "7Gi", "pods": "110", "ephemeral-storage": "10Gi",
                             "nvidia.com/gpu": "1", "hugepages-1Gi": "0" },
            "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True" }],
        },
    }));
    assert_eq!((full.name.as_str(), full.created), ("n", 1_793_491_200));
    assert_eq!((full.ready, full.unschedulable, full.draining), (true, true, false));
    assert_eq!(full.taints, [Taint::new("k", "v", Effect::NoExecute)]);
    assert_eq!(part(&full, "/labels"), json!({ "zone": "a" }));
    assert_eq!(part(&full, "/annotations"), json!({ "x": "y" }));
    assert_eq!(
        part(&full, "/allocatable"),
        json!({ "cpu": 3920, "memory": 7i64 << 30, "ephemeral_storage": 10i64 << 30, "pods": 110,
                "extended": { "nvidia.com/gpu": 1, "hugepages-1Gi": 0 } })
    );
}

#[test]
fn ready_and_leaving() {
    let ready = |status: &str| {
        of(json!({ "metadata": { "name": "n" }, "status": { "conditions": [{ "type": "Ready", "status": status }] } })).ready
    };
    assert_eq!((ready("True"), ready("False"), ready("Unknown")), (true, false, false));
    assert!(!of(json!({ "metadata": { "name": "n" } })).ready);
    let tainted = |key: &str| {
        of(json!({ "metadata": { "name": "n" }, "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } })).draining
    };
    assert!(
        tainted("ToBeDeletedByClusterAutoscaler") && tainted("karpenter.sh/disrupted") && !tainted("other")
    );
    assert!(of(json!({ "metadata": { "name": "n", "deletionTimestamp": "2026-11-01T00:00:00Z" } })).draining);
}

#[test]
fn labels_say_where_it_belongs() {
    let table = [
        (json!({}), None, None),
        (json!({ "node.kubernetes.io/instance-type": "small" }), None, Some("small")),
        (
            json!({ "autoscaler.vpsie.com/nodegroup": "g", "autoscaler.vpsie.com/instance-type": "large",
                    "node.kubernetes.io/instance-type": "small" }),
            Some("g"),
            Some("large"),
        ),
    ];
    for (labels, group, offering) in table {
        let node = of(json!({ "metadata": { "name": "n", "labels": labels } }));
        assert_eq!((node.group.as_deref(), node.offering.as_deref()), (group, offering));
    }
}

#[test]
fn drivers_say_what_they_can_attach() {
    let drivers = |count: Value| {
        json!({ "metadata": { "name": "n" }, "spec": { "drivers": [
            { "name": "a", "nodeID": "n", "allocatable": { "count": count } },
            { "name": "b", "nodeID": "n" },
        ] } })
    };
    let bare = object(json!({ "metadata": { "name": "n" } }));
    let with = node(&bare, Some(&object(drivers(json!(16))))).unwrap();
    assert_eq!(part(&with, "/attach_limits"), json!({ "a": 16 }));
    let error = node(&bare, Some(&object(drivers(json!(-1))))).unwrap_err();
    assert_eq!(error.to_string(), "CSINode n: spec.drivers.a: -1 is negative");
}

#[test]
fn faults_name_the_field() {
    for (change, expected) in [
        (
            json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "nvidia.com/gpu": "one" } } }),
            "Node n: status.allocatable.nvidia.com/gpu: \"one\" is no quantity",
        ),
        (
            json!({ "metadata": { "name": "n" }, "spec": { "taints": [{ "key": "k", "effect": "Sometimes" }] } }),
            "Node n: spec.taints[0].effect: \"Sometimes\" is not known",
        ),
    ] {
        assert_eq!(node(&object(change), None).unwrap_err().to_string(), expected);
    }
}
