//! What a job's own rules say about pods that failed and indexes that succeeded.

use super::indexes::Indexes;
use k8s_openapi::api::batch::v1::{JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// What a failed pod means for its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Counts,
    Ignored,
    /// The job has failed, with this message.
    Final(String),
}

/// The first rule that fits a failed pod decides.
pub(super) fn failure(spec: &JobSpec, pod: &Pod) -> Failure {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    for (index, rule) in rules.enumerate() {
        let Some(why) = fits(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Failure::Ignored,
            "FailJob" => Failure::Final(format!("{why} matching FailJob rule at index {index}")),
            _ => Failure::Counts,
        };
    }
    Failure::Counts
}

/// Says in words what fits, if the rule does.
fn fits(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = format!(
        "{}/{}",
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod.metadata.name.as_deref().unwrap_or_default()
    );
    if let Some(wanted) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let (container, code) = containers
            .chain(status.init_container_statuses.iter().flatten())
            .find_map(|container| Some((&container.name, exit_code(container, wanted)?)))?;
        return Some(format!("Container {container} for pod {name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let fitting = status.conditions.iter().flatten().find(|condition| {
        patterns.iter().any(|pattern| {
            pattern.type_ == condition.type_
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    })?;
    Some(format!("Pod {name} has condition {}", fitting.type_))
}

fn exit_code(container: &ContainerStatus, wanted: &PodFailurePolicyOnExitCodesRequirement) -> Option<i32> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let named = wanted.container_name.as_ref().is_none_or(|name| *name == container.name);
    let listed = wanted.values.contains(&code);
    let fits = match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (named && code != 0 && fits).then_some(code)
}

/// The first rule of the success policy that is met by the indexes that succeeded.
pub(super) fn success(spec: &JobSpec, completed: &Indexes) -> Option<usize> {
    let completions = spec.completions.unwrap_or(0);
    let enough = |found: i64, wanted: Option<i32>| {
        wanted.is_some_and(|wanted| wanted >= 0 && found >= i64::from(wanted))
    };
    spec.success_policy.as_ref()?.rules.iter().position(|rule| match &rule.succeeded_indexes {
        Some(indexes) => {
            let indexes = Indexes::parse(indexes, completions);
            let found = indexes.count_common(completed);
            found > 0 && (found == indexes.count() || enough(found, rule.succeeded_count))
        }
        None => !completed.is_empty() && enough(completed.count(), rule.succeeded_count),
    })
}

/// What a job asks for that this cluster cannot do. Such a job fails at once instead of running by other rules.
pub(super) fn unsupported(spec: &JobSpec) -> Option<&'static str> {
    let fails_index = |rule: &PodFailurePolicyRule| rule.action == "FailIndex";
    if spec.backoff_limit_per_index.is_some() {
        Some("spec.backoffLimitPerIndex is not supported in this cluster: use spec.backoffLimit")
    } else if spec.max_failed_indexes.is_some() {
        Some("spec.maxFailedIndexes is not supported in this cluster: use spec.backoffLimit")
    } else if spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules).any(fails_index) {
        Some("spec.podFailurePolicy: the action FailIndex is not supported in this cluster: use FailJob")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(more: Value) -> JobSpec {
        let mut spec = json!({"template": {}, "completions": 5});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_a_failed_pod_decides() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [
                    {"name": "fine", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
                    {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 42}}}
                ]
            }
        }))
        .unwrap();
        let codes = |action: &str, operator: &str, values: Value, container: Option<&str>| json!({"action": action, "onExitCodes": {"operator": operator, "values": values, "containerName": container}});
        let disrupted = |action: &str, status: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]});
        let by_code = "Container main for pod n/p failed with exit code 42 matching FailJob rule at index";
        let by_state = "Pod n/p has condition DisruptionTarget matching FailJob rule at index";
        let last = |text: &str, index: usize| Failure::Final(format!("{text} {index}"));
        for (name, rules, expected) in [
            ("no rule", json!([]), Failure::Counts),
            ("the code", json!([codes("FailJob", "In", json!([1, 42]), None)]), last(by_code, 0)),
            ("another code", json!([codes("FailJob", "In", json!([1]), None)]), Failure::Counts),
            (
                "any other code, but not 0",
                json!([codes("FailJob", "NotIn", json!([1]), None)]),
                last(by_code, 0),
            ),
            ("not this code", json!([codes("FailJob", "NotIn", json!([42]), None)]), Failure::Counts),
            (
                "of another container",
                json!([codes("FailJob", "In", json!([42]), Some("fine"))]),
                Failure::Counts,
            ),
            ("a condition", json!([disrupted("FailJob", "True")]), last(by_state, 0)),
            ("in another state", json!([disrupted("FailJob", "False")]), Failure::Counts),
            ("ignored", json!([disrupted("Ignore", "True")]), Failure::Ignored),
            (
                "the first that fits",
                json!([
                    disrupted("FailJob", "False"),
                    disrupted("Count", "True"),
                    codes("FailJob", "In", json!([42]), None)
                ]),
                Failure::Counts,
            ),
            (
                "the second",
                json!([codes("Ignore", "In", json!([7]), None), disrupted("FailJob", "True")]),
                last(by_state, 1),
            ),
        ] {
            assert_eq!(
                failure(&spec(json!({"podFailurePolicy": {"rules": rules}})), &pod),
                expected,
                "{name}"
            );
        }
        assert_eq!(failure(&spec(json!({})), &pod), Failure::Counts, "no policy");
    }

    #[test]
    fn a_success_policy_is_met_by_indexes_or_their_number() {
        for (name, rules, completed, expected) in [
            ("all that are named", json!([{"succeededIndexes": "0,2-3"}]), vec![0, 2, 3], Some(0)),
            ("one is missing", json!([{"succeededIndexes": "0,2-3"}]), vec![0, 2, 4], None),
            (
                "enough of them",
                json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]),
                vec![0, 3],
                Some(0),
            ),
            (
                "others do not help",
                json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]),
                vec![0, 1, 4],
                None,
            ),
            ("a number", json!([{"succeededCount": 2}]), vec![1, 4], Some(0)),
            ("the second rule", json!([{"succeededIndexes": "0"}, {"succeededCount": 1}]), vec![1], Some(1)),
            ("nothing yet", json!([{"succeededCount": 0}]), vec![], None),
        ] {
            let spec = spec(json!({"successPolicy": {"rules": rules}}));
            let mut indexes = Indexes::default();
            indexes.extend(completed);
            assert_eq!(success(&spec, &indexes), expected, "{name}");
        }
        assert_eq!(success(&spec(json!({})), &Indexes::parse("0-2", 5)), None);
        let huge = json!({"completions": i32::MAX, "successPolicy": {"rules": [{"succeededIndexes": "0-2147483647"}]}});
        assert_eq!(success(&spec(huge.clone()), &Indexes::parse("0-9", i32::MAX)), None);
        assert_eq!(success(&spec(huge), &Indexes::parse("0-2147483647", i32::MAX)), Some(0));
    }

    #[test]
    fn what_is_not_supported_is_said() {
        for (more, field) in [
            (json!({}), None),
            (json!({"backoffLimitPerIndex": 1}), Some("backoffLimitPerIndex")),
            (json!({"maxFailedIndexes": 1}), Some("maxFailedIndexes")),
            (json!({"podFailurePolicy": {"rules": [{"action": "FailIndex"}]}}), Some("FailIndex")),
            (json!({"podFailurePolicy": {"rules": [{"action": "FailJob"}]}}), None),
        ] {
            let said = unsupported(&spec(more.clone()));
            assert_eq!(said.is_some(), field.is_some(), "{more}");
            assert!(said.unwrap_or_default().contains(field.unwrap_or_default()), "{more}");
        }
    }
}
