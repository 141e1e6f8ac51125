//! The machines that the autoscaler chose to go: it names them on the MachineDeployment, and we mark them.

use super::decide::{Observed, Step};
use crate::{
    api::{Machine, MachineDeployment, Phase, names},
    sets::{claim::is_deleting, set::phase},
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::sync::Arc;

pub(super) fn next(seen: &Observed<'_>) -> Option<Step> {
    let deployment = seen.deployment;
    let text =
        deployment.annotations().get(names::TRIGGER_DELETION_ANNOTATION).filter(|text| !text.is_empty())?;
    // Kubernetes' times have no fractions.
    let now = Timestamp::from_second(seen.now.as_second()).unwrap_or(seen.now).to_string();
    let scaled_at =
        deployment.annotations().get(names::SCALER_TIME_ANNOTATION).filter(|time| !time.is_empty());
    let entries: Vec<(String, String)> = text
        .split(',')
        .filter_map(|entry| match entry.split('~').collect::<Vec<_>>().as_slice() {
            // The form of older autoscalers.
            [name] => Some(((*name).to_owned(), scaled_at.unwrap_or(&now).clone())),
            [name, time] => Some(((*name).to_owned(), (*time).to_owned())),
            _ => None,
        })
        .filter(|(_, time)| time.parse::<Timestamp>().is_ok())
        .collect();
    let chosen: Vec<(Arc<Machine>, String)> = entries
        .into_iter()
        .filter_map(|(name, time)| {
            let machine = seen.machines.iter().find(|machine| machine.name_any() == name)?;
            let going =
                is_deleting(&**machine) || matches!(phase(machine), Phase::Failed | Phase::Terminating);
            (!going).then(|| (machine.clone(), time))
        })
        .collect();
    let rest: Vec<String> =
        chosen.iter().map(|(machine, time)| format!("{}~{time}", machine.name_any())).collect();
    let rest = rest.join(",");
    if rest != *text {
        // A machine that the cache does not show yet must not be forgotten.
        if !seen.memory.fresh {
            return Some(Step::Refresh);
        }
        let mut after: Box<MachineDeployment> = Box::new(deployment.clone());
        let upgraded = text.split(',').any(|entry| !entry.contains('~'));
        let notes = after.annotations_mut();
        if rest.is_empty() {
            notes.remove(names::TRIGGER_DELETION_ANNOTATION);
        } else {
            notes.insert(names::TRIGGER_DELETION_ANNOTATION.to_owned(), rest);
        }
        if upgraded && scaled_at.is_none() {
            notes.insert(names::SCALER_TIME_ANNOTATION.to_owned(), now);
        }
        return Some(Step::Deployment { after, tell: None });
    }
    chosen.into_iter().find_map(|(machine, time)| {
        let mut after = Box::new(Machine::clone(&machine));
        let notes = after.annotations_mut();
        notes.insert(names::PRIORITY_ANNOTATION.to_owned(), "1".to_owned());
        let marked = notes.entry(names::MARKED_ANNOTATION.to_owned()).or_default();
        if marked.is_empty() {
            *marked = time;
        }
        (*after != *machine).then_some(Step::Machine { before: machine, after })
    })
}
