use super::fixtures::{config_map, crd, crd_group, deployment, node, pod, thing};
use crate::{Ctx, Look, Outcome};
use http::Method;
use serde_json::json;

area!("merge patch":
    merges_maps_and_removes_nulls,
    replaces_lists,
    stale_version_in_the_patch_conflicts,
    right_version_in_the_patch_is_fine,
    of_absent_is_not_found,
    cannot_rename,
    broken_patch_is_refused,
    result_is_validated;
"json patch":
    adds_replaces_and_removes,
    test_guards_the_rest,
    failing_test_is_refused,
    test_of_absent_against_null_holds,
    removing_what_is_not_there_is_refused,
    bad_path_is_refused,
    unknown_operation_is_refused,
    that_is_no_list_is_refused,
    guards_by_resource_version,
    appends_with_a_dash;
"strategic merge patch":
    merges_containers_by_name,
    deletes_a_container_by_directive,
    replaces_a_list_by_directive,
    merges_env_by_name,
    merges_finalizers_as_a_set,
    deletes_from_a_primitive_list,
    merges_taints_by_key,
    replaces_tolerations,
    merges_conditions_by_type,
    null_removes_a_field,
    retains_keys_of_a_union,
    keeps_the_order_that_is_asked_for;
"patch":
    content_type_json_is_not_supported,
    custom_kind_has_no_strategic_merge,
    on_a_collection_is_not_allowed,
);

async fn merges_maps_and_removes_nulls(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"] = json!({"keep": "1", "drop": "2", "change": "3"});
    c.create(&c.core("configmaps"), &body).await?;
    let patch = json!({"data": {"drop": null, "change": "4", "new": "5", "absent": null}});
    let reply = c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/data", json!({"keep": "1", "change": "4", "new": "5"}))
}

async fn replaces_lists(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let patch = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    c.merge_patch(&c.core("pods/a"), &patch).await?.ok(200)?;
    let patch = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let reply = c.merge_patch(&c.core("pods/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["example.com/b"]))?;
    c.merge_patch(&c.core("pods/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn stale_version_in_the_patch_conflicts(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch =
        json!({"data": {"key": "one"}, "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}});
    c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    let reply = c.merge_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused_about(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified",
    )?;
    Ok(())
}

async fn right_version_in_the_patch_is_fine(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch =
        json!({"data": {"key": "one"}, "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}});
    c.merge_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.is("/data/key", "one")
}

async fn of_absent_is_not_found(c: Ctx) -> Outcome {
    let reply = c.merge_patch(&c.core("configmaps/a"), &json!({"data": {}})).await?;
    reply.refused(404, "NotFound", "configmaps \"a\" not found")?;
    Ok(())
}

async fn cannot_rename(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await?;
    reply.refused(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")?;
    Ok(())
}

async fn broken_patch_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let path = c.core("configmaps/a");
    let request = c.request(Method::PATCH, &path).body("application/merge-patch+json", "{\"data\":");
    request.send().await?.refused_about(400, "BadRequest", "unexpected end of JSON input")?;
    Ok(())
}

async fn result_is_validated(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply =
        c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"labels": {"a": "no spaces"}}})).await?;
    reply.refused_about(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"no spaces\"",
    )?;
    reply.causes(&[(
        "FieldValueInvalid",
        "metadata.labels",
        "a valid label must be an empty string or consist of",
    )])?;
    Ok(())
}

async fn adds_replaces_and_removes(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"] = json!({"one": "1", "two": "2"});
    c.create(&c.core("configmaps"), &body).await?;
    let patch = json!([{"op": "add", "path": "/data/three", "value": "3"},
        {"op": "replace", "path": "/data/one", "value": "I"}, {"op": "remove", "path": "/data/two"},
        {"op": "copy", "from": "/data/one", "path": "/data/copy"}, {"op": "move", "from": "/data/three", "path": "/data/3"},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/a": "b"}},
        {"op": "replace", "path": "/metadata/labels/example.com~1a", "value": "c"}]);
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/data", json!({"one": "I", "copy": "I", "3": "3"}))?;
    reply.is("/metadata/labels", json!({"example.com/a": "c"}))
}

async fn test_guards_the_rest(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "test", "path": "/data/key", "value": "value"},
        {"op": "replace", "path": "/data/key", "value": "other"}]);
    c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.is("/data/key", "other")
}

async fn failing_test_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "test", "path": "/data/key", "value": "wrong"},
        {"op": "replace", "path": "/data/key", "value": "other"}]);
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused(422, "Invalid", "the server rejected our request due to an error in our request")?;
    c.get(&c.core("configmaps/a")).await?.is("/data/key", "value")
}

async fn test_of_absent_against_null_holds(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]}]);
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["example.com/a"]))?;
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused_about(422, "Invalid", "")?;
    let patch = json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/a"},
        {"op": "remove", "path": "/metadata/finalizers/0"}]);
    c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?.lacks("/metadata/finalizers")
}

async fn removing_what_is_not_there_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply =
        c.json_patch(&c.core("configmaps/a"), &json!([{"op": "remove", "path": "/data/nothing"}])).await?;
    reply.refused(422, "Invalid", "the server rejected our request due to an error in our request")?;
    Ok(())
}

async fn bad_path_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "replace", "path": "/nothing/below", "value": 1}]);
    c.json_patch(&c.core("configmaps/a"), &patch).await?.refused_about(
        422,
        "Invalid",
        "the server rejected our request",
    )?;
    Ok(())
}

async fn unknown_operation_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "twist", "path": "/data/key", "value": "x"}]);
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused_about(422, "Invalid", "the server rejected our request")?;
    Ok(())
}

async fn that_is_no_list_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.json_patch(&c.core("configmaps/a"), &json!({"data": {"key": "x"}})).await?;
    reply.refused_about(
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal object into Go value of type",
    )?;
    Ok(())
}

async fn guards_by_resource_version(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/data/key", "value": "x"}]);
    c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?;
    reply.refused_about(409, "Conflict", "the object has been modified")?;
    Ok(())
}

async fn appends_with_a_dash(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/a"]);
    c.create(&c.core("configmaps"), &body).await?;
    let patch = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
        {"op": "add", "path": "/metadata/finalizers/1", "value": "example.com/b"}]);
    let reply = c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["example.com/a", "example.com/b", "example.com/c"]))?;
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    c.json_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    Ok(())
}

const PODS: &str = "/spec/template/spec";

async fn merges_containers_by_name(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    let path = c.group("apps/v1", "deployments/a");
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/app:2"}, {"name": "side", "image": "registry.example/side:1"}]}}}});
    let reply = c.strategic_patch(&path, &patch).await?.ok(200)?;
    let image = |reply: &crate::Reply, name: &str| {
        let containers = reply.at(&format!("{PODS}/containers")).as_array().cloned().unwrap_or_default();
        containers.iter().find(|one| one["name"] == name).map(|one| one.text("/image")).unwrap_or_default()
    };
    crate::reply::same("main", image(&reply, "main").as_str(), "registry.example/app:2")?;
    crate::reply::same("side", image(&reply, "side").as_str(), "registry.example/side:1")
}

async fn deletes_a_container_by_directive(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["spec"]["containers"] = json!([{"name": "main", "image": "registry.example/app:1"}, {"name": "side", "image": "registry.example/side:1"}]);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/containers/0/name"), "main")?;
    reply.lacks(&format!("{PODS}/containers/1"))
}

async fn replaces_a_list_by_directive(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "only", "image": "registry.example/only:1"}, {"$patch": "replace"}]}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/containers/0/name"), "only")?;
    reply.lacks(&format!("{PODS}/containers/1"))
}

async fn merges_env_by_name(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main",
        "env": [{"name": "B", "value": "two"}, {"name": "A", "$patch": "delete"}]}]}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/containers/0/env"), json!([{"name": "B", "value": "two"}]))?;
    reply.is(&format!("{PODS}/containers/0/image"), "registry.example/app:1")
}

async fn merges_finalizers_as_a_set(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/a"]);
    c.create(&c.core("configmaps"), &body).await?;
    let patch = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    let reply = c.strategic_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["example.com/a", "example.com/b"]))?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn deletes_from_a_primitive_list(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    c.create(&c.core("configmaps"), &body).await?;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let reply = c.strategic_patch(&c.core("configmaps/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["example.com/b"]))?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn merges_taints_by_key(c: Ctx) -> Outcome {
    let mut body = node(&c.ns);
    body["spec"] = json!({"taints": [{"key": "example.com/a", "effect": "NoSchedule"}]});
    c.create_shared("/api/v1/nodes", &body).await?;
    let path = format!("/api/v1/nodes/{}", c.ns);
    let patch = json!({"spec": {"taints": [{"key": "example.com/a", "effect": "NoExecute", "value": "x"},
        {"key": "example.com/b", "effect": "NoSchedule"}]}});
    let reply = c.strategic_patch(&path, &patch).await?.ok(200)?;
    let taints = reply.at("/spec/taints").as_array().cloned().unwrap_or_default();
    let of = |key: &str| taints.iter().filter(|taint| taint["key"] == key).cloned().collect::<Vec<_>>();
    crate::reply::same(
        "a",
        of("example.com/a"),
        vec![json!({"key": "example.com/a", "effect": "NoExecute", "value": "x"})],
    )?;
    crate::reply::same(
        "b",
        of("example.com/b"),
        vec![json!({"key": "example.com/b", "effect": "NoSchedule"})],
    )
}

async fn replaces_tolerations(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch =
        json!({"spec": {"template": {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/tolerations"), json!([{"key": "b", "operator": "Exists"}]))
}

async fn merges_conditions_by_type(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let path = format!("/api/v1/nodes/{}/status", c.ns);
    let one = json!({"status": {"conditions": [{"type": "Example", "status": "True", "reason": "A"}, {"type": "Other", "status": "False"}]}});
    c.strategic_patch(&path, &one).await?.ok(200)?;
    let two = json!({"status": {"conditions": [{"type": "Example", "status": "False"}]}});
    let reply = c.strategic_patch(&path, &two).await?.ok(200)?;
    let conditions = reply.at("/status/conditions").as_array().cloned().unwrap_or_default();
    let example = conditions.iter().find(|one| one["type"] == "Example").cloned().unwrap_or_default();
    example.is("/status", "False")?;
    example.is("/reason", "A")?;
    crate::reply::holds("the other is kept", conditions.iter().any(|one| one["type"] == "Other"))
}

async fn null_removes_a_field(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b", "c": "d"});
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": null}}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/nodeSelector"), json!({"c": "d"}))?;
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.lacks(&format!("{PODS}/nodeSelector"))
}

async fn retains_keys_of_a_union(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is("/spec/strategy", json!({"type": "Recreate"}))
}

async fn keeps_the_order_that_is_asked_for(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["spec"]["containers"] = json!([{"name": "main", "image": "registry.example/app:1"}, {"name": "side", "image": "registry.example/side:1"}]);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
        "containers": [{"name": "side", "image": "registry.example/side:2"}]}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "deployments/a"), &patch).await?.ok(200)?;
    reply.is(&format!("{PODS}/containers/0/image"), "registry.example/side:2")?;
    reply.is(&format!("{PODS}/containers/1/name"), "main")
}

async fn content_type_json_is_not_supported(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.patch(&c.core("configmaps/a"), "application/json", &json!({"data": {}})).await?;
    reply.refused_about(415, "UnsupportedMediaType", "415: Unsupported Media Type")?;
    Ok(())
}

async fn custom_kind_has_no_strategic_merge(c: Ctx) -> Outcome {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    super::fixtures::install(&c, &crd(&c.ns, &schema)).await?;
    let things = c.group(&format!("{}/v1", crd_group(&c.ns)), "things");
    c.create(&things, &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    let reply = c.strategic_patch(&format!("{things}/one"), &json!({"spec": {"a": "c"}})).await?;
    reply.refused_about(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json",
    )?;
    c.merge_patch(&format!("{things}/one"), &json!({"spec": {"a": "c"}})).await?.ok(200)?.is("/spec/a", "c")
}

async fn on_a_collection_is_not_allowed(c: Ctx) -> Outcome {
    let reply = c.merge_patch(&c.core("configmaps"), &json!({"data": {}})).await?;
    reply.refused(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )?;
    Ok(())
}
