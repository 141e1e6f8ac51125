//! Scale-down: which nodes can go, proven by a place for each of their pods.

use crate::board::{Board, CPU, ClassId, MEMORY, build};
use crate::clear::{Clearing, Guest, pause, with_room_kept};
use crate::intern::Map;
use crate::model::{Cluster, Group, Time};
use crate::pack::Put;
use crate::plan::{Binding, Fate, NodeVerdict, ScaleDown, Target};
use crate::reason::Reason;
use crate::regrow::{Step, regretted};

/// So many times it goes on behind a node that the scale-up would buy again.
const ROUNDS: usize = 8;
/// And not when it has looked at more candidates again than this, and than there are.
const LOOKS: usize = 512;

/// Which nodes to give back, and why the others stay.
pub fn scale_down(cluster: &Cluster) -> ScaleDown {
    let board = build(cluster);
    let mut coveted = Map::default();
    let mut taken: Vec<Taken> = Vec::new();
    let mut before: Vec<NodeVerdict> = Vec::new();
    let mut rest = None;
    let (mut round, mut looks) = (0, 0);
    loop {
        let (clearing, _) = with_room_kept(&board);
        let good = taken.len();
        let mut down = Down {
            board: &board,
            clearing,
            coveted,
            rest,
            full: Map::default(),
            taken,
            looks,
            plan: ScaleDown::default(),
        };
        down.run(&before);
        if down.rest.is_some() {
            return down.finish();
        }
        let Some((first, reason)) = down.regretted(good) else { return down.finish() };
        (coveted, looks, taken, before) = (down.coveted, down.looks, down.taken, down.plan.nodes);
        coveted.insert(taken[first].node, reason.clone());
        taken.truncate(first);
        round += 1;
        rest = (round > ROUNDS || looks > LOOKS.max(board.nodes.len())).then_some(reason);
    }
}

/// A node that goes.
struct Taken {
    node: usize,
    moves: Moves,
    /// See `Down`.
    full: Map<ClassId, usize>,
}

struct Down<'a> {
    board: &'a Board<'a>,
    clearing: Clearing<'a>,
    /// Nodes without which the scale-up would buy more, and the reason for it.
    coveted: Map<usize, Reason>,
    /// Enough was looked at: everything behind those that are known to go stays for this reason.
    rest: Option<Reason>,
    /// By class: so many of the first destinations have no room for it, and will have none.
    full: Map<ClassId, usize>,
    /// Nodes that go. Those that are there at the beginning are known to be missed by nobody.
    taken: Vec<Taken>,
    looks: usize,
    plan: ScaleDown,
}

impl Down<'_> {
    /// What was said of nodes `before` holds up to the first that is coveted since.
    fn run(&mut self, before: &[NodeVerdict]) {
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
        let mut known = std::mem::take(&mut self.taken).into_iter().peekable();
        let mut news = before.is_empty();
        for (_, _, at) in candidates {
            let verdict = match known.next_if(|taken| taken.node == at) {
                Some(taken) => {
                    self.clearing.vacate(&[at]);
                    for (_, put) in &taken.moves {
                        self.clearing.state.place(put.class, put.node, put.count);
                    }
                    self.carry_out(taken)
                }
                None => {
                    news |= before.get(at).is_none_or(|verdict| verdict.fate == Fate::Remove);
                    if news { self.consider(at, before.get(at)) } else { before[at].clone() }
                }
            };
            verdicts[at] = Some(verdict);
        }
        self.plan.nodes = verdicts.into_iter().flatten().collect();
    }

    /// The first node that goes although the scale-up would buy another for it, and why it stays therefore.
    fn regretted(&self, good: usize) -> Option<(usize, Reason)> {
        let moves: Vec<Vec<Binding>> = self.taken.iter().map(|taken| bindings(&taken.moves)).collect();
        let nodes: Vec<usize> = self.taken.iter().map(|taken| taken.node).collect();
        let steps: Vec<Step<'_>> =
            nodes.chunks(1).zip(&moves).map(|(nodes, moves)| Step { nodes, machines: &[], moves }).collect();
        regretted(self.board, &self.clearing.wait_for_room, &steps, good)
    }

    fn finish(mut self) -> ScaleDown {
        for taken in &self.taken {
            self.plan.removed.push(taken.node);
            self.plan.moves.extend(bindings(&taken.moves));
            let offering = self.board.nodes[taken.node].offering.zip(self.clearing.group(taken.node));
            self.plan.saved += offering.map_or(0, |(offering, (_, group))| group.offerings[offering].price);
        }
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

    fn consider(&mut self, at: usize, before: Option<&NodeVerdict>) -> NodeVerdict {
        let keep = |reason| NodeVerdict { node: at, fate: Fate::Keep, reason };
        let input = self.board.input;
        let clearing = &mut self.clearing;
        let Some((number, group)) = clearing.group(at) else { return keep(Reason::NotInGroup) };
        if clearing.ready[number] <= group.min {
            return keep(Reason::AtMinimum { ready: clearing.ready[number], min: group.min });
        }
        let coveted = self.coveted.get(&at);
        let objection = clearing
            .needed(at)
            .or_else(|| coveted.cloned())
            .or_else(|| clearing.trigger(number, &[at], [0, 0]))
            .or_else(|| clearing.pinned(at))
            .or_else(|| clearing.evictions.over_budget(&clearing.moving[at]));
        if let Some(reason) = objection {
            return keep(reason);
        }
        let since = input.nodes[at].unneeded_since.unwrap_or(input.now);
        if let Some(reason) = &self.rest {
            // It was found not to be needed, and it may go once those before it are gone.
            return match before {
                Some(NodeVerdict { fate: Fate::Keep, reason: own, .. }) => {
                    keep(if matches!(own, Reason::TakesPodsOf { .. }) { reason.clone() } else { own.clone() })
                }
                Some(NodeVerdict { fate: Fate::Unneeded { .. }, reason: own, .. }) => {
                    NodeVerdict { node: at, fate: Fate::Unneeded { since }, reason: own.clone() }
                }
                _ => NodeVerdict { node: at, fate: Fate::Unneeded { since }, reason: reason.clone() },
            };
        }
        self.looks += 1;
        let mark = clearing.state.mark();
        let (moves, full) = match clear(clearing, at, &self.full) {
            Ok(found) => found,
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
        if let Some(reason) = waits(group, since, input.now) {
            clearing.state.rollback(mark);
            return NodeVerdict { node: at, fate: Fate::Unneeded { since }, reason };
        }
        self.carry_out(Taken { node: at, moves, full })
    }

    /// The node goes: its pods are where they will be already.
    fn carry_out(&mut self, taken: Taken) -> NodeVerdict {
        let clearing = &mut self.clearing;
        let at = taken.node;
        clearing.state.settle();
        self.full.extend(taken.full.iter().map(|(class, first)| (*class, *first)));
        let puts: Vec<Put> = taken.moves.iter().map(|(_, put)| *put).collect();
        clearing.alone(&[at], &[], &puts, true);
        clearing.give_back(at);
        for put in &puts {
            clearing.guests[put.node as usize].get_or_insert(Guest::From(at));
        }
        let pods = u32::try_from(puts.len()).unwrap_or(u32::MAX);
        self.taken.push(taken);
        let reason = if pods == 0 { Reason::Empty } else { Reason::PodsFitElsewhere { pods } };
        NodeVerdict { node: at, fate: Fate::Remove, reason }
    }
}

fn bindings(moves: &Moves) -> Vec<Binding> {
    let binding = |(pod, put): &(usize, Put)| Binding { pod: *pod, target: Target::Node(put.node as usize) };
    moves.iter().map(binding).collect()
}

type Moves = Vec<(usize, Put)>;

/// Takes the pods off a node and finds a place for each elsewhere. If they go there, so many of the first destinations are
/// `full` for them.
fn clear(
    clearing: &mut Clearing<'_>,
    at: usize,
    full: &Map<ClassId, usize>,
) -> Result<(Moves, Map<ClassId, usize>), Reason> {
    clearing.vacate(&[at]);
    let board = clearing.board;
    let mut moves = Vec::with_capacity(clearing.moving[at].len());
    // Pods of a class go where the last one went, as long as there is room.
    let mut next: Map<ClassId, usize> = Map::default();
    for pod in &clearing.moving[at] {
        let class = board.pod_class[*pod];
        // Room for it only becomes less.
        let plain = clearing.state.only_room_matters(class);
        let known = |map: &Map<ClassId, usize>| map.get(&class).copied();
        let start = if plain { known(&next).or_else(|| known(full)).unwrap_or(0) } else { 0 };
        let destinations = &clearing.destinations;
        let found = (start..destinations.len()).find(|to| clearing.state.fits(class, destinations[*to]));
        let Some(found) = found.filter(|_| board.class(class).refusal.is_none()) else {
            return Err(clearing.nowhere(*pod, at));
        };
        let to = destinations[found];
        clearing.state.place(class, to, 1);
        if plain {
            next.insert(class, found);
        }
        moves.push((*pod, Put { class, node: to, count: 1 }));
    }
    Ok((moves, next))
}

/// Until when a node that could go must wait.
fn waits(group: &Group, since: Time, now: Time) -> Option<Reason> {
    let until = since + group.scale_down.unneeded_time;
    pause(group, now).or_else(|| (until > now).then_some(Reason::UnneededSince { since, until }))
}
