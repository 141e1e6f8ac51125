use super::fixtures::{bound_pod, labelled, pod};
use crate::{Ctx, Failure, Look, Outcome, Reply, reply::same};
use http::Method;
use serde_json::{Value, json};

area!("pod":
    defaults,
    quality_of_service,
    requests_default_to_limits,
    pull_policy_follows_the_tag,
    tolerations_for_not_ready_nodes,
    containers_are_required,
    spec_is_immutable,
    image_and_tolerations_can_change,
    invalid_resources_are_refused,
    phase_is_pending,
    status_by_subresource;
"pod priority":
    class_gives_the_value,
    unknown_class_is_refused,
    value_cannot_be_chosen,
    system_classes_exist,
    class_value_is_immutable;
"binding":
    binds_and_marks_as_scheduled,
    bound_pod_cannot_be_bound_again,
    needs_a_target,
    pod_must_exist,
    annotations_and_labels_go_to_the_pod;
"eviction":
    without_budget_deletes,
    unprocessed_budget_says_wait,
    spent_budget_refuses,
    allowed_disruption_is_counted,
    several_budgets_are_refused,
    pending_pod_needs_no_budget,
    dry_run_evicts_nothing,
    delete_options_are_used,
    names_must_match,
    absent_pod_is_not_found;
"pod connections":
    log_of_an_unbound_pod,
    exec_of_an_unbound_pod,
    log_of_an_absent_pod,
);

async fn remove(c: &Ctx, name: &str) -> Outcome {
    c.delete_with(&c.core(&format!("pods/{name}")), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn defaults(c: Ctx) -> Outcome {
    let made = c.create(&c.core("pods"), &pod("a")).await?;
    for (field, expected) in [
        ("/spec/restartPolicy", json!("Always")),
        ("/spec/dnsPolicy", json!("ClusterFirst")),
        ("/spec/terminationGracePeriodSeconds", json!(30)),
        ("/spec/schedulerName", json!("default-scheduler")),
        ("/spec/securityContext", json!({})),
        ("/spec/enableServiceLinks", json!(true)),
        ("/spec/priority", json!(0)),
        ("/spec/preemptionPolicy", json!("PreemptLowerPriority")),
        ("/spec/containers/0/terminationMessagePath", json!("/dev/termination-log")),
        ("/spec/containers/0/terminationMessagePolicy", json!("File")),
        ("/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        ("/spec/containers/0/resources", json!({})),
        ("/metadata/generation", json!(1)),
    ] {
        made.is(field, expected)?;
    }
    Ok(())
}

async fn quality_of_service(c: Ctx) -> Outcome {
    for (name, resources, class) in [
        ("a", json!({}), "BestEffort"),
        ("b", json!({"requests": {"cpu": "1"}}), "Burstable"),
        (
            "c",
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
            "Guaranteed",
        ),
        ("d", json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
    ] {
        let mut body = pod(name);
        body["spec"]["containers"][0]["resources"] = resources;
        c.create(&c.core("pods"), &body).await?.is("/status/qosClass", class)?;
    }
    Ok(())
}

async fn requests_default_to_limits(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}});
    let made = c.create(&c.core("pods"), &body).await?;
    made.is(
        "/spec/containers/0/resources",
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
    )
}

async fn pull_policy_follows_the_tag(c: Ctx) -> Outcome {
    for (name, image, policy) in [
        ("a", "registry.example/app", "Always"),
        ("b", "registry.example/app:latest", "Always"),
        ("c", "registry.example/app:v1", "IfNotPresent"),
        ("d", "registry.example:5000/app", "Always"),
    ] {
        let mut body = pod(name);
        body["spec"]["containers"][0]["image"] = json!(image);
        c.create(&c.core("pods"), &body).await?.is("/spec/containers/0/imagePullPolicy", policy)?;
    }
    Ok(())
}

async fn tolerations_for_not_ready_nodes(c: Ctx) -> Outcome {
    let toleration = |key: &str, seconds: i64| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let made = c.create(&c.core("pods"), &pod("a")).await?;
    made.is("/spec/tolerations", json!([toleration("not-ready", 300), toleration("unreachable", 300)]))?;
    let mut body = pod("b");
    body["spec"]["tolerations"] = json!([toleration("not-ready", 5)]);
    let made = c.create(&c.core("pods"), &body).await?;
    made.is("/spec/tolerations", json!([toleration("not-ready", 5), toleration("unreachable", 300)]))
}

async fn containers_are_required(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["spec"] = json!({});
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused(422, "Invalid", "Pod \"a\" is invalid: spec.containers: Required value")?;
    let mut body = pod("a");
    body["spec"]["containers"] = json!([{"name": "x", "image": "i"}, {"name": "x", "image": "i"}]);
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused(422, "Invalid", "Pod \"a\" is invalid: spec.containers[1].name: Duplicate value: \"x\"")?;
    Ok(())
}

async fn spec_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.merge_patch(&c.core("pods/a"), &json!({"spec": {"nodeName": "x"}})).await?;
    reply.refused_about(422, "Invalid", "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")?;
    reply.causes(&[(
        "FieldValueForbidden",
        "spec",
        "Forbidden: pod updates may not change fields other than",
    )])?;
    Ok(())
}

async fn image_and_tolerations_can_change(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let patch = json!({"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}});
    let reply = c.strategic_patch(&c.core("pods/a"), &patch).await?.ok(200)?;
    reply.is("/spec/containers/0/image", "registry.example/app:2")?;
    reply.is("/metadata/generation", 2)?;
    let patch = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists", "effect": "NoSchedule"}}]);
    c.json_patch(&c.core("pods/a"), &patch).await?.ok(200)?.is("/spec/tolerations/2/key", "x")
}

async fn invalid_resources_are_refused(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}});
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "Pod \"a\" is invalid: spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
    )?;
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "much"}});
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused_about(400, "BadRequest", "quantities must match the regular expression")?;
    Ok(())
}

async fn phase_is_pending(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let made = c.create(&c.core("pods"), &body).await?;
    made.is("/status", json!({"phase": "Pending", "qosClass": "BestEffort"}))
}

async fn status_by_subresource(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let patch = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"}});
    let reply = c.strategic_patch(&c.core("pods/a/status"), &patch).await?.ok(200)?;
    reply.is("/status/phase", "Running")?;
    reply.is("/status/conditions/0/status", "True")?;
    reply.is("/status/podIPs", json!([{"ip": "10.0.0.1"}]))?;
    reply.is("/status/qosClass", "BestEffort")?;
    remove(&c, "a").await
}

async fn class(c: &Ctx, value: i64, policy: &str) -> Result<Value, Failure> {
    let body = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": c.ns}, "value": value, "preemptionPolicy": policy});
    c.create_shared("/apis/scheduling.k8s.io/v1/priorityclasses", &body).await
}

async fn class_gives_the_value(c: Ctx) -> Outcome {
    class(&c, 1234, "Never").await?.is("/metadata/generation", 1)?;
    let mut body = pod("a");
    body["spec"]["priorityClassName"] = json!(c.ns);
    let path = c.core("pods");
    // A real server learns of a new class through a watch.
    let mut reply = c.post(&path, &body).await?;
    for _ in 0..100 {
        if reply.status != 403 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        reply = c.post(&path, &body).await?;
    }
    let made = reply.ok(201)?;
    made.is("/spec/priority", 1234)?;
    made.is("/spec/preemptionPolicy", "Never")
}

async fn unknown_class_is_refused(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["spec"]["priorityClassName"] = json!(format!("{}-none", c.ns));
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused(
        403,
        "Forbidden",
        &format!("pods \"a\" is forbidden: no PriorityClass with name {}-none was found", c.ns),
    )?;
    Ok(())
}

async fn value_cannot_be_chosen(c: Ctx) -> Outcome {
    let mut body = pod("a");
    body["spec"]["priority"] = json!(7);
    let reply = c.post(&c.core("pods"), &body).await?;
    reply.refused(
        403,
        "Forbidden",
        "pods \"a\" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
    )?;
    Ok(())
}

async fn system_classes_exist(c: Ctx) -> Outcome {
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        c.get(&path).await?.ok(200)?.is("/value", value)?;
        let mut body = pod(name);
        body["spec"]["priorityClassName"] = json!(name);
        c.create(&c.core("pods"), &body).await?.is("/spec/priority", value)?;
    }
    Ok(())
}

async fn class_value_is_immutable(c: Ctx) -> Outcome {
    class(&c, 5, "PreemptLowerPriority").await?;
    let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{}", c.ns);
    let reply = c.merge_patch(&path, &json!({"value": 6})).await?;
    reply.refused_about(422, "Invalid", "value: ")?;
    c.merge_patch(&path, &json!({"description": "more"})).await?.ok(200)?.is("/value", 5)
}

fn binding(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
}

async fn binds_and_marks_as_scheduled(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.post(&c.core("pods/a/binding"), &binding("a", "n1")).await?.ok(201)?;
    reply.is("/kind", "Status")?;
    reply.is("/status", "Success")?;
    let read = c.get(&c.core("pods/a")).await?.ok(200)?;
    read.is("/spec/nodeName", "n1")?;
    read.is("/status/conditions/0/type", "PodScheduled")?;
    read.is("/status/conditions/0/status", "True")?;
    read.has("/status/conditions/0/lastTransitionTime")?;
    remove(&c, "a").await
}

async fn bound_pod_cannot_be_bound_again(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &bound_pod("a")).await?;
    let reply = c.post(&c.core("pods/a/binding"), &binding("a", "n2")).await?;
    reply.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"no-such-node\"",
    )?;
    remove(&c, "a").await
}

async fn needs_a_target(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.post(&c.core("pods/a/binding"), &binding("a", "")).await?;
    reply.refused_about(500, "", "target.name: Required value")?;
    c.get(&c.core("pods/a")).await?.lacks("/spec/nodeName")
}

async fn pod_must_exist(c: Ctx) -> Outcome {
    let reply = c.post(&c.core("pods/a/binding"), &binding("a", "n1")).await?;
    reply.refused_about(404, "NotFound", "\"a\" not found")?;
    Ok(())
}

async fn annotations_and_labels_go_to_the_pod(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let mut body = binding("a", "n1");
    body["metadata"]["annotations"] = json!({"chosen": "by hand"});
    c.post(&c.core("pods/a/binding"), &body).await?.ok(201)?;
    c.get(&c.core("pods/a")).await?.is("/metadata/annotations/chosen", "by hand")?;
    remove(&c, "a").await
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

async fn running_pod(c: &Ctx, name: &str) -> Outcome {
    c.create(&c.core("pods"), &labelled(bound_pod(name), &json!({"app": "x"}))).await?;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    c.merge_patch(&c.core(&format!("pods/{name}/status")), &status).await?.ok(200)?;
    Ok(())
}

async fn budget(c: &Ctx, name: &str, allowed: Option<i64>) -> Outcome {
    let budgets = c.group("policy/v1", "poddisruptionbudgets");
    let body = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    c.create(&budgets, &body).await?;
    if let Some(allowed) = allowed {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 1 + allowed}});
        c.merge_patch(&format!("{budgets}/{name}/status"), &status).await?.ok(200)?;
    }
    Ok(())
}

async fn evict(c: &Ctx, name: &str, body: &Value) -> Result<Reply, Failure> {
    c.post(&c.core(&format!("pods/{name}/eviction")), body).await
}

async fn without_budget_deletes(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    let reply = evict(&c, "a", &eviction("a")).await?.ok(201)?;
    reply.is("/kind", "Status")?;
    reply.is("/status", "Success")?;
    let read = c.get(&c.core("pods/a")).await?.ok(200)?;
    read.has("/metadata/deletionTimestamp")?;
    read.is("/metadata/deletionGracePeriodSeconds", 30)?;
    let conditions = read.at("/status/conditions").as_array().cloned().unwrap_or_default();
    let target = conditions.into_iter().find(|one| one["type"] == "DisruptionTarget").unwrap_or_default();
    target.is("/reason", "EvictionByEvictionAPI")?;
    target.is("/message", "Eviction API: evicting")?;
    remove(&c, "a").await
}

async fn unprocessed_budget_says_wait(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    budget(&c, "b", None).await?;
    let reply = evict(&c, "a", &eviction("a")).await?;
    reply.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )?;
    reply.causes(&[(
        "DisruptionBudget",
        "",
        "The disruption budget b is still being processed by the server.",
    )])?;
    reply.is("/details/retryAfterSeconds", 10)?;
    same("Retry-After", reply.header("retry-after"), "10")?;
    remove(&c, "a").await
}

async fn spent_budget_refuses(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    budget(&c, "b", Some(0)).await?;
    let reply = evict(&c, "a", &eviction("a")).await?;
    reply.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )?;
    reply.causes(&[(
        "DisruptionBudget",
        "",
        "The disruption budget b needs 1 healthy pods and has 1 currently",
    )])?;
    same("Retry-After", reply.header("retry-after"), "")?;
    c.get(&c.core("pods/a")).await?.ok(200)?.lacks("/metadata/deletionTimestamp")?;
    remove(&c, "a").await
}

async fn allowed_disruption_is_counted(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    running_pod(&c, "other").await?;
    budget(&c, "b", Some(1)).await?;
    evict(&c, "a", &eviction("a")).await?.ok(201)?;
    let left = c.get(&c.group("policy/v1", "poddisruptionbudgets/b")).await?.ok(200)?;
    left.is("/status/disruptionsAllowed", 0)?;
    left.has("/status/disruptedPods/a")?;
    evict(&c, "other", &eviction("other")).await?.ok(429)?;
    remove(&c, "a").await?;
    remove(&c, "other").await
}

async fn several_budgets_are_refused(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    budget(&c, "b", Some(1)).await?;
    budget(&c, "d", Some(1)).await?;
    let reply = evict(&c, "a", &eviction("a")).await?;
    reply.refused(
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )?;
    remove(&c, "a").await
}

async fn pending_pod_needs_no_budget(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &labelled(pod("a"), &json!({"app": "x"}))).await?;
    budget(&c, "b", Some(0)).await?;
    evict(&c, "a", &eviction("a")).await?.ok(201)?;
    c.get(&c.core("pods/a")).await?.ok(404)?;
    Ok(())
}

async fn dry_run_evicts_nothing(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    let mut body = eviction("a");
    body["deleteOptions"] = json!({"dryRun": ["All"]});
    evict(&c, "a", &body).await?.ok(201)?;
    c.get(&c.core("pods/a")).await?.ok(200)?.lacks("/metadata/deletionTimestamp")?;
    remove(&c, "a").await
}

async fn delete_options_are_used(c: Ctx) -> Outcome {
    running_pod(&c, "a").await?;
    let mut body = eviction("a");
    body["deleteOptions"] = json!({"gracePeriodSeconds": 4});
    evict(&c, "a", &body).await?.ok(201)?;
    c.get(&c.core("pods/a")).await?.ok(200)?.is("/metadata/deletionGracePeriodSeconds", 4)?;
    remove(&c, "a").await
}

async fn names_must_match(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = evict(&c, "a", &eviction("b")).await?;
    reply.refused(400, "BadRequest", "name in URL does not match name in Eviction object")?;
    Ok(())
}

async fn absent_pod_is_not_found(c: Ctx) -> Outcome {
    let reply = evict(&c, "a", &eviction("a")).await?;
    reply.refused(404, "NotFound", "pods \"a\" not found")?;
    Ok(())
}

async fn log_of_an_unbound_pod(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.get(&c.core("pods/a/log")).await?.ok(204)?;
    same("log", reply.text_body().as_str(), "")
}

async fn exec_of_an_unbound_pod(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.request(Method::POST, &c.core("pods/a/exec?command=ls&stdout=true")).send().await?;
    reply.refused(400, "BadRequest", "pod a does not have a host assigned")?;
    let reply = c.request(Method::POST, &c.core("pods/a/portforward")).send().await?;
    reply.refused(400, "BadRequest", "pod a does not have a host assigned")?;
    Ok(())
}

async fn log_of_an_absent_pod(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("pods/a/log")).await?;
    reply.refused(404, "NotFound", "pods \"a\" not found")?;
    Ok(())
}
