//! What could be had for less once the rest of the plan is carried out.

use hostler_planner::model::{Cluster, Machine, Node, Price};
use hostler_planner::{Consolidated, Replacement, ScaleDown, ScaleUp, consolidate};

pub struct Cheaper {
    pub plan: Consolidated,
    /// Of all nodes of groups per hour, before it and after it. Nodes whose price is not known are left out.
    pub before: Price,
    pub after: Price,
}

impl Cheaper {
    pub fn new(cluster: &Cluster, up: &ScaleUp, down: &ScaleDown) -> Self {
        let cluster = carried_out(cluster, up, down);
        let plan = consolidate(&cluster);
        let stay = cluster.nodes.iter().filter(|node| !node.draining);
        let nodes: Price = stay.filter_map(|node| price(&cluster, node)).sum();
        let machines = cluster.machines.iter().filter(|machine| !machine.failed);
        let coming: Price = machines
            .filter_map(|machine| {
                offered(&cluster, &machine.group, &machine.offering, machine.zone.as_deref())
            })
            .sum();
        let before = nodes + coming;
        Self { before, after: before - plan.saved, plan }
    }

    /// What the nodes of a step cost, and what comes instead.
    pub fn prices(&self, cluster: &Cluster, step: &Replacement) -> (Price, Price) {
        let new = step.machines.iter().map(|machine| self.plan.machines[*machine].price(cluster));
        let after: Price = new.sum();
        (after + step.saved, after)
    }
}

/// The machines are on their way, and the nodes on theirs: the pods of both have their room.
fn carried_out(cluster: &Cluster, up: &ScaleUp, down: &ScaleDown) -> Cluster {
    let mut after = cluster.clone();
    for (number, machine) in up.machines.iter().enumerate() {
        let group = &cluster.groups[machine.group];
        let offering = &group.offerings[machine.offering];
        after.machines.push(Machine {
            name: format!("new machine {number}"),
            group: group.name.clone(),
            offering: offering.name.clone(),
            zone: offering.zone.clone(),
            failed: false,
        });
    }
    for node in &down.removed {
        after.nodes[*node].draining = true;
    }
    after
}

fn price(cluster: &Cluster, node: &Node) -> Option<Price> {
    let zone = node.labels.get(hostler_planner::model::keys::ZONE);
    offered(cluster, node.group.as_ref()?, node.offering.as_ref()?, zone.map(String::as_str))
}

/// Of the type in this zone, or in any if it is not sold here.
fn offered(cluster: &Cluster, group: &str, name: &str, zone: Option<&str>) -> Option<Price> {
    let group = cluster.groups.iter().find(|own| own.name == group)?;
    let mut kinds = group.offerings.iter().filter(|offering| offering.name == name);
    let first = kinds.clone().next()?;
    let here = kinds.find(|offering| offering.zone.as_deref() == zone);
    Some(here.unwrap_or(first).price)
}
