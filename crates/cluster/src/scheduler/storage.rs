//! Can the pod's volumes be had on the node?

use super::Refusal;
use super::snapshot::NodeView;
use crate::quantity::units;
use crate::selector::{matches_node, selects};
use crate::volumes::NO_PROVISIONER;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const LATE: &str = "WaitForFirstConsumer";
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Everything about volumes that a decision may look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Storage {
    pub(crate) claims: BTreeMap<(String, String), Arc<PersistentVolumeClaim>>,
    pub(crate) volumes: BTreeMap<String, Arc<PersistentVolume>>,
    pub(crate) classes: BTreeMap<String, Arc<StorageClass>>,
    pub(crate) csi_nodes: BTreeMap<String, Arc<CSINode>>,
    pub(crate) attachments: Vec<Arc<VolumeAttachment>>,
}

/// The names of the claims a pod uses; those of ephemeral volumes are named after the pod.
pub(crate) fn claim_names(pod: &Pod) -> Vec<String> {
    let own = pod.metadata.name.as_deref().unwrap_or_default();
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
        .filter_map(|volume| {
            if let Some(source) = &volume.persistent_volume_claim {
                Some(source.claim_name.clone())
            } else {
                volume.ephemeral.as_ref().map(|_| format!("{own}-{}", volume.name))
            }
        })
        .collect()
}

/// One pod's volumes, sorted by what has to be true for them.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Bound claims' volumes; `None` if the volume is not there.
    bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims to be bound when the pod has a node.
    late: Vec<Arc<PersistentVolumeClaim>>,
    /// Used by another pod although only one may have it.
    claimed_exclusively: bool,
    by_driver: BTreeMap<String, BTreeSet<String>>,
}

/// What has to be done about claims before a pod can be bound to the chosen node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LateBinding {
    /// Reserve this existing volume for the claim.
    Reserve { claim: Arc<PersistentVolumeClaim>, volume: Arc<PersistentVolume> },
    /// Ask the provisioner for a volume that can be used on the node.
    Provision { claim: Arc<PersistentVolumeClaim> },
    /// Somebody is at it already.
    Await,
}

impl Storage {
    /// Looks the pod's claims up. The error is the reason why no node will do.
    pub(crate) fn needs(&self, pod: &Pod, nodes: &[NodeView]) -> Result<Needs, String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut needs = Needs::default();
        for name in claim_names(pod) {
            let claim = self
                .claims
                .get(&(namespace.to_owned(), name.clone()))
                .ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if let Some((driver, handle)) = self.driver_of(claim) {
                needs.by_driver.entry(driver).or_default().insert(handle);
            }
            needs.claimed_exclusively |= is_exclusive(claim) && is_used(&name, namespace, pod, nodes);
            if is_bound(claim) {
                let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref());
                needs.bound.push(volume.and_then(|volume| self.volumes.get(volume)).cloned());
            } else if self.binds_late(claim) {
                needs.late.push(claim.clone());
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        Ok(needs)
    }

    pub(crate) fn refusals(&self, needs: &Needs, node: &NodeView) -> Vec<Refusal> {
        if needs.claimed_exclusively {
            return vec![Refusal::passing(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            )];
        }
        if self.exceeds_limits(needs, node) {
            return vec![Refusal::passing("node(s) exceed max volume count")];
        }
        if needs.bound.iter().any(Option::is_none) {
            return vec![Refusal::lasting(
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            )];
        }
        let mut refusals = Vec::new();
        if needs.bound.iter().flatten().any(|volume| !reaches(volume, &node.node)) {
            refusals.push(Refusal::lasting("node(s) didn't match PersistentVolume's node affinity"));
        }
        if !needs.late.is_empty() && self.late_bindings(needs, node).is_none() {
            refusals.push(Refusal::lasting("node(s) didn't find available persistent volumes to bind"));
        }
        if refusals.is_empty() && needs.bound.iter().flatten().any(|volume| !is_in_zone(volume, node)) {
            refusals.push(Refusal::lasting("node(s) had no available volume zone"));
        }
        refusals
    }

    /// How each late claim would get its volume on the node; `None` if one cannot.
    pub(crate) fn late_bindings(&self, needs: &Needs, node: &NodeView) -> Option<Vec<LateBinding>> {
        let mut taken = BTreeSet::new();
        needs
            .late
            .iter()
            .map(|claim| {
                let selected = claim.metadata.annotations.as_ref().and_then(|notes| notes.get(SELECTED_NODE));
                if let Some(selected) = selected {
                    return (*selected == node.name).then_some(LateBinding::Await);
                }
                if let Some(volume) = self.matching_volume(claim, &node.node, &taken) {
                    taken.insert(volume.metadata.name.clone());
                    let reserved = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
                    let volume = volume.clone();
                    return Some(if reserved {
                        LateBinding::Await
                    } else {
                        LateBinding::Reserve { claim: claim.clone(), volume }
                    });
                }
                let class = self.class_of(claim)?;
                let provisions = class.provisioner != NO_PROVISIONER && allows(class, node);
                provisions.then(|| LateBinding::Provision { claim: claim.clone() })
            })
            .collect()
    }

    /// The smallest free volume that the claim could be bound to and the node can reach.
    fn matching_volume(
        &self,
        claim: &PersistentVolumeClaim,
        node: &Node,
        taken: &BTreeSet<Option<String>>,
    ) -> Option<&Arc<PersistentVolume>> {
        self.volumes
            .values()
            .filter(|volume| !taken.contains(&volume.metadata.name))
            .filter(|volume| suits(volume, claim) && reaches(volume, node))
            .min_by_key(|volume| (capacity(volume), volume.metadata.name.clone()))
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&Arc<StorageClass>> {
        self.classes.get(claim.spec.as_ref()?.storage_class_name.as_ref()?)
    }

    fn binds_late(&self, claim: &PersistentVolumeClaim) -> bool {
        let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        named.is_none_or(str::is_empty)
            && self.class_of(claim).is_some_and(|class| class.volume_binding_mode.as_deref() == Some(LATE))
    }

    /// The CSI driver a claim's volume needs and the volume's name within it.
    fn driver_of(&self, claim: &PersistentVolumeClaim) -> Option<(String, String)> {
        let volume = claim.spec.as_ref().and_then(|spec| self.volumes.get(spec.volume_name.as_ref()?));
        if let Some(volume) = volume {
            let csi = volume.spec.as_ref()?.csi.as_ref()?;
            return Some((csi.driver.clone(), csi.volume_handle.clone()));
        }
        let class = self.class_of(claim)?;
        let meta = &claim.metadata;
        let name = format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        );
        (class.provisioner != NO_PROVISIONER).then(|| (class.provisioner.clone(), name))
    }

    fn exceeds_limits(&self, needs: &Needs, node: &NodeView) -> bool {
        let Some(csi_node) = self.csi_nodes.get(&node.name) else { return false };
        needs.by_driver.iter().any(|(driver, wanted)| {
            let limit = csi_node
                .spec
                .drivers
                .iter()
                .find(|one| one.name == *driver)
                .and_then(|one| one.allocatable.as_ref()?.count);
            let Some(limit) = limit else { return false };
            let used = self.used_on(driver, node);
            let fresh = wanted.difference(&used).count();
            fresh > 0 && used.len() + fresh > usize::try_from(limit).unwrap_or(0)
        })
    }

    /// The driver's volumes that pods on the node use or that are attached to it.
    fn used_on(&self, driver: &str, node: &NodeView) -> BTreeSet<String> {
        let by_pods = node.pods.iter().flat_map(|pod| {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            claim_names(pod).into_iter().filter_map(move |name| self.claims.get(&(namespace.clone(), name)))
        });
        let attached = self
            .attachments
            .iter()
            .filter(|attachment| attachment.spec.node_name == node.name && attachment.spec.attacher == driver)
            .filter_map(|attachment| attachment.spec.source.persistent_volume_name.as_ref())
            .filter_map(|volume| {
                Some(self.volumes.get(volume)?.spec.as_ref()?.csi.as_ref()?.volume_handle.clone())
            });
        by_pods
            .filter_map(|claim| self.driver_of(claim))
            .filter(|(one, _)| one == driver)
            .map(|(_, handle)| handle)
            .chain(attached)
            .collect()
    }
}

pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let complete = claim
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|notes| notes.contains_key("pv.kubernetes.io/bind-completed"));
    named.is_some_and(|name| !name.is_empty()) && complete
}

fn is_exclusive(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"))
}

fn is_used(claim: &str, namespace: &str, by_other_than: &Pod, nodes: &[NodeView]) -> bool {
    nodes.iter().flat_map(|node| &node.pods).any(|pod| {
        pod.metadata.uid != by_other_than.metadata.uid
            && pod.metadata.namespace.as_deref() == Some(namespace)
            && claim_names(pod).iter().any(|name| name == claim)
    })
}

/// Whether the volume's node affinity lets the node use it.
fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    required.is_none_or(|selector| matches_node(selector, node))
}

/// Zone and region labels of a volume must be the node's, for nodes that have such labels at all.
fn is_in_zone(volume: &PersistentVolume, node: &NodeView) -> bool {
    if !ZONES.iter().any(|key| node.labels.contains_key(*key)) {
        return true;
    }
    let labels = volume.metadata.labels.as_ref();
    ZONES.iter().all(|key| {
        labels.and_then(|labels| labels.get(*key)).is_none_or(|allowed| {
            node.labels.get(*key).is_some_and(|value| allowed.split("__").any(|one| one == value))
        })
    })
}

/// Whether a class may provision for the node.
fn allows(class: &StorageClass, node: &NodeView) -> bool {
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    topologies.is_empty()
        || topologies.iter().any(|term| {
            term.match_label_expressions.iter().flatten().all(|requirement| {
                node.labels.get(&requirement.key).is_some_and(|value| requirement.values.contains(value))
            })
        })
}

pub(crate) fn capacity(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    capacity.map_or(0, units)
}

/// Whether a claim could be bound to a volume, whatever the node.
pub(crate) fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(offered), Some(asked)) = (&volume.spec, &claim.spec) else { return false };
    let free = match &offered.claim_ref {
        Some(reference) => {
            reference.namespace == claim.metadata.namespace
                && reference.name == claim.metadata.name
                && (reference.uid.is_none() || reference.uid == claim.metadata.uid)
        }
        None => volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available"),
    };
    let wanted =
        asked.resources.as_ref().and_then(|all| all.requests.as_ref()?.get("storage")).map_or(0, units);
    let modes = offered.access_modes.as_deref().unwrap_or_default();
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    free && volume.metadata.deletion_timestamp.is_none()
        && capacity(volume) >= wanted
        && asked.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && offered.storage_class_name.as_deref().unwrap_or_default()
            == asked.storage_class_name.as_deref().unwrap_or_default()
        && offered.volume_mode.as_deref().unwrap_or("Filesystem")
            == asked.volume_mode.as_deref().unwrap_or("Filesystem")
        && asked.selector.as_ref().is_none_or(|selector| selects(selector, &labels))
}
