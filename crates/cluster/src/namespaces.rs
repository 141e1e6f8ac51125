//! Empties namespaces that are being deleted, says how far that is, and lets them go when nothing is left.

use crate::cache::Watched;
use crate::discover;
use crate::garbage::graph::Served;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, is_not_found, says};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const FINALIZER: &str = "kubernetes";
/// How soon to look again while something is left.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Namespaces;

impl Part for Namespaces {
    const NAME: &'static str = "namespace deletion";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.namespaces]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        for namespace in context.caches.namespaces.all() {
            if is_leaving(&namespace) {
                tend(context, &namespace, &mut sweep).await;
            }
        }
        sweep
    }
}

fn finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default()
}

fn is_leaving(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers(namespace).iter().any(|one| one == FINALIZER)
}

/// What was found out about a namespace's content.
#[derive(Debug, Default, PartialEq)]
struct Content {
    discovery_failure: Option<String>,
    failures: Vec<String>,
    /// How many objects are left of each resource, as `resource.group`.
    left: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    held: BTreeMap<String, usize>,
}

impl Content {
    fn is_gone(&self) -> bool {
        self.discovery_failure.is_none() && self.failures.is_empty() && self.left.is_empty()
    }
}

async fn tend(context: &Context, namespace: &Arc<Namespace>, sweep: &mut Sweep) {
    let name = namespace.metadata.name.clone().unwrap_or_default();
    let mut content = Content::default();
    match discover::resources(&context.client).await {
        Err(error) => content.discovery_failure = Some(says(&error)),
        Ok(served) => {
            let mut resources: Vec<&Served> =
                served.iter().filter(|one| one.namespaced && one.can(&["delete", "list"])).collect();
            // Pods end before what they may still need.
            resources.sort_by_key(|one| one.id() != (String::new(), "pods".to_owned()));
            for resource in resources {
                if let Err(error) = empty(&context.client, resource, &name, &mut content).await {
                    content.failures.push(says(&error));
                }
                if resource.id() == (String::new(), "pods".to_owned()) && !content.left.is_empty() {
                    break;
                }
            }
        }
    }
    let mut changed = (**namespace).clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some("Terminating".to_owned());
    let old = status.conditions.clone().unwrap_or_default();
    status.conditions = Some(conditions(&old, &content, context.now()));
    let mut current = namespace.clone();
    if changed.status != namespace.status {
        let written = context.replace_status(&context.caches.namespaces, &changed).await;
        match sweep.note_about("writing a namespace's status", &changed, written) {
            Some(written) => current = written,
            None => return,
        }
    }
    if content.is_gone() {
        let mut last = (*current).clone();
        if let Some(spec) = &mut last.spec {
            spec.finalizers =
                Some(finalizers(namespace).iter().filter(|one| *one != FINALIZER).cloned().collect());
        }
        let api = Api::<Namespace>::all(context.client.clone());
        let finalized = api.replace_subresource("finalize", &name, &PostParams::default(), &last).await;
        match finalized {
            Ok(_) => context.caches.namespaces.bury(&last),
            Err(error) if is_not_found(&error) => context.caches.namespaces.bury(&last),
            Err(error) => {
                sweep.note::<()>("finalizing a namespace", Err(error));
            }
        }
    } else {
        sweep.due(AGAIN);
    }
}

/// Deletes all objects of a resource and counts what is still there afterwards.
async fn empty(
    client: &Client,
    resource: &Served,
    namespace: &str,
    content: &mut Content,
) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource.api);
    let found = api.list_metadata(&ListParams::default()).await?;
    let fresh = found.items.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    let fresh: Vec<String> = fresh.filter_map(|one| one.metadata.name.clone()).collect();
    if fresh.is_empty() {
        count(resource, &found.items, content);
        return Ok(());
    }
    if resource.can(&["deletecollection"]) {
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    } else {
        for name in fresh {
            match api.delete(&name, &DeleteParams::background()).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                _ => {}
            }
        }
    }
    let left = api.list_metadata(&ListParams::default()).await?;
    count(resource, &left.items, content);
    Ok(())
}

fn count(resource: &Served, items: &[kube::core::PartialObjectMeta<DynamicObject>], content: &mut Content) {
    if items.is_empty() {
        return;
    }
    content.left.insert(format!("{}.{}", resource.api.plural, resource.api.group), items.len());
    for finalizer in items.iter().flat_map(|item| item.metadata.finalizers.iter().flatten()) {
        *content.held.entry(finalizer.clone()).or_default() += 1;
    }
}

fn conditions(old: &[NamespaceCondition], content: &Content, now: Timestamp) -> Vec<NamespaceCondition> {
    let listed = |counts: &BTreeMap<String, usize>, word: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances")).collect();
        parts.join(", ")
    };
    let failures = (!content.failures.is_empty()).then(|| {
        format!(
            "Failed to delete all resource types, {} remaining: {}",
            content.failures.len(),
            content.failures.join(", ")
        )
    });
    let left = (!content.left.is_empty())
        .then(|| format!("Some resources are remaining: {}", listed(&content.left, "has")));
    let held = (!content.held.is_empty()).then(|| {
        format!("Some content in the namespace has finalizers remaining: {}", listed(&content.held, "in"))
    });
    let found = [
        (
            "NamespaceDeletionDiscoveryFailure",
            ("ResourcesDiscovered", "All resources successfully discovered"),
            ("DiscoveryFailed", content.discovery_failure.clone()),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ("GroupVersionParsingFailed", None),
        ),
        (
            "NamespaceDeletionContentFailure",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ("ContentDeletionFailed", failures),
        ),
        (
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            ("SomeResourcesRemain", left),
        ),
        (
            "NamespaceFinalizersRemaining",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ("SomeFinalizersRemain", held),
        ),
    ];
    let judged = found.into_iter().map(|(kind, well, bad)| {
        let (status, reason, message) = match bad {
            (reason, Some(message)) => ("True", reason, message),
            (_, None) => ("False", well.0, well.1.to_owned()),
        };
        let before = old.iter().find(|one| one.type_ == kind);
        let since =
            before.filter(|one| one.status == status).and_then(|one| one.last_transition_time.clone());
        NamespaceCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(content: &Content) -> Vec<String> {
        let conditions = conditions(&[], content, Timestamp::UNIX_EPOCH);
        conditions
            .iter()
            .filter(|one| one.status == "True")
            .map(|one| format!("{}: {}", one.reason.clone().unwrap(), one.message.clone().unwrap()))
            .collect()
    }

    #[test]
    fn conditions_say_what_is_left() {
        assert!(said(&Content::default()).is_empty());
        assert!(Content::default().is_gone());
        let content = Content {
            failures: vec!["no".to_owned()],
            left: [("pods.".to_owned(), 2), ("machines.example.com".to_owned(), 1)].into(),
            held: [("example.com/held".to_owned(), 1)].into(),
            ..Content::default()
        };
        assert_eq!(
            said(&content),
            [
                "ContentDeletionFailed: Failed to delete all resource types, 1 remaining: no",
                "SomeResourcesRemain: Some resources are remaining: machines.example.com has 1 resource instances, pods. has 2 resource instances",
                "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances",
            ]
        );
        assert!(!content.is_gone());
        let blind = Content { discovery_failure: Some("no".to_owned()), ..Content::default() };
        assert_eq!(said(&blind), ["DiscoveryFailed: no"]);
        assert!(!blind.is_gone());
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_stays() {
        let early: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let first = conditions(&[], &Content::default(), early);
        assert_eq!(conditions(&first, &Content::default(), late), first);
    }
}
