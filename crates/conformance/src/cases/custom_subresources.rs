use super::{
    custom::{things, with_schema},
    fixtures::{crd, install, thing},
};
use crate::{Ctx, Look, Outcome};
use serde_json::{Value, json};

area!("custom subresources":
    status_is_apart,
    status_update_changes_only_status,
    without_status_subresource_there_is_no_path,
    scale_reads_and_writes,
    scale_without_replicas,
);

async fn with_subresources(c: &Ctx, subresources: Value) -> Outcome {
    let mut definition = crd(
        &c.ns,
        &json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "a": {"type": "string"}}}),
    );
    definition["spec"]["versions"][0]["subresources"] = subresources;
    install(c, &definition).await?;
    Ok(())
}

async fn status_is_apart(c: Ctx) -> Outcome {
    with_subresources(&c, json!({"status": {}})).await?;
    let mut body = thing(&c.ns, "one", &json!({"a": "1"}));
    body["status"] = json!({"phase": "Early"});
    c.create(&things(&c), &body).await?.lacks("/status")?;
    let path = format!("{}/one", things(&c));
    let reply =
        c.merge_patch(&path, &json!({"spec": {"a": "2"}, "status": {"phase": "Wrong"}})).await?.ok(200)?;
    reply.is("/spec/a", "2")?;
    reply.lacks("/status")?;
    c.get(&format!("{path}/status")).await?.ok(200)?.is("/metadata/name", "one")
}

async fn status_update_changes_only_status(c: Ctx) -> Outcome {
    with_subresources(&c, json!({"status": {}})).await?;
    let mut object = c.create(&things(&c), &thing(&c.ns, "one", &json!({"a": "1"}))).await?;
    object["spec"]["a"] = json!("2");
    object["status"] = json!({"phase": "Ready"});
    object["metadata"]["labels"] = json!({"x": "y"});
    let reply = c.put(&format!("{}/one/status", things(&c)), &object).await?.ok(200)?;
    reply.is("/spec/a", "1")?;
    reply.is("/status/phase", "Ready")?;
    reply.lacks("/metadata/labels")?;
    reply.is("/metadata/generation", 1)
}

async fn without_status_subresource_there_is_no_path(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string"}})).await?;
    let mut body = thing(&c.ns, "one", &json!({"a": "1"}));
    body["status"] = json!({"phase": "Free"});
    c.create(&things(&c), &body).await?.is("/status/phase", "Free")?;
    let path = format!("{}/one", things(&c));
    c.get(&format!("{path}/status")).await?.ok(404)?;
    let reply = c.merge_patch(&path, &json!({"status": {"phase": "Other"}})).await?.ok(200)?;
    reply.is("/status/phase", "Other")?;
    reply.is("/metadata/generation", 2)
}

async fn scaled(c: &Ctx) -> Outcome {
    with_subresources(
        c,
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}),
    )
    .await
}

async fn scale_reads_and_writes(c: Ctx) -> Outcome {
    scaled(&c).await?;
    c.create(&things(&c), &thing(&c.ns, "one", &json!({"replicas": 2}))).await?;
    let path = format!("{}/one", things(&c));
    let status = json!({"status": {"replicas": 1, "selector": "app=x"}});
    c.merge_patch(&format!("{path}/status"), &status).await?.ok(200)?;
    let mut scale = c.get(&format!("{path}/scale")).await?.ok(200)?.json;
    scale.is("/kind", "Scale")?;
    scale.is("/apiVersion", "autoscaling/v1")?;
    scale.is("/spec/replicas", 2)?;
    scale.is("/status", json!({"replicas": 1, "selector": "app=x"}))?;
    scale["spec"]["replicas"] = json!(5);
    c.put(&format!("{path}/scale"), &scale).await?.ok(200)?.is("/spec/replicas", 5)?;
    let read = c.get(&path).await?.ok(200)?;
    read.is("/spec/replicas", 5)?;
    read.is("/metadata/generation", 2)?;
    c.merge_patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 7}})).await?.ok(200)?;
    c.get(&path).await?.is("/spec/replicas", 7)
}

async fn scale_without_replicas(c: Ctx) -> Outcome {
    scaled(&c).await?;
    c.create(&things(&c), &thing(&c.ns, "one", &json!({}))).await?;
    let reply = c.get(&format!("{}/one/scale", things(&c))).await?;
    reply.refused_about(500, "InternalError", "the spec replicas field \".spec.replicas\" does not exist")?;
    Ok(())
}
