//! What is done about a plan: who is made and who goes, within what the group may have.

use super::{BackOff, Effective, Existence, Member, Standing, counts, health};
use crate::{life::Why, names::error};
use hostler_planner::{ScaleDown, ScaleUp, model::Cluster};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How soon a node that could not be emptied is tried again.
pub const REMOVE_AGAIN: SignedDuration = SignedDuration::from_mins(30);

/// An instance type that the group may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub offering: String,
    /// In whatever unit, the same for all; nothing if it is not known.
    pub price: Option<i64>,
    /// The datacenter has it.
    pub available: bool,
}

/// What the planner wants of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Offerings of machines to be made.
    pub create: Vec<String>,
    /// Names of nodes that can go.
    pub remove: Vec<String>,
}

/// By the name of the group in the planner's input.
pub fn wanted(cluster: &Cluster, up: &ScaleUp, down: &ScaleDown) -> BTreeMap<String, Wanted> {
    let mut all: BTreeMap<String, Wanted> = BTreeMap::new();
    for machine in &up.machines {
        let Some(group) = cluster.groups.get(machine.group) else { continue };
        let Some(offering) = group.offerings.get(machine.offering) else { continue };
        all.entry(group.name.clone()).or_default().create.push(offering.name.clone());
    }
    for node in down.removed.iter().filter_map(|node| cluster.nodes.get(*node)) {
        if let Some(group) = &node.group {
            all.entry(group.clone()).or_default().remove.push(node.name.clone());
        }
    }
    all
}

/// Everything that is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub now: Timestamp,
    pub limits: &'a Effective,
    pub datacenter: &'a str,
    pub preferred: &'a str,
    pub mixing: bool,
    pub choices: &'a [Choice],
    pub back_off: &'a BackOff,
    pub members: &'a [Member],
    pub wanted: &'a Wanted,
    /// Why nothing can be made: the configuration, for example.
    pub blocked: Option<&'a str>,
    /// Why nothing is made or taken away at all.
    pub frozen: bool,
}

/// A VPSieNode to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    pub offering: String,
    /// Nobody asked for it but the group's minimum.
    pub for_minimum: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    pub create: Vec<New>,
    /// Names of VPSieNodes, in this order.
    pub remove: Vec<(String, Why)>,
    /// So many more were wanted than the group may have.
    pub beyond: u32,
    /// Why the group cannot even have its minimum.
    pub obstacle: Option<String>,
    /// Why unhealthy nodes are not replaced.
    pub unhealthy: Option<String>,
    /// The size that the group is on its way to.
    pub desired: u32,
    /// When to look again, if nothing happens before.
    pub again: Option<Timestamp>,
}

impl Actions {
    /// Whether the group is scaled by it; making good what has failed is no scaling.
    pub fn scales(&self) -> bool {
        !self.create.is_empty() || self.remove.iter().any(|(_, why)| *why != Why::Unhealthy)
    }
}

pub fn carry_out(group: &Group<'_>) -> Actions {
    let size = counts(group.members);
    let Effective { min, max, paused, .. } = *group.limits;
    let mut actions = Actions { desired: size.wanted.clamp(min.min(max), max), ..Actions::default() };
    if paused {
        actions.desired = size.wanted;
        return actions;
    }
    let sick = health::unhealthy(group.members, group.now);
    actions.unhealthy.clone_from(&sick.stopped);
    actions.again = sick.next;
    if group.frozen {
        return actions;
    }
    let surplus = usize::try_from(size.wanted.saturating_sub(max)).unwrap_or(usize::MAX);
    actions.remove = over_maximum(group, surplus);
    for name in sick.replace {
        if !is_removed(&actions, &name) {
            actions.remove.push((name, Why::Unhealthy));
        }
    }
    let staying = |actions: &Actions| {
        size.wanted.saturating_sub(u32::try_from(actions.remove.len()).unwrap_or(u32::MAX))
    };
    for name in not_needed(group) {
        if staying(&actions) > min && !is_removed(&actions, &name) {
            actions.remove.push((name, Why::ScaleDown));
        }
    }
    create(group, &mut actions, size.vpss);
    let made = u32::try_from(actions.create.len()).unwrap_or(u32::MAX);
    actions.desired = staying(&actions).saturating_add(made).clamp(min.min(max), max);
    actions
}

fn is_removed(actions: &Actions, name: &str) -> bool {
    actions.remove.iter().any(|(other, _)| other == name)
}

/// Makes what is wanted and what the minimum lacks, as far as there is room.
fn create(group: &Group<'_>, actions: &mut Actions, vpss: u32) {
    let Effective { min, max, .. } = *group.limits;
    if let Some(blocked) = group.blocked {
        actions.obstacle = Some(blocked.to_owned());
        return;
    }
    // Whatever exists counts, until it is proven gone.
    let mut room = max.saturating_sub(vpss);
    for offering in &group.wanted.create {
        if group.back_off.held(offering, group.datacenter, group.now).is_some() {
            continue;
        }
        if room == 0 {
            actions.beyond += 1;
            continue;
        }
        room -= 1;
        actions.create.push(New { offering: offering.clone(), for_minimum: false });
    }
    let wanted = counts(group.members).wanted;
    let leaving = u32::try_from(actions.remove.len()).unwrap_or(u32::MAX);
    let made = u32::try_from(actions.create.len()).unwrap_or(u32::MAX);
    let missing = min.saturating_sub(wanted.saturating_sub(leaving).saturating_add(made));
    if missing == 0 {
        return;
    }
    match fill_with(group) {
        Err(obstacle) => actions.obstacle = Some(obstacle),
        Ok(offering) => {
            let new = || New { offering: offering.to_owned(), for_minimum: true };
            actions.create.extend((0..missing.min(room)).map(|_| new()));
        }
    }
}

/// What the minimum is filled with: the preferred type, else the cheapest. Without mixing it is the type that the group
/// has already.
fn fill_with<'a>(group: &Group<'a>) -> Result<&'a str, String> {
    let mut held: Option<(Timestamp, String)> = None;
    let kept = if group.mixing { None } else { kept_type(group.members) };
    let mut usable: Vec<&Choice> = Vec::new();
    for choice in group.choices {
        if !choice.available || kept.is_some_and(|kept| kept != choice.offering) {
            continue;
        }
        match group.back_off.held(&choice.offering, group.datacenter, group.now) {
            None => usable.push(choice),
            Some((until, why)) if held.as_ref().is_none_or(|(earliest, _)| until < *earliest) => {
                held = Some((until, format!("{}: {why}", choice.offering)));
            }
            Some(_) => {}
        }
    }
    usable.sort_by_key(|choice| {
        (choice.offering != group.preferred, choice.price.is_none(), choice.price, &choice.offering)
    });
    match (usable.first(), held) {
        (Some(choice), _) => Ok(&choice.offering),
        (None, Some((until, why))) => Err(format!("{why}; it is tried again at {until}")),
        (None, None) => Err(match kept {
            Some(kept) => format!(
                "{}: {kept}, and instances of other types are not to be mixed with it",
                error::NOT_AVAILABLE
            ),
            None => format!("{}: none of offeringIDs", error::NOT_AVAILABLE),
        }),
    }
}

/// The type that most of them are of.
fn kept_type(members: &[Member]) -> Option<&str> {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members.iter().filter(|member| member.is_wanted()) {
        *types.entry(&member.offering).or_default() += 1;
    }
    types.into_iter().rev().max_by_key(|(_, count)| *count).map(|(name, _)| name)
}

/// Whether it may be taken away without anybody asking for just that one.
fn may_go(group: &Group<'_>, member: &Member) -> bool {
    let tried = member.removal_failed.is_some_and(|at| {
        let since = group.now.duration_since(at);
        since < REMOVE_AGAIN && !since.is_negative()
    });
    member.is_wanted() && !member.protected && !tried
}

/// Those that are too many: what hurts least goes first, and the node on which we run goes last.
fn over_maximum(group: &Group<'_>, surplus: usize) -> Vec<(String, Why)> {
    let mut candidates: Vec<&Member> = group.members.iter().filter(|member| may_go(group, member)).collect();
    candidates.sort_by_key(|member| {
        (
            member.hosts_us,
            member.standing() != Standing::Comes,
            member.existence != Existence::None,
            member.had_node,
            member.node_ready,
            !member.cordoned,
            member.pods,
            std::cmp::Reverse(member.created_at),
            &member.name,
        )
    });
    candidates.iter().take(surplus).map(|member| (member.name.clone(), Why::Surplus)).collect()
}

/// Names of the VPSieNodes whose nodes the planner can do without, our own last.
fn not_needed(group: &Group<'_>) -> Vec<String> {
    let by_node: BTreeMap<&str, &Member> = group
        .members
        .iter()
        .filter(|member| member.standing() == Standing::Stays && may_go(group, member))
        .map(|member| (member.node_name.as_str(), member))
        .collect();
    let mut seen = BTreeSet::new();
    let mut going: Vec<&Member> = group
        .wanted
        .remove
        .iter()
        .filter_map(|node| by_node.get(node.as_str()).copied())
        .filter(|member| seen.insert(&member.name))
        .collect();
    going.sort_by_key(|member| member.hosts_us);
    going.iter().map(|member| member.name.clone()).collect()
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
