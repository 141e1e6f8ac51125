//! Each rule of the reference, broken on an API server. What it refuses, the functions refuse as well.

use crate::kit::{Server, small_group, small_node};
use hostler_nodegroup::{
    api::{NodeGroup, VPSieNode},
    validate,
};
use serde_json::{Value, json};

/// Where a field is, what it is set to, and which field and words the refusal has.
type Case = (&'static str, Value, &'static str, &'static str);

fn refusal(answer: &(u16, Value)) -> &str {
    assert_eq!(answer.0, 422, "{}", answer.1);
    answer.1["message"].as_str().unwrap()
}

/// Sets a field; nothing takes it out.
fn set(object: &mut Value, path: &str, value: Value) {
    let (parent, field) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(field);
    } else {
        parent[field] = value;
    }
}

#[tokio::test(start_paused = true)]
async fn each_rule_about_node_groups_is_enforced() {
    let server = Server::start().await;
    let table: [Case; 24] = [
        ("/spec/minNodes", json!(-1), "spec.minNodes", "greater than or equal to 0"),
        ("/spec/minNodes", json!(4), "spec.minNodes", "MinNodes exceeds MaxNodes"),
        ("/spec/minNodes", Value::Null, "spec.minNodes", "Required value"),
        ("/spec/maxNodes", json!(0), "spec.maxNodes", "greater than or equal to 1"),
        ("/spec/maxNodes", Value::Null, "spec.maxNodes", "Required value"),
        ("/spec/datacenterID", json!(""), "spec.datacenterID", "at least 1 chars long"),
        ("/spec/datacenterID", Value::Null, "spec.datacenterID", "Required value"),
        ("/spec/offeringIDs", json!([]), "spec.offeringIDs", "at least 1 items"),
        ("/spec/offeringIDs", json!([""]), "spec.offeringIDs[0]", "at least 1 chars long"),
        ("/spec/offeringIDs", json!(vec!["o"; 101]), "spec.offeringIDs", "at most 100 items"),
        ("/spec/offeringIDs", Value::Null, "spec.offeringIDs", "Required value"),
        ("/spec/osImageID", json!(""), "spec.osImageID", "at least 1 chars long"),
        ("/spec/osImageID", Value::Null, "spec.osImageID", "Required value"),
        (
            "/spec/preferredInstanceType",
            json!("huge"),
            "spec.preferredInstanceType",
            "preferredInstanceType must be one of offeringIDs",
        ),
        (
            "/spec/scaleUpPolicy",
            json!({"cpuThreshold": 101}),
            "spec.scaleUpPolicy.cpuThreshold",
            "equal to 100",
        ),
        ("/spec/scaleUpPolicy", json!({"cpuThreshold": -1}), "spec.scaleUpPolicy.cpuThreshold", "equal to 0"),
        (
            "/spec/scaleUpPolicy",
            json!({"memoryThreshold": 101}),
            "spec.scaleUpPolicy.memoryThreshold",
            "equal to 100",
        ),
        (
            "/spec/scaleUpPolicy",
            json!({"stabilizationWindowSeconds": 0}),
            "spec.scaleUpPolicy.stabilizationWindowSeconds",
            "equal to 1",
        ),
        (
            "/spec/scaleDownPolicy",
            json!({"cpuThreshold": 101}),
            "spec.scaleDownPolicy.cpuThreshold",
            "equal to 100",
        ),
        (
            "/spec/scaleDownPolicy",
            json!({"memoryThreshold": -1}),
            "spec.scaleDownPolicy.memoryThreshold",
            "equal to 0",
        ),
        (
            "/spec/scaleDownPolicy",
            json!({"stabilizationWindowSeconds": 0}),
            "spec.scaleDownPolicy.stabilizationWindowSeconds",
            "equal to 1",
        ),
        (
            "/spec/scaleDownPolicy",
            json!({"unneededTime": -1}),
            "spec.scaleDownPolicy.unneededTime",
            "equal to 0",
        ),
        (
            "/spec/taints",
            json!([{"key": "a", "effect": "Never"}]),
            "spec.taints[0].effect",
            "Unsupported value",
        ),
        ("/spec/kubeSizeID", json!(0), "spec.kubeSizeID", "equal to 1"),
    ];
    for (path, value, field, words) in table {
        let mut group = small_group();
        set(&mut group, path, value.clone());
        let answer = server.create("nodegroups", &group).await;
        let told = refusal(&answer);
        assert!(told.contains(field) && told.contains(words), "{path}={value}: {told}");
        // What is missing altogether nobody but the server sees.
        if let Ok(group) = serde_json::from_value::<NodeGroup>(group) {
            let problems = validate::node_group(&group.spec);
            let found = problems.iter().any(|problem| problem.field == field);
            assert!(found, "{path}={value}: {problems:?}");
        }
    }
    let (code, answer) = server.create("nodegroups", &small_group()).await;
    assert_eq!(code, 201, "{answer}");
    let answer = server.merge("nodegroups/workers", &json!({"spec": {"minNodes": 4}})).await;
    assert!(refusal(&answer).contains("MinNodes exceeds MaxNodes"));
}

#[tokio::test(start_paused = true)]
async fn each_rule_about_vpsie_nodes_is_enforced() {
    let server = Server::start().await;
    let table: [Case; 8] = [
        ("/spec/vpsieInstanceID", json!(-1), "spec.vpsieInstanceID", "equal to 0"),
        ("/spec/vpsieInstanceID", Value::Null, "spec.vpsieInstanceID", "Required value"),
        ("/spec/instanceType", json!(""), "spec.instanceType", "at least 1 chars long"),
        ("/spec/instanceType", Value::Null, "spec.instanceType", "Required value"),
        ("/spec/nodeGroupName", json!(""), "spec.nodeGroupName", "at least 1 chars long"),
        ("/spec/nodeGroupName", Value::Null, "spec.nodeGroupName", "Required value"),
        ("/spec/datacenterID", json!(""), "spec.datacenterID", "at least 1 chars long"),
        ("/spec/datacenterID", Value::Null, "spec.datacenterID", "Required value"),
    ];
    for (path, value, field, words) in table {
        let mut node = small_node();
        set(&mut node, path, value.clone());
        let answer = server.create("vpsienodes", &node).await;
        let told = refusal(&answer);
        assert!(told.contains(field) && told.contains(words), "{path}={value}: {told}");
        if let Ok(node) = serde_json::from_value::<VPSieNode>(node) {
            let problems = validate::vpsie_node(&node, None);
            assert!(problems.iter().any(|problem| problem.field == field), "{path}={value}: {problems:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_is_set_once_and_is_there_where_there_is_a_vps() {
    let server = Server::start().await;
    let what = "vpsienodes/workers-1";
    assert_eq!(server.create("vpsienodes", &small_node()).await.0, 201);
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let status = format!("{what}/status");
    for allowed in ["Pending", "Provisioning", "Failed", "Terminating", "Deleting"] {
        assert_eq!(server.merge(&status, &phase(allowed)).await.0, 200, "{allowed}");
    }
    for needed in ["Provisioned", "Joining", "Ready"] {
        let answer = server.merge(&status, &phase(needed)).await;
        assert!(refusal(&answer).contains("vpsieInstanceID must be > 0 once there is a VPS"), "{needed}");
    }
    assert!(refusal(&server.merge(&status, &phase("Sleeping")).await).contains("Unsupported value"));
    let number = |number: u32| json!({"spec": {"vpsieInstanceID": number}});
    assert_eq!(server.merge(what, &number(1001)).await.0, 200);
    assert_eq!(server.merge(&status, &phase("Ready")).await.0, 200);
    for other in [1002, 0] {
        let answer = server.merge(what, &number(other)).await;
        assert!(refusal(&answer).contains("vpsieInstanceID is immutable once it is set"), "{other}");
    }
    assert_eq!(server.merge(what, &number(1001)).await.0, 200);
    // Workers of a cluster that VPSie runs have no number.
    let mut worker = small_node();
    worker["metadata"]["name"] = json!("worker");
    worker["spec"]["resourceIdentifier"] = json!("cluster");
    assert_eq!(server.create("vpsienodes", &worker).await.0, 201);
    assert_eq!(server.merge("vpsienodes/worker/status", &phase("Ready")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_told() {
    let server = Server::start().await;
    let mut group = small_group();
    group["spec"]["minNode"] = json!(1);
    let (code, answer) = server.create("nodegroups", &group).await;
    assert_eq!(code, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("spec.minNode"), "{answer}");
}
