//! A claim stays while a pod uses it, and a volume while a claim is bound to it.

use crate::cache::Watched;
use crate::kind::{Caches, Kind};
use crate::part::{Context, Part, Sweep};
use crate::scheduler::storage::claim_names;
use crate::workload::pods::has_ended;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

#[derive(Debug, Default)]
pub(crate) struct Protection;

impl Part for Protection {
    const NAME: &'static str = "volume protection";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.claims, &*caches.volumes, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let caches = &context.caches;
        let used = used_claims(&caches.pods.all());
        for claim in caches.claims.all() {
            let key = crate::cache::key(claim.as_ref());
            if let Some(patch) = change(claim.as_ref(), CLAIM, used.contains(&key)) {
                let written = context.merge(&caches.claims, claim.as_ref(), &patch).await;
                sweep.note_about("protecting a claim", claim.as_ref(), written);
            }
        }
        for volume in caches.volumes.all() {
            if let Some(patch) = change(volume.as_ref(), VOLUME, is_bound(&volume)) {
                let written = context.merge(&caches.volumes, volume.as_ref(), &patch).await;
                sweep.note_about("protecting a volume", volume.as_ref(), written);
            }
        }
        sweep
    }
}

fn used_claims(pods: &[Arc<Pod>]) -> BTreeSet<(String, String)> {
    pods.iter()
        .filter(|pod| !has_ended(pod))
        .flat_map(|pod| {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            claim_names(pod).into_iter().map(move |name| (namespace.clone(), name))
        })
        .collect()
}

fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Whole lists are written, so the version must still be the current one.
fn change<K: Kind>(object: &K, finalizer: &str, used: bool) -> Option<Value> {
    let meta = object.meta();
    let held = meta.finalizers.clone().unwrap_or_default();
    let has = held.iter().any(|one| one == finalizer);
    let leaving = meta.deletion_timestamp.is_some();
    let finalizers: Vec<String> = if leaving && has && !used {
        held.into_iter().filter(|one| one != finalizer).collect()
    } else if !leaving && !has {
        held.into_iter().chain([finalizer.to_owned()]).collect()
    } else {
        return None;
    };
    Some(json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_comes_first_and_goes_last() {
        for (leaving, held, used, expected) in [
            (false, vec![], false, Some(vec![VOLUME])),
            (false, vec![VOLUME], true, None),
            (true, vec![VOLUME, "other"], false, Some(vec!["other"])),
            (true, vec![VOLUME], true, None),
            (true, vec!["other"], false, None),
        ] {
            let volume: PersistentVolume = serde_json::from_value(json!({"metadata": {
                "name": "v", "finalizers": held, "deletionTimestamp": leaving.then_some("2026-01-01T00:00:00Z")
            }}))
            .unwrap();
            let changed = change(&volume, VOLUME, used).map(|patch| patch["metadata"]["finalizers"].clone());
            assert_eq!(changed, expected.map(|list| json!(list)), "{leaving} {held:?} {used}");
        }
    }
}
