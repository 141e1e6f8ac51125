use super::{
    fixtures::{config_map, deployment, lease, pod, secret},
    read::version_of,
};
use crate::{Ctx, Look, Outcome, reply::holds};
use serde_json::{Value, json};

area!("update":
    replaces_the_whole_object,
    raises_the_resource_version,
    keeps_uid_and_creation_time,
    stale_version_conflicts,
    without_version_wins,
    concurrent_lease_holders_cannot_both_win,
    no_change_keeps_the_version,
    no_change_by_patch_keeps_the_version,
    of_absent_is_not_found,
    of_absent_lease_creates,
    name_must_match_the_path,
    namespace_must_match_the_path,
    other_uid_conflicts,
    missing_name_is_refused,
    deletion_timestamp_cannot_be_set,
    immutable_field_is_named;
"generation":
    starts_at_one_and_counts_spec_changes,
    is_not_raised_by_metadata,
    cannot_be_set_by_the_client,
    is_raised_by_deletion_with_finalizers;
"status":
    is_dropped_on_create,
    is_not_changed_by_update,
    update_of_status_changes_nothing_else,
    update_of_status_changes_no_spec,
    update_of_status_takes_metadata,
    labels_of_deployments_are_not_taken_with_the_status,
    status_shares_the_resource_version,
    patch_of_status_changes_only_status,
    status_of_absent_is_not_found,
    kind_without_status_has_no_status_path,
);

async fn replaces_the_whole_object(c: Ctx) -> Outcome {
    let mut object = c.create(&c.core("configmaps"), &config_map("a")).await?;
    object["data"] = json!({"other": "thing"});
    object["metadata"]["labels"] = json!({"a": "b"});
    let reply = c.put(&c.core("configmaps/a"), &object).await?.ok(200)?;
    reply.is("/data", json!({"other": "thing"}))?;
    reply.is("/metadata/labels", json!({"a": "b"}))?;
    let read = c.get(&c.core("configmaps/a")).await?.ok(200)?;
    read.is("", reply.json.clone())
}

async fn raises_the_resource_version(c: Ctx) -> Outcome {
    let mut object = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let before = version_of(&object)?;
    object["data"]["key"] = json!("other");
    let after = version_of(&c.put(&c.core("configmaps/a"), &object).await?.ok(200)?.json)?;
    holds("the version grew", after > before)
}

async fn keeps_uid_and_creation_time(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.put(&c.core("configmaps/a"), &config_map("a")).await?.ok(200)?;
    reply.is("/metadata/uid", made["metadata"]["uid"].clone())?;
    reply.is("/metadata/creationTimestamp", made["metadata"]["creationTimestamp"].clone())
}

async fn stale_version_conflicts(c: Ctx) -> Outcome {
    let mut object = c.create(&c.core("configmaps"), &config_map("a")).await?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"data": {"key": "newer"}})).await?.ok(200)?;
    object["data"]["key"] = json!("mine");
    let reply = c.put(&c.core("configmaps/a"), &object).await?;
    reply.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
    )?;
    reply.details("configmaps", "", "a")?;
    c.get(&c.core("configmaps/a")).await?.is("/data/key", "newer")
}

async fn without_version_wins(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"data": {"key": "newer"}})).await?.ok(200)?;
    let reply = c.put(&c.core("configmaps/a"), &config_map("a")).await?.ok(200)?;
    reply.is("/data/key", "value")
}

async fn concurrent_lease_holders_cannot_both_win(c: Ctx) -> Outcome {
    let leases = c.group("coordination.k8s.io/v1", "leases");
    let seen = c.create(&leases, &lease("leader")).await?;
    let (mut one, mut two) = (seen.clone(), seen);
    one["spec"]["holderIdentity"] = json!("one-again");
    two["spec"]["holderIdentity"] = json!("two");
    let path = format!("{leases}/leader");
    let (first, second) = futures::future::join(c.put(&path, &one), c.put(&path, &two)).await;
    let mut codes = [first?.status, second?.status];
    codes.sort_unstable();
    crate::reply::same("answers", codes, [200, 409])
}

async fn no_change_keeps_the_version(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.put(&c.core("configmaps/a"), &made).await?.ok(200)?;
    reply.is("/metadata/resourceVersion", made["metadata"]["resourceVersion"].clone())
}

async fn no_change_by_patch_keeps_the_version(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.merge_patch(&c.core("configmaps/a"), &json!({"data": {"key": "value"}})).await?.ok(200)?;
    reply.is("/metadata/resourceVersion", made["metadata"]["resourceVersion"].clone())?;
    let reply = c.strategic_patch(&c.core("configmaps/a"), &json!({})).await?.ok(200)?;
    reply.is("/metadata/resourceVersion", made["metadata"]["resourceVersion"].clone())
}

async fn of_absent_is_not_found(c: Ctx) -> Outcome {
    let reply = c.put(&c.core("secrets/a"), &secret("a")).await?;
    reply.refused(404, "NotFound", "secrets \"a\" not found")?;
    Ok(())
}

async fn of_absent_lease_creates(c: Ctx) -> Outcome {
    let path = c.group("coordination.k8s.io/v1", "leases/a");
    c.put(&path, &lease("a")).await?.ok(201)?.is("/spec/holderIdentity", "one")?;
    c.get(&path).await?.ok(200)?.is("/metadata/name", "a")
}

async fn name_must_match_the_path(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.put(&c.core("configmaps/a"), &config_map("b")).await?;
    reply.refused(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")?;
    Ok(())
}

async fn namespace_must_match_the_path(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let mut body = config_map("a");
    body["metadata"]["namespace"] = json!("default");
    let reply = c.put(&c.core("configmaps/a"), &body).await?;
    reply.refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )?;
    Ok(())
}

async fn other_uid_conflicts(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let mut body = config_map("a");
    body["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let reply = c.put(&c.core("configmaps/a"), &body).await?;
    reply.refused_about(
        409,
        "Conflict",
        &format!(
            "Precondition failed: UID in precondition: 11111111-2222-3333-4444-555555555555, UID in object meta: {}",
            made.text("/metadata/uid")
        ),
    )?;
    Ok(())
}

async fn missing_name_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "other"}});
    let reply = c.put(&c.core("configmaps/a"), &body).await?;
    reply.refused(
        400,
        "BadRequest",
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    )?;
    Ok(())
}

async fn deletion_timestamp_cannot_be_set(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
    let reply = c.merge_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \"2030-01-01T00:00:00Z\": field is immutable",
    )?;
    Ok(())
}

async fn immutable_field_is_named(c: Ctx) -> Outcome {
    let mut made = c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    made["spec"]["selector"]["matchLabels"] = json!({"app": "b"});
    made["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    let reply = c.put(&c.group("apps/v1", "deployments/a"), &made).await?;
    reply.refused(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable",
    )?;
    reply.causes(&[("FieldValueInvalid", "spec.selector", "field is immutable")])?.details(
        "Deployment",
        "apps",
        "a",
    )?;
    Ok(())
}

async fn starts_at_one_and_counts_spec_changes(c: Ctx) -> Outcome {
    let made = c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    made.is("/metadata/generation", 1)?;
    let path = c.group("apps/v1", "deployments/a");
    c.merge_patch(&path, &json!({"spec": {"paused": true}})).await?.ok(200)?.is("/metadata/generation", 2)?;
    c.merge_patch(&path, &json!({"spec": {"paused": true}})).await?.ok(200)?.is("/metadata/generation", 2)
}

async fn is_not_raised_by_metadata(c: Ctx) -> Outcome {
    c.create(&c.group("batch/v1", "cronjobs"), &cron_job("a")).await?.is("/metadata/generation", 1)?;
    let path = c.group("batch/v1", "cronjobs/a");
    let reply = c.merge_patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await?.ok(200)?;
    reply.is("/metadata/generation", 1)?;
    let status = json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}});
    c.merge_patch(&format!("{path}/status"), &status).await?.ok(200)?.is("/metadata/generation", 1)
}

fn cron_job(name: &str) -> serde_json::Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"suspend": true, "schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/app:1"}]}}}}}})
}

async fn cannot_be_set_by_the_client(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["metadata"]["generation"] = json!(9);
    c.create(&c.group("apps/v1", "deployments"), &body).await?.is("/metadata/generation", 1)?;
    let patch = json!({"metadata": {"generation": 9}});
    let reply = c.merge_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/generation", 1)
}

async fn is_raised_by_deletion_with_finalizers(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let path = c.group("apps/v1", "deployments/a");
    c.delete(&path).await?.ok(200)?.is("/metadata/generation", 2)?;
    c.merge_patch(&path, &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

fn budget(name: &str) -> serde_json::Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "nothing"}}}})
}

async fn is_dropped_on_create(c: Ctx) -> Outcome {
    let mut body = cron_job("a");
    body["status"] = json!({"lastScheduleTime": "2020-01-01T00:00:00Z"});
    let made = c.create(&c.group("batch/v1", "cronjobs"), &body).await?;
    made.is("/status", json!({}))
}

async fn is_not_changed_by_update(c: Ctx) -> Outcome {
    c.create(&c.group("batch/v1", "cronjobs"), &cron_job("a")).await?;
    let path = c.group("batch/v1", "cronjobs/a");
    let status = json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}});
    let mut object = c.merge_patch(&format!("{path}/status"), &status).await?.ok(200)?.json;
    object["status"]["lastScheduleTime"] = json!("2021-01-01T00:00:00Z");
    object["spec"]["schedule"] = json!("0 0 2 1 *");
    let reply = c.put(&path, &object).await?.ok(200)?;
    reply.is("/status/lastScheduleTime", "2020-01-01T00:00:00Z")?;
    reply.is("/spec/schedule", "0 0 2 1 *")
}

async fn update_of_status_changes_nothing_else(c: Ctx) -> Outcome {
    let mut object = c.create(&c.group("batch/v1", "cronjobs"), &cron_job("a")).await?;
    object["spec"]["schedule"] = json!("0 0 2 1 *");
    object["status"]["lastScheduleTime"] = json!("2021-01-01T00:00:00Z");
    let reply = c.put(&c.group("batch/v1", "cronjobs/a/status"), &object).await?.ok(200)?;
    reply.is("/spec/schedule", "0 0 1 1 *")?;
    reply.is("/status/lastScheduleTime", "2021-01-01T00:00:00Z")?;
    reply.is("/metadata/generation", 1)
}

async fn update_of_status_changes_no_spec(c: Ctx) -> Outcome {
    let budgets = c.group("policy/v1", "poddisruptionbudgets");
    let mut object = c.create(&budgets, &budget("a")).await?;
    object["spec"]["minAvailable"] = json!(5);
    object["status"] =
        json!({"disruptionsAllowed": 3, "currentHealthy": 4, "desiredHealthy": 1, "expectedPods": 4});
    let reply = c.put(&format!("{budgets}/a/status"), &object).await?.ok(200)?;
    reply.is("/spec/minAvailable", 1)?;
    reply.is("/status/disruptionsAllowed", 3)?;
    reply.is("/status/expectedPods", 4)
}

/// Puts an object with other metadata at its status and gives what came of it.
async fn with_other_metadata(c: &Ctx, path: &str, body: &Value) -> Result<Value, crate::Failure> {
    let mut object = c.create(path, body).await?;
    object["metadata"]["labels"] = json!({"new": "label"});
    object["metadata"]["annotations"] = json!({"new": "annotation"});
    Ok(c.put(&format!("{path}/a/status"), &object).await?.ok(200)?.json)
}

async fn update_of_status_takes_metadata(c: Ctx) -> Outcome {
    for (path, body) in [
        (c.group("policy/v1", "poddisruptionbudgets"), budget("a")),
        (c.group("batch/v1", "cronjobs"), cron_job("a")),
        (c.core("pods"), pod("a")),
    ] {
        let changed = with_other_metadata(&c, &path, &body).await?;
        changed.is("/metadata/labels", json!({"new": "label"}))?;
        changed.is("/metadata/annotations", json!({"new": "annotation"}))?;
    }
    Ok(())
}

async fn labels_of_deployments_are_not_taken_with_the_status(c: Ctx) -> Outcome {
    let changed = with_other_metadata(&c, &c.group("apps/v1", "deployments"), &deployment("a")).await?;
    changed.lacks("/metadata/labels")?;
    changed.is("/metadata/annotations/new", "annotation")
}

async fn status_shares_the_resource_version(c: Ctx) -> Outcome {
    let old = c.create(&c.group("batch/v1", "cronjobs"), &cron_job("a")).await?;
    let path = c.group("batch/v1", "cronjobs/a");
    c.merge_patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await?.ok(200)?;
    let reply = c.put(&format!("{path}/status"), &old).await?;
    reply.refused_about(
        409,
        "Conflict",
        "Operation cannot be fulfilled on cronjobs.batch \"a\": the object has been modified",
    )?;
    Ok(())
}

async fn patch_of_status_changes_only_status(c: Ctx) -> Outcome {
    c.create(&c.group("batch/v1", "cronjobs"), &cron_job("a")).await?;
    let patch = json!({"spec": {"suspend": false}, "status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}});
    let reply = c.merge_patch(&c.group("batch/v1", "cronjobs/a/status"), &patch).await?.ok(200)?;
    reply.is("/spec/suspend", true)?;
    reply.is("/status/lastScheduleTime", "2020-01-01T00:00:00Z")
}

async fn status_of_absent_is_not_found(c: Ctx) -> Outcome {
    let reply = c.merge_patch(&c.group("batch/v1", "cronjobs/a/status"), &json!({"status": {}})).await?;
    reply.refused(404, "NotFound", "cronjobs.batch \"a\" not found")?;
    Ok(())
}

async fn kind_without_status_has_no_status_path(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.get(&c.core("configmaps/a/status")).await?;
    reply.refused(404, "NotFound", "the server could not find the requested resource")?;
    Ok(())
}
