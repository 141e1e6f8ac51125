//! The objects by which a hollow node shows itself.

use super::MachineSpec;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, OwnerReference, Time},
    },
};
use kube::{ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
const LEASE_SECONDS: i32 = 40;

/// The Node as a kubelet registers it: not ready yet, and tainted so.
pub(super) fn registration(machine: &MachineSpec) -> Node {
    let mut labels = BTreeMap::from(
        [
            ("kubernetes.io/hostname", machine.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    labels.extend(machine.labels.clone());
    let not_ready = Taint { key: NOT_READY.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let own = machine.taints.iter().map(|taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.clone(),
        time_added: None,
    });
    Node {
        metadata: ObjectMeta {
            name: Some(machine.name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: machine.provider_id.clone(),
            taints: Some(own.chain([not_ready]).collect()),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// The labels and the provider id of an existing Node brought in line; nothing if they already are.
pub(super) fn taken_over(existing: &Node, machine: &MachineSpec) -> Option<Node> {
    let wanted = registration(machine);
    let mut node = existing.clone();
    node.labels_mut().extend(wanted.metadata.labels.unwrap_or_default());
    let spec = node.spec.get_or_insert_default();
    if spec.provider_id.is_none() {
        spec.provider_id.clone_from(&machine.provider_id);
    }
    (node != *existing).then_some(node)
}

/// The Node without the taint of one that is not ready; nothing if it has none.
pub(super) fn untainted(existing: &Node) -> Option<Node> {
    let mut node = existing.clone();
    let taints = node.spec.as_mut()?.taints.as_mut()?;
    let before = taints.len();
    taints.retain(|taint| taint.key != NOT_READY);
    (taints.len() < before).then_some(node)
}

/// What the kubelet reports about its machine.
pub(super) fn status(
    machine: &MachineSpec,
    ip: &str,
    ready: bool,
    since: Timestamp,
    now: Timestamp,
) -> NodeStatus {
    let quantities = |texts: &BTreeMap<String, String>| -> BTreeMap<String, Quantity> {
        texts.iter().map(|(key, value)| (key.clone(), Quantity(value.clone()))).collect()
    };
    let mut allocatable = quantities(&machine.capacity);
    allocatable.extend(quantities(&machine.allocatable));
    let condition = |type_: &str, value: bool, reason: &str, message: &str, since: Timestamp| NodeCondition {
        type_: type_.to_owned(),
        status: if value { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(since)),
    };
    let (ready_reason, ready_message) = if ready {
        ("KubeletReady", "kubelet is posting ready status")
    } else {
        ("KubeletNotReady", "container runtime network not ready")
    };
    let address =
        |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    NodeStatus {
        capacity: Some(quantities(&machine.capacity)),
        allocatable: Some(allocatable),
        addresses: Some(vec![address("InternalIP", ip), address("Hostname", &machine.name)]),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                since,
            ),
            condition(
                "DiskPressure",
                false,
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
                since,
            ),
            condition(
                "PIDPressure",
                false,
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
                since,
            ),
            condition("Ready", ready, ready_reason, ready_message, since),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            kubelet_version: "v1.36.0".to_owned(),
            container_runtime_version: "hollow://1.0.0".to_owned(),
            os_image: "Hollow".to_owned(),
            kernel_version: "6.12.0".to_owned(),
            machine_id: machine.name.clone(),
            system_uuid: machine.name.clone(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The node's Lease, owned by the Node so that it goes with it.
pub(super) fn lease(node: &str, node_uid: &str, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: node_uid.to_owned(),
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}
