use super::*;
use crate::api::{NodeGroupSpec, VPSieNodeSpec};

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: Some(value.into()), effect: effect.into(), ..Taint::default() }
}

fn wanted(labels: &[(&str, &str)], taints: &[Taint]) -> Wanted {
    Wanted {
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        taints: taints.to_vec(),
        provider_id: Some("vpsie://id-1".into()),
    }
}

/// The Node after the patch, as an API server would have it.
fn patched(before: &Node, patch: &Value) -> Node {
    fn merge(into: &mut Value, patch: &Value) {
        let Value::Object(fields) = patch else {
            into.clone_from(patch);
            return;
        };
        if !into.is_object() {
            *into = json!({});
        }
        for (key, value) in fields {
            if value.is_null() {
                into.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut into[key], value);
            }
        }
    }
    let mut value = serde_json::to_value(before).unwrap();
    merge(&mut value, patch);
    node(value)
}

#[test]
fn a_node_gets_what_it_lacks_and_keeps_what_others_gave_it() {
    let joined = node(json!({
        "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n", "tier": "old"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
    }));
    let first = wanted(&[("tier", "web"), ("zone", "dc")], &[taint("gpu", "true", "NoSchedule")]);
    let patch = behind(&joined, &first).unwrap();
    let after = patched(&joined, &patch);
    let expected = json!({
        "metadata": {
            "labels": {"tier": "web", "zone": "dc"},
            "annotations": {"autoscaler.vpsie.com/applied": "{\"labels\":[\"tier\",\"zone\"],\"taints\":[[\"gpu\",\"NoSchedule\"]]}"},
        },
        "spec": {
            "providerID": "vpsie://id-1",
            "taints": [
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
                {"key": "gpu", "value": "true", "effect": "NoSchedule"},
            ],
        },
    });
    assert_eq!(patch, expected);
    assert_eq!(behind(&after, &first), None, "then it is as it should be");

    // What the group drops goes, what it changes changes, what a person added stays.
    let mut by_hand = after.clone();
    by_hand.metadata.labels.as_mut().unwrap().insert("mine".into(), "yes".into());
    by_hand.spec.as_mut().unwrap().taints.as_mut().unwrap().push(taint("mine", "", "NoSchedule"));
    let second = wanted(&[("tier", "db")], &[taint("gpu", "false", "NoSchedule")]);
    let after = patched(&by_hand, &behind(&by_hand, &second).unwrap());
    let labels = after.labels();
    assert_eq!(
        (labels.get("tier").map(String::as_str), labels.get("zone"), labels.contains_key("mine")),
        (Some("db"), None, true)
    );
    let taints = |node: &Node| -> Vec<String> {
        let taints = node.spec.as_ref().unwrap().taints.clone().unwrap();
        taints.iter().map(|taint| format!("{}={}", taint.key, value(taint))).collect()
    };
    assert_eq!(taints(&after), ["node.kubernetes.io/not-ready=", "gpu=false", "mine="]);
    let none = wanted(&[], &[]);
    let bare = patched(&after, &behind(&after, &none).unwrap());
    assert_eq!(taints(&bare), ["node.kubernetes.io/not-ready=", "mine="]);
    assert_eq!(behind(&bare, &none), None);
}

#[test]
fn a_provider_id_is_set_once() {
    let has = |id: &str| node(json!({"metadata": {"name": "n"}, "spec": {"providerID": id}}));
    let id = |node: &Node| {
        behind(node, &wanted(&[], &[]))
            .and_then(|patch| patch["spec"]["providerID"].as_str().map(str::to_owned))
    };
    assert_eq!(id(&has("")).as_deref(), Some("vpsie://id-1"));
    assert_eq!(id(&has("vpsie://n")), None);
}

#[test]
fn what_a_vpsie_node_and_its_group_say_comes_together() {
    let spec = VPSieNodeSpec {
        instance_type: "small 2cpu".into(),
        node_group_name: "workers".into(),
        datacenter_id: "dc-1".into(),
        ..VPSieNodeSpec::default()
    };
    let mut own = VPSieNode::new("workers-1", spec);
    own.metadata.namespace = Some("kube-system".into());
    let labels = [("environment", "production"), ("autoscaler.vpsie.com/nodegroup", "another")];
    let group = NodeGroup::new(
        "workers",
        NodeGroupSpec {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            taints: vec![taint("gpu", "true", "NoSchedule")],
            ..NodeGroupSpec::default()
        },
    );
    let id = ProviderId::vpsie("id-1").unwrap();
    let full = Wanted::of(&own, Some(&group), Some("New York"), Some(&id));
    let expected = [
        ("autoscaler.vpsie.com/datacenter", "dc-1"),
        ("autoscaler.vpsie.com/instance-type", "small-2cpu"),
        ("autoscaler.vpsie.com/managed", "true"),
        ("autoscaler.vpsie.com/nodegroup", "workers"),
        ("autoscaler.vpsie.com/nodegroup-namespace", "kube-system"),
        ("autoscaler.vpsie.com/vpsienode", "workers-1"),
        ("environment", "production"),
        ("node.kubernetes.io/instance-type", "small-2cpu"),
        ("topology.kubernetes.io/region", "New-York"),
        ("topology.kubernetes.io/zone", "dc-1"),
    ];
    let labels: Vec<_> = full.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, expected);
    assert_eq!((full.taints.len(), full.provider_id.as_deref()), (1, Some("vpsie://id-1")));
    let orphan = Wanted::of(&own, None, None, None);
    assert_eq!((orphan.taints.len(), orphan.provider_id, orphan.labels.len()), (0, None, 9));
    assert_eq!(orphan.labels["topology.kubernetes.io/region"], "dc-1");
}

#[test]
fn a_node_is_known_by_its_id_or_by_name_and_address_together() {
    let id = ProviderId::vpsie("id-1").unwrap();
    let addresses = ["192.0.2.10".to_owned()];
    let seen = |name: &str, provider_id: &str, address: &str| {
        node(json!({
            "metadata": {"name": name}, "spec": {"providerID": provider_id},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        }))
    };
    let table = [
        ("its id", seen("x", "vpsie://id-1", "198.51.100.1"), true),
        ("its id in capitals", seen("x", "vpsie://ID-1", ""), true),
        ("another id", seen("workers-1", "vpsie://id-2", "192.0.2.10"), false),
        ("another cloud's id", seen("workers-1", "stackit://p/id-1", "192.0.2.10"), false),
        ("no id that can be read", seen("workers-1", "something", "192.0.2.10"), false),
        ("name and address", seen("workers-1", "", "192.0.2.10"), true),
        ("name in capitals", seen("Workers-1", "", "192.0.2.10"), true),
        ("the name alone", seen("workers-1", "", "198.51.100.1"), false),
        ("the address alone", seen("workers-2", "", "192.0.2.10"), false),
        ("the id by name, and the address", seen("workers-1", "vpsie://workers-1", "192.0.2.10"), true),
        ("the id by name alone", seen("workers-1", "vpsie://workers-1", "198.51.100.1"), false),
        ("another's id by name", seen("workers-1", "vpsie://workers-2", "192.0.2.10"), false),
    ];
    for (what, node, expected) in table {
        assert_eq!(is_own(&node, Some(&id), "workers-1", &addresses), expected, "{what}");
    }
    let early = seen("workers-1", "", "198.51.100.1");
    assert!(is_own(&early, None, "workers-1", &[]), "as long as no address is known the name has to do");
}
