//! Scale-up: which machines for the pods that wait.

pub(crate) mod choice;
mod explain;

use crate::board::{Board, CPU, MEMORY, build};
use crate::market::{Ledger, Market};
use crate::model::{Cluster, Group, Price};
use crate::pack::{Demand, Packing, Put, order};
use crate::plan::{Binding, NewMachine, ScaleUp, Target};
use crate::populate::{Waiting, populate};
use crate::reason::{Explanation, Reason};
use crate::state::{Law, NodeId, State, TemplateId};
pub(crate) use choice::{below_minimum, offering_name};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Which machines to create for the pods of the cluster that wait, and why.
pub fn scale_up(cluster: &Cluster) -> ScaleUp {
    let board = build(cluster);
    let (mut state, waiting) = populate(&board);
    let gates = choice::gates(&board);
    let (hopeless, demands): (Vec<_>, Vec<_>) = waiting
        .classes
        .iter()
        .map(|(class, pods)| Demand { class: *class, count: i64::try_from(pods.len()).unwrap_or(i64::MAX) })
        .partition(|demand| board.class(demand.class).refusal.is_some());
    let everything = Market::new(&board, choice::open_templates(&board, &gates));
    let ledger = Ledger::new(&board);
    let served = settle(&mut state, &everything, &ledger, &demands);
    let (solution, second) = choice::best(&mut state, &board, &gates, &ledger, &served);
    let plan = finish(&mut state, &board, &waiting, &gates, hopeless, served, solution);
    ScaleUp { runner_up: second.map(|second| next_best(&board, &second)), ..plan }
}

/// What fits where nodes are, and needs nothing.
pub(crate) struct Served {
    pub puts: Vec<Put>,
    pub left: Vec<Demand>,
    /// Before anything was put anywhere.
    pub mark: usize,
    pub all: Vec<Demand>,
}

pub(crate) fn settle(state: &mut State<'_>, market: &Market, ledger: &Ledger, demands: &[Demand]) -> Served {
    let board = state.board;
    let mark = state.mark();
    // Those that cannot go to a new node first, then as the scheduler would.
    let helpless = |demand: &Demand| {
        !market.allowed.iter().any(|template| {
            let kind = &board.templates[*template as usize];
            crate::state::fits_in(&board.class(demand.class).request, &kind.free)
                && board.agrees(demand.class, kind.class)
        })
    };
    let sorted = order(state, market, demands, true);
    let (first, then): (Vec<_>, Vec<_>) = sorted.into_iter().partition(helpless);
    let all: Vec<Demand> = first.into_iter().chain(then).collect();
    let mut packing = Packing::new(state, market, ledger.clone());
    let left = if packing.state.places.is_empty() { all.clone() } else { packing.settle_existing(&all) };
    let puts = std::mem::take(&mut packing.puts);
    Served { puts, left, mark, all }
}

/// A way to serve what is left.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    /// All of them, also onto existing nodes.
    pub puts: Vec<Put>,
    /// By new node, in order.
    pub opened: Vec<TemplateId>,
    pub left: Vec<Demand>,
    pub price: Price,
    /// Priority and number of those that have no place, highest first.
    pub unserved: Vec<(i32, i64)>,
    /// Groups that grow to their minimum, with how many.
    pub topped_up: Vec<(usize, u32)>,
}

impl Solution {
    pub fn new(
        board: &Board<'_>,
        puts: Vec<Put>,
        opened: Vec<TemplateId>,
        left: Vec<Demand>,
        topped_up: Vec<(usize, u32)>,
    ) -> Self {
        let price = opened.iter().map(|template| board.templates[*template as usize].price).sum();
        Self { price, unserved: unserved(board, &left), puts, opened, left, topped_up }
    }

    /// Serves more, costs less, has fewer nodes, has more of those that a group prefers, wastes less.
    pub fn compare(&self, other: &Self, board: &Board<'_>) -> Ordering {
        compare_unserved(&self.unserved, &other.unserved)
            .then(self.price.cmp(&other.price))
            .then(self.opened.len().cmp(&other.opened.len()))
            .then_with(|| self.not_preferred(board).cmp(&other.not_preferred(board)))
            .then_with(|| self.waste(board).cmp(&other.waste(board)))
    }

    pub fn better(&self, other: &Self, board: &Board<'_>) -> bool {
        self.compare(other, board) == Ordering::Less
    }

    fn not_preferred(&self, board: &Board<'_>) -> usize {
        let kinds = self.opened.iter().map(|template| &board.templates[*template as usize]);
        kinds.filter(|kind| board.input.groups[kind.group].preferred.is_some() && !kind.preferred).count()
    }

    /// The share of the new nodes' CPU and of their memory that nobody asked for, in millionths.
    fn waste(&self, board: &Board<'_>) -> i128 {
        let sum = |at: usize| -> (i128, i128) {
            let there = self.opened.iter().map(|template| board.templates[*template as usize].free[at]);
            let new = self.puts.iter().filter(|put| put.node as usize >= board.nodes.len());
            let used = new.map(|put| i128::from(board.class(put.class).request[at]) * i128::from(put.count));
            (there.map(i128::from).sum(), used.sum())
        };
        [CPU, MEMORY]
            .into_iter()
            .map(sum)
            .map(|(there, used)| (there - used) * 1_000_000 / there.max(1))
            .sum()
    }
}

pub(crate) fn unserved(board: &Board<'_>, left: &[Demand]) -> Vec<(i32, i64)> {
    let mut by_priority: BTreeMap<i32, i64> = BTreeMap::new();
    for demand in left {
        *by_priority.entry(board.class(demand.class).priority).or_insert(0) += demand.count;
    }
    by_priority.into_iter().rev().collect()
}

/// Fewer of the highest priority is better.
pub(crate) fn compare_unserved(ours: &[(i32, i64)], theirs: &[(i32, i64)]) -> Ordering {
    for (one, other) in ours.iter().zip(theirs) {
        let verdict = one.0.cmp(&other.0).then(one.1.cmp(&other.1));
        if verdict != Ordering::Equal {
            return verdict;
        }
    }
    ours.len().cmp(&theirs.len())
}

fn finish(
    state: &mut State<'_>,
    board: &Board<'_>,
    waiting: &Waiting,
    gates: &[Option<Reason>],
    hopeless: Vec<Demand>,
    served: Served,
    solution: Solution,
) -> ScaleUp {
    replay(state, &served, &solution);
    let mut plan = ScaleUp {
        machines: solution
            .opened
            .iter()
            .map(|template| &board.templates[*template as usize])
            .map(|kind| NewMachine { group: kind.group, offering: kind.offering })
            .collect(),
        price: solution.price,
        bindings: Vec::with_capacity(waiting.classes.iter().map(|(_, pods)| pods.len()).sum()),
        ..ScaleUp::default()
    };
    let mut queues: Vec<Queue<'_>> = board.classes.iter().map(|_| Queue::default()).collect();
    for (class, pods) in &waiting.classes {
        queues[*class as usize].pods = pods;
    }
    for put in &solution.puts {
        let target = target(board, put.node);
        let queue = &mut queues[put.class as usize];
        let take = usize::try_from(put.count).unwrap_or(0);
        for pod in &queue.pods[queue.next..(queue.next + take).min(queue.pods.len())] {
            plan.bindings.push(Binding { pod: *pod, target });
        }
        queue.next += take;
        queue.last = Some(put.node);
        if let Target::New(number) = target {
            let kind = &board.templates[solution.opened[number] as usize];
            if !queue.groups.iter().any(|(group, _)| *group == kind.group) {
                queue.groups.push((kind.group, solution.opened[number]));
            }
        }
    }
    if plan.bindings.iter().any(|binding| matches!(binding.target, Target::New(_))) {
        plan.regrets = regrets(board.input);
    }
    let explainer = explain::Explainer::new(state, gates, &solution);
    plan.pods = explainer.verdicts(waiting, &queues, &hopeless);
    plan.groups = solution
        .topped_up
        .iter()
        .map(|(group, _)| {
            let group = &board.input.groups[*group];
            Explanation::group(&group.name, Reason::BelowMinimum { min: group.min })
        })
        .collect();
    plan
}

fn next_best(board: &Board<'_>, second: &Solution) -> Reason {
    let mut machines: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for kind in second.opened.iter().map(|template| &board.templates[*template as usize]) {
        *machines.entry((kind.group, offering_name(board, kind.group, kind.offering))).or_insert(0) += 1;
    }
    let told = machines.into_iter().map(|((group, name), count)| {
        let group = &board.input.groups[group].name;
        format!("{count} {name} of {group}")
    });
    Reason::NextBest { machines: told.collect(), price: second.price }
}

fn regrets(input: &Cluster) -> Vec<usize> {
    let lately = |group: &Group| {
        group.last_consolidation.is_some_and(|last| input.now < last + group.consolidation.pause)
    };
    (0..input.groups.len()).filter(|group| lately(&input.groups[*group])).collect()
}

/// Pods of a class, how many have a place, and where.
#[derive(Default)]
struct Queue<'w> {
    pods: &'w [usize],
    next: usize,
    last: Option<NodeId>,
    /// Groups of new machines they go to, with a template of each.
    groups: Vec<(usize, TemplateId)>,
}

pub(crate) fn target(board: &Board<'_>, node: NodeId) -> Target {
    let node = node as usize;
    let (nodes, machines) = (board.input.nodes.len(), board.input.machines.len());
    if node < nodes {
        Target::Node(node)
    } else if node < nodes + machines {
        Target::Machine(node - nodes)
    } else {
        Target::New(node - nodes - machines)
    }
}

/// The state in which the solution is carried out, for the reasons.
fn replay(state: &mut State<'_>, served: &Served, solution: &Solution) {
    state.rollback(served.mark);
    state.law = Law::Universe;
    for template in &solution.opened {
        state.open(*template);
    }
    for put in &solution.puts {
        state.place(put.class, put.node, put.count);
    }
}
