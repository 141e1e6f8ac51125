//! Makes volumes for claims, as the CSI driver of their StorageClass would.

use super::{NO_PROVISIONER, PROVISIONED_BY, PROVISIONER, reference};
use crate::cache::Watched;
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::scheduler::storage::{SELECTED_NODE, is_bound};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ObjectMeta;
use serde_json::json;
use std::sync::Arc;

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug, Default)]
pub(crate) struct Provisioner;

impl Part for Provisioner {
    const NAME: &'static str = "provisioner";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.claims, &*caches.storage_classes]
    }

    fn reads(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.volumes, &*caches.nodes]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let caches = &context.caches;
        for claim in caches.claims.all() {
            let class = claim
                .spec
                .as_ref()
                .and_then(|spec| caches.storage_classes.get("", spec.storage_class_name.as_deref()?));
            let Some(class) = class.filter(|class| wants_volume(&claim, class)) else { continue };
            let node = annotation(&claim, SELECTED_NODE).and_then(|name| caches.nodes.get("", name));
            let volume = volume_for(&claim, &class, node.as_deref());
            let name = volume.metadata.name.clone().unwrap_or_default();
            if caches.volumes.get("", &name).is_some() || suitable_exists(context, &claim) {
                continue;
            }
            make(context, &claim, &class, &volume, &mut sweep).await;
        }
        sweep
    }
}

async fn make(
    context: &Context,
    claim: &Arc<PersistentVolumeClaim>,
    class: &StorageClass,
    volume: &PersistentVolume,
    sweep: &mut Sweep,
) {
    let caches = &context.caches;
    if annotation(claim, PROVISIONER).is_none() {
        let patch = json!({"metadata": {"annotations": {PROVISIONER: class.provisioner}}});
        let written = context.merge(&caches.claims, claim.as_ref(), &patch).await;
        if sweep.note_about("naming a claim's provisioner", claim.as_ref(), written).is_none() {
            return;
        }
    }
    if sweep
        .note_about("provisioning a volume", volume, context.create(&caches.volumes, volume).await)
        .is_some()
    {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Successfully provisioned volume {name}");
        context
            .event(&class.provisioner, claim.as_ref(), Level::Normal, "ProvisioningSucceeded", &message)
            .await;
    }
}

fn annotation<'a>(claim: &'a PersistentVolumeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether it is the provisioner's turn: nothing bound or named, and a node chosen where that has to come first.
fn wants_volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> bool {
    let named =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty());
    let late = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    !is_bound(claim)
        && !named
        && claim.metadata.deletion_timestamp.is_none()
        && class.provisioner != NO_PROVISIONER
        && (!late || annotation(claim, SELECTED_NODE).is_some())
}

/// A volume that is there already is bound rather than a new one made.
fn suitable_exists(context: &Context, claim: &PersistentVolumeClaim) -> bool {
    annotation(claim, SELECTED_NODE).is_none()
        && context.caches.volumes.all().iter().any(|volume| crate::scheduler::storage::suits(volume, claim))
}

fn volume_for(claim: &PersistentVolumeClaim, class: &StorageClass, node: Option<&Node>) -> PersistentVolume {
    let asked = claim.spec.clone().unwrap_or_default();
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let size = asked.resources.as_ref().and_then(|all| all.requests.as_ref()?.get("storage").cloned());
    let zone = node.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).cloned());
    let node_affinity = zone.map(|zone| VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![NodeSelectorRequirement {
                    key: ZONE.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![zone]),
                }]),
                match_fields: None,
            }],
        }),
    });
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), class.provisioner.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: size.map(|size| [("storage".to_owned(), size)].into()),
            access_modes: asked.access_modes,
            storage_class_name: class.metadata.name.clone(),
            volume_mode: asked.volume_mode,
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: Some(
                class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned()),
            ),
            claim_ref: Some(reference(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            node_affinity,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(annotations: &serde_json::Value, volume: Option<&str>) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "default", "uid": "u", "annotations": annotations},
            "spec": {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
        }))
        .unwrap()
    }

    fn class(provisioner: &str, mode: &str) -> StorageClass {
        serde_json::from_value(json!({
            "metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode
        }))
        .unwrap()
    }

    #[test]
    fn volumes_are_made_when_it_is_time() {
        let none = json!({});
        let chosen = json!({SELECTED_NODE: "n"});
        for (claim, class, expected) in [
            (claim(&none, None), class("disk", "Immediate"), true),
            (claim(&none, None), class("disk", "WaitForFirstConsumer"), false),
            (claim(&chosen, None), class("disk", "WaitForFirstConsumer"), true),
            (claim(&none, None), class(NO_PROVISIONER, "Immediate"), false),
            (claim(&none, Some("mine")), class("disk", "Immediate"), false),
        ] {
            assert_eq!(wants_volume(&claim, &class), expected, "{claim:?} {class:?}");
        }
    }

    #[test]
    fn a_volume_stays_in_its_nodes_zone() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {ZONE: "a"}}})).unwrap();
        let made = volume_for(&claim(&json!({}), None), &class("disk", "Immediate"), Some(&node));
        let spec = made.spec.unwrap();
        let term = &spec.node_affinity.unwrap().required.unwrap().node_selector_terms[0];
        assert_eq!(term.match_expressions.as_ref().unwrap()[0].values, Some(vec!["a".to_owned()]));
        assert_eq!(
            (made.metadata.name.as_deref(), spec.csi.unwrap().driver.as_str()),
            (Some("pvc-u"), "disk")
        );
        assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    }
}
