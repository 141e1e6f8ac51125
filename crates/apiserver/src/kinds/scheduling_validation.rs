//! Where a pod may run: node selectors, affinity, tolerations and spread constraints.

use super::{
    json::{at, entries, has, items, number, pick, text},
    names,
    report::{Place, Report},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(crate) fn affinity(affinity: &Value, field: Place<'_>, report: &mut Report) {
    let nodes = at(affinity, &["nodeAffinity"]);
    if has(nodes, &[REQUIRED]) {
        node_selector(at(nodes, &[REQUIRED]), format_args!("{field}.nodeAffinity.{REQUIRED}"), report);
    }
    for (index, term) in items(nodes, &[PREFERRED]).iter().enumerate() {
        let field = format_args!("{field}.nodeAffinity.{PREFERRED}[{index}]");
        weight(term, field, report);
        node_selector_term(at(term, &["preference"]), true, format_args!("{field}.preference"), report);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let pods = at(affinity, &[side]);
        for (index, term) in items(pods, &[REQUIRED]).iter().enumerate() {
            pod_affinity_term(term, format_args!("{field}.{side}.{REQUIRED}[{index}]"), report);
        }
        for (index, term) in items(pods, &[PREFERRED]).iter().enumerate() {
            let field = format_args!("{field}.{side}.{PREFERRED}[{index}]");
            weight(term, field, report);
            pod_affinity_term(
                at(term, &["podAffinityTerm"]),
                format_args!("{field}.podAffinityTerm"),
                report,
            );
        }
    }
}

fn weight(term: &Value, field: Place<'_>, report: &mut Report) {
    let weight = number(term, &["weight"]).unwrap_or_default();
    if !(1..=100).contains(&weight) {
        report.invalid(format_args!("{field}.weight"), weight, "must be in the range 1-100");
    }
}

pub(crate) fn node_selector(selector: &Value, field: Place<'_>, report: &mut Report) {
    let terms = items(selector, &["nodeSelectorTerms"]);
    if terms.is_empty() {
        report
            .required(format_args!("{field}.nodeSelectorTerms"), "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(term, false, format_args!("{field}.nodeSelectorTerms[{index}]"), report);
    }
}

fn node_selector_term(term: &Value, any_value: bool, field: Place<'_>, report: &mut Report) {
    for (index, requirement) in items(term, &["matchExpressions"]).iter().enumerate() {
        let field = format_args!("{field}.matchExpressions[{index}]");
        let values = items(requirement, &["values"]);
        let operator = text(requirement, &["operator"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                report.required(format_args!("{field}.values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                report.forbidden(format_args!("{field}.values"), why);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                report.required(format_args!("{field}.values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => report.invalid(format_args!("{field}.operator"), operator, "not a valid selector operator"),
        }
        let key = text(requirement, &["key"]);
        report.wrong(format_args!("{field}.key"), key, names::qualified_name(key));
        if !any_value {
            for (place, value) in values.iter().filter_map(Value::as_str).enumerate() {
                report.wrong(format_args!("{field}.values[{place}]"), value, names::label_value(value));
            }
        }
    }
    for (index, requirement) in items(term, &["matchFields"]).iter().enumerate() {
        let field = format_args!("{field}.matchFields[{index}]");
        let values = items(requirement, &["values"]);
        let operator = text(requirement, &["operator"]);
        if !matches!(operator, "In" | "NotIn") {
            report.invalid(format_args!("{field}.operator"), operator, "not a valid selector operator");
        } else if values.len() != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            report.required(format_args!("{field}.values"), why);
        }
        let key = text(requirement, &["key"]);
        if key == "metadata.name" {
            for (place, value) in values.iter().filter_map(Value::as_str).enumerate() {
                report.wrong(format_args!("{field}.values[{place}]"), value, names::subdomain(value));
            }
        } else {
            report.invalid(format_args!("{field}.key"), key, "not a valid field selector key");
        }
    }
}

fn pod_affinity_term(term: &Value, field: Place<'_>, report: &mut Report) {
    report.selector(at(term, &["labelSelector"]), format_args!("{field}.labelSelector"));
    report.selector(at(term, &["namespaceSelector"]), format_args!("{field}.namespaceSelector"));
    for namespace in items(term, &["namespaces"]).iter().filter_map(Value::as_str) {
        report.wrong(format_args!("{field}.namespace"), namespace, names::label(namespace));
    }
    label_keys(term, field, report);
    let key = text(term, &["topologyKey"]);
    if key.is_empty() {
        report.required(format_args!("{field}.topologyKey"), "can not be empty");
    }
    report.wrong(format_args!("{field}.topologyKey"), key, names::qualified_name(key));
}

/// `matchLabelKeys` and `mismatchLabelKeys`, after their requirements were merged into the selector.
fn label_keys(term: &Value, field: Place<'_>, report: &mut Report) {
    let selector = at(term, &["labelSelector"]);
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = items(term, &[list]);
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            report.forbidden(
                format_args!("{field}.{list}"),
                "must not be specified when labelSelector is not set",
            );
            continue;
        }
        for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            report.wrong(format_args!("{field}.{list}[{index}]"), key, names::qualified_name(key));
        }
    }
    let keys: BTreeMap<&str, usize> = items(term, &["matchLabelKeys"])
        .iter()
        .enumerate()
        .filter_map(|(index, key)| Some((key.as_str()?, index)))
        .collect();
    let mut selected: BTreeSet<&str> =
        entries(selector, &["matchLabels"]).into_iter().map(|(key, _)| key).collect();
    for expression in items(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        if let Some(index) = keys.get(key)
            && selected.contains(key)
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            report.invalid(format_args!("{field}[{index}]"), key, why);
        }
        selected.insert(key);
    }
    let mismatched = items(term, &["mismatchLabelKeys"]);
    for (key, index) in keys {
        if mismatched.iter().any(|other| other.as_str() == Some(key)) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            report.invalid(format_args!("{field}.matchLabelKeys[{index}]"), key, why);
        }
    }
}

pub(crate) fn tolerations(tolerations: &[Value], field: Place<'_>, report: &mut Report) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let field = format_args!("{field}[{index}]");
        let [effect, key, operator, seconds, value] =
            pick(toleration, ["effect", "key", "operator", "tolerationSeconds", "value"]);
        let [effect, key, operator, value] = [effect, key, operator, value].map(|value| text(value, &[]));
        if !key.is_empty() {
            report.wrong(format_args!("{field}.key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            report.invalid(format_args!("{field}.operator"), operator, why);
        }
        if !seconds.is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            report.invalid(format_args!("{field}.effect"), effect, why);
        }
        let operator_field = format_args!("{field}.operator");
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    report.invalid(operator_field, value, wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    report.invalid(operator_field, value, "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" => report.unsupported(operator_field, operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => report.unsupported(operator_field, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(effect, format_args!("{field}.effect"), report);
        }
    }
}

pub(crate) fn taint_effect(effect: &str, field: Place<'_>, report: &mut Report) {
    report.one_of(field, effect, &EFFECTS);
}

pub(crate) fn spread_constraints(constraints: &[Value], field: Place<'_>, report: &mut Report) {
    for (index, constraint) in constraints.iter().enumerate() {
        let field = format_args!("{field}[{index}]");
        let skew = number(constraint, &["maxSkew"]).unwrap_or_default();
        if skew <= 0 {
            report.invalid(format_args!("{field}.maxSkew"), skew, "must be greater than zero");
        }
        let key = text(constraint, &["topologyKey"]);
        if key.is_empty() {
            report.required(format_args!("{field}.topologyKey"), "can not be empty");
        }
        let action = text(constraint, &["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            report.unsupported(format_args!("{field}.whenUnsatisfiable"), action, &actions);
        }
        let repeats = |other: &Value| {
            text(other, &["topologyKey"]) == key && text(other, &["whenUnsatisfiable"]) == action
        };
        if constraints.iter().skip(index + 1).any(repeats) {
            let pair = format!("{{{key}, {action}}}");
            report.duplicate(format_args!("{field}.{{topologyKey, whenUnsatisfiable}}"), pair);
        }
        if let Some(domains) = number(constraint, &["minDomains"]) {
            let field = format_args!("{field}.minDomains");
            if domains <= 0 {
                report.invalid(field, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                report.invalid(field, domains, why);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let value = at(constraint, &[policy]);
            if let Some(text) = value.as_str()
                && !matches!(text, "Honor" | "Ignore")
            {
                report.unsupported(format_args!("{field}.{policy}"), text, &["Honor", "Ignore"]);
            }
        }
        label_keys(constraint, field, report);
        report.selector(at(constraint, &["labelSelector"]), format_args!("{field}.labelSelector"));
    }
}
