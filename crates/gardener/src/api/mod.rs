//! `machine.sapcloud.io/v1alpha1`: the objects Gardener asks with. Field names are law.

mod class;
mod deployment;
mod machine;
pub mod names;
mod set;

pub use class::{MachineClass, MachineClassFields, NodeTemplate};
pub use deployment::{
    InPlaceUpdate, MachineDeployment, MachineDeploymentCondition, MachineDeploymentSpec,
    MachineDeploymentStatus, RollbackConfig, RollingUpdate, Strategy,
};
pub use machine::{
    ClassSpec, CurrentStatus, LastOperation, Machine, MachineConfiguration, MachineSpec, MachineStatus,
    NodeTemplateSpec, OperationState, OperationType, Phase, TemplateMeta,
};
pub use set::{
    MachineSet, MachineSetCondition, MachineSetSpec, MachineSetStatus, MachineSummary, MachineTemplateSpec,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The CRDs of this group that Hostler brings itself, for clusters where Gardener has not installed them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![Machine::crd(), MachineClass::crd(), MachineSet::crd(), MachineDeployment::crd()];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            without_defaults(schema);
            // Gardener's definitions take an object without a spec.
            if schema.required.as_deref() == Some(&["spec".to_owned()]) {
                schema.required = None;
            }
        }
    }
    crds
}

/// Takes out the defaults that come with Rust's: Gardener's definitions have none, so an object stays as it
/// was written.
fn without_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    schema.properties.iter_mut().flatten().for_each(|(_, property)| without_defaults(property));
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => without_defaults(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(without_defaults),
        None => {}
    }
}

/// An object whose fields are kept whatever they are.
fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An int-or-string map, as Kubernetes writes quantities.
fn quantities() -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}})
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

fn nullable_date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Map, Value, json};

    #[test]
    fn the_crds_carry_the_names_gardener_uses() {
        let crds = crds();
        let names: Vec<_> = crds
            .iter()
            .map(|crd| {
                let names = &crd.spec.names;
                (
                    names.kind.as_str(),
                    names.plural.as_str(),
                    names.short_names.clone().unwrap_or_default().join(","),
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                ("Machine", "machines", "mc".to_owned()),
                ("MachineClass", "machineclasses", "mcc".to_owned()),
                ("MachineSet", "machinesets", "mcs".to_owned()),
                ("MachineDeployment", "machinedeployments", "mcd".to_owned()),
            ]
        );
        assert!(crds[0].spec.versions[0].subresources.as_ref().is_some_and(|sub| sub.status.is_some()));
        assert!(crds[1].spec.versions[0].subresources.is_none());
    }

    #[test]
    fn objects_stay_as_they_were_written() {
        let text = serde_json::to_string(&crds()).unwrap();
        assert!(!text.contains("\"default\":"), "{text}");
    }

    /// An object that has every property of a definition, and unknown ones wherever they are allowed.
    fn complete(schema: &Value, within: &str, name: &str) -> Value {
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let texts = match (within, name) {
            ("lastOperation", "type") => "Create",
            (_, "phase") => "Running",
            (_, "state") => "Processing",
            _ if schema["format"] == "date-time" => "2026-01-01T00:00:00Z",
            _ => "text",
        };
        match schema["type"].as_str() {
            _ if schema["x-kubernetes-int-or-string"] == true => json!("10%"),
            Some("string") => json!(texts),
            Some("integer") => json!(7),
            Some("boolean") => json!(true),
            Some("array") => json!([complete(&schema["items"], within, name)]),
            Some("object") => {
                let properties = schema["properties"].as_object().into_iter().flatten();
                let known = properties.map(|(key, value)| (key.clone(), complete(value, name, key)));
                let mut object: Map<String, Value> = known.collect();
                if schema["additionalProperties"].is_object() {
                    object.insert("any".into(), complete(&schema["additionalProperties"], name, "any"));
                }
                if open {
                    object.insert("unheardOf".into(), json!({"deep": [1, null, {"a": "b"}]}));
                }
                Value::Object(object)
            }
            _ => panic!("{within}.{name}: {schema}"),
        }
    }

    fn read_and_written<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
    }

    #[test]
    fn every_field_that_the_definitions_have_survives_reading_and_writing() {
        for crd in crds() {
            let kind = crd.spec.names.kind.clone();
            let definition = serde_json::to_value(crd).unwrap();
            let mut object =
                complete(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", "");
            object["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": "n", "namespace": "shoot"});
            // What is in a template's metadata has a meaning, and is kept with what has none.
            for path in ["/spec/nodeTemplate/metadata", "/spec/template/metadata"] {
                let known = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"],
                    "name": "g", "creationTimestamp": null});
                if let Some(Value::Object(meta)) = object.pointer_mut(path) {
                    meta.extend(known.as_object().unwrap().clone());
                }
            }
            let after = match kind.as_str() {
                "Machine" => read_and_written::<Machine>(&object),
                "MachineClass" => read_and_written::<MachineClass>(&object),
                "MachineSet" => read_and_written::<MachineSet>(&object),
                "MachineDeployment" => read_and_written::<MachineDeployment>(&object),
                other => panic!("{other}"),
            };
            assert_eq!(after, object, "{kind}");
        }
    }

    #[test]
    fn a_class_keeps_its_fields_at_the_top_and_its_provider_spec_open() {
        let crd = serde_json::to_value(&crds()[1]).unwrap();
        let properties = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert!(properties.get("spec").is_none());
        assert_eq!(properties["providerSpec"]["x-kubernetes-preserve-unknown-fields"], true);
    }
}
