use super::fixtures::{bound_pod, config_map, labelled, pod, secret};
use crate::{Ctx, Look, Outcome, reply::holds};
use http::Method;
use serde_json::json;

area!("delete":
    answers_with_a_status,
    answers_with_the_object_when_it_stays,
    absent_is_not_found,
    finalizers_hold_the_object,
    second_delete_changes_nothing,
    removing_the_last_finalizer_removes_it,
    no_new_finalizers_while_deleting,
    create_beside_a_terminating_one_conflicts,
    uid_precondition,
    resource_version_precondition,
    foreground_adds_a_finalizer,
    orphan_adds_a_finalizer,
    background_removes_at_once,
    two_policies_are_refused,
    unknown_policy_is_refused,
    options_by_query,
    wrong_body_is_refused,
    negative_grace_is_one_second;
"pod deletion":
    unbound_pod_is_gone_at_once,
    bound_pod_gets_its_grace_period,
    grace_period_of_the_request_wins,
    zero_grace_removes_at_once,
    grace_can_be_shortened_but_not_raised,
    finished_pod_is_gone_at_once,
    unbound_pod_with_finalizer_stays;
"delete collection":
    removes_all_of_the_namespace,
    takes_selectors,
    keeps_those_with_finalizers,
    nothing_to_delete_is_fine,
);

async fn answers_with_a_status(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    reply.is("/kind", "Status")?;
    reply.is("/status", "Success")?;
    reply.is("/details/name", "a")?;
    reply.is("/details/kind", "configmaps")?;
    reply.is("/details/uid", made["metadata"]["uid"].clone())?;
    c.get(&c.core("configmaps/a")).await?.refused_about(404, "NotFound", "not found")?;
    Ok(())
}

async fn answers_with_the_object_when_it_stays(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    let reply = c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    reply.is("/kind", "ConfigMap")?;
    reply.has("/metadata/deletionTimestamp")?;
    reply.is("/metadata/deletionGracePeriodSeconds", 0)?;
    release(&c, "a").await
}

async fn absent_is_not_found(c: Ctx) -> Outcome {
    let reply = c.delete(&c.core("configmaps/a")).await?;
    reply.refused(404, "NotFound", "configmaps \"a\" not found")?.details("configmaps", "", "a")?;
    Ok(())
}

async fn finalizers_hold_the_object(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &held("a")).await?;
    c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let read = c.get(&c.core("configmaps/a")).await?.ok(200)?;
    read.has("/metadata/deletionTimestamp")?;
    read.is("/metadata/finalizers", json!(["example.com/hold"]))?;
    holds(
        "it is a new version",
        read.at("/metadata/resourceVersion") != made.at("/metadata/resourceVersion"),
    )?;
    let patch = json!({"data": {"key": "still writable"}});
    c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.is("/data/key", "still writable")?;
    release(&c, "a").await
}

async fn second_delete_changes_nothing(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    let first = c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let second = c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    second.is("/metadata/deletionTimestamp", first.at("/metadata/deletionTimestamp").clone())?;
    second.is("/metadata/resourceVersion", first.at("/metadata/resourceVersion").clone())?;
    release(&c, "a").await
}

async fn removing_the_last_finalizer_removes_it(c: Ctx) -> Outcome {
    let mut body = held("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    c.create(&c.core("configmaps"), &body).await?;
    c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let patch = json!({"metadata": {"finalizers": ["example.com/more"]}});
    c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.is("/metadata/name", "a")?;
    c.get(&c.core("configmaps/a")).await?.ok(200)?;
    release(&c, "a").await?;
    c.get(&c.core("configmaps/a")).await?.ok(404)?;
    Ok(())
}

async fn no_new_finalizers_while_deleting(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let patch = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}});
    let reply = c.merge_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/late\"}",
    )?;
    release(&c, "a").await
}

async fn create_beside_a_terminating_one_conflicts(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let reply = c.post(&c.core("configmaps"), &config_map("a")).await?;
    reply.refused(409, "AlreadyExists", "object is being deleted: configmaps \"a\" already exists")?;
    release(&c, "a").await
}

async fn uid_precondition(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let wrong = json!({"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}});
    let reply = c.delete_with(&c.core("configmaps/a"), &wrong).await?;
    reply.refused(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (11111111-2222-3333-4444-555555555555) does not match the UID in record ({}). The object might have been deleted and then recreated",
            made.text("/metadata/uid")
        ),
    )?;
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
    c.delete_with(&c.core("configmaps/a"), &right).await?.ok(200)?.is("/status", "Success")
}

async fn resource_version_precondition(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let old = made.text("/metadata/resourceVersion");
    let now = c.merge_patch(&c.core("configmaps/a"), &json!({"data": {"key": "x"}})).await?.ok(200)?;
    let now = now.text("/metadata/resourceVersion");
    let reply =
        c.delete_with(&c.core("configmaps/a"), &json!({"preconditions": {"resourceVersion": old}})).await?;
    reply.refused(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition ({old}) does not match the ResourceVersion in record ({now}). The object might have been modified"
        ),
    )?;
    let right = json!({"preconditions": {"resourceVersion": now}});
    c.delete_with(&c.core("configmaps/a"), &right).await?.ok(200)?.is("/status", "Success")
}

async fn foreground_adds_a_finalizer(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    let reply =
        c.delete_with(&c.core("configmaps/a"), &json!({"propagationPolicy": "Foreground"})).await?.ok(200)?;
    reply.has("/metadata/deletionTimestamp")?;
    let finalizers = reply.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
    holds("foregroundDeletion is among the finalizers", finalizers.contains(&json!("foregroundDeletion")))?;
    holds("the other is kept", finalizers.contains(&json!("example.com/hold")))?;
    release(&c, "a").await
}

async fn orphan_adds_a_finalizer(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    let reply =
        c.delete_with(&c.core("configmaps/a"), &json!({"propagationPolicy": "Orphan"})).await?.ok(200)?;
    let finalizers = reply.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
    holds("orphan is among the finalizers", finalizers.contains(&json!("orphan")))?;
    release(&c, "a").await?;
    c.create(&c.core("configmaps"), &held("b")).await?;
    let reply = c.delete_with(&c.core("configmaps/b"), &json!({"orphanDependents": true})).await?.ok(200)?;
    let finalizers = reply.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
    holds("the old word for it does the same", finalizers.contains(&json!("orphan")))?;
    release(&c, "b").await
}

async fn background_removes_at_once(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply =
        c.delete_with(&c.core("configmaps/a"), &json!({"propagationPolicy": "Background"})).await?.ok(200)?;
    reply.is("/kind", "Status")?;
    c.get(&c.core("configmaps/a")).await?.ok(404)?;
    Ok(())
}

async fn two_policies_are_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let options = json!({"propagationPolicy": "Background", "orphanDependents": false});
    let reply = c.delete_with(&c.core("configmaps/a"), &options).await?;
    reply.refused_about(422, "Invalid", "orphanDependents and deletionPropagation cannot be both set")?;
    Ok(())
}

async fn unknown_policy_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.delete_with(&c.core("configmaps/a"), &json!({"propagationPolicy": "Sideways"})).await?;
    reply.refused_about(422, "Invalid", "propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")?;
    Ok(())
}

async fn options_by_query(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &held("a")).await?;
    let reply = c.delete(&c.core("configmaps/a?propagationPolicy=Foreground")).await?.ok(200)?;
    let finalizers = reply.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
    holds("foregroundDeletion is among the finalizers", finalizers.contains(&json!("foregroundDeletion")))?;
    release(&c, "a").await
}

async fn wrong_body_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let path = c.core("configmaps/a");
    let reply = c.delete_with(&path, &config_map("a")).await?;
    reply.refused_about(400, "BadRequest", "no kind \"ConfigMap\" is registered for version \"v1\"")?;
    let reply = c.delete_with(&path, &json!([1])).await?;
    reply.refused_about(400, "BadRequest", "json: cannot unmarshal array into Go value")?;
    let reply = c.delete_with(&path, &json!({"gracePeriodSeconds": "x"})).await?;
    reply.refused(
        400,
        "BadRequest",
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    )?;
    let reply = c.request(Method::DELETE, &path).body("text/html", "{}").send().await?;
    reply.refused_about(415, "UnsupportedMediaType", "the body of the request was in an unknown format")?;
    c.get(&c.core("configmaps/a")).await?.ok(200)?;
    Ok(())
}

async fn negative_grace_is_one_second(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let reply = c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": -1})).await?.ok(200)?;
    reply.is("/metadata/deletionGracePeriodSeconds", 1)?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn unbound_pod_is_gone_at_once(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.delete(&c.core("pods/a")).await?.ok(200)?;
    reply.is("/kind", "Pod")?;
    reply.is("/metadata/deletionGracePeriodSeconds", 0)?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn bound_pod_gets_its_grace_period(c: Ctx) -> Outcome {
    let mut body = bound_pod("a");
    body["spec"]["terminationGracePeriodSeconds"] = json!(45);
    c.create(&c.core("pods"), &body).await?;
    let reply = c.delete(&c.core("pods/a")).await?.ok(200)?;
    reply.is("/kind", "Pod")?;
    reply.is("/metadata/deletionGracePeriodSeconds", 45)?;
    let read = c.get(&c.core("pods/a")).await?.ok(200)?;
    read.is("/metadata/deletionGracePeriodSeconds", 45)?;
    read.has("/metadata/deletionTimestamp")?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn grace_period_of_the_request_wins(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?.is("/spec/terminationGracePeriodSeconds", 30)?;
    let reply = c.delete(&c.core("pods/a?gracePeriodSeconds=7")).await?.ok(200)?;
    reply.is("/metadata/deletionGracePeriodSeconds", 7)?;
    reply.is("/spec/terminationGracePeriodSeconds", 30)?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn zero_grace_removes_at_once(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let reply = c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    reply.is("/kind", "Pod")?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn grace_can_be_shortened_but_not_raised(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    c.delete(&c.core("pods/a?gracePeriodSeconds=20")).await?.ok(200)?;
    let longer = c.delete(&c.core("pods/a?gracePeriodSeconds=50")).await?.ok(200)?;
    longer.is("/metadata/deletionGracePeriodSeconds", 20)?;
    let shorter = c.delete(&c.core("pods/a?gracePeriodSeconds=5")).await?.ok(200)?;
    shorter.is("/metadata/deletionGracePeriodSeconds", 5)?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn finished_pod_is_gone_at_once(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    c.merge_patch(&c.core("pods/a/status"), &json!({"status": {"phase": "Succeeded"}})).await?.ok(200)?;
    c.delete(&c.core("pods/a")).await?.ok(200)?.is("/metadata/deletionGracePeriodSeconds", 0)?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn unbound_pod_with_finalizer_stays(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(&c.core("pods"), &body).await?;
    let reply = c.delete(&c.core("pods/a")).await?.ok(200)?;
    reply.is("/metadata/deletionGracePeriodSeconds", 0)?;
    c.get(&c.core("pods/a")).await?.ok(200)?.has("/metadata/deletionTimestamp")?;
    c.merge_patch(&c.core("pods/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn removes_all_of_the_namespace(c: Ctx) -> Outcome {
    for name in ["a", "b", "c"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let reply = c.delete(&c.core("secrets")).await?.ok(200)?;
    reply.is("/kind", "SecretList")?;
    let mut names = reply.names();
    names.sort();
    crate::reply::same("deleted", names, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])?;
    c.get(&c.core("secrets")).await?.ok(200)?.names_are(&[])
}

async fn takes_selectors(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &labelled(secret("a"), &json!({"go": "yes"}))).await?;
    c.create(&c.core("secrets"), &labelled(secret("b"), &json!({"go": "no"}))).await?;
    c.create(&c.core("secrets"), &labelled(secret("c"), &json!({"go": "yes"}))).await?;
    c.delete(&c.core("secrets?labelSelector=go%3Dyes&fieldSelector=metadata.name!%3Da")).await?.ok(200)?;
    c.get(&c.core("secrets")).await?.ok(200)?.names_are(&["a", "b"])
}

async fn keeps_those_with_finalizers(c: Ctx) -> Outcome {
    let labels = json!({"mine": "yes"});
    c.create(&c.core("configmaps"), &labelled(held("a"), &labels)).await?;
    c.create(&c.core("configmaps"), &labelled(config_map("b"), &labels)).await?;
    c.delete(&c.core("configmaps?labelSelector=mine")).await?.ok(200)?;
    let left = c.get(&c.core("configmaps?labelSelector=mine")).await?.ok(200)?;
    left.names_are(&["a"])?;
    left.has("/items/0/metadata/deletionTimestamp")?;
    release(&c, "a").await
}

async fn nothing_to_delete_is_fine(c: Ctx) -> Outcome {
    let reply = c.delete(&c.group("coordination.k8s.io/v1", "leases")).await?.ok(200)?;
    reply.is("/kind", "LeaseList")?;
    reply.is("/items", json!([]))
}

fn held(name: &str) -> serde_json::Value {
    let mut body = config_map(name);
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    body
}

async fn release(c: &Ctx, name: &str) -> Outcome {
    let patch = json!({"metadata": {"finalizers": null}});
    c.merge_patch(&c.core(&format!("configmaps/{name}")), &patch).await?.ok(200)?;
    Ok(())
}
