//! Nodes with just the fields that are looked at: all nodes of a cluster are kept, and most of what a node tells is about
//! its images and its kernel.

use k8s_openapi::{
    ClusterResourceScope,
    api::core::v1::{AttachedVolume, NodeAddress, NodeCondition, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A Node of the target cluster, laid out as on the wire. What is written to one is a patch, so that nothing is lost of
/// what is not kept here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeStatus>,
}

crate::objects::resource!(Node, "Node", "", "nodes", ClusterResourceScope);

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<NodeAddress>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<NodeCondition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_attached: Option<Vec<AttachedVolume>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_in_use: Option<Vec<String>>,
}

impl Node {
    /// Gives back room that reading it took beyond need: it is kept for long.
    pub fn shrink(&mut self) {
        if let Some(status) = &mut self.status {
            status.addresses.iter_mut().for_each(Vec::shrink_to_fit);
            status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
            status.volumes_attached.iter_mut().for_each(Vec::shrink_to_fit);
            status.volumes_in_use.iter_mut().for_each(Vec::shrink_to_fit);
        }
        if let Some(spec) = &mut self.spec {
            spec.taints.iter_mut().for_each(Vec::shrink_to_fit);
        }
        self.metadata.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_node_is_kept_what_is_asked_for() {
        let kept = json!({
            "metadata": {"name": "m", "labels": {"a": "b"}},
            "spec": {"providerID": "stackit://p/s", "unschedulable": true,
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            "status": {"capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
                "addresses": [{"type": "Hostname", "address": "m"}],
                "volumesInUse": ["v"], "volumesAttached": [{"name": "v", "devicePath": "d"}]}});
        let mut whole = kept.clone();
        whole["apiVersion"] = json!("v1");
        whole["spec"]["podCIDR"] = json!("10.0.0.0/24");
        whole["status"]["images"] = json!([{"names": ["an/image:1"], "sizeBytes": 5}]);
        whole["status"]["allocatable"] = json!({"cpu": "3"});
        let mut node: Node = serde_json::from_value(whole).unwrap();
        node.shrink();
        assert_eq!(serde_json::to_value(node).unwrap(), kept);
        // The real type reads it in the same way.
        let real: k8s_openapi::api::core::v1::Node = serde_json::from_value(kept.clone()).unwrap();
        let mut real = serde_json::to_value(real).unwrap();
        real.as_object_mut().unwrap().retain(|field, _| field != "apiVersion" && field != "kind");
        assert_eq!(real, kept);
    }
}
