//! `autoscaler.vpsie.com/v1alpha1`: the objects VPSie's users ask with. Field names are law.

mod group;
mod node;

pub use group::{
    LONGEST_ID, MOST_OFFERINGS, NodeGroup, NodeGroupCondition, NodeGroupConditionType, NodeGroupSpec,
    NodeGroupStatus, NodeInfo, NodeStatus, ScaleDownPolicy, ScaleUpPolicy, UserData,
};
pub use node::{
    NodeResources, VPSieNode, VPSieNodeCondition, VPSieNodeConditionType, VPSieNodePhase, VPSieNodeSpec,
    VPSieNodeStatus,
};

use crate::names::error;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

pub const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Phases in which there may be no VPS, or none yet, as a list in CEL.
const WITHOUT_VPS: &str = "['Pending', 'Provisioning', 'Failed', 'Terminating', 'Deleting']";

/// The definitions of this group.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut node = VPSieNode::crd();
    if let Some(schema) = root(&mut node) {
        schema.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: format!(
                "self.spec.vpsieInstanceID > 0 || has(self.spec.resourceIdentifier) || !has(self.status) || \
                 !has(self.status.phase) || self.status.phase in {WITHOUT_VPS}"
            ),
            message: Some(error::INSTANCE_ID_MISSING.to_owned()),
            ..ValidationRule::default()
        }]);
    }
    vec![NodeGroup::crd(), node]
}

fn root(crd: &mut CustomResourceDefinition) -> Option<&mut JSONSchemaProps> {
    crd.spec.versions.first_mut()?.schema.as_mut()?.open_api_v3_schema.as_mut()
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

fn condition_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["True", "False", "Unknown"]})
}

fn optional_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}
