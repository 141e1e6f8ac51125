//! Notices nodes that fell silent, and keeps the taints that go with their conditions.

use super::patch_pod_status;
use super::taints::wanted;
use crate::cache::Watched;
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::workload::pods::{is_ready, node_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "node-controller";
const LEASES: &str = "kube-node-lease";
/// How long a node may take to say anything at all.
const STARTUP: Duration = Duration::from_secs(60);
const JUDGED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// A sign of life, and when it was first seen. Nodes' clocks are not trusted.
#[derive(Clone, Debug, PartialEq)]
struct Sign {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    seen: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct NodeHealth {
    signs: BTreeMap<String, Sign>,
}

impl Part for NodeHealth {
    const NAME: &'static str = "node life cycle";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.nodes]
    }

    fn reads(caches: &Caches) -> Vec<&dyn Watched> {
        // Leases change all the time: they are looked at by the clock.
        vec![&*caches.leases, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let now = context.now();
        let nodes = context.caches.nodes.all();
        let mut signs = BTreeMap::new();
        for node in &nodes {
            let name = node.metadata.name.clone().unwrap_or_default();
            let lease = context.caches.leases.get(LEASES, &name);
            let sign = watch_for(self.signs.get(&name), node, lease.as_deref(), now);
            self.tend(context, node, &sign, &mut sweep).await;
            signs.insert(name, sign);
        }
        self.signs = signs;
        if !nodes.is_empty() {
            sweep.due(context.options.node_monitor_period);
        }
        sweep
    }
}

impl NodeHealth {
    async fn tend(&self, context: &Context, node: &Arc<Node>, sign: &Sign, sweep: &mut Sweep) {
        let now = context.now();
        let mut current = node.clone();
        let conditions = judged(node, sign, context.options.node_grace_period, now);
        if let Some(conditions) = conditions {
            let mut changed = (**node).clone();
            changed.status.get_or_insert_default().conditions = Some(conditions);
            let written = context.replace_status(&context.caches.nodes, &changed).await;
            match sweep.note_about("marking a node unknown", &changed, written) {
                Some(written) => current = written,
                None => return,
            }
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let message = format!("Node {name} status is now: NodeNotReady");
            context.event(NAME, node.as_ref(), Level::Normal, "NodeNotReady", &message).await;
        }
        let taints = wanted(&current, now);
        let present = current.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        if taints != present {
            let patch = json!({
                "metadata": {"resourceVersion": current.metadata.resource_version},
                "spec": {"taints": taints}
            });
            let written = context.merge(&context.caches.nodes, current.as_ref(), &patch).await;
            sweep.note_about("tainting a node", current.as_ref(), written);
        }
        if !is_node_ready(&current) {
            mark_pods(context, &current, sweep).await;
        }
    }
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.iter().flatten().find(|one| one.type_ == kind)
}

fn is_node_ready(node: &Node) -> bool {
    condition(node, "Ready").is_none_or(|one| one.status == "True")
}

/// The newest sign of life: what is new now was seen now.
fn watch_for(before: Option<&Sign>, node: &Node, lease: Option<&Lease>, now: Timestamp) -> Sign {
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
    let heartbeat = condition(node, "Ready")
        .filter(|one| one.status != "Unknown")
        .and_then(|one| one.last_heartbeat_time.as_ref())
        .map(|time| time.0);
    match before {
        Some(before)
            if before.renewed == renewed && (before.heartbeat == heartbeat || heartbeat.is_none()) =>
        {
            Sign { heartbeat: before.heartbeat, ..before.clone() }
        }
        _ => Sign { renewed, heartbeat, seen: now },
    }
}

/// The conditions of a node that has been silent for too long, if they do not say so yet.
fn judged(node: &Node, sign: &Sign, grace: Duration, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let ready = condition(node, "Ready");
    let patience = if ready.is_some() { grace } else { STARTUP };
    let since = match ready {
        Some(_) => sign.seen,
        None => node.metadata.creation_timestamp.as_ref().map_or(sign.seen, |time| time.0.max(sign.seen)),
    };
    if now.duration_since(since) <= SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX) {
        return None;
    }
    let mut conditions =
        node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut changed = false;
    for kind in JUDGED {
        match conditions.iter_mut().find(|one| one.type_ == kind) {
            Some(one) if one.status == "Unknown" => {}
            Some(one) => {
                changed = true;
                one.status = "Unknown".to_owned();
                one.reason = Some("NodeStatusUnknown".to_owned());
                one.message = Some("Kubelet stopped posting node status.".to_owned());
                one.last_transition_time = Some(Time(now));
            }
            None => {
                changed = true;
                conditions.push(NodeCondition {
                    type_: kind.to_owned(),
                    status: "Unknown".to_owned(),
                    reason: Some("NodeStatusNeverUpdated".to_owned()),
                    message: Some("Kubelet never posted node status.".to_owned()),
                    last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                    last_transition_time: Some(Time(now)),
                });
            }
        }
    }
    changed.then_some(conditions)
}

/// Nobody can say that pods on such a node are ready.
async fn mark_pods(context: &Context, node: &Node, sweep: &mut Sweep) {
    let name = node.metadata.name.as_deref();
    for pod in context.caches.pods.all() {
        if node_of(&pod) == name && is_ready(&pod) && pod.metadata.deletion_timestamp.is_none() {
            let status = json!({"conditions": [{
                "type": "Ready", "status": "False", "lastTransitionTime": context.time()
            }]});
            patch_pod_status(context, &pod, &status, sweep).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        Timestamp::from_second(i64::from(second)).unwrap()
    }

    fn node(ready: Option<&str>) -> Node {
        let conditions = ready.map(|status| {
            json!([{"type": "Ready", "status": status, "lastHeartbeatTime": "1970-01-01T00:00:00Z"}])
        });
        serde_json::from_value(json!({
            "metadata": {"name": "n", "creationTimestamp": "1970-01-01T00:00:00Z"}, "status": {"conditions": conditions}
        }))
        .unwrap()
    }

    fn lease(renewed: u32) -> Lease {
        serde_json::from_value(json!({"spec": {"renewTime": format!("{}", at(renewed))}})).unwrap()
    }

    #[test]
    fn a_sign_counts_from_when_it_was_seen() {
        let node = node(Some("True"));
        let first = watch_for(None, &node, Some(&lease(5)), at(10));
        assert_eq!(first.seen, at(10));
        let same = watch_for(Some(&first), &node, Some(&lease(5)), at(20));
        assert_eq!(same.seen, at(10));
        assert_eq!(watch_for(Some(&same), &node, Some(&lease(6)), at(30)).seen, at(30));
    }

    #[test]
    fn silent_nodes_become_unknown_once() {
        let grace = Duration::from_secs(40);
        let sign = Sign { renewed: None, heartbeat: None, seen: at(0) };
        for (ready, second, expected) in [
            (Some("True"), 40, None),
            (Some("True"), 41, Some("NodeStatusUnknown")),
            (Some("False"), 41, Some("NodeStatusUnknown")),
            (None, 60, None),
            (None, 61, Some("NodeStatusNeverUpdated")),
        ] {
            let conditions = judged(&node(ready), &sign, grace, at(second));
            let reason = conditions.as_ref().and_then(|all| all[0].reason.clone());
            assert_eq!(reason.as_deref(), expected, "{ready:?} at {second}");
            if let Some(conditions) = conditions {
                assert!(conditions.len() == 4 && conditions.iter().all(|one| one.status == "Unknown"));
                let mut known = node(ready);
                known.status.as_mut().unwrap().conditions = Some(conditions);
                assert_eq!(judged(&known, &sign, grace, at(second + 1)), None);
            }
        }
    }
}
