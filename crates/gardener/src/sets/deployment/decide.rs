//! What a MachineDeployment needs next.

use super::{
    in_place, nodes,
    numbers::{self, Bounds, Set, Way, Which},
    status::{self, News},
    template, trigger,
};
use crate::{
    api::{Machine, MachineDeployment, MachineDeploymentStatus, MachineSet, Phase, names},
    sets::{
        claim::{self, Claim, claim, controller_of, is_deleting},
        set::phase,
    },
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{ResourceExt, core::Selector};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What a decision looks at.
pub(super) struct Observed<'a> {
    pub(super) now: Timestamp,
    pub(super) deployment: &'a MachineDeployment,
    /// All MachineSets and Machines of the namespace.
    pub(super) sets: &'a [Arc<MachineSet>],
    pub(super) machines: &'a [Arc<Machine>],
    /// The node of a machine, if it is there.
    pub(super) nodes: &'a dyn Fn(&Machine) -> Option<Arc<Node>>,
    /// There is a cluster with nodes.
    pub(super) has_target: bool,
    /// The autoscaler shall leave nodes alone while an update goes on.
    pub(super) disable_scale_down: bool,
    pub(super) memory: &'a Memory,
}

/// What one run knows besides what is written down.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// The objects were looked at in this run, not only in the caches.
    pub(super) fresh: bool,
    pub(super) news: News,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tell {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// The deployment is wrong: nothing is done until it is corrected.
    Invalid(String),
    /// Look at everything once more, not in the caches.
    Refresh,
    Deployment {
        after: Box<MachineDeployment>,
        tell: Option<Tell>,
    },
    Set {
        before: Arc<MachineSet>,
        after: Box<MachineSet>,
        tell: Option<Tell>,
    },
    Machine {
        before: Arc<Machine>,
        after: Box<Machine>,
    },
    Node {
        before: Arc<Node>,
        after: Box<Node>,
    },
    CreateSet(Box<MachineSet>),
    DeleteSets(Vec<Arc<MachineSet>>),
    WriteStatus {
        after: Box<MachineDeploymentStatus>,
        tell: Option<Tell>,
    },
    /// What failed is written down; try again later.
    Fail(String),
    /// Look again after this time at the latest.
    Done {
        again: Option<Duration>,
    },
}

/// The deployment with what is its own.
pub(super) struct View<'a> {
    pub(super) seen: &'a Observed<'a>,
    pub(super) bounds: Bounds,
    /// The one with the deployment's present template.
    pub(super) new: Option<Arc<MachineSet>>,
    /// All others, the oldest first.
    pub(super) old: Vec<Arc<MachineSet>>,
    machines: BTreeMap<String, Vec<Arc<Machine>>>,
}

impl<'a> View<'a> {
    fn of(seen: &'a Observed<'a>, bounds: Bounds, mut sets: Vec<Arc<MachineSet>>) -> Self {
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.name_any()));
        let template = &seen.deployment.spec.template;
        let place = sets.iter().position(|set| template::is_same(&set.spec.template, template));
        let new = place.map(|place| sets.remove(place));
        let mut machines: BTreeMap<String, Vec<Arc<Machine>>> = BTreeMap::new();
        for machine in seen.machines {
            if let Some(owner) = controller_of(&**machine) {
                machines.entry(owner.uid.clone()).or_default().push(machine.clone());
            }
        }
        Self { seen, bounds, new, old: sets, machines }
    }

    /// The old sets, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<MachineSet>> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn machines_of(&self, set: &MachineSet) -> &[Arc<Machine>] {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.machines.get(uid).map_or(&[], Vec::as_slice)
    }

    pub(super) fn old_machines(&self) -> impl Iterator<Item = (&Arc<MachineSet>, &Arc<Machine>)> {
        self.old.iter().flat_map(|set| self.machines_of(set).iter().map(move |machine| (set, machine)))
    }

    pub(super) fn numbers(&self, set: &MachineSet) -> Set {
        let machines = self.machines_of(set);
        let works = |machine: &&Arc<Machine>| {
            !is_deleting(&***machine) && matches!(phase(machine), Phase::Available | Phase::Running)
        };
        template::numbers(set, machines.len(), machines.iter().filter(works).count())
    }

    fn new_numbers(&self) -> Option<Set> {
        self.new.as_ref().map(|set| self.numbers(set))
    }

    fn old_numbers(&self) -> Vec<Set> {
        self.old.iter().map(|set| self.numbers(set)).collect()
    }

    pub(super) fn node(&self, machine: &Machine) -> Option<Arc<Node>> {
        (self.seen.nodes)(machine)
    }

    /// Changes the machine's node, if it is there and not yet so.
    pub(super) fn node_step(
        &self,
        machine: &Machine,
        change: impl Fn(&Node) -> Option<Node>,
    ) -> Option<Step> {
        let before = self.node(machine)?;
        let after = Box::new(change(&before)?);
        Some(Step::Node { before, after })
    }

    /// Gives a set so many replicas, and notes on it what the deployment asks for.
    pub(super) fn scaled(&self, which: Which, replicas: i32) -> Step {
        let set = match which {
            Which::New => self.new.as_ref(),
            Which::Old(place) => self.old.get(place),
        };
        let Some(before) = set.cloned() else { return Step::Refresh };
        let mut after = Box::new(MachineSet::clone(&before));
        after.spec.replicas = replicas;
        template::note_scale(&mut after, self.bounds);
        let direction = if replicas > before.spec.replicas { "up" } else { "down" };
        let tell = (replicas != before.spec.replicas).then(|| Tell {
            warning: false,
            reason: "ScalingMachineSet",
            message: format!("Scaled {direction} machine set {} to {replicas}", before.name_any()),
        });
        Step::Set { before, after, tell }
    }

    fn next_revision(&self) -> i64 {
        self.old.iter().map(|set| template::revision_of(set)).max().unwrap_or(0) + 1
    }
}

pub(super) fn decide(seen: &Observed<'_>) -> Step {
    let deployment = seen.deployment;
    let kept = deployment.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER);
    if is_deleting(deployment) && !kept {
        return Step::Done { again: None };
    }
    if deployment.spec.selector.as_ref() == Some(&LabelSelector::default()) {
        return selects_all(deployment);
    }
    let (selector, bounds) = match check(deployment) {
        Ok(checked) => checked,
        Err(problem) => return Step::Invalid(problem),
    };
    if !kept {
        let mut after = Box::new(deployment.clone());
        after.finalizers_mut().push(names::FINALIZER.to_owned());
        return Step::Deployment { after, tell: None };
    }
    let mut own = Vec::new();
    for set in seen.sets {
        let mut after = Box::new(MachineSet::clone(set));
        match claim(&**set, deployment, &selector) {
            Claim::Ours => {
                own.push(set.clone());
                continue;
            }
            Claim::Foreign => continue,
            Claim::Adopt => claim::adopt(&mut *after, deployment),
            Claim::Release => claim::release(&mut *after, deployment),
        }
        return fresh_or(seen, || Step::Set { before: set.clone(), after, tell: None });
    }
    let view = View::of(seen, bounds, own);
    let mut rollout = false;
    if !matches!(seen.memory.news, News::FailedToCreate(_)) {
        let next = if is_deleting(deployment) { teardown(&view) } else { progress(&view) };
        match next {
            Next::Do(step) => return *step,
            Next::Rest { rollout: goes_on } => rollout = goes_on,
        }
    }
    let after = status::compute(&view, rollout, &seen.memory.news);
    if deployment.status.as_ref() != Some(&after) {
        return Step::WriteStatus { after: Box::new(after), tell: None };
    }
    match &seen.memory.news {
        News::FailedToCreate(message) => Step::Fail(message.clone()),
        _ => Step::Done { again: status::until_deadline(&view, &after).filter(|_| rollout) },
    }
}

/// What comes next: a step, or a rest until something changes.
enum Next {
    Do(Box<Step>),
    Rest { rollout: bool },
}

impl From<Option<Step>> for Next {
    fn from(step: Option<Step>) -> Self {
        step.map_or(Self::Rest { rollout: true }, |step| Self::Do(Box::new(step)))
    }
}

/// Says once per change that nothing is done.
fn selects_all(deployment: &MachineDeployment) -> Step {
    let mut after = deployment.status.clone().unwrap_or_default();
    if after.observed_generation >= deployment.metadata.generation {
        return Step::Done { again: None };
    }
    after.observed_generation = deployment.metadata.generation;
    let message = "This deployment is selecting all machines. A non-empty selector is required.".to_owned();
    let tell = Some(Tell { warning: true, reason: "SelectingAll", message });
    Step::WriteStatus { after: Box::new(after), tell }
}

/// What is wrong with the deployment, in words.
fn check(deployment: &MachineDeployment) -> Result<(Selector, Bounds), String> {
    let spec = &deployment.spec;
    let selector = claim::check(spec.replicas, &spec.template, spec.selector.as_ref())?;
    Ok((selector, Bounds::of(spec)?))
}

/// What makes or breaks something rests on a fresh look.
fn fresh_or(seen: &Observed<'_>, step: impl FnOnce() -> Step) -> Step {
    if seen.memory.fresh { step() } else { Step::Refresh }
}

fn teardown(view: &View<'_>) -> Next {
    let left: Vec<_> = view.all().filter(|set| !is_deleting(&***set)).cloned().collect();
    if !left.is_empty() {
        return Next::Do(Box::new(Step::DeleteSets(left)));
    }
    if view.all().next().is_some() {
        return Next::Rest { rollout: false };
    }
    let step = fresh_or(view.seen, || {
        let mut after = Box::new(view.seen.deployment.clone());
        after.finalizers_mut().retain(|finalizer| finalizer != names::FINALIZER);
        Step::Deployment { after, tell: None }
    });
    Next::Do(Box::new(step))
}

fn progress(view: &View<'_>) -> Next {
    let spec = &view.seen.deployment.spec;
    if let Some(step) = trigger::next(view.seen) {
        return Next::Do(Box::new(step));
    }
    match hashed(view) {
        Hashed::All => {}
        Hashed::Next(step) => return Next::Do(step),
        Hashed::Waiting => return Next::Rest { rollout: false },
    }
    if let Some(step) = renewed(view) {
        return Next::Do(Box::new(step));
    }
    let (new, old) = (view.new_numbers(), view.old_numbers());
    let status_replicas = view.seen.deployment.status.as_ref().map_or(0, |status| status.replicas);
    let shared = || {
        numbers::share(view.bounds, status_replicas, new.as_ref(), &old, spec.paused)
            .map(|(which, replicas)| view.scaled(which, replicas))
    };
    if spec.paused {
        let forgotten = || if spec.rollback_to.is_none() { forgotten(view) } else { None };
        return match shared().or_else(forgotten) {
            Some(step) => Next::Do(Box::new(step)),
            None => Next::Rest { rollout: false },
        };
    }
    if spec.rollback_to.is_some() {
        return Next::Do(Box::new(rolled_back(view)));
    }
    if numbers::was_scaled(view.bounds, new.as_ref(), &old)
        && let Some(step) = shared()
    {
        return Next::Do(Box::new(step));
    }
    match view.bounds.way {
        Way::Rolling => rolling(view).into(),
        Way::Recreate => recreation(view).into(),
        Way::InPlace { .. } => in_place_update(view).into(),
    }
}

enum Hashed {
    All,
    Next(Box<Step>),
    /// Somebody else has to do something first.
    Waiting,
}

/// Sets that were made by hand learn which template they have: first what they make, then what they have, at last
/// what they select.
fn hashed(view: &View<'_>) -> Hashed {
    let selects = |set: &MachineSet| {
        let labels = set.spec.selector.as_ref().and_then(|selector| selector.match_labels.clone());
        labels.is_some_and(|labels| labels.contains_key(names::HASH_LABEL))
    };
    let Some(set) = view.all().find(|set| !selects(set) && !is_deleting(&***set)) else { return Hashed::All };
    let collisions = view.seen.deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template::hash(&set.spec.template, collisions);
    let mut after = Box::new(MachineSet::clone(set));
    let labels = after.spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
    if labels.get(names::HASH_LABEL) != Some(&hash) {
        labels.insert(names::HASH_LABEL.to_owned(), hash);
        return Hashed::Next(Box::new(Step::Set { before: set.clone(), after, tell: None }));
    }
    let unmarked = |machine: &&Arc<Machine>| machine.labels().get(names::HASH_LABEL) != Some(&hash);
    if let Some(machine) = view.machines_of(set).iter().find(unmarked) {
        let mut after = Box::new(Machine::clone(machine));
        after.labels_mut().insert(names::HASH_LABEL.to_owned(), hash);
        return Hashed::Next(Box::new(Step::Machine { before: machine.clone(), after }));
    }
    let status = set.status.clone().unwrap_or_default();
    if status.observed_generation < set.metadata.generation
        || status.fully_labeled_replicas != status.replicas
    {
        return Hashed::Waiting;
    }
    after.labels_mut().insert(names::HASH_LABEL.to_owned(), hash.clone());
    let selector = after.spec.selector.get_or_insert_default();
    selector.match_labels.get_or_insert_default().insert(names::HASH_LABEL.to_owned(), hash);
    Hashed::Next(Box::new(Step::Set { before: set.clone(), after, tell: None }))
}

/// The new set follows its deployment in what needs no new machines, and the deployment knows its revision.
fn renewed(view: &View<'_>) -> Option<Step> {
    let (deployment, new) = (view.seen.deployment, view.new.as_ref()?);
    let after = template::in_step(deployment, new, view.next_revision());
    if after != **new {
        return Some(Step::Set { before: new.clone(), after: Box::new(after), tell: None });
    }
    let revision = template::revision_of(new).to_string();
    if deployment.annotations().get(names::REVISION_ANNOTATION) == Some(&revision) {
        return None;
    }
    let mut after = Box::new(deployment.clone());
    after.annotations_mut().insert(names::REVISION_ANNOTATION.to_owned(), revision);
    Some(Step::Deployment { after, tell: None })
}

fn created(view: &View<'_>) -> Step {
    fresh_or(view.seen, || {
        let replicas = numbers::at_first(view.bounds, &view.old_numbers());
        let set = template::fresh(view.seen.deployment, view.next_revision(), replicas, view.bounds);
        Step::CreateSet(Box::new(set))
    })
}

fn rolling(view: &View<'_>) -> Option<Step> {
    let Some(new) = &view.new else { return Some(created(view)) };
    let roll = || {
        let change = numbers::roll(view.bounds, &view.numbers(new), &view.old_numbers());
        change.map(|(which, replicas)| view.scaled(which, replicas))
    };
    avoided(view)
        .or_else(|| left_alone(view))
        .or_else(roll)
        .or_else(|| completed(view, || if view.seen.has_target { not_avoided(view, new) } else { None }))
}

fn recreation(view: &View<'_>) -> Option<Step> {
    let (new, old) = (view.new_numbers(), view.old_numbers());
    if let Some(step) = left_alone(view) {
        return Some(step);
    }
    if let Some((which, replicas)) = numbers::recreate(view.bounds, new.as_ref(), &old) {
        return Some(match which {
            Which::Old(_) => view.scaled(which, replicas),
            // Machines that the cache does not show would be beside the new ones.
            Which::New => fresh_or(view.seen, || view.scaled(which, replicas)),
        });
    }
    if new.is_none() && old.iter().all(|set| set.occupied == 0) {
        return Some(created(view));
    }
    completed(view, || None)
}

fn in_place_update(view: &View<'_>) -> Option<Step> {
    if !view.seen.has_target {
        return None;
    }
    let Some(new) = &view.new else { return Some(created(view)) };
    avoided(view)
        .or_else(|| left_alone(view))
        .or_else(|| in_place::next(view, new))
        .or_else(|| completed(view, || not_avoided(view, new)))
}

/// Nodes of old sets get no new pods if there is another place for them. Done once per set.
fn avoided(view: &View<'_>) -> Option<Step> {
    if !view.seen.has_target {
        return None;
    }
    let set = view.old.iter().find(|set| !set.annotations().contains_key(names::PREFER_NO_SCHEDULE))?;
    let nodes = view.machines_of(set).iter().find_map(|machine| view.node_step(machine, nodes::avoided));
    nodes.or_else(|| {
        let mut after = Box::new(MachineSet::clone(set));
        after.annotations_mut().insert(names::PREFER_NO_SCHEDULE.to_owned(), "True".to_owned());
        Some(Step::Set { before: set.clone(), after, tell: None })
    })
}

/// A set that is new again gets pods again.
fn not_avoided(view: &View<'_>, set: &Arc<MachineSet>) -> Option<Step> {
    if !set.annotations().contains_key(names::PREFER_NO_SCHEDULE) {
        return None;
    }
    let nodes = view.machines_of(set).iter().find_map(|machine| view.node_step(machine, nodes::not_avoided));
    nodes.or_else(|| {
        let mut after = Box::new(MachineSet::clone(set));
        after.annotations_mut().remove(names::PREFER_NO_SCHEDULE);
        Some(Step::Set { before: set.clone(), after, tell: None })
    })
}

/// The autoscaler takes no node away while machines are exchanged.
fn left_alone(view: &View<'_>) -> Option<Step> {
    let updating = view.old_numbers().iter().any(|set| set.occupied > 0);
    if !view.seen.disable_scale_down || !updating {
        return None;
    }
    let machines = view.all().flat_map(|set| view.machines_of(set));
    machines
        .filter(|machine| !is_deleting(&***machine))
        .find_map(|machine| view.node_step(machine, nodes::left_alone))
}

/// What is left to be done when all machines are new and work.
fn completed(view: &View<'_>, then: impl FnOnce() -> Option<Step>) -> Option<Step> {
    let status = status::compute(view, true, &view.seen.memory.news);
    let old_is_empty = view.old_numbers().iter().all(|set| set.occupied == 0);
    if !(status::is_complete(view, &status) && old_is_empty) {
        return None;
    }
    let preserved = |machine: &Machine| {
        machine.status.as_ref().is_some_and(|status| status.current_status.preserve_expiry_time.is_some())
    };
    let machines = view.all().flat_map(|set| view.machines_of(set)).filter(|machine| !preserved(machine));
    let mut machines = machines.filter(|_| view.seen.disable_scale_down);
    machines
        .find_map(|machine| view.node_step(machine, nodes::not_left_alone))
        .or_else(then)
        .or_else(|| forgotten(view))
}

/// Old sets that nobody will go back to.
fn forgotten(view: &View<'_>) -> Option<Step> {
    let limit = usize::try_from(view.seen.deployment.spec.revision_history_limit?).unwrap_or_default();
    let alive: Vec<_> = view.old.iter().filter(|set| !is_deleting(&***set)).collect();
    let surplus = alive.len().saturating_sub(limit);
    let settled = |set: &&&Arc<MachineSet>| {
        let observed = set.status.as_ref().and_then(|status| status.observed_generation);
        view.numbers(set).occupied == 0 && observed >= set.metadata.generation
    };
    let sets: Vec<_> = alive.iter().take(surplus).filter(settled).map(|set| (*set).clone()).collect();
    (!sets.is_empty()).then_some(Step::DeleteSets(sets))
}

const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// The deployment takes the template of an earlier revision.
fn rolled_back(view: &View<'_>) -> Step {
    let deployment = view.seen.deployment;
    if view.new.is_none() {
        return created(view);
    }
    let wanted = deployment.spec.rollback_to.as_ref().map_or(0, |rollback| rollback.revision);
    let given_up = |reason: &'static str, message: String| {
        let mut after = Box::new(deployment.clone());
        after.spec.rollback_to = None;
        Step::Deployment { after, tell: Some(Tell { warning: true, reason, message }) }
    };
    let mut revisions: Vec<i64> = view.all().map(|set| template::revision_of(set)).collect();
    revisions.sort_unstable();
    let target = if wanted == 0 { revisions.iter().rev().nth(1).copied().unwrap_or(0) } else { wanted };
    if target == 0 {
        return given_up(NOT_FOUND, "Unable to find last revision.".to_owned());
    }
    let Some(set) = view.all().find(|set| template::revision_of(set) == target) else {
        return given_up(NOT_FOUND, "Unable to find the revision to rollback to.".to_owned());
    };
    if let Some(step) = not_avoided(view, set) {
        return step;
    }
    let name = deployment.name_any();
    if template::is_same(&set.spec.template, &deployment.spec.template) {
        let message =
            format!("The rollback revision contains the same template as current deployment {name:?}");
        return given_up("DeploymentRollbackTemplateUnchanged", message);
    }
    let mut after = Box::new(template::turned_back(deployment, set));
    after.spec.rollback_to = None;
    let message = format!("Rolled back deployment {name:?} to revision {target}");
    let tell = Some(Tell { warning: false, reason: "DeploymentRollback", message });
    Step::Deployment { after, tell }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
