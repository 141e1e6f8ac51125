//! Carries out one step. What goes wrong is remembered and decided upon.

use super::{
    Drainer, RemovalLabels,
    memory::{Absent, Asked, Memory},
};
use crate::{
    Node,
    drain::{Act, Order, Removal, Remove, Tried, Verified, Why},
    health::TERMINATING,
    objects::{Attachment, BoundPod},
};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::PoisonError};

/// How many pods one drain asks for at a time.
const AT_A_TIME: usize = 4;

impl Drainer {
    /// Carries out what [`Drainer::look`] or [`Drainer::look_at_attachments`] said; then look again.
    pub async fn act(&self, order: &Order, act: &Act) {
        match act {
            Act::LookForNode => self.look_for_node(order).await,
            Act::Mark => self.mark(order).await,
            Act::Cordon => self.cordon(order).await,
            Act::Remove(removals) => self.remove_all(order, removals).await,
            Act::Verify => self.verify(order).await,
            Act::Detach(attachments) => self.detach(order, attachments).await,
        }
    }

    fn remember(&self, order: &Order, note: impl FnOnce(&mut Memory)) {
        if let Some(memory) = self.books().get(&order.key) {
            note(memory);
        }
    }

    async fn look_for_node(&self, order: &Order) {
        let found = Api::<Node>::all(self.client.clone()).get_opt(&order.node).await;
        self.remember(order, |memory| match found {
            Ok(Some(node)) => memory.absent = Absent::There(Box::new(node)),
            Ok(None) => memory.absent = Absent::Gone,
            Err(error) => memory.absent = Absent::Unanswered { at: self.clock.now(), text: text_of(&error) },
        });
    }

    async fn mark(&self, order: &Order) {
        let Some((reason, message)) = order.mark else { return };
        let now = Time(self.clock.now());
        // Merged by type: what others say about the node stays.
        let patch = Patch::Strategic(json!({"status": {"conditions": [{
            "type": TERMINATING, "status": "True", "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]}}));
        let nodes = Api::<Node>::all(self.client.clone());
        let result = nodes.patch_status(&order.node, &PatchParams::default(), &patch).await;
        let tried = self.tried(order, result);
        self.remember(order, |memory| memory.marked = tried);
    }

    async fn cordon(&self, order: &Order) {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        let result =
            Api::<Node>::all(self.client.clone()).patch(&order.node, &PatchParams::default(), &patch).await;
        let tried = self.tried(order, result);
        self.remember(order, |memory| memory.cordoned = tried);
    }

    /// What came of a write to the node. One that is gone is found to be so in the next look.
    fn tried(&self, order: &Order, result: Result<Node, kube::Error>) -> (Timestamp, Tried) {
        let now = self.clock.now();
        let tried = match result {
            Ok(_) => Tried::Done,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.remember(order, |memory| memory.absent = Absent::Gone);
                Tried::Done
            }
            Err(error) => Tried::Failed { at: now, text: text_of(&error) },
        };
        (now, tried)
    }

    async fn remove_all(&self, order: &Order, removals: &[Removal]) {
        let calls = removals.iter().filter(|removal| self.may_ask(removal)).map(|removal| async move {
            let result = match removal.how {
                Remove::Evict => self.evict(removal).await,
                Remove::Delete => self.delete(removal).await,
            };
            self.removed(order, removal, result);
        });
        let mut calls = futures::stream::iter(calls.collect::<Vec<_>>()).buffered(AT_A_TIME);
        while calls.next().await.is_some() {}
    }

    /// Whether the disruption that it needs was not taken by another drain meanwhile.
    fn may_ask(&self, removal: &Removal) -> bool {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        removal.share.as_ref().is_none_or(|share| ledger.take(share, self.clock.now()))
    }

    async fn evict(&self, removal: &Removal) -> Result<(), kube::Error> {
        let pod = &removal.pod;
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            // A pod of the same name may run elsewhere by now.
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let pods = Api::<BoundPod>::namespaced(self.evictions.clone(), &pod.namespace);
        let done = pods.create_subresource("eviction", &pod.name, &PostParams::default(), &eviction).await;
        done.map(|_: Value| ())
    }

    async fn delete(&self, removal: &Removal) -> Result<(), kube::Error> {
        let pod = &removal.pod;
        let same = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let at_once = DeleteParams::default().grace_period(0).preconditions(same);
        let pods = Api::<BoundPod>::namespaced(self.client.clone(), &pod.namespace);
        pods.delete(&pod.name, &at_once).await.map(drop)
    }

    fn removed(&self, order: &Order, removal: &Removal, result: Result<(), kube::Error>) {
        let now = self.clock.now();
        let (label, why) = match result {
            Ok(()) => ("accepted", None),
            Err(kube::Error::Api(status)) if status.code == 404 => ("gone", None),
            Err(kube::Error::Api(status)) if status.code == 409 => ("conflict", Some(Why::Conflict)),
            Err(kube::Error::Api(status)) if status.code == 429 && removal.how == Remove::Evict => {
                let version = removal.share.as_ref().map(|share| share.version.clone());
                ("refused", Some(Why::Budget { version }))
            }
            Err(error) => {
                let text = format!(
                    "error when evicting pod {:?}: {} scheduled on node {}",
                    removal.pod.name,
                    text_of(&error),
                    order.node
                );
                ("failed", Some(Why::Error(text)))
            }
        };
        let how = if removal.how == Remove::Evict { "evict" } else { "delete" };
        self.removals.get_or_create(&RemovalLabels { how, result: label }).inc();
        tracing::info!(pod = %removal.pod, node = order.node, how, result = label, "asked a pod to leave");
        self.remember(order, |memory| match why {
            Some(why) => memory.refused(removal, why, now),
            None => {
                let asked = match (label, removal.how) {
                    ("gone", _) => Asked::Gone,
                    (_, Remove::Evict) => Asked::Evicted(now),
                    (_, Remove::Delete) => Asked::Killed(now),
                };
                memory.refusals.remove(&removal.pod.uid);
                memory.asked.insert(removal.pod.uid.clone(), asked);
            }
        });
    }

    /// A watch shows what is there, never that nothing is: a pod may have been bound just before the cordon.
    async fn verify(&self, order: &Order) {
        let here = ListParams::default().fields(&format!("spec.nodeName={}", order.node));
        let listed = Api::<BoundPod>::all(self.client.clone()).list(&here).await;
        let now = self.clock.now();
        self.remember(order, |memory| {
            let shown: BTreeSet<Option<String>> =
                self.view.pods_by_node.of(&order.node).iter().map(|pod| pod.uid()).collect();
            let unseen = |pod: &BoundPod| pod.has_to_leave(order.leave_ended) && !shown.contains(&pod.uid());
            memory.verified = match listed {
                Ok(pods) => match pods.items.iter().find(|pod| unseen(pod)) {
                    None => Verified::NoneLeft,
                    Some(pod) => {
                        let text =
                            format!("{}/{} is there", pod.namespace().unwrap_or_default(), pod.name_any());
                        Verified::NotNow { at: now, text }
                    }
                },
                Err(error) => Verified::NotNow { at: now, text: text_of(&error) },
            };
        });
    }

    async fn detach(&self, order: &Order, attachments: &[String]) {
        let api = Api::<Attachment>::all(self.client.clone());
        for name in attachments {
            let result = api.delete(name, &DeleteParams::default()).await;
            let now = self.clock.now();
            self.remember(order, |memory| match result {
                Err(error) if !is_gone(&error) => memory.detach_failed = Some((now, text_of(&error))),
                _ => drop(memory.detached.insert(name.clone())),
            });
        }
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// What the API server said, in its own words.
fn text_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}
