//! One pod and every node.

use crate::board::{NO_CLASS, build};
use crate::model::Cluster;
use crate::populate::populate;
use crate::reason::Reason;

/// By node: why a pod that waits cannot go there as things are; none where it can.
pub fn objections(cluster: &Cluster, pod: usize) -> Vec<Option<Reason>> {
    let board = build(cluster);
    let (state, _) = populate(&board);
    let class = board.pod_class[pod];
    if class == NO_CLASS {
        return vec![Some(Reason::BeingDeleted); cluster.nodes.len()];
    }
    (0u32..)
        .take(cluster.nodes.len())
        .map(|node| {
            let objection = state.objection(class, node);
            let fits = board.class(class).refusal.is_none() && state.fits(class, node);
            debug_assert_eq!(fits, objection.is_none(), "what packs and what explains must agree");
            objection
        })
        .collect()
}
