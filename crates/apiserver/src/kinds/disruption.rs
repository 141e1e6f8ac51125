//! Budgets for voluntary disruption, and eviction, which keeps to them.

use super::{
    json::{at, child, entries, fill, has, items, number, remove, set, text},
    pod_life::set_condition,
    report::Report,
    selector,
    workload_rules::{at_most_all, int_or_percent},
};
use crate::{
    contract::{Context, Kind},
    error::{ApiError, Cause},
    field::FieldError,
    object,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct PodDisruptionBudgets;

impl Kind for PodDisruptionBudgets {
    fn default(&self, budget: &mut Value) {
        child(budget, "spec");
    }

    fn prepare_create(&self, budget: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        let status = json!({
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        });
        set(budget, "status", status);
        Ok(())
    }

    fn validate(&self, budget: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(budget, &["spec"]);
        if has(spec, &["minAvailable"]) && has(spec, &["maxUnavailable"]) {
            let shown = [
                ("MinAvailable", at(spec, &["minAvailable"]).clone()),
                ("Selector", at(spec, &["selector"]).clone()),
                ("MaxUnavailable", at(spec, &["maxUnavailable"]).clone()),
                ("UnhealthyPodEvictionPolicy", at(spec, &["unhealthyPodEvictionPolicy"]).clone()),
            ];
            let why = "minAvailable and maxUnavailable cannot be both set";
            report.invalid_in_order("spec", &shown, why);
        }
        for key in ["minAvailable", "maxUnavailable"] {
            let field = format!("spec.{key}");
            int_or_percent(at(spec, &[key]), &field, &mut report);
            at_most_all(at(spec, &[key]), &field, &mut report);
        }
        report.selector(at(spec, &["selector"]), "spec.selector");
        if let Some(policy) = at(spec, &["unhealthyPodEvictionPolicy"]).as_str() {
            let policies = ["AlwaysAllow", "IfHealthyBudget"];
            if !policies.contains(&policy) {
                report.unsupported("spec.unhealthyPodEvictionPolicy", policy, &policies);
            }
        }
        report.errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            report.not_negative(at(new, &["status"]), key, "status");
        }
        report.errors
    }
}

/// What an allowed eviction does: first write the budget, then the pod's status, then delete the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// The budget whose status this eviction uses up, with its new status.
    pub budget: Option<Value>,
    /// The pod with the condition that says why it goes.
    pub pod: Value,
    /// `DeleteOptions` for the pod.
    pub delete_options: Value,
    /// The delete holds only for the pod as it was seen; when it changed meanwhile the answer is
    /// [`still_processed`] for this budget.
    pub only_if_unchanged: Option<String>,
}

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// More evictions than this may not be waiting to be seen by the budget's controller.
const MAX_DISRUPTED_PODS: usize = 2000;

/// Whether this pod may be evicted now, and what is to be done then. `budgets` are those of its namespace.
pub fn evict(
    pod: &Value,
    eviction: &Value,
    budgets: &[Arc<Value>],
    now: Timestamp,
) -> Result<Eviction, ApiError> {
    let mut allowed = Eviction {
        budget: None,
        pod: with_disruption_target(pod, now),
        delete_options: delete_options(eviction),
        only_if_unchanged: None,
    };
    if needs_no_budget(pod) {
        return Ok(allowed);
    }
    let labels = at(pod, &["metadata", "labels"]);
    let empty_labels = json!({});
    let labels = if labels.is_object() { labels } else { &empty_labels };
    let namespace = text(pod, &["metadata", "namespace"]);
    let mut matching = budgets.iter().filter(|budget| {
        text(budget, &["metadata", "namespace"]) == namespace
            && selector::matches(at(budget, &["spec", "selector"]), labels)
    });
    let (Some(budget), more) = (matching.next(), matching.next()) else { return Ok(allowed) };
    if more.is_some() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
    }
    if !is_ready(pod) && spares_healthy_pods(budget) {
        allowed.only_if_unchanged = Some(text(budget, &["metadata", "name"]).to_owned());
        return Ok(allowed);
    }
    allowed.budget = Some(use_up(budget, text(pod, &["metadata", "name"]), now)?);
    Ok(allowed)
}

fn needs_no_budget(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending")
        || has(pod, &["metadata", "deletionTimestamp"])
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| text(ready, &["status"]) == "True")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == kind)
}

/// Whether a pod that is not ready may go without being counted.
fn spares_healthy_pods(budget: &Value) -> bool {
    if text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" {
        return true;
    }
    let count = |key: &str| number(budget, &["status", key]).unwrap_or_default();
    count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy")
}

/// The budget's controller has not yet seen its newest state.
pub fn still_processed(budget: &str) -> ApiError {
    refused(10, format!("The disruption budget {budget} is still being processed by the server."))
}

fn refused(retry_after: i32, cause: String) -> ApiError {
    let mut error = ApiError::too_many_requests(REFUSED, retry_after);
    let details = error.details.get_or_insert_default();
    if retry_after == 0 {
        details.retry_after_seconds = None;
    }
    details.causes =
        vec![Cause { reason: "DisruptionBudget".to_owned(), message: cause, field: String::new() }];
    error
}

fn use_up(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, ApiError> {
    let name = text(budget, &["metadata", "name"]);
    let count = |key: &str| number(budget, &["status", key]).unwrap_or_default();
    if count("observedGeneration") < number(budget, &["metadata", "generation"]).unwrap_or_default() {
        return Err(still_processed(name));
    }
    let forbidden = |why: &str| Err(ApiError::forbidden("policy", "poddisruptionbudget", name, why));
    let left = count("disruptionsAllowed");
    if left < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if entries(budget, &["status", "disruptedPods"]).len() > MAX_DISRUPTED_PODS {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if left == 0 {
        return Err(refused(0, why_none_is_allowed(budget, name)));
    }
    let mut used = budget.clone();
    if let Some(status) = child(&mut used, "status") {
        set(status, "disruptionsAllowed", left - 1);
        if left == 1 {
            no_more_disruptions(status, number(budget, &["metadata", "generation"]), now);
        }
        if let Some(disrupted) = child(status, "disruptedPods") {
            set(disrupted, pod, object::seconds(now));
        }
    }
    Ok(used)
}

fn why_none_is_allowed(budget: &Value, name: &str) -> String {
    let count = |key: &str| number(budget, &["status", key]).unwrap_or_default();
    let (desired, current) = (count("desiredHealthy"), count("currentHealthy"));
    let said = condition(budget, "DisruptionAllowed")
        .filter(|said| text(said, &["status"]) == "False" && !text(said, &["message"]).is_empty());
    let reason = said.map(|said| text(said, &["reason"])).unwrap_or_default();
    let message = said.map(|said| text(said, &["message"])).unwrap_or_default();
    if reason == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else if said.is_some() {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

fn no_more_disruptions(status: &mut Value, generation: Option<i64>, now: Timestamp) {
    let mut condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
    });
    if let Some(generation) = generation {
        set(&mut condition, "observedGeneration", generation);
    }
    set_condition(status, condition, now);
    // Budgets have conditions without a probe time.
    for condition in super::json::items_mut(status, "conditions") {
        remove(condition, "lastProbeTime");
    }
}

fn with_disruption_target(pod: &Value, now: Timestamp) -> Value {
    let mut pod = pod.clone();
    if let Some(status) = child(&mut pod, "status") {
        let target = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(status, target, now);
    }
    pod
}

fn delete_options(eviction: &Value) -> Value {
    let mut options = at(eviction, &["deleteOptions"]).clone();
    if !options.is_object() {
        options = json!({});
    }
    fill(&mut options, "kind", "DeleteOptions");
    fill(&mut options, "apiVersion", "v1");
    options
}
