//! Admission as the rest of the system relies on it.

use super::{Operation, admit, validate};
use crate::{
    contract::{Attributes, Context, GroupResource, Lookup, User},
    error::ApiError,
};
use hostler_base::{Chance, Clock};
use serde_json::{Value, json};
use std::sync::Arc;

/// A small cluster: objects by resource.
struct Cluster(Vec<(&'static str, Arc<Value>)>);

impl Lookup for Cluster {
    fn get(&self, resource: &GroupResource, _namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(resource, "").into_iter().find(|object| object["metadata"]["name"] == name)
    }

    fn list(&self, resource: &GroupResource, _namespace: &str) -> Vec<Arc<Value>> {
        let of_resource =
            |(name, object): &(&str, Arc<Value>)| (**name == *resource.resource).then(|| Arc::clone(object));
        self.0.iter().filter_map(of_resource).collect()
    }
}

fn cluster() -> Cluster {
    let objects = [
        ("namespaces", json!({"metadata": {"name": "default"}, "status": {"phase": "Active"}})),
        ("namespaces", json!({"metadata": {"name": "going"}, "status": {"phase": "Terminating"}})),
        (
            "nodes",
            json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z", "other": "o"}}}),
        ),
        ("priorityclasses", json!({"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})),
        (
            "storageclasses",
            json!({
                "metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            }),
        ),
        (
            "storageclasses",
            json!({
                "metadata": {"name": "new", "creationTimestamp": "2026-02-01T00:00:00Z",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "allowVolumeExpansion": true,
            }),
        ),
        ("storageclasses", json!({"metadata": {"name": "fixed"}})),
    ];
    Cluster(objects.into_iter().map(|(resource, object)| (resource, Arc::new(object))).collect())
}

fn attributes(group: &str, resource: &str, subresource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}

fn with_context<T>(lookup: &Cluster, run: impl FnOnce(&Context<'_>) -> T) -> T {
    let (clock, chance) = (Clock::system(), Chance::from_seed(1));
    let user = User { name: "u".to_owned(), uid: String::new(), groups: Vec::new() };
    run(&Context { clock: &clock, chance: &chance, user: &user, lookup })
}

fn created(attributes: &Attributes, mut object: Value) -> Result<Value, ApiError> {
    with_context(&cluster(), |context| {
        admit(attributes, Operation::Create, Some(&mut object), None, context)?;
        validate(attributes, Operation::Create, &object, None, context)?;
        Ok(object)
    })
}

#[test]
fn nothing_comes_into_a_namespace_that_is_missing_or_going() {
    let create = |namespace| {
        created(&attributes("", "configmaps", "", namespace, ""), json!({"metadata": {"name": "x"}}))
    };
    assert!(create("default").is_ok());
    let missing = create("nope").unwrap_err();
    assert_eq!((missing.code.as_u16(), missing.message.as_str()), (404, "namespaces \"nope\" not found"));
    let going = create("going").unwrap_err();
    assert_eq!(going.code.as_u16(), 403);
    assert_eq!(
        going.message,
        "configmaps \"x\" is forbidden: unable to create new content in namespace going because it is being terminated"
    );
    let cause = &going.details.unwrap().causes[0];
    assert_eq!(
        (cause.reason.as_str(), cause.message.as_str(), cause.field.as_str()),
        ("NamespaceTerminating", "namespace going is being terminated", "metadata.namespace")
    );
}

#[test]
fn updates_and_deletes_still_work_in_a_namespace_that_is_going() {
    let here = attributes("", "configmaps", "", "going", "x");
    with_context(&cluster(), |context| {
        admit(&here, Operation::Update, Some(&mut json!({})), Some(&json!({})), context).unwrap();
        admit(&here, Operation::Delete, None, Some(&json!({})), context).unwrap();
        let nowhere = attributes("", "configmaps", "", "nope", "x");
        admit(&nowhere, Operation::Delete, None, Some(&json!({})), context).unwrap();
    });
}

#[test]
fn some_namespaces_cannot_be_deleted() {
    for (name, allowed) in
        [("default", false), ("kube-system", false), ("kube-public", false), ("mine", true)]
    {
        let this = attributes("", "namespaces", "", "", name);
        let answer = with_context(&cluster(), |context| admit(&this, Operation::Delete, None, None, context));
        match answer {
            Ok(()) => assert!(allowed, "{name}"),
            Err(error) => {
                assert!(!allowed, "{name}");
                assert_eq!(
                    error.message,
                    format!("namespaces {name:?} is forbidden: this namespace may not be deleted")
                );
            }
        }
    }
}

#[test]
fn pods_get_priority_and_tolerations() {
    let pods = attributes("", "pods", "", "default", "");
    let plain = created(&pods, json!({"metadata": {"name": "p"}, "spec": {}})).unwrap();
    assert_eq!(
        plain["spec"],
        json!({
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        })
    );
    let high = created(
        &pods,
        json!({"spec": {"priorityClassName": "high", "tolerations": [{"operator": "Exists"}]}}),
    );
    assert_eq!(
        high.unwrap()["spec"],
        json!({"priorityClassName": "high", "priority": 100, "preemptionPolicy": "Never", "tolerations": [{"operator": "Exists"}]})
    );
    let refusals = [
        (json!({"priorityClassName": "nope"}), "no PriorityClass with name nope was found"),
        (
            json!({"priority": 7}),
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 \
             from the given PriorityClass name",
        ),
        (json!({"runtimeClassName": "nope"}), "pod rejected: RuntimeClass \"nope\" not found"),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ];
    for (spec, why) in refusals {
        let error = created(&pods, json!({"metadata": {"name": "p"}, "spec": spec})).unwrap_err();
        assert_eq!(error.message, format!("pods \"p\" is forbidden: {why}"));
    }
}

#[test]
fn an_update_keeps_the_priority() {
    let pods = attributes("", "pods", "", "default", "p");
    let old = json!({"spec": {"priority": 5, "preemptionPolicy": "Never"}});
    let mut new = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    with_context(&cluster(), |context| admit(&pods, Operation::Update, Some(&mut new), Some(&old), context))
        .unwrap();
    assert_eq!(
        new["spec"],
        json!({"priority": 5, "preemptionPolicy": "Never", "tolerations": [{"operator": "Exists"}]})
    );
}

#[test]
fn new_nodes_take_no_pods_yet() {
    let nodes = attributes("", "nodes", "", "", "");
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let node = created(&nodes, json!({"spec": {}})).unwrap();
    assert_eq!(node["spec"]["taints"], json!([taint]));
    let again = created(&nodes, json!({"spec": {"taints": [taint]}})).unwrap();
    assert_eq!(again["spec"]["taints"], json!([taint]));
}

#[test]
fn a_binding_carries_the_zone_of_its_node() {
    let bindings = attributes("", "pods", "binding", "default", "p");
    let binding =
        created(&bindings, json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}))
            .unwrap();
    assert_eq!(binding["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "z"}));
    let elsewhere = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "gone"}});
    assert_eq!(created(&bindings, elsewhere.clone()).unwrap(), elsewhere);
}

#[test]
fn claims_get_a_class_and_are_protected() {
    let claims = attributes("", "persistentvolumeclaims", "", "default", "");
    let claim = created(&claims, json!({"spec": {}})).unwrap();
    assert_eq!(claim["spec"]["storageClassName"], "new", "the newest default wins");
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let none = created(&claims, json!({"spec": {"storageClassName": ""}})).unwrap();
    assert_eq!(none["spec"]["storageClassName"], "");
    let volume = created(&attributes("", "persistentvolumes", "", "", ""), json!({})).unwrap();
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[test]
fn claims_grow_only_where_they_may() {
    let claims = attributes("", "persistentvolumeclaims", "", "default", "c");
    let claim = |class: &str, size: &str, phase: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}, "status": {"phase": phase}});
    let unsupported = "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the \
                       storageclass that provisions the pvc must support resize";
    let cases = [
        ("new", "2Gi", "Bound", None),
        ("new", "1Gi", "Pending", None),
        ("fixed", "2Gi", "Bound", Some(unsupported)),
        ("", "2Gi", "Bound", Some(unsupported)),
        (
            "new",
            "2Gi",
            "Pending",
            Some(
                "persistentvolumeclaims \"c\" is forbidden: Only bound persistent volume claims can be expanded",
            ),
        ),
    ];
    for (class, size, phase, refusal) in cases {
        let (new, old) = (claim(class, size, phase), claim(class, "1Gi", phase));
        let answer = with_context(&cluster(), |context| {
            validate(&claims, Operation::Update, &new, Some(&old), context)
        });
        assert_eq!(answer.err().map(|error| error.message).as_deref(), refusal, "{class} {size} {phase}");
    }
}

#[test]
fn there_is_one_default_priority() {
    let classes = attributes("scheduling.k8s.io", "priorityclasses", "", "", "");
    let mut lookup = cluster();
    let first = json!({"metadata": {"name": "first"}, "value": 1, "globalDefault": true});
    lookup.0.push(("priorityclasses", Arc::new(first.clone())));
    let second = json!({"metadata": {"name": "second"}, "value": 2, "globalDefault": true});
    with_context(&lookup, |context| {
        let error = validate(&classes, Operation::Create, &second, None, context).unwrap_err();
        assert_eq!(
            error.message,
            "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass first is already marked as default. \
             Only one default can exist"
        );
        validate(&classes, Operation::Update, &first, Some(&first), context).unwrap();
        let mut pod = json!({"spec": {}});
        let pods = attributes("", "pods", "", "default", "");
        admit(&pods, Operation::Create, Some(&mut pod), None, context).unwrap();
        assert_eq!(
            (&pod["spec"]["priority"], &pod["spec"]["priorityClassName"]),
            (&json!(1), &json!("first"))
        );
    });
}
