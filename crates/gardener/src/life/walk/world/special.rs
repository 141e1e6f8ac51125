//! Updates in place, and machines that are kept although they failed: what stands on Machine and node about them, what
//! others do to it, and what the controller writes.

use super::{Actor, FOREIGN, Life, Node, Vm, World, view::now};
use crate::{
    api::{Phase, names},
    life::{InPlace, Preserve, PreservedCondition, PreservedNode, Stage, Step, UpdateResult},
};
use jiff::SignedDuration;
use serde_json::Value;

/// What a node says about an update in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Update {
    candidate: bool,
    selected: bool,
    successful: Option<bool>,
    stage: Option<Stage>,
}

/// What is written about keeping a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Keep {
    machine: String,
    noted: String,
    /// There is a time until which it is kept; whether that is over.
    over: Option<bool>,
    node: OnNode,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct OnNode {
    value: String,
    /// Whether it holds, reason and message.
    condition: Option<(bool, String, String)>,
    left_alone: bool,
    left_alone_by_us: bool,
    noted_cordon: Option<bool>,
    /// A user has cordoned it.
    by_user: bool,
}

impl Update {
    pub(super) fn seen(&self) -> InPlace {
        let failed = || UpdateResult::Failed("no room".into());
        let result = |successful| if successful { UpdateResult::Successful } else { failed() };
        InPlace {
            candidate: self.candidate,
            selected: self.selected,
            result: self.successful.map(result),
            stage: self.stage,
        }
    }
}

impl Keep {
    pub(super) fn seen(&self, node: Node) -> Preserve {
        let hour = SignedDuration::from_hours(1);
        let on = |cordoned| PreservedNode {
            value: self.node.value.clone(),
            condition: self.node.condition.clone().map(|(holds, reason, message)| PreservedCondition {
                holds,
                reason,
                message,
            }),
            left_alone: self.node.left_alone,
            left_alone_by_us: self.node.left_alone_by_us,
            cordoned,
            cordoned_by_us: self.node.noted_cordon,
        };
        Preserve {
            machine: self.machine.clone(),
            noted: self.noted.clone(),
            until: self.over.map(|over| if over { now() - hour } else { now() + hour }),
            timeout: hour,
            node: match node {
                Node::Joined { cordoned, .. } => Some(on(cordoned)),
                Node::None => None,
            },
        }
    }

    /// What a merge patch of the node changes of it.
    fn change(&mut self, patch: &Value) {
        let Some(annotations) = patch["metadata"]["annotations"].as_object() else { return };
        for (name, value) in annotations {
            let truth = value == "true";
            match name.as_str() {
                names::SCALE_DOWN_DISABLED_ANNOTATION => self.node.left_alone = truth,
                names::SCALE_DOWN_DISABLED_BY_US_ANNOTATION => self.node.left_alone_by_us = truth,
                names::CORDONED_ANNOTATION => self.node.noted_cordon = (!value.is_null()).then_some(truth),
                names::PRESERVE_ANNOTATION => self.node.value = String::new(),
                other => panic!("nobody knows {other}"),
            }
        }
    }
}

fn uncordons(patch: &Value) -> bool {
    patch["spec"].as_object().is_some_and(|spec| spec["unschedulable"].is_null())
}

impl World {
    /// One machine that runs; from here on nodes are updated in place.
    pub(in crate::life::walk) fn with_updates(self) -> Self {
        Self { updates: true, ..self.running() }
    }

    /// One machine that runs; from here on somebody wants to keep it, or not.
    pub(in crate::life::walk) fn with_keeping(self) -> Self {
        Self { keeps: true, ..self.running() }
    }

    fn running(mut self) -> Self {
        self.vms.push(Vm { id: 1, owner: 0, life: Life::Up, in_lists: true, has_token: false });
        let actor = &mut self.actors[0];
        if let Some(written) = &mut actor.written {
            written.finalizer = true;
            written.phase = Phase::Running;
            written.provider_id = Some(1);
            written.node_label = true;
            written.place = true;
            written.recorded = true;
        }
        actor.node = Node::Joined { ready: true, cordoned: false, labelled: true, going: false };
        self
    }

    /// What is wrong with what is written about it.
    pub(super) fn wrongly_kept(&self, actor: &Actor) -> Option<&'static str> {
        let written = actor.written.as_ref()?;
        let Node::Joined { cordoned, .. } = actor.node else { return None };
        if !self.keeps || actor.keep.over.is_some() || written.deleting {
            return None;
        }
        let on = &actor.keep.node;
        let not_ours = on.by_user || !cordoned;
        match () {
            () if on.left_alone_by_us => {
                Some("a machine is kept no longer, and the autoscaler leaves it alone")
            }
            () if on.noted_cordon.is_some() => {
                Some("a machine is kept no longer, and its node still says so")
            }
            () if !not_ours => Some("a machine is kept no longer, and no pod comes to its node"),
            () => None,
        }
    }

    /// What must not be tried with a node.
    pub(super) fn forbidden_on_node(actor: &Actor, step: &Step) -> Option<&'static str> {
        let cordoned = matches!(actor.node, Node::Joined { cordoned: true, .. });
        match step {
            Step::SetInPlace(Stage::DrainSuccessful | Stage::ReadyForUpdate, _) if !cordoned => {
                Some("a node is updated with pods on it")
            }
            Step::ChangeNode(patch) if uncordons(patch) && actor.keep.node.by_user => {
                Some("a node that a user has cordoned was uncordoned")
            }
            _ => None,
        }
    }

    /// What others do to nodes that are updated, and to machines that are kept.
    pub(super) fn by_others(&self, index: usize) -> Vec<(String, Self)> {
        let actor = &self.actors[index];
        let (Some(written), Node::Joined { ready, cordoned, labelled, going }) = (&actor.written, actor.node)
        else {
            return Vec::new();
        };
        let mut next = Vec::new();
        let mut with = |what: &str, change: &dyn Fn(&mut Actor)| {
            let mut world = self.clone();
            change(&mut world.actors[index]);
            next.push((format!("machine {index}: {what}"), world));
        };
        if self.updates {
            let update = &actor.update;
            if !update.candidate && !written.deleting {
                with("its node is a candidate", &|actor| actor.update.candidate = true);
            }
            if update.stage == Some(Stage::CandidateForUpdate) && !update.selected {
                with("its node is selected", &|actor| actor.update.selected = true);
            }
            if update.stage == Some(Stage::ReadyForUpdate) && update.successful.is_none() {
                with("its node was updated", &|actor| actor.update.successful = Some(true));
                with("its node could not be updated", &|actor| actor.update.successful = Some(false));
            }
            if update.successful == Some(false) {
                with("its node was updated after all", &|actor| actor.update.successful = Some(true));
            }
            let done = update.stage == Some(Stage::UpdateSuccessful) && update.successful == Some(true);
            if done && written.phase == Phase::Running {
                with("its node is taken back", &|actor| {
                    actor.update = Update { stage: actor.update.stage, ..Update::default() };
                    actor.node = Node::Joined { ready, cordoned: false, labelled, going };
                });
            }
        }
        if self.keeps {
            let keep = &actor.keep;
            for value in ["", "now", "when-failed"] {
                if keep.machine != value {
                    with(&format!("a user says {value:?}"), &|actor| actor.keep.machine = value.into());
                }
                if keep.node.value != value && value != "when-failed" {
                    let what = format!("a user says {value:?} on its node");
                    with(&what, &|actor| actor.keep.node.value = value.into());
                }
            }
            if keep.over == Some(false) {
                with("its time is over", &|actor| actor.keep.over = Some(true));
            }
            // Once it is noted that the drain cordons it, nobody can tell whether a user wants so, too.
            if !cordoned && keep.node.noted_cordon.is_none() {
                with("a user cordons its node", &|actor| {
                    actor.keep.node.by_user = true;
                    actor.node = Node::Joined { ready, cordoned: true, labelled, going };
                });
            }
            let up = self.vms.iter().any(|vm| vm.owner != FOREIGN && vm.life == Life::Up);
            if up || ready {
                with("its node feels otherwise", &|actor| {
                    actor.conditions_change();
                    actor.node = Node::Joined { ready: !ready, cordoned, labelled, going };
                });
            }
        }
        next
    }
}

impl Actor {
    /// What a step writes about updates and about keeping.
    pub(super) fn note_special(&mut self, step: &Step) {
        match step {
            Step::SetInPlace(stage, _) => {
                self.update.stage = Some(*stage);
                self.conditions_change();
            }
            Step::KeepUntil(until) => self.keep.over = until.map(|_| false),
            Step::NotePreserve(value) => {
                self.keep.machine = String::new();
                self.keep.noted.clone_from(value);
            }
            Step::SetPreserved(PreservedCondition { holds, reason, message }) => {
                self.keep.node.condition = Some((*holds, reason.clone(), message.clone()));
                self.conditions_change();
            }
            Step::ChangeNode(patch) => {
                self.keep.change(patch);
                if let Node::Joined { cordoned, .. } = &mut self.node
                    && uncordons(patch)
                {
                    *cordoned = false;
                }
            }
            _ => {}
        }
    }
}
