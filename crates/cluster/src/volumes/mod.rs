//! Volumes: claims get them, nodes get them attached, and nobody loses one that is in use.

pub(crate) mod attach;
pub(crate) mod attacher;
pub(crate) mod bind;
pub(crate) mod protect;
pub(crate) mod provision;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

pub(crate) const BOUND_BY_US: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The provisioner of classes whose volumes somebody makes by hand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

pub(crate) fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Whether the volume is reserved for exactly this claim.
fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).is_some_and(|reference| {
        reference.namespace == claim.metadata.namespace
            && reference.name == claim.metadata.name
            && (reference.uid.is_none() || reference.uid == claim.metadata.uid)
    })
}
