//! How large groups may be, and of which types: written apart from the solver as well.

use hostler_planner::NewMachine;
use hostler_planner::model::*;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum, maximum, limits and the rule about mixing.
pub fn sizes(cluster: &Cluster, machines: &[NewMachine]) -> Result<(), String> {
    for (at, group) in cluster.groups.iter().enumerate() {
        let new: Vec<&Offering> =
            machines.iter().filter(|m| m.group == at).map(|m| &group.offerings[m.offering]).collect();
        if new.is_empty() {
            continue;
        }
        let of_group = |name: &Option<String>| name.as_ref() == Some(&group.name);
        let old: Vec<String> = cluster
            .nodes
            .iter()
            .filter(|n| of_group(&n.group))
            .filter_map(|n| n.offering.clone())
            .chain(cluster.machines.iter().filter(|m| m.group == group.name).map(|m| m.offering.clone()))
            .collect();
        if group.paused || !group.scale_up.enabled || new.iter().any(|o| !o.available) {
            return Err(format!("group {} must not grow like this", group.name));
        }
        if old.len() + new.len() > group.max as usize {
            return Err(format!("group {} has too many nodes", group.name));
        }
        let types: BTreeSet<&String> = new.iter().map(|o| &o.name).collect();
        if !group.mixing && (types.len() > 1 || (!old.is_empty() && !types.iter().all(|t| old.contains(t)))) {
            return Err(format!("group {} mixes {types:?} with {old:?}", group.name));
        }
        if let Some(limit) = group.limits.get("cpu") {
            let capacity = |name: &String| {
                group.offerings.iter().find(|o| o.name == *name).map_or(0, |o| o.capacity.cpu)
            };
            let sum: i64 = old.iter().map(capacity).chain(new.iter().map(|o| o.capacity.cpu)).sum();
            if sum > *limit {
                return Err(format!("group {} has {sum} CPU of {limit}", group.name));
            }
        }
    }
    Ok(())
}

/// Without mixing, the type that most of a group's nodes are of: the preferred one in a tie, then the first by name.
pub fn keeps_type(cluster: &Cluster, machine: NewMachine) -> bool {
    let group = &cluster.groups[machine.group];
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|n| n.group.as_ref() == Some(&group.name)) {
        *types.entry(node.offering.clone().unwrap_or_default()).or_default() += 1;
    }
    for other in cluster.machines.iter().filter(|m| m.group == group.name) {
        *types.entry(other.offering.clone()).or_default() += 1;
    }
    let most = types.iter().map(|(name, n)| (*n, Some(name) == group.preferred.as_ref())).max();
    let kept = types.iter().find(|(name, n)| most == Some((**n, Some(*name) == group.preferred.as_ref())));
    group.mixing || kept.is_none_or(|(name, _)| *name == group.offerings[machine.offering].name)
}
