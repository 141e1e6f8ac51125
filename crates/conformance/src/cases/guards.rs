//! What a server must not fall for: bodies of another type than they should have, queries that are no text, patches
//! that grow, and definitions that change under their objects.

use super::fixtures::{
    bound_pod, config_map, crd, crd_group, deployment, install, labelled, node, pod, thing,
};
use crate::{
    Ctx, Failure, Look, Outcome, Reply,
    reply::{holds, same},
};
use http::Method;
use serde_json::{Value, json};

area!("odd input":
    many_changes_elsewhere_do_not_hide_one_here,
    selector_that_is_no_text_is_refused,
    patch_that_copies_itself_is_refused,
    scale_of_the_wrong_type_is_refused,
    patched_scale_of_the_wrong_type_is_refused,
    binding_of_the_wrong_type_is_refused,
    eviction_of_the_wrong_type_is_refused,
    token_request_of_the_wrong_type_is_refused,
    warnings_are_limited,
    rights_beyond_number_are_refused,
    objects_do_not_grow_without_end;
"changed policy":
    second_delete_can_change_the_policy,
    second_delete_can_orphan;
"changed definition":
    new_default_shows_in_old_objects,
    field_that_is_gone_does_not_show,
    field_that_becomes_selectable_selects_old_objects,
    field_selectable_in_one_version,
    deprecated_version_warns;
"service ports":
    taken_node_port_is_refused,
    node_port_must_be_in_the_range,
    taken_address_is_refused_on_update;
"token":
    is_for_its_audiences,
    goes_with_its_pod,
    other_objects_are_refused;
"both groups":
    items_of_new_events_carry_no_kind,
    only_the_subresource_copies_labels,
    bindings_resource_needs_the_namespace,
);

async fn many_changes_elsewhere_do_not_hide_one_here(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "elsewhere-"}});
    let other = c.create_shared("/api/v1/namespaces", &body).await?.text("/metadata/name");
    let start = c.get(&c.core("configmaps")).await?.ok(200)?.text("/metadata/resourceVersion");
    let path = format!("/api/v1/namespaces/{other}/configmaps");
    let bodies: Vec<Value> = (0..150).map(|number| config_map(&format!("c{number}"))).collect();
    futures::future::try_join_all(bodies.iter().map(|body| c.create(&path, body))).await?;
    c.create(&c.core("configmaps"), &labelled(config_map("here"), &json!({"x": "y"}))).await?;
    let mut watch = c.watch(&c.core(&format!("configmaps?labelSelector=x&resourceVersion={start}"))).await?;
    watch.expect("ADDED", "here").await?;
    Ok(())
}

async fn selector_that_is_no_text_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    for query in ["labelSelector=%ff", "labelSelector=a%3D%ff", "fieldSelector=%ff"] {
        c.get(&c.core(&format!("configmaps?{query}"))).await?.refused_about(400, "BadRequest", "")?;
        c.delete(&c.core(&format!("configmaps?{query}"))).await?.refused_about(400, "BadRequest", "")?;
    }
    c.get(&c.core("configmaps/a")).await?.ok(200)?;
    Ok(())
}

async fn patch_that_copies_itself_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let copies = |count: usize| -> Value {
        (1..=count)
            .map(|step| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/x{step}")}))
            .collect()
    };
    c.json_patch(&c.core("configmaps/a"), &copies(3)).await?.ok(200)?;
    let why = "the server rejected our request due to an error in our request";
    c.json_patch(&c.core("configmaps/a"), &copies(40)).await?.refused(422, "Invalid", why)?;
    Ok(())
}

fn scale(replicas: Value) -> Value {
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, "spec": {"replicas": replicas}})
}

async fn scale_of_the_wrong_type_is_refused(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("web")).await?;
    let path = c.group("apps/v1", "deployments/web/scale");
    for (body, why) in [
        (
            scale(json!("5")),
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (
            deployment("web"),
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion",
        ),
        (
            json!({"spec": {"replicas": 4}}),
            "the name of the object (web based on URL) was undeterminable: name must be provided",
        ),
    ] {
        c.put(&path, &body).await?.refused(400, "BadRequest", why)?;
    }
    c.put(&path, &json!({"metadata": {"name": "web"}, "spec": {"replicas": 0, "more": 1}})).await?.ok(200)?;
    Ok(())
}

async fn patched_scale_of_the_wrong_type_is_refused(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("web")).await?;
    let path = c.group("apps/v1", "deployments/web/scale");
    for (patch, why) in [
        (
            json!({"spec": {"replicas": "5"}}),
            "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 5_000_000_000_i64}}),
            "json: cannot unmarshal number 5000000000 into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (
            json!({"kind": "Deployment"}),
            "no kind \"Deployment\" is registered for version \"autoscaling/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ] {
        c.merge_patch(&path, &patch).await?.refused_about(422, "Invalid", why)?;
    }
    c.get(&c.group("apps/v1", "deployments/web")).await?.is("/spec/replicas", 0)
}

async fn wrong_bodies(c: &Ctx, path: &str, cases: &[(Value, &str)]) -> Outcome {
    for (body, why) in cases {
        c.post(path, body).await?.refused(400, "BadRequest", why)?;
    }
    Ok(())
}

async fn binding_of_the_wrong_type_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let cases = [
        (
            json!({"target": {"name": 5}}),
            "Binding in version \"v1\" cannot be handled as a Binding: json: cannot unmarshal number into Go struct field ObjectReference.target.name of type string",
        ),
        (
            pod("a"),
            "Pod in version \"v1\" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown conversion",
        ),
        (json!({"target": {"name": "n"}}), "name in URL does not match name in Binding object"),
    ];
    wrong_bodies(&c, &c.core("pods/a/binding"), &cases).await
}

async fn eviction_of_the_wrong_type_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let cases = [
        (
            json!({"deleteOptions": {"gracePeriodSeconds": "0"}}),
            "Eviction in version \"v1\" cannot be handled as a Eviction: json: cannot unmarshal string into Go struct field DeleteOptions.deleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            pod("a"),
            "Pod in version \"v1\" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): unknown conversion",
        ),
        (json!({}), "name in URL does not match name in Eviction object"),
    ];
    wrong_bodies(&c, &c.core("pods/a/eviction"), &cases).await?;
    let body = json!({"metadata": {"name": "a"}, "deleteOptions": {"propagationPolicy": "Sideways"}});
    let reply = c.post(&c.core("pods/a/eviction"), &body).await?;
    reply.refused_about(422, "Invalid", "propagationPolicy: Unsupported value: \"Sideways\"")?;
    c.get(&c.core("pods/a")).await?.ok(200)?;
    Ok(())
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
}

async fn token_request_of_the_wrong_type_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("serviceaccounts"), &account()).await?;
    let cases = [
        (
            json!({"spec": {"audiences": "x"}}),
            "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: json: cannot unmarshal string into Go struct field TokenRequestSpec.spec.audiences of type []string",
        ),
        (
            pod("a"),
            "Pod in version \"v1\" cannot be handled as a TokenRequest: converting (v1.Pod) to (authentication.TokenRequest): unknown conversion",
        ),
    ];
    let path = c.core("serviceaccounts/robot/token");
    wrong_bodies(&c, &path, &cases).await?;
    let reply = c.post(&path, &json!({"metadata": {"name": "other"}})).await?;
    let why = "metadata.name: Invalid value: \"other\": must match the service account name if specified";
    reply.refused_about(422, "Invalid", why)?;
    Ok(())
}

async fn warnings_are_limited(c: Ctx) -> Outcome {
    let with_unknown = |name: &str, count: usize, length: usize| {
        let mut body = config_map(name);
        for number in 0..count {
            body[format!("f{number:03}{}", "x".repeat(length))] = json!(1);
        }
        body
    };
    let many = c.post(&c.core("configmaps"), &with_unknown("a", 20, 0)).await?.ok(201)?.warnings();
    same("how many warnings", many.len(), 20)?;
    let long = c.post(&c.core("configmaps"), &with_unknown("b", 300, 400)).await?.ok(201)?.warnings();
    same("how many long warnings", long.len(), 16)?;
    let longest = long.iter().map(String::len).max().unwrap_or_default();
    holds("each is cut", longest < 300)
}

async fn rights_beyond_number_are_refused(c: Ctx) -> Outcome {
    let role = |name: &str, rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules});
    let rbac = |rest: &str| c.group("rbac.authorization.k8s.io/v1", rest);
    let own =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]);
    c.create(&rbac("roles"), &role("own", own)).await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "own"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    c.create(&rbac("rolebindings"), &binding).await?;
    let many = |start: &str| (0..30).map(|number| format!("{start}{number}")).collect::<Vec<_>>();
    let rules = json!([{"apiGroups": many("g"), "resources": many("r"), "verbs": many("v")}]);
    let alice = c.become_user(crate::TestUser::Alice)?;
    // A real server learns of new rights a moment later.
    let mut reply = alice.post(&rbac("roles"), &role("more", rules.clone())).await?;
    for _ in 0..100 {
        if reply.text("/message").contains("attempting to grant") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        reply = alice.post(&rbac("roles"), &role("more", rules.clone())).await?;
    }
    reply.refused_about(403, "Forbidden", "attempting to grant RBAC permissions not currently held")?;
    Ok(())
}

async fn objects_do_not_grow_without_end(c: Ctx) -> Outcome {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    install(&c, &crd(&c.ns, &anything)).await?;
    c.create(&things(&c, "v1"), &thing(&c.ns, "one", &json!({}))).await?;
    let path = format!("{}/one", things(&c, "v1"));
    let text = "x".repeat(900_000);
    for number in 0..10 {
        let reply = c.merge_patch(&path, &json!({"spec": {format!("f{number}"): text}})).await?;
        if reply.status != 200 {
            reply.refused(500, "", "etcdserver: request is too large")?;
            return Ok(());
        }
    }
    Err(Failure("the object grows without end".to_owned()))
}

async fn second_delete(c: &Ctx, first: &str, second: &str) -> Result<Reply, Failure> {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(&c.core("configmaps"), &body).await?;
    let path = |policy: &str| c.core(&format!("configmaps/a?propagationPolicy={policy}"));
    let marked = c.delete(&path(first)).await?.ok(200)?;
    let again = c.delete(&path(second)).await?.ok(200)?;
    again.is("/metadata/deletionTimestamp", marked.at("/metadata/deletionTimestamp").clone())?;
    c.merge_patch(&c.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(again)
}

async fn second_delete_can_change_the_policy(c: Ctx) -> Outcome {
    let again = second_delete(&c, "Foreground", "Background").await?;
    again.is("/metadata/finalizers", json!(["example.com/hold"]))
}

async fn second_delete_can_orphan(c: Ctx) -> Outcome {
    let again = second_delete(&c, "Foreground", "Orphan").await?;
    again.is("/metadata/finalizers", json!(["example.com/hold", "orphan"]))
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROPERTIES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

fn things(c: &Ctx, version: &str) -> String {
    c.group(&format!("{}/{version}", crd_group(&c.ns)), "things")
}

/// A kind with `color` and `old`, and one object of it.
async fn with_red_thing(c: &Ctx) -> Outcome {
    let text = json!({"type": "string"});
    install(c, &crd(&c.ns, &json!({"type": "object", "properties": {"color": text, "old": text}}))).await?;
    c.create(&things(c, "v1"), &thing(&c.ns, "red", &json!({"color": "red", "old": "x"}))).await?;
    Ok(())
}

async fn change_definition(c: &Ctx, patch: &Value) -> Outcome {
    let path = format!("{DEFINITIONS}/things.{}", crd_group(&c.ns));
    c.json_patch(&path, patch).await?.ok(200)?;
    Ok(())
}

async fn new_default_shows_in_old_objects(c: Ctx) -> Outcome {
    with_red_thing(&c).await?;
    let path = format!("{}/red", things(&c, "v1"));
    let size = |value: i64| json!([{"op": "add", "path": format!("{PROPERTIES}/size"), "value": {"type": "integer", "default": value}}]);
    let before = c.get(&path).await?.ok(200)?;
    for value in [3, 4] {
        change_definition(&c, &size(value)).await?;
        let reply =
            c.eventually("the default", &path, |reply| *reply.at("/spec/size") == json!(value)).await?;
        reply.is("/metadata/resourceVersion", before.at("/metadata/resourceVersion").clone())?;
    }
    // A write keeps it.
    c.merge_patch(&path, &json!({"spec": {"color": "blue"}})).await?.ok(200)?.is("/spec/size", 4)?;
    change_definition(&c, &size(5)).await?;
    c.merge_patch(&path, &json!({"spec": {"color": "red"}})).await?.ok(200)?.is("/spec/size", 4)
}

async fn field_that_is_gone_does_not_show(c: Ctx) -> Outcome {
    with_red_thing(&c).await?;
    let path = format!("{}/red", things(&c, "v1"));
    change_definition(&c, &json!([{"op": "remove", "path": format!("{PROPERTIES}/old")}])).await?;
    c.eventually("pruning", &path, |reply| reply.status == 200 && reply.at("/spec/old").is_null()).await?;
    let back = json!([{"op": "add", "path": format!("{PROPERTIES}/old"), "value": {"type": "string"}}]);
    change_definition(&c, &back).await?;
    c.eventually("its return", &path, |reply| reply.text("/spec/old") == "x").await?;
    Ok(())
}

async fn field_that_becomes_selectable_selects_old_objects(c: Ctx) -> Outcome {
    with_red_thing(&c).await?;
    let fields = json!([{"op": "add", "path": "/spec/versions/0/selectableFields", "value": [{"jsonPath": ".spec.color"}]}]);
    change_definition(&c, &fields).await?;
    let select = |color: &str| format!("{}?fieldSelector=spec.color%3D{color}", things(&c, "v1"));
    let reply = c.eventually("being selectable", &select("red"), |reply| reply.status == 200).await?;
    reply.names_are(&["red"])?;
    c.get(&select("blue")).await?.ok(200)?.names_are(&[])
}

async fn field_selectable_in_one_version(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &json!({"type": "object", "properties": {"color": {"type": "string"}}}));
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "integer"});
    second["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    definition["spec"]["versions"] = json!([definition["spec"]["versions"][0], second]);
    install(&c, &definition).await?;
    c.create(&things(&c, "v1"), &thing(&c.ns, "red", &json!({"color": "red"}))).await?;
    let select = |version: &str| format!("{}?fieldSelector=spec.color%3Dred", things(&c, version));
    c.get(&select("v2")).await?.ok(200)?.names_are(&["red"])?;
    c.get(&select("v1")).await?.refused(400, "BadRequest", "field label not supported: spec.color")?;
    Ok(())
}

async fn deprecated_version_warns(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &json!({"type": "object"}));
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    definition["spec"]["versions"][0]["deprecated"] = json!(true);
    definition["spec"]["versions"][0]["deprecationWarning"] = json!("use another");
    definition["spec"]["versions"] = json!([definition["spec"]["versions"][0], second]);
    install(&c, &definition).await?;
    let own = vec![r#"299 - "use another""#.to_owned()];
    let general = vec![format!(r#"299 - "{}/v2 Thing is deprecated""#, crd_group(&c.ns))];
    same("of a list", c.get(&things(&c, "v1")).await?.ok(200)?.warnings(), own.clone())?;
    same("of the other version", c.get(&things(&c, "v2")).await?.ok(200)?.warnings(), general)?;
    let absent = c.get(&format!("{}/absent", things(&c, "v1"))).await?.ok(404)?;
    same("of what is not there", absent.warnings(), own)
}

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

async fn taken_node_port_is_refused(c: Ctx) -> Outcome {
    let first = service("a", json!({"type": "NodePort", "ports": [{"port": 80}]}));
    let taken = c.create(&c.core("services"), &first).await?.at("/spec/ports/0/nodePort").clone();
    let wish = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": taken}]});
    let why = format!("spec.ports[0].nodePort: Invalid value: {taken}: provided port is already allocated");
    let reply = c.post(&c.core("services"), &service("b", wish.clone())).await?;
    reply.refused(422, "Invalid", &format!("Service \"b\" is invalid: {why}"))?;
    let plain = service("c", json!({"ports": [{"port": 80}]}));
    c.create(&c.core("services"), &plain).await?;
    let reply = c.merge_patch(&c.core("services/c"), &json!({"spec": wish})).await?;
    reply.refused(422, "Invalid", &format!("Service \"c\" is invalid: {why}"))?;
    // Its own port it may keep.
    c.merge_patch(&c.core("services/a"), &json!({"spec": {"selector": {"a": "b"}}}))
        .await?
        .ok(200)?
        .is("/spec/ports/0/nodePort", taken)
}

async fn node_port_must_be_in_the_range(c: Ctx) -> Outcome {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    let reply = c.post(&c.core("services"), &service("a", spec)).await?;
    reply.refused(
        422,
        "Invalid",
        "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
    )?;
    Ok(())
}

async fn taken_address_is_refused_on_update(c: Ctx) -> Outcome {
    let first = service("a", json!({"ports": [{"port": 80}]}));
    let taken = c.create(&c.core("services"), &first).await?.text("/spec/clusterIP");
    c.create(&c.core("services"), &service("b", json!({"type": "ExternalName", "externalName": "x.y"})))
        .await?;
    let wish = json!({"spec": {"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}], "clusterIP": taken}});
    let reply = c.merge_patch(&c.core("services/b"), &wish).await?;
    let why = format!("failed to allocate IP {taken}: provided IP is already allocated");
    reply.refused_about(422, "Invalid", &why)?;
    Ok(())
}

async fn token_for(c: &Ctx, spec: Value) -> Result<Reply, Failure> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    c.post(&c.core("serviceaccounts/robot/token"), &body).await
}

async fn review(c: &Ctx, token: &str, audiences: &Value) -> Result<Reply, Failure> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences}});
    c.post("/apis/authentication.k8s.io/v1/tokenreviews", &body).await?.ok(201)
}

async fn is_for_its_audiences(c: Ctx) -> Outcome {
    c.create(&c.core("serviceaccounts"), &account()).await?;
    let given = token_for(&c, json!({"audiences": ["vault", "other"]})).await?.ok(201)?;
    given.is("/spec/audiences", json!(["vault", "other"]))?;
    let token = given.text("/status/token");
    let reply = review(&c, &token, &json!(["vault", "third"])).await?;
    reply.is("/status/authenticated", true)?;
    reply.is("/status/audiences", json!(["vault"]))?;
    let reply = review(&c, &token, &json!(["third"])).await?;
    reply.lacks("/status/authenticated")?;
    reply.is("/status/error", "[invalid bearer token, token audiences [\"vault\" \"other\"] is invalid for the target audiences [\"third\"]]")?;
    review(&c, &token, &json!([])).await?.lacks("/status/authenticated")?;
    let anonymous = c.become_user(crate::TestUser::Anonymous)?;
    let request = anonymous.request(Method::GET, "/api").header("authorization", &format!("Bearer {token}"));
    request.send().await?.refused(401, "Unauthorized", "Unauthorized")?;
    let own = token_for(&c, json!({})).await?.ok(201)?;
    let audience = own.at("/spec/audiences/0").clone();
    let reply = review(&c, &own.text("/status/token"), &json!([])).await?;
    reply.is("/status/authenticated", true)?;
    reply.is("/status/audiences", json!([audience]))
}

async fn goes_with_its_pod(c: Ctx) -> Outcome {
    c.create(&c.core("serviceaccounts"), &account()).await?;
    let mut body = bound_pod("a");
    body["spec"]["serviceAccountName"] = json!("robot");
    c.create(&c.core("pods"), &body).await?;
    let bound = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a"}});
    let token = token_for(&c, bound).await?.ok(201)?.text("/status/token");
    review(&c, &token, &json!([])).await?.is("/status/authenticated", true)?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    for _ in 0..100 {
        if review(&c, &token, &json!([])).await?.lacks("/status/authenticated").is_ok() {
            return Ok(());
        }
        // A real server looks into a cache of pods, and remembers what it found for some seconds.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Err(Failure("the token outlives its pod".to_owned()))
}

async fn other_objects_are_refused(c: Ctx) -> Outcome {
    c.create(&c.core("serviceaccounts"), &account()).await?;
    c.create(&c.core("pods"), &pod("a")).await?;
    let bound =
        |kind: &str, name: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}});
    let reply = token_for(&c, bound("ConfigMap", "x")).await?;
    reply.refused(400, "BadRequest", "cannot bind token to object of type /v1, Kind=ConfigMap")?;
    token_for(&c, bound("Secret", "x")).await?.refused(404, "NotFound", "secrets \"x\" not found")?;
    let why =
        "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.";
    token_for(&c, bound("Pod", "a")).await?.refused(400, "BadRequest", why)?;
    Ok(())
}

async fn items_of_new_events_carry_no_kind(c: Ctx) -> Outcome {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R",
        "involvedObject": {"kind": "Pod", "namespace": c.ns, "name": "p"}});
    c.create(&c.core("events"), &event).await?;
    for path in [c.core("events"), c.group("events.k8s.io/v1", "events")] {
        let list = c.get(&path).await?.ok(200)?;
        list.is("/items/0/metadata/name", "e")?;
        list.lacks("/items/0/kind")?;
        list.lacks("/items/0/apiVersion")?;
    }
    Ok(())
}

fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
}

async fn only_the_subresource_copies_labels(c: Ctx) -> Outcome {
    let zone = json!({"topology.kubernetes.io/zone": "z"});
    c.create_shared("/api/v1/nodes", &labelled(node(&c.ns), &zone)).await?;
    for (name, path, labels) in
        [("a", c.core("pods/a/binding"), &zone), ("b", c.core("bindings"), &Value::Null)]
    {
        c.create(&c.core("pods"), &pod(name)).await?;
        c.post(&path, &binding(name, &c.ns)).await?.ok(201)?;
        let bound = c.get(&c.core(&format!("pods/{name}"))).await?.ok(200)?;
        bound.is("/spec/nodeName", c.ns.as_str())?;
        bound.is("/metadata/labels", labels.clone())?;
    }
    Ok(())
}

async fn bindings_resource_needs_the_namespace(c: Ctx) -> Outcome {
    for path in ["bindings", "pods/a/binding"] {
        let reply = c.post(&format!("/api/v1/namespaces/absent/{path}"), &binding("a", "n")).await?;
        reply.refused(404, "NotFound", "namespaces \"absent\" not found")?;
    }
    Ok(())
}
