use super::{open_object, quantities};
use k8s_openapi::{api::core::v1::SecretReference, apimachinery::pkg::api::resource::Quantity};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What machines of one kind are made from. There is no `spec`: the fields are at the top.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "machine.sapcloud.io",
    version = "v1alpha1",
    kind = "MachineClass",
    plural = "machineclasses",
    shortname = "mcc",
    namespaced,
    no_spec,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassFields {
    /// What a node of this class has, for scaling from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "node_template")]
    pub node_template: Option<NodeTemplate>,
    /// A second Secret, whose keys win over those of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// The Secret with the user data and, unless `credentialsSecretRef` is given, the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// The cloud; `stackit`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The cloud's own description of a machine.
    #[schemars(schema_with = "open_object")]
    pub provider_spec: Value,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplate {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub virtual_capacity: BTreeMap<String, Quantity>,
    pub instance_type: String,
    pub region: String,
    pub zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

fn node_template(_: &mut SchemaGenerator) -> Schema {
    let text = || json_schema!({"type": "string"});
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["capacity", "instanceType", "region", "zone"],
        "properties": {
            "capacity": quantities(), "virtualCapacity": quantities(), "instanceType": text(),
            "region": text(), "zone": text(), "architecture": text(),
        },
    })
}
