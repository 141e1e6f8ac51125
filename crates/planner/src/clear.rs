//! Emptying nodes: what speaks against it, and a place elsewhere for each of their pods. Scale-down and consolidation
//! stand on it.

use crate::board::{Board, Class, ClassId, Life};
use crate::evict::Evictions;
use crate::intern::Map;
use crate::market::{Ledger, Market};
use crate::model::{Group, Node, ScaleDownPolicy, Time};
use crate::pack::{Demand, Put};
use crate::populate::{Waiting, populate};
use crate::reason::{Explanation, Reason};
use crate::state::{Law, NodeId, State, TemplateId};
use crate::up::choice;

const PROTECTIONS: [&str; 3] = [
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "karpenter.sh/do-not-disrupt",
    "autoscaler.vpsie.com/do-not-delete",
];

/// Why a node must stay for others.
#[derive(Clone, Copy)]
pub(crate) enum Guest {
    /// A pod that waits has its room there.
    Waiting(usize),
    /// A node that goes has its pods there.
    From(usize),
}

pub(crate) struct Clearing<'a> {
    pub board: &'a Board<'a>,
    pub state: State<'a>,
    /// The same without the pods that wait, where that can make a difference: nobody may count on their company before
    /// the scheduler bound them.
    bare: Option<State<'a>>,
    /// Pods that wait, those that fit nowhere among them.
    pub wait_for_room: Vec<(ClassId, Vec<usize>)>,
    /// Where pods that wait have their room, with the first of them.
    pub promised: Vec<(Put, usize)>,
    pub evictions: Evictions<'a>,
    /// By node of the input: pods that need another place when it goes.
    pub moving: Vec<Vec<usize>>,
    /// By node: who must find it there.
    pub guests: Vec<Option<Guest>>,
    /// By group: nodes that are ready and schedulable, and stay.
    pub ready: Vec<u32>,
    /// Nodes in the order in which they are asked to take pods.
    pub destinations: Vec<NodeId>,
    /// By group.
    pub measured: Vec<Option<Measured>>,
}

/// Measured usage of a group's ready nodes, and the size of those of them that stay.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    pub used: [i64; 2],
    pub size: [i64; 2],
}

/// Pods that wait and fit keep their room. The second are those that fit nowhere.
pub(crate) fn with_room_kept<'a>(board: &'a Board<'a>) -> (Clearing<'a>, Vec<(ClassId, usize)>) {
    let (mut state, waiting) = populate(board);
    let demands = demands(board, &waiting.classes);
    let (puts, left) = if demands.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        // As the scale-up sees it: what it would find room for must not have to buy any afterwards.
        let gates = choice::gates(board);
        let market = Market::new(board, choice::open_templates(board, &gates));
        let served = crate::up::settle(&mut state, &market, &Ledger::new(board), &demands);
        (served.puts, served.left)
    };
    state.settle();
    let counted =
        |class: &Class| !class.affinity.is_empty() || !class.spread.is_empty() || !class.volumes.is_empty();
    let bare = (!puts.is_empty() && board.classes.iter().any(counted)).then(|| populate(board).0);
    let mut clearing = Clearing::new(board, state, bare);
    clearing.note_guests(&waiting, &puts);
    let last = |class: ClassId| {
        let pods = waiting.classes.iter().find(|(own, _)| *own == class)?;
        pods.1.last().map(|pod| (class, *pod))
    };
    let left = left.iter().filter_map(|demand| last(demand.class)).collect();
    clearing.wait_for_room = waiting.classes;
    (clearing, left)
}

/// Of pods that a node can help.
pub(crate) fn demands(board: &Board<'_>, classes: &[(ClassId, Vec<usize>)]) -> Vec<Demand> {
    classes
        .iter()
        .filter(|(class, _)| board.class(*class).refusal.is_none())
        .map(|(class, pods)| Demand { class: *class, count: i64::try_from(pods.len()).unwrap_or(i64::MAX) })
        .collect()
}

impl<'a> Clearing<'a> {
    fn new(board: &'a Board<'a>, state: State<'a>, bare: Option<State<'a>>) -> Self {
        let input = board.input;
        let mut moving = vec![Vec::new(); input.nodes.len()];
        for (at, _) in board.pod_life.iter().enumerate().filter(|(_, life)| **life == Life::Runs) {
            moving[board.pod_node[at] as usize].push(at);
        }
        let mut ready = vec![0; input.groups.len()];
        for (node, kind) in input.nodes.iter().zip(&board.nodes) {
            if let Some(group) = kind.group.filter(|_| counts(node)) {
                ready[group] += 1;
            }
        }
        Self {
            board,
            evictions: Evictions::new(input),
            moving,
            guests: vec![None; input.nodes.len()],
            ready,
            destinations: Vec::new(),
            measured: measured(board),
            state,
            bare,
            wait_for_room: Vec::new(),
            promised: Vec::new(),
        }
    }

    fn note_guests(&mut self, waiting: &Waiting, puts: &[Put]) {
        for (pod, reason) in &waiting.ignored {
            if let Reason::Nominated { node } = reason
                && let Some(at) = self.board.input.nodes.iter().position(|own| own.name == *node)
            {
                self.guests[at].get_or_insert(Guest::Waiting(*pod));
            }
        }
        let mut next: Map<ClassId, usize> = Map::default();
        for put in puts {
            let first = next.entry(put.class).or_insert(0);
            let pods = waiting.classes.iter().find(|(class, _)| *class == put.class);
            let pod = pods.and_then(|(_, pods)| pods.get(*first));
            *first += usize::try_from(put.count).unwrap_or(0);
            let Some(pod) = pod else { continue };
            self.promised.push((*put, *pod));
            if let Some(guest) = self.guests.get_mut(put.node as usize) {
                guest.get_or_insert(Guest::Waiting(*pod));
            }
        }
    }

    pub fn group(&self, at: usize) -> Option<(usize, &'a Group)> {
        self.board.nodes[at].group.map(|group| (group, &self.board.input.groups[group]))
    }

    /// What speaks against giving a node back, whatever runs on it. Its group comes first: `settings` says whether that
    /// one may give nodes back in this way.
    pub fn stays(&self, at: usize, settings: impl Fn(&Group) -> Option<Reason>) -> Option<Reason> {
        let node = &self.board.input.nodes[at];
        let Some((_, group)) = self.group(at) else { return Some(Reason::NotInGroup) };
        if group.paused {
            return Some(Reason::GroupPaused);
        }
        if let Some(reason) = settings(group) {
            return Some(reason);
        }
        if !group.scale_down.enabled {
            return Some(Reason::ScaleDownDisabled);
        }
        let set = |key: &&&str| node.annotations.get(**key).is_some_and(|value| value == "true");
        let protection = PROTECTIONS.iter().find(set);
        match () {
            () if node.draining => Some(Reason::Leaving),
            () if protection.is_some() => {
                protection.map(|key| Reason::NodeProtected { annotation: (*key).to_owned() })
            }
            () if self.board.nodes[at].booting => Some(Reason::Booting),
            () if !node.ready => Some(Reason::NotReady),
            () if node.unschedulable => Some(Reason::Cordoned),
            () => None,
        }
    }

    /// Somebody needs the node.
    pub fn needed(&self, at: usize) -> Option<Reason> {
        let input = self.board.input;
        self.guests[at].map(|guest| match guest {
            Guest::Waiting(pod) => Reason::PendingPodsNeedIt { pod: input.pods[pod].name.clone() },
            Guest::From(node) => Reason::TakesPodsOf { node: input.nodes[node].name.clone() },
        })
    }

    /// A pod of the node must not be evicted, budgets aside.
    pub fn pinned(&self, at: usize) -> Option<Reason> {
        let pods = &self.board.input.pods;
        self.moving[at].iter().find_map(|pod| self.evictions.objection(&pods[*pod]))
    }

    /// A ready node that may be asked to take pods: what still starts may never come up.
    pub fn may_take(&self, at: usize) -> bool {
        !self.board.nodes[at].booting
    }

    /// Takes the pods off nodes that go, and nothing is put there any more.
    pub fn vacate(&mut self, nodes: &[usize]) {
        vacate(&mut self.state, &self.moving, nodes);
    }

    /// Pods that wait may be bound before these nodes are emptied or after it: what keeps the second from being as good
    /// as the first. If nothing does and it is `done`, it is so from now on.
    pub fn alone(
        &mut self,
        nodes: &[usize],
        machines: &[TemplateId],
        puts: &[Put],
        done: bool,
    ) -> Option<Reason> {
        let bare = self.bare.as_mut()?;
        bare.law = Law::Planned;
        let mark = bare.mark();
        vacate(bare, &self.moving, nodes);
        for template in machines {
            bare.open_standing(*template);
        }
        let input = self.board.input;
        if let Err((put, reason)) = put_all(bare, puts.iter()) {
            bare.rollback(mark);
            let pods = nodes.iter().flat_map(|at| &self.moving[*at]);
            let pod = pods.copied().find(|pod| self.board.pod_class[*pod] == put.class)?;
            let node = input.nodes.get(put.node as usize).map_or("new", |node| node.name.as_str());
            let because = Box::new(Explanation::node(node, reason));
            return Some(Reason::PodFitsNowhere { pod: input.pods[pod].name.clone(), because });
        }
        let moved = bare.mark();
        let kept = put_all(bare, self.promised.iter().map(|(put, _)| put));
        bare.rollback(if kept.is_ok() && done { moved } else { mark });
        if done {
            bare.settle();
        }
        let (put, _) = kept.err()?;
        let (_, pod) = self.promised.iter().find(|(own, _)| *own == put)?;
        Some(Reason::PendingPodsNeedIt { pod: input.pods[*pod].name.clone() })
    }

    /// Without these nodes, and with so much more, the group's measured usage would make it grow again. Where usage is
    /// not measured the trigger rests; what it bought before is kept until it is known whether it is still needed.
    pub fn trigger(&self, number: usize, without: &[usize], more: [i64; 2]) -> Option<Reason> {
        let input = self.board.input;
        let policy = &input.groups[number].scale_up;
        if !policy.enabled {
            return None;
        }
        let mut of_group = without.iter().filter(|at| self.board.nodes[**at].group == Some(number));
        let Some(Measured { used, size }) = self.measured[number] else {
            let bought = of_group.any(|at| input.nodes[*at].bought_by_usage);
            return bought.then_some(Reason::NoMeasurements);
        };
        let mut size = [size[0] + more[0], size[1] + more[1]];
        for at in of_group {
            size[0] -= input.nodes[*at].allocatable.cpu;
            size[1] -= input.nodes[*at].allocatable.memory;
        }
        let percent = |which: usize| used[which] * 100 / size[which].max(1);
        let hot = |percent: i64, threshold: i64| threshold > 0 && percent >= threshold;
        let fires = size[0] > 0
            && size[1] > 0
            && (hot(percent(0), policy.cpu_threshold) || hot(percent(1), policy.memory_threshold));
        fires.then(|| Reason::TriggerWouldFire { cpu_percent: percent(0), memory_percent: percent(1) })
    }

    /// The node goes, for all that is asked after it.
    pub fn give_back(&mut self, at: usize) {
        self.evictions.spend(&self.moving[at]);
        let Some(number) = self.board.nodes[at].group else { return };
        self.ready[number] -= 1;
        if let Some(measured) = &mut self.measured[number] {
            measured.size[0] -= self.board.input.nodes[at].allocatable.cpu;
            measured.size[1] -= self.board.input.nodes[at].allocatable.memory;
        }
    }

    /// The most telling objection: of a node that is open and agrees with the pod, if there is one.
    pub fn nowhere(&self, pod: usize, from: usize) -> Reason {
        let input = self.board.input;
        let class = self.board.pod_class[pod];
        let open = |to: &&NodeId| **to as usize != from && self.state.places[**to as usize].open;
        let agreeing =
            |to: &&NodeId| open(to) && self.board.agrees(class, self.state.places[**to as usize].class);
        let told = self.destinations.iter().find(agreeing).or_else(|| self.destinations.iter().find(open));
        let because = told.and_then(|to| {
            let reason = self.state.objection(class, *to)?;
            Some(Explanation::node(&input.nodes[*to as usize].name, reason))
        });
        let because =
            because.unwrap_or_else(|| Explanation::node(&input.nodes[from].name, Reason::NoReadyNodes));
        Reason::PodFitsNowhere { pod: input.pods[pod].name.clone(), because: Box::new(because) }
    }
}

/// Room is not asked for: it is kept elsewhere.
fn put_all<'p>(state: &mut State<'_>, puts: impl Iterator<Item = &'p Put>) -> Result<(), (Put, Reason)> {
    for put in puts {
        for _ in 0..put.count {
            if !state.suits(put.class, put.node) {
                let reason = state.objection(put.class, put.node);
                return Err((*put, reason.unwrap_or(Reason::NotReady)));
            }
            state.place(put.class, put.node, 1);
        }
    }
    Ok(())
}

fn vacate(state: &mut State<'_>, moving: &[Vec<usize>], nodes: &[usize]) {
    for at in nodes {
        let number = u32::try_from(*at).unwrap_or(u32::MAX);
        for pod in &moving[*at] {
            state.remove(state.board.pod_class[*pod], number);
        }
        state.close(number, false);
    }
}

/// Counts towards the minimum of its group.
fn counts(node: &Node) -> bool {
    node.ready && !node.unschedulable && !node.draining
}

/// None for a group with a ready node whose usage is not known.
fn measured(board: &Board<'_>) -> Vec<Option<Measured>> {
    let mut groups = vec![Some(Measured::default()); board.input.groups.len()];
    for (node, kind) in board.input.nodes.iter().zip(&board.nodes) {
        let Some(number) = kind.group.filter(|_| node.ready) else { continue };
        // What runs on nodes that go will be on the others soon.
        groups[number] = groups[number].zip(node.usage).map(|(mut sum, usage)| {
            sum.used[0] += usage.cpu;
            sum.used[1] += usage.memory;
            if !node.draining {
                sum.size[0] += node.allocatable.cpu;
                sum.size[1] += node.allocatable.memory;
            }
            sum
        });
    }
    groups
}

/// Until when a group rests after it was scaled.
pub(crate) fn pause(group: &Group, now: Time) -> Option<Reason> {
    let ScaleDownPolicy { window, cooldown, .. } = group.scale_down;
    let grew = group.last_scale_up.map(|last| last + window);
    let shrank = group.last_scale_down.map(|last| last + window.max(cooldown));
    let until = grew.max(shrank).filter(|until| *until > now);
    until.map(|until| Reason::ScaleDownPause { until })
}
