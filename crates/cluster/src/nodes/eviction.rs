//! Deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer.

use super::announce;
use crate::cache::{Watched, uid};
use crate::events::Level;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use crate::scheduler::taints::{tolerates, tolerations};
use crate::workload::pods::{has_ended, node_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::api::DeleteParams;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct TaintEviction {
    /// When a pod was first seen beside taints that do not say since when they are there.
    seen: BTreeMap<String, Timestamp>,
}

impl Part for TaintEviction {
    const NAME: &'static str = "taint eviction";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.nodes, &*caches.pods]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let tainted: BTreeMap<String, Vec<Taint>> = context
            .caches
            .nodes
            .all()
            .iter()
            .map(|node| (node.metadata.name.clone().unwrap_or_default(), evicting(node)))
            .filter(|(_, taints)| !taints.is_empty())
            .collect();
        if tainted.is_empty() {
            self.seen.clear();
            return sweep;
        }
        let now = context.now();
        let mut seen = BTreeMap::new();
        for pod in context.caches.pods.all() {
            let Some(taints) = node_of(&pod).and_then(|node| tainted.get(node)) else { continue };
            if pod.metadata.deletion_timestamp.is_some() || has_ended(&pod) {
                continue;
            }
            let first = *self.seen.get(uid(pod.as_ref())).unwrap_or(&now);
            seen.insert(uid(pod.as_ref()).to_owned(), first);
            match end(&pod, taints, first) {
                None => {}
                Some(at) if at > now => sweep.due_at(now, at),
                Some(_) => evict(context, &pod, &mut sweep).await,
            }
        }
        self.seen = seen;
        sweep
    }
}

fn evicting(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// When the pod has to go; `None` if it may stay for ever.
fn end(pod: &Pod, taints: &[Taint], first_seen: Timestamp) -> Option<Timestamp> {
    let mut end: Option<Timestamp> = None;
    for taint in taints {
        let matching: Vec<_> =
            tolerations(pod).iter().filter(|toleration| tolerates(toleration, taint)).collect();
        let since = taint.time_added.as_ref().map_or(first_seen, |time| time.0);
        if matching.is_empty() {
            return Some(since.min(first_seen));
        }
        let seconds = matching.iter().filter_map(|toleration| toleration.toleration_seconds).min();
        if let Some(seconds) = seconds {
            let at = since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
            end = Some(end.map_or(at, |end| end.min(at)));
        }
    }
    end
}

async fn evict(context: &Context, pod: &Arc<Pod>, sweep: &mut Sweep) {
    let message = format!(
        "Marking for deletion Pod {}/{}",
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod.metadata.name.as_deref().unwrap_or_default()
    );
    context
        .event("taint-eviction-controller", pod.as_ref(), Level::Normal, "TaintManagerEviction", &message)
        .await;
    let why = "Taint manager: deleting due to NoExecute taint";
    announce(context, pod, "DeletionByTaintManager", why, false, sweep).await;
    let deleted = context.delete(&context.caches.pods, pod.as_ref(), DeleteParams::default()).await;
    sweep.note_about("evicting a pod from a tainted node", pod.as_ref(), deleted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn pods_stay_as_long_as_they_tolerate_it() {
        let taint = |key: &str, added: Option<&str>| -> Taint {
            serde_json::from_value(json!({"key": key, "effect": "NoExecute", "timeAdded": added})).unwrap()
        };
        let tolerate = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let start = Some("1970-01-01T00:01:40Z");
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        for (name, taints, tolerations, expected) in [
            ("not tolerated", vec![taint("a", start)], json!([]), at(100)),
            ("tolerated", vec![taint("a", start)], json!([tolerate("a", None)]), None),
            ("for a while", vec![taint("a", start)], json!([tolerate("a", Some(300))]), at(400)),
            (
                "the shorter of two for one taint",
                vec![taint("a", start)],
                json!([tolerate("a", Some(300)), tolerate("a", Some(20))]),
                at(120),
            ),
            ("not at all", vec![taint("a", start)], json!([tolerate("a", Some(0))]), at(100)),
            (
                "the shortest of two",
                vec![taint("a", start), taint("b", start)],
                json!([tolerate("a", Some(300)), tolerate("b", Some(10))]),
                at(110),
            ),
            (
                "one of two not",
                vec![taint("a", start), taint("b", start)],
                json!([tolerate("a", Some(300))]),
                at(100),
            ),
            ("since when it was seen", vec![taint("a", None)], json!([tolerate("a", Some(10))]), at(510)),
        ] {
            let tolerations: Value = tolerations;
            let pod: Pod =
                serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}}))
                    .unwrap();
            assert_eq!(end(&pod, &taints, Timestamp::from_second(500).unwrap()), expected, "{name}");
        }
    }
}
