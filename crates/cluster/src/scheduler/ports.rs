//! Are the host ports the pod wants still free on the node?

use super::Refusal;
use super::snapshot::NodeView;
use k8s_openapi::api::core::v1::Pod;

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

const ANY_ADDRESS: &str = "0.0.0.0";

impl HostPort {
    fn clashes(&self, other: &Self) -> bool {
        let same_address =
            self.address == other.address || self.address == ANY_ADDRESS || other.address == ANY_ADDRESS;
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = HostPort> {
    let spec = pod.spec.iter();
    let sidecars = spec
        .clone()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.flat_map(|spec| &spec.containers)
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let or = |text: &Option<String>, otherwise: &str| {
                text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.to_owned())
            };
            Some(HostPort {
                address: or(&port.host_ip, ANY_ADDRESS),
                protocol: or(&port.protocol, "TCP"),
                port: number,
            })
        })
}

pub(crate) fn taken(pod: &Pod, node: &NodeView) -> Option<Refusal> {
    let wanted: Vec<HostPort> = host_ports(pod).collect();
    if wanted.is_empty() {
        return None;
    }
    let clash = node
        .pods
        .iter()
        .flat_map(|running| host_ports(running))
        .any(|used| wanted.iter().any(|port| port.clashes(&used)));
    clash.then(|| Refusal::passing("node(s) didn't have free ports for the requested pod ports"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{pod, roomy};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn with_port(port: &Value) -> Pod {
        pod(json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}}))
    }

    #[test]
    fn host_ports_clash_by_address_protocol_and_number() {
        let used = json!({"containerPort": 80, "hostPort": 80});
        let used_on = json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"});
        for (used, wanted, expected) in [
            (&used, json!({"containerPort": 80, "hostPort": 80}), true),
            (&used, json!({"containerPort": 80, "hostPort": 81}), false),
            (&used, json!({"containerPort": 80}), false),
            (&used, json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"}), false),
            (&used, json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}), true),
            (&used_on, json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}), false),
            (&used_on, json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}), true),
        ] {
            let mut node = roomy("n", &[]);
            node.add(Arc::new(with_port(used)));
            assert_eq!(taken(&with_port(&wanted), &node).is_some(), expected, "{used} {wanted}");
        }
    }
}
