use crate::{object, part};
use hostler_snapshot::{budget, claim, namespace, storage_class, volume};
use serde_json::{Value, json};

#[test]
fn budgets() {
    let of = |generation: i64, selector: Value| {
        let whole = json!({
            "metadata": { "name": "b", "namespace": "n", "generation": generation },
            "spec": { "selector": selector },
            "status": { "disruptionsAllowed": 2, "observedGeneration": 3, "currentHealthy": 0, "desiredHealthy": 0,
                        "expectedPods": 0 },
        });
        budget(&object(whole)).unwrap()
    };
    let seen = of(3, json!({ "matchLabels": { "app": "x" } }));
    assert_eq!((seen.namespace.as_str(), seen.name.as_str(), seen.allowed), ("n", "b", 2));
    assert_eq!(part(&seen, "/selector"), json!({ "labels": { "app": "x" }, "expressions": [] }));
    // The API server refuses until the new one was looked at.
    assert_eq!(of(4, json!({})).allowed, 0);
    assert_eq!(part(&of(3, json!({})), "/selector"), json!({ "labels": {}, "expressions": [] }));
    assert_eq!(part(&of(3, Value::Null), "/selector"), Value::Null);
    let wrong = json!({ "metadata": { "name": "b", "namespace": "n" }, "spec": { "selector": {
        "matchExpressions": [{ "key": "a", "operator": "Like" }] } } });
    assert_eq!(
        budget(&object(wrong)).unwrap_err().to_string(),
        "PodDisruptionBudget n/b: spec.selector.matchExpressions[0].operator: \"Like\" is not known"
    );
}

#[test]
fn namespaces() {
    let own = namespace(&object(json!({ "metadata": { "name": "n", "labels": { "team": "red" } } })));
    assert_eq!(part(&own, ""), json!({ "name": "n", "labels": { "team": "red" } }));
}

#[test]
fn claims() {
    let of = |metadata: Value, spec: Value| {
        let mut whole = json!({ "metadata": { "name": "c", "namespace": "n" }, "spec": spec });
        whole["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        claim(&object(whole)).map(|claim| part(&claim, "")).map_err(|error| error.to_string())
    };
    let expected = |class: Value, volume: Value, modes: &[&str], request: i64| {
        let single = modes == ["ReadWriteOncePod"];
        Ok(json!({ "namespace": "n", "name": "c", "class": class, "volume": volume, "single_pod": single,
            "request": request, "modes": modes }))
    };
    let annotated = json!({ "annotations": { "volume.beta.kubernetes.io/storage-class": "old" } });
    let table = [
        (json!({}), json!({}), expected(Value::Null, Value::Null, &[], 0)),
        (
            json!({}),
            json!({ "storageClassName": "fast", "volumeName": "v", "accessModes": ["ReadWriteOncePod"] }),
            expected(json!("fast"), json!("v"), &["ReadWriteOncePod"], 0),
        ),
        (
            json!({}),
            json!({ "storageClassName": "", "volumeName": "", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "resources": { "requests": { "storage": "2Ki" } } }),
            expected(Value::Null, Value::Null, &["ReadWriteOnce", "ReadOnlyMany"], 2048),
        ),
        (annotated, json!({ "storageClassName": "fast" }), expected(json!("old"), Value::Null, &[], 0)),
        (
            json!({}),
            json!({ "resources": { "requests": { "storage": "much" } } }),
            Err("PersistentVolumeClaim n/c: spec.resources.requests.storage: \"much\" is no quantity"
                .to_owned()),
        ),
    ];
    for (metadata, spec, expected) in table {
        assert_eq!(of(metadata, spec), expected);
    }
}

#[test]
fn volumes() {
    let of = |spec: Value| {
        let whole = json!({ "metadata": { "name": "v", "labels": { "zone": "a" } }, "spec": spec,
            "status": { "phase": "Available" } });
        volume(&object(whole)).map(|volume| part(&volume, "")).map_err(|error| error.to_string())
    };
    let expected = |affinity: Value, driver: Value, local: bool| {
        Ok(
            json!({ "name": "v", "labels": { "zone": "a" }, "node_affinity": affinity, "driver": driver, "local": local,
                "available": true, "class": null, "capacity": 0, "modes": [] }),
        )
    };
    let nobody = Value::Null;
    let csi = json!({ "csi": { "driver": "d", "volumeHandle": "h" } });
    assert_eq!(of(csi), expected(nobody.clone(), json!("d"), false));
    let moved = json!({ "awsElasticBlockStore": { "volumeID": "x" } });
    assert_eq!(of(moved), expected(nobody.clone(), json!("ebs.csi.aws.com"), false));
    assert_eq!(of(json!({ "hostPath": { "path": "/x" } })), expected(nobody, Value::Null, true));
    let affinity = |operator: &str| {
        json!({ "local": { "path": "/x" }, "nodeAffinity": { "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "host", "operator": operator, "values": ["n"] }] } ] } } })
    };
    let term = json!([{ "labels": [{ "key": "host", "operator": "In", "values": ["n"] }], "fields": [] }]);
    assert_eq!(of(affinity("In")), expected(term, Value::Null, true));
    let field = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator";
    let unused = json!({ "storageClassName": "local", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] });
    let claimed = |phase: &str, by: Value| {
        let mut whole = json!({ "metadata": { "name": "v" }, "spec": unused, "status": { "phase": phase } });
        whole["spec"]["claimRef"] = by;
        let read = volume(&object(whole)).unwrap();
        assert_eq!((read.class.as_deref(), read.capacity), (Some("local"), 1 << 30));
        assert_eq!(read.modes, ["ReadWriteOnce"]);
        read.available
    };
    assert!(claimed("Available", Value::Null));
    assert!(!claimed("Released", Value::Null));
    assert!(!claimed("Available", json!({ "namespace": "n", "name": "c" })), "it is kept for somebody");
    let negative = json!({ "capacity": { "storage": "-1" } });
    assert_eq!(of(negative), Err("PersistentVolume v: spec.capacity.storage: \"-1\" is negative".to_owned()));
    assert_eq!(of(affinity("Is")), Err(format!("PersistentVolume v: {field}: \"Is\" is not known")));
}

#[test]
fn storage_classes() {
    let of = |more: Value| {
        let mut whole = json!({ "metadata": { "name": "s" }, "provisioner": "d" });
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        part(&storage_class(&object(whole)), "")
    };
    let expected = |provisioner: &str, waits: bool, topologies: Value| json!({ "name": "s", "provisioner": provisioner, "wait_for_first_consumer": waits, "allowed_topologies": topologies });
    assert_eq!(of(json!({})), expected("d", false, json!([])));
    assert_eq!(of(json!({ "volumeBindingMode": "Immediate" })), expected("d", false, json!([])));
    let moved = json!({ "provisioner": "kubernetes.io/cinder" });
    assert_eq!(of(moved), expected("cinder.csi.openstack.org", false, json!([])));
    let waits = json!({ "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [
        { "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] } ] });
    let term =
        json!([{ "labels": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }], "fields": [] }]);
    assert_eq!(of(waits), expected("d", true, term));
}
