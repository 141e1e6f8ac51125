//! Would the scale-up buy again what was given back? A place for every pod is proven before a node goes, but the
//! scale-up finds places in its own way, and what it overlooks it buys. So it is asked, as it will be: while the nodes
//! are on their way out, and once they are gone and their pods wait. Whoever evicts pods does not say where they go, so
//! that no proof can be handed on to whoever finds places for them.
//!
//! It is asked where the cluster is: on the board that there is, with nothing but what changes. Only where that does not
//! tell, a cluster is made as it will be, and the whole scale-up is asked about it.

use crate::board::{Board, Life, seen};
use crate::clear::demands;
use crate::market::{Ledger, Market};
use crate::model::{Cluster, Machine, Node, Owner, OwnerKind, Phase, Pod, Price, Resources, Verdict, keys};
use crate::pack::Demand;
use crate::plan::{Binding, Target};
use crate::populate::populate;
use crate::reason::Reason;
use crate::state::{Law, State, TemplateId, fits_in};
use crate::up::{choice, compare_unserved, scale_up, settle};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// So many pods are looked at by the whole scale-up; where there are more of them it is asked less often.
const WHOLE: usize = 4_000_000;

/// What the scale-up leaves without a place, and what it buys.
struct Appetite {
    unserved: Vec<(i32, i64)>,
    price: Price,
    /// A pod that finds no room on what is there.
    pod: Option<String>,
}

impl Appetite {
    fn of(cluster: &Cluster) -> Self {
        let plan = scale_up(cluster);
        let unplaced = plan.unplaced();
        let mut unserved: BTreeMap<i32, i64> = BTreeMap::new();
        for pod in &unplaced {
            *unserved.entry(cluster.pods[*pod].spec.priority.unwrap_or(0)).or_insert(0) += 1;
        }
        let bought_for = plan.bindings.iter().find(|binding| matches!(binding.target, Target::New(_)));
        let pod = bought_for.map(|binding| binding.pod).or_else(|| unplaced.first().copied());
        Self {
            unserved: unserved.into_iter().rev().collect(),
            price: plan.price,
            pod: pod.map(|pod| cluster.pods[pod].name.clone()),
        }
    }

    fn exceeds(&self, other: &Self) -> bool {
        match compare_unserved(&self.unserved, &other.unserved) {
            Ordering::Greater => true,
            Ordering::Equal => self.price > other.price,
            Ordering::Less => false,
        }
    }
}

/// Nodes that go together.
pub(crate) struct Step<'p> {
    pub nodes: &'p [usize],
    /// What comes before they go.
    pub machines: &'p [TemplateId],
    pub moves: &'p [Binding],
}

/// When the scale-up is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The nodes are on their way out, and the machines on theirs in.
    Leaving,
    /// Nodes and machines came and went, and the pods of the nodes wait.
    Evicted,
    /// The pods of the nodes are where they were to go.
    Bound,
}

const MOMENTS: [Moment; 3] = [Moment::Leaving, Moment::Evicted, Moment::Bound];

/// The first step with which the scale-up would buy more than without any, and why its nodes stay therefore. The first
/// `good` of them are known not to be one.
pub(crate) fn regretted(
    board: &Board<'_>,
    waiting: &[(u32, Vec<usize>)],
    steps: &[Step<'_>],
    good: usize,
) -> Option<(usize, Reason)> {
    if steps.len() <= good || (waiting.is_empty() && steps.iter().all(|step| step.moves.is_empty())) {
        return None;
    }
    let mut asked = Asked::new(board, waiting, steps);
    let (mut good, mut bad) = (good, steps.len());
    let mut pod = asked.objection(&steps[..bad])?;
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match asked.objection(&steps[..middle]) {
            Some(other) => (bad, pod) = (middle, other),
            None => good = middle,
        }
    }
    let waits = waiting.iter().flat_map(|(_, pods)| pods).any(|own| board.input.pods[*own].name == pod);
    Some((good, if waits { Reason::PendingPodsNeedIt { pod } } else { Reason::BoughtAgain { pod } }))
}

struct Asked<'a> {
    board: &'a Board<'a>,
    /// As things are, without the pods that wait.
    state: State<'a>,
    market: Market,
    /// Pods that wait, and those of them that find no room as things are.
    wanted: Vec<Demand>,
    left: Vec<Demand>,
    /// By node of a step: pods that come with it and go with it, and whether they are on their way out already.
    tied: BTreeMap<usize, Vec<(u32, bool)>>,
    before: Option<Appetite>,
    /// Pods that the whole scale-up may still look at.
    budget: usize,
}

impl<'a> Asked<'a> {
    fn new(board: &'a Board<'a>, waiting: &[(u32, Vec<usize>)], steps: &[Step<'_>]) -> Self {
        let (mut state, _) = populate(board);
        let market = Market::new(board, choice::open_templates(board, &choice::gates(board)));
        let wanted = demands(board, waiting);
        let mark = state.mark();
        let left = settle(&mut state, &market, &Ledger::new(board), &wanted).left;
        state.rollback(mark);
        let mut tied: BTreeMap<usize, Vec<(u32, bool)>> =
            steps.iter().flat_map(|step| step.nodes).map(|at| (*at, Vec::new())).collect();
        for (pod, life) in board.pod_life.iter().enumerate() {
            if matches!(life, Life::Tied | Life::Leaving)
                && let Some(pods) = tied.get_mut(&(board.pod_node[pod] as usize))
            {
                pods.push((board.pod_class[pod], *life == Life::Leaving));
            }
        }
        Self { board, state, market, wanted, left, tied, before: None, budget: WHOLE }
    }

    /// A pod for which more would be bought, at any of the moments.
    fn objection(&mut self, steps: &[Step<'_>]) -> Option<String> {
        MOMENTS.iter().find_map(|moment| self.objection_at(*moment, steps))
    }

    fn objection_at(&mut self, moment: Moment, steps: &[Step<'_>]) -> Option<String> {
        if moment == Moment::Bound && self.wanted.is_empty() {
            return None;
        }
        let (served, left) = self.left(moment, steps);
        let alike = looks_alike(self.board, moment, steps);
        // A closer look at few pods may find more room, before or then.
        let few = usize::try_from(served).unwrap_or(usize::MAX) <= self.board.input.settings.search_pods;
        if alike && (left.is_empty() || (!few && left.iter().all(|demand| self.as_before(demand)))) {
            return None;
        }
        let name = |demand: &Demand| {
            let of_class = |pod: &&usize| self.board.pod_class[**pod] == demand.class;
            let moved: Vec<usize> = steps.iter().flat_map(|step| step.moves).map(|own| own.pod).collect();
            moved.iter().find(of_class).map(|pod| self.board.input.pods[*pod].name.clone())
        };
        // What is left is bought for, unless as much was bought before.
        if alike && !few && self.left.is_empty() {
            return Some(left.first().and_then(name).unwrap_or_default());
        }
        let pods = self.board.input.pods.len();
        if self.budget < pods {
            return Some(left.first().and_then(name).unwrap_or_default());
        }
        self.budget -= pods;
        let then = Appetite::of(&afterwards(self.board, moment, steps));
        let before = self.before.get_or_insert_with(|| Appetite::of(self.board.input));
        then.exceeds(before).then(|| then.pod.unwrap_or_default())
    }

    /// No more of them are left than without any step, and nothing can be bought for them.
    fn as_before(&self, demand: &Demand) -> bool {
        let board = self.board;
        let before = self.left.iter().find(|own| own.class == demand.class).map_or(0, |own| own.count);
        demand.count <= before
            && !board.templates.iter().any(|kind| {
                fits_in(&board.class(demand.class).request, &kind.free)
                    && board.agrees(demand.class, kind.class)
            })
    }

    /// How many pods want room then, and what of them finds none.
    fn left(&mut self, moment: Moment, steps: &[Step<'_>]) -> (i64, Vec<Demand>) {
        let board = self.board;
        let state = &mut self.state;
        let mark = state.mark();
        state.law = Law::Planned;
        let mut wanted: BTreeMap<u32, i64> =
            self.wanted.iter().map(|demand| (demand.class, demand.count)).collect();
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        for at in steps.iter().flat_map(|step| step.nodes) {
            state.close(number(*at), false);
        }
        for pod in steps.iter().flat_map(|step| step.moves).map(|binding| binding.pod) {
            state.remove(board.pod_class[pod], board.pod_node[pod]);
            if moment != Moment::Bound {
                *wanted.entry(board.pod_class[pod]).or_insert(0) += 1;
            }
        }
        let first = state.places.len();
        for template in steps.iter().flat_map(|step| step.machines) {
            state.open_standing(*template);
        }
        if moment != Moment::Leaving {
            for at in steps.iter().flat_map(|step| step.nodes) {
                for (class, leaving) in &self.tied[at] {
                    if *leaving {
                        state.remove_leaving(*class, number(*at));
                    } else {
                        state.remove(*class, number(*at));
                    }
                }
                state.withdraw(number(*at));
            }
        }
        if moment == Moment::Bound {
            for binding in steps.iter().flat_map(|step| step.moves) {
                let to = match binding.target {
                    Target::Node(at) => at,
                    Target::Machine(at) => board.input.nodes.len() + at,
                    Target::New(at) => first + at,
                };
                state.place(board.pod_class[binding.pod], number(to), 1);
            }
        }
        let wanted: Vec<Demand> = wanted.into_iter().map(|(class, count)| Demand { class, count }).collect();
        let left = settle(state, &self.market, &Ledger::new(board), &wanted).left;
        state.rollback(mark);
        (wanted.iter().map(|demand| demand.count).sum(), left)
    }
}

/// What could be bought then is what can be bought now: the type that a group keeps to, and the sizes that were seen. New
/// machines are as large as expected.
fn looks_alike(board: &Board<'_>, moment: Moment, steps: &[Step<'_>]) -> bool {
    let machines: Vec<TemplateId> = steps.iter().flat_map(|step| step.machines).copied().collect();
    let mut goes = vec![false; board.nodes.len()];
    let gone = steps.iter().flat_map(|step| step.nodes);
    for at in gone.clone().filter(|_| moment != Moment::Leaving) {
        goes[*at] = true;
    }
    let groups: BTreeSet<usize> = gone
        .filter_map(|at| board.nodes[*at].group)
        .chain(machines.iter().map(|template| board.templates[*template as usize].group))
        .collect();
    let kept = |group: &usize| {
        choice::kept_type(board, *group) == choice::kept_type_among(board, *group, |at| !goes[at], &machines)
    };
    // Machines in flight are asked before or after new ones, depending on whether these are nodes yet.
    let ordered = moment == Moment::Leaving || machines.is_empty() || board.input.machines.is_empty();
    let same_sizes =
        || moment == Moment::Leaving || seen(board.input, |_| true) == seen(board.input, |at| !goes[at]);
    ordered && groups.iter().all(kept) && same_sizes()
}

/// The cluster at that moment.
fn afterwards(board: &Board<'_>, moment: Moment, steps: &[Step<'_>]) -> Cluster {
    let mut after = board.input.clone();
    let machines = steps.iter().flat_map(|step| step.machines).enumerate();
    let mut daemons = Vec::new();
    if moment == Moment::Leaving {
        for (number, template) in machines {
            after.machines.push(in_flight(board, *template, number));
        }
        for at in steps.iter().flat_map(|step| step.nodes) {
            after.nodes[*at].draining = true;
        }
        return after;
    }
    for (number, template) in machines {
        let node = come(board, *template, number);
        daemons.extend(daemons_of(board, *template, &node.name));
        after.nodes.push(node);
    }
    let nodes = board.input.nodes.len();
    for binding in steps.iter().flat_map(|step| step.moves) {
        let to = match binding.target {
            Target::Node(at) => Some(at),
            Target::New(at) => Some(nodes + at),
            Target::Machine(_) => None,
        };
        let to = to.filter(|_| moment == Moment::Bound).map(|to| after.nodes[to].name.clone());
        let pod = &mut after.pods[binding.pod];
        if to.is_none() {
            (pod.phase, pod.verdict, pod.nominated_node) = (Phase::Pending, Verdict::Unschedulable, None);
        }
        pod.node = to;
    }
    let gone: BTreeSet<&str> =
        steps.iter().flat_map(|step| step.nodes).map(|at| board.input.nodes[*at].name.as_str()).collect();
    after.nodes.retain(|node| !gone.contains(node.name.as_str()));
    after.pods.retain(|pod| pod.node.as_ref().is_none_or(|node| !gone.contains(node.as_str())));
    after.pods.extend(daemons);
    after
}

/// No machine and no node of the cluster is called like this.
fn name_of(number: usize) -> String {
    format!("new machine {number}")
}

fn in_flight(board: &Board<'_>, template: TemplateId, number: usize) -> Machine {
    let kind = &board.templates[template as usize];
    let group = &board.input.groups[kind.group];
    let offering = &group.offerings[kind.offering];
    Machine {
        name: name_of(number),
        group: group.name.clone(),
        offering: offering.name.clone(),
        zone: offering.zone.clone(),
        failed: false,
    }
}

/// A new node: as large as others of its kind are seen to be, before daemon sets take theirs.
fn come(board: &Board<'_>, template: TemplateId, number: usize) -> Node {
    let kind = &board.templates[template as usize];
    let group = &board.input.groups[kind.group];
    let offering = &group.offerings[kind.offering];
    let mut labels = crate::board::template_labels(group, offering);
    let name = name_of(number);
    labels.insert(keys::HOSTNAME.to_owned(), name.clone());
    let mut size = kind.free.clone();
    for daemon in &kind.daemons {
        for (size, amount) in size.iter_mut().zip(&board.class(*daemon).request) {
            *size += amount;
        }
    }
    let mut allocatable = Resources::default();
    for (resource, amount) in board.resources.iter().zip(&size) {
        match resource.as_str() {
            "cpu" => allocatable.cpu = *amount,
            "memory" => allocatable.memory = *amount,
            "ephemeral-storage" => allocatable.ephemeral_storage = *amount,
            "pods" => allocatable.pods = *amount,
            _ => drop(allocatable.extended.insert(resource.clone(), *amount)),
        }
    }
    Node {
        name,
        labels,
        taints: crate::board::template_taints(group),
        allocatable,
        ready: true,
        created: board.input.now,
        group: Some(group.name.clone()),
        offering: Some(offering.name.clone()),
        attach_limits: offering.attach_limits.clone(),
        ..Node::default()
    }
}

/// What daemon sets put on a new node.
fn daemons_of(board: &Board<'_>, template: TemplateId, node: &str) -> Vec<Pod> {
    let daemon = |(number, class): (usize, &u32)| {
        let class = board.class(*class);
        let name = format!("{node} daemon {number}");
        Pod {
            namespace: board.symbols.name(class.namespace).to_owned(),
            owner: Some(Owner { kind: OwnerKind::DaemonSet, name: name.clone() }),
            name,
            phase: Phase::Running,
            node: Some(node.to_owned()),
            spec: class.spec.clone(),
            ..Pod::default()
        }
    };
    board.templates[template as usize].daemons.iter().enumerate().map(daemon).collect()
}
