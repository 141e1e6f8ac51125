use super::fixtures::{config_map, deployment};
use crate::{Ctx, Look, Outcome, reply::holds};
use http::Method;
use serde_json::json;

area!("dry run":
    create_stores_nothing,
    create_tells_of_conflicts,
    create_is_validated,
    update_changes_nothing,
    patch_changes_nothing,
    delete_removes_nothing,
    delete_by_options_removes_nothing,
    collection_stays,
    unknown_value_is_refused,
);

async fn create_stores_nothing(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps?dryRun=All"), &config_map("a")).await?;
    made.has("/metadata/uid")?;
    made.has("/metadata/creationTimestamp")?;
    made.lacks("/metadata/resourceVersion")?;
    made.is("/data/key", "value")?;
    c.get(&c.core("configmaps/a")).await?.ok(404)?;
    Ok(())
}

async fn create_tells_of_conflicts(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.post(&c.core("configmaps?dryRun=All"), &config_map("a")).await?;
    reply.refused(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    Ok(())
}

async fn create_is_validated(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["selector"] = json!({"matchLabels": {"other": "x"}});
    let reply = c.post(&c.group("apps/v1", "deployments?dryRun=All"), &body).await?;
    reply.refused_about(422, "Invalid", "`selector` does not match template `labels`")?;
    Ok(())
}

async fn update_changes_nothing(c: Ctx) -> Outcome {
    let mut made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let version = made["metadata"]["resourceVersion"].clone();
    made["data"]["key"] = json!("other");
    let reply = c.put(&c.core("configmaps/a?dryRun=All"), &made).await?.ok(200)?;
    reply.is("/data/key", "other")?;
    reply.is("/metadata/resourceVersion", version.clone())?;
    let read = c.get(&c.core("configmaps/a")).await?.ok(200)?;
    read.is("/data/key", "value")?;
    read.is("/metadata/resourceVersion", version)
}

async fn patch_changes_nothing(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let patch = json!({"data": {"key": "other"}});
    c.merge_patch(&c.core("configmaps/a?dryRun=All"), &patch).await?.ok(200)?.is("/data/key", "other")?;
    c.get(&c.core("configmaps/a")).await?.is("/data/key", "value")
}

async fn delete_removes_nothing(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    c.delete(&c.core("configmaps/a?dryRun=All")).await?.ok(200)?.is("/status", "Success")?;
    c.get(&c.core("configmaps/a")).await?.ok(200)?.lacks("/metadata/deletionTimestamp")
}

async fn delete_by_options_removes_nothing(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    c.delete_with(&c.core("configmaps/a"), &options).await?.ok(200)?;
    c.get(&c.core("configmaps/a")).await?.ok(200)?.is("/metadata/name", "a")
}

async fn collection_stays(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    c.request(Method::DELETE, &c.core("configmaps?dryRun=All")).send().await?.ok(200)?;
    let names = c.get(&c.core("configmaps")).await?.ok(200)?.names();
    holds("the object is still there", names.contains(&"a".to_owned()))
}

async fn unknown_value_is_refused(c: Ctx) -> Outcome {
    let reply = c.post(&c.core("configmaps?dryRun=Some"), &config_map("a")).await?;
    reply.refused(
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
    )?;
    reply.details("CreateOptions", "meta.k8s.io", "")?;
    Ok(())
}
