//! Binds claims to volumes, and says in which phase both are.

use super::{BIND_COMPLETED, BOUND_BY_US, is_for, reference};
use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::scheduler::storage::{capacity, is_bound, suits};
use crate::workload::pods::owner_reference;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ObjectMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Binder;

impl Part for Binder {
    const NAME: &'static str = "volume binding";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.claims, &*caches.volumes, &*caches.storage_classes, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let caches = &context.caches;
        for pod in caches.pods.all() {
            claims_of_its_own(context, &pod, &mut sweep).await;
        }
        let mut taken = BTreeSet::new();
        for claim in caches.claims.all() {
            let volumes = caches.volumes.all();
            let class = claim
                .spec
                .as_ref()
                .and_then(|spec| caches.storage_classes.get("", spec.storage_class_name.as_deref()?));
            match decide(&claim, &volumes, class.as_deref(), &taken) {
                Step::Nothing => {}
                Step::Bind(volume) => {
                    taken.insert(volume.metadata.name.clone().unwrap_or_default());
                    bind(context, &claim, &volume, &mut sweep).await;
                }
                Step::Phase(phase) => {
                    let mut changed = (*claim).clone();
                    changed.status.get_or_insert_default().phase = Some(phase.to_owned());
                    let written = context.replace_status(&caches.claims, &changed).await;
                    sweep.note_about("writing a claim's phase", &changed, written);
                }
            }
        }
        for volume in caches.volumes.all() {
            tend_volume(context, &volume, &mut sweep).await;
        }
        sweep
    }
}

/// Ephemeral volumes are claims that belong to their pod.
async fn claims_of_its_own(context: &Context, pod: &Arc<Pod>, sweep: &mut Sweep) {
    if pod.metadata.deletion_timestamp.is_some() {
        return;
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for volume in volumes {
        let template = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.as_ref());
        let Some(template) = template else { continue };
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
        if context.caches.claims.get(&namespace, &name).is_some() {
            continue;
        }
        let meta = template.metadata.clone().unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                labels: meta.labels,
                annotations: meta.annotations,
                owner_references: Some(vec![owner_reference(pod.as_ref())]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec.clone()),
            status: None,
        };
        sweep.note_about(
            "creating an ephemeral claim",
            &claim,
            context.create(&context.caches.claims, &claim).await,
        );
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    Bind(Arc<PersistentVolume>),
    Phase(&'static str),
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}

fn decide(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    class: Option<&StorageClass>,
    taken: &BTreeSet<String>,
) -> Step {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
    let by_name = |name: &String| volumes.iter().find(|volume| volume.metadata.name.as_ref() == Some(name));
    if is_bound(claim) {
        let held = named.as_ref().and_then(by_name).filter(|volume| is_for(volume, claim));
        let wanted = if held.is_some() { "Bound" } else { "Lost" };
        return match held {
            Some(volume) if phase(claim) != Some(wanted) => Step::Bind(volume.clone()),
            None if phase(claim) != Some(wanted) => Step::Phase(wanted),
            _ => Step::Nothing,
        };
    }
    let free = |volume: &&Arc<PersistentVolume>| {
        !taken.contains(volume.metadata.name.as_deref().unwrap_or_default())
    };
    let late = class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer");
    let chosen = match &named {
        // Asked for by name: reserved for the claim or free, whatever else it is.
        Some(name) => by_name(name).filter(free).filter(|volume| {
            is_for(volume, claim) || volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
        }),
        None => {
            let reserved = volumes.iter().filter(free).find(|volume| is_for(volume, claim));
            reserved.or_else(|| {
                let fitting = volumes.iter().filter(free).filter(|volume| !late && suits(volume, claim));
                fitting.min_by_key(|volume| (capacity(volume), volume.metadata.name.clone()))
            })
        }
    };
    match chosen {
        Some(volume) => Step::Bind(volume.clone()),
        None if phase(claim) != Some("Pending") => Step::Phase("Pending"),
        None => Step::Nothing,
    }
}

/// First the volume names the claim, then the claim the volume: a crash between leaves nothing lost.
async fn bind(
    context: &Context,
    claim: &Arc<PersistentVolumeClaim>,
    volume: &Arc<PersistentVolume>,
    sweep: &mut Sweep,
) {
    let caches = &context.caches;
    let complete = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref())
        .is_some_and(|reference| reference.uid.is_some() && reference.uid == claim.metadata.uid);
    let mut volume = volume.clone();
    if !complete {
        let mut changed = (*volume).clone();
        let ours = changed.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
        changed.spec.get_or_insert_default().claim_ref = Some(reference(claim));
        if ours {
            let notes = changed.metadata.annotations.get_or_insert_default();
            notes.insert(BOUND_BY_US.to_owned(), "yes".to_owned());
        }
        match sweep.note_about(
            "reserving a volume",
            &changed,
            context.replace(&caches.volumes, &changed).await,
        ) {
            Some(written) => volume = written,
            None => return,
        }
    }
    let mut claim = claim.clone();
    if !is_bound(&claim) {
        let mut changed = (*claim).clone();
        let spec = changed.spec.get_or_insert_default();
        if spec.volume_name.as_deref().is_none_or(str::is_empty) {
            spec.volume_name.clone_from(&volume.metadata.name);
            let notes = changed.metadata.annotations.get_or_insert_default();
            notes.insert(BOUND_BY_US.to_owned(), "yes".to_owned());
        }
        let notes = changed.metadata.annotations.get_or_insert_default();
        notes.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
        match sweep.note_about("binding a claim", &changed, context.replace(&caches.claims, &changed).await) {
            Some(written) => claim = written,
            None => return,
        }
    }
    let offered = volume.spec.clone().unwrap_or_default();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: offered.access_modes,
        capacity: offered.capacity,
        ..claim.status.clone().unwrap_or_default()
    };
    if claim.status.as_ref() != Some(&status) {
        let mut changed = (*claim).clone();
        changed.status = Some(status);
        sweep.note_about(
            "writing a claim's status",
            &changed,
            context.replace_status(&caches.claims, &changed).await,
        );
    }
}

async fn tend_volume(context: &Context, volume: &Arc<PersistentVolume>, sweep: &mut Sweep) {
    let caches = &context.caches;
    let wanted = match volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
        None => "Available",
        Some(reference) if reference.uid.is_none() => "Available",
        Some(reference) => {
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            let claim = caches.claims.get(namespace, reference.name.as_deref().unwrap_or_default());
            match claim.filter(|claim| claim.metadata.uid == reference.uid) {
                Some(claim) if is_bound(&claim) => "Bound",
                Some(_) => return,
                None => "Released",
            }
        }
    };
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some(wanted) {
        let mut changed = (**volume).clone();
        let status = changed.status.get_or_insert_default();
        status.phase = Some(wanted.to_owned());
        status.last_phase_transition_time = Some(context.time());
        sweep.note_about(
            "writing a volume's phase",
            &changed,
            context.replace_status(&caches.volumes, &changed).await,
        );
    } else if wanted == "Released" && is_ours_to_delete(volume, context) {
        let deleted = context.delete(&caches.volumes, volume.as_ref(), DeleteParams::default()).await;
        sweep.note_about("deleting a released volume", volume.as_ref(), deleted);
    }
}

/// The simulated provisioner takes back what it made.
fn is_ours_to_delete(volume: &PersistentVolume, context: &Context) -> bool {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let provisioned =
        volume.metadata.annotations.as_ref().is_some_and(|notes| notes.contains_key(super::PROVISIONED_BY));
    context.options.provisioner
        && provisioned
        && policy == Some("Delete")
        && volume.metadata.deletion_timestamp.is_none()
        && !context
            .caches
            .attachments
            .all()
            .iter()
            .any(|attachment| attachment.spec.source.persistent_volume_name == volume.metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(volume: Option<&str>, bound: bool, phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "default", "uid": "c",
                "annotations": if bound { json!({BIND_COMPLETED: "yes"}) } else { json!({}) }},
            "spec": {"storageClassName": "static", "volumeName": volume, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "2Gi"}}},
            "status": {"phase": phase}
        }))
        .unwrap()
    }

    fn volume(name: &str, size: &str, claim: &Value) -> Arc<PersistentVolume> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name},
                "spec": {"storageClassName": "static", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "claimRef": claim},
                "status": {"phase": "Available"}
            }))
            .unwrap(),
        )
    }

    #[test]
    fn claims_get_the_smallest_volume_that_will_do() {
        let ours = json!({"namespace": "default", "name": "data", "uid": "c"});
        let theirs = json!({"namespace": "default", "name": "data", "uid": "other"});
        let none = Value::Null;
        let late: StorageClass = serde_json::from_value(json!({
            "metadata": {"name": "static"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"
        }))
        .unwrap();
        for (name, claim, volumes, class, expected) in [
            ("too small", claim(None, false, "Pending"), vec![volume("a", "1Gi", &none)], None, "Nothing"),
            (
                "the smallest",
                claim(None, false, "Pending"),
                vec![volume("a", "9Gi", &none), volume("b", "3Gi", &none)],
                None,
                "b",
            ),
            ("another's", claim(None, false, "Pending"), vec![volume("a", "3Gi", &theirs)], None, "Nothing"),
            (
                "its own",
                claim(None, false, "Pending"),
                vec![volume("a", "3Gi", &ours), volume("b", "2Gi", &none)],
                None,
                "a",
            ),
            ("by name", claim(Some("a"), false, "Pending"), vec![volume("a", "1Gi", &none)], None, "a"),
            (
                "waits for its pod",
                claim(None, false, "Pending"),
                vec![volume("a", "3Gi", &none)],
                Some(&late),
                "Nothing",
            ),
            (
                "reserved by the scheduler",
                claim(None, false, "Pending"),
                vec![volume("a", "3Gi", &ours)],
                Some(&late),
                "a",
            ),
            ("new", claim(None, false, ""), vec![], None, "Pending"),
            ("settled", claim(Some("a"), true, "Bound"), vec![volume("a", "3Gi", &ours)], None, "Nothing"),
            ("half done", claim(Some("a"), true, "Pending"), vec![volume("a", "3Gi", &ours)], None, "a"),
            ("lost", claim(Some("a"), true, "Bound"), vec![], None, "Lost"),
        ] {
            let step = match decide(&claim, &volumes, class, &BTreeSet::new()) {
                Step::Nothing => "Nothing".to_owned(),
                Step::Bind(volume) => volume.metadata.name.clone().unwrap(),
                Step::Phase(phase) => phase.to_owned(),
            };
            assert_eq!(step, expected, "{name}");
        }
    }
}
