//! Updates in place: machines stay, and move from the old MachineSet to the new one when whoever updates their nodes
//! is done with them.

use super::{
    decide::{Step, View},
    nodes,
    numbers::{Way, Which},
};
use crate::{
    api::{Machine, MachineSet, Phase, names},
    sets::{claim, set::phase},
};
use kube::ResourceExt;
use std::sync::Arc;

pub(super) fn next(view: &View<'_>, new: &Arc<MachineSet>) -> Option<Step> {
    candidates(view).or_else(|| settle(view, new)).or_else(|| grow(view, new)).or_else(|| shrink(view, new))
}

/// Old sets make no machines while theirs are updated, and their nodes say that they wait for it.
fn candidates(view: &View<'_>) -> Option<Step> {
    let updating = view.old.iter().any(|set| set.spec.replicas > 0 || !view.machines_of(set).is_empty());
    let mark = |set: &Arc<MachineSet>| {
        let mut after = Box::new(MachineSet::clone(set));
        after.labels_mut().insert(names::SCALE_UP_DISABLED_LABEL.to_owned(), "true".to_owned());
        Step::Set { before: set.clone(), after, tell: None }
    };
    let unmarked = |set: &&Arc<MachineSet>| !set.labels().contains_key(names::SCALE_UP_DISABLED_LABEL);
    let step = view.old.iter().filter(|_| updating).find(unmarked).map(mark);
    step.or_else(|| {
        view.old_machines().find_map(|(_, machine)| {
            view.node_step(machine, |node| nodes::labelled(node, names::CANDIDATE_LABEL))
        })
    })
}

/// What a move leaves to be done: the numbers of both sets, the machine's label, its node.
fn settle(view: &View<'_>, new: &Arc<MachineSet>) -> Option<Step> {
    let machines = view.machines_of(new);
    let moved: Vec<_> = machines.iter().filter(|machine| was_moved(machine)).collect();
    let there = i32::try_from(machines.len()).unwrap_or(i32::MAX);
    if there > new.spec.replicas && !moved.is_empty() {
        let more = (there - new.spec.replicas).min(i32::try_from(moved.len()).unwrap_or(i32::MAX));
        return Some(view.scaled(Which::New, new.spec.replicas + more));
    }
    if let Some(machine) = moved.first() {
        let mut after = Box::new(Machine::clone(machine));
        after.labels_mut().remove(names::UPDATE_RESULT_LABEL);
        return Some(Step::Machine { before: (**machine).clone(), after });
    }
    let back = machines.iter().find_map(|machine| {
        // One without a node is still coming up.
        let done =
            view.node(machine).is_some_and(|node| nodes::is_updated(&node) && nodes::update_is_noted(&node));
        done.then(|| view.node_step(machine, nodes::back_in_service)).flatten()
    });
    back.or_else(|| {
        view.old.iter().enumerate().find_map(|(place, set)| {
            let there = i32::try_from(view.machines_of(set).len()).unwrap_or(i32::MAX);
            (there < set.spec.replicas).then(|| view.scaled(Which::Old(place), there))
        })
    })
}

fn was_moved(machine: &Machine) -> bool {
    machine.labels().get(names::UPDATE_RESULT_LABEL).map(String::as_str) == Some(names::UPDATE_SUCCESSFUL)
        && claims_success(machine)
}

/// Whether the machine's own copy of its node's conditions says that the update is done.
fn claims_success(machine: &Machine) -> bool {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == names::IN_PLACE_CONDITION
            && condition.reason.as_deref() == Some(names::REASON_UPDATE_SUCCESSFUL)
    })
}

fn grow(view: &View<'_>, new: &Arc<MachineSet>) -> Option<Step> {
    let (wanted, old) = (view.bounds.replicas, view.old.iter().map(|set| set.spec.replicas).sum::<i32>());
    let has = new.spec.replicas;
    if has == wanted {
        return None;
    }
    if has > wanted || old == 0 {
        return Some(view.scaled(Which::New, wanted));
    }
    if old + has < wanted {
        return Some(view.scaled(Which::New, wanted - old));
    }
    let updated = view.old_machines().find(|(_, machine)| {
        let node = view.node(machine).is_some_and(|node| nodes::is_updated(&node));
        node && claims_success(machine)
            && phase(machine) != Phase::InPlaceUpdating
            && !claim::is_deleting(&***machine)
    });
    updated.map(|(set, machine)| Step::Machine {
        before: machine.clone(),
        after: Box::new(moved(machine, set, new)),
    })
}

/// The machine as one of the new set's.
fn moved(machine: &Machine, from: &MachineSet, to: &MachineSet) -> Machine {
    let mut after = machine.clone();
    let selected = |set: &MachineSet| {
        set.spec.selector.as_ref().and_then(|selector| selector.match_labels.clone()).unwrap_or_default()
    };
    let labels = after.labels_mut();
    for label in selected(from).keys() {
        labels.remove(label);
    }
    labels.extend(selected(to));
    labels.insert(names::UPDATE_RESULT_LABEL.to_owned(), names::UPDATE_SUCCESSFUL.to_owned());
    claim::adopt(&mut after, to);
    after
}

fn shrink(view: &View<'_>, new: &Arc<MachineSet>) -> Option<Step> {
    let place = view.old.iter().position(|set| set.spec.replicas > 0)?;
    if new.spec.replicas == view.bounds.replicas {
        return Some(view.scaled(Which::Old(place), 0));
    }
    if view.bounds.way != (Way::InPlace { manual: false }) {
        return None;
    }
    let selected = |machine: &Arc<Machine>| {
        view.node(machine).is_some_and(|node| nodes::has_label(&node, names::SELECTED_LABEL))
    };
    let updating = i32::try_from(view.old_machines().filter(|(_, machine)| selected(machine)).count());
    let updating = updating.unwrap_or(i32::MAX);
    let numbers: Vec<_> = view.old.iter().chain([new]).map(|set| view.numbers(set)).collect();
    let all: i32 = numbers.iter().map(|set| set.replicas).sum();
    let available: i32 = numbers.iter().map(|set| set.available).sum();
    let of_new = view.numbers(new);
    let not_yet = (of_new.replicas - of_new.available).max(0);
    let room =
        (all - view.bounds.least() - not_yet - updating).min(available - updating - view.bounds.least());
    if room <= 0 || updating + new.spec.replicas >= view.bounds.replicas {
        return None;
    }
    view.old_machines()
        .filter(|(set, machine)| {
            set.spec.replicas > 0 && !selected(machine) && !claim::is_deleting(&***machine)
        })
        .filter(|(_, machine)| {
            view.node(machine).is_some_and(|node| nodes::has_label(&node, names::CANDIDATE_LABEL))
        })
        .find_map(|(_, machine)| view.node_step(machine, |node| nodes::labelled(node, names::SELECTED_LABEL)))
}
