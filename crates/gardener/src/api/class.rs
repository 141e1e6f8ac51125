use super::{open_object, quantities};
use k8s_openapi::{api::core::v1::SecretReference, apimachinery::pkg::api::resource::Quantity};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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
    /// Kept and not heeded.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl NodeTemplate {
    /// What Gardener's own controllers want to be there: theirs stop looking after the machines of a class without it.
    pub fn lacks(&self) -> Vec<String> {
        let resources =
            ["cpu", "gpu", "memory"].into_iter().filter(|name| !self.capacity.contains_key(*name));
        let texts = [("instanceType", &self.instance_type), ("region", &self.region), ("zone", &self.zone)];
        let texts = texts.into_iter().filter(|(_, text)| text.is_empty());
        let fields = resources.map(|name| format!("capacity.{name}"));
        fields.chain(texts.map(|(name, _)| name.to_owned())).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_says_what_it_lacks() {
        let whole = json!({"capacity": {"cpu": "2", "gpu": "0", "memory": "4Gi"}, "instanceType": "c2i.2",
            "region": "eu01", "zone": "eu01-1"});
        let lacks = |change: Value| {
            let mut template = whole.clone();
            for (key, value) in change.as_object().unwrap() {
                template[key] = value.clone();
            }
            serde_json::from_value::<NodeTemplate>(template).unwrap().lacks()
        };
        assert_eq!(lacks(json!({})), [""; 0]);
        assert_eq!(lacks(json!({"capacity": {"cpu": "2"}})), ["capacity.gpu", "capacity.memory"]);
        assert_eq!(lacks(json!({"capacity": {"gpu": "1", "memory": "1"}})), ["capacity.cpu"]);
        assert_eq!(
            lacks(json!({"instanceType": "", "region": "", "zone": ""})),
            ["instanceType", "region", "zone"]
        );
    }
}
