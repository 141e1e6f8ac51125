use super::*;
use crate::types::kind;
use serde_json::json;

fn merged(api_version: &str, name: &str, original: &Value, patch: &Value) -> Value {
    let ty = kind(api_version, name).expect("a built-in kind");
    strategic_merge(ty, original, patch).expect("merges")
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn kubectl_cordon_sets_and_uncordon_deletes_a_field() {
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}});
    let cordoned = merged("v1", "Node", &node, &json!({"spec": {"unschedulable": true}}));
    assert_eq!(cordoned["spec"], json!({"podCIDR": "10.0.0.0/24", "unschedulable": true}));
    assert_eq!(merged("v1", "Node", &cordoned, &json!({"spec": {"unschedulable": null}})), node);
}

#[test]
fn kubectl_taint_replaces_the_whole_list() {
    let node = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let patch = json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}});
    assert_eq!(merged("v1", "Node", &node, &patch), patch);
}

#[test]
fn kubectl_label_merges_maps() {
    let node = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3", "d": null}}});
    assert_eq!(merged("v1", "Node", &node, &patch), json!({"metadata": {"labels": {"b": "2", "c": "3"}}}));
}

#[test]
fn kubectl_set_image_changes_one_container() {
    let deployment = |image: &str| {
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "image": image, "ports": [{"containerPort": 80}]}, {"name": "b", "image": "b:1"}]}}}})
    };
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"image": "a:2", "name": "a"}]}}}});
    assert_eq!(merged("apps/v1", "Deployment", &deployment("a:1"), &patch), deployment("a:2"));
}

#[test]
fn kubectl_apply_adds_removes_and_orders_list_elements() {
    let original = pod(json!({"containers": [
        {"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}, {"name": "injected"}, {"name": "b"}]}));
    let patch = pod(json!({
        "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        "containers": [
            {"name": "c", "image": "c:1"},
            {"name": "a", "$setElementOrder/env": [{"name": "Y"}, {"name": "Z"}],
             "env": [{"name": "Z", "value": "3"}, {"$patch": "delete", "name": "X"}]},
            {"$patch": "delete", "name": "b"},
        ],
    }));
    assert_eq!(
        merged("v1", "Pod", &original, &patch),
        pod(json!({"containers": [
            {"name": "c", "image": "c:1"},
            {"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "Z", "value": "3"}]},
            {"name": "injected"},
        ]}))
    );
}

#[test]
fn directives_do_what_they_say() {
    let containers = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "hostNetwork": true});
    let cases = [
        // Replace a list.
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}], "hostNetwork": true}),
        ),
        // Delete one element; another is merged.
        (
            json!({"containers": [{"$patch": "delete", "name": "a"}, {"name": "b", "image": "3"}]}),
            json!({"containers": [{"name": "b", "image": "3"}], "hostNetwork": true}),
        ),
        // Replace an object.
        (json!({"$patch": "replace", "nodeName": "n"}), json!({"nodeName": "n"})),
        (json!({"$patch": "delete"}), json!({})),
        // New elements come first unless the server's order says otherwise.
        (
            json!({"containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "hostNetwork": true}),
        ),
        // A field that is not there takes the patch without its directives and nulls.
        (
            json!({"securityContext": {"runAsUser": null, "fsGroup": 1, "seLinuxOptions": {"$patch": "delete"}}}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "hostNetwork": true,
                "securityContext": {"fsGroup": 1}}),
        ),
    ];
    for (patch, expected) in cases {
        assert_eq!(merged("v1", "Pod", &pod(containers.clone()), &pod(patch)), pod(expected));
    }
}

#[test]
fn retain_keys_drops_what_is_not_named() {
    let original = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(
        merged("apps/v1", "Deployment", &original, &patch),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    let original = pod(json!({"volumes": [{"name": "v", "emptyDir": {}}]}));
    let patch = pod(
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
    );
    assert_eq!(
        merged("v1", "Pod", &original, &patch),
        pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}))
    );
}

#[test]
fn finalizers_are_a_set() {
    let original = json!({"metadata": {"finalizers": ["a", "b"]}});
    let cases = [
        (json!({"metadata": {"finalizers": ["c", "a"]}}), json!(["c", "a", "b"])),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}), json!(["b"])),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"],
                "$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!(["b", "c"]),
        ),
    ];
    for (patch, finalizers) in cases {
        assert_eq!(merged("v1", "Pod", &original, &patch)["metadata"]["finalizers"], finalizers, "{patch}");
    }
}

#[test]
fn selectors_are_replaced_where_the_type_says_so() {
    let original = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
    let patch = json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}});
    assert_eq!(merged("policy/v1", "PodDisruptionBudget", &original, &patch), patch);
}

#[test]
fn mistakes_are_answered_as_a_real_server_does() {
    let original = json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}});
    let cases = [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete", "image": "x"}]}}),
            500,
            "map: map[$patch:delete image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "foo", "name": "x"}]}}),
            500,
            "unknown patch type: foo in map: map[$patch:foo name:x]",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "merge", "name": "x"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"spec": {"containers": ["a"]}}),
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (json!({"spec": {"$patch": "foo"}}), 500, "unknown patch type: foo in map: map[$patch:foo]"),
        (json!({"spec": {"$retainKeys": "foo"}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"spec": {"$retainKeys": ["foo"], "nodeName": "n"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": "x"}}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "x"}]}}),
            500,
            "The order in patch list:\n[map[name:x]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (json!({"spec": {"$setElementOrder": []}}), 400, "invalid patch format of setElementOrder list"),
        (json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ];
    let ty = kind("v1", "Pod").expect("a built-in kind");
    for (patch, code, words) in cases {
        let error = strategic_merge(ty, &original, &patch).expect_err("is refused");
        assert_eq!((error.code.as_u16(), error.message.as_str()), (code, words), "{patch}");
    }
}
