use super::{
    fixtures::{config_map, labelled, node, secret},
    read::version_of,
};
use crate::{
    Ctx, Look, Outcome,
    reply::{holds, same},
};
use serde_json::json;

area!("watch":
    tells_added_modified_deleted,
    deleted_carries_the_last_state_and_a_new_version,
    from_a_version_replays_what_came_after,
    unset_begins_with_what_is_there,
    zero_begins_with_what_is_there,
    finalized_deletion_is_modified_then_deleted,
    no_change_tells_nothing,
    label_selector_lets_objects_in_and_out,
    field_selector_picks_one_name,
    all_namespaces_are_seen_from_above,
    other_namespaces_are_not_seen,
    cluster_scoped_kind,
    one_object_by_the_old_path,
    timeout_ends_it,
    bookmarks_are_sent_before_the_end,
    initial_events_with_end_mark,
    initial_events_from_zero,
    initial_events_needs_the_match,
    match_needs_initial_events,
    initial_events_without_bookmarks,
    metadata_only,
    metadata_only_bookmark,
    version_too_large_is_an_error,
    version_in_the_future_tells_nothing,
    version_that_is_no_number_is_refused,
    unsupported_field_is_refused,
    status_changes_are_seen,
    events_come_in_the_order_of_versions,
    table_events,
);

async fn tells_added_modified_deleted(c: Ctx) -> Outcome {
    let start = c.get(&c.core("secrets")).await?.text("/metadata/resourceVersion");
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={start}"))).await?;
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let event = watch.expect("ADDED", "a").await?;
    event.is("", made)?;
    event.is("/kind", "Secret")?;
    event.is("/apiVersion", "v1")?;
    let changed = c.merge_patch(&c.core("secrets/a"), &json!({"data": {"key": "bmV3"}})).await?.ok(200)?;
    watch.expect("MODIFIED", "a").await?.is("", changed.json.clone())?;
    c.delete(&c.core("secrets/a")).await?.ok(200)?;
    watch.expect("DELETED", "a").await?.is("/data/key", "bmV3")
}

async fn deleted_carries_the_last_state_and_a_new_version(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let version = version_of(&made)?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={version}"))).await?;
    c.delete(&c.core("secrets/a")).await?.ok(200)?;
    let last = watch.expect("DELETED", "a").await?;
    holds("the version is that of the deletion", version_of(&last)? > version)?;
    last.is("/metadata/uid", made["metadata"]["uid"].clone())
}

async fn from_a_version_replays_what_came_after(c: Ctx) -> Outcome {
    let first = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    c.merge_patch(&c.core("secrets/a"), &json!({"data": {"key": "bmV3"}})).await?.ok(200)?;
    c.delete(&c.core("secrets/b")).await?.ok(200)?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={first}"))).await?;
    watch.expect("ADDED", "b").await?;
    watch.expect("MODIFIED", "a").await?;
    watch.expect("DELETED", "b").await?;
    Ok(())
}

async fn unset_begins_with_what_is_there(c: Ctx) -> Outcome {
    for name in ["b", "a"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let mut watch = c.watch(&c.core("secrets")).await?;
    let mut seen = [watch.next().await?, watch.next().await?];
    seen.sort_by_key(|event| event.text("/object/metadata/name"));
    seen[0].is("/type", "ADDED")?;
    seen[0].is("/object/metadata/name", "a")?;
    seen[1].is("/object/metadata/name", "b")?;
    c.create(&c.core("secrets"), &secret("c")).await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn zero_begins_with_what_is_there(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let mut watch = c.watch(&c.core("secrets?resourceVersion=0")).await?;
    watch.expect("ADDED", "a").await?;
    c.delete(&c.core("secrets/a")).await?.ok(200)?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn finalized_deletion_is_modified_then_deleted(c: Ctx) -> Outcome {
    let mut body = secret("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let version = version_of(&c.create(&c.core("secrets"), &body).await?)?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={version}"))).await?;
    c.delete(&c.core("secrets/a")).await?.ok(200)?;
    watch.expect("MODIFIED", "a").await?.has("/metadata/deletionTimestamp")?;
    c.merge_patch(&c.core("secrets/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    let last = watch.expect("DELETED", "a").await?;
    last.has("/metadata/deletionTimestamp")
}

async fn no_change_tells_nothing(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let mut watch = c.watch(&c.core(&format!("secrets?resourceVersion={}", version_of(&made)?))).await?;
    c.put(&c.core("secrets/a"), &made).await?.ok(200)?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn label_selector_lets_objects_in_and_out(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let query = format!("secrets?labelSelector=in%3Dyes&resourceVersion={}", version_of(&made)?);
    let mut watch = c.watch(&c.core(&query)).await?;
    let patch = |labels| json!({"metadata": {"labels": labels}});
    c.merge_patch(&c.core("secrets/a"), &patch(json!({"in": "yes"}))).await?.ok(200)?;
    watch.expect("ADDED", "a").await?.is("/metadata/labels/in", "yes")?;
    c.merge_patch(&c.core("secrets/a"), &patch(json!({"more": "x"}))).await?.ok(200)?;
    watch.expect("MODIFIED", "a").await?;
    let out = c.merge_patch(&c.core("secrets/a"), &patch(json!({"in": "no"}))).await?.ok(200)?;
    let last = watch.expect("DELETED", "a").await?;
    last.is("/metadata/labels/in", "yes")?;
    last.is("/metadata/resourceVersion", out.at("/metadata/resourceVersion").clone())?;
    c.delete(&c.core("secrets/a")).await?.ok(200)?;
    c.create(&c.core("secrets"), &labelled(secret("b"), &json!({"in": "yes"}))).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn field_selector_picks_one_name(c: Ctx) -> Outcome {
    let mut watch = c.watch(&c.core("secrets?fieldSelector=metadata.name%3Db")).await?;
    for name in ["a", "b"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn all_namespaces_are_seen_from_above(c: Ctx) -> Outcome {
    let mut watch = c.watch(&format!("/api/v1/secrets?labelSelector=case%3D{}", c.ns)).await?;
    c.create(&c.core("secrets"), &labelled(secret("a"), &json!({"case": c.ns}))).await?;
    watch.expect("ADDED", "a").await?.is("/metadata/namespace", c.ns.as_str())
}

async fn other_namespaces_are_not_seen(c: Ctx) -> Outcome {
    let other = format!("z-{}", c.ns);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}});
    c.create_shared("/api/v1/namespaces", &namespace).await?;
    let mut watch = c.watch(&c.core("secrets")).await?;
    c.create(&format!("/api/v1/namespaces/{other}/secrets"), &secret("there")).await?;
    c.create(&c.core("secrets"), &secret("here")).await?;
    watch.expect("ADDED", "here").await?;
    Ok(())
}

async fn cluster_scoped_kind(c: Ctx) -> Outcome {
    let mut watch = c.watch(&format!("/api/v1/nodes?fieldSelector=metadata.name%3D{}", c.ns)).await?;
    c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    watch.expect("ADDED", &c.ns).await?;
    c.delete(&format!("/api/v1/nodes/{}", c.ns)).await?.ok(200)?;
    watch.expect("DELETED", &c.ns).await?;
    Ok(())
}

async fn one_object_by_the_old_path(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    let mut watch = c.watch(&format!("/api/v1/watch/namespaces/{}/secrets/b", c.ns)).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn timeout_ends_it(c: Ctx) -> Outcome {
    let mut watch = c.watch(&c.core("secrets?timeoutSeconds=1")).await?;
    watch.expect_end().await
}

async fn bookmarks_are_sent_before_the_end(c: Ctx) -> Outcome {
    let start = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    let query = format!("secrets?resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=4");
    let mut watch = c.watch(&c.core(&query)).await?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    watch.expect("ADDED", "b").await?;
    let bookmark = watch.next().await?;
    bookmark.is("/type", "BOOKMARK")?;
    bookmark.is("/object/kind", "Secret")?;
    bookmark.is("/object/metadata/name", json!(null))?;
    holds("the bookmark is newer than the start", version_of(bookmark.at("/object"))? > start)
}

const INITIAL: &str = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";

async fn initial_events_with_end_mark(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let last = version_of(&c.create(&c.core("secrets"), &secret("b")).await?)?;
    let mut watch = c.watch(&c.core(&format!("secrets?{INITIAL}"))).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect("ADDED", "b").await?;
    let mark = watch.next().await?;
    mark.is("/type", "BOOKMARK")?;
    mark.is("/object/metadata/annotations/k8s.io~1initial-events-end", "true")?;
    mark.is("/object/kind", "Secret")?;
    holds("the mark is not older than the objects", version_of(mark.at("/object"))? >= last)?;
    c.create(&c.core("secrets"), &secret("c")).await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn initial_events_from_zero(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let mut watch = c.watch(&c.core(&format!("secrets?{INITIAL}&resourceVersion=0"))).await?;
    watch.expect("ADDED", "a").await?;
    let mark = watch.next().await?;
    mark.is("/type", "BOOKMARK")?;
    mark.is("/object/metadata/annotations/k8s.io~1initial-events-end", "true")
}

async fn initial_events_needs_the_match(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?watch=true&sendInitialEvents=true&allowWatchBookmarks=true")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    )?;
    Ok(())
}

async fn match_needs_initial_events(c: Ctx) -> Outcome {
    let reply =
        c.get(&c.core("secrets?watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    )?;
    Ok(())
}

async fn initial_events_without_bookmarks(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let query = "secrets?sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = c.watch(&c.core(query)).await?;
    watch.expect("ADDED", "a").await?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn metadata_only(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &labelled(secret("a"), &json!({"x": "y"}))).await?;
    let mut watch = c.watch_as(&c.core("secrets"), METADATA).await?;
    let object = watch.expect("ADDED", "a").await?;
    object.is("/kind", "PartialObjectMetadata")?;
    object.is("/apiVersion", "meta.k8s.io/v1")?;
    object.is("/metadata/labels/x", "y")?;
    object.lacks("/data")
}

async fn metadata_only_bookmark(c: Ctx) -> Outcome {
    let mut watch = c.watch_as(&c.core(&format!("secrets?{INITIAL}")), METADATA).await?;
    let mark = watch.next().await?;
    mark.is("/type", "BOOKMARK")?;
    mark.is("/object/kind", "PartialObjectMetadata")?;
    mark.is("/object/metadata/annotations/k8s.io~1initial-events-end", "true")
}

async fn version_too_large_is_an_error(c: Ctx) -> Outcome {
    let far = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)? + 1_000_000;
    let mut watch = c.watch(&c.core(&format!("secrets?{INITIAL}&resourceVersion={far}"))).await?;
    let event = watch.expect_error(504, "Timeout").await?;
    let message = event.text("/message");
    let words = format!("Timeout: Too large resource version: {far}, current: ");
    holds(&format!("{message} tells of both versions"), message.starts_with(&words))?;
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    event.is("/details", json!({"causes": [cause], "retryAfterSeconds": 1}))?;
    watch.expect_end().await
}

async fn version_in_the_future_tells_nothing(c: Ctx) -> Outcome {
    let far = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)? + 1_000_000;
    let query = format!("secrets?resourceVersion={far}&allowWatchBookmarks=true&timeoutSeconds=4");
    let mut watch = c.watch(&c.core(&query)).await?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    watch.expect_end().await
}

async fn version_that_is_no_number_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?watch=true&resourceVersion=abc")).await?;
    reply.refused_about(500, "", "resourceVersion: Invalid value: \"abc\"")?;
    Ok(())
}

async fn unsupported_field_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?watch=true&fieldSelector=data.x%3Dy")).await?;
    reply.refused_about(400, "BadRequest", "field label not supported: data.x")?;
    Ok(())
}

async fn status_changes_are_seen(c: Ctx) -> Outcome {
    let made = c.create_shared("/api/v1/nodes", &node(&c.ns)).await?;
    let query = format!("fieldSelector=metadata.name%3D{}&resourceVersion={}", c.ns, version_of(&made)?);
    let mut watch = c.watch(&format!("/api/v1/nodes?{query}")).await?;
    let status = json!({"status": {"capacity": {"cpu": "4"}}});
    c.merge_patch(&format!("/api/v1/nodes/{}/status", c.ns), &status).await?.ok(200)?;
    watch.expect("MODIFIED", &c.ns).await?.is("/status/capacity/cpu", "4")
}

async fn events_come_in_the_order_of_versions(c: Ctx) -> Outcome {
    let start = c.get(&c.core("configmaps")).await?.text("/metadata/resourceVersion");
    let mut watch =
        c.watch(&c.core(&format!("configmaps?labelSelector=mine&resourceVersion={start}"))).await?;
    let path = c.core("configmaps");
    let bodies: Vec<_> =
        (0..10).map(|n| labelled(config_map(&format!("c{n}")), &json!({"mine": "yes"}))).collect();
    futures::future::try_join_all(bodies.iter().map(|body| c.create(&path, body))).await?;
    let mut versions = Vec::new();
    for _ in 0..10 {
        versions.push(version_of(watch.next().await?.at("/object"))?);
    }
    let mut sorted = versions.clone();
    sorted.sort_unstable();
    sorted.dedup();
    same("versions", versions, sorted)
}

async fn table_events(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let mut watch = c.watch_as(&c.core("secrets"), "application/json;as=Table;v=v1;g=meta.k8s.io").await?;
    let event = watch.next().await?;
    event.is("/type", "ADDED")?;
    event.is("/object/kind", "Table")?;
    event.is("/object/columnDefinitions/0/name", "Name")?;
    event.is("/object/rows/0/cells/0", "a")?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    let event = watch.next().await?;
    event.is("/object/rows/0/cells/0", "b")?;
    event.is("/object/columnDefinitions", json!(null))
}
