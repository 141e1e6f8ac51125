use super::fixtures::{bound_pod, config_map, lease, pod};
use crate::{
    Ctx, Look, Outcome, Reply,
    protobuf::Message,
    reply::{holds, same},
};
use http::Method;
use serde_json::json;

area!("body":
    yaml_is_understood,
    kind_may_be_left_out,
    broken_json_is_refused,
    empty_body_is_refused,
    list_instead_of_object_is_refused,
    wrong_kind_is_refused,
    wrong_version_is_refused,
    wrong_type_of_a_field_is_refused,
    unknown_content_type_is_refused,
    no_content_type_means_json,
    too_large_is_refused,
    null_fields_are_as_absent;
"protobuf":
    config_map_from_protobuf,
    namespace_from_protobuf,
    secret_from_protobuf,
    deployment_from_protobuf,
    lease_update_from_protobuf,
    binding_from_protobuf,
    eviction_from_protobuf,
    delete_options_from_protobuf,
    broken_protobuf_is_refused;
"field validation":
    strict_refuses_unknown_and_duplicate,
    warn_is_the_default,
    ignore_is_silent,
    unknown_fields_are_dropped,
    unknown_value_is_refused,
    strict_for_patches;
"accept":
    json_is_the_default,
    unknown_type_is_not_acceptable,
    first_known_type_is_taken,
    any_type_is_json,
    yaml_answer,
);

async fn send(c: &Ctx, content_type: &str, body: impl Into<bytes::Bytes>) -> Result<Reply, crate::Failure> {
    c.request(Method::POST, &c.core("configmaps")).body(content_type, body).send().await
}

async fn yaml_is_understood(c: Ctx) -> Outcome {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {number: \"1\"}\ndata:\n  key: |\n    two\n    lines\n";
    let made = send(&c, "application/yaml", body).await?.ok(201)?;
    made.is("/data/key", "two\nlines\n")?;
    made.is("/metadata/labels/number", "1")
}

async fn kind_may_be_left_out(c: Ctx) -> Outcome {
    let made = send(&c, "application/json", r#"{"metadata": {"name": "a"}}"#).await?.ok(201)?;
    made.is("/kind", "ConfigMap")?;
    made.is("/apiVersion", "v1")
}

async fn broken_json_is_refused(c: Ctx) -> Outcome {
    let reply = send(&c, "application/json", r#"{"metadata":"#).await?;
    reply.refused_about(400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error:")?;
    Ok(())
}

async fn empty_body_is_refused(c: Ctx) -> Outcome {
    let reply = send(&c, "application/json", "").await?;
    reply.refused_about(400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input")?;
    Ok(())
}

async fn list_instead_of_object_is_refused(c: Ctx) -> Outcome {
    let reply = send(&c, "application/json", "[]").await?;
    reply.refused_about(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap)",
    )?;
    Ok(())
}

async fn wrong_kind_is_refused(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(400, "BadRequest", "Secret in version \"v1\" cannot be handled as a ConfigMap")?;
    Ok(())
}

async fn wrong_version_is_refused(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused_about(
        400,
        "BadRequest",
        "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme",
    )?;
    Ok(())
}

async fn wrong_type_of_a_field_is_refused(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"]["key"] = json!(1);
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    )?;
    Ok(())
}

async fn unknown_content_type_is_refused(c: Ctx) -> Outcome {
    let reply = send(&c, "text/plain", "hello").await?;
    reply.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )?;
    Ok(())
}

async fn no_content_type_means_json(c: Ctx) -> Outcome {
    let path = c.core("configmaps");
    let request = c.request(Method::POST, &path).body("content-type", config_map("a").to_string());
    request.without("content-type").send().await?.ok(201)?.is("/data/key", "value")
}

async fn too_large_is_refused(c: Ctx) -> Outcome {
    let mut body = config_map("a");
    body["data"]["key"] = json!("x".repeat(3 * 1024 * 1024));
    let reply = c.post(&c.core("configmaps"), &body).await?;
    reply.refused(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")?;
    Ok(())
}

async fn null_fields_are_as_absent(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": null, "creationTimestamp": null}, "data": null});
    let made = c.create(&c.core("configmaps"), &body).await?;
    made.lacks("/data")?;
    made.lacks("/metadata/labels")?;
    made.has("/metadata/creationTimestamp")
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn config_map_from_protobuf(c: Ctx) -> Outcome {
    let metadata = Message::new().string(1, "a").entry(11, "label", "x").entry(12, "note", "y");
    let body = Message::new().message(1, &metadata).entry(2, "key", "value").entry(2, "other", "ünï");
    let reply = send(&c, PROTOBUF, body.envelope("v1", "ConfigMap")).await?;
    let made = reply.ok(201)?;
    made.is("/data", json!({"key": "value", "other": "ünï"}))?;
    made.is("/metadata/labels", json!({"label": "x"}))?;
    made.is("/metadata/annotations", json!({"note": "y"}))
}

async fn namespace_from_protobuf(c: Ctx) -> Outcome {
    let name = format!("{}-p", c.ns);
    let body = Message::new().message(1, &Message::new().string(1, &name)).envelope("v1", "Namespace");
    c.forget(format!("/api/v1/namespaces/{name}"));
    let made = c.request(Method::POST, "/api/v1/namespaces").body(PROTOBUF, body).send().await?.ok(201)?;
    made.is("/metadata/name", name.as_str())?;
    made.is("/status/phase", "Active")
}

async fn secret_from_protobuf(c: Ctx) -> Outcome {
    let data = Message::new().string(1, "key").bytes(2, &[0, 1, 254, 255]);
    let body =
        Message::new().message(1, &Message::new().string(1, "a")).message(2, &data).string(3, "Opaque");
    let path = c.core("secrets");
    let made =
        c.request(Method::POST, &path).body(PROTOBUF, body.envelope("v1", "Secret")).send().await?.ok(201)?;
    made.is("/data/key", "AAH+/w==")?;
    made.is("/type", "Opaque")
}

async fn deployment_from_protobuf(c: Ctx) -> Outcome {
    let quantity = Message::new().string(1, "cpu").message(2, &Message::new().string(1, "100m"));
    let port = Message::new().number(3, 8080);
    let container = Message::new()
        .string(1, "web")
        .string(2, "registry.example/web:1")
        .message(6, &port)
        .message(8, &Message::new().message(2, &quantity));
    let labels = Message::new().entry(11, "app", "web");
    let template = Message::new().message(1, &labels).message(2, &Message::new().message(2, &container));
    let selector = Message::new().entry(1, "app", "web");
    // The share that may be unavailable is a number or a string: here the string 30%.
    let rolling = Message::new().message(1, &Message::new().number(1, 1).number(2, 0).string(3, "30%"));
    let strategy = Message::new().string(1, "RollingUpdate").message(2, &rolling);
    let spec = Message::new()
        .number(1, 0)
        .message(2, &selector)
        .message(3, &template)
        .message(4, &strategy)
        .number(7, 1);
    let body = Message::new().message(1, &Message::new().string(1, "web")).message(2, &spec);
    let path = c.group("apps/v1", "deployments");
    let request = c.request(Method::POST, &path).body(PROTOBUF, body.envelope("apps/v1", "Deployment"));
    let made = request.send().await?.ok(201)?;
    made.is("/spec/replicas", 0)?;
    made.is("/spec/paused", true)?;
    made.is("/spec/selector/matchLabels/app", "web")?;
    made.is("/spec/strategy/rollingUpdate/maxUnavailable", "30%")?;
    made.is("/spec/template/spec/containers/0/ports/0/containerPort", 8080)?;
    made.is("/spec/template/spec/containers/0/ports/0/protocol", "TCP")?;
    made.is("/spec/template/spec/containers/0/resources/requests/cpu", "100m")
}

async fn lease_update_from_protobuf(c: Ctx) -> Outcome {
    let made = c.create(&c.group("coordination.k8s.io/v1", "leases"), &lease("a")).await?;
    let metadata =
        Message::new().string(1, "a").string(3, &c.ns).string(6, &made.text("/metadata/resourceVersion"));
    let renewed = Message::new().number(1, 1_700_000_000).number(2, 123_456_000);
    let spec = Message::new().string(1, "two").number(2, 40).message(4, &renewed).number(5, 1);
    let path = c.group("coordination.k8s.io/v1", "leases/a");
    let put = |body: &Message| {
        let body = body.envelope("coordination.k8s.io/v1", "Lease");
        c.request(Method::PUT, &path).body(PROTOBUF, body)
    };
    let body = Message::new().message(1, &metadata).message(2, &spec);
    put(&body).send().await?.ok(200)?.is(
        "/spec",
        json!({"holderIdentity": "two", "leaseDurationSeconds": 40, "leaseTransitions": 1,
            "renewTime": "2023-11-14T22:13:20.123456Z"}),
    )?;
    // The version in it is that of the lease before.
    put(&body).send().await?.refused_about(409, "Conflict", "the object has been modified")?;
    Ok(())
}

async fn binding_from_protobuf(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let target = Message::new().string(1, "Node").string(3, "n1");
    let metadata = Message::new().string(1, "a").entry(12, "chosen", "by hand");
    let body = Message::new().message(1, &metadata).message(2, &target).envelope("v1", "Binding");
    let path = c.core("pods/a/binding");
    c.request(Method::POST, &path).body(PROTOBUF, body).send().await?.ok(201)?.is("/status", "Success")?;
    let bound = c.get(&c.core("pods/a")).await?.ok(200)?;
    bound.is("/spec/nodeName", "n1")?;
    bound.is("/metadata/annotations/chosen", "by hand")?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn eviction_from_protobuf(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    c.merge_patch(&c.core("pods/a/status"), &json!({"status": {"phase": "Running"}})).await?.ok(200)?;
    let body =
        Message::new().message(1, &Message::new().string(1, "a")).message(2, &Message::new().number(1, 7));
    let path = c.core("pods/a/eviction");
    let request = c.request(Method::POST, &path).body(PROTOBUF, body.envelope("policy/v1", "Eviction"));
    request.send().await?.ok(201)?.is("/status", "Success")?;
    c.get(&c.core("pods/a")).await?.ok(200)?.is("/metadata/deletionGracePeriodSeconds", 7)?;
    c.delete_with(&c.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn delete_options_from_protobuf(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let path = c.core("configmaps/a");
    let options = |uid: &str, policy: &str| {
        let body = Message::new().message(2, &Message::new().string(1, uid)).string(4, policy);
        c.request(Method::DELETE, &path).body(PROTOBUF, body.envelope("v1", "DeleteOptions"))
    };
    let reply = options("11111111-2222-3333-4444-555555555555", "Background").send().await?;
    let why = "the UID in the precondition (11111111-2222-3333-4444-555555555555) does not match";
    reply.refused_about(409, "Conflict", why)?;
    let uid = c.get(&path).await?.ok(200)?.text("/metadata/uid");
    let reply = options(&uid, "Orphan").send().await?.ok(200)?;
    reply.is("/metadata/finalizers", json!(["orphan"]))?;
    c.merge_patch(&path, &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    c.get(&path).await?.ok(404)?;
    Ok(())
}

async fn broken_protobuf_is_refused(c: Ctx) -> Outcome {
    for (body, why) in [
        (&b"k8s\0\xff\xff\xff"[..], "unexpected EOF (6b387300ffffff)"),
        (
            b"hello",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)",
        ),
        (b"k8s\0", "empty body (6b387300)"),
    ] {
        let reply = send(&c, PROTOBUF, body.to_vec()).await?;
        let message = format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
        reply.refused(400, "BadRequest", &message)?;
    }
    Ok(())
}

const SLOPPY: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","dat":{"x":"1"},"metadata":{"name":"a","nme":"b"},"data":{"a":"1","a":"2"}}"#;

async fn sloppy(c: &Ctx, query: &str) -> Result<Reply, crate::Failure> {
    let path = c.core(&format!("configmaps{query}"));
    c.request(Method::POST, &path).body("application/json", SLOPPY).send().await
}

async fn strict_refuses_unknown_and_duplicate(c: Ctx) -> Outcome {
    let reply = sloppy(&c, "?fieldValidation=Strict").await?;
    reply.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dat\", unknown field \"metadata.nme\", duplicate field \"data.a\"",
    )?;
    Ok(())
}

async fn warn_is_the_default(c: Ctx) -> Outcome {
    for (query, name) in [("", "default"), ("?fieldValidation=Warn&dryRun=All", "asked for")] {
        c.delete(&c.core("configmaps/a")).await?;
        let warnings = sloppy(&c, query).await?.ok(201)?.warnings();
        let expected = [
            r#"299 - "unknown field \"dat\"""#,
            r#"299 - "unknown field \"metadata.nme\"""#,
            r#"299 - "duplicate field \"data.a\"""#,
        ];
        same(name, warnings, expected.map(str::to_owned).to_vec())?;
    }
    Ok(())
}

async fn ignore_is_silent(c: Ctx) -> Outcome {
    let reply = sloppy(&c, "?fieldValidation=Ignore").await?.ok(201)?;
    same("warnings", reply.warnings(), Vec::new())?;
    reply.is("/data/a", "2")
}

async fn unknown_fields_are_dropped(c: Ctx) -> Outcome {
    let reply = sloppy(&c, "").await?.ok(201)?;
    reply.lacks("/dat")?;
    reply.lacks("/metadata/nme")
}

async fn unknown_value_is_refused(c: Ctx) -> Outcome {
    let reply = sloppy(&c, "?fieldValidation=Maybe").await?;
    reply.refused_about(
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\"",
    )?;
    Ok(())
}

async fn strict_for_patches(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply =
        c.merge_patch(&c.core("configmaps/a?fieldValidation=Strict"), &json!({"dat": {"x": "1"}})).await?;
    reply.refused_about(422, "Invalid", "strict decoding error: unknown field \"dat\"")?;
    let reply = c.merge_patch(&c.core("configmaps/a"), &json!({"dat": {"x": "1"}})).await?.ok(200)?;
    same("warnings", reply.warnings(), vec![r#"299 - "unknown field \"dat\"""#.to_owned()])
}

async fn json_is_the_default(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("configmaps")).await?.ok(200)?;
    same("content type", reply.header("content-type"), "application/json")?;
    reply.is("/kind", "ConfigMapList")
}

async fn unknown_type_is_not_acceptable(c: Ctx) -> Outcome {
    let reply = c.get_as(&c.core("configmaps"), "text/html").await?;
    reply.refused_about(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
    )?;
    Ok(())
}

async fn first_known_type_is_taken(c: Ctx) -> Outcome {
    let reply = c.get_as(&c.core("configmaps"), "text/html, application/json;q=0.5").await?.ok(200)?;
    reply.is("/kind", "ConfigMapList")?;
    let accept = "application/json;as=Table;v=v9;g=meta.k8s.io, application/json";
    c.get_as(&c.core("configmaps"), accept).await?.ok(200)?.is("/kind", "ConfigMapList")
}

async fn any_type_is_json(c: Ctx) -> Outcome {
    let reply = c.get_as(&c.core("configmaps"), "*/*").await?.ok(200)?;
    same("content type", reply.header("content-type"), "application/json")
}

async fn yaml_answer(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let reply = c.get_as(&c.core("configmaps/a"), "application/yaml").await?.ok(200)?;
    same("content type", reply.header("content-type"), "application/yaml")?;
    holds("it is YAML", reply.text_body().contains("\nkind: ConfigMap\n"))
}
