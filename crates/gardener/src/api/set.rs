use super::{ClassSpec, LastOperation, MachineSpec, TemplateMeta, date_time, is_zero, open_object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
/// So many machines of one template.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "machine.sapcloud.io",
    version = "v1alpha1",
    kind = "MachineSet",
    plural = "machinesets",
    shortname = "mcs",
    namespaced,
    status = "MachineSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetSpec {
    pub replicas: i32,
    /// Which machines are its own; must match the template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Only told in metrics; what counts is the template's class.
    #[serde(skip_serializing_if = "ClassSpec::is_default")]
    pub machine_class: ClassSpec,
    pub template: MachineTemplateSpec,
    /// Kept and not heeded: a machine is available as soon as it runs.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many failed machines are kept for a look at them.
    #[serde(skip_serializing_if = "is_zero")]
    pub auto_preserve_failed_machine_max: i32,
}

/// What machines are made from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplateSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object")]
    pub metadata: Option<TemplateMeta>,
    pub spec: MachineSpec,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetStatus {
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub preserved_failed_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub auto_preserve_failed_machine_count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(rename = "machineSetCondition", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineSetCondition>,
    /// Only its time is written: that of the last change of this status.
    pub last_operation: LastOperation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_machines: Vec<MachineSummary>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A machine that failed, and how.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSummary {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    pub last_operation: LastOperation,
    /// The name of its MachineSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner_ref: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_keep_the_wire_form() {
        let wire = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet",
            "metadata": {"name": "s", "namespace": "shoot"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "autoPreserveFailedMachineMax": 1,
                     "machineClass": {"kind": "MachineClass", "name": "c"},
                     "template": {"metadata": {"labels": {"a": "b"}},
                                  "spec": {"class": {"kind": "MachineClass", "name": "c"}, "drainTimeout": "2h0m0s"}}},
            "status": {"replicas": 3, "observedGeneration": 2, "lastOperation": {},
                       "machineSetCondition": [{"type": "Frozen", "status": "True"}],
                       "failedMachines": [{"name": "m", "ownerRef": "s", "lastOperation": {"state": "Failed"}}]},
        });
        let set: MachineSet = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(set.spec.template.spec.configuration.drain_timeout.as_deref(), Some("2h0m0s"));
        assert_eq!(serde_json::to_value(&set).unwrap(), wire);
    }
}
