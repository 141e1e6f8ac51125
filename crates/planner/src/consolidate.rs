//! Consolidation: the same pods on fewer or cheaper nodes.
//!
//! First every node that others have room for goes. Then what is left is looked at alone and together with those of its
//! group that are used as badly, and replaced by cheaper machines where that saves enough. Every step makes the cluster
//! cheaper by a share of what it gives back, and nodes that took part rest: so it ends.

mod trial;

use crate::board::{Board, CPU, ClassId, MEMORY, build};
use crate::clear::{Clearing, Guest, pause, with_room_kept};
use crate::intern::Map;
use crate::market::{Ledger, Market};
use crate::model::{Cluster, Consolidation, Group, Price, Time};
use crate::plan::{Binding, Consolidated, Fate, NewMachine, NodeVerdict, Replacement};
use crate::reason::Reason;
use crate::regrow::{Step, regretted};
use crate::state::{Law, TemplateId};
use crate::up::{choice, offering_name};
use trial::Trial;

/// So many nodes together are looked at.
const TOGETHER: [usize; 3] = [1, 2, 4];

/// So many times it goes on behind a step that takes what the scale-up would buy again.
const ROUNDS: usize = 8;
/// And not when it has looked at more nodes again than this, and than there are.
const LOOKS: usize = 512;

/// Which nodes to give back because the same pods can be had for less, what to buy for that, and why the others stay.
pub fn consolidate(cluster: &Cluster) -> Consolidated {
    consolidate_while(cluster, |_| true)
}

/// The same, as long as the caller wants to go on: it is asked before work on a node begins, with the node's number.
/// When it has had enough it is not asked again; what was found so far is the plan, and the other nodes stay. It may be asked
/// about a node several times: where it turns out that the scale-up would buy again what a step takes, that step is left
/// out, and what is behind it is looked at anew.
pub fn consolidate_while(cluster: &Cluster, mut go_on: impl FnMut(usize) -> bool) -> Consolidated {
    let board = build(cluster);
    let gates = choice::gates(&board);
    let open = choice::open_templates(&board, &gates);
    let undecided = choice::undecided(&board, &open, &[]);
    // A group that has no type yet and must keep to one gets the most promising.
    let may = |template: &TemplateId| {
        let kind = &board.templates[*template as usize];
        let first =
            undecided.iter().find(|(group, _)| *group == kind.group).and_then(|(_, names)| names.first());
        first.is_none_or(|name| offering_name(&board, kind.group, kind.offering) == *name)
    };
    let market = Market::new(&board, open.iter().copied().filter(may).collect());
    let mut by_price = market.allowed.clone();
    by_price.sort_by_key(|template| {
        let kind = &board.templates[*template as usize];
        (kind.price, !kind.preferred, *template)
    });
    let mut coveted = Map::default();
    let mut taken = Vec::new();
    let mut rest = None;
    let (mut round, mut looks, mut enough) = (0, 0, false);
    loop {
        let (mut clearing, waiting) = with_room_kept(&board);
        clearing.state.law = Law::Planned;
        let mut work = Work {
            board: &board,
            clearing,
            market: &market,
            by_price: &by_price,
            ledger: Ledger::new(&board),
            coveted,
            rest,
            taken: Vec::new(),
            looks,
            enough,
            plan: Consolidated::default(),
            opened: Vec::new(),
            verdicts: vec![None; cluster.nodes.len()],
        };
        let good = taken.len();
        work.run(&waiting, taken, &mut go_on);
        if work.rest.is_some() {
            return work.plan;
        }
        let Some((first, reason)) = work.regretted(good) else { return work.plan };
        (coveted, looks, enough, taken) = (work.coveted, work.looks, work.enough, work.taken);
        coveted.extend(taken[first].nodes.iter().map(|at| (*at, reason.clone())));
        taken.truncate(first);
        round += 1;
        rest = (round > ROUNDS || looks > LOOKS.max(cluster.nodes.len())).then_some(reason);
    }
}

struct Work<'w, 'a> {
    board: &'a Board<'a>,
    clearing: Clearing<'a>,
    market: &'w Market,
    by_price: &'w [TemplateId],
    ledger: Ledger,
    /// Nodes without which the scale-up would buy more, and the reason for it.
    coveted: Map<usize, Reason>,
    /// Enough was looked at: everything but what is known to go stays for this reason.
    rest: Option<Reason>,
    /// What was carried out.
    taken: Vec<Trial>,
    looks: usize,
    /// The caller has had enough.
    enough: bool,
    plan: Consolidated,
    /// By machine of the plan.
    opened: Vec<TemplateId>,
    verdicts: Vec<Option<(Fate, Reason)>>,
}

impl Work<'_, '_> {
    /// Where a pod waits for a machine to be bought, scale-up comes first. Some steps are `known` to be good.
    fn run(
        &mut self,
        waiting: &[(ClassId, usize)],
        known: Vec<Trial>,
        go_on: &mut impl FnMut(usize) -> bool,
    ) {
        let input = self.board.input;
        let buyer = waiting.iter().find(|(class, _)| self.can_buy_for(*class)).map(|(_, pod)| *pod);
        let mut candidates = Vec::new();
        for at in 0..input.nodes.len() {
            let waits = || buyer.map(|pod| Reason::PendingPodsNeedIt { pod: input.pods[pod].name.clone() });
            match self.stays(at).or_else(waits).or_else(|| self.coveted.get(&at).cloned()) {
                Some(reason) => self.verdicts[at] = Some((Fate::Keep, reason)),
                None => candidates.push(at),
            }
        }
        candidates.sort_by_key(|at| (-self.waste(*at), *at));
        self.choose_destinations(&candidates);
        for trial in known {
            self.carry_out(trial);
        }
        for at in &candidates {
            if self.verdicts[*at].is_some() || self.rest.is_some() {
                continue;
            }
            self.looks += 1;
            self.enough = self.enough || !go_on(*at);
            if !self.enough
                && self.clearing.needed(*at).is_none()
                && let Ok(trial) = self.attempt(&[*at], false)
            {
                self.carry_out(trial);
            }
        }
        for (place, at) in candidates.iter().enumerate() {
            if self.verdicts[*at].is_some() {
                continue;
            }
            if let Some(reason) = self.clearing.needed(*at) {
                self.verdicts[*at] = Some((Fate::Keep, reason));
                continue;
            }
            if let Some(reason) = &self.rest {
                self.verdicts[*at] = Some((Fate::Keep, reason.clone()));
                continue;
            }
            self.enough = self.enough || !go_on(*at);
            if self.enough {
                self.verdicts[*at] = Some((Fate::Keep, Reason::NotLookedAt));
                continue;
            }
            match self.best(*at, &candidates[place + 1..]) {
                Ok(trial) => self.carry_out(trial),
                Err(reason) => self.verdicts[*at] = Some((Fate::Keep, reason)),
            }
        }
        for (node, verdict) in std::mem::take(&mut self.verdicts).into_iter().enumerate() {
            let (fate, reason) = verdict.unwrap_or((Fate::Keep, Reason::NotLookedAt));
            self.plan.nodes.push(NodeVerdict { node, fate, reason });
        }
    }

    fn can_buy_for(&self, class: ClassId) -> bool {
        let board = self.board;
        self.by_price.iter().any(|template| {
            let kind = &board.templates[*template as usize];
            crate::state::fits_in(&board.class(class).request, &kind.free)
                && board.agrees(class, kind.class)
                && self.ledger.objection(board, *template, None).is_none()
        })
    }

    /// The first step that is taken although the scale-up would buy another node for it, and why its nodes stay therefore.
    fn regretted(&self, good: usize) -> Option<(usize, Reason)> {
        let mut opened = self.opened.as_slice();
        let steps = self.plan.steps.iter().map(|step| {
            let (machines, rest) = opened.split_at(step.machines.len());
            opened = rest;
            Step { nodes: &step.removed, machines, moves: &step.moves }
        });
        let steps: Vec<Step<'_>> = steps.collect();
        regretted(self.board, &self.clearing.wait_for_room, &steps, good)
    }

    /// What speaks against giving a node back before anything is tried.
    fn stays(&self, at: usize) -> Option<Reason> {
        let now = self.board.input.now;
        let off = |group: &Group| {
            let until = group.regretted.map(|last| last + group.consolidation.regret);
            match until.filter(|until| *until > now) {
                _ if !group.consolidation.enabled => Some(Reason::ConsolidationDisabled),
                Some(until) => Some(Reason::ConsolidationRegretted { until }),
                None => None,
            }
        };
        let priced = self.board.nodes[at].offering.is_some();
        self.clearing
            .stays(at, off)
            .or_else(|| rests_until(self.board, at).map(|until| Reason::ConsolidatedLately { until }))
            .or_else(|| self.clearing.group(at).and_then(|(_, group)| pause(group, now)))
            .or_else(|| (!priced).then_some(Reason::PriceUnknown))
            .or_else(|| self.clearing.pinned(at))
            .or_else(|| self.clearing.evictions.over_budget(&self.clearing.moving[at]))
    }

    fn price(&self, at: usize) -> Price {
        let node = &self.board.nodes[at];
        let offering = node.group.zip(node.offering);
        offering.map_or(0, |(group, offering)| self.board.input.groups[group].offerings[offering].price)
    }

    /// What is paid for room that nobody asked for.
    fn waste(&self, at: usize) -> Price {
        let free = self.clearing.state.free(u32::try_from(at).unwrap_or(u32::MAX));
        let size = &self.board.nodes[at].allocatable;
        let percent = |which: usize| free[which] * 100 / size[which].max(1);
        self.price(at).saturating_mul(percent(CPU).min(percent(MEMORY)))
    }

    /// Those that stay anyway take pods first, then those that are used best. What rests, still starts or is no node yet
    /// takes none.
    fn choose_destinations(&mut self, candidates: &[usize]) {
        let nodes = self.board.input.nodes.len();
        let mut is_candidate = vec![false; nodes];
        for at in candidates {
            is_candidate[*at] = true;
        }
        let takes = |at: &usize| self.clearing.may_take(*at) && rests_until(self.board, *at).is_none();
        let staying = (0..nodes).filter(|at| !is_candidate[*at]);
        let destinations: Vec<usize> =
            staying.chain(candidates.iter().rev().copied()).filter(takes).collect();
        let mut open = vec![false; self.board.nodes.len()];
        for at in &destinations {
            open[*at] = true;
        }
        for (number, open) in (0u32..).zip(open) {
            if !open {
                self.clearing.state.close(number, false);
            }
        }
        self.clearing.state.settle();
        self.clearing.destinations =
            destinations.into_iter().filter_map(|at| u32::try_from(at).ok()).collect();
    }

    /// The node alone, or with the next ones of its group: whatever saves the largest part of what it gives back.
    fn best(&mut self, at: usize, behind: &[usize]) -> Result<Trial, Reason> {
        let group = self.board.nodes[at].group;
        let mut set = vec![at];
        let mut others = behind.iter().copied().filter(|other| {
            self.board.nodes[*other].group == group
                && self.verdicts[*other].is_none()
                && self.clearing.guests[*other].is_none()
        });
        let all: Vec<usize> = others.by_ref().take(TOGETHER[TOGETHER.len() - 1] - 1).collect();
        set.extend(all);
        let mut best: Option<Trial> = None;
        let mut objection = None;
        for count in TOGETHER {
            let Some(some) = set.get(..count) else { break };
            match self.attempt(some, true) {
                Ok(trial) if best.as_ref().is_none_or(|best| trial.saves_more_of_its_price(best)) => {
                    best = Some(trial);
                }
                // More of them did not help.
                Ok(_) | Err(_) if best.is_some() => break,
                Ok(_) => {}
                Err(reason) => {
                    objection.get_or_insert(reason);
                }
            }
        }
        best.ok_or_else(|| objection.unwrap_or(Reason::NothingCheaper))
    }

    fn carry_out(&mut self, trial: Trial) {
        let board = self.board;
        let input = board.input;
        let clearing = &mut self.clearing;
        clearing.alone(&trial.nodes, &trial.machines, &trial.puts, true);
        clearing.vacate(&trial.nodes);
        let mut step =
            Replacement { removed: trial.nodes.clone(), saved: trial.saving, ..Replacement::default() };
        let mut bought = Vec::new();
        for template in &trial.machines {
            let kind = &board.templates[*template as usize];
            let node = clearing.state.open_standing(*template);
            bought.push(node);
            self.ledger.add(board, *template);
            clearing.ready[kind.group] += 1;
            if let Some(measured) = &mut clearing.measured[kind.group] {
                measured.size[0] += kind.free[CPU];
                measured.size[1] += kind.free[MEMORY];
            }
            step.machines.push(self.plan.machines.len());
            self.opened.push(*template);
            self.plan.machines.push(NewMachine { group: kind.group, offering: kind.offering });
        }
        let mut pods: Map<u32, Vec<usize>> = Map::default();
        for pod in step.removed.iter().rev().flat_map(|at| clearing.moving[*at].iter().rev()) {
            pods.entry(board.pod_class[*pod]).or_default().push(*pod);
        }
        for put in &trial.puts {
            clearing.state.place(put.class, put.node, put.count);
            for _ in 0..put.count {
                let Some(pod) = pods.get_mut(&put.class).and_then(Vec::pop) else { continue };
                step.moves.push(Binding { pod, target: crate::up::target(board, put.node) });
                if let Some(guest) = clearing.guests.get_mut(put.node as usize) {
                    guest.get_or_insert(Guest::From(step.removed[0]));
                }
            }
        }
        // What was bought for one step is not asked to take the pods of another.
        for node in bought {
            clearing.state.close(node, false);
        }
        clearing.state.settle();
        let by: Vec<String> = trial
            .machines
            .iter()
            .map(|template| &board.templates[*template as usize])
            .map(|kind| input.groups[kind.group].offerings[kind.offering].name.clone())
            .collect();
        for at in &step.removed {
            clearing.give_back(*at);
            let pods = u32::try_from(clearing.moving[*at].len()).unwrap_or(u32::MAX);
            let reason = match (by.is_empty(), pods) {
                (false, _) => Reason::Replaced { by: by.clone(), saving: trial.saving },
                (true, 0) => Reason::Empty,
                (true, pods) => Reason::PodsFitElsewhere { pods },
            };
            self.verdicts[*at] = Some((Fate::Remove, reason));
        }
        self.plan.saved += trial.saving;
        self.plan.steps.push(step);
        self.taken.push(trial);
    }
}

/// Until when a node neither gives nor takes: it was part of a consolidation, or came, a short time ago.
fn rests_until(board: &Board<'_>, at: usize) -> Option<Time> {
    let node = &board.input.nodes[at];
    let group = board.nodes[at].group.map(|group| &board.input.groups[group]);
    let pause = group.map_or_else(|| Consolidation::default().pause, |group| group.consolidation.pause);
    let last = node.consolidated.into_iter().chain(group.map(|_| node.created)).max();
    last.map(|last| last + pause).filter(|until| *until > board.input.now)
}
