use super::fixtures::{config_map, secret};
use crate::{
    Ctx, Failure, Look, Outcome,
    TestUser::{Alice, Anonymous, Bob, Carol},
    reply::{holds, same},
};
use serde_json::{Value, json};

area!("access":
    without_rights_everything_is_refused,
    refusal_names_group_and_subresource,
    cluster_scope_is_told,
    path_is_told,
    public_paths_are_open,
    unknown_token_is_unauthorized,
    anonymous_is_refused_by_name,
    role_and_binding_allow,
    group_binding_allows,
    service_account_binding_allows,
    binding_holds_in_its_namespace_only,
    cluster_role_bound_in_a_namespace,
    cluster_role_binding_allows_everywhere,
    resource_names_limit,
    subresources_are_apart,
    wildcards,
    non_resource_urls,
    removed_binding_ends_it,
    delete_collection_is_its_own_verb,
    create_by_update_needs_create;
"rbac":
    role_ref_is_immutable,
    subjects_are_defaulted,
    rules_are_validated,
    privileges_cannot_be_escalated,
    binding_needs_the_rights_it_gives,
    bind_verb_allows_binding,
    bootstrap_roles_exist,
    subject_kinds_are_validated;
"access review":
    self_review_of_the_administrator,
    self_review_of_a_user_without_rights,
    self_review_after_a_binding,
    review_of_another_user,
    review_needs_the_right_to_ask,
    local_review_must_match_its_namespace,
    review_of_a_path,
    review_needs_attributes,
    rules_review,
    who_am_i,
);

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, subject: &Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}, "subjects": [subject]})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Gives a subject these rules in the namespace of the case.
async fn allow(c: &Ctx, subject: &Value, rules: &Value) -> Outcome {
    c.create(&c.group(RBAC, "roles"), &role("allowed", rules)).await?;
    c.create(&c.group(RBAC, "rolebindings"), &binding("allowed", "Role", "allowed", subject)).await?;
    Ok(())
}

/// A real server learns of new roles a little later: asks until the answer is not 403.
async fn soon(c: &Ctx, path: &str) -> Result<crate::Reply, Failure> {
    c.eventually("being allowed", path, |reply| reply.status != 403).await
}

fn forbidden(user: &str, what: &str, verb: &str, resource: &str, group: &str, place: &str) -> String {
    format!(
        "{what} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
    )
}

async fn without_rights_everything_is_refused(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let carol = c.become_user(Carol)?;
    let place = format!("in the namespace \"{}\"", c.ns);
    let say = |what: &str, verb: &str| forbidden("carol", what, verb, "configmaps", "", &place);
    let one = "configmaps \"a\"";
    let path = c.core("configmaps/a");
    let all = c.core("configmaps");
    carol.get(&path).await?.refused(403, "Forbidden", &say(one, "get"))?.details("configmaps", "", "a")?;
    carol.get(&all).await?.refused(403, "Forbidden", &say("configmaps", "list"))?.details(
        "configmaps",
        "",
        "",
    )?;
    carol.get(&format!("{all}?watch=true")).await?.refused(403, "Forbidden", &say("configmaps", "watch"))?;
    carol.post(&all, &config_map("b")).await?.refused(403, "Forbidden", &say("configmaps", "create"))?;
    carol.put(&path, &config_map("a")).await?.refused(403, "Forbidden", &say(one, "update"))?;
    carol.merge_patch(&path, &json!({})).await?.refused(403, "Forbidden", &say(one, "patch"))?;
    carol.delete(&path).await?.refused(403, "Forbidden", &say(one, "delete"))?;
    carol.delete(&all).await?.refused(403, "Forbidden", &say("configmaps", "deletecollection"))?;
    Ok(())
}

async fn refusal_names_group_and_subresource(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let reply = carol.get(&c.group("apps/v1", "deployments/x/scale")).await?;
    let place = format!("in the namespace \"{}\"", c.ns);
    let message = forbidden("carol", "deployments.apps \"x\"", "get", "deployments/scale", "apps", &place);
    reply.refused(403, "Forbidden", &message)?.details("deployments", "apps", "x")?;
    let reply = carol.post(&c.core("pods/x/eviction"), &json!({})).await?;
    let message = forbidden("carol", "pods \"x\"", "create", "pods/eviction", "", &place);
    reply.refused(403, "Forbidden", &message)?;
    Ok(())
}

async fn cluster_scope_is_told(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let message = forbidden("carol", "nodes", "list", "nodes", "", "at the cluster scope");
    carol.get("/api/v1/nodes").await?.refused(403, "Forbidden", &message)?;
    let message = forbidden("carol", "pods", "list", "pods", "", "at the cluster scope");
    carol.get("/api/v1/pods").await?.refused(403, "Forbidden", &message)?;
    Ok(())
}

async fn path_is_told(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let reply = carol.get("/metrics").await?;
    reply.refused(403, "Forbidden", "forbidden: User \"carol\" cannot get path \"/metrics\"")?;
    Ok(())
}

async fn public_paths_are_open(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    for path in [
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        "/openapi/v3",
    ] {
        carol.get(path).await?.ok(200)?;
    }
    let anonymous = c.become_user(Anonymous)?;
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        anonymous.get(path).await?.ok(200)?;
    }
    Ok(())
}

async fn unknown_token_is_unauthorized(c: Ctx) -> Outcome {
    let anonymous = c.become_user(Anonymous)?;
    let request =
        anonymous.request(http::Method::GET, "/api/v1/nodes").header("authorization", "Bearer nonsense");
    request.send().await?.refused(401, "Unauthorized", "Unauthorized")?;
    Ok(())
}

async fn anonymous_is_refused_by_name(c: Ctx) -> Outcome {
    let anonymous = c.become_user(Anonymous)?;
    let message = forbidden("system:anonymous", "nodes", "list", "nodes", "", "at the cluster scope");
    anonymous.get("/api/v1/nodes").await?.refused(403, "Forbidden", &message)?;
    Ok(())
}

async fn role_and_binding_allow(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    allow(&c, &user("alice"), &json!([rule("", &["configmaps"], &["get", "list", "create"])])).await?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    alice.create(&c.core("configmaps"), &config_map("a")).await?;
    alice.get(&c.core("configmaps/a")).await?.ok(200)?;
    alice.delete(&c.core("configmaps/a")).await?.refused_about(403, "Forbidden", "cannot delete resource")?;
    alice.get(&c.core("secrets")).await?.refused_about(
        403,
        "Forbidden",
        "cannot list resource \"secrets\"",
    )?;
    Ok(())
}

async fn group_binding_allows(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    let group = json!({"kind": "Group", "name": "team-a", "apiGroup": "rbac.authorization.k8s.io"});
    allow(&c, &group, &json!([rule("", &["configmaps"], &["list"])])).await?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    Ok(())
}

async fn service_account_binding_allows(c: Ctx) -> Outcome {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    c.create(&c.core("serviceaccounts"), &account).await?;
    let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": c.ns});
    allow(&c, &subject, &json!([rule("", &["configmaps"], &["list"])])).await?;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": format!("system:serviceaccount:{}:robot", c.ns), "resourceAttributes": {"namespace": c.ns, "verb": "list", "resource": "configmaps"}}});
    for _ in 0..100 {
        let reply = c.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?.ok(201)?;
        if *reply.at("/status/allowed") == json!(true) {
            return reply.contains("/status/reason", "RBAC: allowed by RoleBinding");
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err("the account was never allowed".to_owned().into())
}

async fn binding_holds_in_its_namespace_only(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    allow(&c, &user("alice"), &json!([rule("", &["configmaps"], &["list"])])).await?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    alice.get("/api/v1/namespaces/default/configmaps").await?.ok(403)?;
    alice.get("/api/v1/configmaps").await?.ok(403)?;
    Ok(())
}

async fn cluster_role(c: &Ctx, rules: &Value) -> Outcome {
    let mut body = role(&c.ns, rules);
    body["kind"] = json!("ClusterRole");
    c.create_shared(&format!("/apis/{RBAC}/clusterroles"), &body).await?;
    Ok(())
}

async fn cluster_role_binding(c: &Ctx, subject: &Value) -> Outcome {
    let mut body = binding(&c.ns, "ClusterRole", &c.ns, subject);
    body["kind"] = json!("ClusterRoleBinding");
    c.create_shared(&format!("/apis/{RBAC}/clusterrolebindings"), &body).await?;
    Ok(())
}

async fn cluster_role_bound_in_a_namespace(c: Ctx) -> Outcome {
    cluster_role(&c, &json!([rule("", &["configmaps"], &["list"])])).await?;
    c.create(&c.group(RBAC, "rolebindings"), &binding("b", "ClusterRole", &c.ns, &user("alice"))).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    alice.get("/api/v1/configmaps").await?.ok(403)?;
    Ok(())
}

async fn cluster_role_binding_allows_everywhere(c: Ctx) -> Outcome {
    cluster_role(&c, &json!([rule("coordination.k8s.io", &["leases"], &["list"])])).await?;
    cluster_role_binding(&c, &user("bob")).await?;
    let bob = c.become_user(Bob)?;
    soon(&bob, "/apis/coordination.k8s.io/v1/leases").await?.ok(200)?;
    bob.get(&c.group("coordination.k8s.io/v1", "leases")).await?.ok(200)?;
    Ok(())
}

async fn resource_names_limit(c: Ctx) -> Outcome {
    for name in ["mine", "yours"] {
        c.create(&c.core("secrets"), &secret(name)).await?;
    }
    let mut limited = rule("", &["secrets"], &["get", "list", "delete"]);
    limited["resourceNames"] = json!(["mine"]);
    allow(&c, &user("alice"), &json!([limited])).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("secrets/mine")).await?.ok(200)?;
    alice.get(&c.core("secrets/yours")).await?.ok(403)?;
    alice.get(&c.core("secrets")).await?.ok(403)?;
    alice.get(&c.core("secrets?fieldSelector=metadata.name%3Dmine")).await?.ok(200)?.names_are(&["mine"])
}

async fn subresources_are_apart(c: Ctx) -> Outcome {
    allow(
        &c,
        &user("alice"),
        &json!([rule("", &["pods/status"], &["get"]), rule("", &["configmaps"], &["get"])]),
    )
    .await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("pods/x/status")).await?.ok(404)?;
    alice.get(&c.core("pods/x")).await?.ok(403)?;
    Ok(())
}

async fn wildcards(c: Ctx) -> Outcome {
    allow(&c, &user("alice"), &json!([rule("*", &["*"], &["get", "list"])])).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("secrets")).await?.ok(200)?;
    alice.get(&c.group("apps/v1", "deployments")).await?.ok(200)?;
    alice.get(&c.group("apps/v1", "deployments/x/scale")).await?.ok(404)?;
    alice.delete(&c.core("secrets/x")).await?.ok(403)?;
    Ok(())
}

async fn non_resource_urls(c: Ctx) -> Outcome {
    let path = format!("/nothing/{}", c.ns);
    cluster_role(&c, &json!([{"nonResourceURLs": [format!("{path}/*")], "verbs": ["get"]}])).await?;
    cluster_role_binding(&c, &user("bob")).await?;
    let bob = c.become_user(Bob)?;
    soon(&bob, &format!("{path}/below")).await?.ok(404)?;
    bob.delete(&format!("{path}/below")).await?.ok(403)?;
    bob.get(&format!("/other/{}", c.ns)).await?.ok(403)?;
    Ok(())
}

async fn removed_binding_ends_it(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    allow(&c, &user("alice"), &json!([rule("", &["configmaps"], &["list"])])).await?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    c.delete(&c.group(RBAC, "rolebindings/allowed")).await?.ok(200)?;
    alice.eventually("being refused", &c.core("configmaps"), |reply| reply.status == 403).await?;
    Ok(())
}

async fn delete_collection_is_its_own_verb(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    allow(&c, &user("alice"), &json!([rule("", &["secrets"], &["list", "delete"])])).await?;
    soon(&alice, &c.core("secrets")).await?.ok(200)?;
    alice.delete(&c.core("secrets")).await?.refused_about(
        403,
        "Forbidden",
        "cannot deletecollection resource \"secrets\"",
    )?;
    Ok(())
}

async fn create_by_update_needs_create(c: Ctx) -> Outcome {
    let alice = c.become_user(Alice)?;
    allow(&c, &user("alice"), &json!([rule("coordination.k8s.io", &["leases"], &["list", "update"])]))
        .await?;
    soon(&alice, &c.group("coordination.k8s.io/v1", "leases")).await?.ok(200)?;
    let reply =
        alice.put(&c.group("coordination.k8s.io/v1", "leases/a"), &super::fixtures::lease("a")).await?;
    reply.refused_about(403, "Forbidden", "cannot create resource \"leases\"")?;
    Ok(())
}

async fn role_ref_is_immutable(c: Ctx) -> Outcome {
    let bindings = c.group(RBAC, "rolebindings");
    c.create(&bindings, &binding("b", "Role", "one", &user("nobody"))).await?;
    let reply = c.put(&format!("{bindings}/b"), &binding("b", "Role", "two", &user("nobody"))).await?;
    reply.refused(
        422,
        "Invalid",
        "RoleBinding.rbac.authorization.k8s.io \"b\" is invalid: roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"two\"}: cannot change roleRef",
    )?;
    Ok(())
}

async fn subjects_are_defaulted(c: Ctx) -> Outcome {
    let mut body = binding("b", "Role", "one", &json!({"kind": "User", "name": "nobody"}));
    body["roleRef"]["apiGroup"] = json!("");
    let made = c.create(&c.group(RBAC, "rolebindings"), &body).await?;
    made.is("/subjects/0/apiGroup", "rbac.authorization.k8s.io")?;
    made.is("/roleRef/apiGroup", "rbac.authorization.k8s.io")
}

async fn rules_are_validated(c: Ctx) -> Outcome {
    let roles = c.group(RBAC, "roles");
    let reply = c.post(&roles, &role("r", &json!([rule("", &["pods"], &[])]))).await?;
    reply.refused(422, "Invalid", "Role.rbac.authorization.k8s.io \"r\" is invalid: rules[0].verbs: Required value: verbs must contain at least one value")?;
    let reply = c.post(&roles, &role("r", &json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]))).await?;
    reply.refused_about(422, "Invalid", "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs")?;
    Ok(())
}

async fn may_make_roles(c: &Ctx) -> Result<Ctx, Failure> {
    let rules = json!([
        rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], &["get", "list", "create"]),
        rule("", &["configmaps"], &["get"])
    ]);
    allow(c, &user("alice"), &rules).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.group(RBAC, "roles")).await?.ok(200)?;
    Ok(alice)
}

async fn privileges_cannot_be_escalated(c: Ctx) -> Outcome {
    let alice = may_make_roles(&c).await?;
    let roles = c.group(RBAC, "roles");
    alice.create(&roles, &role("fine", &json!([rule("", &["configmaps"], &["get"])]))).await?;
    let reply = alice.post(&roles, &role("big", &json!([rule("", &["secrets"], &["get"])]))).await?;
    reply.refused(
        403,
        "Forbidden",
        "roles.rbac.authorization.k8s.io \"big\" is forbidden: user \"alice\" (groups=[\"team-a\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}",
    )?;
    Ok(())
}

async fn binding_needs_the_rights_it_gives(c: Ctx) -> Outcome {
    c.create(&c.group(RBAC, "roles"), &role("secrets", &json!([rule("", &["secrets"], &["get"])]))).await?;
    let alice = may_make_roles(&c).await?;
    let reply =
        alice.post(&c.group(RBAC, "rolebindings"), &binding("b", "Role", "secrets", &user("alice"))).await?;
    reply.refused_about(403, "Forbidden", "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\" (groups=[\"team-a\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}")?;
    Ok(())
}

async fn bind_verb_allows_binding(c: Ctx) -> Outcome {
    c.create(&c.group(RBAC, "roles"), &role("secrets", &json!([rule("", &["secrets"], &["get"])]))).await?;
    let mut bind = rule("rbac.authorization.k8s.io", &["roles"], &["bind"]);
    bind["resourceNames"] = json!(["secrets"]);
    let rules = json!([rule("rbac.authorization.k8s.io", &["rolebindings"], &["list", "create"]), bind]);
    allow(&c, &user("alice"), &rules).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.group(RBAC, "rolebindings")).await?.ok(200)?;
    alice.create(&c.group(RBAC, "rolebindings"), &binding("b", "Role", "secrets", &user("alice"))).await?;
    Ok(())
}

async fn bootstrap_roles_exist(c: Ctx) -> Outcome {
    let roles = format!("/apis/{RBAC}/clusterroles");
    let admin = c.get(&format!("{roles}/cluster-admin")).await?.ok(200)?;
    admin.is("/rules/0", json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}))?;
    admin.is("/rules/1", json!({"nonResourceURLs": ["*"], "verbs": ["*"]}))?;
    let names = [
        "admin",
        "edit",
        "view",
        "system:basic-user",
        "system:discovery",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:node",
        "system:public-info-viewer",
    ];
    for name in names {
        c.get(&format!("{roles}/{name}"))
            .await?
            .ok(200)?
            .is("/metadata/labels/kubernetes.io~1bootstrapping", "rbac-defaults")?;
    }
    let binding = c.get(&format!("/apis/{RBAC}/clusterrolebindings/cluster-admin")).await?.ok(200)?;
    binding.is("/subjects/0/name", "system:masters")?;
    for user in ["system:kube-scheduler", "system:kube-controller-manager"] {
        let binding = c.get(&format!("/apis/{RBAC}/clusterrolebindings/{user}")).await?.ok(200)?;
        let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
        binding.is("/subjects", json!([subject]))?;
    }
    Ok(())
}

async fn subject_kinds_are_validated(c: Ctx) -> Outcome {
    let body = binding("b", "Role", "one", &json!({"kind": "Robot", "name": "x"}));
    let reply = c.post(&c.group(RBAC, "rolebindings"), &body).await?;
    reply.refused_about(422, "Invalid", "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"")?;
    Ok(())
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn self_review(attributes: &Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}})
}

async fn self_review_of_the_administrator(c: Ctx) -> Outcome {
    let attributes = json!({"verb": "delete", "resource": "nodes", "name": "x"});
    let reply =
        c.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &self_review(&attributes)).await?.ok(201)?;
    reply.is("/kind", "SelfSubjectAccessReview")?;
    reply.is("/spec/resourceAttributes", attributes)?;
    reply.is("/status/allowed", true)
}

async fn self_review_of_a_user_without_rights(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let body = self_review(&json!({"verb": "get", "resource": "pods", "namespace": c.ns}));
    let reply = carol.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &body).await?.ok(201)?;
    reply.is("/status", json!({"allowed": false}))
}

async fn self_review_after_a_binding(c: Ctx) -> Outcome {
    allow(
        &c,
        &user("alice"),
        &json!([rule("apps", &["deployments/scale"], &["update"]), rule("", &["configmaps"], &["list"])]),
    )
    .await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    let path = format!("{REVIEWS}/selfsubjectaccessreviews");
    let mut attributes = json!({"group": "apps", "resource": "deployments", "subresource": "scale", "verb": "update", "namespace": c.ns});
    let reply = alice.post(&path, &self_review(&attributes)).await?.ok(201)?;
    reply.is("/status/allowed", true)?;
    reply.is(
        "/status/reason",
        format!("RBAC: allowed by RoleBinding \"allowed/{}\" of Role \"allowed\" to User \"alice\"", c.ns),
    )?;
    attributes["subresource"] = json!("");
    alice.post(&path, &self_review(&attributes)).await?.ok(201)?.is("/status/allowed", false)
}

async fn review_of_another_user(c: Ctx) -> Outcome {
    let path = format!("{REVIEWS}/subjectaccessreviews");
    let attributes = json!({"verb": "get", "resource": "nodes"});
    let body = |user: &str, groups: Value| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes}})
    };
    c.post(&path, &body("carol", json!([]))).await?.ok(201)?.is("/status/allowed", false)?;
    c.post(&path, &body("anyone", json!(["system:masters"]))).await?.ok(201)?.is("/status/allowed", true)
}

async fn review_needs_the_right_to_ask(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let reply = carol.post(&format!("{REVIEWS}/subjectaccessreviews"), &body).await?;
    let message = forbidden(
        "carol",
        "subjectaccessreviews.authorization.k8s.io",
        "create",
        "subjectaccessreviews",
        "authorization.k8s.io",
        "at the cluster scope",
    );
    reply.refused(403, "Forbidden", &message)?;
    Ok(())
}

async fn local_review_must_match_its_namespace(c: Ctx) -> Outcome {
    let path = c.group("authorization.k8s.io/v1", "localsubjectaccessreviews");
    let body = |namespace: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
        "spec": {"user": "carol", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}}})
    };
    c.post(&path, &body(&c.ns)).await?.ok(201)?.is("/status/allowed", false)?;
    let reply = c.post(&path, &body("default")).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace",
    )?;
    Ok(())
}

async fn review_of_a_path(c: Ctx) -> Outcome {
    let carol = c.become_user(Carol)?;
    let body = |path: &str| json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"nonResourceAttributes": {"path": path, "verb": "get"}}});
    let reviews = format!("{REVIEWS}/selfsubjectaccessreviews");
    carol.post(&reviews, &body("/version")).await?.ok(201)?.is("/status/allowed", true)?;
    carol.post(&reviews, &body("/metrics")).await?.ok(201)?.is("/status/allowed", false)
}

async fn review_needs_attributes(c: Ctx) -> Outcome {
    let body =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}});
    let reply = c.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    )?;
    Ok(())
}

async fn rules_review(c: Ctx) -> Outcome {
    allow(&c, &user("alice"), &json!([rule("", &["configmaps"], &["list", "get"])])).await?;
    let alice = c.become_user(Alice)?;
    soon(&alice, &c.core("configmaps")).await?.ok(200)?;
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": c.ns}});
    let reply = alice.post(&format!("{REVIEWS}/selfsubjectrulesreviews"), &body).await?.ok(201)?;
    let rules = reply.at("/status/resourceRules").as_array().cloned().unwrap_or_default();
    holds(
        "the rule is among them",
        rules.contains(&json!({"verbs": ["list", "get"], "apiGroups": [""], "resources": ["configmaps"]})),
    )?;
    holds(
        "every user may ask about itself",
        rules
            .iter()
            .any(|one| one["resources"] == json!(["selfsubjectaccessreviews", "selfsubjectrulesreviews"])),
    )?;
    reply.is("/status/incomplete", false)
}

async fn who_am_i(c: Ctx) -> Outcome {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let reply = c.become_user(Carol)?.post(path, &body).await?.ok(201)?;
    reply.is("/status/userInfo/username", "carol")?;
    reply.is("/status/userInfo/groups", json!(["team-c", "system:authenticated"]))?;
    same("an anonymous one may not", c.become_user(Anonymous)?.post(path, &body).await?.status, 403)
}
