//! What is special about each built-in kind: defaults, validation, life cycle. Everything here works on JSON
//! of any shape and never panics; what is missing reads as empty.

mod config;
mod container_validation;
mod disruption;
mod fields;
mod json;
pub mod metadata;
pub mod names;
pub mod namespace;
mod node;
mod pod_defaults;
mod pod_life;
mod pod_update;
mod pod_validation;
mod quantity;
mod report;
mod scale;
mod scheduling_validation;
mod selector;
mod storage;
mod volume_validation;
mod workloads;

pub use disruption::{Eviction, evict, still_processed};
pub use fields::{field, selectable_fields};
pub use pod_life::bind;
pub use scale::{scale_of, set_scale};

use crate::contract::Kind;
use jiff::Timestamp;

/// What is special about this resource; nothing is about those not known here.
pub fn kind(group: &str, resource: &str) -> &'static dyn Kind {
    match (group, resource) {
        ("", "configmaps") => &config::ConfigMaps,
        ("", "namespaces") => &namespace::Namespaces,
        ("", "nodes") => &node::Nodes,
        ("", "persistentvolumeclaims") => &storage::PersistentVolumeClaims,
        ("", "persistentvolumes") => &storage::PersistentVolumes,
        ("", "pods") => &pod_life::Pods,
        ("", "replicationcontrollers") => &workloads::ReplicationControllers,
        ("", "secrets") => &config::Secrets,
        ("apps", "controllerrevisions") => &workloads::ControllerRevisions,
        ("apps", "daemonsets") => &workloads::DaemonSets,
        ("apps", "deployments") => &workloads::Deployments,
        ("apps", "replicasets") => &workloads::ReplicaSets,
        ("apps", "statefulsets") => &workloads::StatefulSets,
        ("policy", "poddisruptionbudgets") => &disruption::PodDisruptionBudgets,
        ("storage.k8s.io", "csidrivers") => &storage::CsiDrivers,
        ("storage.k8s.io", "csinodes") => &storage::CsiNodes,
        ("storage.k8s.io", "storageclasses") => &storage::StorageClasses,
        ("storage.k8s.io", "volumeattachments") => &storage::VolumeAttachments,
        _ => &Plain,
    }
}

/// An object with spec and status about which nothing more is known.
struct Plain;

impl Kind for Plain {}

/// A time as Kubernetes writes it: in UTC, to the second.
pub(crate) fn wire_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
