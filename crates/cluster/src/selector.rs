//! Label and node selectors.

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::collections::BTreeMap;

pub(crate) type Labels = BTreeMap<String, String>;

/// Whether a label selector selects these labels. An empty selector selects everything.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal && selector.match_expressions.iter().flatten().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let listed = |value: &String| requirement.values.iter().flatten().any(|one| one == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// Whether one of a node selector's terms matches the node. Without terms nothing matches.
pub(crate) fn matches_node(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// Whether all of a term's requirements hold. A term without requirements matches nothing.
pub(crate) fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let labels = node.metadata.labels.as_ref();
    expressions.iter().all(|requirement| {
        requirement_holds(requirement, labels.and_then(|labels| labels.get(&requirement.key)))
    }) && fields.iter().all(|requirement| {
        let value = (requirement.key == "metadata.name").then_some(node.metadata.name.as_ref()).flatten();
        requirement_holds(requirement, value)
    })
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let compared = |compare: fn(&i64, &i64) -> bool| {
        let bound = values.first().and_then(|bound| bound.parse::<i64>().ok());
        let value = value.and_then(|value| value.parse::<i64>().ok());
        matches!((value, bound), (Some(value), Some(bound)) if compare(&value, &bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => !value.is_some_and(|value| values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn label_selectors() {
        let app = labels(&[("app", "web"), ("tier", "front")]);
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["web"]}]}), true),
            (json!({"matchExpressions": [{"key": "none", "operator": "In", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}),
                false,
            ),
        ] {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!(selects(&selector, &app), expected, "{selector:?}");
        }
    }

    #[test]
    fn node_selector_terms() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"zone": "a", "cpus": "8"}}
        }))
        .unwrap();
        let expression = |key: &str, operator: &str, values: &[&str]| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        for (terms, expected) in [
            (json!([]), false),
            (json!([{}]), false),
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("none", "NotIn", &["a"]), true),
            (expression("zone", "Exists", &[]), true),
            (expression("zone", "DoesNotExist", &[]), false),
            (expression("cpus", "Gt", &["7"]), true),
            (expression("cpus", "Gt", &["8"]), false),
            (expression("cpus", "Lt", &["9"]), true),
            (expression("zone", "Lt", &["9"]), false),
            (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]), true),
            (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]), false),
            (
                json!([
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]},
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]),
                true,
            ),
            (
                json!([{
                    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
                }]),
                false,
            ),
        ] {
            let selector: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
            assert_eq!(matches_node(&selector, &node), expected, "{selector:?}");
        }
    }
}
