use super::*;
use crate::types::kind;
use serde_json::json;

fn typed(api_version: &str, name: &str) -> TypeRef {
    kind(api_version, name).expect("a built-in kind")
}

fn refused(api_version: &str, kind: &str, value: Value) -> String {
    let message = decode(typed(api_version, kind), value).expect_err("is refused").message;
    let start = format!("{kind} in version \"v1\" cannot be handled as a {kind}: ");
    message.strip_prefix(&start).expect("starts with the kind").to_owned()
}

#[test]
fn refusals_have_the_words_of_a_real_server() {
    let container = |value: Value| json!({"spec": {"template": {"spec": {"containers": [value]}}}});
    let cases = [
        (
            json!({"spec": {"replicas": "a"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 99_999_999_999_i64}}),
            "json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            container(json!({"name": 5})),
            "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (
            container(json!({"imagePullPolicy": 5})),
            "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            container(json!("a")),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            container(json!({"command": [1]})),
            "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.command of type string",
        ),
        (
            container(json!({"resources": {"limits": []}})),
            "json: cannot unmarshal array into Go struct field ResourceRequirements.spec.template.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            container(json!({"resources": {"limits": {"cpu": true}}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            json!({"metadata": {"labels": 5}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            json!({"metadata": {"creationTimestamp": "x"}}),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
            "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
    ];
    for (value, words) in cases {
        assert_eq!(refused("apps/v1", "Deployment", value), words);
    }
}

#[test]
fn embedded_structs_stand_in_the_path_of_a_refusal() {
    assert_eq!(
        refused("v1", "Pod", json!({"spec": {"volumes": [{"emptyDir": {"medium": 5}}]}})),
        "json: cannot unmarshal number into Go struct field EmptyDirVolumeSource.spec.volumes.VolumeSource.emptyDir.medium of type v1.StorageMedium"
    );
    assert_eq!(
        refused("v1", "Pod", json!({"spec": {"volumes": [{"emptyDir": 5}]}})),
        "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource"
    );
}

#[test]
fn secrets_hold_base64() {
    for (data, words) in [
        ("!!", "illegal base64 data at input byte 0"),
        ("YQ", "illegal base64 data at input byte 0"),
        ("YWJjZA=", "illegal base64 data at input byte 7"),
        ("YWJjZ", "illegal base64 data at input byte 4"),
        ("YWJj!A==", "illegal base64 data at input byte 4"),
    ] {
        assert_eq!(refused("v1", "Secret", json!({"data": {"a": data}})), words, "{data}");
    }
    let read = decode(typed("v1", "Secret"), json!({"data": {"a": "YW\nJj\r", "b": ""}}));
    assert_eq!(read.expect("is read").object, json!({"data": {"a": "YWJj", "b": ""}}));
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let value = json!({"foo": 1, "Spec": {}, "spec": {"bar": 1, "replicas": 2, "template": {"spec": {"containers": [
        {"x": 1, "resources": {"limits": {"cpu": "1"}}}, {"y": {"z": 1}}]}}}});
    let ty = typed("apps/v1", "Deployment");
    let decoded = decode(ty, value).expect("is read");
    assert_eq!(
        decoded.object,
        json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}}}})
    );
    let containers = "spec.template.spec.containers";
    let paths = ["Spec", "foo", "spec.bar", &format!("{containers}[0].x"), &format!("{containers}[1].y")];
    assert_eq!(decoded.unknown, paths);
}

#[test]
fn what_go_omits_when_empty_is_left_out_and_the_rest_stays() {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "labels": {}, "annotations": null, "creationTimestamp": null, "finalizers": [], "generation": 0},
        "spec": {"replicas": 0, "paused": false, "minReadySeconds": 0, "selector": {}, "strategy": {},
            "template": {"metadata": {"creationTimestamp": null}, "spec": {"nodeName": "", "hostNetwork": false,
                "terminationGracePeriodSeconds": 0, "containers": [{"name": "", "image": "", "command": [null],
                    "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {}}}]}}},
        "status": {},
    });
    let decoded = decode(typed("apps/v1", "Deployment"), value).expect("is read");
    assert_eq!(decoded.unknown, Vec::<String>::new());
    assert_eq!(
        decoded.object,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": {}, "strategy": {}, "template": {"metadata": {}, "spec": {
                "terminationGracePeriodSeconds": 0, "containers": [{"name": "", "command": [""],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}}},
            "status": {},
        })
    );
}

#[test]
fn what_go_always_writes_can_be_put_back() {
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"image": "x"}]}});
    fill_zero_values(typed("v1", "Pod"), &mut object);
    assert_eq!(
        object,
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "", "image": "x", "resources": {}}]}, "status": {}})
    );
    let mut object = json!({"metadata": {"name": "a"}});
    fill_zero_values(typed("rbac.authorization.k8s.io/v1", "ClusterRole"), &mut object);
    assert_eq!(object, json!({"metadata": {"name": "a"}, "rules": null}));
}

#[test]
fn schemas_of_crds_are_read_with_their_special_places() {
    let crd = |schema: Value| json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let value = crd(json!({
        "foo": 1, "type": "object", "default": {"any": null}, "enum": [null, 1],
        "items": {"foo": 1, "type": "string"}, "additionalProperties": true, "maximum": 1.5,
        "properties": {"x": {"bar": 1, "additionalProperties": {"type": "string", "foo": 1}}},
    }));
    let ty = typed("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let decoded = decode(ty, value).expect("is read");
    assert_eq!(
        decoded.object,
        crd(json!({
            "type": "object", "default": {"any": null}, "enum": [null, 1], "items": {"type": "string"},
            "additionalProperties": true, "maximum": 1.5,
            "properties": {"x": {"additionalProperties": {"type": "string"}}},
        }))
    );
    let root = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(decoded.unknown, [format!("{root}.foo"), format!("{root}.properties.x.bar")]);
    assert_eq!(
        refused(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            crd(json!({"additionalProperties": 5}))
        ),
        "boolean or JSON schema expected"
    );
}

#[test]
fn refusals_of_merged_objects_have_their_own_words() {
    let ty = typed("apps/v1", "Deployment");
    let cases = [
        (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
        (json!({"spec": {"paused": "x"}}), "unrecognized type: bool"),
        (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
        (json!({"metadata": {"labels": {"a": 5}}}), "cannot convert int64 to string"),
        (json!({"spec": 5}), "cannot restore struct from: int64"),
        (json!({"spec": {"template": {"spec": {"nodeSelector": []}}}}), "cannot restore map from slice"),
        (json!({"spec": {"template": {"spec": {"tolerations": {}}}}}), "cannot restore slice from map"),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
            "json: cannot unmarshal bool into Go value of type int32",
        ),
    ];
    for (value, words) in cases {
        let message = decode_merged(ty, value).expect_err("is refused").message;
        let start = "Deployment in version \"v1\" cannot be handled as a Deployment: ";
        assert_eq!(message.strip_prefix(start), Some(words));
    }
}

/// JSON that is near enough to a pod to get somewhere.
fn almost_a_pod() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let keys = [
        "metadata",
        "spec",
        "status",
        "labels",
        "name",
        "finalizers",
        "containers",
        "env",
        "ports",
        "resources",
        "limits",
        "cpu",
        "containerPort",
        "volumes",
        "emptyDir",
        "nodeSelector",
        "hostNetwork",
        "foo",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "managedFields",
        "fieldsV1",
        "creationTimestamp",
        "securityContext",
        "tolerations",
        "ownerReferences",
        "uid",
    ];
    let texts = ["", "a", "delete", "replace", "merge", "1Gi", "0.5", "2020-01-01T00:00:00Z", "name", "x y"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..100_000_000_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..6).prop_map(|entries| {
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn any_json_is_decoded_to_something_stable_or_refused(value in almost_a_pod()) {
        let ty = typed("v1", "Pod");
        if let Ok(decoded) = decode(ty, value) {
            let again = decode(ty, decoded.object.clone()).expect("is stable");
            proptest::prop_assert_eq!(&again.object, &decoded.object);
            proptest::prop_assert!(again.unknown.is_empty());
            let mut filled = decoded.object.clone();
            fill_zero_values(ty, &mut filled);
            proptest::prop_assert_eq!(decode(ty, filled).expect("is stable").unknown, Vec::<String>::new());
        }
    }

    #[test]
    fn what_a_new_object_sets_is_what_was_added_to_nothing(
        parts in proptest::collection::vec(almost_a_pod(), 3),
        is_filled in proptest::bool::ANY,
    ) {
        use crate::types::{compare::{Shape, compare}, new_fields};
        let ty = typed("v1", "Pod");
        let [metadata, spec, status] = parts.try_into().expect("three");
        let mut new = json!({"metadata": metadata, "spec": spec, "status": status});
        if is_filled {
            fill_zero_values(ty, &mut new);
        }
        for (shape, before) in [(Shape::Builtin(ty), ty.zero()), (Shape::Untyped, &Value::Null)] {
            let tree = compare(before, &new, shape, &["status"]).added_or_modified;
            let mut text = Vec::new();
            let is_any = new_fields::push_added(&mut text, before, &new, shape, &["status"]);
            proptest::prop_assert_eq!(is_any, !tree.is_empty());
            proptest::prop_assert_eq!(String::from_utf8(text).expect("text"), Value::Object(tree).to_string());
        }
    }

    #[test]
    fn any_patch_is_merged_or_refused(original in almost_a_pod(), patch in almost_a_pod(), third in almost_a_pod()) {
        let ty = typed("v1", "Pod");
        let merged = crate::types::strategic_merge(ty, &original, &patch);
        if let Ok(decoded) = merged.and_then(|merged| decode_merged(ty, merged)) {
            let mut new = decoded.object;
            let who = crate::types::managed_fields::Writer {
                manager: "m", api_version: "v1", subresource: "", time: jiff::Timestamp::UNIX_EPOCH, left_out: &[],
            };
            let shape = crate::types::managed_fields::Shape::Builtin(ty);
            crate::types::managed_fields::record(&third, &mut new, &who, shape);
        }
    }
}
