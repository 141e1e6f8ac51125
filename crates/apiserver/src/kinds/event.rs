//! Events: one thing in two API forms. They are stored in the core form.

use super::{
    json::{at, child, fill, has, number, remove, set, text},
    names,
    report::{Report, same},
};
use crate::{
    contract::{Context, Kind},
    error::ApiError,
    field::FieldError,
};
use serde_json::Value;

/// Fields that are called differently: core/v1 first, events.k8s.io/v1 second.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// A core/v1 Event as an events.k8s.io/v1 Event.
pub fn to_events_v1(event: &Value) -> Value {
    let mut out = event.clone();
    for (core, new) in RENAMED {
        if let Some(value) = remove(&mut out, core) {
            set(&mut out, new, value);
        }
    }
    set(&mut out, "apiVersion", "events.k8s.io/v1");
    out
}

/// An events.k8s.io/v1 Event as a core/v1 Event.
pub fn to_core_v1(event: &Value) -> Value {
    let mut out = event.clone();
    for (core, new) in RENAMED {
        if let Some(value) = remove(&mut out, new) {
            set(&mut out, core, value);
        }
    }
    set(&mut out, "apiVersion", "v1");
    out
}

/// The rules for core/v1, or the stricter ones for events.k8s.io/v1; both look at the core form.
pub(crate) struct Events {
    pub(crate) strict: bool,
}

impl Kind for Events {
    fn default(&self, event: &mut Value) {
        child(event, "involvedObject");
        child(event, "source");
        fill(event, "reportingComponent", "");
        fill(event, "reportingInstance", "");
    }

    fn prepare_create(&self, event: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        if !self.strict {
            return Ok(());
        }
        let mut report = Report::default();
        basics(event, true, &mut report);
        strictly_new(event, &mut report);
        if report.errors.is_empty() {
            return Ok(());
        }
        let name = text(event, &["metadata", "name"]);
        Err(ApiError::invalid("events.k8s.io", "Event", name, &report.errors))
    }

    fn validate(&self, event: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        basics(event, self.strict, &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        if self.strict {
            if !same(at(new, &["series"]), at(old, &["series"])) {
                series(new, &mut report);
            }
            for (field, shown) in [
                ("involvedObject", "involvedObject"),
                ("reason", "reason"),
                ("message", "message"),
                ("source", "source"),
                ("firstTimestamp", "firstTimestamp"),
                ("lastTimestamp", "lastTimestamp"),
                ("count", "count"),
                ("type", "type"),
                ("eventTime", "eventTime"),
                ("action", "action"),
                ("related", "related"),
                ("reportingComponent", "reportingController"),
                ("reportingInstance", "reportingInstance"),
            ] {
                report.immutable(new, old, &[field], shown);
            }
        }
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

/// What only a new event of events.k8s.io/v1 must fulfil.
fn strictly_new(event: &Value, report: &mut Report) {
    series(event, report);
    if !has(event, &["eventTime"]) {
        report.required("eventTime", "");
    }
    let kind = text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        report.invalid("type", "", format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if has(event, &[field]) {
            report.invalid(field, "", "needs to be unset");
        }
    }
    if number(event, &["count"]).unwrap_or_default() != 0 {
        report.invalid("count", "", "needs to be unset");
    }
    if ["component", "host"].iter().any(|key| !text(event, &["source", key]).is_empty()) {
        report.invalid("source", "", "needs to be unset");
    }
}

fn series(event: &Value, report: &mut Report) {
    let series = at(event, &["series"]);
    if series.is_null() {
        return;
    }
    if number(series, &["count"]).unwrap_or_default() < 2 {
        report.invalid("series.count", "", "should be at least 2");
    }
    if !has(series, &["lastObservedTime"]) {
        report.required("series.lastObservedTime", "");
    }
}

fn basics(event: &Value, strict: bool, report: &mut Report) {
    let namespace = text(event, &["metadata", "namespace"]);
    let involved = text(event, &["involvedObject", "namespace"]);
    let new_style = has(event, &["eventTime"]);
    let agrees = if involved.is_empty() {
        matches!(namespace, "" | "default") || (new_style && namespace == "kube-system")
    } else {
        new_style || namespace == involved
    };
    if !agrees {
        report.invalid("involvedObject.namespace", involved, "does not match event.namespace");
    }
    if new_style {
        let field = if strict { "reportingController" } else { "reportingComponent" };
        let controller = text(event, &["reportingComponent"]);
        if controller.is_empty() {
            report.required(field, "");
        }
        report.wrong(field, controller, names::qualified_name(controller));
        for key in ["reportingInstance", "action", "reason"] {
            let value = text(event, &[key]);
            if value.is_empty() {
                report.required(key, "");
            }
            if value.len() > 128 {
                report.invalid(key, "", "can have at most 128 characters");
            }
        }
        if text(event, &["message"]).len() > 1024 {
            report.invalid("message", "", "can have at most 1024 characters");
        }
    }
    report.wrong("namespace", namespace, names::subdomain(namespace));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_forms_turn_into_each_other() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
            "message": "m", "reportingComponent": "c", "source": {"component": "k"}, "count": 3, "reason": "r",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z", "type": "Normal",
        });
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": {"kind": "Pod"},
            "note": "m", "reportingController": "c", "deprecatedSource": {"component": "k"}, "deprecatedCount": 3,
            "reason": "r", "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-02T00:00:00Z", "type": "Normal",
        });
        assert_eq!(to_events_v1(&core), new);
        assert_eq!(to_core_v1(&new), core);
    }
}
