//! Scale-down: which nodes can go, proven by a place for each of their pods.

use crate::board::{Board, CPU, ClassId, MEMORY, build};
use crate::clear::{Clearing, Guest, pause, with_room_kept};
use crate::intern::Map;
use crate::model::{Cluster, Group, Time};
use crate::pack::Put;
use crate::plan::{Binding, Fate, NodeVerdict, ScaleDown, Target};
use crate::reason::Reason;

/// Which nodes to give back, and why the others stay.
pub fn scale_down(cluster: &Cluster) -> ScaleDown {
    let board = build(cluster);
    let (clearing, _) = with_room_kept(&board);
    Down { board: &board, clearing, plan: ScaleDown::default() }.run()
}

struct Down<'a> {
    board: &'a Board<'a>,
    clearing: Clearing<'a>,
    plan: ScaleDown,
}

impl Down<'_> {
    fn run(mut self) -> ScaleDown {
        let nodes = self.board.input.nodes.len();
        let mut verdicts: Vec<Option<NodeVerdict>> = Vec::with_capacity(nodes);
        let mut candidates: Vec<(bool, i64, usize)> = Vec::new();
        for at in 0..nodes {
            let keep = self.clearing.stays(at, |_| None).or_else(|| self.busy(at));
            if keep.is_none() {
                let empty = self.clearing.moving[at].is_empty();
                candidates.push((!empty, self.percent(at, CPU).max(self.percent(at, MEMORY)), at));
            }
            verdicts.push(keep.map(|reason| NodeVerdict { node: at, fate: Fate::Keep, reason }));
        }
        candidates.sort_unstable();
        // Those that stay anyway take pods first, then those that would go last.
        let staying = (0..nodes).filter(|at| verdicts[*at].is_some() && self.clearing.may_take(*at));
        let going = candidates.iter().rev().map(|(_, _, at)| *at);
        self.clearing.destinations = staying.chain(going).filter_map(|at| u32::try_from(at).ok()).collect();
        for (_, _, at) in candidates {
            verdicts[at] = Some(self.consider(at));
        }
        self.plan.nodes = verdicts.into_iter().flatten().collect();
        self.plan
    }

    fn percent(&self, at: usize, resource: usize) -> i64 {
        let size = self.board.nodes[at].allocatable[resource].max(1);
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        (size - self.clearing.state.free(number)[resource]) * 100 / size
    }

    fn busy(&self, at: usize) -> Option<Reason> {
        let (_, group) = self.clearing.group(at)?;
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
        let clearing = &mut self.clearing;
        let Some((number, group)) = clearing.group(at) else { return keep(Reason::NotInGroup) };
        if clearing.ready[number] <= group.min {
            return keep(Reason::AtMinimum { ready: clearing.ready[number], min: group.min });
        }
        let objection = clearing
            .needed(at)
            .or_else(|| clearing.trigger(number, &[at], [0, 0]))
            .or_else(|| clearing.pinned(at))
            .or_else(|| clearing.evictions.over_budget(&clearing.moving[at]));
        if let Some(reason) = objection {
            return keep(reason);
        }
        let mark = clearing.state.mark();
        let moves = match clear(clearing, at) {
            Ok(moves) => moves,
            Err(reason) => {
                clearing.state.rollback(mark);
                return keep(reason);
            }
        };
        let puts: Vec<Put> = moves.iter().map(|(_, put)| *put).collect();
        if let Some(reason) = clearing.alone(&[at], &[], &puts, false) {
            clearing.state.rollback(mark);
            return keep(reason);
        }
        let since = input.nodes[at].unneeded_since.unwrap_or(input.now);
        if let Some(reason) = waits(group, since, input.now) {
            clearing.state.rollback(mark);
            return NodeVerdict { node: at, fate: Fate::Unneeded { since }, reason };
        }
        clearing.state.settle();
        clearing.alone(&[at], &[], &puts, true);
        clearing.give_back(at);
        for put in &puts {
            clearing.guests[put.node as usize].get_or_insert(Guest::From(at));
        }
        let pods = u32::try_from(moves.len()).unwrap_or(u32::MAX);
        self.plan.removed.push(at);
        let binding = |(pod, put): (usize, Put)| Binding { pod, target: Target::Node(put.node as usize) };
        self.plan.moves.extend(moves.into_iter().map(binding));
        self.plan.saved +=
            self.board.nodes[at].offering.map_or(0, |offering| group.offerings[offering].price);
        let reason = if pods == 0 { Reason::Empty } else { Reason::PodsFitElsewhere { pods } };
        NodeVerdict { node: at, fate: Fate::Remove, reason }
    }
}

/// Takes the pods off a node and finds a place for each elsewhere.
fn clear(clearing: &mut Clearing<'_>, at: usize) -> Result<Vec<(usize, Put)>, Reason> {
    clearing.vacate(&[at]);
    let board = clearing.board;
    let mut moves = Vec::with_capacity(clearing.moving[at].len());
    // Pods of a class go where the last one went, as long as there is room.
    let mut next: Map<ClassId, usize> = Map::default();
    for pod in &clearing.moving[at] {
        let class = board.pod_class[*pod];
        let plain = clearing.state.repeats(class);
        let start = if plain { next.get(&class).copied().unwrap_or(0) } else { 0 };
        let destinations = &clearing.destinations;
        let found = (start..destinations.len()).find(|to| clearing.state.fits(class, destinations[*to]));
        let Some(found) = found.filter(|_| board.class(class).refusal.is_none()) else {
            return Err(clearing.nowhere(*pod, at));
        };
        let to = destinations[found];
        clearing.state.place(class, to, 1);
        next.insert(class, found);
        moves.push((*pod, Put { class, node: to, count: 1 }));
    }
    Ok(moves)
}

/// Until when a node that could go must wait.
fn waits(group: &Group, since: Time, now: Time) -> Option<Reason> {
    let until = since + group.scale_down.unneeded_time;
    pause(group, now).or_else(|| (until > now).then_some(Reason::UnneededSince { since, until }))
}
