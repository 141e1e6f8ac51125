//! What a MachineSet needs next.

use super::{
    order::{phase, preserved_until, rank},
    status,
};
use crate::{
    api::{Machine, MachineSet, MachineSetStatus, Phase, names},
    sets::claim::{self, Claim, claim, is_deleting},
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// So many machines are made, changed or deleted by one step at most.
pub(super) const BURST: usize = 100;

/// What a decision looks at.
pub(super) struct Observed<'a> {
    pub(super) now: Timestamp,
    pub(super) set: &'a MachineSet,
    /// All machines of the namespace.
    pub(super) machines: &'a [Arc<Machine>],
    /// What the nodes of failed machines say about preserving them, by the machine's name.
    pub(super) nodes: &'a BTreeMap<String, NodeSays>,
    pub(super) memory: &'a Memory,
}

/// What the annotation of a machine's node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeSays {
    /// The machine names no node.
    NoNode,
    /// The node is not there.
    Missing,
    /// Empty if there is no annotation.
    Value(String),
}

/// What one run knows besides what is written down.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Set and machines were looked at in this run, not only in the caches.
    pub(super) fresh: bool,
    /// How many machines have been made in this run, so that more are tried each time it goes well.
    pub(super) made: usize,
    /// Names that machines had which are gone by now, or that somebody else's machine has.
    pub(super) used_up: BTreeSet<String>,
    pub(super) failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// The set is wrong: nothing is done until it is corrected.
    Invalid(String),
    AddFinalizer,
    RemoveFinalizer,
    /// Look at the set and its machines once more, not in the caches.
    Refresh,
    /// Write these machines.
    Write(Vec<(Arc<Machine>, Box<Machine>)>),
    /// Write on the set the names of so many machines that are made next.
    Reserve(usize),
    /// Make machines with these names, unless they are there.
    Create(Vec<String>),
    Delete(Vec<Arc<Machine>>),
    WriteStatus(Box<MachineSetStatus>),
    /// What failed is written down; try again later.
    Fail(String),
    /// Look again after this time at the latest.
    Done {
        again: Option<Duration>,
    },
}

pub(super) fn decide(seen: &Observed<'_>) -> Step {
    let set = seen.set;
    let selector = match claim::check(set.spec.replicas, &set.spec.template, set.spec.selector.as_ref()) {
        Ok(selector) => selector,
        Err(problem) => return Step::Invalid(problem),
    };
    let kept = set.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER);
    match (is_deleting(set), kept) {
        (true, false) => return Step::Done { again: None },
        (false, false) => return Step::AddFinalizer,
        _ => {}
    }
    let claims: Vec<_> =
        seen.machines.iter().map(|machine| (claim(&**machine, set, &selector), machine)).collect();
    let own: Vec<Arc<Machine>> = claims
        .iter()
        .filter(|(claim, _)| *claim == Claim::Ours)
        .map(|(_, machine)| (*machine).clone())
        .collect();
    if seen.memory.failure.is_none()
        && let Some(step) = claiming(seen, &claims)
            .or_else(|| if is_deleting(set) { deletion(seen, &own) } else { upkeep(seen, &own) })
    {
        return step;
    }
    if let Some(status) = status::changed(set, &own, seen.memory.failure.as_ref(), seen.now) {
        return Step::WriteStatus(Box::new(status));
    }
    match &seen.memory.failure {
        Some(failure) => Step::Fail(failure.message.clone()),
        None => Step::Done { again: next_expiry(seen, &own) },
    }
}

fn claiming(seen: &Observed<'_>, claims: &[(Claim, &Arc<Machine>)]) -> Option<Step> {
    let mut writes = Vec::new();
    for (claim, machine) in claims {
        let mut after = Box::new(Machine::clone(machine));
        match claim {
            Claim::Adopt => claim::adopt(&mut *after, seen.set),
            Claim::Release => claim::release(&mut *after, seen.set),
            Claim::Ours | Claim::Foreign => continue,
        }
        writes.push(((*machine).clone(), after));
    }
    write(seen, writes)
}

/// Changes of machines rest on a fresh look.
fn write(seen: &Observed<'_>, mut writes: Vec<(Arc<Machine>, Box<Machine>)>) -> Option<Step> {
    writes.truncate(BURST);
    match (writes.is_empty(), seen.memory.fresh) {
        (true, _) => None,
        (false, false) => Some(Step::Refresh),
        (false, true) => Some(Step::Write(writes)),
    }
}

fn deletion(seen: &Observed<'_>, own: &[Arc<Machine>]) -> Option<Step> {
    if !seen.memory.fresh {
        return Some(Step::Refresh);
    }
    if own.is_empty() {
        return Some(Step::RemoveFinalizer);
    }
    let left: Vec<_> = own.iter().filter(|machine| !is_deleting(&***machine)).take(BURST).cloned().collect();
    (!left.is_empty()).then_some(Step::Delete(left))
}

fn upkeep(seen: &Observed<'_>, own: &[Arc<Machine>]) -> Option<Step> {
    let out_of_step = own.iter().filter_map(|machine| {
        let after = in_step(seen.set, machine);
        (after != **machine).then(|| (machine.clone(), Box::new(after)))
    });
    write(seen, out_of_step.collect())
        .or_else(|| write(seen, preserving(seen, own)))
        .or_else(|| replicas(seen, own))
}

/// The machine with what may change without making it anew.
fn in_step(set: &MachineSet, machine: &Machine) -> Machine {
    let (template, mut after) = (&set.spec.template.spec, machine.clone());
    if is_deleting(machine) {
        return after;
    }
    after.spec.class.kind.clone_from(&template.class.kind);
    if is_active(machine) {
        after.spec.node_template.clone_from(&template.node_template);
        after.spec.configuration.clone_from(&template.configuration);
        if let Some(timeout) = set.annotations().get(names::CREATION_TIMEOUT_ANNOTATION) {
            after.spec.configuration.creation_timeout = Some(timeout.clone());
        }
    }
    after
}

fn is_active(machine: &Machine) -> bool {
    !is_terminating(machine) && phase(machine) != Phase::Failed
}

fn is_terminating(machine: &Machine) -> bool {
    is_deleting(machine) || phase(machine) == Phase::Terminating
}

/// Failed machines are kept as far as the set wants it, the youngest first; when it wants fewer, the oldest go.
fn preserving(seen: &Observed<'_>, own: &[Arc<Machine>]) -> Vec<(Arc<Machine>, Box<Machine>)> {
    let value = |machine: &Machine| {
        machine.annotations().get(names::PRESERVE_ANNOTATION).cloned().unwrap_or_default()
    };
    let (kept, rest): (Vec<_>, Vec<_>) =
        own.iter().cloned().partition(|machine| value(machine) == names::AUTO_PRESERVED);
    let wanted = usize::try_from(seen.set.spec.auto_preserve_failed_machine_max).unwrap_or_default();
    let age = |machine: &Arc<Machine>| {
        (machine.metadata.creation_timestamp.as_ref().map(|time| time.0), machine.name_any())
    };
    let change = |machine: &Arc<Machine>, on: bool| {
        let mut after = Box::new(Machine::clone(machine));
        if on {
            after
                .annotations_mut()
                .insert(names::PRESERVE_ANNOTATION.to_owned(), names::AUTO_PRESERVED.to_owned());
        } else {
            after.annotations_mut().remove(names::PRESERVE_ANNOTATION);
        }
        (machine.clone(), after)
    };
    if kept.len() > wanted {
        let mut oldest = kept;
        oldest.sort_by_key(age);
        return oldest.iter().take(oldest.len() - wanted).map(|machine| change(machine, false)).collect();
    }
    let mut failed: Vec<_> = rest
        .into_iter()
        .filter(|machine| phase(machine) == Phase::Failed && !is_deleting(&**machine))
        .filter(|machine| !matches!(value(machine).as_str(), "now" | "when-failed" | "false"))
        .collect();
    failed.sort_by_key(age);
    // One that was kept until just now still counts, or it would be kept once more.
    let told = seen.set.status.as_ref().map_or(0, |status| status.auto_preserve_failed_machine_count);
    let taken = kept.len().max(usize::try_from(told).unwrap_or_default());
    failed.iter().rev().take(wanted.saturating_sub(taken)).map(|machine| change(machine, true)).collect()
}

fn replicas(seen: &Observed<'_>, own: &[Arc<Machine>]) -> Option<Step> {
    let set = seen.set;
    let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
    let active: Vec<_> = own.iter().filter(|machine| !is_terminating(machine)).cloned().collect();
    if active.len() < wanted {
        return creation(seen, wanted - active.len());
    }
    // One that was just moved here by an update in place is counted in the set's replicas only after the move.
    let mut movable: Vec<_> = active
        .into_iter()
        .filter(|machine| {
            machine.labels().get(names::UPDATE_RESULT_LABEL).map(String::as_str)
                != Some(names::UPDATE_SUCCESSFUL)
        })
        .collect();
    movable.sort_by_key(|machine| rank(machine, seen.now));
    let surplus = movable.len().saturating_sub(wanted).min(BURST);
    let chosen_by_scaler = scaler_time(set);
    let victims: Vec<_> = movable
        .iter()
        .enumerate()
        .filter(|(place, machine)| {
            *place < surplus
                || chosen_by_scaler.is_some_and(|time| was_chosen_by(machine, time))
                || (phase(machine) == Phase::Failed && must_go(seen, machine))
        })
        .map(|(_, machine)| machine.clone())
        .take(BURST)
        .collect();
    match (victims.is_empty(), seen.memory.fresh) {
        (true, _) => None,
        (false, false) => Some(Step::Refresh),
        (false, true) => Some(Step::Delete(victims)),
    }
}

fn creation(seen: &Observed<'_>, missing: usize) -> Option<Step> {
    let labels = seen.set.labels();
    let frozen = labels.get(names::FREEZE_LABEL).map(String::as_str) == Some("True");
    if frozen || labels.contains_key(names::SCALE_UP_DISABLED_LABEL) {
        return None;
    }
    if !seen.memory.fresh {
        return Some(Step::Refresh);
    }
    let there: BTreeSet<String> = seen.machines.iter().map(|machine| machine.name_any()).collect();
    let open: Vec<String> = reserved(seen.set)
        .filter(|name| !there.contains(*name) && !seen.memory.used_up.contains(*name))
        .map(str::to_owned)
        .take(missing)
        .collect();
    if !open.is_empty() {
        return Some(Step::Create(open));
    }
    // One, then two, then four: if machines cannot be made, few are tried.
    let next = (seen.memory.made + 1).next_power_of_two();
    Some(Step::Reserve(missing.min(next).min(BURST)))
}

/// The names that were written on the set before machines with these names were made.
pub(super) fn reserved(set: &MachineSet) -> impl Iterator<Item = &str> {
    let names = set.annotations().get(names::CREATING_ANNOTATION).map_or("", String::as_str);
    names.split(',').filter(|name| !name.is_empty())
}

fn scaler_time(set: &MachineSet) -> Option<Timestamp> {
    set.annotations().get(names::SCALER_TIME_ANNOTATION)?.parse().ok()
}

/// Whether the autoscaler chose this machine when it last changed the replicas, or before.
fn was_chosen_by(machine: &Machine, time: Timestamp) -> bool {
    let note = |name: &str| machine.annotations().get(name).map(String::as_str);
    let marked = note(names::MARKED_ANNOTATION).and_then(|text| text.parse::<Timestamp>().ok());
    note(names::PRIORITY_ANNOTATION) == Some("1") && marked.is_some_and(|marked| marked <= time)
}

/// Whether nobody wants to keep a failed machine.
fn must_go(seen: &Observed<'_>, machine: &Machine) -> bool {
    if let Some(until) = preserved_until(machine) {
        return until <= seen.now;
    }
    let note = |name: &str| machine.annotations().get(name).cloned().unwrap_or_default();
    let value = match seen.nodes.get(&machine.name_any()).unwrap_or(&NodeSays::NoNode) {
        NodeSays::Missing => return true,
        NodeSays::Value(value) if !value.is_empty() || !note(names::NODE_PRESERVE_ANNOTATION).is_empty() => {
            value.clone()
        }
        NodeSays::NoNode if !note(names::NODE_PRESERVE_ANNOTATION).is_empty() => String::new(),
        NodeSays::NoNode | NodeSays::Value(_) => note(names::PRESERVE_ANNOTATION),
    };
    !matches!(value.as_str(), "now" | "when-failed" | names::AUTO_PRESERVED)
}

fn next_expiry(seen: &Observed<'_>, own: &[Arc<Machine>]) -> Option<Duration> {
    let failed = own.iter().filter(|machine| phase(machine) == Phase::Failed && !is_deleting(&***machine));
    let ends = failed.filter_map(|machine| preserved_until(machine)).filter(|until| *until > seen.now);
    ends.min().map(|until| until.duration_since(seen.now).unsigned_abs() + Duration::from_secs(1))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
