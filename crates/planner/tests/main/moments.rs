//! What the scale-up is asked after nodes were given back, before their pods have found another place.

use crate::consolidating::node_of;
use hostler_planner::NewMachine;
use hostler_planner::model::*;

fn name(number: usize) -> String {
    format!("new{number}")
}

/// The nodes are on their way out with all that runs there, and the machines on theirs in.
pub fn leaving(cluster: &Cluster, removed: &[usize], machines: &[NewMachine]) -> Cluster {
    let mut then = cluster.clone();
    for at in removed {
        then.nodes[*at].draining = true;
    }
    for (number, machine) in machines.iter().enumerate() {
        let group = &cluster.groups[machine.group];
        let offering = &group.offerings[machine.offering];
        then.machines.push(Machine {
            name: name(number),
            group: group.name.clone(),
            offering: offering.name.clone(),
            zone: offering.zone.clone(),
            failed: false,
        });
    }
    then
}

/// Nodes went and machines came; the pods that were `moved` wait, and those that belonged to the nodes went with them.
/// Nobody knows in which order they come.
pub fn evicted(
    cluster: &Cluster,
    removed: &[usize],
    machines: &[NewMachine],
    moved: &[usize],
    seed: u64,
) -> Cluster {
    let mut then = cluster.clone();
    for at in moved {
        let pod = &mut then.pods[*at];
        (pod.node, pod.phase, pod.verdict) = (None, Phase::Pending, Verdict::Unschedulable);
        pod.nominated_node = None;
    }
    let gone: Vec<&String> = removed.iter().map(|at| &cluster.nodes[*at].name).collect();
    then.nodes.retain(|node| !gone.contains(&&node.name));
    then.pods.retain(|pod| pod.node.as_ref().is_none_or(|node| !gone.contains(&node)));
    for (number, machine) in machines.iter().enumerate() {
        let group = &cluster.groups[machine.group];
        let offering = &group.offerings[machine.offering];
        then.nodes.push(node_of(group, offering, &name(number), cluster.now));
    }
    fastrand::Rng::with_seed(seed).shuffle(&mut then.pods);
    then
}
