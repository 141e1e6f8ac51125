use super::fixtures::{crd, crd_group, install, thing};
use crate::{
    Ctx, Failure, Look, Outcome, Reply,
    reply::{holds, same},
};
use serde_json::{Value, json};
use std::time::Duration;

area!("custom resource definition":
    becomes_established,
    names_are_filled_in,
    stored_versions_are_kept,
    name_must_be_plural_and_group,
    needs_exactly_one_storage_version,
    schema_is_required,
    schema_must_be_structural,
    bad_rule_is_refused,
    default_must_fit_the_schema,
    conflicting_names_are_not_accepted,
    scope_is_immutable,
    unknown_format_of_versions_is_refused,
    deletion_removes_the_objects,
    deleted_kind_is_gone,
    update_of_the_schema_takes_effect,
    preserve_unknown_fields_must_be_off,
    cluster_scoped;
"custom versions":
    both_are_served,
    unserved_version_is_not_found,
    stored_object_is_seen_in_each_version,
    priority_decides_the_preferred_version,
    storage_version_change_is_recorded,
);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn condition(object: &Value, kind: &str) -> Value {
    let all = object.at("/status/conditions").as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

fn plain() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "string"}}})
}

fn things(c: &Ctx, version: &str) -> String {
    c.group(&format!("{}/{version}", crd_group(&c.ns)), "things")
}

async fn refused(c: &Ctx, definition: &Value) -> Result<Reply, Failure> {
    let reply = c.post(DEFINITIONS, definition).await?;
    if reply.status == 201 {
        c.forget(format!("{DEFINITIONS}/{}", definition.text("/metadata/name")));
    }
    let name = definition.text("/metadata/name");
    reply.refused_about(
        422,
        "Invalid",
        &format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: "),
    )?;
    reply.details("CustomResourceDefinition", "apiextensions.k8s.io", &name)?;
    Ok(reply)
}

async fn becomes_established(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    let established = condition(&ready, "Established");
    established.is("/reason", "InitialNamesAccepted")?;
    established.is("/message", "the initial names have been accepted")?;
    established.has("/lastTransitionTime")?;
    let accepted = condition(&ready, "NamesAccepted");
    accepted.is("/status", "True")?;
    accepted.is("/reason", "NoConflicts")?;
    accepted.is("/message", "no conflicts found")
}

async fn names_are_filled_in(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["names"] = json!({"plural": "things", "kind": "Thing", "shortNames": ["th"]});
    let ready = install(&c, &definition).await?;
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]});
    ready.is("/spec/names", names.clone())?;
    ready.is("/status/acceptedNames", names)?;
    ready.is("/spec/conversion", json!({"strategy": "None"}))
}

async fn stored_versions_are_kept(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    ready.is("/status/storedVersions", json!(["v1"]))
}

async fn name_must_be_plural_and_group(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    let wrong = format!("others.{}", crd_group(&c.ns));
    definition["metadata"]["name"] = json!(wrong);
    let reply = refused(&c, &definition).await?;
    reply.causes(&[("FieldValueInvalid", "metadata.name", "must be spec.names.plural+\".\"+spec.group")])?;
    Ok(())
}

async fn needs_exactly_one_storage_version(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["versions"][0]["storage"] = json!(false);
    let reply = refused(&c, &definition).await?;
    reply.contains("/message", "must have exactly one version marked as storage version")
}

async fn schema_is_required(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["versions"][0]["schema"] = json!(null);
    let reply = refused(&c, &definition).await?;
    reply.contains("/message", "spec.versions[0].schema.openAPIV3Schema: Required value")
}

async fn schema_must_be_structural(c: Ctx) -> Outcome {
    let definition = crd(&c.ns, &json!({"properties": {"a": {"type": "string"}}}));
    let reply = refused(&c, &definition).await?;
    reply.contains(
        "/message",
        "properties[spec].type: Required value: must not be empty for specified object fields",
    )
}

async fn bad_rule_is_refused(c: Ctx) -> Outcome {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.nothing == 1"}]});
    let reply = refused(&c, &crd(&c.ns, &schema)).await?;
    reply.contains("/message", "properties[spec].x-kubernetes-validations[0].rule: Invalid value: ")?;
    reply.contains("/message", "undefined field 'nothing'")
}

async fn default_must_fit_the_schema(c: Ctx) -> Outcome {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}});
    let reply = refused(&c, &crd(&c.ns, &schema)).await?;
    reply.contains("/message", "properties[spec].properties[a].default: Invalid value: ")
}

async fn conflicting_names_are_not_accepted(c: Ctx) -> Outcome {
    install(&c, &crd(&c.ns, &plain())).await?;
    let mut second = crd(&c.ns, &plain());
    let name = format!("rivals.{}", crd_group(&c.ns));
    second["metadata"]["name"] = json!(name);
    second["spec"]["names"] = json!({"plural": "rivals", "kind": "Thing"});
    c.create_shared(DEFINITIONS, &second).await?;
    let judged = |reply: &Reply| condition(&reply.json, "NamesAccepted") != Value::Null;
    let reply = c.eventually("a judgement on the names", &format!("{DEFINITIONS}/{name}"), judged).await?;
    let accepted = condition(&reply.json, "NamesAccepted");
    accepted.is("/status", "False")?;
    accepted.is("/reason", "ListKindConflict")?;
    accepted.is("/message", "\"ThingList\" is already in use")?;
    let established = condition(&reply.json, "Established");
    established.is("/status", "False")?;
    established.is("/reason", "NotAccepted")?;
    c.get(&c.group(&format!("{}/v1", crd_group(&c.ns)), "rivals")).await?.ok(404)?;
    Ok(())
}

async fn scope_is_immutable(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    let path = format!("{DEFINITIONS}/{}", ready.text("/metadata/name"));
    let reply = c.merge_patch(&path, &json!({"spec": {"scope": "Cluster"}})).await?;
    reply.refused_about(422, "Invalid", "spec.scope: Invalid value: \"Cluster\": field is immutable")?;
    Ok(())
}

async fn unknown_format_of_versions_is_refused(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["versions"][0]["name"] = json!("V_1");
    let reply = refused(&c, &definition).await?;
    reply.contains(
        "/message",
        "spec.versions[0].name: Invalid value: \"V_1\": a DNS-1035 label must consist of",
    )
}

async fn deletion_removes_the_objects(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    let path = format!("{DEFINITIONS}/{}", ready.text("/metadata/name"));
    c.create(&things(&c, "v1"), &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    c.delete(&path).await?.ok(200)?;
    c.eventually("the definition going away", &path, |reply| reply.status == 404).await?;
    let again = install(&c, &crd(&c.ns, &plain())).await?;
    holds("it is another definition", again["metadata"]["uid"] != ready["metadata"]["uid"])?;
    c.get(&things(&c, "v1")).await?.ok(200)?.names_are(&[])
}

async fn deleted_kind_is_gone(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    c.delete(&format!("{DEFINITIONS}/{}", ready.text("/metadata/name"))).await?.ok(200)?;
    c.eventually("the resource going away", &things(&c, "v1"), |reply| reply.status == 404).await?;
    let gone = |reply: &Reply| reply.status == 404;
    c.eventually("discovery forgetting it", &format!("/apis/{}/v1", crd_group(&c.ns)), gone).await?;
    Ok(())
}

async fn update_of_the_schema_takes_effect(c: Ctx) -> Outcome {
    let ready = install(&c, &crd(&c.ns, &plain())).await?;
    let path = format!("{DEFINITIONS}/{}", ready.text("/metadata/name"));
    let patch = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b",
        "value": {"type": "string", "default": "new"}}]);
    c.json_patch(&path, &patch).await?.ok(200)?.is("/metadata/generation", 2)?;
    // While the definition changes hands a real server may answer 503 for a moment.
    let mut reply = c.post(&things(&c, "v1"), &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    while reply.status == 503 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        reply = c.post(&things(&c, "v1"), &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    }
    reply.ok(201)?;
    let one = format!("{}/one", things(&c, "v1"));
    let reply = c.eventually("the new default", &one, |reply| reply.text("/spec/b") == "new").await?;
    reply.is("/spec/a", "b")
}

async fn preserve_unknown_fields_must_be_off(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["preserveUnknownFields"] = json!(true);
    let reply = refused(&c, &definition).await?;
    reply.contains("/message", "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")
}

async fn cluster_scoped(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &plain());
    definition["spec"]["scope"] = json!("Cluster");
    install(&c, &definition).await?;
    let path = format!("/apis/{}/v1/things", crd_group(&c.ns));
    let made = c.create(&path, &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    made.lacks("/metadata/namespace")?;
    c.post(&things(&c, "v1"), &thing(&c.ns, "two", &json!({}))).await?.ok(404)?;
    c.get(&format!("{path}/one")).await?.ok(200)?.is("/spec/a", "b")
}

fn two_versions(ns: &str) -> Value {
    let mut definition = crd(ns, &plain());
    let mut older = definition["spec"]["versions"][0].clone();
    older["name"] = json!("v1beta1");
    older["storage"] = json!(false);
    let newer = definition["spec"]["versions"][0].clone();
    definition["spec"]["versions"] = json!([older, newer]);
    definition
}

async fn both_are_served(c: Ctx) -> Outcome {
    install(&c, &two_versions(&c.ns)).await?;
    c.create(&things(&c, "v1"), &thing(&c.ns, "one", &json!({"a": "b"}))).await?;
    let old = c.get(&format!("{}/one", things(&c, "v1beta1"))).await?.ok(200)?;
    old.is("/apiVersion", format!("{}/v1beta1", crd_group(&c.ns)))?;
    old.is("/spec/a", "b")
}

async fn unserved_version_is_not_found(c: Ctx) -> Outcome {
    let mut definition = two_versions(&c.ns);
    definition["spec"]["versions"][0]["served"] = json!(false);
    install(&c, &definition).await?;
    c.get(&things(&c, "v1beta1")).await?.ok(404)?;
    c.get(&things(&c, "v1")).await?.ok(200)?;
    Ok(())
}

async fn stored_object_is_seen_in_each_version(c: Ctx) -> Outcome {
    install(&c, &two_versions(&c.ns)).await?;
    let mut body = thing(&c.ns, "one", &json!({"a": "b"}));
    body["apiVersion"] = json!(format!("{}/v1beta1", crd_group(&c.ns)));
    let made = c.create(&things(&c, "v1beta1"), &body).await?;
    made.is("/apiVersion", format!("{}/v1beta1", crd_group(&c.ns)))?;
    let list = c.get(&things(&c, "v1")).await?.ok(200)?;
    list.is("/apiVersion", format!("{}/v1", crd_group(&c.ns)))?;
    list.is("/kind", "ThingList")?;
    list.is("/items/0/apiVersion", format!("{}/v1", crd_group(&c.ns)))?;
    list.is("/items/0/kind", "Thing")?;
    list.is("/items/0/metadata/uid", made["metadata"]["uid"].clone())?;
    let mut watch = c.watch(&format!("{}?resourceVersion=0", things(&c, "v1beta1"))).await?;
    watch.expect("ADDED", "one").await?.is("/apiVersion", format!("{}/v1beta1", crd_group(&c.ns)))
}

async fn priority_decides_the_preferred_version(c: Ctx) -> Outcome {
    install(&c, &two_versions(&c.ns)).await?;
    let reply = c.get(&format!("/apis/{}", crd_group(&c.ns))).await?.ok(200)?;
    reply.is("/preferredVersion/version", "v1")?;
    let versions = reply.at("/versions").as_array().cloned().unwrap_or_default();
    let names: Vec<String> = versions.iter().map(|one| one.text("/version")).collect();
    same("versions", names, vec!["v1".to_owned(), "v1beta1".to_owned()])
}

async fn storage_version_change_is_recorded(c: Ctx) -> Outcome {
    let ready = install(&c, &two_versions(&c.ns)).await?;
    let path = format!("{DEFINITIONS}/{}", ready.text("/metadata/name"));
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": true},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": false}]);
    let reply = c.json_patch(&path, &patch).await?.ok(200)?;
    reply.is("/status/storedVersions", json!(["v1", "v1beta1"]))
}
