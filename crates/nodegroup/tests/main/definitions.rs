//! What the definitions look like and what they fill in.

use crate::kit::{REFERENCE_GROUP, REFERENCE_NODE, Server, small_group, small_node};
use hostler_nodegroup::api::{NodeGroup, VPSieNode, crds};
use serde_json::{Value, json};

#[test]
fn the_definitions_carry_the_names_of_the_reference() {
    let crds = serde_json::to_value(crds()).unwrap();
    let seen: Vec<_> = crds
        .as_array()
        .unwrap()
        .iter()
        .map(|crd| {
            let version = &crd["spec"]["versions"][0];
            (
                crd["metadata"]["name"].clone(),
                crd["spec"]["scope"].clone(),
                crd["spec"]["names"].clone(),
                version["name"].clone(),
                version["subresources"].clone(),
                version["selectableFields"].clone(),
            )
        })
        .collect();
    let names = |kind: &str, plural: &str, singular: &str, short: &str| json!({"kind": kind, "plural": plural, "singular": singular, "shortNames": [short]});
    let expected = [
        (
            json!("nodegroups.autoscaler.vpsie.com"),
            json!("Namespaced"),
            names("NodeGroup", "nodegroups", "nodegroup", "ng"),
            json!("v1alpha1"),
            json!({"status": {}}),
            Value::Null,
        ),
        (
            json!("vpsienodes.autoscaler.vpsie.com"),
            json!("Namespaced"),
            names("VPSieNode", "vpsienodes", "vpsienode", "vn"),
            json!("v1alpha1"),
            json!({"status": {}}),
            json!([{"jsonPath": ".status.phase"}]),
        ),
    ];
    assert_eq!(seen, expected);
}

/// The fields of a schema with their types, the required ones marked.
fn fields(schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().unwrap();
    let mut fields: Vec<String> = properties
        .iter()
        .map(|(name, property)| {
            let mark = if required.contains(&json!(name)) { " required" } else { "" };
            format!("{name} {}{mark}", property["type"].as_str().unwrap())
        })
        .collect();
    fields.sort();
    fields
}

#[test]
fn the_fields_are_those_of_the_reference_and_what_is_said_beyond_it_is_optional() {
    let crds = serde_json::to_value(crds()).unwrap();
    let part = |crd: usize, path: &str| {
        let schema = &crds[crd]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        fields(schema.pointer(path).unwrap())
    };
    let table: [(usize, &str, &[&str]); 9] = [
        (
            0,
            "/properties/spec",
            &[
                "allowMixedInstances boolean",
                "datacenterID string required",
                "kubeSizeID integer",
                "labels object",
                "maxNodes integer required",
                "minNodes integer required",
                "offeringIDs array required",
                "osImageID string required",
                "preferredInstanceType string",
                "project string",
                "resourceIdentifier string",
                "scaleDownPolicy object",
                "scaleUpPolicy object",
                "sshKeyIDs array",
                "tags array",
                "taints array",
                "userData string",
            ],
        ),
        (
            0,
            "/properties/spec/properties/scaleUpPolicy",
            &[
                "cpuThreshold integer",
                "enabled boolean",
                "memoryThreshold integer",
                "stabilizationWindowSeconds integer",
            ],
        ),
        (
            0,
            "/properties/spec/properties/scaleDownPolicy",
            &[
                "cooldownSeconds integer",
                "cpuThreshold integer",
                "enabled boolean",
                "memoryThreshold integer",
                "stabilizationWindowSeconds integer",
                "unneededTime integer",
            ],
        ),
        (
            0,
            "/properties/status",
            &[
                "conditions array",
                "currentNodes integer",
                "desiredNodes integer",
                "lastScaleTime string",
                "nodes array",
                "readyNodes integer",
            ],
        ),
        (
            0,
            "/properties/status/properties/nodes/items",
            &["instanceType string", "ipAddress string", "nodeName string", "status string", "vpsID integer"],
        ),
        (
            1,
            "/properties/spec",
            &[
                "datacenterID string required",
                "instanceType string required",
                "ipAddress string",
                "ipv6Address string",
                "nodeGroupName string required",
                "nodeName string",
                "resourceIdentifier string",
                "vpsieInstanceID integer required",
            ],
        ),
        (
            1,
            "/properties/status",
            &[
                "conditions array",
                "createdAt string",
                "hostname string",
                "joinedAt string",
                "lastError string",
                "nodeName string",
                "observedGeneration integer",
                "phase string",
                "provisionedAt string",
                "readyAt string",
                "resources object",
                "terminatingAt string",
                "vpsieStatus string",
            ],
        ),
        (
            1,
            "/properties/status/properties/resources",
            &["bandwidthGB integer", "cpu integer", "diskGB integer", "memoryMB integer"],
        ),
        (
            1,
            "/properties/status/properties/conditions/items",
            &[
                "lastTransitionTime string required",
                "message string required",
                "reason string required",
                "status string required",
                "type string required",
            ],
        ),
    ];
    for (crd, path, expected) in table {
        assert_eq!(part(crd, path), expected, "{path}");
    }
}

#[test]
fn the_words_of_the_reference_are_the_only_ones() {
    let crds = serde_json::to_value(crds()).unwrap();
    let words = |crd: usize, path: &str| {
        let schema = &crds[crd]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema.pointer(path).unwrap()["enum"].clone()
    };
    let phases =
        ["Pending", "Provisioning", "Provisioned", "Joining", "Ready", "Terminating", "Deleting", "Failed"];
    assert_eq!(words(1, "/properties/status/properties/phase"), json!(phases));
    let types = ["VPSReady", "NodeJoined", "NodeReady", "Error"];
    let condition = "/properties/status/properties/conditions/items/properties/type";
    assert_eq!(words(1, condition), json!(types));
    let types = ["Ready", "Scaling", "Error", "AtMinCapacity", "AtMaxCapacity"];
    assert_eq!(words(0, condition), json!(types));
    let node = "/properties/status/properties/nodes/items/properties/status";
    assert_eq!(words(0, node), json!(["Pending", "Provisioning", "Ready", "Terminating", "Failed"]));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_gets_the_defaults_of_the_reference() {
    let server = Server::start().await;
    let (code, group) = server.create("nodegroups", &small_group()).await;
    assert_eq!(code, 201, "{group}");
    let mut expected = small_group()["spec"].clone();
    for (field, value) in [
        (
            "scaleUpPolicy",
            json!({"enabled": true, "stabilizationWindowSeconds": 60, "cpuThreshold": 80, "memoryThreshold": 80}),
        ),
        (
            "scaleDownPolicy",
            json!({
                "enabled": true, "stabilizationWindowSeconds": 600, "cpuThreshold": 50, "memoryThreshold": 50,
                "unneededTime": 600,
            }),
        ),
        ("labels", json!({})),
        ("taints", json!([])),
        ("sshKeyIDs", json!([])),
        ("tags", json!([])),
        ("userData", json!("")),
        ("preferredInstanceType", json!("")),
        ("allowMixedInstances", json!(false)),
    ] {
        expected[field] = value;
    }
    assert_eq!(group["spec"], expected);
    // A policy of which one thing is said gets the others, and what is said of `false` and 0 stays.
    let mut other = small_group();
    other["metadata"]["name"] = json!("other");
    other["spec"]["scaleDownPolicy"] = json!({"enabled": false, "cpuThreshold": 0, "unneededTime": 0});
    let (code, other) = server.create("nodegroups", &other).await;
    assert_eq!(code, 201, "{other}");
    let policy = json!({
        "enabled": false, "stabilizationWindowSeconds": 600, "cpuThreshold": 0, "memoryThreshold": 50,
        "unneededTime": 0,
    });
    assert_eq!(other["spec"]["scaleDownPolicy"], policy);
    // Reading and writing changes nothing.
    for object in [group, other] {
        let read: NodeGroup = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap()["spec"], object["spec"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_examples_of_the_reference_apply_as_they_are() {
    let server = Server::start().await;
    let (code, group) = server.create_from("nodegroups", REFERENCE_GROUP).await;
    assert_eq!(code, 201, "{group}");
    let written: Value = serde_saphyr::from_str(REFERENCE_GROUP).unwrap();
    for (field, value) in written["spec"].as_object().unwrap() {
        assert_eq!(&group["spec"][field], value, "{field}");
    }
    let (code, node) = server.create_from("vpsienodes", REFERENCE_NODE).await;
    assert_eq!(code, 201, "{node}");
    let wanted: Value = serde_saphyr::from_str(REFERENCE_NODE).unwrap();
    assert_eq!(node["spec"], wanted["spec"]);
    // Their statuses are what a controller writes, word for word.
    for (what, example) in
        [("nodegroups/production-workers", &written), ("vpsienodes/vpsie-prod-workers-abc123", &wanted)]
    {
        let (code, answer) =
            server.merge(&format!("{what}/status"), &json!({"status": example["status"]})).await;
        assert_eq!((code, &answer["status"]), (200, &example["status"]), "{what}");
    }
    let group: NodeGroup = serde_json::from_value(server.get("nodegroups/production-workers").await).unwrap();
    assert_eq!(serde_json::to_value(group.status).unwrap(), written["status"]);
    let node: VPSieNode =
        serde_json::from_value(server.get("vpsienodes/vpsie-prod-workers-abc123").await).unwrap();
    assert_eq!(serde_json::to_value(node.status).unwrap(), wanted["status"]);
    let selected = server.get("vpsienodes?labelSelector=nodegroup%3Dproduction-workers").await;
    assert_eq!(selected["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn nodes_are_selected_by_their_phase() {
    let server = Server::start().await;
    for (name, phase) in [("a", Some("Provisioning")), ("b", Some("Failed")), ("c", None)] {
        let mut node = small_node();
        node["metadata"]["name"] = json!(name);
        assert_eq!(server.create("vpsienodes", &node).await.0, 201);
        if let Some(phase) = phase {
            let patch = json!({"status": {"phase": phase}});
            assert_eq!(server.merge(&format!("vpsienodes/{name}/status"), &patch).await.0, 200);
        }
    }
    for (phase, expected) in [("Provisioning", vec!["a"]), ("Failed", vec!["b"]), ("Ready", vec![])] {
        let list = server.get(&format!("vpsienodes?fieldSelector=status.phase%3D{phase}")).await;
        let items = list["items"].as_array().unwrap();
        let names: Vec<&str> = items.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{phase}");
    }
}

#[test]
fn user_data_is_never_shown() {
    let mut group = small_group();
    group["spec"]["userData"] = json!("kubeadm join --token abcdef.0123456789abcdef");
    let group: NodeGroup = serde_json::from_value(group).unwrap();
    let shown = format!("{group:?}");
    assert!(shown.contains("UserData(44 bytes)") && !shown.contains("abcdef"), "{shown}");
    assert_eq!(serde_json::to_value(&group).unwrap()["spec"]["userData"], json!(group.spec.user_data.0));
}
