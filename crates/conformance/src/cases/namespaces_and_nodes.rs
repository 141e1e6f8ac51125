use super::fixtures::{config_map, node};
use crate::{Ctx, Look, Outcome};
use serde_json::{Value, json};

area!("namespace":
    is_active_and_labelled,
    label_cannot_be_changed,
    deletion_begins_terminating,
    terminating_refuses_new_objects,
    goes_with_its_last_finalizer,
    default_cannot_be_deleted,
    name_is_a_label;
"node":
    new_node_is_tainted,
    own_taints_are_kept,
    status_and_conditions,
    cordon,
    invalid_taints_are_refused,
    provider_id_is_set_once,
    capacity_becomes_allocatable,
    name_is_validated,
);

async fn is_active_and_labelled(c: Ctx) -> Outcome {
    let read = c.get(&format!("/api/v1/namespaces/{}", c.ns)).await?.ok(200)?;
    read.is("/status/phase", "Active")?;
    read.is("/spec/finalizers", json!(["kubernetes"]))?;
    read.is("/metadata/labels", json!({"kubernetes.io/metadata.name": c.ns}))
}

async fn label_cannot_be_changed(c: Ctx) -> Outcome {
    let path = format!("/api/v1/namespaces/{}", c.ns);
    let patch = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": null, "a": "b"}}});
    let reply = c.merge_patch(&path, &patch).await?.ok(200)?;
    reply.is("/metadata/labels", json!({"kubernetes.io/metadata.name": c.ns, "a": "b"}))
}

async fn another(c: &Ctx) -> Result<String, crate::Failure> {
    let name = format!("z-{}", c.ns);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    c.create("/api/v1/namespaces", &body).await?;
    Ok(name)
}

async fn deletion_begins_terminating(c: Ctx) -> Outcome {
    let path = format!("/api/v1/namespaces/{}", another(&c).await?);
    let reply = c.delete(&path).await?.ok(200)?;
    reply.is("/kind", "Namespace")?;
    reply.is("/status/phase", "Terminating")?;
    reply.has("/metadata/deletionTimestamp")?;
    reply.is("/spec/finalizers", json!(["kubernetes"]))
}

async fn terminating_refuses_new_objects(c: Ctx) -> Outcome {
    let name = another(&c).await?;
    let inside = format!("/api/v1/namespaces/{name}/configmaps");
    let mut kept = config_map("kept");
    kept["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(&inside, &kept).await?;
    c.delete(&format!("/api/v1/namespaces/{name}")).await?.ok(200)?;
    let reply = c.post(&inside, &config_map("late")).await?;
    reply.refused(
        403,
        "Forbidden",
        &format!("configmaps \"late\" is forbidden: unable to create new content in namespace {name} because it is being terminated"),
    )?;
    reply.causes(&[(
        "NamespaceTerminating",
        "metadata.namespace",
        &format!("namespace {name} is being terminated"),
    )])?;
    c.merge_patch(&format!("{inside}/kept"), &json!({"data": {"key": "still"}})).await?.ok(200)?;
    c.merge_patch(&format!("{inside}/kept"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn goes_with_its_last_finalizer(c: Ctx) -> Outcome {
    let name = format!("z-{}", c.ns);
    let path = format!("/api/v1/namespaces/{name}");
    let with = |finalizers: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": finalizers}});
    // One of its own beside the usual one: whoever empties namespaces here does not end this one.
    let made = c.create("/api/v1/namespaces", &with(json!(["example.com/held"]))).await?;
    made.is("/spec/finalizers", json!(["example.com/held", "kubernetes"]))?;
    c.delete(&path).await?.ok(200)?.is("/status/phase", "Terminating")?;
    let finalize = format!("{path}/finalize");
    let reply = c.put(&finalize, &with(json!(["example.com/held"]))).await?.ok(200)?;
    reply.is("/spec/finalizers", json!(["example.com/held"]))?;
    c.get(&path).await?.ok(200)?;
    c.put(&finalize, &with(json!([]))).await?.ok(200)?;
    c.get(&path).await?.refused(404, "NotFound", &format!("namespaces \"{name}\" not found"))?;
    Ok(())
}

async fn default_cannot_be_deleted(c: Ctx) -> Outcome {
    for name in ["default", "kube-system", "kube-public"] {
        let reply = c.delete(&format!("/api/v1/namespaces/{name}")).await?;
        reply.refused(
            403,
            "Forbidden",
            &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
        )?;
    }
    Ok(())
}

async fn name_is_a_label(c: Ctx) -> Outcome {
    let body =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}.dot", c.ns)}});
    let reply = c.post("/api/v1/namespaces", &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        &format!("metadata.name: Invalid value: \"{}.dot\": must not contain dots", c.ns),
    )?;
    Ok(())
}

fn nodes(c: &Ctx) -> String {
    format!("/api/v1/nodes/{}", c.ns)
}

async fn new_node_is_tainted(c: Ctx) -> Outcome {
    let made = c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    made.is("/spec/taints", json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]))?;
    made.is("/status/nodeInfo/kubeletVersion", "")?;
    made.is("/status/daemonEndpoints/kubeletEndpoint/Port", 0)
}

async fn own_taints_are_kept(c: Ctx) -> Outcome {
    let mut body = node(&c.ns);
    body["spec"] = json!({"taints": [{"key": "example.com/a", "value": "b", "effect": "NoExecute"}], "providerID": "stackit://p/s"});
    let made = c.create_shared("/api/v1/nodes", &body).await?;
    made.is("/spec/taints/0/key", "example.com/a")?;
    made.is("/spec/taints/1/key", "node.kubernetes.io/not-ready")?;
    made.is("/spec/providerID", "stackit://p/s")
}

async fn status_and_conditions(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let reply = c.strategic_patch(&format!("{}/status", nodes(&c)), &patch).await?.ok(200)?;
    reply.is("/status/conditions/0/reason", "KubeletReady")?;
    reply.is("/status/conditions/0/lastHeartbeatTime", json!(null))?;
    reply.is("/status/addresses/0/address", "10.0.0.1")
}

async fn cordon(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let reply = c.strategic_patch(&nodes(&c), &json!({"spec": {"unschedulable": true}})).await?.ok(200)?;
    reply.is("/spec/unschedulable", true)?;
    let reply = c.strategic_patch(&nodes(&c), &json!({"spec": {"unschedulable": null}})).await?.ok(200)?;
    reply.lacks("/spec/unschedulable")
}

async fn invalid_taints_are_refused(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let taints = |list: Value| json!({"spec": {"taints": list}});
    let reply = c.merge_patch(&nodes(&c), &taints(json!([{"key": "a", "effect": "Sometimes"}]))).await?;
    reply.refused_about(422, "Invalid", "taints[0].effect: Unsupported value: \"Sometimes\"")?;
    let twice = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]);
    let reply = c.merge_patch(&nodes(&c), &taints(twice)).await?;
    reply.refused_about(422, "Invalid", "taints[1]: Duplicate value")?;
    Ok(())
}

async fn provider_id_is_set_once(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let id = |id: &str| json!({"spec": {"providerID": id}});
    c.merge_patch(&nodes(&c), &id("stackit://p/one"))
        .await?
        .ok(200)?
        .is("/spec/providerID", "stackit://p/one")?;
    let reply = c.merge_patch(&nodes(&c), &id("stackit://p/two")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
    )?;
    Ok(())
}

async fn capacity_becomes_allocatable(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let patch = json!({"status": {"capacity": {"cpu": "4", "memory": "8192Mi"}}});
    let reply = c.merge_patch(&format!("{}/status", nodes(&c)), &patch).await?.ok(200)?;
    reply.is("/status/capacity", json!({"cpu": "4", "memory": "8Gi"}))?;
    reply.is("/status/allocatable", json!({"cpu": "4", "memory": "8Gi"}))
}

async fn name_is_validated(c: Ctx) -> Outcome {
    let reply = c.post("/api/v1/nodes", &node("Node_One")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "Node \"Node_One\" is invalid: metadata.name: Invalid value: \"Node_One\"",
    )?;
    Ok(())
}
