//! How pods go: graceful deletion, binding, eviction.

use super::{bind, evict, kind};
use crate::contract::Deletion;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

fn now() -> Timestamp {
    "2026-11-16T00:20:16Z".parse().expect("a time")
}

fn merged(mut base: Value, change: &Value) -> Value {
    json_patch::merge(&mut base, change);
    base
}

#[test]
fn a_pod_keeps_its_grace_period_unless_a_shorter_one_is_asked_for() {
    let running = json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"},
    });
    let deleting =
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
    let cases = [
        ("its own wish", json!({}), None, Deletion::Graceful(30)),
        ("what is asked", json!({}), Some(5), Deletion::Graceful(5)),
        ("longer than its own", json!({}), Some(60), Deletion::Graceful(60)),
        ("at once", json!({}), Some(0), Deletion::Now),
        ("negative", json!({}), Some(-1), Deletion::Graceful(1)),
        ("not scheduled", json!({"spec": {"nodeName": null}}), None, Deletion::Now),
        ("failed", json!({"status": {"phase": "Failed"}}), None, Deletion::Now),
        ("succeeded", json!({"status": {"phase": "Succeeded"}}), Some(7), Deletion::Now),
        ("again", deleting.clone(), None, Deletion::Graceful(30)),
        ("again, longer", deleting.clone(), Some(60), Deletion::Graceful(30)),
        ("again, shorter", deleting.clone(), Some(5), Deletion::Graceful(5)),
        ("again, at once", deleting, Some(0), Deletion::Now),
    ];
    for (name, change, requested, expected) in cases {
        let pod = merged(running.clone(), &change);
        assert_eq!(kind("", "pods").deletion(&pod, requested), expected, "{name}");
    }
    assert_eq!(kind("", "configmaps").deletion(&running, Some(9)), Deletion::Now);
}

#[test]
fn a_namespace_is_held_by_the_finalizers_in_its_spec() {
    let mut namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let hooks = kind("", "namespaces");
    assert!(hooks.is_held(&namespace));
    hooks.begin_deletion(&mut namespace);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    namespace["spec"] = json!({});
    assert!(!hooks.is_held(&namespace));
}

#[test]
fn a_binding_assigns_the_pod_once() {
    let pod = json!({"metadata": {"name": "b", "labels": {"x": "y"}}, "spec": {}, "status": {"phase": "Pending", "nominatedNodeName": "m"}});
    let binding = json!({
        "metadata": {"name": "b", "annotations": {"k": "v"}, "labels": {"topology.kubernetes.io/zone": "z"}},
        "target": {"kind": "Node", "name": "n1"},
    });
    let mut bound = pod.clone();
    bind(&mut bound, &binding, now()).unwrap();
    let expected = json!({
        "metadata": {"name": "b", "annotations": {"k": "v"}, "labels": {"x": "y", "topology.kubernetes.io/zone": "z"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-16T00:20:16Z"},
        ]},
    });
    assert_eq!(bound, expected);
    let deleting = merged(pod.clone(), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let gated = merged(pod.clone(), &json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    let conflict = "Operation cannot be fulfilled on pods/binding \"b\": pod b";
    let refusals = [
        (bound, &binding, 409, format!("{conflict} is already assigned to node \"n1\"")),
        (deleting, &binding, 409, format!("{conflict} is being deleted, cannot be assigned to a host")),
        (gated, &binding, 409, format!("{conflict} has non-empty .spec.schedulingGates")),
        (
            pod.clone(),
            &json!({"target": {"kind": "Pod"}}),
            500,
            "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
                .to_owned(),
        ),
        (pod, &json!({"target": {"kind": "Node"}}), 500, "target.name: Required value".to_owned()),
    ];
    for (mut pod, binding, code, message) in refusals {
        let before = pod.clone();
        let error = bind(&mut pod, binding, now()).unwrap_err();
        assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message.as_str()));
        assert_eq!(pod, before, "a refused binding changes nothing");
    }
}

fn running_pod() -> Value {
    json!({
        "metadata": {"name": "b", "namespace": "default", "labels": {"x": "y"}}, "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn budget(status: &Value) -> Value {
    json!({
        "metadata": {"name": "p1", "namespace": "default", "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}, "status": status,
    })
}

/// Whether a pod may go, or code, seconds to wait and message of the refusal.
type Verdict = Result<bool, (u16, Option<i32>, &'static str)>;

#[test]
fn eviction_keeps_to_the_budget() {
    let none_left =
        json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, "disruptionsAllowed": 0});
    let one_left =
        json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 2, "disruptionsAllowed": 1});
    let with = |change: &Value| merged(none_left.clone(), change);
    let said = |reason: &str| {
        with(&json!({"currentHealthy": 5, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "m"},
        ]}))
    };
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let cases: Vec<(&str, Value, Value, Verdict)> = vec![
        ("allowed", json!({}), one_left.clone(), Ok(true)),
        (
            "none left",
            json!({}),
            none_left.clone(),
            Err((429, None, "The disruption budget p1 needs 1 healthy pods and has 1 currently")),
        ),
        (
            "not yet seen",
            json!({}),
            json!({"disruptionsAllowed": 1}),
            Err((429, Some(10), "The disruption budget p1 is still being processed by the server.")),
        ),
        (
            "enough healthy, none allowed",
            json!({}),
            with(&json!({"currentHealthy": 5})),
            Err((429, None, "The disruption budget p1 does not allow evicting pods currently")),
        ),
        (
            "with a reason",
            json!({}),
            said("InsufficientPods"),
            Err((
                429,
                None,
                "The disruption budget p1 does not allow evicting pods currently (InsufficientPods): m",
            )),
        ),
        (
            "sync failed",
            json!({}),
            said("SyncFailed"),
            Err((
                429,
                None,
                "The disruption budget p1 does not allow evicting pods currently because it failed sync: m",
            )),
        ),
        ("negative", json!({}), with(&json!({"disruptionsAllowed": -1})), Err((403, None, ""))),
        ("pending pods need none", json!({"status": {"phase": "Pending"}}), none_left.clone(), Ok(false)),
        ("ended pods need none", json!({"status": {"phase": "Failed"}}), none_left.clone(), Ok(false)),
        ("other labels", json!({"metadata": {"labels": {"x": "z"}}}), none_left.clone(), Ok(false)),
        ("other namespace", json!({"metadata": {"namespace": "n"}}), none_left.clone(), Ok(false)),
        ("unready while enough are healthy", not_ready.clone(), none_left.clone(), Ok(false)),
        (
            "unready while too few are healthy",
            not_ready,
            with(&json!({"currentHealthy": 0})),
            Err((429, None, "The disruption budget p1 needs 1 healthy pods and has 0 currently")),
        ),
    ];
    for (name, change, status, expected) in cases {
        let pod = merged(running_pod(), &change);
        let answer = evict(&pod, &json!({}), &[Arc::new(budget(&status))], now());
        match (answer, expected) {
            (Ok(eviction), Ok(uses_budget)) => {
                assert_eq!(eviction.budget.is_some(), uses_budget, "{name}");
                let last =
                    eviction.pod["status"]["conditions"].as_array().and_then(|all| all.last()).cloned();
                assert_eq!(last.map(|last| last["type"].clone()), Some(json!("DisruptionTarget")), "{name}");
            }
            (Err(error), Err((code, retry, cause))) => {
                let details = error.details.clone().unwrap_or_default();
                assert_eq!(error.code.as_u16(), code, "{name}");
                assert_eq!(details.retry_after_seconds, retry, "{name}");
                let found = details.causes.first().map(|cause| cause.message.as_str()).unwrap_or_default();
                assert_eq!(found, cause, "{name}");
            }
            (answer, _) => panic!("{name}: {answer:?}"),
        }
    }
}

#[test]
fn an_eviction_is_taken_off_the_budget() {
    let status = json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 2, "disruptionsAllowed": 1, "expectedPods": 2});
    let eviction = json!({"deleteOptions": {"gracePeriodSeconds": 3}});
    let answer = evict(&running_pod(), &eviction, &[Arc::new(budget(&status))], now()).unwrap();
    let expected = json!({
        "observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 2,
        "disruptedPods": {"b": "2026-11-16T00:20:16Z"},
        "conditions": [{
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": 1, "reason": "InsufficientPods",
            "message": "", "lastTransitionTime": "2026-11-16T00:20:16Z",
        }],
    });
    assert_eq!(answer.budget.unwrap()["status"], expected);
    assert_eq!(answer.delete_options["gracePeriodSeconds"], 3);
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-16T00:20:16Z",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    assert_eq!(answer.pod["status"]["conditions"][1], target);
}

#[test]
fn two_budgets_are_one_too_many() {
    let budgets = [Arc::new(budget(&json!({}))), Arc::new(budget(&json!({})))];
    let error = evict(&running_pod(), &json!({}), &budgets, now()).unwrap_err();
    assert_eq!(error.code.as_u16(), 500);
    assert_eq!(
        error.message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[test]
fn unhealthy_pods_may_always_go_when_the_budget_says_so() {
    let mut always = budget(&json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 0}));
    always["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
    let mut pod = running_pod();
    pod["status"]["conditions"] = json!([]);
    let answer = evict(&pod, &json!({}), &[Arc::new(always)], now()).unwrap();
    assert_eq!((answer.budget, answer.only_if_unchanged.as_deref()), (None, Some("p1")));
}

#[test]
fn large_things_are_refused() {
    let large = json!({"metadata": {"name": "a"}, "data": {"x": "y".repeat(1024 * 1024 + 1)}});
    let errors = kind("", "configmaps").validate(&large);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message(), "Too long: may not be more than 1048576 bytes");
    let annotated = json!({"metadata": {"name": "a", "annotations": {"a": "b".repeat(256 * 1024)}}});
    let errors = super::metadata::validate_create(&annotated, false, super::names::NameRule::Subdomain);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "metadata.annotations: Too long: may not be more than 262144 bytes");
}

#[test]
fn metadata_that_never_changes_is_guarded() {
    let old = json!({"metadata": {
        "name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["a.b/c"],
    }});
    let new = json!({"metadata": {
        "name": "a", "uid": "v", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["a.b/c", "x.y/z", "d.e/f"],
    }});
    let texts: Vec<String> =
        super::metadata::validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
             finalizers []string{\"d.e/f\", \"x.y/z\"}",
            "metadata.uid: Invalid value: \"v\": field is immutable",
        ]
    );
}
