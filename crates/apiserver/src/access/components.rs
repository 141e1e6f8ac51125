//! What the other parts of a cluster may do: kubelets, the scheduler and the controller manager.

use super::bootstrap::{ALL, READ, Rule};

const CREATE: &[&str] = &["create"];
const REPORT: &[&str] = &["create", "patch", "update"];
const CHANGE: &[&str] = &["patch", "update"];
const OWN: &[&str] = &["create", "delete", "get", "patch", "update"];

/// A kubelet.
pub(super) const NODE: &[Rule] = &[
    (CREATE, "authentication.k8s.io", &["tokenreviews"]),
    (CREATE, "authorization.k8s.io", &["localsubjectaccessreviews", "subjectaccessreviews"]),
    (READ, "", &["configmaps", "pods", "secrets", "services"]),
    (&["create", "get", "list", "watch"], "", &["nodes"]),
    (CHANGE, "", &["nodes", "nodes/status", "pods/status"]),
    (REPORT, "", &["events"]),
    (REPORT, "events.k8s.io", &["events"]),
    (&["create", "delete"], "", &["pods"]),
    (CREATE, "", &["pods/eviction", "serviceaccounts/token"]),
    (&["get"], "", &["endpoints", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"]),
    (&["create", "get", "list", "watch"], "certificates.k8s.io", &["certificatesigningrequests"]),
    (OWN, "coordination.k8s.io", &["leases"]),
    (&["get"], "storage.k8s.io", &["volumeattachments"]),
    (&["get", "patch", "update"], "", &["persistentvolumeclaims/status"]),
    (READ, "storage.k8s.io", &["csidrivers"]),
    (OWN, "storage.k8s.io", &["csinodes"]),
    (READ, "node.k8s.io", &["runtimeclasses"]),
    (&["get"], "resource.k8s.io", &["resourceclaims"]),
    (&["deletecollection"], "resource.k8s.io", &["resourceslices"]),
];

/// The scheduler; its lease comes beside this.
pub(super) const SCHEDULER: &[Rule] = &[
    (REPORT, "", &["events"]),
    (REPORT, "events.k8s.io", &["events"]),
    (CREATE, "coordination.k8s.io", &["leases"]),
    (ALL, "coordination.k8s.io", &["leasecandidates"]),
    (
        READ,
        "",
        &[
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "replicationcontrollers",
            "services",
        ],
    ),
    (&["delete", "get", "list", "watch"], "", &["pods"]),
    (CREATE, "", &["bindings", "pods/binding"]),
    (CHANGE, "", &["pods/status"]),
    (READ, "apps", &["replicasets", "statefulsets"]),
    (READ, "policy", &["poddisruptionbudgets"]),
    (CREATE, "authentication.k8s.io", &["tokenreviews"]),
    (CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
    (READ, "storage.k8s.io", &["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"]),
    (READ, "resource.k8s.io", &["deviceclasses", "resourceslices"]),
    (
        &["get", "list", "patch", "update", "watch"],
        "resource.k8s.io",
        &["resourceclaims", "resourceclaims/status"],
    ),
    (&["update"], "", &["pods/finalizers"]),
    (&["create", "delete"], "resource.k8s.io", &["resourceclaims"]),
    (CHANGE, "resource.k8s.io", &["resourceclaims/binding"]),
];

/// The controller manager; its lease comes beside this. Its controllers have accounts of their own.
pub(super) const CONTROLLER_MANAGER: &[Rule] = &[
    (REPORT, "", &["events"]),
    (REPORT, "events.k8s.io", &["events"]),
    (CREATE, "coordination.k8s.io", &["leases"]),
    (CREATE, "", &["secrets", "serviceaccounts", "serviceaccounts/token"]),
    (&["delete"], "", &["secrets"]),
    (&["get"], "", &["configmaps", "namespaces", "secrets", "serviceaccounts"]),
    (&["update"], "", &["secrets", "serviceaccounts"]),
    (CREATE, "authentication.k8s.io", &["tokenreviews"]),
    (CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
    (&["list", "watch"], "*", &["*"]),
];
