//! Nodes and what can be attached to them.

use crate::error::{At, Error, Fault, each};
use crate::pod::seconds;
use crate::quantity::resources;
use crate::select;
use hostler_planner::model::Node;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;
use std::collections::BTreeMap;

/// Labels that say where a node belongs.
pub mod labels {
    pub const GROUP: &str = "autoscaler.vpsie.com/nodegroup";
    pub const OFFERING: &str = "autoscaler.vpsie.com/instance-type";
}

/// Taints of nodes that an autoscaler has given up.
const LEAVING: [&str; 3] =
    ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"];

/// A node with what its drivers can attach, from the CSINode of the same name. Its group and offering are read from its
/// labels; whoever knows better overwrites them.
pub fn node(from: &core::Node, drivers: Option<&CSINode>) -> Result<Node, Error> {
    let mut node = convert(from).of("Node", &from.metadata)?;
    if let Some(drivers) = drivers {
        node.attach_limits = attach_limits(drivers)?;
    }
    Ok(node)
}

fn convert(from: &core::Node) -> Result<Node, Fault> {
    let metadata = &from.metadata;
    let spec = from.spec.clone().unwrap_or_default();
    let status = from.status.clone().unwrap_or_default();
    let labels = metadata.labels.clone().unwrap_or_default();
    let taints = each(spec.taints.iter().flatten(), select::taint).at("taints").at("spec")?;
    let allocatable = status.allocatable.as_ref().map(resources).transpose();
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    Ok(Node {
        name: metadata.name.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        allocatable: allocatable.at("allocatable").at("status")?.unwrap_or_default(),
        ready: ready.is_some_and(|condition| condition.status == "True"),
        unschedulable: spec.unschedulable.unwrap_or(false),
        draining: metadata.deletion_timestamp.is_some()
            || taints.iter().any(|taint| LEAVING.contains(&taint.key.as_str())),
        created: seconds(metadata.creation_timestamp.as_ref()).unwrap_or_default(),
        group: labels.get(labels::GROUP).cloned(),
        offering: [labels::OFFERING, hostler_planner::model::keys::INSTANCE_TYPE]
            .into_iter()
            .find_map(|key| labels.get(key).cloned()),
        labels,
        taints,
        ..Node::default()
    })
}

/// By driver: how many volumes it can attach. One that names no number has no limit.
pub fn attach_limits(from: &CSINode) -> Result<BTreeMap<String, i64>, Error> {
    let limits = from.spec.drivers.iter().filter_map(|driver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.clone(), i64::from(count)))
    });
    let limits: BTreeMap<String, i64> = limits.collect();
    match limits.iter().find(|(_, count)| **count < 0) {
        Some((driver, count)) => Err(Fault::new(format!("{count} is negative")))
            .at(driver)
            .at("spec.drivers")
            .of("CSINode", &from.metadata),
        None => Ok(limits),
    }
}
