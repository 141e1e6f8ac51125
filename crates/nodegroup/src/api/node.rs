use super::{condition_status, date_time, optional_text};
use crate::names::error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
/// One VPSie instance and its life as a Kubernetes node.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "VPSieNode",
    plural = "vpsienodes",
    shortname = "vn",
    namespaced,
    status = "VPSieNodeStatus",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".status.phase",
    printcolumn(name = "VPS ID", type_ = "integer", json_path = ".spec.vpsieInstanceID"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Instance Type", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "NodeGroup", type_ = "string", json_path = ".spec.nodeGroupName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeSpec {
    /// VPSie VPS instance ID: 0 until there is one, and then never another.
    #[serde(rename = "vpsieInstanceID")]
    #[schemars(range(min = 0), extend("x-kubernetes-validations" = json!([
        {"rule": "oldSelf == 0 || self == oldSelf", "message": error::INSTANCE_ID_IMMUTABLE},
    ])))]
    pub vpsie_instance_id: i64,
    /// VPSie instance type.
    #[schemars(length(min = 1))]
    pub instance_type: String,
    /// Name of the parent NodeGroup.
    #[schemars(length(min = 1))]
    pub node_group_name: String,
    /// VPSie datacenter where the instance is located.
    #[serde(rename = "datacenterID")]
    #[schemars(length(min = 1))]
    pub datacenter_id: String,
    /// Kubernetes node name (set after cluster join).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub node_name: Option<String>,
    /// Primary IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub ip_address: Option<String>,
    /// IPv6 address (if available).
    #[serde(default, rename = "ipv6Address", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub ipv6_address: Option<String>,
    /// The identifier of the Kubernetes cluster that VPSie runs and whose worker this is. Workers have no instance ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub resource_identifier: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VPSieNodeStatus {
    /// Current lifecycle phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "phase")]
    pub phase: Option<VPSieNodePhase>,
    /// Kubernetes node name after registration.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Raw VPSie API status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpsie_status: String,
    /// Instance hostname.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Allocated resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources")]
    pub resources: Option<NodeResources>,
    /// Detailed status conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<VPSieNodeCondition>,
    /// Timestamp when VPSieNode was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub created_at: Option<Time>,
    /// Timestamp when VPS became running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub provisioned_at: Option<Time>,
    /// Timestamp when node joined Kubernetes cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub joined_at: Option<Time>,
    /// Timestamp when node became Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub ready_at: Option<Time>,
    /// Timestamp when termination began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub terminating_at: Option<Time>,
    /// Most recent error message (for troubleshooting).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// Generation of spec that was last processed.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub observed_generation: i64,
}

fn phase(generator: &mut SchemaGenerator) -> Schema {
    VPSieNodePhase::json_schema(generator)
}

fn resources(generator: &mut SchemaGenerator) -> Schema {
    NodeResources::json_schema(generator)
}

fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = VPSieNodeCondition::json_schema(generator);
    json_schema!({
        "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Where an instance stands in its life.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub enum VPSieNodePhase {
    Pending,
    Provisioning,
    Provisioned,
    Joining,
    Ready,
    Terminating,
    Deleting,
    Failed,
}

impl VPSieNodePhase {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Provisioning,
        Self::Provisioned,
        Self::Joining,
        Self::Ready,
        Self::Terminating,
        Self::Deleting,
        Self::Failed,
    ];

    /// The word on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Joining => "Joining",
            Self::Ready => "Ready",
            Self::Terminating => "Terminating",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
        }
    }
}

/// What an instance has.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResources {
    /// Number of CPU cores.
    pub cpu: i64,
    /// Memory in megabytes.
    #[serde(rename = "memoryMB")]
    pub memory_mb: i64,
    /// Disk size in gigabytes.
    #[serde(rename = "diskGB")]
    pub disk_gb: i64,
    /// Monthly bandwidth allocation in gigabytes.
    #[serde(rename = "bandwidthGB")]
    pub bandwidth_gb: i64,
}

/// Where an instance stands in one respect.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VPSieNodeCondition {
    #[serde(rename = "type")]
    pub kind: VPSieNodeConditionType,
    #[schemars(schema_with = "condition_status")]
    pub status: String,
    /// Last time the condition transitioned.
    #[schemars(schema_with = "date_time")]
    pub last_transition_time: Time,
    /// Machine-readable reason for the condition.
    pub reason: String,
    /// Human-readable message with details.
    pub message: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub enum VPSieNodeConditionType {
    VPSReady,
    NodeJoined,
    NodeReady,
    Error,
}
