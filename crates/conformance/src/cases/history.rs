use super::{fixtures::secret, read::version_of};
use crate::{Ctx, Look, Outcome, reply::holds};
use serde_json::json;

area!("history":
    watch_from_a_forgotten_version_is_gone,
    list_of_a_forgotten_version_is_gone,
    old_continue_token_is_expired,
    expired_token_offers_another,
    objects_survive_a_restart,
    versions_go_on_after_a_restart,
    watch_goes_on_after_a_restart,
);

/// Enough writes that a version before them is no longer known after forgetting.
async fn write_and_forget(c: &Ctx) -> Result<Ctx, crate::Failure> {
    for name in ["x", "y", "z"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
        c.delete(&c.core(&format!("secrets/{name}"))).await?.ok(200)?;
    }
    c.compact().await;
    let c = c.reconnect();
    c.create(&c.core("secrets"), &secret("after")).await?;
    Ok(c)
}

async fn watch_from_a_forgotten_version_is_gone(c: Ctx) -> Outcome {
    let version = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    let c = write_and_forget(&c).await?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={version}"))).await?;
    let error = watch.expect_error(410, "Expired").await?;
    error.contains("/message", "too old resource version: ")?;
    watch.expect_end().await
}

async fn list_of_a_forgotten_version_is_gone(c: Ctx) -> Outcome {
    let version = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    let c = write_and_forget(&c).await?;
    let reply =
        c.get(&c.core(&format!("secrets?resourceVersion={version}&resourceVersionMatch=Exact"))).await?;
    reply.refused(410, "Expired", "The resourceVersion for the provided list is too old.")?;
    c.get(&c.core(&format!("secrets?resourceVersion={version}"))).await?.ok(200)?.names_are(&["a", "after"])
}

async fn old_continue_token_is_expired(c: Ctx) -> Outcome {
    for name in ["a", "b", "c"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let token = c.get(&c.core("secrets?limit=1")).await?.ok(200)?.text("/metadata/continue");
    let c = write_and_forget(&c).await?;
    let reply = c.get(&c.core(&format!("secrets?limit=1&continue={token}"))).await?;
    reply.refused_about(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result.",
    )?;
    Ok(())
}

async fn expired_token_offers_another(c: Ctx) -> Outcome {
    for name in ["a", "b", "c"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let token = c.get(&c.core("secrets?limit=1")).await?.ok(200)?.text("/metadata/continue");
    let c = write_and_forget(&c).await?;
    let reply = c.get(&c.core(&format!("secrets?limit=1&continue={token}"))).await?.ok(410)?;
    let other = reply.text("/metadata/continue");
    holds("another token is given", !other.is_empty() && other != token)?;
    let rest = c.get(&c.core(&format!("secrets?limit=2&continue={other}"))).await?.ok(200)?;
    rest.names_are(&["after", "b"])
}

async fn objects_survive_a_restart(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let c = c.restart().await;
    c.get(&c.core("secrets/a")).await?.ok(200)?.is("", made)
}

async fn versions_go_on_after_a_restart(c: Ctx) -> Outcome {
    let before = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    let c = c.restart().await;
    let patch = json!({"data": {"key": "bmV3"}});
    let after = version_of(&c.merge_patch(&c.core("secrets/a"), &patch).await?.ok(200)?.json)?;
    holds("versions never go back", after > before)
}

async fn watch_goes_on_after_a_restart(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let c = c.restart().await;
    let start = c.get(&c.core("secrets")).await?.ok(200)?.text("/metadata/resourceVersion");
    c.create(&c.core("secrets"), &secret("b")).await?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={start}"))).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}
