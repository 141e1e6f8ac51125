use super::Limits;
use crate::{
    api::{Machine, MachineDeployment, MachineSet, MachineSetCondition, names},
    sets::{
        claim::{controller_of, is_deleting},
        deployment::{scaled, set_condition},
        store::Part,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::{collections::BTreeSet, sync::Arc};

const FROZEN: &str = "Frozen";
const OVERSHOOTING: &str = "OverShootingReplicaCount";
const STATE_SYNC: &str = "MachineDeploymentStateSync";

pub(super) struct Observed<'a> {
    pub(super) now: Timestamp,
    pub(super) sets: &'a [Arc<MachineSet>],
    pub(super) deployments: &'a [Arc<MachineDeployment>],
    pub(super) machines: &'a [Arc<Machine>],
    pub(super) limits: Limits,
    /// Sets that were thawed in this run because somebody asked for it.
    pub(super) thawed: &'a BTreeSet<String>,
}

/// The next write.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Set {
        before: Arc<MachineSet>,
        after: Box<MachineSet>,
        part: Part,
        /// Reason and message of the event.
        tell: Option<(&'static str, String)>,
        /// Somebody asked for it.
        thaws: bool,
    },
    Deployment {
        before: Arc<MachineDeployment>,
        after: Box<MachineDeployment>,
        part: Part,
    },
}

/// The condition is written before the label, and removed before it: the label is what has an effect.
pub(super) fn decide(seen: &Observed<'_>) -> Option<Step> {
    let watched = |set: &&Arc<MachineSet>| !seen.thawed.contains(&set.name_any());
    let overshooting = |set: &Arc<MachineSet>| {
        let (count, high) = (count(seen, set), high(seen, set));
        if count >= high && !(has_label(&**set) && condition(set).is_some()) {
            let name = set.name_any();
            let message = format!(
                "The number of machines backing MachineSet: {name} is {count} >= {high} which is the Max-ScaleUp-Limit"
            );
            return Some(freeze_set(set, message, seen.now));
        }
        let frozen = has_label(&**set) || condition(set).is_some();
        (frozen && count <= high - seen.limits.down).then(|| thaw_set(set, false))
    };
    let asked = |set: &Arc<MachineSet>| {
        set.annotations().contains_key(names::UNFREEZE_ANNOTATION).then(|| thaw_set(set, true))
    };
    let overshot = seen.sets.iter().filter(watched).find_map(overshooting);
    overshot
        .or_else(|| seen.deployments.iter().find_map(|deployment| pass_on(seen, deployment)))
        .or_else(|| seen.sets.iter().find_map(asked))
        .or_else(|| seen.deployments.iter().find_map(|deployment| follow(seen, deployment)))
}

fn owner<'a>(seen: &'a Observed<'_>, set: &MachineSet) -> Option<&'a Arc<MachineDeployment>> {
    let uid = Some(&controller_of(set)?.uid);
    seen.deployments.iter().find(|deployment| deployment.metadata.uid.as_ref() == uid)
}

fn sets_of<'a>(
    seen: &'a Observed<'_>,
    deployment: &MachineDeployment,
) -> impl Iterator<Item = &'a Arc<MachineSet>> {
    let uid = deployment.metadata.uid.clone();
    seen.sets.iter().filter(move |set| controller_of(&***set).map(|owner| &owner.uid) == uid.as_ref())
}

fn count(seen: &Observed<'_>, set: &MachineSet) -> i32 {
    let labels = set.spec.template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    let name = set.name_any();
    let counts = |machine: &&Arc<Machine>| {
        labels.iter().all(|(key, value)| machine.labels().get(key) == Some(value))
            && machine.owner_references().iter().any(|owner| owner.name == name)
    };
    i32::try_from(seen.machines.iter().filter(counts).count()).unwrap_or(i32::MAX)
}

/// So many machines are too many. A deployment that allows no surge is one like any other.
fn high(seen: &Observed<'_>, set: &MachineSet) -> i32 {
    let allowed = owner(seen, set).map_or_else(
        || set.spec.replicas.saturating_mul(2),
        |deployment| {
            let (spec, strategy) = (&deployment.spec, &deployment.spec.strategy);
            let rolling = strategy.rolling_update.as_ref().and_then(|update| update.max_surge.as_ref());
            let in_place = strategy.in_place_update.as_ref().and_then(|update| update.max_surge.as_ref());
            let surge = rolling.or(in_place).and_then(|surge| scaled(surge, spec.replicas, true));
            spec.replicas.saturating_add(surge.unwrap_or(0))
        },
    );
    allowed.saturating_add(seen.limits.up)
}

fn has_label<K: kube::Resource>(object: &K) -> bool {
    object.labels().get(names::FREEZE_LABEL).map(String::as_str) == Some("True")
}

fn condition(set: &MachineSet) -> Option<&MachineSetCondition> {
    set.status.iter().flat_map(|status| &status.conditions).find(|condition| condition.kind == FROZEN)
}

fn freeze_set(set: &Arc<MachineSet>, message: String, now: Timestamp) -> Step {
    let mut after = Box::new(MachineSet::clone(set));
    let part = if condition(set).is_none() {
        after.status.get_or_insert_default().conditions.push(MachineSetCondition {
            kind: FROZEN.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(Time(now)),
            reason: OVERSHOOTING.to_owned(),
            message,
        });
        Part::Status
    } else {
        after.labels_mut().insert(names::FREEZE_LABEL.to_owned(), "True".to_owned());
        Part::Object
    };
    let text = format!("SafetyController: Froze MachineSet {} due to replica overshooting", set.name_any());
    Step::Set { before: set.clone(), after, part, tell: Some(("FrozeMachineSet", text)), thaws: false }
}

fn thaw_set(set: &Arc<MachineSet>, asked: bool) -> Step {
    let mut after = Box::new(MachineSet::clone(set));
    let part = if condition(set).is_some() {
        after.status.get_or_insert_default().conditions.retain(|condition| condition.kind != FROZEN);
        Part::Status
    } else {
        after.labels_mut().remove(names::FREEZE_LABEL);
        after.annotations_mut().remove(names::UNFREEZE_ANNOTATION);
        Part::Object
    };
    let text = format!("SafetyController: Unfroze MachineSet {}", set.name_any());
    Step::Set { before: set.clone(), after, part, tell: Some(("UnfrozeMachineSet", text)), thaws: asked }
}

/// Who asks for a deployment's thaw asks for that of its sets.
fn pass_on(seen: &Observed<'_>, deployment: &Arc<MachineDeployment>) -> Option<Step> {
    if !deployment.annotations().contains_key(names::UNFREEZE_ANNOTATION) {
        return None;
    }
    let frozen = |set: &&Arc<MachineSet>| {
        !set.annotations().contains_key(names::UNFREEZE_ANNOTATION)
            && !seen.thawed.contains(&set.name_any())
            && (has_label(&***set) || condition(set).is_some())
    };
    if let Some(set) = sets_of(seen, deployment).find(frozen) {
        let mut after = Box::new(MachineSet::clone(set));
        after.annotations_mut().insert(names::UNFREEZE_ANNOTATION.to_owned(), "True".to_owned());
        return Some(Step::Set { before: set.clone(), after, part: Part::Object, tell: None, thaws: false });
    }
    let mut after = Box::new(MachineDeployment::clone(deployment));
    after.annotations_mut().remove(names::UNFREEZE_ANNOTATION);
    Some(Step::Deployment { before: deployment.clone(), after, part: Part::Object })
}

/// A deployment is frozen as long as one of its sets is.
fn follow(seen: &Observed<'_>, deployment: &Arc<MachineDeployment>) -> Option<Step> {
    let frozen = sets_of(seen, deployment).find(|set| has_label(&***set) || condition(set).is_some());
    let status = deployment.status.clone().unwrap_or_default();
    let told = status.conditions.iter().any(|condition| condition.kind == FROZEN);
    let mut after = Box::new(MachineDeployment::clone(deployment));
    let part = match frozen {
        Some(set) if !told => {
            let (reason, message) = condition(set).map_or_else(
                || (STATE_SYNC, "MachineDeployment State was inconsistent, hence safety controller has fixed this and frozen it".to_owned()),
                |condition| (OVERSHOOTING, condition.message.clone()),
            );
            set_condition(after.status.get_or_insert_default(), FROZEN, "True", reason, message, seen.now);
            Part::Status
        }
        Some(_) if !has_label(&**deployment) && !is_deleting(&**deployment) => {
            after.labels_mut().insert(names::FREEZE_LABEL.to_owned(), "True".to_owned());
            Part::Object
        }
        None if told => {
            after.status.get_or_insert_default().conditions.retain(|condition| condition.kind != FROZEN);
            Part::Status
        }
        None if has_label(&**deployment) => {
            after.labels_mut().remove(names::FREEZE_LABEL);
            Part::Object
        }
        _ => return None,
    };
    Some(Step::Deployment { before: deployment.clone(), after, part })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
