//! What a Node gets of its VPSieNode and NodeGroup.

use crate::{
    api::{NodeGroup, VPSieNode},
    group::label_value,
    names::{label, note},
};
use hostler_driver::ProviderId;
use hostler_node::Node;
use k8s_openapi::api::core::v1::Taint;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How the Node should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub provider_id: Option<String>,
}

impl Wanted {
    /// What a VPSieNode and its NodeGroup say. Without the group, which may be gone, only what is the VPSieNode's own.
    pub fn of(
        node: &VPSieNode,
        group: Option<&NodeGroup>,
        region: Option<&str>,
        id: Option<&ProviderId>,
    ) -> Self {
        let mut labels = group.map(|group| group.spec.labels.clone()).unwrap_or_default();
        let datacenter = label_value(&node.spec.datacenter_id);
        let offering = label_value(&node.spec.instance_type);
        // What is ours goes before what is said by the way.
        let own = [
            (label::NODE_GROUP, label_value(&node.spec.node_group_name)),
            (label::NODE_GROUP_NAMESPACE, node.namespace().unwrap_or_default()),
            (label::VPSIE_NODE, label_value(&node.name_any())),
            (label::MANAGED, "true".to_owned()),
            (label::INSTANCE_TYPE, offering.clone()),
            (label::DATACENTER, datacenter.clone()),
            (label::NODE_INSTANCE_TYPE, offering),
            (label::REGION, region.map_or_else(|| datacenter.clone(), label_value)),
            (label::ZONE, datacenter),
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
        Self {
            labels,
            taints: group.map(|group| group.spec.taints.clone()).unwrap_or_default(),
            provider_id: id.map(ToString::to_string),
        }
    }
}

/// What the Node has of us, so that it can go again.
#[derive(Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
struct Applied {
    labels: BTreeSet<String>,
    /// Keys with effects.
    taints: BTreeSet<(String, String)>,
}

fn mark(taint: &Taint) -> (String, String) {
    (taint.key.clone(), taint.effect.clone())
}

/// What the Node lacks, as a merge patch; nothing if it is as it should be. What others gave it stays.
///
/// The patch holds all taints, so it goes with the Node's version as precondition.
pub fn behind(node: &Node, wanted: &Wanted) -> Option<Value> {
    let applied = node.annotations().get(note::APPLIED);
    let before: Applied = applied.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let now = Applied {
        labels: wanted.labels.keys().cloned().collect(),
        taints: wanted.taints.iter().map(mark).collect(),
    };
    let mut patch = json!({});
    let labels = label_changes(node, wanted, &before);
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    if let Some(taints) = taint_changes(node, wanted, &before) {
        patch["spec"]["taints"] = json!(taints);
    }
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()).filter(|id| !id.is_empty());
    if let (None, Some(wanted)) = (id, &wanted.provider_id) {
        patch["spec"]["providerID"] = json!(wanted);
    }
    if now != before || applied.is_none() {
        patch["metadata"]["annotations"][note::APPLIED] =
            json!(serde_json::to_string(&now).unwrap_or_default());
    }
    (patch != json!({})).then_some(patch)
}

fn label_changes(node: &Node, wanted: &Wanted, before: &Applied) -> Map<String, Value> {
    let has = node.labels();
    let missing = wanted.labels.iter().filter(|(key, value)| has.get(*key) != Some(*value));
    let gone = before.labels.iter().filter(|key| !wanted.labels.contains_key(*key) && has.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    missing.map(|(key, value)| (key.clone(), json!(value))).chain(gone).collect()
}

/// All taints as they should be, if they are not.
fn taint_changes(node: &Node, wanted: &Wanted, before: &Applied) -> Option<Vec<Taint>> {
    let has = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let wants = |taint: &Taint| wanted.taints.iter().find(|own| mark(own) == mark(taint));
    let mut taints: Vec<Taint> = has
        .iter()
        .filter(|taint| wants(taint).is_some() || !before.taints.contains(&mark(taint)))
        .map(|taint| match wants(taint) {
            Some(own) if value(own) != value(taint) => own.clone(),
            _ => taint.clone(),
        })
        .collect();
    for own in &wanted.taints {
        if !taints.iter().any(|taint| mark(taint) == mark(own)) {
            taints.push(own.clone());
        }
    }
    (taints != has).then_some(taints)
}

fn value(taint: &Taint) -> &str {
    taint.value.as_deref().unwrap_or_default()
}

/// What user data gets for the provider id: the VPS by its hostname, because its identifier is not known yet.
pub fn provider_id_of(hostname: &str) -> Option<ProviderId> {
    ProviderId::vpsie(hostname).ok()
}

/// Whether a Node is this VPS's: it says so by its provider id, or else it has the hostname, and an address that the
/// cloud gave to the VPS. Names are compared as hosts' names are.
pub fn is_own(node: &Node, id: Option<&ProviderId>, hostname: &str, addresses: &[String]) -> bool {
    let said = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
    if let Some(said) = said {
        let Ok(said) = said.parse::<ProviderId>() else { return false };
        if id.is_some_and(|id| id.names_same_server(&said)) {
            return true;
        }
        // One that was filled in before the identifier was known.
        if provider_id_of(hostname).is_none_or(|by_name| !by_name.names_same_server(&said)) {
            return false;
        }
    }
    let has = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    let at_home = addresses.is_empty() || has.iter().any(|one| addresses.contains(&one.address));
    node.name_any().eq_ignore_ascii_case(hostname) && at_home
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
