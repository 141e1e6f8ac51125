//! Keeps as many pods of a kind as a ReplicaSet asks for.

use super::pods::{
    Owned, by_node, doom, due_when_available, is_active, is_available, is_ready, make, unmake,
};
use super::template;
use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{BURST, Context, Part, Sweep, says};
use crate::selector::{Labels, selects};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use std::sync::Arc;

const NAME: &str = "replicaset-controller";

#[derive(Debug, Default)]
pub(crate) struct ReplicaSets;

impl Part for ReplicaSets {
    const NAME: &'static str = "replica sets";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.pods, &*caches.replica_sets]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let pods = Owned::of(context.caches.pods.all());
        for set in context.caches.replica_sets.all() {
            tend(context, &set, &pods, &mut sweep).await;
        }
        sweep
    }
}

async fn tend(context: &Context, set: &Arc<ReplicaSet>, pods: &Owned<Pod>, sweep: &mut Sweep) {
    let Some(spec) = &set.spec else { return };
    let claimed = pods.claim(context, &context.caches.pods, set.as_ref(), &spec.selector, sweep).await;
    let mut active: Vec<Arc<Pod>> = claimed.into_iter().filter(|pod| is_active(pod)).collect();
    let mut trouble = None;
    if set.metadata.deletion_timestamp.is_none() {
        match plan(wanted(spec), &active) {
            Plan::Create(count) => {
                sweep.burst(count);
                let template = spec.template.clone().unwrap_or_default();
                for _ in 0..count {
                    match make(context, NAME, set.as_ref(), &template::pod(&template, set.as_ref())).await {
                        Ok(pod) => active.push(pod),
                        Err(error) => {
                            trouble = Some(("FailedCreate", says(&error)));
                            sweep.note::<()>("creating a pod", Err(error));
                            break;
                        }
                    }
                }
            }
            Plan::Delete(doomed) => {
                sweep.burst(doomed.len());
                for pod in doomed {
                    match unmake(context, NAME, set.as_ref(), &pod).await {
                        Ok(()) => active.retain(|one| one.metadata.uid != pod.metadata.uid),
                        Err(error) => {
                            trouble = Some(("FailedDelete", says(&error)));
                            sweep.note::<()>("deleting a pod", Err(error));
                        }
                    }
                }
            }
            Plan::Nothing => {}
        }
    }
    let now = context.now();
    due_when_available(sweep, &active, spec.min_ready_seconds.unwrap_or(0), now);
    let trouble = trouble.as_ref().map(|(reason, message)| (*reason, message.as_str()));
    let status = status(set, spec, &active, trouble, now);
    if set.status.as_ref() != Some(&status) {
        let mut changed = (**set).clone();
        changed.status = Some(status);
        let written = context.replace_status(&context.caches.replica_sets, &changed).await;
        sweep.note_about("writing a replica set's status", &changed, written);
    }
}

fn wanted(spec: &ReplicaSetSpec) -> usize {
    usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0)
}

#[derive(Debug)]
enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

fn plan(wanted: usize, active: &[Arc<Pod>]) -> Plan {
    if active.len() < wanted {
        return Plan::Create((wanted - active.len()).min(BURST));
    }
    let surplus = (active.len() - wanted).min(BURST);
    if surplus == 0 {
        return Plan::Nothing;
    }
    let beside = by_node(active);
    let mut pods = active.to_vec();
    pods.sort_by_cached_key(|pod| doom(pod, &beside));
    pods.truncate(surplus);
    Plan::Delete(pods)
}

fn status(
    set: &ReplicaSet,
    spec: &ReplicaSetSpec,
    active: &[Arc<Pod>],
    trouble: Option<(&str, &str)>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let count = |predicate: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|pod| predicate(pod)).count()).unwrap_or(i32::MAX)
    };
    let optional = |count: i32| (count > 0).then_some(count);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let template_labels = template_labels(spec.template.as_ref());
    let fully = LabelSelector { match_labels: Some(template_labels), ..LabelSelector::default() };
    let old = set.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.unwrap_or_default();
    let known = conditions.iter().any(|one| one.type_ == "ReplicaFailure");
    match trouble {
        Some((reason, message)) if !known => conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(now)),
        }),
        Some(_) => {}
        None => conditions.retain(|one| one.type_ != "ReplicaFailure"),
    }
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: optional(count(&|pod| {
            let none = Labels::new();
            selects(&fully, pod.metadata.labels.as_ref().unwrap_or(&none))
        })),
        ready_replicas: optional(count(&is_ready)),
        available_replicas: optional(count(&|pod| is_available(pod, min_ready, now))),
        observed_generation: set.metadata.generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
        ..old
    }
}

fn template_labels(template: Option<&PodTemplateSpec>) -> Labels {
    template.and_then(|template| template.metadata.as_ref()?.labels.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        (0..count)
            .map(|index| {
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": {"name": format!("p{index}"), "uid": format!("{index}"), "labels": {"app": "web"}},
                        "spec": {"nodeName": "n", "containers": []},
                        "status": {"phase": "Running", "conditions": if index == 0 { json!([]) } else {
                            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
                        }}
                    }))
                    .unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn as_many_pods_as_asked_for() {
        let summary = |wanted, active| match plan(wanted, &pods(active)) {
            Plan::Nothing => "nothing".to_owned(),
            Plan::Create(count) => format!("create {count}"),
            Plan::Delete(pods) => {
                let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
                format!("delete {}", names.join(" "))
            }
        };
        assert_eq!(summary(2, 2), "nothing");
        assert_eq!(summary(3, 1), "create 2");
        assert_eq!(summary(9999, 0), "create 500");
        assert_eq!(summary(2, 3), "delete p0");
    }

    #[test]
    fn the_status_counts_what_is_there() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 4},
            "spec": {"minReadySeconds": 10, "selector": {}, "template": {"metadata": {"labels": {"app": "web"}}}}
        }))
        .unwrap();
        let spec = set.spec.as_ref().unwrap();
        let now = "2026-01-01T00:00:05Z".parse().unwrap();
        let early = status(&set, spec, &pods(3), None, now);
        assert_eq!((early.replicas, early.ready_replicas, early.available_replicas), (3, Some(2), None));
        assert_eq!((early.fully_labeled_replicas, early.observed_generation), (Some(3), Some(4)));
        let later = status(
            &set,
            spec,
            &pods(3),
            Some(("FailedCreate", "no")),
            "2026-01-01T00:00:10Z".parse().unwrap(),
        );
        assert_eq!(later.available_replicas, Some(2));
        assert_eq!(later.conditions.unwrap()[0].reason.as_deref(), Some("FailedCreate"));
    }
}
