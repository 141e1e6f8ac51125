//! Keeps the status of PodDisruptionBudgets: how many pods may be disturbed right now.

use crate::cache::Watched;
use crate::garbage::graph::Served;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, says};
use crate::selector::{Labels, selects};
use crate::workload::deployment::scaled;
use crate::workload::pods::{controller, is_ready};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;
use kube::api::DynamicObject;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long an announced eviction counts although the pod is still there.
const ANNOUNCED: SignedDuration = SignedDuration::from_secs(120);

#[derive(Debug, Default)]
pub(crate) struct Budgets {
    kinds: Kinds,
}

/// Where owners of other kinds than the usual ones are served; asked for when one is not known, once a sweep at most.
#[derive(Debug, Default)]
struct Kinds {
    served: Vec<Served>,
    asked: bool,
}

impl Kinds {
    async fn get(&mut self, context: &Context, owner: &OwnerReference) -> Option<Served> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let known = |served: &[Served]| {
            served.iter().find(|one| one.api.group == group && one.api.kind == owner.kind).cloned()
        };
        if let Some(found) = known(&self.served) {
            return Some(found);
        }
        if !self.asked {
            self.asked = true;
            self.served = crate::discover::resources(&context.client).await.ok()?;
        }
        known(&self.served)
    }
}

impl Part for Budgets {
    const NAME: &'static str = "budgets";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![
            &*caches.budgets,
            &*caches.pods,
            &*caches.replica_sets,
            &*caches.deployments,
            &*caches.stateful_sets,
        ]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let budgets = context.caches.budgets.all();
        if budgets.is_empty() {
            return sweep;
        }
        self.kinds.asked = false;
        let mut pods: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in context.caches.pods.all() {
            pods.entry(pod.metadata.namespace.clone().unwrap_or_default()).or_default().push(pod);
        }
        for budget in budgets {
            let namespace = budget.metadata.namespace.clone().unwrap_or_default();
            let near = pods.get(&namespace).map_or(&[][..], Vec::as_slice);
            tend(context, &budget, near, &mut self.kinds, &mut sweep).await;
        }
        sweep
    }
}

async fn tend(
    context: &Context,
    budget: &Arc<PodDisruptionBudget>,
    near: &[Arc<Pod>],
    kinds: &mut Kinds,
    sweep: &mut Sweep,
) {
    let Some(spec) = &budget.spec else { return };
    let covered: Vec<&Arc<Pod>> = near
        .iter()
        .filter(|pod| {
            let none = Labels::new();
            let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
            spec.selector.as_ref().is_some_and(|selector| selects(selector, labels))
        })
        .collect();
    let scale = if needs_scale(spec) { expected_scale(context, &covered, kinds).await } else { Ok(0) };
    let now = context.now();
    let (status, due) = match scale {
        Ok(scale) => judge(budget, spec, &covered, scale, now),
        Err(why) => (failed(budget, &why, now), None),
    };
    if let Some(at) = due {
        sweep.due_at(now, at);
    }
    if budget.status.as_ref() != Some(&status) {
        let mut changed = (**budget).clone();
        changed.status = Some(status);
        let written = context.replace_status(&context.caches.budgets, &changed).await;
        sweep.note_about("writing a budget's status", &changed, written);
    }
}

/// Whether the budget speaks of a share of the replicas asked for, rather than of pods that are there.
fn needs_scale(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// How many replicas the controllers of these pods were asked for. The error says for which pod none was found.
async fn expected_scale(context: &Context, pods: &[&Arc<Pod>], kinds: &mut Kinds) -> Result<i32, String> {
    let mut by_controller: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller(&pod.metadata) else { continue };
        if by_controller.contains_key(&owner.uid) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match scale_of(context, namespace, owner, kinds).await {
            // Sets of one deployment count once, by the deployment.
            Some((uid, scale)) => {
                by_controller.insert(uid, scale);
            }
            None => return Err(format!("found no controllers for pod \"{name}\"")),
        }
    }
    Ok(by_controller.values().copied().fold(0, i32::saturating_add))
}

async fn scale_of(
    context: &Context,
    namespace: &str,
    owner: &OwnerReference,
    kinds: &mut Kinds,
) -> Option<(String, i32)> {
    let caches = &context.caches;
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = caches.replica_sets.get(namespace, &owner.name)?;
            if set.metadata.uid.as_ref() != Some(&owner.uid) {
                return None;
            }
            match controller(&set.metadata).filter(|above| above.kind == "Deployment") {
                Some(above) => {
                    let deployment = caches.deployments.get(namespace, &above.name)?;
                    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                    Some((above.uid.clone(), replicas))
                }
                None => {
                    Some((owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
                }
            }
        }
        "StatefulSet" => {
            let set = caches.stateful_sets.get(namespace, &owner.name)?;
            Some((owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        // Anything else that can be scaled says so itself.
        _ => {
            let resource = kinds.get(context, owner).await?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(context.client.clone(), namespace, &resource.api);
            let scale: Scale = match api.get_subresource("scale", &owner.name).await {
                Ok(scale) => serde_json::from_value(serde_json::to_value(scale).ok()?).ok()?,
                Err(error) => {
                    tracing::debug!(owner = owner.name, "no scale: {}", says(&error));
                    // It may be served elsewhere by now.
                    kinds.served.retain(|one| one.api != resource.api);
                    return None;
                }
            };
            Some((owner.uid.clone(), scale.spec?.replicas.unwrap_or(0)))
        }
    }
}

/// The status, and when it will change by the clock alone.
fn judge(
    budget: &PodDisruptionBudget,
    spec: &PodDisruptionBudgetSpec,
    pods: &[&Arc<Pod>],
    scale: i32,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Timestamp>) {
    let there = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => (scale, scale.saturating_sub(scaled(Some(most), scale, true)).max(0)),
        (None, Some(IntOrString::Int(least))) => (there, *least),
        (None, Some(share)) => (scale, scaled(Some(share), scale, true)),
        (None, None) => (there, 1),
    };
    let old = budget.status.clone().unwrap_or_default();
    let mut due: Option<Timestamp> = None;
    let mut disrupted = BTreeMap::new();
    for (name, since) in old.disrupted_pods.iter().flatten() {
        let leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        let here = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        let until = since.0.checked_add(ANNOUNCED).unwrap_or(Timestamp::MAX);
        if here.is_some_and(|pod| !leaving(pod)) && until > now {
            disrupted.insert(name.clone(), since.clone());
            due = Some(due.map_or(until, |due| due.min(until)));
        }
    }
    let healthy = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod))
        .filter(|pod| pod.metadata.name.as_ref().is_none_or(|name| !disrupted.contains_key(name)))
        .count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(vec![condition(&old, budget, state, reason, "", now)]),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        observed_generation: budget.metadata.generation,
    };
    (status, due)
}

fn condition(
    old: &PodDisruptionBudgetStatus,
    budget: &PodDisruptionBudget,
    state: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    let before = old.conditions.iter().flatten().find(|one| one.type_ == "DisruptionAllowed");
    let since = before.filter(|one| one.status == state).map(|one| one.last_transition_time.clone());
    Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: state.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    }
}

/// While the scale is not known nothing may be disturbed.
fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let old = budget.status.clone().unwrap_or_default();
    PodDisruptionBudgetStatus {
        conditions: Some(vec![condition(&old, budget, "False", "SyncFailed", why, now)]),
        disruptions_allowed: Some(0),
        observed_generation: budget.metadata.generation,
        ..old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pods(ready: usize, unready: usize, leaving: usize) -> Vec<Arc<Pod>> {
        (0..ready + unready + leaving)
            .map(|index| {
                let state = if index < ready || index >= ready + unready { "True" } else { "False" };
                let leaving = (index >= ready + unready).then_some("2026-01-01T00:00:00Z");
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": {"name": format!("p{index}"), "deletionTimestamp": leaving},
                        "status": {"conditions": [{"type": "Ready", "status": state}]}
                    }))
                    .unwrap(),
                )
            })
            .collect()
    }

    fn numbers(spec: &Value, pods: &[Arc<Pod>], scale: i32, disrupted: &Value) -> (i32, i32, i32, i32) {
        let budget: PodDisruptionBudget =
            serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": {
                "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
                "disruptedPods": disrupted
            }}))
            .unwrap();
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let pods: Vec<&Arc<Pod>> = pods.iter().collect();
        let (status, _) = judge(&budget, budget.spec.as_ref().unwrap(), &pods, scale, now);
        [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed]
            .map(Option::unwrap)
            .into()
    }

    #[test]
    fn budgets_count_as_the_real_ones_do() {
        let none = json!({});
        for (name, spec, pods, scale, disrupted, expected) in [
            ("a number to keep", json!({"minAvailable": 2}), pods(3, 0, 0), 0, &none, (3, 2, 3, 1)),
            ("unready ones do not count", json!({"minAvailable": 2}), pods(2, 1, 0), 0, &none, (3, 2, 2, 0)),
            ("leaving ones do not count", json!({"minAvailable": 2}), pods(2, 0, 1), 0, &none, (3, 2, 2, 0)),
            (
                "a share to keep, rounded up",
                json!({"minAvailable": "50%"}),
                pods(5, 0, 0),
                5,
                &none,
                (5, 3, 5, 2),
            ),
            ("a number to miss", json!({"maxUnavailable": 1}), pods(3, 0, 0), 3, &none, (3, 2, 3, 1)),
            (
                "a share to miss, rounded up",
                json!({"maxUnavailable": "30%"}),
                pods(5, 0, 0),
                5,
                &none,
                (5, 3, 5, 2),
            ),
            (
                "fewer pods than asked for",
                json!({"maxUnavailable": 1}),
                pods(2, 0, 0),
                3,
                &none,
                (3, 2, 2, 0),
            ),
            (
                "more missing than there are",
                json!({"maxUnavailable": 9}),
                pods(3, 0, 0),
                3,
                &none,
                (3, 0, 3, 3),
            ),
            (
                "a share beyond all numbers",
                json!({"maxUnavailable": "9223372036854775807%"}),
                pods(3, 0, 0),
                i32::MAX,
                &none,
                (i32::MAX, 0, 3, 3),
            ),
            (
                "less than nothing",
                json!({"minAvailable": i32::MIN}),
                pods(1, 0, 0),
                0,
                &none,
                (1, i32::MIN, 1, i32::MAX),
            ),
            ("no pods", json!({"minAvailable": 0}), pods(0, 0, 0), 0, &none, (0, 0, 0, 0)),
            (
                "an announced eviction counts",
                json!({"minAvailable": 2}),
                pods(3, 0, 0),
                0,
                &json!({"p0": "2026-01-01T00:09:00Z"}),
                (3, 2, 2, 0),
            ),
            (
                "but not for ever",
                json!({"minAvailable": 2}),
                pods(3, 0, 0),
                0,
                &json!({"p0": "2026-01-01T00:08:00Z", "gone": "2026-01-01T00:09:59Z"}),
                (3, 2, 3, 1),
            ),
        ] {
            assert_eq!(numbers(&spec, &pods, scale, disrupted), expected, "{name}");
        }
    }
}
