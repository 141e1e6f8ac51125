//! StatefulSets, DaemonSets and Jobs.

use crate::support::{Bench, condition, template};
use hostler_cluster::Options;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const STATEFUL_SET: (&str, &str) = ("apps/v1", "StatefulSet");
const DAEMON_SET: (&str, &str) = ("apps/v1", "DaemonSet");
const JOB: (&str, &str) = ("batch/v1", "Job");

async fn until_status(bench: &Bench, kind: (&str, &str), name: &str, wanted: &[(&str, i64)]) -> Value {
    bench
        .until(&format!("{} {name} has {wanted:?}", kind.1), || async {
            let found = bench.get(kind, "default", name).await?;
            let as_wanted =
                wanted.iter().all(|(field, number)| found["status"][*field].as_i64().unwrap_or(0) == *number);
            let observed =
                found["status"]["observedGeneration"] == found["metadata"]["generation"] || kind.1 == "Job";
            (as_wanted && observed).then_some(found)
        })
        .await
}

fn names(pods: &[k8s_openapi::api::core::v1::Pod]) -> Vec<String> {
    pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_has_ordered_pods_with_volumes_of_their_own() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    bench
        .create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"
        }))
        .await;
    bench
        .create(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
            "spec": {
                "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": template("db", "one", "100m"),
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}}}
                }]
            }
        }))
        .await;
    until_status(&bench, STATEFUL_SET, "db", &[("readyReplicas", 3), ("currentReplicas", 3)]).await;
    assert_eq!(names(&bench.pods("default", "app=db").await), ["db-0", "db-1", "db-2"]);
    let claim = bench.get(("v1", "PersistentVolumeClaim"), "default", "data-db-2").await.unwrap();
    assert_eq!(claim["status"]["phase"], "Bound");
    let attachments = bench.api("storage.k8s.io/v1", "VolumeAttachment", None);
    bench
        .until("three volumes are attached", || async {
            let all = attachments.list(&kube::api::ListParams::default()).await.unwrap().items;
            (all.len() == 3 && all.iter().all(|one| one.data["status"]["attached"] == true)).then_some(())
        })
        .await;
    bench
        .until("the node knows", || async {
            let node = bench.get(("v1", "Node"), "", "n").await?;
            (node["status"]["volumesAttached"].as_array()?.len() == 3).then_some(())
        })
        .await;

    bench
        .patch(STATEFUL_SET, "default", "db", json!({"spec": {"template": template("db", "two", "100m")}}))
        .await;
    let wanted = [("updatedReplicas", 3), ("readyReplicas", 3), ("currentReplicas", 3)];
    let found = until_status(&bench, STATEFUL_SET, "db", &wanted).await;
    assert_eq!(found["status"]["currentRevision"], found["status"]["updateRevision"]);

    bench.patch(STATEFUL_SET, "default", "db", json!({"spec": {"replicas": 1}})).await;
    until_status(&bench, STATEFUL_SET, "db", &[("replicas", 1)]).await;
    assert_eq!(names(&bench.pods("default", "app=db").await), ["db-0"]);
    assert!(
        bench.get(("v1", "PersistentVolumeClaim"), "default", "data-db-2").await.is_some(),
        "claims stay"
    );
    bench
        .until("volumes of pods that are gone are detached", || async {
            (attachments.list(&kube::api::ListParams::default()).await.unwrap().items.len() == 1)
                .then_some(())
        })
        .await;

    let claims = bench.api("v1", "PersistentVolumeClaim", Some("default"));
    claims.delete("data-db-2", &DeleteParams::default()).await.unwrap();
    bench.until_gone(("v1", "PersistentVolumeClaim"), "default", "data-db-2").await;
    claims.delete("data-db-0", &DeleteParams::default()).await.unwrap();
    bench.clock.sleep(std::time::Duration::from_secs(30)).await;
    assert!(
        bench.get(("v1", "PersistentVolumeClaim"), "default", "data-db-0").await.is_some(),
        "a claim in use is protected"
    );
    bench
        .until("the volume of the deleted claim is gone", || async {
            let volumes = bench
                .api("v1", "PersistentVolume", None)
                .list(&kube::api::ListParams::default())
                .await
                .unwrap();
            (volumes.items.len() == 2).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_stateful_set_wait_for_each_other_unless_told_otherwise() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    for (name, policy) in [("turns", "OrderedReady"), ("rush", "Parallel")] {
        bench
            .create(json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "replicas": 3, "serviceName": name, "podManagementPolicy": policy,
                    "selector": {"matchLabels": {"app": name}}, "template": template(name, "broken", "100m")
                }
            }))
            .await;
    }
    bench.clock.sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(names(&bench.pods("default", "app=turns").await), ["turns-0"], "the first is not ready");
    assert_eq!(names(&bench.pods("default", "app=rush").await), ["rush-0", "rush-1", "rush-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    bench.node("n2", "8").await;
    bench
        .create(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "one", "100m")}
        }))
        .await;
    until_status(&bench, DAEMON_SET, "agent", &[("desiredNumberScheduled", 2), ("numberAvailable", 2)]).await;
    bench.node("n3", "8").await;
    let node = bench.api("v1", "Node", None);
    let cordon = json!({"spec": {"unschedulable": true}});
    node.patch("n3", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(cordon)).await.unwrap();
    until_status(&bench, DAEMON_SET, "agent", &[("desiredNumberScheduled", 3), ("numberAvailable", 3)]).await;

    bench
        .patch(
            DAEMON_SET,
            "default",
            "agent",
            json!({"spec": {"template": template("agent", "two", "100m")}}),
        )
        .await;
    until_status(&bench, DAEMON_SET, "agent", &[("updatedNumberScheduled", 3), ("numberAvailable", 3)]).await;
    let pods = bench.pods("default", "app=agent").await;
    let mut nodes: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
}

fn job(name: &str, ends: Option<&str>, extra: Value) -> Value {
    let mut template = template(name, "one", "100m");
    if let Some(ends) = ends {
        template["metadata"]["labels"]["ends"] = json!(ends);
    }
    template["spec"]["restartPolicy"] = json!("Never");
    let mut spec = json!({"template": template});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

async fn finished(bench: &Bench, name: &str, kind: &str) -> Value {
    bench
        .until(&format!("{name} is {kind}"), || async {
            let found = bench.get(JOB, "default", name).await?;
            condition(&found, kind).filter(|one| one["status"] == "True")?;
            Some(found)
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn jobs_end_well_or_not() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    bench.create(job("good", Some("Succeeded"), json!({"completions": 5, "parallelism": 2}))).await;
    bench.create(job("bad", Some("Failed"), json!({"backoffLimit": 2}))).await;
    bench
        .create(job(
            "parts",
            Some("Succeeded"),
            json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
        ))
        .await;
    bench.create(job("brief", Some("Succeeded"), json!({"ttlSecondsAfterFinished": 30}))).await;
    let good = finished(&bench, "good", "Complete").await;
    assert_eq!((&good["status"]["succeeded"], &good["status"]["failed"]), (&json!(5), &Value::Null));
    assert!(good["status"]["completionTime"].is_string());
    let bad = finished(&bench, "bad", "Failed").await;
    assert_eq!(bad["status"]["failed"], 3);
    assert_eq!(condition(&bad, "Failed").unwrap()["reason"], "BackoffLimitExceeded");
    let parts = finished(&bench, "parts", "Complete").await;
    assert_eq!(parts["status"]["completedIndexes"], "0-2");
    bench.until_gone(JOB, "default", "brief").await;
    assert!(bench.get(JOB, "default", "good").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_let_go() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    let jobs = bench.api("batch/v1", "Job", Some("default"));
    for (name, parameters) in [("gone", DeleteParams::background()), ("left", DeleteParams::orphan())] {
        bench.create(job(name, None, json!({"parallelism": 2}))).await;
        until_status(&bench, JOB, name, &[("ready", 2)]).await;
        let pods = bench.pods("default", &format!("app={name}")).await;
        assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_some()), "they wait to be counted");
        jobs.delete(name, &parameters).await.unwrap();
    }
    bench
        .until("the pods of the job are gone", || async {
            bench.pods("default", "app=gone").await.is_empty().then_some(())
        })
        .await;
    bench
        .until("those that were left behind are free", || async {
            let pods = bench.pods("default", "app=left").await;
            assert_eq!(pods.len(), 2, "they stay");
            pods.iter().all(|pod| pod.metadata.finalizers.is_none()).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_job_that_is_not_seen_yet_are_held() {
    let bench = Bench::lagging(Options::all(), "/apis/batch/v1/jobs", std::time::Duration::from_secs(300));
    let job = bench.create(job("new", None, json!({}))).await;
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": "new", "uid": job.metadata.uid, "controller": true
    });
    bench
        .create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "early", "namespace": "default", "ownerReferences": [owner],
                "finalizers": ["batch.kubernetes.io/job-tracking"]
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]}
        }))
        .await;
    bench.clock.sleep(std::time::Duration::from_secs(60)).await;
    let pod = bench.get(("v1", "Pod"), "default", "early").await.unwrap();
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
}

#[tokio::test(start_paused = true)]
async fn a_jobs_own_rules_decide_its_end() {
    let bench = Bench::start(Options::all());
    bench.node("n", "8").await;
    let rule = |action: &str| json!({"rules": [{"action": action, "onPodConditions": [{"type": "Ready", "status": "False"}]}]});
    bench.create(job("fatal", Some("Failed"), json!({"podFailurePolicy": rule("FailJob")}))).await;
    let fatal = finished(&bench, "fatal", "Failed").await;
    let failed = condition(&fatal, "Failed").unwrap();
    assert_eq!(failed["reason"], "PodFailurePolicy");
    let said = failed["message"].as_str().unwrap();
    assert!(said.ends_with("has condition Ready matching FailJob rule at index 0"), "{said}");
    assert_eq!(fatal["status"]["failed"], 1, "it is not tried again");

    bench
        .create(job(
            "stubborn",
            Some("Failed"),
            json!({"backoffLimit": 0, "activeDeadlineSeconds": 5, "podFailurePolicy": rule("Ignore")}),
        ))
        .await;
    let stubborn = finished(&bench, "stubborn", "Failed").await;
    assert_eq!(condition(&stubborn, "Failed").unwrap()["reason"], "DeadlineExceeded", "no failure counted");
    assert!(bench.pods("default", "app=stubborn").await.len() > 1, "it was tried again");

    let some = json!({
        "completions": 4, "parallelism": 1, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]}
    });
    bench.create(job("some", Some("Succeeded"), some)).await;
    let some = finished(&bench, "some", "Complete").await;
    assert_eq!(condition(&some, "Complete").unwrap()["reason"], "SuccessPolicy");
    assert_eq!(some["status"]["completedIndexes"], "0,1");

    bench.create(job("foreign", Some("Succeeded"), json!({"managedBy": "example.com/queue"}))).await;
    bench
        .create(job(
            "refused",
            Some("Succeeded"),
            json!({"completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
        ))
        .await;
    let refused = finished(&bench, "refused", "Failed").await;
    assert_eq!(condition(&refused, "Failed").unwrap()["reason"], "NotSupported");
    assert!(bench.pods("default", "app in (refused, foreign)").await.is_empty(), "nothing was started");
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_of_a_revision_is_got_around() {
    let bench = Bench::start(Options::all());
    bench.node("n1", "8").await;
    for (api_version, kind) in [("apps/v1", "DaemonSet"), ("apps/v1", "StatefulSet")] {
        let set = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "agent", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": kind}}, "template": template(kind, "agent:1", "100m")}
        });
        let revisions = bench.api("apps/v1", "ControllerRevision", Some("default"));
        let labels = format!("app={kind}");
        bench.create(set.clone()).await;
        until_status(
            &bench,
            (api_version, kind),
            "agent",
            &[("numberReady", 1)][..usize::from(kind == "DaemonSet")],
        )
        .await;
        let made =
            || async { revisions.list(&ListParams::default().labels(&labels)).await.unwrap().items.pop() };
        let taken = bench.until("a revision is made", made).await.metadata.name.unwrap();
        bench
            .api(api_version, kind, Some("default"))
            .delete("agent", &DeleteParams::foreground())
            .await
            .unwrap();
        bench.until_gone((api_version, kind), "default", "agent").await;
        bench
            .create(json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"a": "stranger"},
                "metadata": {"name": taken, "namespace": "default"}
            }))
            .await;
        bench.create(set).await;
        until_status(&bench, (api_version, kind), "agent", &[("collisionCount", 1)]).await;
        let own = made().await.expect("a revision of another name");
        assert_ne!(own.metadata.name, Some(taken));
        bench.until("its pod runs", || async { bench.pods("default", &labels).await.pop() }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_may_have_as_many_indexes_as_a_number_can_say() {
    let bench = Bench::start(Options::all());
    let most = i32::MAX;
    let policy = json!({"rules": [{"succeededIndexes": "0-2147483646"}]});
    let indexed = json!({
        "parallelism": 2, "completions": most, "completionMode": "Indexed", "successPolicy": policy, "suspend": true
    });
    bench.create(job("wide", Some("Succeeded"), indexed)).await;
    let status = json!({"status": {"completedIndexes": "0-2147483642", "succeeded": 2_147_483_643}});
    let jobs = bench.api("batch/v1", "Job", Some("default"));
    jobs.patch_status("wide", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    bench.node("n", "8").await;
    bench.patch(JOB, "default", "wide", json!({"spec": {"suspend": false}})).await;
    let done = finished(&bench, "wide", "Complete").await;
    assert_eq!(done["status"]["completedIndexes"], "0-2147483646");
    assert_eq!(done["status"]["succeeded"], most);
}
