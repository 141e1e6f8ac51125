use super::fixtures::{
    bound_pod, config_map, crd, crd_group, deployment, install, labelled, node, secret, thing,
};
use crate::{
    Ctx, Look, Outcome, Reply,
    reply::{holds, same},
};
use serde_json::{Value, json};

area!("table":
    of_a_list,
    of_one_object,
    pods_show_readiness,
    pods_show_why_they_wait,
    nodes_show_status_and_roles,
    deployments_show_replicas,
    secrets_and_config_maps_count_data,
    custom_kind_shows_its_columns,
    custom_kind_without_columns_shows_age,
    include_object_none_and_object,
    unknown_include_object_is_refused,
    pages_carry_over;
"metadata only":
    get_of_one,
    list_of_many,
    list_of_a_custom_kind,
);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn columns(reply: &Reply) -> Vec<(String, i64)> {
    let columns = reply.at("/columnDefinitions").as_array().cloned().unwrap_or_default();
    columns.iter().map(|one| (one.text("/name"), one["priority"].as_i64().unwrap_or(-1))).collect()
}

fn has_columns(reply: &Reply, expected: &[(&str, i64)]) -> Outcome {
    let expected: Vec<_> = expected.iter().map(|(name, priority)| ((*name).to_owned(), *priority)).collect();
    same("columns", columns(reply), expected)
}

async fn of_a_list(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get_as(&c.core("secrets"), TABLE).await?.ok(200)?;
    reply.is("/kind", "Table")?;
    reply.is("/apiVersion", "meta.k8s.io/v1")?;
    reply.has("/metadata/resourceVersion")?;
    reply.is("/columnDefinitions/0/name", "Name")?;
    reply.is("/columnDefinitions/0/type", "string")?;
    reply.is("/columnDefinitions/0/format", "name")?;
    reply.is("/rows/0/cells/0", "a")?;
    reply.is("/rows/0/object/kind", "PartialObjectMetadata")?;
    reply.is("/rows/0/object/apiVersion", "meta.k8s.io/v1")?;
    reply.is("/rows/0/object/metadata/name", "a")
}

async fn of_one_object(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get_as(&c.core("secrets/a"), TABLE).await?.ok(200)?;
    reply.is("/kind", "Table")?;
    reply.is("/metadata/resourceVersion", made["metadata"]["resourceVersion"].clone())?;
    reply.is("/rows/0/cells/0", "a")?;
    reply.lacks("/rows/1")
}

async fn pods_show_readiness(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}]}});
    c.merge_patch(&c.core("pods/a/status"), &status).await?.ok(200)?;
    let reply = c.get_as(&c.core("pods/a"), TABLE).await?.ok(200)?;
    has_columns(
        &reply,
        &[
            ("Name", 0),
            ("Ready", 0),
            ("Status", 0),
            ("Restarts", 0),
            ("Age", 0),
            ("IP", 1),
            ("Node", 1),
            ("Nominated Node", 1),
            ("Readiness Gates", 1),
        ],
    )?;
    for (cell, expected) in
        [(0, "a"), (1, "1/1"), (2, "Running"), (3, "2"), (5, "10.1.2.3"), (6, "no-such-node"), (7, "<none>")]
    {
        reply.is(&format!("/rows/0/cells/{cell}"), expected)?;
    }
    c.delete(&c.core("pods/a")).await?.ok(200)?;
    c.get_as(&c.core("pods/a"), TABLE).await?.is("/rows/0/cells/2", "Terminating")?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn pods_show_why_they_wait(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let reply = c.get_as(&c.core("pods/a"), TABLE).await?.ok(200)?;
    reply.is("/rows/0/cells/1", "0/1")?;
    reply.is("/rows/0/cells/2", "Pending")?;
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "main", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    c.merge_patch(&c.core("pods/a/status"), &status).await?.ok(200)?;
    c.get_as(&c.core("pods/a"), TABLE).await?.is("/rows/0/cells/2", "ImagePullBackOff")?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn nodes_show_status_and_roles(c: Ctx) -> Outcome {
    let labels = json!({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""});
    let mut body = labelled(node(&c.ns), &labels);
    body["spec"] = json!({"unschedulable": true});
    c.create_shared("/api/v1/nodes", &body).await?;
    let path = format!("/api/v1/nodes/{}", c.ns);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux Test", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2",
            "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    c.merge_patch(&format!("{path}/status"), &status).await?.ok(200)?;
    let reply = c.get_as(&path, TABLE).await?.ok(200)?;
    has_columns(
        &reply,
        &[
            ("Name", 0),
            ("Status", 0),
            ("Roles", 0),
            ("Age", 0),
            ("Version", 0),
            ("Internal-IP", 1),
            ("External-IP", 1),
            ("OS-Image", 1),
            ("Kernel-Version", 1),
            ("Container-Runtime", 1),
        ],
    )?;
    reply.is("/rows/0/cells/1", "Ready,SchedulingDisabled")?;
    reply.is("/rows/0/cells/2", "edge,worker")?;
    reply.is("/rows/0/cells/4", "v1.36.3")?;
    reply.is("/rows/0/cells/5", "10.0.0.1")?;
    reply.is("/rows/0/cells/6", "<none>")?;
    reply.is("/rows/0/cells/7", "Linux Test")
}

async fn deployments_show_replicas(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["paused"] = json!(true);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let reply = c.get_as(&c.group("apps/v1", "deployments/a"), TABLE).await?.ok(200)?;
    has_columns(
        &reply,
        &[
            ("Name", 0),
            ("Ready", 0),
            ("Up-to-date", 0),
            ("Available", 0),
            ("Age", 0),
            ("Containers", 1),
            ("Images", 1),
            ("Selector", 1),
        ],
    )?;
    reply.is("/rows/0/cells/1", "0/0")?;
    reply.is("/rows/0/cells/2", 0)?;
    reply.is("/rows/0/cells/5", "main")?;
    reply.is("/rows/0/cells/6", "registry.example/app:1")?;
    reply.is("/rows/0/cells/7", "app=a")
}

async fn secrets_and_config_maps_count_data(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get_as(&c.core("secrets/a"), TABLE).await?.ok(200)?;
    has_columns(&reply, &[("Name", 0), ("Type", 0), ("Data", 0), ("Age", 0)])?;
    reply.is("/rows/0/cells/1", "Opaque")?;
    reply.is("/rows/0/cells/2", 1)?;
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.get_as(&c.core("configmaps/a"), TABLE).await?.ok(200)?;
    has_columns(&reply, &[("Name", 0), ("Data", 0), ("Age", 0)])?;
    reply.is("/rows/0/cells/1", 1)
}

fn with_columns(ns: &str) -> Value {
    let mut crd = crd(
        ns,
        &json!({"type": "object", "properties": {"size": {"type": "integer"}, "note": {"type": "string"}}}),
    );
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1, "description": "what it is"},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    crd
}

async fn custom_kind_shows_its_columns(c: Ctx) -> Outcome {
    install(&c, &with_columns(&c.ns)).await?;
    let things = c.group(&format!("{}/v1", crd_group(&c.ns)), "things");
    c.create(&things, &thing(&c.ns, "one", &json!({"size": 3}))).await?;
    let reply = c.get_as(&things, TABLE).await?.ok(200)?;
    has_columns(&reply, &[("Name", 0), ("Size", 0), ("Note", 1), ("Born", 0)])?;
    reply.is("/columnDefinitions/1/type", "integer")?;
    reply.is("/columnDefinitions/2/description", "what it is")?;
    reply.is("/columnDefinitions/3/type", "date")?;
    reply.is("/rows/0/cells/0", "one")?;
    reply.is("/rows/0/cells/1", 3)?;
    reply.is("/rows/0/cells/2", json!(null))?;
    holds("an age is given", reply.text("/rows/0/cells/3").ends_with('s'))
}

async fn custom_kind_without_columns_shows_age(c: Ctx) -> Outcome {
    install(&c, &crd(&c.ns, &json!({"type": "object"}))).await?;
    let things = c.group(&format!("{}/v1", crd_group(&c.ns)), "things");
    c.create(&things, &thing(&c.ns, "one", &json!({}))).await?;
    let reply = c.get_as(&things, TABLE).await?.ok(200)?;
    has_columns(&reply, &[("Name", 0), ("Age", 0)])?;
    reply.is("/rows/0/cells/0", "one")
}

async fn include_object_none_and_object(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get_as(&c.core("secrets?includeObject=None"), TABLE).await?.ok(200)?;
    reply.is("/rows/0/cells/0", "a")?;
    reply.is("/rows/0/object", json!(null))?;
    let reply = c.get_as(&c.core("secrets?includeObject=Object"), TABLE).await?.ok(200)?;
    reply.is("/rows/0/object/kind", "Secret")?;
    reply.is("/rows/0/object/data/key", "dmFsdWU=")
}

async fn unknown_include_object_is_refused(c: Ctx) -> Outcome {
    let reply = c.get_as(&c.core("secrets?includeObject=Everything"), TABLE).await?;
    reply.refused_about(400, "BadRequest", "Everything")?;
    Ok(())
}

async fn pages_carry_over(c: Ctx) -> Outcome {
    for name in ["a", "b", "c"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let page = c.get_as(&c.core("secrets?limit=2"), TABLE).await?.ok(200)?;
    page.is("/metadata/remainingItemCount", 1)?;
    let token = page.text("/metadata/continue");
    let page = c.get_as(&c.core(&format!("secrets?limit=2&continue={token}")), TABLE).await?.ok(200)?;
    page.is("/rows/0/cells/0", "c")
}

async fn get_of_one(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &labelled(secret("a"), &json!({"x": "y"}))).await?;
    let reply = c.get_as(&c.core("secrets/a"), METADATA).await?.ok(200)?;
    reply.is("/kind", "PartialObjectMetadata")?;
    reply.is("/apiVersion", "meta.k8s.io/v1")?;
    reply.is("/metadata", made["metadata"].clone())?;
    reply.lacks("/data")
}

async fn list_of_many(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &labelled(secret("a"), &json!({"x": "y"}))).await?;
    let accept = format!("{METADATA_LIST},application/json");
    let reply = c.get_as(&c.core("secrets"), &accept).await?.ok(200)?;
    reply.is("/kind", "PartialObjectMetadataList")?;
    reply.is("/apiVersion", "meta.k8s.io/v1")?;
    reply.has("/metadata/resourceVersion")?;
    reply.is("/items/0/metadata/labels/x", "y")?;
    reply.lacks("/items/0/data")
}

async fn list_of_a_custom_kind(c: Ctx) -> Outcome {
    install(&c, &crd(&c.ns, &json!({"type": "object"}))).await?;
    let things = c.group(&format!("{}/v1", crd_group(&c.ns)), "things");
    c.create(&things, &thing(&c.ns, "one", &json!({}))).await?;
    let reply = c.get_as(&things, METADATA_LIST).await?.ok(200)?;
    reply.is("/kind", "PartialObjectMetadataList")?;
    reply.names_are(&["one"])?;
    reply.lacks("/items/0/spec")
}
