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
        let nodes = cluster.nodes.iter().filter(|n| of_group(&n.group)).filter_map(|n| n.offering.clone());
        let machines_of = |failed: bool| {
            let own = cluster.machines.iter().filter(move |m| m.group == group.name && (failed || !m.failed));
            own.map(|m| m.offering.clone())
        };
        let old: Vec<String> = nodes.clone().chain(machines_of(true)).collect();
        // What failed takes a place, and says nothing of the type.
        let kinds: Vec<String> = nodes.chain(machines_of(false)).collect();
        if group.paused || !group.scale_up.enabled || new.iter().any(|o| !o.available) {
            return Err(format!("group {} must not grow like this", group.name));
        }
        if old.len() + new.len() > group.max as usize {
            return Err(format!("group {} has too many nodes", group.name));
        }
        let types: BTreeSet<&String> = new.iter().map(|o| &o.name).collect();
        if !group.mixing
            && (types.len() > 1 || (!kinds.is_empty() && !types.iter().all(|t| kinds.contains(t))))
        {
            return Err(format!("group {} mixes {types:?} with {kinds:?}", group.name));
        }
        for (resource, limit) in &group.limits {
            let amount = |offering: &Offering| match resource.as_str() {
                "cpu" => offering.capacity.cpu,
                "memory" => offering.capacity.memory,
                other => offering.capacity.extended.get(other).copied().unwrap_or(0),
            };
            let capacity = |name: &String| group.offerings.iter().find(|o| o.name == *name).map_or(0, amount);
            let more: i64 = new.iter().map(|o| amount(o)).sum();
            let sum = old.iter().map(capacity).sum::<i64>() + more;
            if more > 0 && sum > *limit {
                return Err(format!("group {} has {sum} {resource} of {limit}", group.name));
            }
        }
    }
    for (resource, limit) in &cluster.settings.limits {
        let amount = |offering: &Offering| match resource.as_str() {
            "nodes" => 1,
            "cpu" => offering.capacity.cpu,
            "memory" => offering.capacity.memory,
            other => offering.capacity.extended.get(other).copied().unwrap_or(0),
        };
        let named = |group: &Option<String>, offering: &Option<String>| {
            let group = cluster.groups.iter().find(|own| Some(&own.name) == group.as_ref())?;
            let offering = group.offerings.iter().find(|own| Some(&own.name) == offering.as_ref())?;
            Some(amount(offering))
        };
        let nodes = cluster.nodes.iter().filter_map(|node| named(&node.group, &node.offering));
        let coming = cluster.machines.iter();
        let coming = coming.filter_map(|m| named(&Some(m.group.clone()), &Some(m.offering.clone())));
        let new = machines.iter().map(|m| {
            let group = &cluster.groups[m.group];
            amount(&group.offerings[m.offering])
        });
        let more: i64 = new.sum();
        let sum = nodes.chain(coming).sum::<i64>() + more;
        if more > 0 && sum > *limit {
            return Err(format!("all groups have {sum} {resource} of {limit}"));
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
    for other in cluster.machines.iter().filter(|m| m.group == group.name && !m.failed) {
        *types.entry(other.offering.clone()).or_default() += 1;
    }
    let most = types.iter().map(|(name, n)| (*n, Some(name) == group.preferred.as_ref())).max();
    let kept = types.iter().find(|(name, n)| most == Some((**n, Some(*name) == group.preferred.as_ref())));
    group.mixing || kept.is_none_or(|(name, _)| *name == group.offerings[machine.offering].name)
}
