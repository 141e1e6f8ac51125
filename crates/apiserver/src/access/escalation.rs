//! Nobody may give away rights they do not have.

use super::{
    Grant, RBAC, grants, items, roles_of,
    rules::{covers_path, holds},
    text,
};
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
            let rules = match roles_of(role_ref, namespace, lookup) {
                Ok(roles) => roles.iter().flat_map(|role| items(role, "rules")).cloned().collect(),
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
    let (grants, _) = grants(user, namespace, lookup);
    let held: Vec<&Value> = grants.iter().flat_map(Grant::rules).collect();
    let mut missing: Vec<Atom> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut left = MOST_ATOMS;
    for rule in wanted.iter().filter(|rule| !held.iter().any(|held| covers_all(held, rule))) {
        each_atom(rule, &mut |atom| {
            left -= 1;
            // What was not looked at is not known to be held.
            if (left == 0 || !held.iter().any(|rule| covers(rule, &atom))) && seen.insert(atom.clone()) {
                missing.push(atom);
            }
            left > 0 && missing.len() < MOST_MISSING
        });
        if left == 0 || missing.len() == MOST_MISSING {
            break;
        }
    }
    compact(missing)
}

/// A rule stands for the product of its lists, which can be more than anyone can look at.
const MOST_ATOMS: usize = 20_000;
/// More need not be told to whoever lacks them.
const MOST_MISSING: usize = 200;

/// One right: a single verb on a single thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Atom {
    verb: String,
    thing: Thing,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Resource { group: String, resource: String, name: Option<String> },
    Path(String),
}

fn strings(rule: &Value, field: &str) -> Vec<String> {
    items(rule, field).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Takes a rule apart until `visit` has seen enough.
fn each_atom(rule: &Value, visit: &mut dyn FnMut(Atom) -> bool) {
    let names = strings(rule, "resourceNames");
    let names: Vec<Option<String>> =
        if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let (resources, verbs) = (strings(rule, "resources"), strings(rule, "verbs"));
    for group in strings(rule, "apiGroups") {
        for resource in &resources {
            for name in &names {
                for verb in &verbs {
                    let (group, resource, name) = (group.clone(), resource.clone(), name.clone());
                    let thing = Thing::Resource { group, resource, name };
                    if !visit(Atom { verb: verb.clone(), thing }) {
                        return;
                    }
                }
            }
        }
    }
    for path in strings(rule, "nonResourceURLs") {
        for verb in &verbs {
            if !visit(Atom { verb: verb.clone(), thing: Thing::Path(path.clone()) }) {
                return;
            }
        }
    }
}

/// Whether one rule has everything of another, found out list by list.
fn covers_all(held: &Value, wanted: &Value) -> bool {
    let all =
        |field: &str, has: &dyn Fn(&str) -> bool| items(wanted, field).filter_map(Value::as_str).all(has);
    let (names, wanted_names) = (strings(held, "resourceNames"), strings(wanted, "resourceNames"));
    all("verbs", &|verb| holds(held, "verbs", verb))
        && all("apiGroups", &|group| holds(held, "apiGroups", group))
        && all("resources", &|resource| has_resource(held, resource))
        && all("nonResourceURLs", &|path| has_path(held, path))
        && (names.is_empty()
            || (!wanted_names.is_empty() && wanted_names.iter().all(|name| names.contains(name))))
}

fn covers(rule: &Value, atom: &Atom) -> bool {
    holds(rule, "verbs", &atom.verb)
        && match &atom.thing {
            Thing::Path(path) => has_path(rule, path),
            Thing::Resource { group, resource, name } => {
                let names = strings(rule, "resourceNames");
                holds(rule, "apiGroups", group)
                    && has_resource(rule, resource)
                    && (names.is_empty() || name.as_ref().is_some_and(|name| names.contains(name)))
            }
        }
}

fn has_path(rule: &Value, path: &str) -> bool {
    items(rule, "nonResourceURLs").filter_map(Value::as_str).any(|entry| covers_path(entry, path))
}

/// `resource` is as a rule names it: `pods`, `pods/log` or `*/log`.
fn has_resource(rule: &Value, resource: &str) -> bool {
    let of_any = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
    holds(rule, "resources", resource)
        || of_any.is_some_and(|any| items(rule, "resources").any(|entry| *entry == any))
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
    fn a_rule_that_stands_for_a_billion_rights_is_judged_soon() {
        let many = |start: &str| (0..1000).map(|n| format!("{start}{n}")).collect::<Vec<_>>();
        let rules = json!([{
            "apiGroups": many("g"), "resources": many("r"), "verbs": many("v"), "resourceNames": many("n"),
        }]);
        let error =
            check_grant(&user("jane"), "roles", &role(rules.clone()), None, &reader_in_a()).unwrap_err();
        assert!(error.reason == "Forbidden" && error.message.len() < 100_000, "{}", error.message.len());
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let mut objects = reader_in_a();
        objects.0[0].1["rules"] = everything;
        assert_eq!(check_grant(&user("jane"), "roles", &role(rules), None, &objects), Ok(()));
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
