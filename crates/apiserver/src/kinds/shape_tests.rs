//! Whatever JSON arrives, no hook panics.

use super::{bind, evict, field, kind, metadata, names::NameRule, scale_of, selectable_fields, set_scale};
use crate::{
    admission::{self, Operation},
    contract::{Attributes, Context, GroupResource, Lookup, User},
};
use hostler_base::{Chance, Clock};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const RESOURCES: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "endpoints"),
    ("", "events"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("example.com", "things"),
];

/// Field names that the hooks look at, so that what is generated reaches them.
const KEYS: &[&str] = &[
    "metadata",
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "spec",
    "status",
    "template",
    "containers",
    "initContainers",
    "image",
    "ports",
    "containerPort",
    "hostPort",
    "protocol",
    "env",
    "valueFrom",
    "fieldRef",
    "volumes",
    "volumeMounts",
    "mountPath",
    "resources",
    "limits",
    "requests",
    "cpu",
    "storage",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "replicas",
    "strategy",
    "updateStrategy",
    "rollingUpdate",
    "maxSurge",
    "maxUnavailable",
    "minAvailable",
    "tolerations",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "taints",
    "effect",
    "podCIDRs",
    "capacity",
    "conditions",
    "type",
    "data",
    "stringData",
    "rules",
    "verbs",
    "roleRef",
    "subjects",
    "clusterIP",
    "clusterIPs",
    "accessModes",
    "csi",
    "drivers",
    "schedule",
    "jobTemplate",
    "livenessProbe",
    "httpGet",
    "topologySpreadConstraints",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "phase",
    "priorityClassName",
    "target",
    "scheduling",
    "usages",
    "request",
    "webhooks",
    "subsets",
    "addresses",
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "A_b",
    "-",
    "a/b",
    "10.0.0.0/99",
    "25%",
    "%",
    "1Gi",
    "-1",
    "x y",
    "Always",
    "In",
    "RollingUpdate",
    "kubernetes",
    "ClientIP",
    "LoadBalancer",
    "ExternalName",
    "ä",
    "e9",
    "Running",
    "🦀-",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(TEXTS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(KEYS), inner), 0..6).prop_map(|fields| {
                let fields: Map<String, Value> =
                    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                Value::Object(fields)
            }),
        ]
    })
}

/// Metadata of the right shape with odd texts in it.
fn odd_metadata() -> impl Strategy<Value = Value> {
    let text = || proptest::sample::select(TEXTS);
    proptest::collection::vec(text(), 8).prop_map(|texts| {
        json!({
            "name": texts[0], "generateName": texts[1], "namespace": texts[2], "uid": texts[3],
            "labels": {texts[4]: texts[5]}, "annotations": {texts[5]: texts[6]}, "finalizers": [texts[7], texts[0]],
            "ownerReferences": [{"apiVersion": texts[1], "kind": texts[2], "name": texts[3], "controller": true}],
        })
    })
}

/// Something that begins like an object, so that the hooks get past its first field.
fn any_object() -> impl Strategy<Value = Value> {
    let part =
        || prop_oneof![any_json(), any_json().prop_map(|value| json!({ "spec": value, "metadata": {} }))];
    prop_oneof![
        any_json(),
        (prop_oneof![any_json(), odd_metadata()], part(), any_json()).prop_map(|(metadata, spec, status)| {
            json!({
                "metadata": metadata, "spec": {"template": spec, "containers": [status.clone()], "volumes": [metadata],
                    "ports": status, "selector": spec, "taints": [spec], "updateStrategy": metadata},
                "status": status,
            })
        }),
    ]
}

/// Every lookup finds the same odd object.
struct Odd(Arc<Value>);

impl Lookup for Odd {
    fn get(&self, _resource: &GroupResource, _namespace: &str, _name: &str) -> Option<Arc<Value>> {
        Some(Arc::clone(&self.0))
    }

    fn list(&self, _resource: &GroupResource, _namespace: &str) -> Vec<Arc<Value>> {
        vec![Arc::clone(&self.0), Arc::clone(&self.0)]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_hook_panics(new in any_object(), old in any_object(), requested in any::<Option<i64>>()) {
        let (clock, chance) = (Clock::system(), Chance::from_seed(1));
        let user = User { name: String::new(), uid: String::new(), groups: Vec::new() };
        let lookup = Odd(Arc::new(old.clone()));
        let context = Context { clock: &clock, chance: &chance, user: &user, lookup: &lookup };
        for (group, resource) in RESOURCES {
            let hooks = kind(group, resource);
            let attributes = Attributes {
                group: (*group).to_owned(), resource: (*resource).to_owned(), namespace: "n".to_owned(),
                ..Attributes::default()
            };
            let mut created = new.clone();
            hooks.default(&mut created);
            let _ = admission::admit(&attributes, Operation::Create, Some(&mut created), None, &context);
            let _ = hooks.prepare_create(&mut created, &context);
            hooks.validate(&created);
            let _ = admission::validate(&attributes, Operation::Create, &created, None, &context);
            let mut updated = new.clone();
            let _ = hooks.prepare_update(&mut updated, &old, &context);
            hooks.validate_update(&updated, &old);
            let _ = admission::admit(&attributes, Operation::Update, Some(&mut updated), Some(&old), &context);
            let _ = admission::validate(&attributes, Operation::Update, &updated, Some(&old), &context);
            let mut status = new.clone();
            hooks.prepare_status_update(&mut status, &old, &context);
            hooks.validate_status_update(&status, &old);
            let mut other = new.clone();
            hooks.prepare_subresource_update("approval", &mut other, &old, &context);
            hooks.validate_subresource_update("approval", &other, &old);
            hooks.moves_generation(&new, &old);
            hooks.is_held(&new);
            hooks.begin_deletion(&mut other);
            hooks.deletion(&new, requested);
            for path in selectable_fields(group, resource) {
                field(&new, path);
            }
            let _ = scale_of(group, resource, &new);
            let _ = set_scale(group, resource, &mut updated, &old);
        }
        metadata::validate_create(&new, true, NameRule::Label);
        metadata::validate_update(&new, &old);
        let now = clock.now();
        let _ = bind(&mut new.clone(), &old, now);
        let _ = evict(&new, &old, &[Arc::new(old.clone())], now);
        super::to_core_v1(&new);
        super::to_events_v1(&new);
    }
}
