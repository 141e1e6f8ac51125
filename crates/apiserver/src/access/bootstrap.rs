//! The roles and bindings that every cluster has from the start.

use super::{RBAC, components};
use serde_json::{Value, json};

pub(super) const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
pub(super) const ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

pub(super) type Rule = (&'static [&'static str], &'static str, &'static [&'static str]);

const VIEWED: &[Rule] = &[
    (
        READ,
        "",
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        READ,
        "",
        &[
            "bindings",
            "events",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    (READ, "", &["namespaces"]),
    (READ, "discovery.k8s.io", &["endpointslices"]),
    (
        READ,
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    (READ, "autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    (READ, "batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    (READ, "policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    (READ, "networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
];

const EDITED: &[Rule] = &[
    (READ, "", &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]),
    (&["impersonate"], "", &["serviceaccounts"]),
    (WRITE, "", &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    (&["create"], "", &["pods/eviction"]),
    (
        WRITE,
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (&["create"], "", &["serviceaccounts/token"]),
    (
        WRITE,
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    (WRITE, "autoscaling", &["horizontalpodautoscalers"]),
    (WRITE, "batch", &["cronjobs", "jobs"]),
    (WRITE, "policy", &["poddisruptionbudgets"]),
    (WRITE, "networking.k8s.io", &["ingresses", "networkpolicies"]),
    (ALL, "coordination.k8s.io", &["leases"]),
];

const ADMINISTERED: &[Rule] = &[
    (&["create"], "authorization.k8s.io", &["localsubjectaccessreviews"]),
    (ALL, RBAC, &["rolebindings", "roles"]),
];

/// What the kubelets of bootstrapping nodes need to ask for their certificate.
const BOOTSTRAPPED: &[Rule] =
    &[(&["create", "get", "list", "watch"], "certificates.k8s.io", &["certificatesigningrequests"])];

const BASIC: &[Rule] = &[
    (&["create"], "authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    (&["create"], "authentication.k8s.io", &["selfsubjectreviews"]),
];

const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY_PATHS: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

/// The objects, in the order in which they are created.
pub fn bootstrap_objects() -> Vec<Value> {
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    vec![
        cluster_role("cluster-admin", &[], everything),
        aggregated("admin", &[], "admin"),
        aggregated("edit", &["admin"], "edit"),
        aggregated("view", &["edit"], "view"),
        cluster_role("system:aggregate-to-admin", &["admin"], rules(ADMINISTERED)),
        cluster_role("system:aggregate-to-edit", &["edit"], rules(EDITED)),
        cluster_role("system:aggregate-to-view", &["view"], rules(VIEWED)),
        cluster_role("system:basic-user", &[], rules(BASIC)),
        cluster_role(
            "system:discovery",
            &[],
            json!([{"nonResourceURLs": DISCOVERY_PATHS, "verbs": ["get"]}]),
        ),
        cluster_role(
            "system:public-info-viewer",
            &[],
            json!([{"nonResourceURLs": PUBLIC_PATHS, "verbs": ["get"]}]),
        ),
        cluster_role("system:node-bootstrapper", &[], rules(BOOTSTRAPPED)),
        cluster_role("system:node", &[], rules(components::NODE)),
        component(
            "system:kube-scheduler",
            components::SCHEDULER,
            "kube-scheduler",
            &["get", "list", "update", "watch"],
        ),
        component(
            "system:kube-controller-manager",
            components::CONTROLLER_MANAGER,
            "kube-controller-manager",
            &["get", "update"],
        ),
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        user_binding("system:kube-scheduler"),
        user_binding("system:kube-controller-manager"),
    ]
}

fn rules(table: &[Rule]) -> Value {
    table
        .iter()
        .map(
            |(verbs, group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}),
        )
        .collect()
}

fn metadata(name: &str, aggregated_to: &[&str]) -> Value {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    for role in aggregated_to {
        labels[format!("{RBAC}/aggregate-to-{role}")] = json!("true");
    }
    json!({"name": name, "labels": labels, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}})
}

fn cluster_role(name: &str, aggregated_to: &[&str], rules: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
           "metadata": metadata(name, aggregated_to), "rules": rules})
}

/// The role of a part of the control plane, which also keeps a lease of its own.
fn component(name: &str, table: &[Rule], lease: &str, verbs: &[&str]) -> Value {
    let mut rules = rules(table);
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"apiGroups": ["coordination.k8s.io"], "resourceNames": [lease],
            "resources": ["leases"], "verbs": verbs}));
    }
    cluster_role(name, &[], rules)
}

fn aggregated(name: &str, aggregated_to: &[&str], from: &str) -> Value {
    let selector = json!({"matchLabels": {format!("{RBAC}/aggregate-to-{from}"): "true"}});
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(name, aggregated_to),
           "aggregationRule": {"clusterRoleSelectors": [selector]}})
}

/// Binds the cluster role of this name to groups.
fn binding(name: &str, groups: &[&str]) -> Value {
    bound(
        name,
        groups.iter().map(|group| json!({"kind": "Group", "apiGroup": RBAC, "name": group})).collect(),
    )
}

/// Binds the cluster role to the user of the same name.
fn user_binding(name: &str) -> Value {
    bound(name, json!([{"kind": "User", "apiGroup": RBAC, "name": name}]))
}

fn bound(name: &str, subjects: Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(name, &[]),
           "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": subjects})
}

#[cfg(test)]
mod tests {
    use super::super::{
        authorize,
        tests::{Objects, asks, user},
    };
    use super::*;
    use crate::contract::Attributes;

    fn fresh_cluster() -> Objects {
        Objects(
            bootstrap_objects()
                .into_iter()
                .map(|object| {
                    (
                        if object["kind"] == "ClusterRole" { "clusterroles" } else { "clusterrolebindings" },
                        object,
                    )
                })
                .collect(),
        )
    }

    #[test]
    fn everybody_may_discover_and_ask_for_their_own_rights() {
        let cluster = fresh_cluster();
        let path = |path: &str| Attributes { verb: "get".into(), path: path.into(), ..Attributes::default() };
        let mut ask = asks("create", "selfsubjectaccessreviews", "", "");
        ask.group = "authorization.k8s.io".into();
        for attributes in [path("/apis/apps/v1"), path("/openapi/v3"), path("/version"), ask] {
            assert!(authorize(&user("jane"), &attributes, &cluster).allowed, "{attributes:?}");
        }
        assert!(!authorize(&user("jane"), &path("/metrics"), &cluster).allowed);
        assert!(!authorize(&user("jane"), &asks("list", "pods", "default", ""), &cluster).allowed);
    }

    #[test]
    fn parts_of_the_cluster_may_do_their_work_and_no_more() {
        let cluster = fresh_cluster();
        let may = |name: &str, verb: &str, group: &str, resource: &str, object: &str| {
            let mut asked = asks(verb, resource, "kube-system", object);
            asked.group = group.into();
            authorize(&user(name), &asked, &cluster).allowed
        };
        let (scheduler, manager) = ("system:kube-scheduler", "system:kube-controller-manager");
        let leases = "coordination.k8s.io";
        assert!(may(scheduler, "watch", "", "nodes", ""));
        assert!(may(scheduler, "update", leases, "leases", "kube-scheduler"));
        assert!(!may(scheduler, "update", leases, "leases", "kube-controller-manager"));
        assert!(!may(scheduler, "get", "", "secrets", "s"));
        assert!(may(manager, "list", "apps", "deployments", ""));
        assert!(may(manager, "update", leases, "leases", "kube-controller-manager"));
        assert!(!may(manager, "delete", "", "pods", "p"));
        assert!(!may("system:node:n", "list", "", "pods", ""), "kubelets get their role by a binding only");
    }

    #[test]
    fn admin_has_what_view_has_through_two_steps() {
        let mut cluster = fresh_cluster();
        let bound = |role: &str| {
            json!({"metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "ClusterRole", "name": role},
                   "subjects": [{"kind": "User", "name": "jane"}]})
        };
        cluster.0.push(("rolebindings", bound("admin")));
        let jane = user("jane");
        assert!(authorize(&jane, &asks("list", "pods", "a", ""), &cluster).allowed);
        assert!(authorize(&jane, &asks("delete", "secrets", "a", "s"), &cluster).allowed);
        assert!(!authorize(&jane, &asks("list", "nodes", "a", ""), &cluster).allowed);
        cluster.0.pop();
        cluster.0.push(("rolebindings", bound("view")));
        assert!(authorize(&jane, &asks("list", "pods", "a", ""), &cluster).allowed);
        assert!(!authorize(&jane, &asks("get", "secrets", "a", "s"), &cluster).allowed);
        assert!(!authorize(&jane, &asks("delete", "pods", "a", "p"), &cluster).allowed);
    }
}
