use super::fixtures::{config_map, labelled, lease, secret};
use crate::{
    Ctx, Failure, Look, Outcome,
    reply::{holds, same},
};
use serde_json::{Value, json};

area!("get":
    returns_the_object,
    absent_is_not_found,
    absent_of_a_group_is_not_found,
    resource_version_zero_is_enough,
    newer_resource_version_than_there_is,
    invalid_resource_version;
"list":
    has_kind_version_and_items,
    empty_list_has_empty_items,
    is_ordered_by_namespace_and_name,
    of_one_namespace_holds_nothing_else,
    of_all_namespaces_holds_every_namespace,
    items_carry_no_kind,
    unknown_resource_is_not_found,
    name_in_a_namespace_that_is_not_there_is_empty;
"pages":
    limit_and_continue_walk_through_all,
    remaining_item_count_is_told,
    remaining_item_count_is_left_out_with_a_selector,
    limit_that_holds_all_needs_no_continue,
    pages_show_the_state_of_the_first_page,
    bad_continue_token_is_refused,
    continue_with_a_resource_version_is_refused;
"resource version":
    list_not_older_than,
    list_exact_version,
    exact_needs_a_version,
    match_needs_a_version,
    exact_zero_is_refused,
    unknown_match_is_refused,
    match_is_refused_with_continue,
    match_means_nothing_for_a_get,
    version_that_is_no_number_is_refused,
    list_newer_than_there_is_times_out,
    versions_count_over_all_kinds,
);

async fn returns_the_object(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.get(&c.core("configmaps/a")).await?.ok(200)?;
    same("content type", reply.header("content-type"), "application/json")?;
    reply.is("/kind", "ConfigMap")?;
    reply.is("/apiVersion", "v1")?;
    reply.is("/data", json!({"key": "value"}))
}

async fn absent_is_not_found(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("configmaps/nothing")).await?;
    reply.refused(404, "NotFound", "configmaps \"nothing\" not found")?.details(
        "configmaps",
        "",
        "nothing",
    )?;
    reply.is("/metadata", json!({}))
}

async fn absent_of_a_group_is_not_found(c: Ctx) -> Outcome {
    let reply = c.get(&c.group("coordination.k8s.io/v1", "leases/nothing")).await?;
    reply.refused(404, "NotFound", "leases.coordination.k8s.io \"nothing\" not found")?;
    reply.details("leases", "coordination.k8s.io", "nothing")?;
    Ok(())
}

async fn resource_version_zero_is_enough(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let path = c.core("configmaps/a?resourceVersion=0");
    c.eventually("being there for any version", &path, |reply| reply.status == 200)
        .await?
        .is("/data/key", "value")
}

async fn newer_resource_version_than_there_is(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let version = version_of(&made)?;
    let reply = c.get(&c.core(&format!("configmaps/a?resourceVersion={version}"))).await?.ok(200)?;
    reply.is("/metadata/resourceVersion", version.to_string())?;
    let far = version + 1_000_000;
    let reply = c.get(&c.core(&format!("configmaps/a?resourceVersion={far}"))).await?;
    reply.refused_about(504, "Timeout", &format!("Too large resource version: {far}, current: "))?;
    reply.causes(&[("ResourceVersionTooLarge", "", "Too large resource version")])?;
    reply.is("/details/retryAfterSeconds", 1)
}

async fn invalid_resource_version(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.get(&c.core("configmaps/a?resourceVersion=abc")).await?;
    reply.refused_about(500, "", "resourceVersion: Invalid value: \"abc\"")?;
    Ok(())
}

async fn has_kind_version_and_items(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get(&c.core("secrets")).await?.ok(200)?;
    reply.is("/kind", "SecretList")?;
    reply.is("/apiVersion", "v1")?;
    reply.names_are(&["a"])?;
    reply.is("/items/0/data/key", "dmFsdWU=")?;
    reply.lacks("/metadata/continue")?;
    let listed: u64 = reply.text("/metadata/resourceVersion").parse().unwrap_or(0);
    holds("the list is not older than its items", listed >= version_of(&made)?)
}

async fn empty_list_has_empty_items(c: Ctx) -> Outcome {
    let reply = c.get(&c.group("coordination.k8s.io/v1", "leases")).await?.ok(200)?;
    reply.is("/kind", "LeaseList")?;
    reply.is("/items", json!([]))?;
    reply.has("/metadata/resourceVersion")
}

async fn is_ordered_by_namespace_and_name(c: Ctx) -> Outcome {
    for name in ["c", "a.b", "a", "a-b", "b"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    c.get(&c.core("secrets")).await?.ok(200)?.names_are(&["a", "a-b", "a.b", "b", "c"])
}

async fn of_one_namespace_holds_nothing_else(c: Ctx) -> Outcome {
    let other = second_namespace(&c).await?;
    c.create(&c.core("secrets"), &secret("here")).await?;
    c.create(&format!("/api/v1/namespaces/{other}/secrets"), &secret("there")).await?;
    c.get(&c.core("secrets")).await?.ok(200)?.names_are(&["here"])
}

async fn of_all_namespaces_holds_every_namespace(c: Ctx) -> Outcome {
    let other = second_namespace(&c).await?;
    let labels = json!({"case": c.ns});
    c.create(&c.core("secrets"), &labelled(secret("here"), &labels)).await?;
    c.create(&format!("/api/v1/namespaces/{other}/secrets"), &labelled(secret("there"), &labels)).await?;
    let reply = c.get(&format!("/api/v1/secrets?labelSelector=case={}", c.ns)).await?.ok(200)?;
    reply.names_are(&["here", "there"])?;
    reply.is("/items/1/metadata/namespace", other)
}

async fn items_carry_no_kind(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    let reply = c.get(&c.core("secrets")).await?.ok(200)?;
    reply.lacks("/items/0/kind")?;
    reply.lacks("/items/0/apiVersion")
}

async fn unknown_resource_is_not_found(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("nothings")).await?;
    reply.refused(404, "NotFound", "the server could not find the requested resource")?;
    Ok(())
}

async fn name_in_a_namespace_that_is_not_there_is_empty(c: Ctx) -> Outcome {
    let reply = c.get(&format!("/api/v1/namespaces/{}-not-there/secrets", c.ns)).await?.ok(200)?;
    reply.is("/items", json!([]))
}

async fn limit_and_continue_walk_through_all(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let mut seen = Vec::new();
    let mut versions = Vec::new();
    let mut path = c.core("secrets?limit=2");
    for _ in 0..5 {
        let page = c.get(&path).await?.ok(200)?;
        seen.push(page.names());
        versions.push(page.text("/metadata/resourceVersion"));
        let token = page.text("/metadata/continue");
        if token.is_empty() {
            break;
        }
        path = c.core(&format!("secrets?limit=2&continue={token}"));
    }
    let expected: Vec<Vec<String>> = [vec!["s1", "s2"], vec!["s3", "s4"], vec!["s5"]]
        .map(|page| page.into_iter().map(str::to_owned).collect())
        .to_vec();
    same("pages", seen, expected)?;
    holds("all pages are of one version", versions.iter().all(|version| *version == versions[0]))
}

async fn remaining_item_count_is_told(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let page = c.get(&c.core("secrets?limit=2")).await?.ok(200)?;
    page.is("/metadata/remainingItemCount", 3)?;
    let token = page.text("/metadata/continue");
    let page = c.get(&c.core(&format!("secrets?limit=2&continue={token}"))).await?.ok(200)?;
    page.is("/metadata/remainingItemCount", 1)
}

async fn remaining_item_count_is_left_out_with_a_selector(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let page = c.get(&c.core("secrets?limit=2&labelSelector=number")).await?.ok(200)?;
    page.names_are(&["s1", "s2"])?;
    page.has("/metadata/continue")?;
    page.lacks("/metadata/remainingItemCount")
}

async fn limit_that_holds_all_needs_no_continue(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let page = c.get(&c.core("secrets?limit=5")).await?.ok(200)?;
    same("items", page.names().len(), 5)?;
    page.lacks("/metadata/continue")?;
    page.lacks("/metadata/remainingItemCount")
}

async fn pages_show_the_state_of_the_first_page(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let token = c.get(&c.core("secrets?limit=3")).await?.ok(200)?.text("/metadata/continue");
    c.delete(&c.core("secrets/s4")).await?.ok(200)?;
    c.create(&c.core("secrets"), &secret("s6")).await?;
    let page = c.get(&c.core(&format!("secrets?continue={token}"))).await?.ok(200)?;
    page.names_are(&["s4", "s5"])
}

async fn bad_continue_token_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?limit=2&continue=nonsense")).await?;
    reply.refused_about(400, "BadRequest", "continue key is not valid")?;
    Ok(())
}

async fn continue_with_a_resource_version_is_refused(c: Ctx) -> Outcome {
    five_secrets(&c).await?;
    let page = c.get(&c.core("secrets?limit=2")).await?.ok(200)?;
    let (token, version) = (page.text("/metadata/continue"), page.text("/metadata/resourceVersion"));
    let reply =
        c.get(&c.core(&format!("secrets?limit=2&continue={token}&resourceVersion={version}"))).await?;
    reply.refused(400, "BadRequest", "specifying resource version is not allowed when using continue")?;
    Ok(())
}

async fn list_not_older_than(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let version = version_of(&made)?;
    for query in [
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    ] {
        let reply = c.get(&c.core(&format!("secrets?{query}"))).await?.ok(200)?;
        reply.names_are(&["a"])?;
        let listed: u64 = reply.text("/metadata/resourceVersion").parse().unwrap_or(0);
        holds("the answer is not older than asked", listed >= version)?;
    }
    Ok(())
}

async fn list_exact_version(c: Ctx) -> Outcome {
    let first = c.create(&c.core("secrets"), &secret("a")).await?;
    let version = version_of(&first)?;
    c.create(&c.core("secrets"), &secret("b")).await?;
    c.merge_patch(&c.core("secrets/a"), &json!({"data": {"key": "bmV3"}})).await?.ok(200)?;
    let reply = c
        .get(&c.core(&format!("secrets?resourceVersion={version}&resourceVersionMatch=Exact")))
        .await?
        .ok(200)?;
    reply.names_are(&["a"])?;
    reply.is("/items/0/data/key", "dmFsdWU=")?;
    reply.is("/metadata/resourceVersion", version.to_string())
}

async fn exact_needs_a_version(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersionMatch=Exact")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    )?;
    reply.causes(&[("FieldValueForbidden", "resourceVersionMatch", "unless resourceVersion is provided")])?;
    reply.is("/details/kind", "ListOptions")
}

async fn match_needs_a_version(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersionMatch=NotOlderThan")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden",
    )?;
    Ok(())
}

async fn exact_zero_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersion=0&resourceVersionMatch=Exact")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
    )?;
    Ok(())
}

async fn unknown_match_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersion=1&resourceVersionMatch=Roughly")).await?;
    reply.refused_about(422, "Invalid", "resourceVersionMatch: Unsupported value: \"Roughly\"")?;
    Ok(())
}

async fn match_is_refused_with_continue(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersion=1&resourceVersionMatch=Exact&continue=abc")).await?;
    reply.refused_about(422, "Invalid", "resourceVersionMatch is forbidden when continue is provided")?;
    Ok(())
}

async fn match_means_nothing_for_a_get(c: Ctx) -> Outcome {
    c.create(&c.core("secrets"), &secret("a")).await?;
    c.get(&c.core("secrets/a?resourceVersionMatch=Exact")).await?.ok(200)?.is("/metadata/name", "a")
}

async fn version_that_is_no_number_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?resourceVersion=abc")).await?;
    reply.refused_about(400, "BadRequest", "resourceVersion: Invalid value: \"abc\"")?;
    Ok(())
}

async fn list_newer_than_there_is_times_out(c: Ctx) -> Outcome {
    let made = c.create(&c.core("secrets"), &secret("a")).await?;
    let far = version_of(&made)? + 1_000_000;
    let reply = c.get(&c.core(&format!("secrets?resourceVersion={far}"))).await?;
    reply.refused_about(504, "Timeout", &format!("Too large resource version: {far}, current: "))?;
    reply.causes(&[("ResourceVersionTooLarge", "", "Too large resource version")])?;
    Ok(())
}

async fn versions_count_over_all_kinds(c: Ctx) -> Outcome {
    let first = version_of(&c.create(&c.core("secrets"), &secret("a")).await?)?;
    let second = version_of(&c.create(&c.group("coordination.k8s.io/v1", "leases"), &lease("a")).await?)?;
    let third = version_of(&c.create(&c.core("configmaps"), &config_map("a")).await?)?;
    holds("each write has a higher version than the one before", first < second && second < third)
}

pub(super) fn version_of(object: &Value) -> Result<u64, Failure> {
    let version = object.text("/metadata/resourceVersion");
    version.parse().map_err(|_| object.wrong("metadata.resourceVersion should be a number"))
}

async fn second_namespace(c: &Ctx) -> Result<String, Failure> {
    let name = format!("z-{}", c.ns);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    c.create_shared("/api/v1/namespaces", &body).await?;
    Ok(name)
}

async fn five_secrets(c: &Ctx) -> Outcome {
    for number in 1..=5 {
        let labels = json!({"number": number.to_string()});
        c.create(&c.core("secrets"), &labelled(secret(&format!("s{number}")), &labels)).await?;
    }
    Ok(())
}
