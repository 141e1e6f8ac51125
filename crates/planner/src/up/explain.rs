//! A reason for every class of pods and every group.

use super::choice::{kept_type, offering_name};
use super::{Queue, Solution};
use crate::board::{Board, ClassId, NodeOrigin};
use crate::market::Ledger;
use crate::pack::Demand;
use crate::plan::PodsVerdict;
use crate::populate::Waiting;
use crate::reason::{Explanation, Reason};
use crate::state::{NodeId, State, TemplateId, too_small};

pub(super) struct Explainer<'s, 'a> {
    board: &'a Board<'a>,
    state: &'s mut State<'a>,
    gates: &'s [Option<Reason>],
    ledger: Ledger,
    /// By group.
    kept: Vec<Option<String>>,
    by_group: Vec<Vec<TemplateId>>,
}

/// How far a pod gets with an offering: the further, the more telling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hurdle {
    Mixing,
    Labels,
    Size,
    Company,
    Limit,
    None,
}

impl<'s, 'a> Explainer<'s, 'a> {
    pub fn new(state: &'s mut State<'a>, gates: &'s [Option<Reason>], solution: &Solution) -> Self {
        let board = state.board;
        let mut ledger = Ledger::new(board);
        for template in &solution.opened {
            ledger.add(board, *template);
        }
        let mut by_group = vec![Vec::new(); board.input.groups.len()];
        for (number, kind) in (0u32..).zip(&board.templates) {
            by_group[kind.group].push(number);
        }
        let mut kept: Vec<Option<String>> =
            (0..board.input.groups.len()).map(|group| kept_type(board, group).map(str::to_owned)).collect();
        for template in &solution.opened {
            let kind = &board.templates[*template as usize];
            if !board.input.groups[kind.group].mixing {
                kept[kind.group] = Some(offering_name(board, kind.group, kind.offering).to_owned());
            }
        }
        Self { board, state, gates, ledger, kept, by_group }
    }

    pub fn verdicts(
        mut self,
        waiting: &Waiting,
        queues: &[Queue<'_>],
        hopeless: &[Demand],
    ) -> Vec<PodsVerdict> {
        let board = self.board;
        let name = |pod: usize| board.input.pods[pod].name.as_str();
        let mut verdicts = Vec::with_capacity(waiting.classes.len() + waiting.ignored.len());
        for (class, pods) in &waiting.classes {
            let queue = &queues[*class as usize];
            let placed = queue.next.min(pods.len());
            let refusal =
                board.class(*class).refusal.clone().filter(|_| hopeless.iter().any(|d| d.class == *class));
            let reasons = match (refusal, queue.last) {
                (Some(refusal), _) => vec![Explanation::pod(name(pods[0]), refusal)],
                (None, Some(node)) if placed == pods.len() && queue.groups.is_empty() => {
                    vec![Explanation::pod(name(pods[0]), self.where_it_fits(node))]
                }
                _ => (0..board.input.groups.len()).map(|group| self.group(*class, group, queue)).collect(),
            };
            verdicts.push(PodsVerdict { pods: pods.clone(), placed, reasons });
        }
        for (pod, reason) in &waiting.ignored {
            let reasons = vec![Explanation::pod(name(*pod), reason.clone())];
            verdicts.push(PodsVerdict { pods: vec![*pod], placed: 1, reasons });
        }
        verdicts
    }

    fn where_it_fits(&self, node: NodeId) -> Reason {
        match self.board.nodes.get(node as usize).map(|node| node.origin) {
            Some(NodeOrigin::Existing(at)) => {
                Reason::FitsOnNode { node: self.board.input.nodes[at].name.clone() }
            }
            Some(NodeOrigin::Machine(at)) => {
                Reason::FitsOnMachine { machine: self.board.input.machines[at].name.clone() }
            }
            None => Reason::FitsOnMachine { machine: String::new() },
        }
    }

    fn group(&mut self, class: ClassId, group: usize, queue: &Queue<'_>) -> Explanation {
        let board = self.board;
        let name = &board.input.groups[group].name;
        if let Some((_, template)) = queue.groups.iter().find(|(own, _)| *own == group) {
            let kind = &board.templates[*template as usize];
            let offering = offering_name(board, group, kind.offering).to_owned();
            return Explanation::group(name, Reason::NewMachine { offering, price: kind.price });
        }
        if let Some(gate) = &self.gates[group] {
            return Explanation::group(name, gate.clone());
        }
        let mut best: Option<(Hurdle, TemplateId, Reason)> = None;
        let mut several = false;
        for at in 0..self.by_group[group].len() {
            let template = self.by_group[group][at];
            let (hurdle, reason) = self.offering(class, template);
            match &best {
                Some((other, _, _)) if *other > hurdle => continue,
                Some((other, _, before)) if *other == hurdle => {
                    several |= *before != reason;
                    if !closer(&reason, before) {
                        continue;
                    }
                }
                _ => several = false,
            }
            let done = hurdle == Hurdle::None;
            best = Some((hurdle, template, reason));
            if done {
                break;
            }
        }
        let Some((hurdle, template, reason)) = best else {
            return Explanation::group(name, Reason::NoneAvailable);
        };
        let about_offering = match hurdle {
            Hurdle::Size => true,
            Hurdle::Labels | Hurdle::Company => several,
            Hurdle::Mixing | Hurdle::Limit | Hurdle::None => false,
        };
        if about_offering {
            let kind = &board.templates[template as usize];
            return Explanation::offering(name, offering_name(board, group, kind.offering), reason);
        }
        Explanation::group(name, reason)
    }

    fn offering(&mut self, class: ClassId, template: TemplateId) -> (Hurdle, Reason) {
        let board = self.board;
        let kind = &board.templates[template as usize];
        let name = offering_name(board, kind.group, kind.offering);
        if let Some(kept) = self.kept[kind.group].as_ref().filter(|kept| *kept != name) {
            return (Hurdle::Mixing, Reason::NotMixed { keeps_to: kept.clone() });
        }
        if !board.agrees(class, kind.class)
            && let Some(reason) = board.disagreement(board.class(class).demand, kind.class)
        {
            return (Hurdle::Labels, reason);
        }
        if let Some(reason) = too_small(board, &board.class(class).request, &kind.free) {
            return (Hurdle::Size, reason);
        }
        let mark = self.state.mark();
        let node = self.state.open(template);
        let objection = if self.state.suits(class, node) { None } else { self.state.objection(class, node) };
        self.state.rollback(mark);
        if let Some(reason) = objection {
            return (Hurdle::Company, reason);
        }
        if let Some(reason) = self.ledger.objection(board, template, None) {
            return (Hurdle::Limit, reason);
        }
        (Hurdle::None, Reason::Dearer { offering: name.to_owned() })
    }
}

/// Of two offerings that are too small the one that lacks less.
fn closer(reason: &Reason, before: &Reason) -> bool {
    match (reason, before) {
        (
            Reason::TooSmall { resource, needs, has },
            Reason::TooSmall { resource: other, needs: other_needs, has: other_has },
        ) => resource == other && needs - has < other_needs - other_has,
        _ => false,
    }
}
