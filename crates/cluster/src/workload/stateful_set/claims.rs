//! The claims of a StatefulSet's pods: made before the pod, kept after it unless the set says otherwise.

use super::plan::Rules;
use crate::part::{Context, Sweep, is_already_exists};
use crate::workload::pods::owner_reference;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, at: i32) -> String {
    let of = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
    format!("{}-{}-{at}", of(&template.metadata), of(&set.metadata))
}

/// Creates the claims that a pod needs. False if one could not be made.
pub(super) async fn ensure(
    context: &Context,
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    at: i32,
    sweep: &mut Sweep,
) -> bool {
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    for template in spec.volume_claim_templates.iter().flatten() {
        let name = claim_name(set, template, at);
        if context.caches.claims.get(&namespace, &name).is_some() {
            continue;
        }
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.clone()),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        match context.create(&context.caches.claims, &claim).await {
            Err(error) if !is_already_exists(&error) => {
                sweep.note::<()>("creating a claim", Err(error));
                return false;
            }
            _ => {}
        }
    }
    true
}

/// Lets the pod's volumes of the templates' names be its own claims.
pub(super) fn mount(set: &StatefulSet, spec: &StatefulSetSpec, at: i32, pod: &mut PodSpec) {
    let templates = spec.volume_claim_templates.as_deref().unwrap_or_default();
    if templates.is_empty() {
        return;
    }
    let volumes = pod.volumes.get_or_insert_default();
    let named =
        |volume: &Volume| templates.iter().any(|one| one.metadata.name.as_ref() == Some(&volume.name));
    volumes.retain(|volume| !named(volume));
    volumes.extend(templates.iter().map(|template| Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, at),
            read_only: None,
        }),
        ..Volume::default()
    }));
}

/// Who takes a claim along when going: the set if it says so, the pod if it is one too many.
pub(super) async fn keep_owners(
    context: &Context,
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    rules: &Rules,
    pods: &BTreeMap<i32, Arc<Pod>>,
    sweep: &mut Sweep,
) {
    let policy = spec.persistent_volume_claim_retention_policy.clone().unwrap_or_default();
    let when_deleted = policy.when_deleted.as_deref() == Some("Delete");
    let when_scaled = policy.when_scaled.as_deref() == Some("Delete");
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    for (at, pod) in pods {
        let surplus = *at < rules.start || *at >= rules.start.saturating_add(rules.replicas);
        for template in spec.volume_claim_templates.iter().flatten() {
            let Some(claim) = context.caches.claims.get(&namespace, &claim_name(set, template, *at)) else {
                continue;
            };
            let before = claim.metadata.owner_references.clone().unwrap_or_default();
            let after = owners(&before, set, pod, when_deleted, when_scaled && surplus);
            if before != after {
                let patch = json!({"metadata": {
                    "resourceVersion": claim.metadata.resource_version, "ownerReferences": after
                }});
                let written = context.merge(&context.caches.claims, claim.as_ref(), &patch).await;
                sweep.note_about("giving a claim its owner", claim.as_ref(), written);
            }
        }
    }
}

fn owners(
    before: &[OwnerReference],
    set: &StatefulSet,
    pod: &Pod,
    with_set: bool,
    with_pod: bool,
) -> Vec<OwnerReference> {
    let of_pod = owner_reference(pod);
    let of_set = owner_reference(set);
    let mut owners: Vec<OwnerReference> =
        before.iter().filter(|one| one.uid != of_pod.uid && one.uid != of_set.uid).cloned().collect();
    // A claim has no controller: it only goes along.
    let plain =
        |owner: OwnerReference| OwnerReference { controller: None, block_owner_deletion: None, ..owner };
    if with_pod {
        owners.push(plain(of_pod));
    } else if with_set {
        owners.push(plain(of_set));
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_go_along_with_whom_they_shall() {
        let set: StatefulSet =
            serde_json::from_value(json!({"metadata": {"name": "db", "uid": "set"}})).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "db-0", "uid": "pod"}})).unwrap();
        let uids = |before: &[OwnerReference], with_set, with_pod| -> Vec<String> {
            owners(before, &set, &pod, with_set, with_pod).into_iter().map(|one| one.uid).collect()
        };
        assert!(uids(&[], false, false).is_empty());
        assert_eq!(uids(&[], true, false), ["set"]);
        assert_eq!(uids(&owners(&[], &set, &pod, true, false), true, true), ["pod"]);
        assert!(uids(&owners(&[], &set, &pod, true, false), false, false).is_empty());
    }

    #[test]
    fn each_pod_has_claims_of_its_own() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "db"},
            "spec": {"selector": {}, "template": {}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
        }))
        .unwrap();
        let mut pod: PodSpec = serde_json::from_value(
            json!({"containers": [], "volumes": [{"name": "data"}, {"name": "other"}]}),
        )
        .unwrap();
        mount(&set, set.spec.as_ref().unwrap(), 3, &mut pod);
        let volumes = pod.volumes.unwrap();
        assert_eq!(volumes.len(), 2);
        assert_eq!(volumes[1].persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-3");
    }
}
