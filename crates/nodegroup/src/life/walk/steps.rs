//! What the controller does, and every way in which it can end.

use super::{
    view::number,
    world::{FOREIGN, Life, Memory, Node, Pods, World},
};
use crate::{
    api::VPSieNodePhase as Phase,
    life::{Cordon, Step, Why, decide},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// Refused or lost on the way there.
    NoEffect,
    /// Done, but the answer was lost.
    AnswerLost,
    /// The answer was lost, and it will be done later or not at all.
    Later,
    CrashBefore,
    CrashAfter,
}

impl World {
    /// What the controller does next, with every way it can end.
    pub(super) fn by_controller(&self, most_faults: u8) -> Vec<(String, bool, Self)> {
        let Some(object) = &self.object else { return Vec::new() };
        let step = decide(&self.observe(object));
        let mut outcomes = vec![Outcome::Fine];
        if self.faults < most_faults {
            outcomes.extend([
                Outcome::NoEffect,
                Outcome::AnswerLost,
                Outcome::CrashBefore,
                Outcome::CrashAfter,
            ]);
            if step == Step::Create {
                outcomes.push(Outcome::Later);
            }
        }
        outcomes
            .into_iter()
            .map(|outcome| {
                let mut world = self.clone();
                world.faults += u8::from(outcome != Outcome::Fine);
                world.carry_out(&step, outcome);
                let told = if let Step::Write(report) = &step {
                    format!("write {:?} {:?}", report.status.phase, report.event)
                } else {
                    format!("{step:?}")
                };
                (format!("{told} ends {outcome:?}"), outcome == Outcome::Fine, world)
            })
            .collect()
    }

    /// What must not even be tried.
    fn forbidden(&self, step: &Step) -> Option<&'static str> {
        let object = self.object.as_ref()?;
        let runs = self.own().any(|vm| vm.life == Life::Up);
        // Whoever switches it on between the look and the deletion is too fast for everybody.
        let seen_off = matches!(self.memory.asked.as_deref(), Some([(_, Life::Off | Life::Going)]));
        let works = runs && !seen_off && self.node.is_some_and(|node| node.pods != Pods::None);
        match step {
            Step::Create | Step::MarkAttempt if self.frozen => Some("a VPS was ordered in doubt"),
            Step::Create if object.deleting => Some("a VPS was ordered for what goes"),
            Step::Create if self.features.tokens && !self.token => Some("a VPS was ordered that cannot join"),
            Step::DeleteVps(id) if number(id) == FOREIGN => Some("somebody else's VPS was deleted"),
            Step::PowerOff(id) if number(id) == FOREIGN => Some("somebody else's VPS was switched off"),
            Step::DeleteVps(_) if self.frozen => Some("a VPS was deleted in doubt"),
            Step::DeleteVps(_) if works => Some("a VPS was deleted with pods on it"),
            Step::DeleteVps(_) if !object.deleting && self.phase() != Some(Phase::Failed) => {
                Some("a VPS was deleted that nobody wants gone")
            }
            Step::PowerOff(_) if object.removal.is_none_or(|(why, _)| why != Why::Unhealthy) => {
                Some("a VPS was switched off that answers")
            }
            Step::PowerOff(_) if self.node.is_some_and(|node| node.ready) => {
                Some("a VPS was switched off whose node is well")
            }
            Step::DeleteNode if runs => Some("a node was deleted while its VPS runs"),
            Step::UncordonNode if self.node.is_some_and(|node| node.cordon != Cordon::Ours) => {
                Some("a person's cordon was undone")
            }
            Step::DeleteSelf if self.protected => Some("a protected one was deleted"),
            Step::DeleteSelf if object.removal.is_some() && works => {
                Some("it was deleted before it was empty")
            }
            Step::CordonNode
                if !object.deleting && object.removal.is_none() && self.phase() != Some(Phase::Failed) =>
            {
                Some("a node was cordoned that nobody wants gone")
            }
            Step::RemoveFinalizer if self.frozen && object.vps.is_some() => Some("it was let go in doubt"),
            Step::Write(report) => {
                let order = [
                    None,
                    Some(Phase::Pending),
                    Some(Phase::Provisioning),
                    Some(Phase::Provisioned),
                    Some(Phase::Joining),
                    Some(Phase::Ready),
                ];
                let rank = |phase: Option<Phase>| order.iter().position(|one| *one == phase);
                let skips = match (rank(self.phase()), rank(report.status.phase)) {
                    (Some(from), Some(to)) => to != from && to != from + 1,
                    _ => false,
                };
                skips.then_some("a phase was skipped or went back")
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, step: &Step, outcome: Outcome) {
        self.wrong = self.wrong.or_else(|| self.forbidden(step));
        if !matches!(outcome, Outcome::NoEffect | Outcome::CrashBefore | Outcome::Later) {
            self.effect(step);
        }
        if outcome == Outcome::Later {
            self.in_flight = true;
        }
        let ends = matches!(step, Step::Wait { .. } | Step::TryAgain { .. } | Step::Rest(_) | Step::Done);
        let tried = match step {
            Step::Look(_) | Step::Ask(_) | Step::List => Some(0),
            Step::Create => Some(1),
            Step::DeleteVps(_) | Step::PowerOff(_) => Some(2),
            _ => None,
        };
        match outcome {
            Outcome::Fine if !ends => {}
            Outcome::NoEffect | Outcome::AnswerLost | Outcome::Later if tried.is_some() => {
                self.memory = Memory { failed: tried, ..Memory::default() };
            }
            // A write that failed ends the run, as a crash does.
            _ => self.memory = Memory::default(),
        }
    }

    fn effect(&mut self, step: &Step) {
        let vms: Vec<(u8, Life, bool)> =
            self.vms.iter().map(|vm| (vm.number, vm.life, vm.in_lists)).collect();
        let find = |wanted: u8, in_lists: bool| {
            let shown = vms.iter().filter(|vm| vm.0 == wanted && (vm.2 || !in_lists));
            shown.map(|vm| (vm.0, vm.1)).collect::<Vec<_>>()
        };
        let created = (*step == Step::Create).then(|| self.add_vps());
        let memory = &mut self.memory;
        match step {
            Step::Look(id) => {
                memory.note('k');
                // The list that everybody shares may be behind.
                memory.looked = Some(find(number(id), true));
            }
            Step::Ask(id) => {
                memory.note('a');
                memory.asked = Some(find(number(id), false));
            }
            Step::List => {
                memory.note('l');
                memory.listed = Some(vms.iter().filter(|vm| vm.2).map(|vm| (vm.0, vm.1)).collect());
            }
            Step::Create => {
                memory.unsent = false;
                memory.created = created;
            }
            Step::MakeToken(_) => self.token = true,
            Step::DropToken(_) => self.token = false,
            Step::DeleteVps(id) | Step::PowerOff(id) => {
                let life = if matches!(step, Step::PowerOff(_)) { Life::Off } else { Life::Going };
                for vm in self.vms.iter_mut().filter(|vm| vm.number == number(id)) {
                    vm.life = life;
                }
                self.memory = Memory::default();
            }
            _ => {}
        }
        self.effect_on_node(step);
        self.effect_on_object(step);
    }

    fn effect_on_node(&mut self, step: &Step) {
        let Some(node) = self.node else { return };
        self.node = match step {
            Step::PatchNode(_) => Some(Node { labelled: true, ..node }),
            Step::CordonNode => Some(Node { cordon: Cordon::Ours, ..node }),
            Step::UncordonNode => Some(Node { cordon: Cordon::No, ..node }),
            Step::OnNode(_) => Some(Node { pods: Pods::Leaving, ..node }),
            Step::DeleteNode => None,
            _ => Some(node),
        };
    }

    fn effect_on_object(&mut self, step: &Step) {
        let Some(object) = &mut self.object else { return };
        match step {
            Step::AddFinalizer => object.finalizer = true,
            Step::MarkAttempt => {
                object.attempt = Some(0);
                self.memory = Memory { unsent: true, ..Memory::default() };
                self.memory.note('m');
            }
            Step::ClearAttempt => object.attempt = None,
            Step::Adopt(id) => {
                object.vps = Some(number(id));
                object.attempt = None;
                self.memory = Memory::default();
            }
            Step::WriteSpec(change) => object.said = change.clone(),
            Step::Write(report) => object.status = report.status.clone(),
            Step::NoteAbsence(_) => {
                object.absent = Some(0);
                self.memory = Memory::default();
            }
            Step::ForgetAbsence => object.absent = None,
            Step::CancelRemoval { failed } => {
                object.removal = None;
                if *failed {
                    object.removal_failed = Some(0);
                }
            }
            Step::DeleteSelf => {
                object.deleting = true;
                self.memory = Memory::default();
            }
            Step::RemoveFinalizer => self.object = None,
            _ => {}
        }
    }
}
