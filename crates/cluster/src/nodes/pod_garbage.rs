//! Deletes pods that nobody else will: of nodes that are gone, never started, or long ended.

use super::{OUT_OF_SERVICE, announce};
use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::workload::pods::{has_ended, node_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::DeleteParams;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct PodGarbage {
    /// Nodes that pods name and that are not there, since when.
    missing: BTreeMap<String, Timestamp>,
}

impl Part for PodGarbage {
    const NAME: &'static str = "pod garbage collection";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.nodes]
    }

    fn reads(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let now = context.now();
        let nodes = context.caches.nodes.all();
        let pods = context.caches.pods.all();
        let gone = self.gone(&pods, &nodes, context.options.gone_node_quarantine, now);
        let mut confirmed = BTreeSet::new();
        for name in gone {
            let api = Api::<Node>::all(context.client.clone());
            let found = api.get_metadata_opt(&name).await;
            if let Some(None) = sweep.note(format_args!("looking for the node {name}"), found) {
                confirmed.insert(name);
            }
        }
        for (pod, reason) in doomed(&pods, &nodes, &confirmed, context.options.ended_pods_kept) {
            if let Some(message) = reason {
                announce(context, &pod, "DeletionByPodGC", message, !has_ended(&pod), &mut sweep).await;
            }
            let now = DeleteParams::default().grace_period(0);
            let deleted = context.delete(&context.caches.pods, pod.as_ref(), now).await;
            sweep.note_about("deleting a forgotten pod", pod.as_ref(), deleted);
        }
        if !pods.is_empty() {
            sweep.due(context.options.pod_garbage_period);
        }
        sweep
    }
}

impl PodGarbage {
    /// Notes which nodes are missing and says which have been for long enough.
    fn gone(
        &mut self,
        pods: &[Arc<Pod>],
        nodes: &[Arc<Node>],
        quarantine: Duration,
        now: Timestamp,
    ) -> Vec<String> {
        let quarantine = SignedDuration::try_from(quarantine).unwrap_or(SignedDuration::MAX);
        let there: BTreeSet<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        let missing: BTreeSet<&str> =
            pods.iter().filter_map(|pod| node_of(pod)).filter(|name| !there.contains(name)).collect();
        self.missing = missing
            .into_iter()
            .map(|name| (name.to_owned(), self.missing.get(name).copied().unwrap_or(now)))
            .collect();
        let long = self.missing.iter().filter(|(_, since)| now.duration_since(**since) >= quarantine);
        long.map(|(name, _)| name.clone()).collect()
    }
}

/// The pods to delete, with what to say on them first.
fn doomed(
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    gone: &BTreeSet<String>,
    kept: usize,
) -> Vec<(Arc<Pod>, Option<&'static str>)> {
    let unserved: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| is_out_of_service(node))
        .filter_map(|node| node.metadata.name.as_deref())
        .collect();
    let mut doomed = Vec::new();
    let mut ended: Vec<&Arc<Pod>> = Vec::new();
    for pod in pods {
        let leaving = pod.metadata.deletion_timestamp.is_some();
        match node_of(pod) {
            Some(node) if gone.contains(node) => {
                doomed.push((pod.clone(), Some("PodGC: node no longer exists")));
            }
            Some(node) if leaving && unserved.contains(node) => {
                doomed.push((pod.clone(), Some("PodGC: node out of service")));
            }
            None if leaving => doomed.push((pod.clone(), None)),
            _ if has_ended(pod) => ended.push(pod),
            _ => {}
        }
    }
    if kept > 0 && ended.len() > kept {
        let surplus = ended.len() - kept;
        ended.sort_by_key(|pod| {
            (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.metadata.name.clone())
        });
        doomed.extend(ended.into_iter().take(surplus).map(|pod| (pod.clone(), None)));
    }
    doomed
}

fn is_out_of_service(node: &Node) -> bool {
    let tainted = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .any(|taint| taint.key == OUT_OF_SERVICE);
    let ready = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|one| one.type_ == "Ready" && one.status == "True");
    tainted && !ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, node: Option<&str>, phase: &str, leaving: bool) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "deletionTimestamp": leaving.then_some("2026-01-01T00:00:00Z")},
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}
            }))
            .unwrap(),
        )
    }

    fn node(name: &str, taints: &Value) -> Arc<Node> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"taints": taints}})).unwrap(),
        )
    }

    #[test]
    fn forgotten_pods_are_found() {
        let pods = [
            pod("runs", Some("here"), "Running", false),
            pod("leaves", Some("here"), "Running", true),
            pod("homeless", Some("gone"), "Running", false),
            pod("stuck", Some("broken"), "Running", true),
            pod("never-started", None, "Pending", true),
            pod("waits", None, "Pending", false),
            pod("ended-1", Some("here"), "Failed", false),
            pod("ended-2", Some("here"), "Succeeded", false),
        ];
        let nodes = [
            node("here", &json!([])),
            node("broken", &json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}])),
        ];
        let found = |kept: usize| -> Vec<String> {
            let gone = BTreeSet::from(["gone".to_owned()]);
            doomed(&pods, &nodes, &gone, kept)
                .iter()
                .map(|(pod, _)| pod.metadata.name.clone().unwrap())
                .collect()
        };
        assert_eq!(found(0), ["homeless", "stuck", "never-started"]);
        assert_eq!(found(1), ["homeless", "stuck", "never-started", "ended-1"]);
    }

    #[test]
    fn a_node_must_be_missing_for_a_while() {
        let mut garbage = PodGarbage::default();
        let pods = [pod("p", Some("gone"), "Running", false)];
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let quarantine = Duration::from_secs(40);
        let back = [node("gone", &json!([]))];
        assert!(garbage.gone(&pods, &[], quarantine, at(0)).is_empty());
        assert!(garbage.gone(&pods, &back, quarantine, at(20)).is_empty());
        assert!(garbage.gone(&pods, &[], quarantine, at(40)).is_empty());
        assert!(garbage.gone(&pods, &[], quarantine, at(79)).is_empty());
        assert_eq!(garbage.gone(&pods, &[], quarantine, at(80)), ["gone"]);
    }
}
