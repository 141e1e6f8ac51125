//! Would the scale-up buy again what was given back? A place for every pod is proven before a node goes, but the
//! scale-up finds places for pods that wait in its own way, and what it overlooks it buys. So it is asked.

use crate::board::{Board, seen};
use crate::clear::{Clearing, demands};
use crate::market::{Ledger, Market};
use crate::model::{Cluster, Node, Price, Resources, keys};
use crate::plan::{Binding, Target};
use crate::state::{Law, State, TemplateId};
use crate::up::{choice, compare_unserved, scale_up, settle};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

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

/// The first step with which the scale-up would buy more than without any, and a pod for which it would.
pub(crate) fn regretted(clearing: &Clearing<'_>, steps: &[Step<'_>]) -> Option<(usize, String)> {
    if steps.is_empty() || clearing.wait_for_room.is_empty() {
        return None;
    }
    let appetite = |count: usize| Appetite::of(&afterwards(clearing.board, &steps[..count]));
    let mut after = appetite(steps.len());
    after.pod.as_ref()?;
    let before = Appetite::of(clearing.board.input);
    if !after.exceeds(&before) {
        return None;
    }
    let (mut good, mut bad) = (0, steps.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        let then = appetite(middle);
        if then.exceeds(&before) {
            (bad, after) = (middle, then);
        } else {
            good = middle;
        }
    }
    Some((good, after.pod.unwrap_or_default()))
}

/// The cluster once these steps are taken.
fn afterwards(board: &Board<'_>, steps: &[Step<'_>]) -> Cluster {
    let mut after = board.input.clone();
    for step in steps {
        for template in step.machines {
            let number = after.nodes.len();
            after.nodes.push(come(board, *template, number));
        }
    }
    let nodes = board.input.nodes.len();
    for binding in steps.iter().flat_map(|step| step.moves) {
        let to = match binding.target {
            Target::Node(at) => Some(at),
            Target::New(at) => Some(nodes + at),
            Target::Machine(_) => None,
        };
        after.pods[binding.pod].node = to.map(|to| after.nodes[to].name.clone());
    }
    let gone: BTreeSet<&str> =
        steps.iter().flat_map(|step| step.nodes).map(|at| board.input.nodes[*at].name.as_str()).collect();
    after.nodes.retain(|node| !gone.contains(node.name.as_str()));
    after.pods.retain(|pod| pod.node.as_ref().is_none_or(|node| !gone.contains(node.as_str())));
    after
}

/// A new node, with what daemon sets leave of it.
fn come(board: &Board<'_>, template: TemplateId, number: usize) -> Node {
    let kind = &board.templates[template as usize];
    let group = &board.input.groups[kind.group];
    let offering = &group.offerings[kind.offering];
    let mut labels = crate::board::template_labels(group, offering);
    // No node of the cluster is called like this.
    let name = format!("new machine {number}");
    labels.insert(keys::HOSTNAME.to_owned(), name.clone());
    let mut allocatable = Resources::default();
    for (resource, amount) in board.resources.iter().zip(&kind.free) {
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

impl Clearing<'_> {
    /// Surely all pods that wait find room without these nodes, as the scale-up looks for it first. It is not asked
    /// about more than room: then what else there is of nodes that go makes no difference.
    pub fn fits_again(&mut self, gone: &[usize]) -> bool {
        let board = self.board;
        let plain = |class: u32| self.state.only_room_matters(class) && board.class(class).ladder.is_empty();
        if !self.wait_for_room.iter().all(|(class, _)| plain(*class)) || !looks_alike(board, gone) {
            return false;
        }
        let all = Market::new(board, choice::open_templates(board, &choice::gates(board)));
        let wanted = demands(board, &self.wait_for_room);
        let state: &mut State<'_> = &mut self.state;
        let mark = state.mark();
        for (put, _) in &self.promised {
            for _ in 0..put.count {
                state.remove(put.class, put.node);
            }
        }
        let served = settle(state, &all, &Ledger::new(board), &wanted);
        state.rollback(mark);
        state.law = Law::Existing;
        served.left.is_empty()
    }
}

/// What could be bought is the same without these nodes: the type that a group keeps to, and the sizes that were seen.
fn looks_alike(board: &Board<'_>, gone: &[usize]) -> bool {
    let mut goes = vec![false; board.nodes.len()];
    for at in gone {
        goes[*at] = true;
    }
    let groups: BTreeSet<usize> = gone.iter().filter_map(|at| board.nodes[*at].group).collect();
    let kept = |group: &usize| {
        choice::kept_type(board, *group) == choice::kept_type_among(board, *group, |at| !goes[at])
    };
    groups.iter().all(kept) && seen(board.input, |_| true) == seen(board.input, |at| !goes[at])
}
