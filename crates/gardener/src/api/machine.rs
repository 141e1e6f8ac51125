use super::{date_time, nullable_date_time, open_object};
use k8s_openapi::{
    api::core::v1::{NodeAddress, NodeCondition, NodeSpec},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
/// One machine: wanted when there is no `providerID`, there when there is one.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "machine.sapcloud.io",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    shortname = "mc",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.currentStatus.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Node", type_ = "string", json_path = ".metadata.labels.node"),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID", priority = 1)
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    pub class: ClassSpec,
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    #[serde(rename = "nodeTemplate", skip_serializing_if = "Option::is_none")]
    pub node_template: Option<Box<NodeTemplateSpec>>,
    #[serde(flatten)]
    pub configuration: MachineConfiguration,
}

/// Names the class.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

impl ClassSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Labels, annotations and taints for the Node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplateSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object")]
    pub metadata: Option<TemplateMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeSpec>,
}

/// The metadata of what is made from a template. Gardener's definitions leave open what is in it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TemplateMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Kept and not heeded.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What may be set per machine in place of a flag. Durations are Go's, for example `2h0m0s`, and are kept
/// as they were written.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfiguration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_preserve_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_health_timeout: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_evict_retries: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_conditions: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// A copy of the Node's conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    pub last_operation: LastOperation,
    pub current_status: CurrentStatus,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_known_state: String,
}

impl Machine {
    /// Gives back room that reading it took beyond need: all machines are kept, for long.
    pub fn shrink(&mut self) {
        if let Some(status) = &mut self.status {
            status.addresses.shrink_to_fit();
            status.conditions.shrink_to_fit();
        }
        self.metadata.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
        self.metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

/// What was done last; during a deletion the description is also the place where it stands.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LastOperation {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<OperationState>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub operation: Option<OperationType>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CurrentStatus {
    #[serde(skip_serializing_if = "Phase::is_empty")]
    #[schemars(with = "Option<String>")]
    pub phase: Phase,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout_active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "nullable_date_time")]
    pub preserve_expiry_time: Option<Time>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum OperationState {
    Processing,
    Failed,
    Successful,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum OperationType {
    Create,
    Update,
    InPlaceUpdate,
    DrainNode,
    HealthCheck,
    Delete,
}

/// Where a machine stands. Empty until its creation is done.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Phase {
    #[default]
    #[serde(rename = "")]
    Empty,
    Pending,
    Available,
    Running,
    Terminating,
    Unknown,
    Failed,
    CrashLoopBackOff,
    InPlaceUpdating,
    InPlaceUpdateSuccessful,
    InPlaceUpdateFailed,
}

impl Phase {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
    fn is_empty(&self) -> bool {
        *self == Self::Empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn machines_keep_the_wire_form() {
        let wire = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "shoot"},
            "spec": {"class": {"kind": "MachineClass", "name": "c"}, "providerID": "stackit://p/s",
                     "creationTimeout": "20m0s", "maxEvictRetries": 3,
                     "nodeTemplate": {"metadata": {"labels": {"a": "b"}}}},
            "status": {"currentStatus": {"phase": "CrashLoopBackOff", "lastUpdateTime": "2026-01-01T00:00:00Z"},
                       "lastOperation": {"type": "Create", "state": "Failed", "description": "x", "errorCode": "Internal"}},
        });
        let machine: Machine = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(machine.spec.configuration.creation_timeout.as_deref(), Some("20m0s"));
        assert_eq!(serde_json::to_value(&machine).unwrap(), wire);
    }

    #[test]
    fn a_machine_takes_no_more_room_than_it_needs() {
        let wire = json!({
            "metadata": {"name": "m", "finalizers": ["a"],
                "ownerReferences": [{"apiVersion": "v", "kind": "k", "name": "n", "uid": "u"}]},
            "spec": {},
            "status": {"addresses": [{"type": "Hostname", "address": "m"}],
                "conditions": [{"type": "Ready", "status": "True"}]}});
        let mut machine: Machine = serde_json::from_value(wire).unwrap();
        let before = machine.clone();
        machine.shrink();
        assert_eq!(machine, before);
        let status = machine.status.unwrap();
        let (finalizers, owners) =
            (machine.metadata.finalizers.unwrap(), machine.metadata.owner_references.unwrap());
        let room = [
            status.addresses.capacity(),
            status.conditions.capacity(),
            finalizers.capacity(),
            owners.capacity(),
        ];
        assert_eq!(room, [1; 4]);
    }

    #[test]
    fn an_object_with_nothing_in_it_is_a_machine_too() {
        let machine: Machine =
            serde_json::from_value(json!({"metadata": {"name": "m"}, "spec": {}})).unwrap();
        assert_eq!(machine.spec, MachineSpec::default());
    }
}
