use super::{MachineSummary, MachineTemplateSpec, date_time, is_zero};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
/// Machines of a template that may change: it is changed machine by machine, by means of MachineSets.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "machine.sapcloud.io",
    version = "v1alpha1",
    kind = "MachineDeployment",
    plural = "machinedeployments",
    shortname = "mcd",
    namespaced,
    status = "MachineDeploymentStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Up-to-date", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentSpec {
    #[serde(default)]
    pub replicas: i32,
    /// Which MachineSets are its own; must match the template's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    pub template: MachineTemplateSpec,
    /// How a changed template comes to the machines.
    #[serde(default, skip_serializing_if = "Strategy::is_default")]
    pub strategy: Strategy,
    /// Kept and not heeded: a machine is available as soon as it runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many old MachineSets are kept to go back to; all if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// A changed template waits; scaling goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<RollbackConfig>,
    /// How long an update may make no progress before it is said to be stuck; for ever if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// How many failed machines of each MachineSet are kept for a look at them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub auto_preserve_failed_machine_max: i32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate`, `Recreate` or `InPlaceUpdate`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<InPlaceUpdate>,
}

impl Strategy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// So many, or so many percent, may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// So many, or so many percent, may be there besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InPlaceUpdate {
    /// So many, or so many percent, may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// So many, or so many percent, may be there besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Who picks the machines: `Auto` or `Manual`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub orchestration_type: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollbackConfig {
    /// The revision to go back to; 0 is the last one before the present.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: i64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub preserved_failed_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineDeploymentCondition>,
    /// How often the name of a new MachineSet was somebody else's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_machines: Vec<MachineSummary>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_update_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deployments_keep_the_wire_form() {
        let wire = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
            "metadata": {"name": "d", "namespace": "shoot"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "paused": true, "minReadySeconds": 5,
                     "revisionHistoryLimit": 0, "progressDeadlineSeconds": 600, "rollbackTo": {"revision": 2},
                     "strategy": {"type": "InPlaceUpdate", "inPlaceUpdate": {"maxSurge": "20%", "maxUnavailable": 1,
                                  "orchestrationType": "Manual"}},
                     "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"class": {"kind": "MachineClass", "name": "c"}}}},
            "status": {"replicas": 3, "unavailableReplicas": 1, "collisionCount": 1,
                       "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                                       "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
        });
        let deployment: MachineDeployment = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&deployment).unwrap(), wire);
    }
}
