//! The cluster as one scheduling round sees it: nodes with what runs on them.

use super::resources::{self, Amounts};
use super::storage::Storage;
use crate::cache::uid;
use crate::selector::Labels;
use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) node: Arc<Node>,
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) allocatable: Amounts,
    pub(crate) requested: Amounts,
    pub(crate) assumed: Amounts,
    pub(crate) pods: Vec<Arc<Pod>>,
}

impl NodeView {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            allocatable: resources::allocatable(&node),
            requested: Amounts::default(),
            assumed: Amounts::default(),
            pods: Vec::new(),
            node,
        }
    }

    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        self.requested.add(&resources::requests(&pod));
        self.assumed.add(&resources::assumed_requests(&pod));
        self.pods.push(pod);
    }

    pub(crate) fn remove(&mut self, pod: &Pod) {
        if let Some(at) = self.pods.iter().position(|held| uid(held.as_ref()) == uid(pod)) {
            let gone = self.pods.remove(at);
            self.requested.subtract(&resources::requests(&gone));
            self.assumed.subtract(&resources::assumed_requests(&gone));
        }
    }
}

/// Everything a decision may look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) nodes: Vec<NodeView>,
    /// The labels of each namespace.
    pub(crate) namespaces: BTreeMap<String, Labels>,
    pub(crate) storage: Storage,
}

impl Snapshot {
    /// All pods that sit on a node, with that node.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&NodeView, &Arc<Pod>)> {
        self.nodes.iter().flat_map(|node| node.pods.iter().map(move |pod| (node, pod)))
    }
}

pub(crate) fn labels(pod: &Pod) -> &Labels {
    static NONE: Labels = Labels::new();
    pod.metadata.labels.as_ref().unwrap_or(&NONE)
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

pub(crate) fn required_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.affinity.as_ref()?.pod_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
}

pub(crate) fn required_anti_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) fn pod(mut value: Value) -> Pod {
        if value["metadata"].is_null() {
            value["metadata"] = json!({"name": "pod"});
        }
        if value["metadata"]["namespace"].is_null() {
            value["metadata"]["namespace"] = json!("default");
        }
        if value["metadata"]["uid"].is_null() {
            value["metadata"]["uid"] = value["metadata"]["name"].clone();
        }
        if value["spec"]["containers"].is_null() {
            value["spec"]["containers"] = json!([{"name": "c"}]);
        }
        serde_json::from_value(value).unwrap()
    }

    pub(crate) fn node(value: Value) -> NodeView {
        NodeView::new(Arc::new(serde_json::from_value(value).unwrap()))
    }

    /// A node with these labels and room for everything.
    pub(crate) fn roomy(name: &str, labels: &[(&str, &str)]) -> NodeView {
        let labels: Labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        node(json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "110"}}
        }))
    }
}
