//! What the workloads have in common: selectors that fit the template, strategies, counts of replicas.

use super::{
    json::{at, empty, has, number, text},
    names,
    pod_validation::validate_template,
    report::{Report, in_order, shown},
    selector,
};
use crate::field::{Fault, FieldError};
use serde_json::Value;

pub(super) fn daemon_strategy(strategy: &Value, report: &mut Report) {
    let field = "spec.updateStrategy";
    match text(strategy, &["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = at(strategy, &["rollingUpdate"]);
            let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
            let places = [
                (unavailable, format!("{field}.rollingUpdate.maxUnavailable")),
                (surge, format!("{field}.rollingUpdate.maxSurge")),
            ];
            for (value, field) in &places {
                int_or_percent(value, field, report);
            }
            for (value, field) in &places {
                at_most_all(value, field, report);
            }
            match (amount_of(unavailable) != 0, amount_of(surge) != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    report.invalid(&places[1].1, surge.clone(), why);
                }
                (false, false) => report.required(&places[0].1, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => unsupported_strategy(field, strategy, ["RollingUpdate", "OnDelete"], report),
    }
}

pub(super) fn deployment_strategy(strategy: &Value, report: &mut Report) {
    let field = "spec.strategy";
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, &["type"]) {
        "Recreate" => {
            if !rolling.is_null() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                report.forbidden(format!("{field}.rollingUpdate"), why);
            }
        }
        "RollingUpdate" => {
            let field = format!("{field}.rollingUpdate");
            let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
            int_or_percent(unavailable, &format!("{field}.maxUnavailable"), report);
            int_or_percent(surge, &format!("{field}.maxSurge"), report);
            if amount_of(unavailable) == 0 && amount_of(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                report.invalid(format!("{field}.maxUnavailable"), unavailable.clone(), why);
            }
            at_most_all(unavailable, &format!("{field}.maxUnavailable"), report);
        }
        _ => unsupported_strategy(field, strategy, ["Recreate", "RollingUpdate"], report),
    }
}

/// A strategy as a real server shows it: its own form has other field names.
pub(super) fn shown_strategy(strategy: &Value) -> String {
    let rolling = at(strategy, &["rollingUpdate"]);
    let rolling = if rolling.is_null() {
        "null".to_owned()
    } else {
        in_order(&[
            ("MaxUnavailable", at(rolling, &["maxUnavailable"]).clone()),
            ("MaxSurge", at(rolling, &["maxSurge"]).clone()),
        ])
    };
    format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", at(strategy, &["type"]))
}

fn unsupported_strategy(field: &str, strategy: &Value, supported: [&str; 2], report: &mut Report) {
    let detail = format!("supported values: {:?}, {:?}", supported[0], supported[1]);
    let error = FieldError::new(Fault::NotSupported, field, Value::Null, detail);
    report.push(error.shown_as(shown_strategy(strategy)));
}

/// Whether there is a selector that can be used; one that cannot makes the template meaningless.
pub(super) fn selector_of(spec: &Value, kind: &str, why: &str, report: &mut Report) -> bool {
    let chosen = at(spec, &["selector"]);
    if chosen.is_null() {
        report.required("spec.selector", "");
        return true;
    }
    let before = report.errors.len();
    report.selector(chosen, "spec.selector");
    let usable = report.errors.len() == before;
    if empty_selector(chosen) {
        let why = format!("empty selector is invalid for {kind}");
        report.invalid("spec.selector", chosen.clone(), why);
    }
    if !usable {
        report.push(FieldError::invalid("spec.selector", Value::Null, why).shown_as(shown(chosen)));
    }
    usable
}

pub(super) fn empty_selector(selector: &Value) -> bool {
    empty(at(selector, &["matchLabels"])) && empty(at(selector, &["matchExpressions"]))
}

pub(super) fn matches_template(spec: &Value, report: &mut Report) {
    let chosen = at(spec, &["selector"]);
    let labels = at(spec, &["template", "metadata", "labels"]);
    // No selector at all selects nothing; it has been found wanting before.
    let selects = chosen.is_null() || !empty_selector(chosen);
    if selects && !selector::matches(chosen, labels) {
        let why = "`selector` does not match template `labels`";
        report.invalid("spec.template.metadata.labels", labels.clone(), why);
    }
}

pub(super) fn template(spec: &Value, kind: &str, report: &mut Report) {
    matches_template(spec, report);
    validate_template(at(spec, &["template"]), format_args!("spec.template"), report);
    always_running(spec, kind, report);
}

/// Pods of a workload that keeps them running may not end by themselves.
pub(super) fn always_running(spec: &Value, kind: &str, report: &mut Report) {
    let pod = at(spec, &["template", "spec"]);
    let policy = text(pod, &["restartPolicy"]);
    if policy != "Always" {
        report.unsupported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if has(pod, &["activeDeadlineSeconds"]) {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        report.forbidden("spec.template.spec.activeDeadlineSeconds", why);
    }
}

pub(super) fn selector_stays(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut report = Report::default();
    report.immutable(new, old, &["spec", "selector"], "spec.selector");
    report.errors
}

pub(super) fn replica_counts(
    object: &Value,
    counts: &[&str],
    parts: &[&str],
    available: &str,
    report: &mut Report,
) {
    let status = at(object, &["status"]);
    let count = |key: &str| number(status, &[key]).unwrap_or_default();
    for key in counts {
        report.not_negative(status, key, "status");
    }
    for key in parts {
        if count(key) > count("replicas") {
            report.invalid(format!("status.{key}"), count(key), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        report.invalid("status.availableReplicas", count("availableReplicas"), available);
    }
}

pub(super) fn collisions(new: &Value, old: &Value, report: &mut Report) {
    let count = |object| number(object, &["status", "collisionCount"]);
    if let Some(before) = count(old)
        && count(new).is_none_or(|now| now < before)
    {
        report.invalid("status.collisionCount", count(new).unwrap_or_default(), "cannot be decremented");
    }
}

/// A number that is not negative, or a percentage.
pub(crate) fn int_or_percent(value: &Value, field: &str, report: &mut Report) {
    if let Some(text) = value.as_str() {
        report.wrong(field, text, names::percent(text));
    } else if let Some(number) = value.as_i64()
        && number < 0
    {
        report.invalid(field, number, "must be greater than or equal to 0");
    }
}

pub(crate) fn at_most_all(value: &Value, field: &str, report: &mut Report) {
    if value.is_string()
        && names::percent(value.as_str().unwrap_or_default()).is_empty()
        && amount_of(value) > 100
    {
        report.invalid(field, value.clone(), "must not be greater than 100%");
    }
}

/// The number itself, or the percentage; zero for what is neither.
pub(super) fn amount_of(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}
