//! Scale-down: which nodes can go, proven by a place for each of their pods.

mod evict;

use crate::board::{Board, CPU, ClassId, MEMORY, build};
use crate::intern::Map;
use crate::market::{Ledger, Market};
use crate::model::{Cluster, Group, Node, Time};
use crate::pack::{Demand, Packing};
use crate::plan::{Binding, Fate, NodeVerdict, ScaleDown, Target};
use crate::populate::populate;
use crate::reason::{Explanation, Reason};
use crate::state::{NodeId, State};
use evict::Budgets;

const PROTECTIONS: [&str; 3] = [
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "karpenter.sh/do-not-disrupt",
    "autoscaler.vpsie.com/do-not-delete",
];

/// Which nodes to give back, and why the others stay.
pub fn scale_down(cluster: &Cluster) -> ScaleDown {
    let board = build(cluster);
    let (mut state, waiting) = populate(&board);
    // Pods that wait and fit keep their room.
    let nothing = Market::new(&board, Vec::new());
    let demands: Vec<Demand> = waiting
        .classes
        .iter()
        .filter(|(class, _)| board.class(*class).refusal.is_none())
        .map(|(class, pods)| Demand { class: *class, count: i64::try_from(pods.len()).unwrap_or(i64::MAX) })
        .collect();
    let puts = {
        let mut packing = Packing::new(&mut state, &nothing, Ledger::new(&board));
        packing.settle_existing(&demands);
        std::mem::take(&mut packing.puts)
    };
    state.settle();
    let mut clearing = Clearing::new(&board, state);
    for put in puts {
        clearing.takes[put.node as usize].get_or_insert(NOBODY);
    }
    clearing.run()
}

/// A pod that waits, not a node, is why room is kept.
const NOBODY: u32 = u32::MAX;

struct Clearing<'a> {
    board: &'a Board<'a>,
    state: State<'a>,
    budgets: Budgets,
    /// By node of the input: its pods.
    pods: Vec<Vec<usize>>,
    /// By node: whose pods it takes.
    takes: Vec<Option<u32>>,
    /// By group: nodes that are ready and schedulable.
    ready: Vec<u32>,
    /// Nodes in the order in which they are asked to take pods.
    destinations: Vec<NodeId>,
    removed: Vec<bool>,
    plan: ScaleDown,
}

impl<'a> Clearing<'a> {
    fn new(board: &'a Board<'a>, state: State<'a>) -> Self {
        let input = board.input;
        let names: Map<&str, usize> =
            input.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let mut pods = vec![Vec::new(); input.nodes.len()];
        for (at, pod) in input.pods.iter().enumerate() {
            if let Some(node) = pod.node.as_ref().and_then(|name| names.get(name.as_str())) {
                pods[*node].push(at);
            }
        }
        let mut ready = vec![0; input.groups.len()];
        for (node, kind) in input.nodes.iter().zip(&board.nodes) {
            if let Some(group) = kind.group.filter(|_| counts(node)) {
                ready[group] += 1;
            }
        }
        Self {
            board,
            budgets: Budgets::new(input),
            pods,
            takes: vec![None; state.places.len()],
            ready,
            destinations: Vec::new(),
            removed: vec![false; input.nodes.len()],
            state,
            plan: ScaleDown::default(),
        }
    }

    fn run(mut self) -> ScaleDown {
        let nodes = &self.board.input.nodes;
        let mut verdicts: Vec<Option<NodeVerdict>> = Vec::with_capacity(nodes.len());
        let mut candidates: Vec<(bool, i64, usize)> = Vec::new();
        for at in 0..nodes.len() {
            let keep = self.stays(at);
            if keep.is_none() {
                let empty = !self.pods[at].iter().any(|pod| evict::moves(self.board, *pod));
                candidates.push((!empty, self.percent(at, CPU).max(self.percent(at, MEMORY)), at));
            }
            verdicts.push(keep.map(|reason| NodeVerdict { node: at, fate: Fate::Keep, reason }));
        }
        candidates.sort_unstable();
        // Those that stay anyway take pods first, then those that would go last.
        let staying = (0..nodes.len()).filter(|at| verdicts[*at].is_some());
        let going = candidates.iter().rev().map(|(_, _, at)| *at);
        self.destinations = staying.chain(going).filter_map(|at| u32::try_from(at).ok()).collect();
        for (_, _, at) in candidates {
            verdicts[at] = Some(self.consider(at));
        }
        self.plan.nodes = verdicts.into_iter().flatten().collect();
        self.plan
    }

    fn group(&self, at: usize) -> Option<(usize, &'a Group)> {
        self.board.nodes[at].group.map(|group| (group, &self.board.input.groups[group]))
    }

    /// What speaks against giving a node back before anything is tried.
    fn stays(&self, at: usize) -> Option<Reason> {
        let node = &self.board.input.nodes[at];
        let Some((_, group)) = self.group(at) else { return Some(Reason::NotInGroup) };
        let set = |key: &&&str| node.annotations.get(**key).is_some_and(|value| value == "true");
        let protection = PROTECTIONS.iter().find(set);
        match () {
            () if group.paused => Some(Reason::GroupPaused),
            () if !group.scale_down.enabled => Some(Reason::ScaleDownDisabled),
            () if node.draining => Some(Reason::Leaving),
            () if protection.is_some() => {
                protection.map(|key| Reason::NodeProtected { annotation: (*key).to_owned() })
            }
            () if self.board.nodes[at].booting => Some(Reason::Booting),
            () if !node.ready => Some(Reason::NotReady),
            () if node.unschedulable => Some(Reason::Cordoned),
            () => self.busy(at, group),
        }
    }

    fn percent(&self, at: usize, resource: usize) -> i64 {
        let size = self.board.nodes[at].allocatable[resource].max(1);
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        (size - self.state.free(number)[resource]) * 100 / size
    }

    fn busy(&self, at: usize, group: &Group) -> Option<Reason> {
        let node = &self.board.input.nodes[at];
        let size = &self.board.nodes[at].allocatable;
        for (resource, threshold) in
            [(CPU, group.scale_down.cpu_threshold), (MEMORY, group.scale_down.memory_threshold)]
        {
            let name = self.board.resources[resource].clone();
            let percent = self.percent(at, resource);
            if percent >= threshold {
                return Some(Reason::RequestsAbove { resource: name, percent, threshold });
            }
            if let Some(usage) = node.usage {
                let used = if resource == CPU { usage.cpu } else { usage.memory };
                let percent = used * 100 / size[resource].max(1);
                if percent >= threshold {
                    return Some(Reason::NodeUsageAbove { resource: name, percent, threshold });
                }
            }
        }
        None
    }

    fn consider(&mut self, at: usize) -> NodeVerdict {
        let keep = |reason| NodeVerdict { node: at, fate: Fate::Keep, reason };
        let input = self.board.input;
        let Some((number, group)) = self.group(at) else { return keep(Reason::NotInGroup) };
        if self.ready[number] <= group.min {
            return keep(Reason::AtMinimum { ready: self.ready[number], min: group.min });
        }
        if let Some(from) = self.takes[at] {
            let node = input.nodes.get(from as usize).map_or("pods that wait", |node| node.name.as_str());
            return keep(Reason::TakesPodsOf { node: node.to_owned() });
        }
        if let Some(reason) = self.trigger(at, number, group) {
            return keep(reason);
        }
        let moving: Vec<usize> =
            self.pods[at].iter().copied().filter(|pod| evict::moves(self.board, *pod)).collect();
        if let Some(reason) = moving.iter().find_map(|pod| evict::objection(input, &input.pods[*pod])) {
            return keep(reason);
        }
        if let Some(reason) = self.budgets.objection(input, &moving) {
            return keep(reason);
        }
        let mark = self.state.mark();
        let moves = match self.clear(at, &moving) {
            Ok(moves) => moves,
            Err(reason) => {
                self.state.rollback(mark);
                return keep(reason);
            }
        };
        let node = &input.nodes[at];
        let since = node.unneeded_since.unwrap_or(input.now);
        if let Some(reason) = waits(group, since, input.now) {
            self.state.rollback(mark);
            return NodeVerdict { node: at, fate: Fate::Unneeded { since }, reason };
        }
        self.state.settle();
        self.budgets.take(input, &moving);
        self.ready[number] -= 1;
        self.removed[at] = true;
        let from = u32::try_from(at).unwrap_or(NOBODY);
        for binding in &moves {
            let to = match binding.target {
                Target::Node(to) => to,
                Target::Machine(to) | Target::New(to) => input.nodes.len() + to,
            };
            self.takes[to].get_or_insert(from);
        }
        self.plan.removed.push(at);
        self.plan.moves.extend(moves);
        self.plan.saved +=
            self.board.nodes[at].offering.map_or(0, |offering| group.offerings[offering].price);
        let pods = u32::try_from(moving.len()).unwrap_or(u32::MAX);
        let reason = if pods == 0 { Reason::Empty } else { Reason::PodsFitElsewhere { pods } };
        NodeVerdict { node: at, fate: Fate::Remove, reason }
    }

    /// Takes the pods off a node and finds a place for each elsewhere.
    fn clear(&mut self, at: usize, moving: &[usize]) -> Result<Vec<Binding>, Reason> {
        let from = u32::try_from(at).unwrap_or(u32::MAX);
        for pod in moving {
            self.state.remove(self.board.pod_class[*pod], from);
        }
        self.state.close(from, false);
        let mut moves = Vec::with_capacity(moving.len());
        // Pods of a class go where the last one went, as long as there is room.
        let mut next: Map<ClassId, usize> = Map::default();
        for pod in moving {
            let class = self.board.pod_class[*pod];
            let plain = self.state.repeats(class);
            let start = if plain { next.get(&class).copied().unwrap_or(0) } else { 0 };
            let found =
                (start..self.destinations.len()).find(|to| self.state.fits(class, self.destinations[*to]));
            let Some(found) = found.filter(|_| self.board.class(class).refusal.is_none()) else {
                return Err(self.nowhere(*pod, from));
            };
            let to = self.destinations[found];
            self.state.place(class, to, 1);
            next.insert(class, found);
            moves.push(Binding { pod: *pod, target: crate::up::target(self.board, to) });
        }
        Ok(moves)
    }

    /// The most telling objection: of a node that is open and agrees with the pod, if there is one.
    fn nowhere(&self, pod: usize, from: NodeId) -> Reason {
        let class = self.board.pod_class[pod];
        let nodes = &self.board.input.nodes;
        let open = |to: &&NodeId| **to != from && self.state.places[**to as usize].open;
        let agreeing =
            |to: &&NodeId| open(to) && self.board.agrees(class, self.state.places[**to as usize].class);
        let told = self.destinations.iter().find(agreeing).or_else(|| self.destinations.iter().find(open));
        let because = told.and_then(|to| {
            let reason = self.state.objection(class, *to)?;
            Some(Explanation::node(&nodes[*to as usize].name, reason))
        });
        let because =
            because.unwrap_or_else(|| Explanation::node(&nodes[from as usize].name, Reason::NoReadyNodes));
        Reason::PodFitsNowhere { pod: self.board.input.pods[pod].name.clone(), because: Box::new(because) }
    }

    /// Without the node the group's measured usage would make it grow again.
    fn trigger(&self, at: usize, number: usize, group: &Group) -> Option<Reason> {
        let input = self.board.input;
        let (mut used, mut size) = ([0i64; 2], [0i64; 2]);
        for (other, node) in input.nodes.iter().enumerate() {
            if self.board.nodes[other].group != Some(number) || !node.ready {
                continue;
            }
            let usage = node.usage?;
            used[0] += usage.cpu;
            used[1] += usage.memory;
            if other != at && !self.removed[other] {
                size[0] += node.allocatable.cpu;
                size[1] += node.allocatable.memory;
            }
        }
        let percent = |which: usize| used[which] * 100 / size[which].max(1);
        let hot = |percent: i64, threshold: i64| threshold > 0 && percent >= threshold;
        let fires = size[0] > 0
            && group.scale_up.enabled
            && (hot(percent(0), group.scale_up.cpu_threshold)
                || hot(percent(1), group.scale_up.memory_threshold));
        fires.then(|| Reason::TriggerWouldFire { cpu_percent: percent(0), memory_percent: percent(1) })
    }
}

/// Counts towards the minimum of its group.
fn counts(node: &Node) -> bool {
    node.ready && !node.unschedulable && !node.draining
}

/// Until when a node that could go must wait.
fn waits(group: &Group, since: Time, now: Time) -> Option<Reason> {
    let last = group.last_scale_up.max(group.last_scale_down);
    if let Some(until) = last.map(|last| last + group.scale_down.window).filter(|until| *until > now) {
        return Some(Reason::ScaleDownPause { until });
    }
    let until = since + group.scale_down.unneeded_time;
    (until > now).then_some(Reason::UnneededSince { since, until })
}
