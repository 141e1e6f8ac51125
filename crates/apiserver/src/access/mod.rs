//! Who may do what: role-based access control over the RBAC objects in the store.

mod bootstrap;
mod components;
mod escalation;
mod review;
mod rules;

pub use bootstrap::bootstrap_objects;
pub use escalation::check_grant;
pub use review::review;

use crate::{
    contract::{Attributes, GroupResource, Lookup, User},
    error::ApiError,
};
use rules::{allows, is_subject};
use serde_json::Value;
use std::sync::Arc;

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
/// Members of this group may do everything, whatever the roles say.
const SUPERUSERS: &str = "system:masters";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// Why it is allowed, or what stood in the way of finding out; may be empty.
    pub reason: String,
}

/// May this user do this?
pub fn authorize(user: &User, attributes: &Attributes, lookup: &dyn Lookup) -> Decision {
    if user.groups.iter().any(|group| group == SUPERUSERS) {
        return Decision { allowed: true, reason: String::new() };
    }
    let (grants, missing) = grants(user, &attributes.namespace, lookup);
    if let Some(grant) = grants.iter().find(|grant| grant.rules().any(|rule| allows(rule, attributes))) {
        return Decision { allowed: true, reason: format!("RBAC: allowed by {}", grant.describe()) };
    }
    let reason = match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    };
    Decision { allowed: false, reason }
}

/// The refusal for a request that was not allowed.
pub fn forbidden(user: &User, attributes: &Attributes, decision: &Decision) -> ApiError {
    let mut why = if attributes.resource.is_empty() {
        format!("User {:?} cannot {} path {:?}", user.name, attributes.verb, attributes.path)
    } else {
        let resource = if attributes.subresource.is_empty() {
            attributes.resource.clone()
        } else {
            format!("{}/{}", attributes.resource, attributes.subresource)
        };
        let scope = if attributes.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", attributes.namespace)
        };
        format!(
            "User {:?} cannot {} resource {resource:?} in API group {:?} {scope}",
            user.name, attributes.verb, attributes.group
        )
    };
    if !decision.reason.is_empty() {
        why = format!("{why}: {}", decision.reason);
    }
    if attributes.resource.is_empty() {
        let mut error = ApiError::new(http::StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {why}"));
        error.details = Some(Box::default());
        return error;
    }
    ApiError::forbidden(&attributes.group, &attributes.resource, &attributes.name, &why)
}

/// What one binding gives to a user.
pub(crate) struct Grant {
    roles: Vec<Arc<Value>>,
    binding: Arc<Value>,
    subject: usize,
    namespace: String,
}

/// All that bindings give to the user in a namespace (cluster-wide ones included), and the roles that
/// bindings name but that do not exist.
pub(crate) fn grants(user: &User, namespace: &str, lookup: &dyn Lookup) -> (Vec<Grant>, Vec<String>) {
    let mut grants = Vec::new();
    let mut missing = Vec::new();
    let mut collect = |binding: Arc<Value>, namespace: &str| {
        let Some(subject) =
            items(&binding, "subjects").position(|subject| is_subject(subject, user, namespace))
        else {
            return;
        };
        match roles_of(&binding["roleRef"], namespace, lookup) {
            Ok(roles) => grants.push(Grant { roles, binding, subject, namespace: namespace.to_owned() }),
            Err(role) => missing.push(role),
        }
    };
    for binding in lookup.list(&GroupResource::new(RBAC, "clusterrolebindings"), "") {
        collect(binding, "");
    }
    if !namespace.is_empty() {
        for binding in lookup.list(&GroupResource::new(RBAC, "rolebindings"), namespace) {
            collect(binding, namespace);
        }
    }
    (grants, missing)
}

impl Grant {
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Value> {
        self.roles.iter().flat_map(|role| items(role, "rules"))
    }

    fn describe(&self) -> String {
        let (binding, namespace) = (&self.binding, &self.namespace);
        let subject = &binding["subjects"][self.subject];
        let name = text(&binding["metadata"], "name");
        let (kind, name) = if namespace.is_empty() {
            ("ClusterRoleBinding", name.to_owned())
        } else {
            ("RoleBinding", format!("{name}/{namespace}"))
        };
        let role = &binding["roleRef"];
        let mut who = text(subject, "name").to_owned();
        if text(subject, "kind") == "ServiceAccount" {
            let own = text(subject, "namespace");
            who = format!("{who}/{}", if own.is_empty() { namespace } else { own });
        }
        format!(
            "{kind} {name:?} of {} {:?} to {} {who:?}",
            text(role, "kind"),
            text(role, "name"),
            text(subject, "kind")
        )
    }
}

/// The role that a `roleRef` names and those it is made of, or what to say when there is no such role.
fn roles_of(role_ref: &Value, namespace: &str, lookup: &dyn Lookup) -> Result<Vec<Arc<Value>>, String> {
    let name = text(role_ref, "name");
    let (resource, kind, namespace) = match text(role_ref, "kind") {
        "Role" => ("roles", "role", namespace),
        _ => ("clusterroles", "clusterrole", ""),
    };
    let role = lookup
        .get(&GroupResource::new(RBAC, resource), namespace, name)
        .ok_or_else(|| format!("{kind}.{RBAC} {name:?} not found"))?;
    Ok(with_aggregated(role, lookup))
}

/// A role and, for an aggregated cluster role, those it selects, and those they select: `admin` has `edit`, which
/// has `view`, which has its parts.
fn with_aggregated(role: Arc<Value>, lookup: &dyn Lookup) -> Vec<Arc<Value>> {
    let mut roles = vec![role];
    let mut at = 0;
    let mut all = None;
    while let Some(role) = roles.get(at).cloned() {
        at += 1;
        let selectors: Vec<&Value> = items(&role["aggregationRule"], "clusterRoleSelectors").collect();
        if selectors.is_empty() {
            continue;
        }
        let left: &mut Vec<Arc<Value>> = all.get_or_insert_with(|| {
            let mut all = lookup.list(&GroupResource::new(RBAC, "clusterroles"), "");
            all.retain(|other| other["metadata"]["name"] != role["metadata"]["name"]);
            all
        });
        roles.extend(left.extract_if(.., |other| {
            selectors.iter().any(|selector| rules::selects(selector, &other["metadata"]["labels"]))
        }));
    }
    roles
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// RBAC objects by hand, in place of a store.
    #[derive(Default)]
    pub(crate) struct Objects(pub(crate) Vec<(&'static str, Value)>);

    impl Lookup for Objects {
        fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
            self.list(resource, namespace).into_iter().find(|object| object["metadata"]["name"] == name)
        }

        fn list(&self, resource: &GroupResource, namespace: &str) -> Vec<Arc<Value>> {
            self.0
                .iter()
                .filter(|(kind, object)| {
                    *kind == &*resource.resource
                        && (namespace.is_empty() || object["metadata"]["namespace"] == namespace)
                })
                .map(|(_, object)| Arc::new(object.clone()))
                .collect()
        }
    }

    pub(crate) fn user(name: &str) -> User {
        User { name: name.into(), uid: String::new(), groups: vec!["system:authenticated".into()] }
    }

    pub(crate) fn asks(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            version: "v1".into(),
            ..Attributes::default()
        }
    }

    pub(crate) fn reader_in_a() -> Objects {
        Objects(vec![
            (
                "roles",
                json!({"metadata": {"name": "reader", "namespace": "a"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                          {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]},
                          {"apiGroups": [""], "resources": ["*/scale"], "verbs": ["update"]}]}),
            ),
            (
                "rolebindings",
                json!({"metadata": {"name": "jane-reads", "namespace": "a"},
                "roleRef": {"kind": "Role", "name": "reader"}, "subjects": [{"kind": "User", "name": "jane"},
                {"kind": "ServiceAccount", "name": "robot"}]}),
            ),
        ])
    }

    #[test]
    fn a_role_gives_what_it_says_and_nothing_else() {
        let objects = reader_in_a();
        let cases = [
            ("jane", asks("get", "pods", "a", "x"), true),
            ("jane", asks("list", "pods", "a", ""), true),
            ("jane", asks("delete", "pods", "a", "x"), false),
            ("jane", asks("get", "pods", "b", "x"), false),
            ("jane", asks("get", "pods", "", "x"), false),
            ("jane", asks("get", "pods/log", "a", "x"), false),
            ("jane", asks("get", "secrets", "a", "mine"), true),
            ("jane", asks("get", "secrets", "a", "other"), false),
            ("jane", asks("update", "replicationcontrollers/scale", "a", "x"), true),
            ("john", asks("get", "pods", "a", "x"), false),
            ("system:serviceaccount:a:robot", asks("get", "pods", "a", "x"), true),
            ("system:serviceaccount:b:robot", asks("get", "pods", "a", "x"), false),
        ];
        for (name, attributes, allowed) in cases {
            assert_eq!(
                authorize(&user(name), &attributes, &objects).allowed,
                allowed,
                "{name}: {attributes:?}"
            );
        }
    }

    #[test]
    fn superusers_need_no_role() {
        let mut root = user("root");
        root.groups.push(SUPERUSERS.into());
        assert!(authorize(&root, &asks("delete", "nodes", "", "n"), &Objects::default()).allowed);
    }

    #[test]
    fn refusals_name_user_verb_resource_and_scope() {
        let no = Decision { allowed: false, reason: String::new() };
        let message = |attributes| forbidden(&user("jane"), &attributes, &no).message;
        assert_eq!(
            message(asks("list", "pods", "a", "")),
            r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "a""#
        );
        assert_eq!(
            message(asks("create", "pods/eviction", "a", "p")),
            r#"pods "p" is forbidden: User "jane" cannot create resource "pods/eviction" in API group "" in the namespace "a""#
        );
        assert_eq!(
            message(asks("get", "nodes", "", "n")),
            r#"nodes "n" is forbidden: User "jane" cannot get resource "nodes" in API group "" at the cluster scope"#
        );
        let path = Attributes { verb: "get".into(), path: "/metrics".into(), ..Attributes::default() };
        assert_eq!(message(path), r#"forbidden: User "jane" cannot get path "/metrics""#);
    }

    #[test]
    fn a_binding_to_a_missing_role_is_told() {
        let objects = Objects(vec![(
            "clusterrolebindings",
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "gone"},
                   "subjects": [{"kind": "User", "name": "jane"}]}),
        )]);
        let decision = authorize(&user("jane"), &asks("get", "pods", "a", "p"), &objects);
        assert_eq!(decision.reason, r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#);
    }

    #[test]
    fn an_aggregated_role_has_the_rules_it_selects() {
        let objects = Objects(vec![
            (
                "clusterroles",
                json!({"metadata": {"name": "view"}, "aggregationRule": {"clusterRoleSelectors":
                [{"matchLabels": {"to-view": "true"}}]}}),
            ),
            (
                "clusterroles",
                json!({"metadata": {"name": "part", "labels": {"to-view": "true"}},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            ),
            (
                "clusterrolebindings",
                json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
                   "subjects": [{"kind": "User", "name": "jane"}]}),
            ),
        ]);
        let decision = authorize(&user("jane"), &asks("get", "pods", "a", "p"), &objects);
        assert_eq!(
            decision.reason,
            r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "view" to User "jane""#
        );
    }

    #[test]
    fn roles_that_select_each_other_are_gone_through_once() {
        let mut objects = Objects(vec![(
            "clusterrolebindings",
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r0"},
                   "subjects": [{"kind": "User", "name": "jane"}]}),
        )]);
        for number in 0..60 {
            objects.0.push((
                "clusterroles",
                json!({"metadata": {"name": format!("r{number}"), "labels": {"all": "true"}},
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"all": "true"}}]},
                    "rules": [{"apiGroups": [""], "resources": [format!("kind{number}")], "verbs": ["get"]}]}),
            ));
        }
        let (grants, _) = grants(&user("jane"), "", &objects);
        assert_eq!(grants.iter().flat_map(Grant::rules).count(), 60);
    }
}
