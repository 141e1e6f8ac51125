//! What is told of NodeGroups and VPSieNodes, by the names of the reference. It is read when it is asked for: an object
//! that is gone leaves nothing behind.

use crate::api::{NodeGroup, NodeGroupStatus, VPSieNode, VPSieNodePhase as Phase};
use kube::ResourceExt;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use std::{fmt, sync::Arc};

/// The objects, wherever they are kept.
pub struct Objects<G, N> {
    pub groups: G,
    pub nodes: N,
}

impl<G, N> fmt::Debug for Objects<G, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Objects")
    }
}

type Labels = Vec<(&'static str, String)>;
/// Name, help and series of one family.
type Told = (&'static str, &'static str, Vec<(Labels, i64)>);

impl<G, N> Collector for Objects<G, N>
where
    G: Fn() -> Vec<Arc<NodeGroup>> + Send + Sync + 'static,
    N: Fn() -> Vec<Arc<VPSieNode>> + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, series) in told(&(self.groups)(), &(self.nodes)()) {
            if series.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in &series {
                ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn told(groups: &[Arc<NodeGroup>], nodes: &[Arc<VPSieNode>]) -> [Told; 4] {
    let of_groups = |number: fn(&NodeGroupStatus) -> i32| {
        let series = groups.iter().map(|group| {
            let labels = vec![
                ("nodegroup", group.name_any()),
                // Two groups of one name are told apart.
                ("namespace", group.namespace().unwrap_or_default()),
            ];
            (labels, group.status.as_ref().map_or(0, number).into())
        });
        series.collect()
    };
    let phases = Phase::ALL.into_iter().map(|phase| {
        let is =
            |node: &&Arc<VPSieNode>| node.status.as_ref().is_some_and(|status| status.phase == Some(phase));
        let count = nodes.iter().filter(is).count();
        (vec![("phase", phase.as_str().to_owned())], i64::try_from(count).unwrap_or(i64::MAX))
    });
    [
        (
            "nodegroup_desired_nodes",
            "Nodes that the NodeGroup should have",
            of_groups(|status| status.desired_nodes),
        ),
        ("nodegroup_current_nodes", "Nodes that it has", of_groups(|status| status.current_nodes)),
        ("nodegroup_ready_nodes", "Nodes of it that take pods", of_groups(|status| status.ready_nodes)),
        ("vpsienode_phase", "VPSieNodes in each phase", phases.collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{NodeGroupSpec, VPSieNodeSpec, VPSieNodeStatus};
    use prometheus_client::{encoding::text::encode, registry::Registry};

    #[test]
    fn series_have_the_names_and_labels_of_the_reference() {
        let group = |namespace: &str, desired| {
            let mut group = NodeGroup::new("production-workers", NodeGroupSpec::default());
            group.metadata.namespace = Some(namespace.into());
            group.status = Some(NodeGroupStatus {
                desired_nodes: desired,
                current_nodes: 4,
                ready_nodes: 3,
                ..NodeGroupStatus::default()
            });
            Arc::new(group)
        };
        let node = |phase| {
            let mut node = VPSieNode::new("n", VPSieNodeSpec::default());
            node.status = Some(VPSieNodeStatus { phase, ..VPSieNodeStatus::default() });
            Arc::new(node)
        };
        let groups = vec![group("kube-system", 5), group("team", 1)];
        let nodes = vec![node(Some(Phase::Ready)), node(Some(Phase::Ready)), node(None)];
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Objects {
            groups: move || groups.clone(),
            nodes: move || nodes.clone(),
        }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "nodegroup_desired_nodes{nodegroup=\"production-workers\",namespace=\"kube-system\"} 5",
            "nodegroup_desired_nodes{nodegroup=\"production-workers\",namespace=\"team\"} 1",
            "nodegroup_current_nodes{nodegroup=\"production-workers\",namespace=\"kube-system\"} 4",
            "nodegroup_ready_nodes{nodegroup=\"production-workers\",namespace=\"kube-system\"} 3",
            "vpsienode_phase{phase=\"Ready\"} 2",
            "vpsienode_phase{phase=\"Provisioning\"} 0",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("vpsienode_phase{")).count(), 8);
    }
}
