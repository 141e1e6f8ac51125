//! Runs one pod on each node that a DaemonSet wants.

mod plan;

use super::pods::{due_when_available, is_available, is_ready, make, node_of, unmake};
use super::revision::{self, Belongings, HASH_LABEL};
use super::template;
use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use plan::{Place, Rules, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAME: &str = "daemonset-controller";
const GENERATION_LABEL: &str = "pod-template-generation";

#[derive(Debug, Default)]
pub(crate) struct DaemonSets;

impl Part for DaemonSets {
    const NAME: &'static str = "daemon sets";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.daemon_sets, &*caches.pods, &*caches.nodes, &*caches.revisions]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let sets = context.caches.daemon_sets.all();
        if sets.is_empty() {
            return sweep;
        }
        let belongings = Belongings::of(context);
        let nodes = context.caches.nodes.all();
        for set in sets {
            tend(context, &set, &belongings, &nodes, &mut sweep).await;
        }
        sweep
    }
}

async fn tend(
    context: &Context,
    set: &Arc<DaemonSet>,
    belongings: &Belongings,
    nodes: &[Arc<Node>],
    sweep: &mut Sweep,
) {
    let Some(spec) = &set.spec else { return };
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let template = (&spec.template, collisions);
    let found = belongings.claim(context, set.as_ref(), &spec.selector, template, sweep).await;
    let Some((claimed, history)) = found else { return };
    let hash = revision::hash_of(&history.update).to_owned();
    let now = context.now();
    let rules = Rules::of(spec, nodes.len());
    let places = places(set, &claimed, nodes, &hash, rules.min_ready_seconds, now);
    let plan = plan(&rules, &places);
    let mut left = claimed.clone();
    for doomed in plan.delete {
        let pod = left.iter().find(|pod| pod.metadata.uid.as_deref() == Some(doomed.as_str())).cloned();
        let Some(pod) = pod else { continue };
        let deleted = unmake(context, NAME, set.as_ref(), &pod).await;
        if sweep.note_about("deleting a daemon's pod", pod.as_ref(), deleted).is_some() {
            left.retain(|one| one.metadata.uid != pod.metadata.uid);
        }
    }
    for node in plan.create {
        let made = make(context, NAME, set.as_ref(), &daemon(set, &node, &hash)).await;
        match sweep.note_about("creating a daemon's pod", set.as_ref(), made) {
            Some(pod) => left.push(pod),
            None => break,
        }
    }
    due_when_available(sweep, &left, rules.min_ready_seconds, now);
    let places = self::places(set, &left, nodes, &hash, rules.min_ready_seconds, now);
    let status = status(set, &places, history.collisions);
    if set.status.as_ref() != Some(&status) {
        let mut changed = (**set).clone();
        changed.status = Some(status);
        let written = context.replace_status(&context.caches.daemon_sets, &changed).await;
        sweep.note_about("writing a daemon set's status", &changed, written);
    }
    let in_use: BTreeSet<String> = left.iter().filter_map(|pod| label(pod, HASH_LABEL)).collect();
    revision::forget(context, &history, &in_use, spec.revision_history_limit, sweep).await;
}

fn label(pod: &Pod, key: &str) -> Option<String> {
    pod.metadata.labels.as_ref()?.get(key).cloned()
}

/// The pod for one node.
fn daemon(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = template::pod(&template, set);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    if let Some(generation) = set.metadata.generation {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
    }
    plan::pin(&mut pod, node);
    pod
}

/// Where a daemon's pod is or shall go.
fn target(pod: &Pod) -> Option<String> {
    node_of(pod).map(str::to_owned).or_else(|| plan::pinned_to(pod))
}

fn places(
    set: &DaemonSet,
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    hash: &str,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Vec<Place> {
    let mut by_node: BTreeMap<String, Vec<plan::Daemon>> = BTreeMap::new();
    for pod in pods {
        let Some(node) = target(pod) else { continue };
        by_node.entry(node).or_default().push(plan::Daemon {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            failed: super::pods::phase(pod) == "Failed",
            ready: is_ready(pod),
            available: is_available(pod, min_ready_seconds, now),
            current: label(pod, HASH_LABEL).as_deref() == Some(hash),
        });
    }
    let mut places: Vec<Place> = Vec::new();
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        let trial = daemon(set, &name, hash);
        let (wanted, tolerated) = plan::wants(&trial, node);
        places.push(Place {
            daemons: by_node.remove(&name).unwrap_or_default(),
            node: name,
            wanted,
            tolerated,
        });
    }
    // Pods for nodes that are no more.
    places.extend(by_node.into_iter().map(|(node, daemons)| Place {
        node,
        daemons,
        wanted: false,
        tolerated: false,
    }));
    places
}

fn status(set: &DaemonSet, places: &[Place], collisions: Option<i32>) -> DaemonSetStatus {
    let count = |predicate: &dyn Fn(&Place) -> bool| {
        i32::try_from(places.iter().filter(|place| predicate(place)).count()).unwrap_or(i32::MAX)
    };
    let any = |place: &Place, predicate: &dyn Fn(&plan::Daemon) -> bool| {
        place.wanted && place.daemons.iter().any(|daemon| !daemon.leaving && predicate(daemon))
    };
    let optional = |count: i32| (count > 0).then_some(count);
    let desired = count(&|place| place.wanted);
    let available = count(&|place| any(place, &|daemon| daemon.available));
    DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: count(&|place| any(place, &|_| true)),
        number_misscheduled: count(&|place| !place.wanted && !place.daemons.is_empty()),
        number_ready: count(&|place| any(place, &|daemon| daemon.ready)),
        number_available: optional(available),
        number_unavailable: optional(desired - available),
        updated_number_scheduled: optional(count(&|place| any(place, &|daemon| daemon.current))),
        observed_generation: set.metadata.generation,
        collision_count: collisions,
        ..set.status.clone().unwrap_or_default()
    }
}
