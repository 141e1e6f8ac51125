//! Label selectors in objects: whether they match, and how they are written in one line.

use super::json::{entries, items, text};
use serde_json::Value;

/// Whether a LabelSelector matches these labels. No selector at all matches nothing, an empty one
/// everything, and one with an unknown operator nothing.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    entries(selector, &["matchLabels"]).into_iter().all(|(key, value)| label(key) == value.as_str())
        && items(selector, &["matchExpressions"]).iter().all(|expression| {
            let found = label(text(expression, &["key"]));
            let listed = || items(expression, &["values"]).iter().any(|value| value.as_str() == found);
            match text(expression, &["operator"]) {
                "In" => found.is_some() && listed(),
                "NotIn" => found.is_none() || !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// The selector as `kubectl -l` would take it; requirements in the order of their keys.
pub(crate) fn as_text(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = entries(selector, &["matchLabels"])
        .into_iter()
        .map(|(key, value)| (key.to_owned(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in items(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => continue,
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort_by(|left, right| left.0.cmp(&right.0));
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_match_as_they_say() {
        let labels = json!({"app": "web", "tier": "front"});
        let cases = [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}), true),
            (json!({"matchExpressions": [{"key": "x", "operator": "In", "values": [null]}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]}), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn selectors_are_written_in_the_order_of_their_keys() {
        let selector = json!({
            "matchLabels": {"b": "1", "d": "2"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["y", "x"]}, {"key": "a", "operator": "DoesNotExist"},
                {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "NotIn", "values": ["z"]},
            ],
        });
        assert_eq!(as_text(&selector), "!a,b=1,c in (x,y),d=2,e,f notin (z)");
    }
}
