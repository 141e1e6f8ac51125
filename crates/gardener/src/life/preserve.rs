//! Machines that somebody wants to look at before they go: they are kept for a while although they failed, or so that
//! the autoscaler does not take them away.
//!
//! What is wanted stands in an annotation of the Node or, where the Node says nothing, of the Machine. How far it is
//! stands in `preserveExpiryTime`, which is written first and taken off last, and in the Node's condition `Preserved`.

use super::{Observed, Step, node};
use crate::api::{Phase, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::time::Duration;

const NOW: &str = "now";
const WHEN_FAILED: &str = "when-failed";
const FALSE: &str = "false";

const BY_US: &str = "Preserved by MCM.";
const BY_USER: &str = "Preserved by user.";
const STOPPED: &str = "Preservation stopped.";
const DRAINED: &str = "Preserved node drained successfully.";
const NOT_DRAINED: &str = "Preserved node could not be drained.";

/// How soon a drain that was forced and failed all the same is looked at again.
const DRAIN_AGAIN: Duration = Duration::from_mins(1);

/// What is written about keeping a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preserve {
    /// The Machine's annotation.
    pub machine: String,
    /// What the Machine has noted of its Node's annotation.
    pub noted: String,
    /// Until when it is kept, while it is.
    pub until: Option<Timestamp>,
    /// How long it is kept from when it is first wanted.
    pub timeout: SignedDuration,
    pub node: Option<PreservedNode>,
}

/// What its Node says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreservedNode {
    /// The Node's annotation.
    pub value: String,
    pub condition: Option<PreservedCondition>,
    /// The autoscaler leaves it alone, whoever said so.
    pub left_alone: bool,
    /// It was one of Gardener's controllers that said so.
    pub left_alone_by_us: bool,
    pub cordoned: bool,
    /// Whether the drain of a preserved machine cordoned it, noted before that drain began.
    pub cordoned_by_us: Option<bool>,
}

/// The Node's condition `Preserved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreservedCondition {
    pub holds: bool,
    pub reason: String,
    pub message: String,
}

impl PreservedCondition {
    fn is_stopped(&self) -> bool {
        !self.holds && self.reason == STOPPED
    }

    fn is_drained(&self) -> bool {
        self.message.contains(DRAINED)
    }

    fn tells_of_drain(&self) -> bool {
        self.is_drained() || self.message.contains(NOT_DRAINED)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Keep,
    /// No more; `forget` what was said about it, so that it is not kept once more.
    Stop {
        forget: bool,
    },
    Nothing,
}

impl Preserve {
    fn node_value(&self) -> &str {
        self.node.as_ref().map_or("", |node| &node.value)
    }

    /// The Node's word counts once it was given, also when it is taken back.
    fn node_rules(&self) -> bool {
        !(self.node_value().is_empty() && self.noted.is_empty())
    }

    fn value(&self) -> &str {
        if self.node_rules() { self.node_value() } else { &self.machine }
    }

    /// What is wrong with what was asked for, if nobody can know what it means.
    pub fn nonsense(&self) -> Option<String> {
        let value = self.value();
        if matches!(value, "" | NOW | WHEN_FAILED | FALSE | names::AUTO_PRESERVED) {
            return None;
        }
        let whose = if self.node_rules() { "Node" } else { "Machine" };
        Some(format!(
            "the {whose}'s annotation {}: {value:?} is not known; give {NOW}, {WHEN_FAILED} or {FALSE}",
            names::PRESERVE_ANNOTATION
        ))
    }

    fn wish(&self, phase: Phase, now: Timestamp) -> Wish {
        let expired = self.until.is_some_and(|until| until <= now);
        let failed = phase == Phase::Failed;
        match self.value() {
            NOW if expired => Wish::Stop { forget: true },
            NOW => Wish::Keep,
            WHEN_FAILED if expired => Wish::Stop { forget: true },
            WHEN_FAILED if failed => Wish::Keep,
            names::AUTO_PRESERVED if failed && !expired => Wish::Keep,
            names::AUTO_PRESERVED => Wish::Stop { forget: true },
            "" | FALSE | WHEN_FAILED if self.until.is_some() => Wish::Stop { forget: false },
            "" | FALSE | WHEN_FAILED => Wish::Nothing,
            // A slip of the pen ends nothing before its time.
            _ if expired => Wish::Stop { forget: false },
            _ => Wish::Nothing,
        }
    }

    /// Whether its node is to be drained because the machine is kept and has failed.
    pub fn drains(&self, phase: Phase, now: Timestamp) -> bool {
        let Some(node) = &self.node else { return false };
        let drained = node.condition.as_ref().is_some_and(PreservedCondition::is_drained);
        // The drain may begin once it is written down who cordons the node.
        phase == Phase::Failed
            && self.until.is_some()
            && self.wish(phase, now) == Wish::Keep
            && node.cordoned_by_us.is_some()
            && !drained
    }
}

/// What to do once `rest`, the step of everything else, has nothing to do.
pub(super) fn beside(seen: &Observed, rest: Step) -> Step {
    if !matches!(rest, Step::Done | Step::Rest(_) | Step::Wait { .. } | Step::TryAgain { .. }) {
        return rest;
    }
    let step = preserve(seen).unwrap_or(rest);
    match seen.preserve.until {
        Some(until) => by(step, until.duration_since(seen.now)),
        None => step,
    }
}

/// The same step, but whoever waits does not wait for longer than this.
fn by(step: Step, left: SignedDuration) -> Step {
    let left = left.max(SignedDuration::from_secs(1)).unsigned_abs();
    match step {
        Step::Done => Step::Rest(left),
        Step::Rest(again) => Step::Rest(again.min(left)),
        Step::Wait { reason, message, again } => Step::Wait { reason, message, again: again.min(left) },
        Step::TryAgain { failure, again } => Step::TryAgain { failure, again: again.min(left) },
        other => other,
    }
}

fn preserve(seen: &Observed) -> Option<Step> {
    let preserve = &seen.preserve;
    let noted = preserve.noted == preserve.node_value() && preserve.machine.is_empty();
    if preserve.node_rules() && !noted {
        return Some(Step::NotePreserve(preserve.node_value().to_owned()));
    }
    match preserve.wish(seen.phase, seen.now) {
        Wish::Keep => keep(seen),
        Wish::Stop { forget } => stop(preserve, forget),
        Wish::Nothing => None,
    }
}

fn keep(seen: &Observed) -> Option<Step> {
    let preserve = &seen.preserve;
    let Some(until) = preserve.until else {
        let end = seen.now.saturating_add(preserve.timeout).unwrap_or(Timestamp::MAX);
        return Some(Step::KeepUntil(Some(end)));
    };
    let node = preserve.node.as_ref()?;
    let condition = node.condition.as_ref().filter(|condition| !condition.is_stopped());
    let drained = condition.is_some_and(PreservedCondition::is_drained);
    let failed = seen.phase == Phase::Failed;
    let mut patch = NodePatch::default();
    if !condition.is_some_and(|condition| condition.holds) && !node.left_alone {
        patch.annotate(names::SCALE_DOWN_DISABLED_ANNOTATION, json!("true"));
        patch.annotate(names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION, json!("true"));
    }
    if failed && !drained && node.cordoned_by_us.is_none() {
        // Whoever cordoned it before wants it to stay so.
        patch.annotate(names::CORDONED_ANNOTATION, json!((!node.cordoned).to_string()));
    }
    if !failed {
        patch.uncordon(node);
    }
    if let Some(step) = patch.step() {
        return Some(step);
    }
    let reason = if preserve.value() == names::AUTO_PRESERVED { BY_US } else { BY_USER };
    let said = |holds: bool, about: &str| {
        let message = format!("{about}Machine preserved until {}.", in_words(until));
        let wanted = PreservedCondition { holds, reason: reason.to_owned(), message };
        (condition != Some(&wanted)).then_some(Step::SetPreserved(wanted))
    };
    if !failed {
        return said(true, "");
    }
    let drained_now = matches!(&seen.drain, Some(node::Step::Done(node::Drained { failed: None, .. })));
    if drained || drained_now {
        return said(true, &format!("{DRAINED} "));
    }
    let not_drained = || said(false, &format!("{NOT_DRAINED} "));
    match seen.drain.as_ref()? {
        node::Step::Act(act) => Some(Step::OnNode(act.clone())),
        node::Step::Wait(waiting) => {
            let wait =
                Step::Wait { reason: waiting.reason, message: waiting.message.clone(), again: waiting.again };
            waiting.failing.as_ref().and_then(|_| not_drained()).or(Some(wait))
        }
        node::Step::Done(ended) => not_drained().or_else(|| {
            let message = ended.failed.clone().unwrap_or_default();
            Some(Step::Wait { reason: "DrainFailing", message, again: DRAIN_AGAIN })
        }),
    }
}

fn stop(preserve: &Preserve, forget: bool) -> Option<Step> {
    let active = preserve.until.is_some();
    if let Some(node) = &preserve.node {
        let mut patch = NodePatch::default();
        patch.uncordon(node);
        if active && node.left_alone_by_us {
            patch.annotate(names::SCALE_DOWN_DISABLED_ANNOTATION, Value::Null);
            patch.annotate(names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION, Value::Null);
        }
        if forget && !node.value.is_empty() {
            patch.annotate(names::PRESERVE_ANNOTATION, Value::Null);
        }
        if let Some(step) = patch.step() {
            return Some(step);
        }
        if active && !node.condition.as_ref().is_some_and(PreservedCondition::is_stopped) {
            return Some(Step::SetPreserved(PreservedCondition {
                holds: false,
                reason: STOPPED.to_owned(),
                message: String::new(),
            }));
        }
    }
    if forget && !(preserve.machine.is_empty() && preserve.noted.is_empty()) {
        return Some(Step::NotePreserve(String::new()));
    }
    active.then_some(Step::KeepUntil(None))
}

/// What is to change on a Node, as a merge patch.
#[derive(Default)]
struct NodePatch {
    annotations: Map<String, Value>,
    uncordons: bool,
}

impl NodePatch {
    fn annotate(&mut self, name: &str, value: Value) {
        self.annotations.insert(name.to_owned(), value);
    }

    /// Pods may come again, if it was for the sake of the drain that they could not.
    fn uncordon(&mut self, node: &PreservedNode) {
        let told = node.condition.as_ref().is_some_and(PreservedCondition::tells_of_drain);
        match node.cordoned_by_us {
            // Gardener's own controllers note nothing, so this goes while the condition still tells of it.
            None => self.uncordons |= node.cordoned && told,
            // With the note goes what is known; it goes when the condition cannot be taken for theirs any more.
            Some(by_us) if !told => {
                self.uncordons |= node.cordoned && by_us;
                self.annotate(names::CORDONED_ANNOTATION, Value::Null);
            }
            Some(_) => {}
        }
    }

    fn step(self) -> Option<Step> {
        let mut patch = Map::new();
        if !self.annotations.is_empty() {
            patch.insert("metadata".to_owned(), json!({"annotations": self.annotations}));
        }
        if self.uncordons {
            patch.insert("spec".to_owned(), json!({"unschedulable": null}));
        }
        (!patch.is_empty()).then_some(Step::ChangeNode(Value::Object(patch)))
    }
}

/// As Go prints a time.
fn in_words(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

#[cfg(test)]
#[path = "preserve_tests.rs"]
mod tests;
