//! What is special about each built-in kind: defaults, validation, life cycle. Everything here works on JSON
//! of any shape and never panics; what is missing reads as empty.

mod certificate;
mod config;
mod container_validation;
mod csi;
mod disruption;
mod event;
mod fields;
mod jobs;
pub(crate) mod json;
#[cfg(test)]
mod life_tests;
pub mod metadata;
pub mod names;
mod namespace;
mod node;
mod plain;
mod pod_defaults;
mod pod_life;
mod pod_update;
mod pod_validation;
mod quantity;
mod rbac;
#[cfg(test)]
mod recorded_tests;
mod report;
mod scale;
mod scheduling_validation;
mod selector;
mod service;
#[cfg(test)]
mod shape_tests;
mod storage;
mod volume_validation;
mod workload_rules;
mod workloads;

pub(crate) use quantity::Quantity;

pub use disruption::{evict, still_processed};
pub use event::{to_core_v1, to_events_v1};
pub use fields::{field, selectable_fields};
pub use pod_life::bind;
pub use scale::{scale_of, set_scale};

use crate::contract::Kind;

/// What is special about this resource; nothing is about those not known here.
pub fn kind(group: &str, resource: &str) -> &'static dyn Kind {
    match group {
        "" => core_kind(resource),
        "apps" => match resource {
            "controllerrevisions" => &workloads::ControllerRevisions,
            "daemonsets" => &workloads::DaemonSets,
            "deployments" => &workloads::Deployments,
            "replicasets" => &workloads::ReplicaSets,
            "statefulsets" => &workloads::StatefulSets,
            _ => &plain::Plain,
        },
        "batch" => match resource {
            "cronjobs" => &jobs::CronJobs,
            "jobs" => &jobs::Jobs,
            _ => &plain::Plain,
        },
        "rbac.authorization.k8s.io" => match resource {
            "clusterrolebindings" => &rbac::Bindings { namespaced: false },
            "clusterroles" => &rbac::Roles { namespaced: false },
            "rolebindings" => &rbac::Bindings { namespaced: true },
            "roles" => &rbac::Roles { namespaced: true },
            _ => &plain::Plain,
        },
        "storage.k8s.io" => match resource {
            "csidrivers" => &csi::CsiDrivers,
            "csinodes" => &csi::CsiNodes,
            "csistoragecapacities" => &plain::Data,
            "storageclasses" => &storage::StorageClasses,
            "volumeattachments" => &csi::VolumeAttachments,
            _ => &plain::Plain,
        },
        _ => match (group, resource) {
            ("certificates.k8s.io", "certificatesigningrequests") => &certificate::CertificateSigningRequests,
            ("coordination.k8s.io", "leases") => &plain::Leases,
            ("discovery.k8s.io", "endpointslices") => &plain::EndpointSlices,
            ("events.k8s.io", "events") => &event::Events { strict: true },
            ("policy", "poddisruptionbudgets") => &disruption::PodDisruptionBudgets,
            ("scheduling.k8s.io", "priorityclasses") => &plain::PriorityClasses,
            _ => &plain::Plain,
        },
    }
}

fn core_kind(resource: &str) -> &'static dyn Kind {
    match resource {
        "configmaps" => &config::ConfigMaps,
        "endpoints" => &plain::Endpoints,
        "events" => &event::Events { strict: false },
        "namespaces" => &namespace::Namespaces,
        "nodes" => &node::Nodes,
        "persistentvolumeclaims" => &storage::PersistentVolumeClaims,
        "persistentvolumes" => &storage::PersistentVolumes,
        "pods" => &pod_life::Pods,
        "serviceaccounts" => &plain::Data,
        "secrets" => &config::Secrets,
        "services" => &service::Services,
        _ => &plain::Plain,
    }
}
