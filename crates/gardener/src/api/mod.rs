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
    NodeTemplateSpec, OperationState, OperationType, Phase,
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

    #[test]
    fn a_class_keeps_its_fields_at_the_top_and_its_provider_spec_open() {
        let crd = serde_json::to_value(&crds()[1]).unwrap();
        let properties = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert!(properties.get("spec").is_none());
        assert_eq!(properties["providerSpec"]["x-kubernetes-preserve-unknown-fields"], true);
    }
}
