//! The scheduling rounds: who is waiting, in which order, and what is written.

use super::snapshot::{NodeView, Snapshot, labels};
use super::storage::{LateBinding, SELECTED_NODE, Storage};
use super::{Verdict, decide, priority};
use crate::cache::{Watched, uid};
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::volumes;
use crate::workload::pods::{has_ended, node_of};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod, PodCondition};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAME: &str = "default-scheduler";

#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Where pods have gone whose cached copy does not say so yet, by uid.
    assumed: BTreeMap<String, String>,
}

impl Part for Scheduler {
    const NAME: &'static str = "scheduler";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![
            &*caches.pods,
            &*caches.nodes,
            &*caches.namespaces,
            &*caches.claims,
            &*caches.volumes,
            &*caches.storage_classes,
            &*caches.csi_nodes,
            &*caches.attachments,
        ]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let pods = context.caches.pods.all();
        self.settle(&pods);
        let mut waiting: Vec<&Arc<Pod>> = pods.iter().filter(|pod| self.is_waiting(pod)).collect();
        if waiting.is_empty() {
            return sweep;
        }
        waiting.sort_by_cached_key(|pod| queue_place(pod));
        let mut snapshot = self.look(context, &pods);
        let mut hopeless = Hopeless::default();
        for pod in waiting {
            if is_gated(pod) {
                let message = "Scheduling is blocked due to non-empty scheduling gates";
                refuse(context, pod, "SchedulingGated", message, &mut sweep).await;
                continue;
            }
            let verdict = hopeless.known(pod).unwrap_or_else(|| decide(pod, &snapshot));
            match verdict {
                Verdict::Unschedulable(message) => {
                    if refuse(context, pod, "Unschedulable", &message, &mut sweep).await {
                        context.event(NAME, pod.as_ref(), Level::Warning, "FailedScheduling", &message).await;
                    }
                    hopeless.add(pod, message);
                }
                Verdict::Place { node, late } => {
                    let Some(view) = snapshot.nodes.get_mut(node) else { continue };
                    // It takes its place in this round whether or not its claims have to come first.
                    view.add(pod.clone());
                    let name = view.name.clone();
                    if late.is_empty() {
                        if !self.bind(context, pod, &name, &mut sweep).await {
                            view.remove(pod);
                        }
                    } else {
                        prepare_claims(context, &late, &name, &mut sweep).await;
                    }
                }
            }
        }
        sweep
    }
}

impl Scheduler {
    /// Forgets assumptions that have become true or pointless.
    fn settle(&mut self, pods: &[Arc<Pod>]) {
        if self.assumed.is_empty() {
            return;
        }
        let unbound: BTreeSet<&str> =
            pods.iter().filter(|pod| node_of(pod).is_none()).map(|pod| uid(pod.as_ref())).collect();
        self.assumed.retain(|uid, _| unbound.contains(uid.as_str()));
    }

    fn is_waiting(&self, pod: &Pod) -> bool {
        let ours =
            pod.spec.as_ref().is_some_and(|spec| spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME);
        ours && node_of(pod).is_none()
            && pod.metadata.deletion_timestamp.is_none()
            && !has_ended(pod)
            && !self.assumed.contains_key(uid(pod))
    }

    fn look(&self, context: &Context, pods: &[Arc<Pod>]) -> Snapshot {
        let caches = &context.caches;
        let mut nodes: BTreeMap<String, NodeView> = BTreeMap::new();
        for node in caches.nodes.all() {
            let view = NodeView::new(node);
            nodes.insert(view.name.clone(), view);
        }
        for pod in pods.iter().filter(|pod| !has_ended(pod)) {
            let on = node_of(pod).or_else(|| self.assumed.get(uid(pod.as_ref())).map(String::as_str));
            if let Some(view) = on.and_then(|name| nodes.get_mut(name)) {
                view.add(pod.clone());
            }
        }
        let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
        let storage = Storage {
            claims: caches
                .claims
                .all()
                .into_iter()
                .map(|claim| (crate::cache::key(claim.as_ref()), claim))
                .collect(),
            volumes: caches.volumes.all().into_iter().map(|one| (name(&one.metadata), one)).collect(),
            classes: caches.storage_classes.all().into_iter().map(|one| (name(&one.metadata), one)).collect(),
            csi_nodes: caches.csi_nodes.all().into_iter().map(|one| (name(&one.metadata), one)).collect(),
            attachments: caches.attachments.all(),
        };
        let namespaces = caches
            .namespaces
            .all()
            .into_iter()
            .map(|one| (name(&one.metadata), one.metadata.labels.clone().unwrap_or_default()))
            .collect();
        Snapshot { nodes: nodes.into_values().collect(), namespaces, storage }
    }

    async fn bind(&mut self, context: &Context, pod: &Arc<Pod>, node: &str, sweep: &mut Sweep) -> bool {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
        let bound: Result<Value, _> =
            api.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        if sweep.note(format_args!("binding the pod {namespace}/{name}"), bound).is_none() {
            return false;
        }
        self.assumed.insert(uid(pod.as_ref()).to_owned(), node.to_owned());
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        context.event(NAME, pod.as_ref(), Level::Normal, "Scheduled", &message).await;
        true
    }
}

/// Pods that were refused in this round and whose equals need not be judged again: placing pods only takes room
/// away, unless a pod's place depends on other pods.
#[derive(Default)]
struct Hopeless(BTreeMap<String, Vec<(Arc<Pod>, String)>>);

impl Hopeless {
    fn owner(pod: &Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        let affinity = spec.affinity.as_ref();
        let depends = affinity.is_some_and(|affinity| affinity.pod_affinity.is_some())
            || spec.topology_spread_constraints.is_some();
        let owners = pod.metadata.owner_references.iter().flatten();
        (!depends).then(|| owners.map(|owner| owner.uid.clone()).next())?
    }

    fn known(&self, pod: &Pod) -> Option<Verdict> {
        let equal = self.0.get(&Self::owner(pod)?)?.iter().find(|(other, _)| {
            other.spec == pod.spec
                && labels(other) == labels(pod)
                && nominated(other).is_none()
                && nominated(pod).is_none()
        })?;
        Some(Verdict::Unschedulable(equal.1.clone()))
    }

    fn add(&mut self, pod: &Arc<Pod>, message: String) {
        if let Some(owner) = Self::owner(pod) {
            let known = self.0.entry(owner).or_default();
            if !known.iter().any(|(other, _)| other.spec == pod.spec) {
                known.push((pod.clone(), message));
            }
        }
    }
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

/// Higher priority first, then who has waited longer.
fn queue_place(pod: &Pod) -> (Reverse<i32>, Option<Timestamp>, Option<String>, Option<String>) {
    (
        Reverse(priority(pod)),
        pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        pod.metadata.namespace.clone(),
        pod.metadata.name.clone(),
    )
}

/// Writes why the pod waits, unless that is what it says already. True if it was written.
async fn refuse(context: &Context, pod: &Arc<Pod>, reason: &str, message: &str, sweep: &mut Sweep) -> bool {
    let said = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .and_then(|conditions| conditions.iter().find(|condition| condition.type_ == "PodScheduled"));
    let same = |condition: &PodCondition| {
        condition.status == "False"
            && condition.reason.as_deref() == Some(reason)
            && condition.message.as_deref() == Some(message)
    };
    if said.is_some_and(same) {
        return false;
    }
    let since = said
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or_else(|| context.time());
    let patch = json!({"status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": since
    }]}});
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let name = pod.metadata.name.clone().unwrap_or_default();
    let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let written = api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await;
    match sweep.note(format_args!("saying why it waits on the pod {namespace}/{name}"), written) {
        Some(pod) => {
            context.caches.pods.write(pod);
            true
        }
        None => false,
    }
}

fn path(claim: &PersistentVolumeClaim) -> String {
    format!("{}/{}", claim.namespace().unwrap_or_default(), claim.name_any())
}

/// Sets off what the claims need; the pod is bound in a later round, when they are.
async fn prepare_claims(context: &Context, late: &[LateBinding], node: &str, sweep: &mut Sweep) {
    for one in late {
        match one {
            LateBinding::Await => {}
            LateBinding::Provision { claim } => {
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                let written = context.merge(&context.caches.claims, claim.as_ref(), &patch).await;
                sweep.note(format_args!("choosing the node {node} for the claim {}", path(claim)), written);
            }
            LateBinding::Reserve { claim, volume } => {
                let mut reserved = (**volume).clone();
                if let Some(spec) = &mut reserved.spec {
                    spec.claim_ref = Some(volumes::reference(claim));
                }
                let notes = reserved.metadata.annotations.get_or_insert_default();
                notes.insert(volumes::BOUND_BY_US.to_owned(), "yes".to_owned());
                let written = context.replace(&context.caches.volumes, &reserved).await;
                let (claim, volume) = (path(claim), volume.name_any());
                sweep.note(format_args!("reserving the volume {volume} for the claim {claim}"), written);
            }
        }
    }
}
