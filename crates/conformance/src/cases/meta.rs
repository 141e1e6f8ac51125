use super::fixtures::{config_map, crd, crd_group, install, labelled, thing};
use crate::{
    Ctx, Failure, Look, Outcome,
    reply::{holds, same},
};
use http::Method;
use serde_json::{Value, json};

area!("metadata":
    names_are_validated,
    labels_are_validated,
    annotations_have_a_limit,
    annotation_keys_are_validated,
    finalizers_are_validated,
    owner_references_are_validated,
    two_controllers_are_refused,
    own_namespace_is_set_on_cluster_kinds_not,
    name_with_slash_cannot_be_reached;
"managed fields":
    create_records_the_manager,
    user_agent_is_the_default_manager,
    update_by_another_manager_takes_fields,
    status_has_its_own_entry,
    custom_kinds_have_them_too,
    can_be_cleared,
    manager_name_is_validated,
    unchanged_fields_keep_their_time;
"error":
    status_has_the_usual_shape,
    not_found_has_details,
    invalid_has_causes,
    answers_are_json_without_cache,
);

async fn names_are_validated(c: Ctx) -> Outcome {
    for name in ["UPPER", "under_score", "-dash", "dot.", "sp ace"] {
        let reply = c.post(&c.core("configmaps"), &config_map(name)).await?;
        reply.refused_about(422, "Invalid", &format!("metadata.name: Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"))?;
    }
    let long = "x".repeat(254);
    let reply = c.post(&c.core("configmaps"), &config_map(&long)).await?;
    reply.refused_about(422, "Invalid", "must be no more than 253 characters")?;
    Ok(())
}

async fn labels_are_validated(c: Ctx) -> Outcome {
    let reply = c.post(&c.core("configmaps"), &labelled(config_map("a"), &json!({"bad key": "x"}))).await?;
    reply.refused_about(422, "Invalid", "metadata.labels: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.'")?;
    let reply =
        c.post(&c.core("configmaps"), &labelled(config_map("a"), &json!({"key": "x".repeat(64)}))).await?;
    reply.refused_about(422, "Invalid", "must be no more than 63 bytes")?;
    c.create(
        &c.core("configmaps"),
        &labelled(config_map("a"), &json!({"example.com/Key": "", "x": "A.b_c-1"})),
    )
    .await?;
    Ok(())
}

async fn annotations_have_a_limit(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["annotations"] = json!({"big": "x".repeat(256 * 1024)});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    )?;
    reply.causes(&[(
        "FieldValueTooLong",
        "metadata.annotations",
        "Too long: may not be more than 262144 bytes",
    )])?;
    Ok(())
}

async fn annotation_keys_are_validated(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["annotations"] = json!({"a/b/c": "x"});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(422, "Invalid", "metadata.annotations: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters")?;
    Ok(())
}

async fn finalizers_are_validated(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["bad finalizer"]);
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(422, "Invalid", "metadata.finalizers: Invalid value: \"bad finalizer\"")?;
    body["metadata"]["finalizers"] = json!(["plain"]);
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified",
    )?;
    Ok(())
}

fn owner(name: &str, controller: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-of-{name}"), "controller": controller})
}

async fn owner_references_are_validated(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
    )?;
    reply.contains("/message", "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty")
}

async fn two_controllers_are_refused(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["ownerReferences"] = json!([owner("one", true), owner("two", true)]);
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(422, "Invalid", "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/one and ConfigMap/two")?;
    body["metadata"]["ownerReferences"] = json!([owner("one", true), owner("two", false)]);
    c.create(&c.core("configmaps"), &body).await?.is("/metadata/ownerReferences/1/name", "two")
}

async fn own_namespace_is_set_on_cluster_kinds_not(c: Ctx) -> Outcome {
    let body =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.ns, "namespace": "default"}});
    c.create_shared("/api/v1/nodes", &body).await?.lacks("/metadata/namespace")
}

async fn name_with_slash_cannot_be_reached(c: Ctx) -> Outcome {
    let reply = c.post(&c.core("configmaps"), &config_map("a/b")).await?;
    reply.refused_about(422, "Invalid", "metadata.name: Invalid value: \"a/b\"")?;
    Ok(())
}

fn entry(object: &Value, manager: &str, subresource: &str) -> Value {
    let all = object.at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
    let mut found =
        all.into_iter().filter(|one| one["manager"] == manager && one.text("/subresource") == subresource);
    found.next().unwrap_or_default()
}

async fn send_as(c: &Ctx, agent: &str, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
    let reply = c.request(method, path).json(body).header("user-agent", agent).send().await?;
    if reply.status > 201 { Err(reply.unlike("expected success")) } else { Ok(reply.json) }
}

async fn create_records_the_manager(c: Ctx) -> Outcome {
    let made = c
        .create(&c.core("configmaps?fieldManager=tester"), &labelled(config_map("a"), &json!({"x": "y"})))
        .await?;
    let entry = entry(&made, "tester", "");
    entry.is("/operation", "Update")?;
    entry.is("/apiVersion", "v1")?;
    entry.is("/fieldsType", "FieldsV1")?;
    entry.has("/time")?;
    entry.is(
        "/fieldsV1",
        json!({"f:data": {".": {}, "f:key": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}),
    )
}

async fn user_agent_is_the_default_manager(c: Ctx) -> Outcome {
    let made =
        send_as(&c, "robot/v1.2 (linux)", Method::POST, &c.core("configmaps"), &config_map("a")).await?;
    entry(&made, "robot", "").is("/operation", "Update")
}

async fn update_by_another_manager_takes_fields(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"] = json!({"one": "1", "two": "2"});
    c.create(&c.core("configmaps?fieldManager=first"), &body).await?;
    let patch = json!({"data": {"two": "II", "three": "3"}});
    let after = c.merge_patch(&c.core("configmaps/a?fieldManager=second"), &patch).await?.ok(200)?.json;
    entry(&after, "first", "").is("/fieldsV1", json!({"f:data": {".": {}, "f:one": {}}}))?;
    entry(&after, "second", "").is("/fieldsV1", json!({"f:data": {"f:three": {}, "f:two": {}}}))
}

async fn status_has_its_own_entry(c: Ctx) -> Outcome {
    // An object without any recorded field stays without records until an apply.
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": c.ns, "labels": {"a": "b"}}});
    c.create_shared("/api/v1/nodes?fieldManager=maker", &body).await?;
    let path = format!("/api/v1/nodes/{}/status?fieldManager=maker", c.ns);
    let after = c.merge_patch(&path, &json!({"status": {"capacity": {"cpu": "4"}}})).await?.ok(200)?.json;
    let entry = entry(&after, "maker", "status");
    entry.is("/subresource", "status")?;
    entry.is("/fieldsV1/f:status/f:capacity", json!({".": {}, "f:cpu": {}}))
}

async fn custom_kinds_have_them_too(c: Ctx) -> Outcome {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "list": {"type": "array", "items": {"type": "string"}}}});
    install(&c, &crd(&c.ns, &schema)).await?;
    let things = c.group(&format!("{}/v1", crd_group(&c.ns)), "things");
    let made = c
        .create(
            &format!("{things}?fieldManager=tester"),
            &thing(&c.ns, "one", &json!({"a": "x", "list": ["y"]})),
        )
        .await?;
    let entry = entry(&made, "tester", "");
    entry.is("/apiVersion", format!("{}/v1", crd_group(&c.ns)))?;
    entry.is("/fieldsV1", json!({"f:spec": {".": {}, "f:a": {}, "f:list": {}}}))
}

async fn can_be_cleared(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps?fieldManager=tester"), &config_map("a")).await?;
    let patch = json!({"metadata": {"managedFields": [{}]}});
    c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.lacks("/metadata/managedFields")
}

async fn manager_name_is_validated(c: Ctx) -> Outcome {
    let path = c.core(&format!("configmaps?fieldManager={}", "m".repeat(129)));
    let reply = c.post(&path, &config_map("a")).await?;
    reply.refused_about(422, "Invalid", "fieldManager: Too long: may not be more than 128 bytes")?;
    Ok(())
}

async fn unchanged_fields_keep_their_time(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps?fieldManager=tester"), &config_map("a")).await?;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let patch = json!({"metadata": {"annotations": {"by": "another"}}});
    let after = c.merge_patch(&c.core("configmaps/a?fieldManager=other"), &patch).await?.ok(200)?.json;
    same("entry", entry(&after, "tester", ""), entry(&made, "tester", ""))?;
    holds(
        "the other entry is younger",
        entry(&after, "other", "").text("/time") > entry(&made, "tester", "").text("/time"),
    )
}

async fn status_has_the_usual_shape(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("configmaps/none")).await?.ok(404)?;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "configmaps \"none\" not found", "reason": "NotFound", "details": {"name": "none", "kind": "configmaps"}, "code": 404});
    reply.is("", expected)
}

async fn not_found_has_details(c: Ctx) -> Outcome {
    let reply = c.delete(&c.group("apps/v1", "deployments/none")).await?;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "deployments.apps \"none\" not found", "reason": "NotFound",
        "details": {"name": "none", "group": "apps", "kind": "deployments"}, "code": 404});
    reply.is("", expected)
}

async fn invalid_has_causes(c: Ctx) -> Outcome {
    let mut body = super::fixtures::deployment("a");
    body["spec"]["replicas"] = json!(-1);
    let reply = c.post(&c.group("apps/v1", "deployments"), &body).await?;
    let message = "Invalid value: -1: must be greater than or equal to 0";
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("Deployment.apps \"a\" is invalid: spec.replicas: {message}"), "reason": "Invalid",
        "details": {"name": "a", "group": "apps", "kind": "Deployment",
            "causes": [{"reason": "FieldValueInvalid", "message": message, "field": "spec.replicas"}]}, "code": 422});
    reply.is("", expected)
}

async fn answers_are_json_without_cache(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("configmaps/none")).await?;
    same("content type", reply.header("content-type"), "application/json")?;
    same("cache control", reply.header("cache-control"), "no-cache, private")
}
