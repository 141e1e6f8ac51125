//! What is to be done about one object, given what is known about its owners and dependents.

use super::graph::{FOREGROUND, Graph, ORPHAN, Thing};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judgement {
    /// Nothing to do.
    Keep,
    /// These owners are not known: the server has to be asked first.
    Ask(Vec<OwnerReference>),
    /// These owners are gone or going, but others are there: let go of them.
    Release(BTreeSet<String>),
    /// Nobody owns it any more. `unblock`: an owner waits for it while it waits for its own dependents.
    Delete { policy: Policy, unblock: bool },
    /// Nothing holds it any more: this finalizer goes.
    DropFinalizer(&'static str),
    /// These dependents stay without it, then it may go.
    Orphan(Vec<String>),
}

/// What the server has said about owners that the graph does not hold.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Gone for good: a uid never comes back.
    pub(super) absent: BTreeSet<String>,
    /// There, or not ours to judge.
    pub(super) present: BTreeSet<String>,
}

pub(super) fn judge(thing: &Thing, graph: &Graph, answers: &Answers) -> Judgement {
    if thing.deleting && thing.holds(ORPHAN) {
        return Judgement::Orphan(
            graph.dependents(&thing.uid).map(|dependent| dependent.uid.clone()).collect(),
        );
    }
    if thing.waits_for_dependents() {
        let blocked = graph.dependents(&thing.uid).any(|dependent| dependent.blocks(&thing.uid));
        return if blocked { Judgement::Keep } else { Judgement::DropFinalizer(FOREGROUND) };
    }
    if thing.deleting || thing.owners.is_empty() {
        return Judgement::Keep;
    }
    let mut unknown = Vec::new();
    let (mut solid, mut gone, mut waiting) = (0, BTreeSet::new(), BTreeSet::new());
    for reference in &thing.owners {
        let owner = graph
            .get(&reference.uid)
            .filter(|owner| owner.namespace.is_empty() || owner.namespace == thing.namespace);
        match owner {
            Some(owner) if owner.waits_for_dependents() => {
                waiting.insert(reference.uid.clone());
            }
            Some(_) => solid += 1,
            None if answers.absent.contains(&reference.uid) => {
                gone.insert(reference.uid.clone());
            }
            None if answers.present.contains(&reference.uid) => solid += 1,
            None => unknown.push(reference.clone()),
        }
    }
    if !unknown.is_empty() {
        return Judgement::Ask(unknown);
    }
    if solid > 0 {
        gone.extend(waiting);
        return if gone.is_empty() { Judgement::Keep } else { Judgement::Release(gone) };
    }
    if !waiting.is_empty() && graph.dependents(&thing.uid).next().is_some() {
        // A circle of objects that wait for each other would never end.
        let unblock = graph.dependents(&thing.uid).any(Thing::waits_for_dependents);
        return Judgement::Delete { policy: Policy::Foreground, unblock };
    }
    let policy = if thing.holds(ORPHAN) {
        Policy::Orphan
    } else if thing.holds(FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    };
    Judgement::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Change, Served};
    use super::*;
    use crate::kind::Kind;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn thing(uid: &str, owners: &[(&str, bool)], finalizers: &[&str], deleting: bool) -> Thing {
        let references: Vec<Value> = owners
            .iter()
            .map(|(owner, blocks)| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": blocks})
            })
            .collect();
        let meta = serde_json::from_value(json!({
            "name": uid, "namespace": "default", "uid": uid, "ownerReferences": references, "finalizers": finalizers,
            "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z")
        }))
        .unwrap();
        let served: Served = ConfigMap::served();
        Thing::new(&Arc::new(served), &meta)
    }

    fn graph(things: &[Thing]) -> Graph {
        let mut graph = Graph::default();
        for thing in things {
            graph.take(Change::Seen(thing.clone()));
        }
        graph
    }

    fn of(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn objects_follow_their_owners() {
        let going = || thing("owner", &[], &[FOREGROUND], true);
        let there = |uid: &str| thing(uid, &[], &[], false);
        let delete = |policy| Judgement::Delete { policy, unblock: false };
        let answers = Answers { absent: of(&["gone"]), present: of(&["elsewhere"]) };
        for (name, subject, others, expected) in [
            ("no owner", thing("x", &[], &[], false), vec![], Judgement::Keep),
            (
                "owner there",
                thing("x", &[("owner", true)], &[], false),
                vec![there("owner")],
                Judgement::Keep,
            ),
            ("owner gone", thing("x", &[("gone", true)], &[], false), vec![], delete(Policy::Background)),
            (
                "one of two gone",
                thing("x", &[("gone", true), ("owner", true)], &[], false),
                vec![there("owner")],
                Judgement::Release(of(&["gone"])),
            ),
            (
                "one of two going",
                thing("x", &[("owner", true), ("elsewhere", true)], &[], false),
                vec![going()],
                Judgement::Release(of(&["owner"])),
            ),
            (
                "owner waits for it",
                thing("x", &[("owner", true)], &[], false),
                vec![going()],
                delete(Policy::Background),
            ),
            (
                "owner waits and it has dependents",
                thing("x", &[("owner", true)], &[], false),
                vec![going(), thing("y", &[("x", true)], &[], false)],
                delete(Policy::Foreground),
            ),
            (
                "a circle",
                thing("x", &[("owner", true)], &[], false),
                vec![thing("owner", &[("x", true)], &[FOREGROUND], true)],
                Judgement::Delete { policy: Policy::Foreground, unblock: true },
            ),
            (
                "owner dying in the background",
                thing("x", &[("owner", true)], &[], false),
                vec![thing("owner", &[], &["other"], true)],
                Judgement::Keep,
            ),
            ("on its way already", thing("x", &[("gone", true)], &["other"], true), vec![], Judgement::Keep),
            (
                "keeps its own policy",
                thing("x", &[("gone", true)], &[ORPHAN], false),
                vec![],
                delete(Policy::Orphan),
            ),
            (
                "waits for a dependent",
                thing("x", &[], &[FOREGROUND], true),
                vec![thing("y", &[("x", true)], &[], false)],
                Judgement::Keep,
            ),
            (
                "waits for nobody who blocks",
                thing("x", &[], &[FOREGROUND], true),
                vec![thing("y", &[("x", false)], &[], false)],
                Judgement::DropFinalizer(FOREGROUND),
            ),
            (
                "orphans its dependents",
                thing("x", &[], &[ORPHAN], true),
                vec![thing("y", &[("x", true)], &[], false)],
                Judgement::Orphan(vec!["y".to_owned()]),
            ),
        ] {
            let mut all = others;
            all.push(subject.clone());
            assert_eq!(judge(&subject, &graph(&all), &answers), expected, "{name}");
        }
    }

    #[test]
    fn unknown_owners_are_asked_for() {
        let subject = thing("x", &[("who", true)], &[], false);
        let asked = judge(&subject, &graph(std::slice::from_ref(&subject)), &Answers::default());
        assert_eq!(asked, Judgement::Ask(subject.owners.clone()));
    }

    #[test]
    fn an_owner_in_another_namespace_does_not_count() {
        let mut owner = thing("owner", &[], &[], false);
        owner.namespace = "other".to_owned();
        let subject = thing("x", &[("owner", true)], &[], false);
        let asked = judge(&subject, &graph(&[owner, subject.clone()]), &Answers::default());
        assert_eq!(asked, Judgement::Ask(subject.owners));
    }

    #[test]
    fn changes_name_who_has_to_be_looked_at() {
        let mut graph = graph(&[thing("owner", &[], &[], false), thing("x", &[("owner", true)], &[], false)]);
        assert_eq!(graph.take(Change::Seen(thing("owner", &[], &[FOREGROUND], true))), ["x", "owner"]);
        assert_eq!(graph.take(Change::Gone(thing("x", &[], &[], false))), ["owner"]);
        graph.take(Change::Seen(thing("y", &[("owner", true)], &[], false)));
        assert_eq!(graph.take(Change::Gone(thing("owner", &[], &[], false))), ["y"]);
    }
}
