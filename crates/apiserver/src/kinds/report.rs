//! Collects what is wrong with an object. Usually nothing is: what writes down an error is marked as cold, which keeps
//! it out of the way of the checks.

use super::{
    json::{at, entries, items, number, text},
    names,
};
use crate::field::{Fault, FieldError};
use serde_json::Value;
use std::fmt::{self, Display};

/// The path of a field, which is written out only when something is wrong there.
pub(crate) type Place<'a> = fmt::Arguments<'a>;

/// Field errors in the order in which they were found.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<FieldError>,
}

impl Report {
    #[cold]
    pub(crate) fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    #[cold]
    pub(crate) fn required(&mut self, field: impl Display, detail: &str) {
        self.push(FieldError::required(field.to_string(), detail));
    }

    #[cold]
    pub(crate) fn invalid(&mut self, field: impl Display, value: impl Into<Value>, why: impl Into<String>) {
        self.push(FieldError::invalid(field.to_string(), value, why));
    }

    #[cold]
    pub(crate) fn forbidden(&mut self, field: impl Display, why: impl Into<String>) {
        self.push(FieldError::forbidden(field.to_string(), why));
    }

    #[cold]
    pub(crate) fn duplicate(&mut self, field: impl Display, value: impl Into<Value>) {
        self.push(FieldError::duplicate(field.to_string(), value));
    }

    #[cold]
    pub(crate) fn not_found(&mut self, field: impl Display, value: impl Into<Value>) {
        self.push(FieldError::new(Fault::NotFound, field.to_string(), value.into(), ""));
    }

    #[cold]
    pub(crate) fn too_long(&mut self, field: impl Display, limit: usize) {
        let detail = format!("may not be more than {limit} bytes");
        self.push(FieldError::new(Fault::TooLong, field.to_string(), Value::Null, detail));
    }

    /// As [`Report::invalid`], with a value whose fields stand in this order.
    #[cold]
    pub(crate) fn invalid_in_order(&mut self, field: impl Display, value: &Ordered<'_>, why: &str) {
        self.push(FieldError::invalid(field.to_string(), Value::Null, why).shown_as(in_order(value)));
    }

    /// Each of the messages, if any, as an error of this value.
    pub(crate) fn wrong(&mut self, field: impl Display, value: &str, messages: Vec<String>) {
        for why in messages {
            self.invalid(&field, value, why);
        }
    }

    /// Not one of the supported values, which are named in the given order.
    #[cold]
    pub(crate) fn unsupported(&mut self, field: impl Display, value: impl Into<Value>, supported: &[&str]) {
        let names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        let detail = format!("supported values: {}", names.join(", "));
        self.push(FieldError::new(Fault::NotSupported, field.to_string(), value.into(), detail));
    }

    /// Required, and one of these.
    pub(crate) fn one_of(&mut self, field: impl Display, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(field, "");
        } else if !supported.contains(&value) {
            self.unsupported(field, value, supported);
        }
    }

    pub(crate) fn not_negative(&mut self, object: &Value, key: &str, field: impl Display) {
        if let Some(value) = number(object, &[key])
            && value < 0
        {
            self.invalid(format_args!("{field}.{key}"), value, "must be greater than or equal to 0");
        }
    }

    /// A field that an update may not change; the value shown is the new one.
    pub(crate) fn immutable(&mut self, new: &Value, old: &Value, path: &[&str], field: impl Display) {
        let (new, old) = (at(new, path), at(old, path));
        if !same(new, old) {
            self.push(
                FieldError::invalid(field.to_string(), new.clone(), "field is immutable")
                    .shown_as(shown(new)),
            );
        }
    }

    pub(crate) fn labels(&mut self, object: &Value, path: &[&str], field: impl Display) {
        super::metadata::validate_labels(object, path, field, &mut self.errors);
    }

    pub(crate) fn annotations(&mut self, metadata: &Value, field: impl Display) {
        super::metadata::validate_annotations(metadata, field, &mut self.errors);
    }

    /// A LabelSelector; nothing is wrong with none.
    pub(crate) fn selector(&mut self, selector: &Value, field: impl Display) {
        self.labels(selector, &["matchLabels"], format_args!("{field}.matchLabels"));
        for (index, expression) in items(selector, &["matchExpressions"]).iter().enumerate() {
            let field = format_args!("{field}.matchExpressions[{index}]");
            let values = items(expression, &["values"]);
            let operator = text(expression, &["operator"]);
            match operator {
                "In" | "NotIn" => {
                    if values.is_empty() {
                        let why = "must be specified when `operator` is 'In' or 'NotIn'";
                        self.required(format_args!("{field}.values"), why);
                    }
                }
                "Exists" | "DoesNotExist" => {
                    if !values.is_empty() {
                        let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                        self.forbidden(format_args!("{field}.values"), why);
                    }
                }
                _ => {
                    self.invalid(format_args!("{field}.operator"), operator, "not a valid selector operator");
                }
            }
            let key = text(expression, &["key"]);
            self.wrong(format_args!("{field}.key"), key, names::qualified_name(key));
            for (place, value) in values.iter().filter_map(Value::as_str).enumerate() {
                self.wrong(format_args!("{field}.values[{place}]"), value, names::label_value(value));
            }
        }
    }
}

/// Fields in the order in which they are written.
pub(crate) type Ordered<'a> = [(&'a str, Value)];

pub(crate) fn in_order(fields: &Ordered<'_>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(key, value)| format!("{}:{value}", Value::from(*key))).collect();
    format!("{{{}}}", fields.join(","))
}

/// A value as a real server shows it: a selector begins with its labels.
pub(crate) fn shown(value: &Value) -> String {
    let parts = ["matchLabels", "matchExpressions"];
    if parts.iter().any(|part| value.get(part).is_some()) {
        let fields: Vec<(&str, Value)> =
            parts.iter().filter_map(|part| Some((*part, value.get(part)?.clone()))).collect();
        return in_order(&fields);
    }
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Equal as Go sees it: nothing, `null` and an empty list or map are one and the same.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match (left, right) {
        (Value::Object(one), Value::Object(two)) => {
            entries(left, &[]).iter().all(|(key, value)| same(value, two.get(*key).unwrap_or(&Value::Null)))
                && entries(right, &[]).iter().all(|(key, value)| one.contains_key(*key) || nothing(value))
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(left, right)| same(left, right))
        }
        _ => left == right || (nothing(left) && nothing(right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_and_empty_are_the_same() {
        let cases = [
            (json!({"a": 1, "b": []}), json!({"a": 1}), true),
            (json!({"a": null}), json!({}), true),
            (json!({"a": {"b": {}}}), json!({"a": {}}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({"a": 1}), json!({}), false),
            (json!({}), json!({"a": "x"}), false),
            (json!([1, {"a": []}]), json!([1, {}]), true),
            (json!([1]), json!([1, 2]), false),
        ];
        for (left, right, expected) in cases {
            assert_eq!(same(&left, &right), expected, "{left} {right}");
        }
    }

    #[test]
    fn selectors_are_checked() {
        let mut report = Report::default();
        report.selector(
            &json!({"matchLabels": {"a": "b"}, "matchExpressions": [
                {"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Near"},
            ]}),
            "spec.selector",
        );
        let texts: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
            ]
        );
    }
}
