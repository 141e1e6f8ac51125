//! What all workloads ask about pods, and how they take and release them.

use crate::cache::{Cache, uid};
use crate::events::Level;
use crate::kind::Kind;
use crate::part::{Context, Sweep, says};
use crate::selector::{Labels, selects};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::Resource;
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner that manages an object.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

pub(crate) fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|one| one.type_ == "Ready" && one.status == "True")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// When the pod counts as available: ready for at least this long. `None` while it is not ready.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Timestamp> {
    let condition = ready_condition(pod)?;
    if min_ready_seconds <= 0 {
        return Some(now);
    }
    let since = condition.last_transition_time.as_ref()?.0;
    since.checked_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).ok()
}

pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds, now).is_some_and(|at| at <= now)
}

/// Asks for a sweep when the next ready pod becomes available.
pub(crate) fn due_when_available(
    sweep: &mut Sweep,
    pods: &[Arc<Pod>],
    min_ready_seconds: i32,
    now: Timestamp,
) {
    if let Some(at) =
        pods.iter().filter_map(|pod| available_at(pod, min_ready_seconds, now)).filter(|at| *at > now).min()
    {
        sweep.due_at(now, at);
    }
}

type Doomed = (
    bool,
    u8,
    bool,
    i32,
    Reverse<usize>,
    Reverse<Option<Timestamp>>,
    Reverse<i32>,
    Reverse<Option<Timestamp>>,
);

/// Orders pods by how readily they are given up: those that do least good first. `beside` says how many of the
/// same kind run on each node.
pub(crate) fn doom(pod: &Pod, beside: &BTreeMap<String, usize>) -> Doomed {
    let phase = match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|notes| notes.get("controller.kubernetes.io/pod-deletion-cost"))
        .and_then(|cost| cost.parse().ok())
        .unwrap_or(0);
    let restarts = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .map(|container| container.restart_count)
        .max()
        .unwrap_or(0);
    let ready_since =
        ready_condition(pod).and_then(|one| one.last_transition_time.as_ref()).map(|time| time.0);
    (
        node_of(pod).is_some(),
        phase,
        is_ready(pod),
        cost,
        Reverse(node_of(pod).and_then(|node| beside.get(node)).copied().unwrap_or(0)),
        Reverse(ready_since),
        Reverse(restarts),
        Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    )
}

/// How many of the pods run on each node.
pub(crate) fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| node_of(pod)) {
        *count.entry(node.to_owned()).or_default() += 1;
    }
    count
}

/// Makes a pod for its owner, and says so.
pub(crate) async fn make<O: Kind>(
    context: &Context,
    maker: &str,
    owner: &O,
    pod: &Pod,
) -> Result<Arc<Pod>, kube::Error> {
    let made = context.create(&context.caches.pods, pod).await;
    let (level, reason, message) = match &made {
        Ok(pod) => {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            (Level::Normal, "SuccessfulCreate", format!("Created pod: {name}"))
        }
        Err(error) => (Level::Warning, "FailedCreate", format!("Error creating: {}", says(error))),
    };
    context.event(maker, owner, level, reason, &message).await;
    made
}

/// Deletes a pod of an owner, and says so.
pub(crate) async fn unmake<O: Kind>(
    context: &Context,
    maker: &str,
    owner: &O,
    pod: &Pod,
) -> Result<(), kube::Error> {
    context.delete(&context.caches.pods, pod, DeleteParams::default()).await?;
    let message = format!("Deleted pod: {}", pod.metadata.name.as_deref().unwrap_or_default());
    context.event(maker, owner, Level::Normal, "SuccessfulDelete", &message).await;
    Ok(())
}

/// Objects by the uid of their controller, and those without one by namespace.
#[derive(Debug)]
pub(crate) struct Owned<K> {
    by_controller: BTreeMap<String, Vec<Arc<K>>>,
    orphans: BTreeMap<String, Vec<Arc<K>>>,
}

impl<K: Kind> Owned<K> {
    pub(crate) fn of(objects: Vec<Arc<K>>) -> Self {
        let mut by_controller: BTreeMap<String, Vec<Arc<K>>> = BTreeMap::new();
        let mut orphans: BTreeMap<String, Vec<Arc<K>>> = BTreeMap::new();
        for object in objects {
            let meta = object.meta();
            match controller(meta) {
                Some(owner) => by_controller.entry(owner.uid.clone()).or_default().push(object),
                None => orphans.entry(meta.namespace.clone().unwrap_or_default()).or_default().push(object),
            }
        }
        Self { by_controller, orphans }
    }

    pub(crate) fn controlled_by(&self, uid: &str) -> &[Arc<K>] {
        self.by_controller.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The objects that are the owner's: it takes matching ones that nobody controls and lets go of its own that no
    /// longer match. An owner that is being deleted does neither.
    pub(crate) async fn claim<O: Kind>(
        &self,
        context: &Context,
        cache: &Cache<K>,
        owner: &O,
        selector: &LabelSelector,
        sweep: &mut Sweep,
    ) -> Vec<Arc<K>> {
        let matches = |object: &K| {
            let none = Labels::new();
            selects(selector, object.meta().labels.as_ref().unwrap_or(&none))
        };
        let leaving = owner.meta().deletion_timestamp.is_some();
        let mut claimed = Vec::new();
        for object in self.controlled_by(uid(owner)) {
            if matches(object) {
                claimed.push(object.clone());
            } else if !leaving {
                let rest: Vec<&OwnerReference> = object
                    .meta()
                    .owner_references
                    .iter()
                    .flatten()
                    .filter(|one| one.uid != uid(owner))
                    .collect();
                let patch = json!({"metadata": {"uid": uid(object.as_ref()), "ownerReferences": rest}});
                sweep.note_about(
                    "releasing",
                    object.as_ref(),
                    context.merge(cache, object.as_ref(), &patch).await,
                );
            }
        }
        let namespace = owner.meta().namespace.clone().unwrap_or_default();
        for object in self.orphans.get(&namespace).into_iter().flatten() {
            if leaving || object.meta().deletion_timestamp.is_some() || !matches(object) {
                continue;
            }
            let mut owners = object.meta().owner_references.clone().unwrap_or_default();
            owners.push(owner_reference(owner));
            let patch = json!({"metadata": {"uid": uid(object.as_ref()), "ownerReferences": owners}});
            claimed.extend(sweep.note_about(
                "adopting",
                object.as_ref(),
                context.merge(cache, object.as_ref(), &patch).await,
            ));
        }
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: &Value) -> Pod {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn ready(since: &str) -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
    }

    #[test]
    fn pods_that_do_least_good_go_first() {
        let on = |node: &str| json!({"nodeName": node, "containers": []});
        let old = "2026-01-01T00:00:00Z";
        let new = "2026-01-02T00:00:00Z";
        let mut costly = pod(&json!({"metadata": {"name": "costly"}, "spec": on("b"), "status": ready(old)}));
        costly.metadata.annotations =
            Some([("controller.kubernetes.io/pod-deletion-cost".to_owned(), "5".to_owned())].into());
        let restarting = json!({"phase": "Running", "conditions": ready(old)["conditions"], "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 3}
        ]});
        let expected = [
            "unbound",
            "pending",
            "unready",
            "crowded",
            "newly-ready",
            "restarting",
            "young",
            "old",
            "costly",
        ];
        let mut pods = vec![
            costly,
            pod(
                &json!({"metadata": {"name": "old", "creationTimestamp": old}, "spec": on("b"), "status": ready(old)}),
            ),
            pod(
                &json!({"metadata": {"name": "young", "creationTimestamp": new}, "spec": on("b"), "status": ready(old)}),
            ),
            pod(
                &json!({"metadata": {"name": "restarting", "creationTimestamp": old}, "spec": on("b"), "status": restarting}),
            ),
            pod(
                &json!({"metadata": {"name": "newly-ready", "creationTimestamp": old}, "spec": on("b"), "status": ready(new)}),
            ),
            pod(
                &json!({"metadata": {"name": "crowded", "creationTimestamp": old}, "spec": on("a"), "status": ready(old)}),
            ),
            pod(&json!({"metadata": {"name": "unready"}, "spec": on("b"), "status": {"phase": "Running"}})),
            pod(&json!({"metadata": {"name": "pending"}, "spec": on("b"), "status": {"phase": "Pending"}})),
            pod(&json!({"metadata": {"name": "unbound"}, "status": {"phase": "Pending"}})),
        ];
        let beside = [("a".to_owned(), 9), ("b".to_owned(), 1)].into();
        pods.sort_by_key(|pod| doom(pod, &beside));
        let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn available_is_ready_for_long_enough() {
        let now: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        let ready = pod(&json!({"status": ready("2026-01-01T00:00:00Z")}));
        let unready = pod(&json!({"status": {"phase": "Running"}}));
        assert!(is_available(&ready, 0, now) && is_available(&ready, 30, now));
        assert!(!is_available(&ready, 31, now) && !is_available(&unready, 0, now));
    }
}
