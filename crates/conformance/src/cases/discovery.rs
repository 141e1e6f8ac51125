use super::fixtures::{crd, crd_group, install};
use crate::{
    Ctx, Look, Outcome,
    reply::{holds, same},
};
use serde_json::{Value, json};

area!("discovery":
    core_versions,
    groups,
    one_group,
    core_resources,
    resources_of_a_group,
    subresources_are_listed,
    short_names_and_categories,
    verbs_of_a_resource,
    custom_kinds_appear,
    aggregated_groups,
    aggregated_core,
    unknown_group_is_not_found,
    unknown_version_is_not_found,
    unknown_path_is_not_found,
    root_lists_paths,
    kinds_that_controllers_use_are_there;
"health":
    version,
    healthz_livez_readyz,
    verbose_checks,
    single_check;
"openapi":
    index_names_the_groups,
    document_of_a_group,
    document_of_the_core_group,
    custom_kind_is_described,
);

fn resource(list: &Value, name: &str) -> Value {
    let all = list["resources"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["name"] == name).unwrap_or_default()
}

fn sorted(list: &Value) -> Vec<String> {
    let mut words: Vec<String> = list
        .as_array()
        .cloned()
        .unwrap_or_default()
        .iter()
        .map(|one| one.as_str().unwrap_or("").to_owned())
        .collect();
    words.sort();
    words
}

async fn core_versions(c: Ctx) -> Outcome {
    let reply = c.get("/api").await?.ok(200)?;
    reply.is("/kind", "APIVersions")?;
    reply.is("/versions", json!(["v1"]))?;
    reply.has("/serverAddressByClientCIDRs/0/clientCIDR")
}

async fn groups(c: Ctx) -> Outcome {
    let reply = c.get("/apis").await?.ok(200)?;
    reply.is("/kind", "APIGroupList")?;
    reply.is("/apiVersion", "v1")?;
    let groups = reply.at("/groups").as_array().cloned().unwrap_or_default();
    for (name, version) in [
        ("apps", "v1"),
        ("batch", "v1"),
        ("coordination.k8s.io", "v1"),
        ("policy", "v1"),
        ("rbac.authorization.k8s.io", "v1"),
        ("storage.k8s.io", "v1"),
        ("scheduling.k8s.io", "v1"),
        ("certificates.k8s.io", "v1"),
        ("events.k8s.io", "v1"),
        ("authorization.k8s.io", "v1"),
        ("apiextensions.k8s.io", "v1"),
    ] {
        let group = groups.iter().find(|one| one["name"] == name).cloned().unwrap_or_default();
        let preferred = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        group.is("/preferredVersion", preferred.clone())?;
        let versions = group.at("/versions").as_array().cloned().unwrap_or_default();
        holds("the preferred version is one of the versions", versions.contains(&preferred))?;
    }
    Ok(())
}

async fn one_group(c: Ctx) -> Outcome {
    let reply = c.get("/apis/apps").await?.ok(200)?;
    reply.is("/kind", "APIGroup")?;
    reply.is("/apiVersion", "v1")?;
    reply.is("/name", "apps")?;
    reply.is("/versions", json!([{"groupVersion": "apps/v1", "version": "v1"}]))?;
    reply.is("/preferredVersion", json!({"groupVersion": "apps/v1", "version": "v1"}))
}

async fn core_resources(c: Ctx) -> Outcome {
    let reply = c.get("/api/v1").await?.ok(200)?;
    reply.is("/kind", "APIResourceList")?;
    reply.is("/groupVersion", "v1")?;
    let pods = resource(&reply.json, "pods");
    pods.is("/kind", "Pod")?;
    pods.is("/namespaced", true)?;
    pods.is("/singularName", "pod")?;
    pods.is("/shortNames", json!(["po"]))?;
    pods.is("/categories", json!(["all"]))?;
    resource(&reply.json, "nodes").is("/namespaced", false)?;
    resource(&reply.json, "namespaces").is("/shortNames", json!(["ns"]))
}

async fn resources_of_a_group(c: Ctx) -> Outcome {
    let reply = c.get("/apis/apps/v1").await?.ok(200)?;
    reply.is("/kind", "APIResourceList")?;
    reply.is("/apiVersion", "v1")?;
    reply.is("/groupVersion", "apps/v1")?;
    for (name, kind) in [
        ("deployments", "Deployment"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
        ("daemonsets", "DaemonSet"),
    ] {
        resource(&reply.json, name).is("/kind", kind)?;
        resource(&reply.json, &format!("{name}/status")).is("/kind", kind)?;
    }
    Ok(())
}

async fn subresources_are_listed(c: Ctx) -> Outcome {
    let core = c.get("/api/v1").await?.ok(200)?;
    for (name, kind, group, verb) in [
        ("pods/eviction", "Eviction", "policy", "create"),
        ("pods/binding", "Binding", "", "create"),
        ("pods/log", "Pod", "", "get"),
        ("namespaces/finalize", "Namespace", "", "update"),
        ("serviceaccounts/token", "TokenRequest", "authentication.k8s.io", "create"),
    ] {
        let found = resource(&core.json, name);
        found.is("/kind", kind)?;
        same("group", found.text("/group").as_str(), group)?;
        found.is("/verbs", json!([verb]))?;
    }
    let status = resource(&core.json, "nodes/status");
    same("verbs", sorted(&status["verbs"]), vec!["get".to_owned(), "patch".to_owned(), "update".to_owned()])?;
    let apps = c.get("/apis/apps/v1").await?.ok(200)?;
    let scale = resource(&apps.json, "deployments/scale");
    scale.is("/kind", "Scale")?;
    scale.is("/group", "autoscaling")?;
    scale.is("/version", "v1")
}

async fn short_names_and_categories(c: Ctx) -> Outcome {
    let core = c.get("/api/v1").await?.ok(200)?.json;
    for (name, short) in [
        ("configmaps", "cm"),
        ("services", "svc"),
        ("serviceaccounts", "sa"),
        ("persistentvolumeclaims", "pvc"),
        ("persistentvolumes", "pv"),
        ("nodes", "no"),
        ("events", "ev"),
    ] {
        resource(&core, name).is("/shortNames", json!([short]))?;
    }
    let apps = c.get("/apis/apps/v1").await?.ok(200)?.json;
    resource(&apps, "deployments").is("/shortNames", json!(["deploy"]))?;
    resource(&apps, "deployments").is("/categories", json!(["all"]))?;
    let definitions = c.get("/apis/apiextensions.k8s.io/v1").await?.ok(200)?.json;
    let definitions = resource(&definitions, "customresourcedefinitions");
    definitions.is("/shortNames", json!(["crd", "crds"]))?;
    definitions.is("/categories", json!(["api-extensions"]))
}

async fn verbs_of_a_resource(c: Ctx) -> Outcome {
    let core = c.get("/api/v1").await?.ok(200)?.json;
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    same("verbs", sorted(&resource(&core, "configmaps")["verbs"]), all.map(str::to_owned).to_vec())?;
    let some = ["create", "delete", "get", "list", "patch", "update", "watch"];
    same("verbs", sorted(&resource(&core, "namespaces")["verbs"]), some.map(str::to_owned).to_vec())?;
    let reviews = c.get("/apis/authorization.k8s.io/v1").await?.ok(200)?.json;
    resource(&reviews, "selfsubjectaccessreviews").is("/verbs", json!(["create"]))
}

async fn custom_kinds_appear(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &json!({"type": "object"}));
    definition["spec"]["names"]["shortNames"] = json!(["th"]);
    definition["spec"]["names"]["categories"] = json!(["stuff"]);
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    install(&c, &definition).await?;
    let group = crd_group(&c.ns);
    let reply = c.get(&format!("/apis/{group}/v1")).await?.ok(200)?;
    let things = resource(&reply.json, "things");
    things.is("/kind", "Thing")?;
    things.is("/singularName", "thing")?;
    things.is("/shortNames", json!(["th"]))?;
    things.is("/categories", json!(["stuff"]))?;
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    same("verbs", sorted(&things["verbs"]), all.map(str::to_owned).to_vec())?;
    resource(&reply.json, "things/status").is("/kind", "Thing")?;
    c.get(&format!("/apis/{group}")).await?.ok(200)?.is("/preferredVersion/version", "v1")?;
    let there = |reply: &crate::Reply| {
        reply.at("/groups").as_array().is_some_and(|all| all.iter().any(|one| one["name"] == group))
    };
    c.eventually("the group being listed", "/apis", there).await?;
    Ok(())
}

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

async fn aggregated_groups(c: Ctx) -> Outcome {
    let reply = c.get_as("/apis", AGGREGATED).await?.ok(200)?;
    same(
        "content type",
        reply.header("content-type"),
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    )?;
    reply.is("/kind", "APIGroupDiscoveryList")?;
    reply.is("/apiVersion", "apidiscovery.k8s.io/v2")?;
    let groups = reply.at("/items").as_array().cloned().unwrap_or_default();
    let apps = groups.iter().find(|one| one["metadata"]["name"] == "apps").cloned().unwrap_or_default();
    apps.is("/versions/0/version", "v1")?;
    let resources = apps.at("/versions/0/resources").as_array().cloned().unwrap_or_default();
    let deployments =
        resources.iter().find(|one| one["resource"] == "deployments").cloned().unwrap_or_default();
    deployments.is("/scope", "Namespaced")?;
    deployments.is("/responseKind/kind", "Deployment")?;
    deployments.is("/singularResource", "deployment")?;
    deployments.is("/shortNames", json!(["deploy"]))?;
    let below = deployments.at("/subresources").as_array().cloned().unwrap_or_default();
    let scale = below.iter().find(|one| one["subresource"] == "scale").cloned().unwrap_or_default();
    scale.is("/responseKind/kind", "Scale")
}

async fn aggregated_core(c: Ctx) -> Outcome {
    let reply = c.get_as("/api", AGGREGATED).await?.ok(200)?;
    reply.is("/kind", "APIGroupDiscoveryList")?;
    reply.is("/items/0/versions/0/version", "v1")?;
    let resources = reply.at("/items/0/versions/0/resources").as_array().cloned().unwrap_or_default();
    let nodes = resources.iter().find(|one| one["resource"] == "nodes").cloned().unwrap_or_default();
    nodes.is("/scope", "Cluster")?;
    nodes.is("/responseKind/kind", "Node")
}

async fn unknown_group_is_not_found(c: Ctx) -> Outcome {
    c.get("/apis/nothing.example.com").await?.ok(404)?;
    c.get("/apis/nothing.example.com/v1").await?.ok(404)?;
    c.get("/apis/nothing.example.com/v1/things").await?.ok(404)?;
    Ok(())
}

async fn unknown_version_is_not_found(c: Ctx) -> Outcome {
    for path in ["/api/v2", "/apis/apps/v7", "/apis/apps/v7/deployments", "/api/v1/nothings"] {
        let reply = c.get(path).await?;
        reply.refused(404, "NotFound", "the server could not find the requested resource")?;
    }
    Ok(())
}

async fn unknown_path_is_not_found(c: Ctx) -> Outcome {
    c.get("/nothing/here").await?.ok(404)?;
    Ok(())
}

async fn root_lists_paths(c: Ctx) -> Outcome {
    let reply = c.get("/").await?.ok(200)?;
    let paths = sorted(reply.at("/paths"));
    for path in
        ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"]
    {
        holds(&format!("{path} is listed"), paths.contains(&path.to_owned()))?;
    }
    Ok(())
}

async fn kinds_that_controllers_use_are_there(c: Ctx) -> Outcome {
    for (path, names) in [
        (
            "/api/v1",
            vec![
                "namespaces",
                "nodes",
                "pods",
                "secrets",
                "configmaps",
                "events",
                "services",
                "serviceaccounts",
                "persistentvolumes",
                "persistentvolumeclaims",
            ],
        ),
        ("/apis/events.k8s.io/v1", vec!["events"]),
        ("/apis/storage.k8s.io/v1", vec!["volumeattachments", "csinodes", "storageclasses"]),
        ("/apis/coordination.k8s.io/v1", vec!["leases"]),
        ("/apis/policy/v1", vec!["poddisruptionbudgets"]),
        ("/apis/batch/v1", vec!["jobs"]),
        ("/apis/scheduling.k8s.io/v1", vec!["priorityclasses"]),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            vec!["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        ),
        (
            "/apis/certificates.k8s.io/v1",
            vec!["certificatesigningrequests", "certificatesigningrequests/approval"],
        ),
        (
            "/apis/authorization.k8s.io/v1",
            vec![
                "subjectaccessreviews",
                "selfsubjectaccessreviews",
                "selfsubjectrulesreviews",
                "localsubjectaccessreviews",
            ],
        ),
        ("/apis/authentication.k8s.io/v1", vec!["selfsubjectreviews", "tokenreviews"]),
    ] {
        let list = c.get(path).await?.ok(200)?;
        for name in names {
            holds(&format!("{name} is in {path}"), resource(&list.json, name)["name"] == name)?;
        }
    }
    Ok(())
}

async fn version(c: Ctx) -> Outcome {
    let reply = c.get("/version").await?.ok(200)?;
    reply.is("/major", "1")?;
    reply.is("/minor", "36")?;
    holds("gitVersion is of that minor", reply.text("/gitVersion").starts_with("v1.36."))?;
    for field in ["/platform", "/goVersion", "/compiler", "/buildDate"] {
        reply.has(field)?;
    }
    Ok(())
}

async fn healthz_livez_readyz(c: Ctx) -> Outcome {
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = c.get(path).await?.ok(200)?;
        same(path, reply.text_body().as_str(), "ok")?;
        holds("it is plain text", reply.header("content-type").starts_with("text/plain"))?;
    }
    Ok(())
}

async fn verbose_checks(c: Ctx) -> Outcome {
    let reply = c.get("/readyz?verbose").await?.ok(200)?;
    holds("checks are listed", reply.text_body().contains("[+]ping ok\n"))?;
    holds("the end says so", reply.text_body().ends_with("readyz check passed\n"))
}

async fn single_check(c: Ctx) -> Outcome {
    let reply = c.get("/livez/ping").await?.ok(200)?;
    same("answer", reply.text_body().as_str(), "ok")?;
    c.get("/livez/nothing").await?.ok(404)?;
    Ok(())
}

async fn index_names_the_groups(c: Ctx) -> Outcome {
    let reply = c.get("/openapi/v3").await?.ok(200)?;
    for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = reply.text(&format!("/paths/{}/serverRelativeURL", path.replace('/', "~1")));
        holds(&format!("{path} has a URL"), url.starts_with(&format!("/openapi/v3/{path}?hash=")))?;
        c.get(&url).await?.ok(200)?.has("/components/schemas")?;
    }
    Ok(())
}

/// The schema of a kind in an OpenAPI document.
fn schema_of(document: &Value, group: &str, kind: &str) -> Value {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let mut found = schemas.into_iter().filter(|(_, schema)| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array().cloned().unwrap_or_default();
        kinds.contains(&json!({"group": group, "version": "v1", "kind": kind}))
    });
    found.next().map(|(_, schema)| schema).unwrap_or_default()
}

async fn document_of_a_group(c: Ctx) -> Outcome {
    let document = c.get("/openapi/v3/apis/apps/v1").await?.ok(200)?;
    document.contains("/openapi", "3.0")?;
    let deployment = schema_of(&document.json, "apps", "Deployment");
    deployment.is("/type", "object")?;
    deployment.has("/properties/spec")?;
    document.has("/components/schemas/io.k8s.api.apps.v1.DeploymentSpec/properties/replicas")?;
    let containers =
        document.at("/components/schemas/io.k8s.api.core.v1.PodSpec/properties/containers").clone();
    containers.is("/x-kubernetes-patch-merge-key", "name")?;
    containers.is("/x-kubernetes-patch-strategy", "merge")?;
    document.has("/paths/~1apis~1apps~1v1~1namespaces~1{namespace}~1deployments")
}

async fn document_of_the_core_group(c: Ctx) -> Outcome {
    let document = c.get("/openapi/v3/api/v1").await?.ok(200)?;
    schema_of(&document.json, "", "ConfigMap").is("/properties/data/additionalProperties/type", "string")?;
    let patch = document.at("/paths/~1api~1v1~1namespaces~1{namespace}~1configmaps~1{name}/patch").clone();
    patch
        .is("/x-kubernetes-group-version-kind", json!({"group": "", "version": "v1", "kind": "ConfigMap"}))?;
    let parameters = patch.at("/parameters").as_array().cloned().unwrap_or_default();
    holds("fieldValidation is a parameter", parameters.iter().any(|one| one["name"] == "fieldValidation"))
}

async fn custom_kind_is_described(c: Ctx) -> Outcome {
    let schema =
        json!({"type": "object", "properties": {"size": {"type": "integer", "description": "how big"}}});
    install(&c, &crd(&c.ns, &schema)).await?;
    let group = crd_group(&c.ns);
    let path = format!("/openapi/v3/apis/{group}/v1");
    let known = |reply: &crate::Reply| schema_of(&reply.json, &group, "Thing") != Value::Null;
    let document = c.eventually("the kind being described", &path, known).await?;
    let thing = schema_of(&document.json, &group, "Thing");
    thing.is("/properties/spec/properties/size/type", "integer")?;
    thing.is("/properties/spec/properties/size/description", "how big")
}
