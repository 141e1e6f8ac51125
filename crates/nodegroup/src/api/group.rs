use super::{condition_status, date_time, optional_text};
use crate::names::error;
use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// More offerings than any account has; without a bound the rule about the preferred one is too dear for an API server.
pub const MOST_OFFERINGS: u32 = 100;
/// No identifier of VPSie is longer than this.
pub const LONGEST_ID: u32 = 253;

#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
/// A logical group of nodes that are VPSie instances, with the policies by which it grows and shrinks.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "autoscaler.vpsie.com",
    version = "v1alpha1",
    kind = "NodeGroup",
    plural = "nodegroups",
    shortname = "ng",
    namespaced,
    status = "NodeGroupStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minNodes"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxNodes"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredNodes"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentNodes"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyNodes"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.minNodes <= self.maxNodes", "message": error::MIN_EXCEEDS_MAX, "fieldPath": ".minNodes"},
    {
        "rule": "self.preferredInstanceType == '' || self.preferredInstanceType in self.offeringIDs",
        "message": error::PREFERRED_NOT_OFFERED,
        "fieldPath": ".preferredInstanceType",
    },
])))]
pub struct NodeGroupSpec {
    /// Minimum number of nodes in the group.
    #[schemars(range(min = 0))]
    pub min_nodes: i32,
    /// Maximum number of nodes in the group; not less than minNodes.
    #[schemars(range(min = 1))]
    pub max_nodes: i32,
    /// VPSie datacenter where nodes are provisioned: its identifier, or its name if no other datacenter has it.
    #[serde(rename = "datacenterID")]
    #[schemars(length(min = 1))]
    pub datacenter_id: String,
    /// Acceptable VPSie instance types, by identifier or by name; the most cost-effective one is taken.
    #[serde(rename = "offeringIDs")]
    #[schemars(length(min = 1, max = MOST_OFFERINGS), inner(length(min = 1, max = LONGEST_ID)))]
    pub offering_ids: Vec<String>,
    /// VPSie OS image of the nodes, by identifier or by name.
    #[serde(rename = "osImageID")]
    #[schemars(length(min = 1))]
    pub os_image_id: String,
    /// When the group grows.
    #[serde(default)]
    #[schemars(extend("default" = json!({})))]
    pub scale_up_policy: ScaleUpPolicy,
    /// When the group shrinks.
    #[serde(default)]
    #[schemars(extend("default" = json!({})))]
    pub scale_down_policy: ScaleDownPolicy,
    /// Kubernetes labels of the nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Kubernetes taints of the nodes.
    #[serde(default)]
    #[schemars(schema_with = "taints")]
    pub taints: Vec<Taint>,
    /// VPSie SSH keys of the instances.
    #[serde(default, rename = "sshKeyIDs")]
    pub ssh_key_ids: Vec<String>,
    /// VPSie tags of the instances.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Cloud-init user data of the instances. Where it has no placeholders it is given to them byte for byte.
    #[serde(default)]
    pub user_data: UserData,
    /// The instance type of offeringIDs that is taken when several cost the same.
    #[serde(default)]
    #[schemars(length(max = LONGEST_ID))]
    pub preferred_instance_type: String,
    /// Whether nodes of several instance types may live in the group.
    #[serde(default)]
    pub allow_mixed_instances: bool,
    /// The identifier of a Kubernetes cluster that VPSie runs: nodes are added to it as workers in place of instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub resource_identifier: Option<String>,
    /// The VPSie project of the instances, in place of the one in the Secret or the account's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_text")]
    pub project: Option<String>,
    /// The number of the worker size in a cluster that VPSie runs, in place of the one that fits the offering.
    #[serde(default, rename = "kubeSizeID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kube_size")]
    pub kube_size_id: Option<i64>,
}

/// User data may hold what lets a machine join the cluster, so nothing shows it but what is sent to the API server.
#[derive(Clone, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct UserData(pub String);

impl std::fmt::Debug for UserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserData({} bytes)", self.0.len())
    }
}

/// Configuration for scale-up behavior.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleUpPolicy {
    /// Enable automatic scale-up.
    pub enabled: bool,
    /// Time to wait before scaling up again after a scale-up event.
    #[schemars(range(min = 1))]
    pub stabilization_window_seconds: i32,
    /// CPU utilization percentage that triggers a scale-up.
    #[schemars(range(min = 0, max = 100))]
    pub cpu_threshold: i32,
    /// Memory utilization percentage that triggers a scale-up.
    #[schemars(range(min = 0, max = 100))]
    pub memory_threshold: i32,
}

impl Default for ScaleUpPolicy {
    fn default() -> Self {
        Self { enabled: true, stabilization_window_seconds: 60, cpu_threshold: 80, memory_threshold: 80 }
    }
}

/// Configuration for scale-down behavior.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleDownPolicy {
    /// Enable automatic scale-down.
    pub enabled: bool,
    /// Time to wait before scaling down.
    #[schemars(range(min = 1))]
    pub stabilization_window_seconds: i32,
    /// CPU utilization percentage below which scale-down is considered.
    #[schemars(range(min = 0, max = 100))]
    pub cpu_threshold: i32,
    /// Memory utilization percentage below which scale-down is considered.
    #[schemars(range(min = 0, max = 100))]
    pub memory_threshold: i32,
    /// Time in seconds a node must be underutilized before removal.
    #[schemars(range(min = 0))]
    pub unneeded_time: i32,
    /// Time to wait after a scale-down before the next one, where it shall be longer than the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cooldown")]
    pub cooldown_seconds: Option<i32>,
}

impl Default for ScaleDownPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            stabilization_window_seconds: 600,
            cpu_threshold: 50,
            memory_threshold: 50,
            unneeded_time: 600,
            cooldown_seconds: None,
        }
    }
}

fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "default": [], "items": {
        "type": "object", "required": ["key", "effect"], "properties": {
            "key": {"type": "string", "minLength": 1},
            "value": {"type": "string"},
            "effect": {"type": "string", "enum": super::TAINT_EFFECTS},
            "timeAdded": {"type": "string", "format": "date-time"},
        },
    }})
}

fn cooldown(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 0})
}

fn kube_size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int64", "minimum": 1})
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroupStatus {
    /// Actual number of nodes currently in the group.
    pub current_nodes: i32,
    /// Target number of nodes based on scaling decisions.
    pub desired_nodes: i32,
    /// Number of nodes that are Ready and accepting workloads.
    pub ready_nodes: i32,
    /// Details about individual nodes in the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "nodes")]
    pub nodes: Vec<NodeInfo>,
    /// Current state conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<NodeGroupCondition>,
    /// Timestamp of the most recent scaling action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_scale_time: Option<Time>,
}

fn nodes(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": NodeInfo::json_schema(generator)})
}

fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = NodeGroupCondition::json_schema(generator);
    json_schema!({
        "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    })
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// Kubernetes node name.
    pub node_name: String,
    /// VPSie VPS instance ID.
    #[serde(rename = "vpsID")]
    pub vps_id: i64,
    /// VPSie instance type.
    pub instance_type: String,
    pub status: NodeStatus,
    /// Primary IP address.
    pub ip_address: String,
}

/// Where a node stands, in the words of a NodeGroup's status.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
)]
pub enum NodeStatus {
    #[default]
    Pending,
    Provisioning,
    Ready,
    Terminating,
    Failed,
}

/// Where a group stands in one respect.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupCondition {
    #[serde(rename = "type")]
    pub kind: NodeGroupConditionType,
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
pub enum NodeGroupConditionType {
    Ready,
    Scaling,
    Error,
    AtMinCapacity,
    AtMaxCapacity,
}
