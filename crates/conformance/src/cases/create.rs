use super::fixtures::{config_map, crd_group, deployment, pod};
use crate::{Ctx, Look, Outcome, reply::holds};
use serde_json::json;

area!("create":
    gives_identity,
    answers_the_stored_object,
    ignores_what_the_server_owns,
    existing_name_conflicts,
    namespace_comes_from_the_path,
    other_namespace_in_body_is_refused,
    missing_namespace_is_not_found,
    name_is_required,
    resource_version_must_be_unset,
    on_a_named_path_is_not_allowed,
    invalid_object_lists_every_cause,
    self_link_and_cluster_name_are_not_kept,
    unknown_resource_is_not_found,
    uids_are_unique,
    finalizers_are_kept;
"generate name":
    makes_a_name_from_the_prefix,
    name_wins_over_prefix,
    long_prefix_is_cut,
    prefix_is_validated,
);

async fn gives_identity(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    made.is("/apiVersion", "v1")?;
    made.is("/kind", "ConfigMap")?;
    made.is("/metadata/name", "a")?;
    made.is("/metadata/namespace", c.ns.as_str())?;
    made.is("/data/key", "value")?;
    let uid = made.text("/metadata/uid");
    holds("the uid looks like a uuid", uid.len() == 36 && uid.matches('-').count() == 4)?;
    let created = made.text("/metadata/creationTimestamp");
    holds("creationTimestamp has whole seconds in UTC", created.len() == 20 && created.ends_with('Z'))?;
    holds("resourceVersion is a number", made.text("/metadata/resourceVersion").parse::<u64>().is_ok())?;
    made.lacks("/metadata/selfLink")?;
    made.lacks("/metadata/generation")
}

async fn answers_the_stored_object(c: Ctx) -> Outcome {
    let made = c.create(&c.core("configmaps"), &config_map("a")).await?;
    let read = c.get(&c.core("configmaps/a")).await?.ok(200)?;
    read.is("", made)
}

async fn ignores_what_the_server_owns(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    body["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    body["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    body["metadata"]["generation"] = json!(7);
    let made = c.create(&c.core("configmaps"), &body).await?;
    holds("the uid is new", made["metadata"]["uid"] != "11111111-2222-3333-4444-555555555555")?;
    holds("the time is new", made["metadata"]["creationTimestamp"] != "2001-01-01T00:00:00Z")?;
    made.lacks("/metadata/deletionTimestamp")?;
    made.lacks("/metadata/deletionGracePeriodSeconds")
}

async fn existing_name_conflicts(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.post(&c.core("configmaps"), &config_map("a")).await?;
    reply.refused(409, "AlreadyExists", "configmaps \"a\" already exists")?.details("configmaps", "", "a")?;
    c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    let reply = c.post(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    reply.refused(409, "AlreadyExists", "deployments.apps \"a\" already exists")?;
    reply.details("deployments", "apps", "a")?;
    Ok(())
}

async fn namespace_comes_from_the_path(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["namespace"] = json!(c.ns);
    c.create(&c.core("configmaps"), &body).await?.is("/metadata/namespace", c.ns.as_str())
}

async fn other_namespace_in_body_is_refused(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["namespace"] = json!("default");
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )?;
    Ok(())
}

async fn missing_namespace_is_not_found(c: Ctx) -> Outcome {
    let gone = format!("{}-not-there", c.ns);
    let reply = c.post(&format!("/api/v1/namespaces/{gone}/configmaps"), &config_map("a")).await?;
    reply.refused(404, "NotFound", &format!("namespaces \"{gone}\" not found"))?;
    reply.details("namespaces", "", &gone)?;
    Ok(())
}

async fn name_is_required(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": "b"}}});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    )?;
    reply.causes(&[(
        "FieldValueRequired",
        "metadata.name",
        "Required value: name or generateName is required",
    )])?;
    reply.is("/details/kind", "ConfigMap")
}

async fn resource_version_must_be_unset(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["resourceVersion"] = json!("1");
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(500, "", "resourceVersion should not be set on objects to be created")?;
    Ok(())
}

async fn on_a_named_path_is_not_allowed(c: Ctx) -> Outcome {
    let reply = c.post(&c.core("configmaps/a"), &config_map("a")).await?;
    reply.refused(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )?;
    Ok(())
}

async fn invalid_object_lists_every_cause(c: Ctx) -> Outcome {
    let mut body = pod("Not_Good");
    body["spec"]["containers"][0] = json!({"name": "UPPER", "image": ""});
    body["spec"]["restartPolicy"] = json!("Sometimes");
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused_about(422, "Invalid", "Pod \"Not_Good\" is invalid: [")?.details("Pod", "", "Not_Good")?;
    reply.causes(&[
        ("FieldValueInvalid", "metadata.name", "a lowercase RFC 1123 subdomain must consist of"),
        ("FieldValueInvalid", "spec.containers[0].name", "a lowercase RFC 1123 label must consist of"),
        ("FieldValueRequired", "spec.containers[0].image", "Required value"),
        (
            "FieldValueNotSupported",
            "spec.restartPolicy",
            "Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
    ])?;
    Ok(())
}

async fn self_link_and_cluster_name_are_not_kept(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["selfLink"] = json!("/api/v1/somewhere");
    body["metadata"]["clusterName"] = json!("here");
    let made = c.create(&c.core("configmaps"), &body).await?;
    made.lacks("/metadata/clusterName")?;
    made.lacks("/metadata/selfLink")
}

async fn unknown_resource_is_not_found(c: Ctx) -> Outcome {
    for path in [c.core("nothings"), c.group(&format!("{}/v1", crd_group(&c.ns)), "things")] {
        let reply = c.post(&path, &config_map("a")).await?;
        if reply.status != 404 {
            return Err(reply.unlike("expected 404"));
        }
    }
    Ok(())
}

async fn uids_are_unique(c: Ctx) -> Outcome {
    let first = c.create(&c.core("configmaps"), &config_map("a")).await?;
    c.delete(&c.core("configmaps/a")).await?.ok(200)?;
    let second = c.create(&c.core("configmaps"), &config_map("a")).await?;
    holds("a new object has a new uid", first["metadata"]["uid"] != second["metadata"]["uid"])?;
    let (old, new) = (first.text("/metadata/resourceVersion"), second.text("/metadata/resourceVersion"));
    holds("versions grow", old.parse::<u64>().unwrap_or(0) < new.parse::<u64>().unwrap_or(0))
}

async fn finalizers_are_kept(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    let made = c.create(&c.core("configmaps"), &body).await?;
    made.is("/metadata/finalizers", json!(["example.com/one", "example.com/two"]))?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn makes_a_name_from_the_prefix(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let first = c.create(&c.core("configmaps"), &body).await?;
    let second = c.create(&c.core("configmaps"), &body).await?;
    first.is("/metadata/generateName", "made-")?;
    let name = first.text("/metadata/name");
    let suffix = name.strip_prefix("made-").unwrap_or_default();
    holds("five characters are added", suffix.len() == 5)?;
    holds(
        "only characters that make no words",
        suffix.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)),
    )?;
    holds("two names differ", first["metadata"]["name"] != second["metadata"]["name"])
}

async fn name_wins_over_prefix(c: Ctx) -> Outcome {
    let mut body = config_map("exact");
    body["metadata"]["generateName"] = json!("made-");
    c.create(&c.core("configmaps"), &body).await?.is("/metadata/name", "exact")?;
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(409, "AlreadyExists", "configmaps \"exact\" already exists")?;
    Ok(())
}

async fn long_prefix_is_cut(c: Ctx) -> Outcome {
    let prefix = "p".repeat(80);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": prefix}});
    let name = c.create(&c.core("configmaps"), &body).await?.text("/metadata/name");
    holds("the name is the prefix cut to 58 characters and five more", name.len() == 63)?;
    holds("it begins with the prefix", name.starts_with(&"p".repeat(58)))
}

async fn prefix_is_validated(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "UPPER-"}});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "metadata.generateName: Invalid value: \"UPPER-\": a lowercase RFC 1123 subdomain",
    )?;
    Ok(())
}
