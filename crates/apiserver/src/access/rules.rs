//! Does this rule cover that request, does this subject mean that user.

use super::{items, text};
use crate::contract::{Attributes, User};
use serde_json::Value;

pub(super) fn holds(rule: &Value, field: &str, wanted: &str) -> bool {
    items(rule, field).filter_map(Value::as_str).any(|entry| entry == "*" || entry == wanted)
}

pub(super) fn allows(rule: &Value, asked: &Attributes) -> bool {
    if !holds(rule, "verbs", &asked.verb) {
        return false;
    }
    if asked.resource.is_empty() {
        return items(rule, "nonResourceURLs")
            .filter_map(Value::as_str)
            .any(|entry| covers_path(entry, &asked.path));
    }
    holds(rule, "apiGroups", &asked.group)
        && items(rule, "resources")
            .filter_map(Value::as_str)
            .any(|entry| covers_resource(entry, &asked.resource, &asked.subresource))
        && covers_name(rule, &asked.name)
}

pub(super) fn covers_path(entry: &str, path: &str) -> bool {
    entry == "*" || entry == path || entry.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

fn covers_resource(entry: &str, resource: &str, subresource: &str) -> bool {
    if entry == "*" {
        return true;
    }
    match entry.split_once('/') {
        None => subresource.is_empty() && entry == resource,
        Some((of, part)) => part == subresource && (of == "*" || of == resource),
    }
}

fn covers_name(rule: &Value, name: &str) -> bool {
    let mut names = items(rule, "resourceNames").filter_map(Value::as_str).peekable();
    names.peek().is_none() || names.any(|entry| entry == name)
}

pub(super) fn is_subject(subject: &Value, user: &User, binding_namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => name == user.name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let namespace = if own.is_empty() { binding_namespace } else { own };
            let account =
                user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            !namespace.is_empty() && account == Some((namespace, name))
        }
        _ => false,
    }
}

/// A label selector with `matchLabels` and `matchExpressions` over labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    equal
        && items(selector, "matchExpressions").all(|expression| {
            let value = labels.get(text(expression, "key"));
            let listed =
                || value.is_some_and(|value| items(expression, "values").any(|entry| entry == value));
            match text(expression, "operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_match_exactly_or_by_trailing_star() {
        let cases = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/x", false),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/apis", false),
            ("*", "/x", true),
        ];
        for (entry, path, expected) in cases {
            assert_eq!(covers_path(entry, path), expected, "{entry} {path}");
        }
    }

    #[test]
    fn resources_match_with_their_subresource() {
        let cases = [
            ("pods", "pods", "", true),
            ("pods", "pods", "log", false),
            ("pods/log", "pods", "log", true),
            ("*/log", "pods", "log", true),
            ("*/log", "pods", "", false),
            ("*", "pods", "log", true),
        ];
        for (entry, resource, subresource, expected) in cases {
            assert_eq!(
                covers_resource(entry, resource, subresource),
                expected,
                "{entry} {resource} {subresource}"
            );
        }
    }

    #[test]
    fn selectors_over_labels() {
        let labels = json!({"a": "1"});
        let cases = [
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true),
            (json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), true),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(&selector, &labels), expected, "{selector}");
        }
    }
}
