//! What the controller does, and every way in which it can end.

use super::{
    Age, Class, Life, Memory, Node, Token, World,
    view::{Around, number},
};
use crate::life::{StatusChange, Step, decide};
use hostler_driver::ProviderId;

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
    /// What this machine's controller does next, with every way it can end.
    pub(in crate::life::walk) fn by_controller(
        &self,
        index: usize,
        most_faults: u8,
    ) -> Vec<(String, bool, Self)> {
        let actor = &self.actors[index];
        let Some(written) = &actor.written else { return Vec::new() };
        let around =
            Around { class: self.class != Class::Missing, rich: self.rich, has_target: self.has_target };
        let step = decide(&actor.observe(written, index, around));
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
                world.carry_out(index, &step, outcome);
                (format!("machine {index}: {step:?} ends {outcome:?}"), outcome == Outcome::Fine, world)
            })
            .collect()
    }

    /// What must not even be tried.
    fn forbidden(&self, index: usize, step: &Step) -> Option<&'static str> {
        let owner =
            |target: &ProviderId| self.vms.iter().find(|vm| vm.id == number(target)).map(|vm| vm.owner);
        let written = self.actors[index].written.as_ref()?;
        if let Some(wrong) = Self::forbidden_on_node(&self.actors[index], step) {
            return Some(wrong);
        }
        match step {
            Step::Settle(server) if owner(&server.provider_id).is_some_and(|owner| owner != index) => {
                Some("a foreign server was settled")
            }
            Step::Create | Step::MakeToken(_) if !written.finalizer => {
                Some("something is made for a machine that nobody holds")
            }
            Step::Create if self.has_target && self.rich && self.actors[index].token == Token::None => {
                Some("a server was ordered that cannot join")
            }
            Step::DeleteServer(target) if !written.deleting => {
                let vm = self.vms.iter().find(|vm| vm.id == number(target))?;
                let harmless = matches!(vm.life, Life::Failed | Life::Deleting);
                (!harmless).then_some("a server that ran, or could, was replaced")
            }
            Step::FindToken
            | Step::PatchNode(_)
            | Step::OnNode(_)
            | Step::ReleaseNode
            | Step::DeleteNode
            | Step::DeleteMachine
                if !self.has_target =>
            {
                Some("there is no target cluster")
            }
            Step::ReleaseNode if self.owned(index).any(|vm| vm.life != Life::Deleting) => {
                Some("a node was released before its server was gone")
            }
            Step::RemoveFinalizer
                if matches!(self.actors[index].node, Node::Joined { labelled: true, .. }) =>
            {
                Some("a machine went and its node is held back for ever")
            }
            Step::DeleteMachine if !matches!(self.actors[index].node, Node::Joined { going: true, .. }) => {
                Some("a machine was deleted whose node was not")
            }
            Step::DeleteServer(_) if !written.node_label && self.has_target => {
                Some("a server was deleted before its node had a name")
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, index: usize, step: &Step, outcome: Outcome) {
        self.wrong = self.wrong.or_else(|| self.forbidden(index, step));
        if !matches!(outcome, Outcome::NoEffect | Outcome::CrashBefore | Outcome::Later) {
            self.effect(index, step);
        }
        if outcome == Outcome::Later {
            self.actors[index].in_flight = true;
        }
        let ends = matches!(step, Step::Wait { .. } | Step::TryAgain { .. } | Step::Rest(_) | Step::Done);
        let actor = &mut self.actors[index];
        let tried = match step {
            Step::Ask(_) | Step::List => Some(0),
            Step::Create => Some(1),
            Step::Settle(_) => Some(2),
            Step::DeleteServer(_) => Some(3),
            _ => None,
        };
        match outcome {
            Outcome::Fine if !ends => {}
            Outcome::NoEffect | Outcome::AnswerLost | Outcome::Later if tried.is_some() => {
                actor.memory = Memory { failed: tried, ..Memory::default() };
            }
            // A write of the object that failed ends the run, as a crash does.
            _ => actor.memory = Memory::default(),
        }
    }

    fn effect(&mut self, index: usize, step: &Step) {
        if let Step::DeleteServer(target) = step
            && let Some(vm) = self.vms.iter_mut().find(|vm| vm.id == number(target))
        {
            vm.life = Life::Deleting;
        }
        let created = (*step == Step::Create).then(|| self.add_server(index));
        let (vms, has_target) = (self.vms.clone(), self.has_target);
        let actor = &mut self.actors[index];
        let Some(written) = &mut actor.written else { return };
        let memory = &mut actor.memory;
        match step {
            Step::AddFinalizer => written.finalizer = true,
            Step::Ask(target) => {
                memory.note('a');
                let found = vms.iter().filter(|vm| vm.id == number(target));
                memory.asked = Some(found.map(|vm| (vm.id, vm.owner, vm.life)).collect());
            }
            Step::List => {
                memory.note('l');
                memory.listed_when_settled = true;
                let shown = vms.iter().filter(|vm| vm.in_lists);
                memory.listed = Some(shown.map(|vm| (vm.id, vm.owner, vm.life)).collect());
            }
            Step::FindToken => memory.token = Some(actor.token),
            Step::MakeToken(_) => {
                // One that is there already is found by the next look.
                memory.token = (actor.token == Token::None).then_some(Token::Valid);
                if actor.token == Token::None {
                    actor.token = Token::Valid;
                }
            }
            Step::DropToken(_) => {
                actor.token = Token::None;
                let joined = !written.deleting && written.provider_id.is_some();
                memory.token = joined.then_some(Token::None);
                for vm in self.vms.iter_mut().filter(|vm| vm.owner == index) {
                    vm.has_token = false;
                }
            }
            Step::MarkAttempt => {
                *memory = Memory { unsent: true, token: memory.token, ..Memory::default() };
                memory.note('m');
                written.finalizer = true;
                written.attempt = Some(Age::Young);
                written.replaces = None;
                written.place = true;
            }
            Step::MarkOthers => {
                *memory = Memory::default();
                written.attempt = Some(Age::Young);
                written.place = true;
            }
            Step::Redate(_) => {
                *memory = Memory::default();
                written.attempt = Some(Age::Young);
            }
            Step::Create => {
                memory.unsent = false;
                memory.created = created;
            }
            Step::Adopt(target) => {
                written.finalizer = true;
                written.provider_id = Some(number(target));
                written.node_label = has_target;
                written.replaces = None;
                written.attempt = None;
                written.place = true;
                *memory = Memory::default();
            }
            Step::Disown(target) => {
                written.provider_id = None;
                written.node_label = false;
                written.replaces = Some(number(target));
                *memory = Memory::default();
            }
            Step::NameNode(_) => written.node_label = true,
            Step::Settle(_) => {
                memory.settled = true;
                actor.upkeep_due = false;
            }
            Step::WriteStatus(StatusChange { phase, description, .. })
            | Step::GiveUp(StatusChange { phase, description, .. }) => {
                written.description.clone_from(description);
                written.long_told = false;
                if let Some(phase) = phase {
                    written.phase = *phase;
                    written.long = false;
                }
            }
            Step::PatchNode(_) | Step::PatchNodeStatus(_) => {
                if let Node::Joined { labelled, .. } = &mut actor.node {
                    *labelled = true;
                }
            }
            Step::RecordConditions => written.recorded = true,
            Step::OnNode(_) => {
                if let Node::Joined { cordoned, .. } = &mut actor.node {
                    *cordoned = true;
                }
            }
            Step::ReleaseNode => {
                if let Node::Joined { ready, cordoned, going, .. } = actor.node {
                    let node = Node::Joined { ready, cordoned, labelled: false, going };
                    actor.node = if going { Node::None } else { node };
                }
            }
            Step::DeleteMachine => {
                written.deleting = true;
                *memory = Memory::default();
            }
            Step::DeleteServer(_) => *memory = Memory::default(),
            Step::DeleteNode => match &mut actor.node {
                Node::Joined { labelled: true, going, .. } => *going = true,
                node => *node = Node::None,
            },
            Step::RemoveFinalizer => actor.written = None,
            Step::SetInPlace(..)
            | Step::KeepUntil(_)
            | Step::NotePreserve(_)
            | Step::SetPreserved(_)
            | Step::ChangeNode(_) => actor.note_special(step),
            Step::FindNode | Step::Wait { .. } | Step::TryAgain { .. } | Step::Rest(_) | Step::Done => {}
        }
    }
}
