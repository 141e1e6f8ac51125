//! What `kubectl get … -o yaml` prints.

use crate::cluster::{Priorities, budget, namespace};
use crate::error::{Error, Fault};
use crate::{node, pod, storage};
use hostler_planner::model::{Cluster, Time};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A kind that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    group: &'static str,
    pub kind: &'static str,
    /// As kubectl calls it.
    pub resource: &'static str,
    /// What a plan gets wrong without them.
    pub without: &'static str,
}

const fn kind(
    group: &'static str,
    kind: &'static str,
    resource: &'static str,
    without: &'static str,
) -> Kind {
    Kind { group, kind, resource, without }
}

pub const KINDS: [Kind; 10] = [
    kind("", "Node", "nodes", "there is no room anywhere, and nothing to give back"),
    kind("", "Pod", "pods", "nothing waits, and every node looks empty"),
    kind("apps", "DaemonSet", "daemonsets", "new nodes look larger than they will be"),
    kind("policy", "PodDisruptionBudget", "pdb", "no budget keeps a pod where it is"),
    kind("", "PersistentVolume", "pv", "pods with bound claims find no place"),
    kind("", "PersistentVolumeClaim", "pvc", "pods with claims find no place"),
    kind(
        "storage.k8s.io",
        "StorageClass",
        "storageclasses",
        "pods with claims that are not bound find no place",
    ),
    kind("storage.k8s.io", "CSINode", "csinodes", "any number of volumes can be attached"),
    kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", "priorities of daemon sets are not known"),
    kind("", "Namespace", "namespaces", "pod affinity by namespace labels finds nobody"),
];

/// API group and kind.
const NODE_GROUP: (&str, &str) = ("autoscaler.vpsie.com", "NodeGroup");

/// Objects of a cluster, collected from any number of lists.
#[derive(Default)]
pub struct Dump {
    objects: BTreeMap<Kind, Vec<Value>>,
    /// Others, with their number.
    pub ignored: BTreeMap<String, usize>,
    /// NodeGroups as they came: they are for whoever makes groups of them.
    pub node_groups: Vec<Value>,
    seen: BTreeSet<String>,
    newest: Option<Timestamp>,
}

/// A cluster without groups, and what there is to say about it.
pub struct Loaded {
    pub cluster: Cluster,
    /// Kinds of which there was not one object.
    pub missing: Vec<Kind>,
}

/// The documents of a text: JSON, or YAML with any number of them.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // As kubectl means it: `n` and `yes` are text. And a cluster may be large: whoever can hand over a file is trusted with it.
    let options = serde_saphyr::options! { strict_booleans: true, budget: None };
    let yaml = || serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string());
    let documents = if text.trim_start().starts_with(['{', '[']) {
        let stream = serde_json::Deserializer::from_str(text).into_iter();
        let json = stream.collect::<Result<Vec<Value>, _>>();
        // YAML may begin so, too.
        json.or_else(|error| yaml().map_err(|_| error.to_string()))
    } else {
        yaml()
    };
    Ok(documents?.into_iter().filter(|document| !document.is_null()).collect())
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn name_of(object: &Value) -> String {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    match (text(metadata, "namespace"), text(metadata, "name")) {
        ("", "") => "without a name".to_owned(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

impl Dump {
    /// Takes an object, or a list of objects. Who was seen before is not taken twice.
    pub fn add(&mut self, document: Value) -> Result<(), Error> {
        let kind = text(&document, "kind").to_owned();
        let wrong = |problem: &str| Error {
            kind: if kind.is_empty() { "a document".to_owned() } else { kind.clone() },
            name: name_of(&document),
            fault: Fault::new(problem),
        };
        if kind.is_empty() {
            return Err(wrong("has no kind: it is no Kubernetes object"));
        }
        if kind == "List" || (kind.ends_with("List") && document.get("items").is_some()) {
            let Value::Object(mut list) = document else { return Ok(()) };
            // The items of a typed list need not say what they are.
            let own = [("kind", kind.trim_end_matches("List")), ("apiVersion", "")];
            let version = list.get("apiVersion").cloned();
            let Some(Value::Array(items)) = list.remove("items") else { return Ok(()) };
            for mut item in items {
                if let Some(fields) = item.as_object_mut().filter(|_| kind != "List") {
                    fields.entry(own[0].0).or_insert_with(|| own[0].1.into());
                    fields.entry(own[1].0).or_insert_with(|| version.clone().unwrap_or_default());
                }
                self.add(item)?;
            }
            return Ok(());
        }
        self.newest = self.newest.max(newest(&document));
        let group = text(&document, "apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        if (group, kind.as_str()) == NODE_GROUP {
            self.node_groups.push(document);
            return Ok(());
        }
        let Some(known) = KINDS.into_iter().find(|known| known.kind == kind && known.group == group) else {
            *self.ignored.entry(kind).or_default() += 1;
            return Ok(());
        };
        if self.seen.insert(format!("{kind} {}", name_of(&document))) {
            self.objects.entry(known).or_default().push(document);
        }
        Ok(())
    }

    /// The latest time that an object tells of, as a guess of when the lists were made.
    pub fn newest(&self) -> Option<Time> {
        self.newest.map(Timestamp::as_second)
    }

    /// Everything of a kind, in the order of its names.
    fn take<T: DeserializeOwned>(&mut self, kind: &str) -> Result<Vec<T>, Error> {
        let Some(known) = KINDS.into_iter().find(|known| known.kind == kind) else { return Ok(Vec::new()) };
        let objects = self.objects.remove(&known).unwrap_or_default();
        let read = |object: Value| {
            let name = name_of(&object);
            serde_json::from_value(object).map_err(|error| Error {
                kind: kind.to_owned(),
                name,
                fault: Fault::new(error),
            })
        };
        objects.into_iter().map(read).collect()
    }

    /// The cluster as the planner sees it, at a time.
    pub fn load(mut self, now: Time) -> Result<Loaded, Error> {
        let missing =
            KINDS.into_iter().filter(|kind| self.objects.get(kind).is_none_or(Vec::is_empty)).collect();
        let mut priorities = Priorities::default();
        for class in self.take::<PriorityClass>("PriorityClass")? {
            priorities.insert(&class);
        }
        let drivers: BTreeMap<String, CSINode> = self
            .take::<CSINode>("CSINode")?
            .into_iter()
            .map(|drivers| (drivers.metadata.name.clone().unwrap_or_default(), drivers))
            .collect();
        let nodes = self.take::<core::Node>("Node")?;
        let nodes = nodes
            .iter()
            .map(|from| node::node(from, from.metadata.name.as_ref().and_then(|name| drivers.get(name))));
        let cluster = Cluster {
            now,
            nodes: nodes.collect::<Result<_, _>>()?,
            pods: all(self.take::<core::Pod>("Pod")?, |from| pod::pod(from, &priorities))?,
            daemon_sets: all(self.take::<DaemonSet>("DaemonSet")?, |from| {
                pod::daemon_set(from, &priorities)
            })?,
            budgets: all(self.take::<PodDisruptionBudget>("PodDisruptionBudget")?, budget)?,
            namespaces: all(self.take("Namespace")?, |from| Ok(namespace(from)))?,
            claims: all(self.take("PersistentVolumeClaim")?, storage::claim)?,
            volumes: all(self.take("PersistentVolume")?, storage::volume)?,
            storage_classes: all(self.take::<StorageClass>("StorageClass")?, |from| {
                Ok(storage::storage_class(from))
            })?,
            ..Cluster::default()
        };
        Ok(Loaded { cluster, missing })
    }
}

fn all<T, U>(objects: Vec<T>, convert: impl Fn(&T) -> Result<U, Error>) -> Result<Vec<U>, Error> {
    objects.iter().map(convert).collect()
}

/// Fields that tell when something happened. Others may tell of what is yet to come.
const TIMES: [&str; 8] = [
    "creationTimestamp",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastUpdateTime",
    "startTime",
    "startedAt",
    "finishedAt",
];

fn newest(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Array(list) => list.iter().filter_map(newest).max(),
        Value::Object(fields) => {
            let of_field = |(name, value): (&String, &Value)| match value {
                Value::String(text) if TIMES.contains(&name.as_str()) => text.parse().ok(),
                other => newest(other),
            };
            fields.iter().filter_map(of_field).max()
        }
        _ => None,
    }
}
