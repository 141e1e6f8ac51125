//! The status of a NodeGroup.

use super::{Counts, Member};
use crate::api::{NodeGroupCondition, NodeGroupStatus, NodeInfo, NodeStatus, VPSieNodePhase as Phase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The nodes in the five words that a NodeGroup has for the eight phases, by name.
pub fn nodes(members: &[Member]) -> Vec<NodeInfo> {
    let mut nodes: Vec<(&str, NodeInfo)> = members
        .iter()
        .map(|member| {
            let info = NodeInfo {
                node_name: member.node_name.clone(),
                vps_id: member.vps_id,
                instance_type: member.offering.clone(),
                status: word(member),
                ip_address: member.ip_address.clone(),
            };
            (member.name.as_str(), info)
        })
        .collect();
    nodes.sort_by(|one, other| one.0.cmp(other.0));
    nodes.into_iter().map(|(_, info)| info).collect()
}

fn word(member: &Member) -> NodeStatus {
    match member.phase {
        _ if member.deleting => NodeStatus::Terminating,
        None | Some(Phase::Pending) => NodeStatus::Pending,
        Some(Phase::Provisioning | Phase::Provisioned | Phase::Joining) => NodeStatus::Provisioning,
        Some(Phase::Ready) => NodeStatus::Ready,
        Some(Phase::Terminating | Phase::Deleting) => NodeStatus::Terminating,
        Some(Phase::Failed) => NodeStatus::Failed,
    }
}

/// The status as it should be written. `scaled` is when it was scaled in this run, if it was.
pub fn status(
    before: &NodeGroupStatus,
    members: &[Member],
    counts: Counts,
    desired: u32,
    conditions: Vec<NodeGroupCondition>,
    scaled: Option<Timestamp>,
) -> NodeGroupStatus {
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let latest = match (&before.last_scale_time, scaled) {
        (Some(before), Some(now)) => Some(Time(before.0.max(now))),
        (None, Some(now)) => Some(Time(now)),
        (before, None) => before.clone(),
    };
    NodeGroupStatus {
        current_nodes: number(counts.current),
        desired_nodes: number(desired),
        ready_nodes: number(counts.ready),
        nodes: nodes(members),
        conditions,
        last_scale_time: latest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::counts;

    #[test]
    fn eight_phases_have_five_words() {
        let words: Vec<NodeStatus> = [None]
            .into_iter()
            .chain(Phase::ALL.map(Some))
            .map(|phase| word(&Member { phase, ..Member::default() }))
            .collect();
        let expected = [
            NodeStatus::Pending,
            NodeStatus::Pending,
            NodeStatus::Provisioning,
            NodeStatus::Provisioning,
            NodeStatus::Provisioning,
            NodeStatus::Ready,
            NodeStatus::Terminating,
            NodeStatus::Terminating,
            NodeStatus::Failed,
        ];
        assert_eq!(words, expected);
        assert_eq!(word(&Member { deleting: true, ..Member::ready("n") }), NodeStatus::Terminating);
    }

    #[test]
    fn a_status_tells_the_numbers_and_the_last_scaling() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut one = Member::ready("b");
        one.node_name = "b".into();
        one.vps_id = 1001;
        one.ip_address = "192.0.2.10".into();
        let members = [one, Member::coming("a")];
        let before = NodeGroupStatus::default();
        let first = status(&before, &members, counts(&members), 2, Vec::new(), Some(at(10)));
        assert_eq!((first.current_nodes, first.desired_nodes, first.ready_nodes), (1, 2, 1));
        let brief: Vec<_> = first.nodes.iter().map(|node| (node.vps_id, node.status)).collect();
        assert_eq!(brief, [(0, NodeStatus::Provisioning), (1001, NodeStatus::Ready)]);
        for (scaled, expected) in [(None, 10), (Some(at(20)), 20), (Some(at(5)), 10)] {
            let next = status(&first, &members, counts(&members), 2, Vec::new(), scaled);
            assert_eq!(next.last_scale_time.map(|time| time.0), Some(at(expected)));
        }
    }
}
