//! Nobody may give away rights they do not have.

use super::{RBAC, grants, items, role_rules, text};
use crate::{
    contract::{Attributes, Lookup, User},
    error::ApiError,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Refuses a role, or a binding to a role, whose rules go beyond the rights of the user who writes it,
/// unless that user may `escalate` (roles) or `bind` (bindings).
pub fn check_grant(
    user: &User,
    resource: &str,
    object: &Value,
    old: Option<&Value>,
    lookup: &dyn Lookup,
) -> Result<(), ApiError> {
    let metadata = &object["metadata"];
    let namespace = text(metadata, "namespace");
    let (verb, target, rules) = match resource {
        "roles" | "clusterroles" => {
            if old.is_some_and(|old| {
                old.get("rules") == object.get("rules")
                    && old.get("aggregationRule") == object.get("aggregationRule")
            }) {
                return Ok(());
            }
            let mut rules: Vec<Value> = items(object, "rules").cloned().collect();
            if object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
                rules.push(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
                rules.push(json!({"nonResourceURLs": ["*"], "verbs": ["*"]}));
            }
            ("escalate", (resource, text(metadata, "name")), rules)
        }
        "rolebindings" | "clusterrolebindings" => {
            if old.is_some_and(|old| old.get("subjects") == object.get("subjects")) {
                return Ok(());
            }
            let role_ref = &object["roleRef"];
            let kind = if text(role_ref, "kind") == "Role" { "roles" } else { "clusterroles" };
            let rules = match role_rules(role_ref, namespace, lookup) {
                Ok(rules) => rules,
                Err(_)
                    if super::authorize(
                        user,
                        &asks("bind", kind, namespace, text(role_ref, "name")),
                        lookup,
                    )
                    .allowed =>
                {
                    return Ok(());
                }
                Err(_) => return Err(ApiError::not_found(RBAC, kind, text(role_ref, "name"))),
            };
            ("bind", (kind, text(role_ref, "name")), rules)
        }
        _ => return Ok(()),
    };
    if super::authorize(user, &asks(verb, target.0, namespace, target.1), lookup).allowed {
        return Ok(());
    }
    let missing = uncovered(user, namespace, &rules, lookup);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        missing.into_iter().collect::<Vec<_>>().join("\n")
    );
    Err(ApiError::forbidden(RBAC, resource, text(metadata, "name"), &why))
}

fn asks(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        verb: verb.to_owned(),
        group: RBAC.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}

/// The rules that the user's own rights do not cover, each in the short form a refusal shows.
fn uncovered(user: &User, namespace: &str, wanted: &[Value], lookup: &dyn Lookup) -> BTreeSet<String> {
    let held: Vec<Value> =
        grants(user, namespace, lookup).0.into_iter().flat_map(|grant| grant.rules).collect();
    let mut missing: Vec<Atom> = Vec::new();
    for atom in wanted.iter().flat_map(atoms) {
        if !held.iter().any(|rule| covers(rule, &atom)) && !missing.contains(&atom) {
            missing.push(atom);
        }
    }
    compact(missing)
}

/// One right: a single verb on a single thing.
#[derive(Clone, Debug, PartialEq)]
struct Atom {
    verb: String,
    thing: Thing,
}

#[derive(Clone, Debug, PartialEq)]
enum Thing {
    Resource { group: String, resource: String, name: Option<String> },
    Path(String),
}

fn strings(rule: &Value, field: &str) -> Vec<String> {
    items(rule, field).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn atoms(rule: &Value) -> Vec<Atom> {
    let mut out = Vec::new();
    let names = strings(rule, "resourceNames");
    let names: Vec<Option<String>> =
        if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    for group in strings(rule, "apiGroups") {
        for resource in strings(rule, "resources") {
            for name in &names {
                for verb in strings(rule, "verbs") {
                    let thing = Thing::Resource {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                    };
                    out.push(Atom { verb, thing });
                }
            }
        }
    }
    for path in strings(rule, "nonResourceURLs") {
        for verb in strings(rule, "verbs") {
            out.push(Atom { verb, thing: Thing::Path(path.clone()) });
        }
    }
    out
}

fn covers(rule: &Value, atom: &Atom) -> bool {
    let has = |field: &str, wanted: &str| {
        items(rule, field).filter_map(Value::as_str).any(|entry| entry == "*" || entry == wanted)
    };
    if !has("verbs", &atom.verb) {
        return false;
    }
    match &atom.thing {
        Thing::Path(path) => items(rule, "nonResourceURLs").filter_map(Value::as_str).any(|entry| {
            entry == "*"
                || entry == path
                || entry.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
        }),
        Thing::Resource { group, resource, name } => {
            let names = strings(rule, "resourceNames");
            let of_any = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
            has("apiGroups", group)
                && (has("resources", resource)
                    || of_any.is_some_and(|any| strings(rule, "resources").contains(&any)))
                && (names.is_empty() || name.as_ref().is_some_and(|name| names.contains(name)))
        }
    }
}

/// Puts the verbs on the same thing together: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
fn compact(atoms: Vec<Atom>) -> BTreeSet<String> {
    let mut by_thing: Vec<(Thing, Vec<String>)> = Vec::new();
    for atom in atoms {
        match by_thing.iter_mut().find(|(thing, _)| *thing == atom.thing) {
            Some((_, verbs)) => verbs.push(atom.verb),
            None => by_thing.push((atom.thing, vec![atom.verb])),
        }
    }
    by_thing
        .into_iter()
        .map(|(thing, verbs)| {
            let verbs = verbs.iter().map(|verb| format!("{verb:?}")).collect::<Vec<_>>().join(" ");
            match thing {
                Thing::Path(path) => format!("{{NonResourceURLs:[{path:?}], Verbs:[{verbs}]}}"),
                Thing::Resource { group, resource, name } => {
                    let names = name.map_or_else(String::new, |name| format!(", ResourceNames:[{name:?}]"));
                    format!("{{APIGroups:[{group:?}], Resources:[{resource:?}]{names}, Verbs:[{verbs}]}}")
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Objects, reader_in_a, user};
    use super::*;

    fn role(rules: Value) -> Value {
        json!({"metadata": {"name": "new", "namespace": "a"}, "rules": rules})
    }

    #[test]
    fn what_one_has_may_be_given_and_no_more() {
        let objects = reader_in_a();
        let pods = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
        assert_eq!(check_grant(&user("jane"), "roles", &role(pods(&["get"])), None, &objects), Ok(()));
        let error =
            check_grant(&user("jane"), "roles", &role(pods(&["get", "delete", "create"])), None, &objects)
                .unwrap_err();
        assert_eq!(
            error.message,
            "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is \
             attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], \
             Verbs:[\"delete\" \"create\"]}"
        );
    }

    #[test]
    fn a_narrow_right_does_not_cover_a_wide_one() {
        let objects = reader_in_a();
        let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        assert!(check_grant(&user("jane"), "roles", &role(secrets), None, &objects).is_err());
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        assert!(check_grant(&user("jane"), "roles", &role(everything), None, &objects).is_err());
    }

    #[test]
    fn superusers_may_bind_roles_that_do_not_exist_yet() {
        let mut root = user("root");
        root.groups.push("system:masters".into());
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "later"}});
        assert_eq!(check_grant(&root, "clusterrolebindings", &binding, None, &Objects::default()), Ok(()));
        let error = check_grant(&user("jane"), "clusterrolebindings", &binding, None, &Objects::default())
            .unwrap_err();
        assert_eq!(error.reason, "NotFound");
    }

    #[test]
    fn an_unchanged_role_is_not_looked_at_again() {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let same = role(rules);
        assert_eq!(check_grant(&user("jane"), "roles", &same, Some(&same), &Objects::default()), Ok(()));
    }
}
