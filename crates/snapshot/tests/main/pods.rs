use crate::{object, part};
use hostler_planner::effective_requests;
use hostler_planner::model::{OwnerKind, Phase, Pod, Verdict, VolumeSource};
use hostler_snapshot::{Priorities, daemon_set, pod};
use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

fn merged(mut base: Value, change: Value) -> Value {
    merge(&mut base, change);
    base
}

fn merge(base: &mut Value, change: Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, change) => *base = change,
    }
}

/// A pod with one container, changed.
fn of(change: Value) -> Pod {
    let base = json!({
        "metadata": { "name": "p", "namespace": "n", "creationTimestamp": "2026-11-01T00:00:00Z" },
        "spec": { "containers": [{ "name": "c" }] },
    });
    pod(&object(merged(base, change)), &Priorities::default()).unwrap()
}

fn wrong(change: Value) -> String {
    let base =
        json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": { "containers": [{ "name": "c" }] } });
    let from: core::Pod = object(merged(base, change));
    pod(&from, &Priorities::default()).unwrap_err().to_string()
}

#[test]
fn requests_are_those_of_the_scheduler() {
    let asks = |cpu: &str, memory: &str| json!({ "requests": { "cpu": cpu, "memory": memory } });
    let table = [
        ("nothing", json!({}), (0, 0)),
        (
            "containers add up",
            json!({ "containers": [
                { "name": "a", "resources": asks("100m", "1Mi") },
                { "name": "b", "resources": asks("0.2", "1M") },
            ] }),
            (300, 2_048_576),
        ),
        (
            "an init container counts where it is larger",
            json!({ "containers": [{ "name": "a", "resources": asks("100m", "10Mi") }],
                    "initContainers": [{ "name": "i", "resources": asks("1", "1Mi") }] }),
            (1000, 10 << 20),
        ),
        (
            "a sidecar counts always",
            json!({ "containers": [{ "name": "a", "resources": asks("100m", "10Mi") }],
                    "initContainers": [{ "name": "i", "restartPolicy": "Always", "resources": asks("50m", "1Mi") }] }),
            (150, 11 << 20),
        ),
        (
            "overhead comes on top",
            json!({ "containers": [{ "name": "a", "resources": asks("100m", "10Mi") }],
                    "overhead": { "cpu": "250m", "memory": "2Mi" } }),
            (350, 12 << 20),
        ),
        (
            "requests of the whole pod replace the sum",
            json!({ "containers": [{ "name": "a", "resources": asks("100m", "10Mi") }],
                    "resources": { "requests": { "cpu": "2" } } }),
            (2000, 10 << 20),
        ),
        (
            "a limit of the whole pod stands for what nobody asks",
            json!({ "containers": [{ "name": "a", "resources": { "requests": { "cpu": "100m" } } }],
                    "resources": { "limits": { "cpu": "2", "memory": "1Gi" } } }),
            (100, 1 << 30),
        ),
        (
            "a limit stands for a request",
            json!({ "containers": [{ "name": "a", "resources": { "limits": { "cpu": "1", "memory": "1Gi" },
                                                                  "requests": { "cpu": "1m" } } }] }),
            (1, 1 << 30),
        ),
    ];
    for (what, spec, expected) in table {
        let asked = effective_requests(&of(json!({ "spec": spec })).spec);
        assert_eq!((asked.cpu, asked.memory), expected, "{what}");
    }
    let extended = of(json!({ "spec": { "containers": [{ "name": "a", "resources": { "requests": {
        "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi", "storage": "9" } } }] } }));
    assert_eq!(
        part(&*extended.spec, "/containers/0/requests"),
        json!({ "cpu": 0, "memory": 0, "ephemeral_storage": 1 << 30, "pods": 0,
                "extended": { "nvidia.com/gpu": 2, "hugepages-2Mi": 4 << 20 } })
    );
}

#[test]
fn a_resize_counts_by_the_larger_of_wish_and_reality() {
    let with = |conditions: Value| {
        let resized = of(json!({
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] },
            "status": {
                "conditions": conditions,
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                    "allocatedResources": { "cpu": "1" },
                    "resources": { "requests": { "cpu": "500m", "memory": "1Mi" } },
                }],
            },
        }));
        let asked = effective_requests(&resized.spec);
        (asked.cpu, asked.memory)
    };
    assert_eq!(with(json!([])), (2000, 1 << 20));
    let condition = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
    assert_eq!(with(condition), (1000, 1 << 20));
}

#[test]
fn verdicts_and_phases() {
    let condition = |status: &str, reason: &str| {
        json!({ "status": { "conditions": [
            { "type": "Ready", "status": "False", "reason": "Unschedulable" },
            { "type": "PodScheduled", "status": status, "reason": reason },
        ] } })
    };
    let table = [
        ("no word", json!({}), Verdict::Unseen),
        ("refused", condition("False", "Unschedulable"), Verdict::Unschedulable),
        ("gated", condition("False", "SchedulingGated"), Verdict::Gated),
        ("an error of the scheduler", condition("False", "SchedulerError"), Verdict::Unseen),
        ("bound", condition("True", ""), Verdict::Unseen),
        ("gates without a word", json!({ "spec": { "schedulingGates": [{ "name": "g" }] } }), Verdict::Gated),
    ];
    for (what, change, expected) in table {
        assert_eq!(of(change).verdict, expected, "{what}");
    }
    for (phase, expected) in [
        ("Pending", Phase::Pending),
        ("Running", Phase::Running),
        ("Unknown", Phase::Running),
        ("Succeeded", Phase::Finished),
        ("Failed", Phase::Finished),
    ] {
        assert_eq!(of(json!({ "status": { "phase": phase } })).phase, expected, "{phase}");
    }
}

#[test]
fn owners() {
    let owned = |version: &str, kind: &str, controller: bool| {
        let owner =
            json!({ "apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": controller });
        of(json!({ "metadata": { "ownerReferences": [owner] } })).owner.map(|owner| owner.kind)
    };
    let table = [
        ("apps/v1", "ReplicaSet", true, Some(OwnerKind::ReplicaSet)),
        ("apps/v1", "StatefulSet", true, Some(OwnerKind::StatefulSet)),
        ("apps/v1", "DaemonSet", true, Some(OwnerKind::DaemonSet)),
        ("batch/v1", "Job", true, Some(OwnerKind::Job)),
        ("v1", "ReplicationController", true, Some(OwnerKind::ReplicationController)),
        ("v1", "Node", true, Some(OwnerKind::Node)),
        ("example.com/v1", "ReplicaSet", true, Some(OwnerKind::Other)),
        ("apps/v1", "ReplicaSet", false, None),
    ];
    for (version, kind, controller, expected) in table {
        assert_eq!(owned(version, kind, controller), expected, "{version} {kind}");
    }
    let mirror = of(json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } }));
    assert_eq!(mirror.owner.map(|owner| owner.kind), Some(OwnerKind::Node));
}

#[test]
fn times_names_and_nodes() {
    let whole = of(json!({
        "metadata": { "deletionTimestamp": "2026-11-01T00:01:00Z", "annotations": { "a": "b" }, "labels": { "l": "m" } },
        "spec": { "nodeName": "n1", "schedulerName": "own", "priority": 7, "nodeSelector": { "disk": "ssd" },
                  "resourceClaims": [{ "name": "gpu" }] },
        "status": { "startTime": "2026-11-01T00:00:30Z", "nominatedNodeName": "n2" },
    }));
    let created = 1_793_491_200;
    assert_eq!(
        (whole.created, whole.started, whole.deleting),
        (created, Some(created + 30), Some(created + 60))
    );
    assert_eq!((whole.node.as_deref(), whole.nominated_node.as_deref()), (Some("n1"), Some("n2")));
    assert_eq!((whole.spec.priority, whole.spec.scheduler.as_deref()), (Some(7), Some("own")));
    assert_eq!(part(&*whole.spec, "/labels"), json!({ "l": "m" }));
    assert_eq!(part(&*whole.spec, "/node_selector"), json!({ "disk": "ssd" }));
    assert_eq!(part(&*whole.spec, "/resource_claims"), json!(["gpu"]));
    assert_eq!(part(&whole, "/annotations"), json!({ "a": "b" }));
    assert_eq!((whole.namespace.as_str(), whole.name.as_str()), ("n", "p"));
    let empty =
        of(json!({ "spec": { "nodeName": "", "schedulerName": "" }, "status": { "nominatedNodeName": "" } }));
    assert_eq!((empty.node, empty.nominated_node, empty.spec.scheduler.clone()), (None, None, None));
}

#[test]
fn affinity_spread_and_tolerations() {
    let term = json!({
        "topologyKey": "zone", "namespaces": ["a"], "matchLabelKeys": ["v"], "mismatchLabelKeys": ["w"],
        "labelSelector": { "matchLabels": { "app": "x" } },
        "namespaceSelector": { "matchExpressions": [{ "key": "team", "operator": "NotIn", "values": ["red"] }] },
    });
    let node_term = json!({
        "matchExpressions": [{ "key": "rank", "operator": "Gt", "values": ["3"] }],
        "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }],
    });
    let full = of(json!({ "spec": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [node_term] },
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 3, "preference": node_term }],
            },
            "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "host" }],
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 5, "podAffinityTerm": term }],
            },
        },
        "topologySpreadConstraints": [
            { "topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
              "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["v"],
              "labelSelector": { "matchLabels": { "app": "x" } } },
            { "topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway" },
        ],
        "tolerations": [
            { "operator": "Exists" },
            { "key": "k", "value": "v", "effect": "NoSchedule" },
            { "key": "k", "operator": "Equal", "value": "v", "effect": "" },
        ],
    } }));
    let node = json!({ "labels": [{ "key": "rank", "operator": "Gt", "values": ["3"] }],
                       "fields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] });
    assert_eq!(
        part(&*full.spec, "/affinity/node"),
        json!({ "required": [node], "preferred": [{ "weight": 3, "term": node }] })
    );
    let pods = json!({
        "topology_key": "zone", "namespaces": ["a"], "match_label_keys": ["v"], "mismatch_label_keys": ["w"],
        "selector": { "labels": { "app": "x" }, "expressions": [] },
        "namespace_selector": { "labels": {}, "expressions": [{ "key": "team", "operator": "NotIn", "values": ["red"] }] },
    });
    assert_eq!(part(&*full.spec, "/affinity/pods"), json!({ "required": [pods], "preferred": [] }));
    assert_eq!(part(&*full.spec, "/affinity/anti/preferred"), json!([{ "weight": 5, "term": pods }]));
    assert_eq!(part(&*full.spec, "/affinity/anti/required/0/selector"), Value::Null);
    assert_eq!(
        part(&*full.spec, "/spread"),
        json!([
            { "topology_key": "zone", "max_skew": 2, "hard": true, "min_domains": 3, "node_affinity": "Ignore",
              "node_taints": "Honor", "match_label_keys": ["v"],
              "selector": { "labels": { "app": "x" }, "expressions": [] } },
            { "topology_key": "host", "max_skew": 1, "hard": false, "min_domains": null, "node_affinity": "Honor",
              "node_taints": "Ignore", "match_label_keys": [], "selector": null },
        ])
    );
    assert_eq!(
        part(&*full.spec, "/tolerations"),
        json!([
            { "key": "", "operator": "Exists", "value": "", "effect": null },
            { "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" },
            { "key": "k", "operator": "Equal", "value": "v", "effect": null },
        ])
    );
}

#[test]
fn volumes_and_ports() {
    let full = of(json!({ "spec": {
        "containers": [{ "name": "c", "ports": [
            { "containerPort": 1 },
            { "containerPort": 2, "hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1" },
        ] }],
        "volumes": [
            { "name": "a", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "b", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
            { "name": "c", "emptyDir": {} },
            { "name": "d", "emptyDir": { "medium": "Memory" } },
            { "name": "e", "hostPath": { "path": "/" } },
            { "name": "f", "configMap": { "name": "x" } },
        ],
    } }));
    assert_eq!(
        part(&*full.spec, "/containers/0/host_ports"),
        json!([{ "port": 80, "protocol": "UDP", "ip": "10.0.0.1" }])
    );
    let sources: Vec<VolumeSource> = full.spec.volumes.iter().map(|volume| volume.source.clone()).collect();
    assert_eq!(
        sources,
        [
            VolumeSource::Claim("data".to_owned()),
            VolumeSource::Claim("p-b".to_owned()),
            VolumeSource::EmptyDir { in_memory: false },
            VolumeSource::EmptyDir { in_memory: true },
            VolumeSource::HostPath,
            VolumeSource::Other,
        ]
    );
    let network = of(json!({ "spec": { "hostNetwork": true,
        "containers": [{ "name": "c", "ports": [{ "containerPort": 9 }] }] } }));
    assert_eq!(part(&*network.spec, "/containers/0/host_ports/0/port"), json!(9));
}

#[test]
fn a_daemon_set_is_its_template() {
    let class = |name: &str, value: i32, default: bool| {
        object(json!({ "metadata": { "name": name }, "value": value, "globalDefault": default }))
    };
    let mut priorities = Priorities::default();
    priorities.insert(&class("high", 500, false));
    priorities.insert(&class("usual", 5, true));
    priorities.insert(&class("lower", 3, true));
    let set = |spec: Value| {
        let spec = merged(json!({ "containers": [{ "name": "c" }] }), spec);
        let template = json!({ "metadata": { "labels": { "app": "agent" } }, "spec": spec });
        let whole = json!({ "metadata": { "name": "agent", "namespace": "kube-system" },
                            "spec": { "selector": {}, "template": template } });
        daemon_set(&object(whole), &priorities).map_err(|error| error.to_string())
    };
    for (spec, expected) in [
        (json!({ "priorityClassName": "high" }), Some(500)),
        (json!({ "priorityClassName": "high", "priority": 1 }), Some(1)),
        (json!({ "priorityClassName": "system-node-critical" }), Some(2_000_001_000)),
        (json!({ "priorityClassName": "unheard-of" }), None),
        (json!({}), Some(3)),
    ] {
        assert_eq!(set(spec.clone()).unwrap().spec.priority, expected, "{spec}");
    }
    let agent = set(json!({})).unwrap();
    assert_eq!((agent.namespace.as_str(), agent.name.as_str()), ("kube-system", "agent"));
    assert_eq!(part(&*agent.spec, "/labels"), json!({ "app": "agent" }));
    let error = set(json!({ "overhead": { "cpu": "x" } })).unwrap_err();
    assert_eq!(error, "DaemonSet kube-system/agent: spec.template.spec.overhead.cpu: \"x\" is no quantity");
}

#[test]
fn faults_name_the_field() {
    let pods = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let nodes =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]";
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let table = [
        (
            json!({ "containers": [{ "name": "a" }, { "name": "b", "resources": { "requests": { "cpu": "1 core" } } }] }),
            "spec.containers[1].resources.requests.cpu: \"1 core\" is no quantity".to_owned(),
        ),
        (
            json!({ "initContainers": [{ "name": "a", "resources": { "limits": { "memory": "-1" } } }] }),
            "spec.initContainers[0].resources.limits.memory: \"-1\" is negative".to_owned(),
        ),
        (
            json!({ "containers": [{ "name": "a", "ports": [{ "containerPort": 1 }, { "containerPort": 1, "hostPort": 70000 }] }] }),
            "spec.containers[0].ports[1]: 70000 is no port".to_owned(),
        ),
        (
            json!({ "tolerations": [{ "operator": "Gt", "key": "k", "value": "1" }] }),
            "spec.tolerations[0].operator: \"Gt\" is not known".to_owned(),
        ),
        (
            json!({ "tolerations": [{ "operator": "Exists", "effect": "Never" }] }),
            "spec.tolerations[0].effect: \"Never\" is not known".to_owned(),
        ),
        (
            json!({ "topologySpreadConstraints": [{ "topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "Perhaps" }] }),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: \"Perhaps\" is not known".to_owned(),
        ),
        (
            json!({ "affinity": { "podAffinity": { required: [{ "topologyKey": "z", "labelSelector":
                { "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] } }] } } }),
            format!("{pods}.labelSelector.matchExpressions[0].operator: \"Gt\" is not known"),
        ),
        (
            json!({ "affinity": { "nodeAffinity": { required: { "nodeSelectorTerms":
                [{}, { "matchFields": [{ "key": "spec.x", "operator": "In" }] }] } } } }),
            format!("{nodes}.matchFields[0].key: \"spec.x\" is not known"),
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(wrong(json!({ "spec": spec })), format!("Pod n/p: {expected}"));
    }
    let nothing: core::Pod = object(json!({ "metadata": { "name": "p" } }));
    let error = pod(&nothing, &Priorities::default()).unwrap_err();
    assert_eq!(error.to_string(), "Pod p: spec: is missing");
}
