//! Claims, volumes and their classes.

use crate::error::{At, Error, Fault};
use crate::quantity::exact;
use crate::select;
use hostler_planner::model::{Claim, NodeTerm, Operator, PersistentVolume, Requirement, StorageClass};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Where claims and volumes named their class before they had a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// What drivers that were part of Kubernetes are called since they left it: as a provisioner, and as a driver.
const MOVED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

fn moved(name: &str) -> &str {
    MOVED.iter().find(|(before, _)| *before == name).map_or(name, |(_, now)| now)
}

pub fn claim(from: &core::PersistentVolumeClaim) -> Result<Claim, Error> {
    let spec = from.spec.clone().unwrap_or_default();
    let annotated = from.metadata.annotations.as_ref().and_then(|own| own.get(CLASS_ANNOTATION));
    let requests = spec.resources.and_then(|resources| resources.requests);
    let request = storage_of(requests.as_ref())
        .at("requests")
        .at("resources")
        .at("spec")
        .of("PersistentVolumeClaim", &from.metadata)?;
    Ok(Claim {
        namespace: from.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: from.metadata.name.clone().unwrap_or_default(),
        class: annotated.cloned().or(spec.storage_class_name).filter(|class| !class.is_empty()),
        volume: spec.volume_name.filter(|volume| !volume.is_empty()),
        single_pod: spec.access_modes.iter().flatten().any(|mode| mode == "ReadWriteOncePod"),
        request,
        modes: spec.access_modes.unwrap_or_default(),
    })
}

/// How much storage a list names; none if it names none.
fn storage_of(list: Option<&BTreeMap<String, Quantity>>) -> Result<i64, Fault> {
    let amount = list.and_then(|list| list.get("storage"));
    amount.map_or(Ok(0), |amount| exact(&amount.0, 0).at("storage"))
}

pub fn volume(from: &core::PersistentVolume) -> Result<PersistentVolume, Error> {
    let spec = from.spec.clone().unwrap_or_default();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let node_affinity = required
        .map(select::node_terms)
        .transpose()
        .at("required")
        .at("nodeAffinity")
        .at("spec")
        .of("PersistentVolume", &from.metadata)?;
    let before = [
        (spec.aws_elastic_block_store.is_some(), MOVED[0].1),
        (spec.gce_persistent_disk.is_some(), MOVED[1].1),
        (spec.azure_disk.is_some(), MOVED[2].1),
        (spec.azure_file.is_some(), MOVED[3].1),
        (spec.cinder.is_some(), MOVED[4].1),
        (spec.vsphere_volume.is_some(), MOVED[5].1),
        (spec.portworx_volume.is_some(), MOVED[6].1),
    ];
    let driver = spec
        .csi
        .as_ref()
        .map(|csi| csi.driver.clone())
        .or_else(|| before.iter().find(|(is, _)| *is).map(|(_, driver)| (*driver).to_owned()));
    let capacity = storage_of(spec.capacity.as_ref()).at("capacity").at("spec");
    let phase = from.status.as_ref().and_then(|status| status.phase.as_deref());
    Ok(PersistentVolume {
        name: from.metadata.name.clone().unwrap_or_default(),
        labels: from.metadata.labels.clone().unwrap_or_default(),
        node_affinity,
        driver,
        local: spec.local.is_some() || spec.host_path.is_some(),
        available: phase == Some("Available") && spec.claim_ref.is_none(),
        class: spec.storage_class_name.filter(|class| !class.is_empty()),
        capacity: capacity.of("PersistentVolume", &from.metadata)?,
        modes: spec.access_modes.unwrap_or_default(),
    })
}

/// Cannot fail: a class has nothing that can be wrong for the planner.
pub fn storage_class(from: &storage::StorageClass) -> StorageClass {
    let term = |term: &core::TopologySelectorTerm| {
        let requirements = term.match_label_expressions.iter().flatten().map(|requirement| Requirement {
            key: requirement.key.clone(),
            operator: Operator::In,
            values: requirement.values.clone(),
        });
        NodeTerm { labels: requirements.collect(), fields: Vec::new() }
    };
    StorageClass {
        name: from.metadata.name.clone().unwrap_or_default(),
        provisioner: moved(&from.provisioner).to_owned(),
        wait_for_first_consumer: from.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        allowed_topologies: from.allowed_topologies.iter().flatten().map(term).collect(),
    }
}
