//! The life of nodes, and budgets.

use crate::support::{Bench, DEPLOYMENT, condition, deployment, template};
use hostler_cluster::Options;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

const NODE: (&str, &str) = ("v1", "Node");

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints
        .iter()
        .map(|one| format!("{}:{}", one["key"].as_str().unwrap(), one["effect"].as_str().unwrap()))
        .collect()
}

async fn lease(bench: &Bench, node: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    });
    bench.create(lease).await;
}

async fn renew(bench: &Bench, node: &str) {
    let now = format!("{:.6}", bench.clock.now());
    let patch = json!({"spec": {"renewTime": now}});
    bench.patch(("coordination.k8s.io/v1", "Lease"), "kube-node-lease", node, patch).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_unknown_and_loses_its_pods() {
    let bench = Bench::start(Options::all());
    for node in ["alive", "silent"] {
        bench.node(node, "8").await;
        lease(&bench, node).await;
    }
    let mut web = deployment("web", 2, "one");
    web["spec"]["template"]["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    ]);
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}
    }]);
    bench.create(web).await;
    let on = |node: &'static str| {
        let bench = &bench;
        async move {
            let pods = bench.pods("default", "app=web").await;
            pods.iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node))
                .count()
        }
    };
    bench
        .until("one pod on each", || async {
            (on("alive").await == 1 && on("silent").await == 1).then_some(())
        })
        .await;
    for _ in 0..6 {
        bench.clock.sleep(Duration::from_secs(10)).await;
        renew(&bench, "alive").await;
    }
    let silent = bench.get(NODE, "", "silent").await.unwrap();
    let ready = condition(&silent, "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    assert_eq!(
        taints(&silent),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert!(taints(&bench.get(NODE, "", "alive").await.unwrap()).is_empty());
    assert_eq!(on("silent").await, 1, "the pod tolerates it for a minute");
    for pod in bench.pods("default", "app=web").await {
        let pod = serde_json::to_value(pod).unwrap();
        let state = if pod["spec"]["nodeName"] == "silent" { "False" } else { "True" };
        assert_eq!(condition(&pod, "Ready").unwrap()["status"], state, "nobody knows whether it is ready");
    }
    for _ in 0..7 {
        bench.clock.sleep(Duration::from_secs(10)).await;
        renew(&bench, "alive").await;
    }
    assert_eq!(on("silent").await, 0);
    assert_eq!(on("alive").await, 2);
}

#[tokio::test(start_paused = true)]
async fn cordoning_taints_and_uncordoning_untaints() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    let node = bench.api("v1", "Node", None);
    let cordon = |wanted: bool| Patch::Merge(json!({"spec": {"unschedulable": wanted}}));
    node.patch("n", &PatchParams::default(), &cordon(true)).await.unwrap();
    bench
        .until("the node is tainted", || async {
            let found = bench.get(NODE, "", "n").await?;
            (taints(&found) == ["node.kubernetes.io/unschedulable:NoSchedule"]).then_some(())
        })
        .await;
    node.patch("n", &PatchParams::default(), &cordon(false)).await.unwrap();
    bench
        .until("the taint is gone", || async {
            taints(&bench.get(NODE, "", "n").await?).is_empty().then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_alone_is_a_sign_of_life() {
    let bench = Bench::start(Options::all());
    bench.node("silent-with-lease", "8").await;
    lease(&bench, "silent-with-lease").await;
    let is_ready = || async {
        let node = bench.get(NODE, "", "silent-with-lease").await.unwrap();
        condition(&node, "Ready").unwrap()["status"] == "True"
    };
    for _ in 0..12 {
        bench.clock.sleep(Duration::from_secs(10)).await;
        renew(&bench, "silent-with-lease").await;
    }
    bench.clock.sleep(Duration::from_secs(49)).await;
    assert!(is_ready().await, "it has fifty seconds");
    bench.clock.sleep(Duration::from_secs(11)).await;
    assert!(!is_ready().await);
}

/// How long the pods of a deleted node stay there.
async fn time_to_move(bench: &Bench) -> Duration {
    bench.node("first", "8").await;
    bench.create(deployment("web", 3, "one")).await;
    let available = |number: i64| {
        let bench = &bench;
        async move {
            bench
                .until("pods are available", || async {
                    let found = bench.get(DEPLOYMENT, "default", "web").await?;
                    (found["status"]["availableReplicas"].as_i64() == Some(number)).then_some(())
                })
                .await;
        }
    };
    available(3).await;
    bench.node("second", "8").await;
    let start = bench.clock.instant();
    bench.api("v1", "Node", None).delete("first", &DeleteParams::default()).await.unwrap();
    bench
        .until("all pods are on the second node", || async {
            let pods = bench.pods("default", "app=web").await;
            let moved = |pod: &k8s_openapi::api::core::v1::Pod| {
                pod.spec.as_ref().unwrap().node_name.as_deref() == Some("second")
            };
            (pods.len() == 3 && pods.iter().all(moved)).then_some(())
        })
        .await;
    let took = bench.clock.instant() - start;
    available(3).await;
    took
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_replaced_after_a_while() {
    let took = time_to_move(&Bench::start(Options::all())).await;
    assert!((40..=62).contains(&took.as_secs()), "{took:?}");
    let quick = Options {
        gone_node_quarantine: Duration::from_secs(2),
        pod_garbage_period: Duration::from_secs(1),
        ..Options::all()
    };
    let took = time_to_move(&Bench::start(quick)).await;
    assert!((2..=4).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_not_seen_yet_stay() {
    let bench = Bench::lagging(Options::all(), "/api/v1/nodes", Duration::from_secs(300));
    bench.node("new", "8").await;
    bench
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "early", "namespace": "default"},
            "spec": {"nodeName": "new", "containers": [{"name": "c", "image": "i"}]}
        }))
        .await;
    bench.clock.sleep(Duration::from_secs(120)).await;
    let calls = bench.calls.lock().unwrap().clone();
    assert!(calls.iter().any(|call| call == "GET /api/v1/nodes/new 200"), "it was missed: {calls:#?}");
    assert!(bench.get(("v1", "Pod"), "default", "early").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_budget_knows_what_it_can_spare() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    bench.create(deployment("web", 4, "one")).await;
    bench
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
        }))
        .await;
    let allowed = |number: i64| {
        let bench = &bench;
        async move {
            bench
                .until(&format!("{number} may be disturbed"), || async {
                    let found = bench.get(("policy/v1", "PodDisruptionBudget"), "default", "web").await?;
                    let status = &found["status"];
                    (status["disruptionsAllowed"].as_i64() == Some(number) && status["expectedPods"] != 0)
                        .then_some(found)
                })
                .await
        }
    };
    let found = allowed(2).await;
    assert_eq!(
        (&found["status"]["expectedPods"], &found["status"]["desiredHealthy"]),
        (&json!(4), &json!(2))
    );
    assert_eq!(condition(&found, "DisruptionAllowed").unwrap()["reason"], "SufficientPods");
    bench.patch(DEPLOYMENT, "default", "web", json!({"spec": {"replicas": 2}})).await;
    allowed(1).await;
}

#[tokio::test(start_paused = true)]
async fn owners_of_other_kinds_say_their_scale_without_being_searched_for_each_time() {
    let bench = Bench::start(Options { garbage_collection: false, ..Options::all() });
    bench.node("n", "8").await;
    let mut widgets = crate::support::widgets();
    widgets["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    bench.create(widgets).await;
    let kind = ("example.com/v1", "Widget");
    let served =
        || async { bench.api(kind.0, kind.1, Some("default")).list(&ListParams::default()).await.ok() };
    bench.until("widgets are served", served).await;
    for name in ["one", "two", "three"] {
        let owner = bench
            .create(json!({
                "apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "namespace": "default"},
                "spec": {"replicas": 2}
            }))
            .await;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": [{
                "apiVersion": kind.0, "kind": kind.1, "name": name, "uid": owner.metadata.uid, "controller": true
            }]}
        });
        pod["spec"] = template("web", "one", "100m")["spec"].clone();
        bench.create(pod).await;
    }
    bench
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 4, "selector": {"matchLabels": {"app": "web"}}}
        }))
        .await;
    bench
        .until("all three count", || async {
            let found = bench.get(("policy/v1", "PodDisruptionBudget"), "default", "web").await?;
            let status = &found["status"];
            (status["expectedPods"] == 6 && status["desiredHealthy"] == 2 && status["currentHealthy"] == 3)
                .then_some(())
        })
        .await;
    for round in 0..5 {
        let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
        bench.patch(("v1", "Pod"), "default", "one", labels).await;
        bench.clock.sleep(Duration::from_secs(1)).await;
    }
    let calls = bench.calls.lock().unwrap();
    let count = |what: &str| calls.iter().filter(|call| call.starts_with(what)).count();
    assert!(count("GET /apis/example.com/v1/namespaces/default/widgets/one/scale") > 5, "{calls:#?}");
    assert_eq!(count("GET /apis?") + count("GET /apis "), 1, "{calls:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_rolls_counts_once_for_its_budget() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    let mut web = deployment("web", 4, "one");
    web["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
    bench.create(web).await;
    bench
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
        }))
        .await;
    let status = || async {
        let found = bench.get(("policy/v1", "PodDisruptionBudget"), "default", "web").await?;
        let number = |field: &str| found["status"][field].as_i64().unwrap_or(0);
        Some((number("expectedPods"), number("desiredHealthy"), number("currentHealthy")))
    };
    bench.until("all are healthy", || async { (status().await? == (4, 2, 4)).then_some(()) }).await;
    let broken = json!({"spec": {"template": crate::support::template("web", "broken", "100m")}});
    bench.patch(DEPLOYMENT, "default", "web", broken).await;
    bench
        .until("both sets have pods", || async {
            (bench.pods("default", "app=web").await.len() == 6).then_some(())
        })
        .await;
    bench.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(status().await, Some((4, 2, 4)), "four were asked for, not six");
}

#[tokio::test(start_paused = true)]
async fn namespaces_get_an_account_and_tokens_expire() {
    let bench = Bench::start(Options { root_certificate: "certificate".to_owned(), ..Options::all() });
    bench.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    bench
        .until("the account is there", || async {
            bench.get(("v1", "ServiceAccount"), "team", "default").await
        })
        .await;
    let map = bench
        .until("the certificate is there", || async {
            bench.get(("v1", "ConfigMap"), "team", "kube-root-ca.crt").await
        })
        .await;
    assert_eq!(map["data"]["ca.crt"], "certificate");
    let token = |name: &str, end: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": end}
        })
    };
    bench.create(token("bootstrap-token-aaaaaa", "2026-01-01T00:05:00Z")).await;
    bench.create(token("bootstrap-token-bbbbbb", "2026-01-02T00:00:00Z")).await;
    bench.until_gone(("v1", "Secret"), "kube-system", "bootstrap-token-aaaaaa").await;
    assert!(bench.clock.now() >= "2026-01-01T00:05:00Z".parse().unwrap(), "not before its end");
    assert!(bench.get(("v1", "Secret"), "kube-system", "bootstrap-token-bbbbbb").await.is_some());
}
