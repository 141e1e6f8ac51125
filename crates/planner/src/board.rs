//! The cluster as numbers: classes of equal pods, classes of equal nodes, templates of nodes that could be bought, and
//! what is counted per domain. It is built once per decision and not changed by it.

mod build;
mod classes;
mod nodes;
mod terms;
mod volumes;

pub(crate) use build::{NO_CLASS, build, expendable, vector};
pub(crate) use classes::{Class, Port, Tolerance};
pub(crate) use nodes::{BoardNode, NodeClass, NodeOrigin, Template, seen, template_labels, template_taints};
pub(crate) use terms::{Counter, CounterKind};
pub(crate) use volumes::{OpenClaim, Reach};

use crate::intern::{Sym, Symbols};
use crate::model::{Cluster, Effect};
use crate::reason::Reason;
use crate::select::{Labels, Need, Terms, all_hold, any_term_holds, value_of};
use std::cell::Cell;

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;
pub(crate) const PODS: usize = 3;

/// No domain: the node lacks the label.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// A domain of its own for each node that is opened.
pub(crate) const FRESH: u32 = u32::MAX - 1;

pub(crate) type ClassId = u32;

/// How a pod is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It counts for nothing: it has ended, is below the cut-off, or on a node that nobody knows.
    Nothing,
    /// It has no node.
    Unbound,
    /// It runs and is being deleted.
    Leaving,
    /// It runs, came with its node and goes with it.
    Tied,
    /// It runs and needs another place when its node goes.
    Runs,
}

pub(crate) struct Board<'a> {
    pub input: &'a Cluster,
    pub symbols: Symbols,
    /// Names of the resources, in the order of every vector of amounts.
    pub resources: Vec<String>,
    pub classes: Vec<Class>,
    /// By pod of the input.
    pub pod_class: Vec<ClassId>,
    /// By pod of the input: its node, `NOWHERE` where it has none or one that nobody knows.
    pub pod_node: Vec<u32>,
    /// By pod of the input.
    pub pod_life: Vec<Life>,
    pub statics: Vec<Static>,
    pub filters: Vec<Filter>,
    pub idents: Vec<Ident>,
    pub counters: Vec<Counter>,
    pub keys: Vec<Key>,
    pub node_classes: Vec<NodeClass>,
    pub nodes: Vec<BoardNode>,
    /// Index of a node of the input in `nodes` is the same; machines follow.
    pub templates: Vec<Template>,
    pub open_claims: Vec<OpenClaim>,
    /// By volume of the input; of those that an open claim could get.
    pub reach: Vec<Reach>,
    static_cells: Vec<Cell<u8>>,
    filter_cells: Vec<Cell<u8>>,
}

/// What a pod demands of a node that does not change with what runs there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Static {
    pub selector: Vec<Need>,
    pub affinity: Option<Terms>,
    pub tolerations: Vec<Tolerance>,
    /// By claim: where its volume can be.
    pub volumes: Vec<(Sym, Terms)>,
    /// By claim: zone labels of its volume.
    pub zones: Vec<(Sym, Sym, Vec<Sym>)>,
    /// PreferNoSchedule counts as well.
    pub strict: bool,
}

/// Which nodes count for a spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    pub selector: Option<(Vec<Need>, Option<Terms>)>,
    pub tolerations: Option<Vec<Tolerance>>,
    pub keys: Vec<u32>,
}

/// Namespace and labels: what others see of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ident {
    pub namespace: Sym,
    pub labels: Labels,
    /// Counters that a pod of this kind raises.
    pub raises: Vec<u32>,
    /// Counters of pods that do not want it near.
    pub forbidden: Vec<u32>,
}

/// A topology key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: Sym,
    /// Label values, by domain.
    pub domains: Vec<Sym>,
    /// Counted in a table; host names, of which there are many and each has little, in lists.
    pub dense: bool,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Board<'_> {
    pub fn class(&self, class: ClassId) -> &Class {
        &self.classes[class as usize]
    }

    pub fn ident(&self, class: ClassId) -> &Ident {
        &self.idents[self.classes[class as usize].ident as usize]
    }

    pub fn width(&self) -> usize {
        self.resources.len()
    }

    /// Labels, taints and volumes of a pod agree with a node.
    pub fn agrees(&self, class: ClassId, node_class: u32) -> bool {
        let number = self.classes[class as usize].demand;
        let cell = &self.static_cells[number as usize * self.node_classes.len() + node_class as usize];
        match cell.get() {
            YES => true,
            NO => false,
            _ => {
                let verdict = self.disagreement(number, node_class).is_none();
                cell.set(if verdict { YES } else { NO });
                verdict
            }
        }
    }

    /// How many of the pod's preferences a node of this kind does not agree with; who else is there is not asked.
    pub fn dislikes(&self, class: ClassId, node_class: u32) -> usize {
        let ladder = &self.class(class).ladder;
        ladder.iter().position(|step| self.agrees(*step, node_class)).unwrap_or(ladder.len())
    }

    /// The node counts for a spread constraint.
    pub fn counts(&self, filter: u32, node_class: u32) -> bool {
        let cell = &self.filter_cells[filter as usize * self.node_classes.len() + node_class as usize];
        match cell.get() {
            YES => true,
            NO => false,
            _ => {
                let filter = &self.filters[filter as usize];
                let node = &self.node_classes[node_class as usize];
                let verdict = filter.keys.iter().all(|key| node.present[*key as usize])
                    && filter.selector.as_ref().is_none_or(|(selector, affinity)| {
                        all_hold(selector, &node.labels, &self.symbols)
                            && affinity
                                .as_ref()
                                .is_none_or(|terms| any_term_holds(terms, &node.labels, &self.symbols))
                    })
                    && filter
                        .tolerations
                        .as_ref()
                        .is_none_or(|tolerations| node.untolerated(tolerations, false).is_none());
                cell.set(if verdict { YES } else { NO });
                verdict
            }
        }
    }

    /// Why labels, taints or volumes do not agree.
    pub fn disagreement(&self, demand: u32, node_class: u32) -> Option<Reason> {
        let demand = &self.statics[demand as usize];
        let node = &self.node_classes[node_class as usize];
        let name = |symbol: Sym| self.symbols.name(symbol).to_owned();
        if let Some((key, value, effect)) = node.untolerated(&demand.tolerations, demand.strict) {
            return Some(Reason::TaintNotTolerated { key: name(key), value: name(value), effect });
        }
        if let Some(need) = demand.selector.iter().find(|need| !need.holds(&node.labels, &self.symbols)) {
            let wanted = match &need.test {
                crate::select::Test::In(values) => values.first().map(|value| name(*value)),
                _ => None,
            };
            let has = value_of(&node.labels, need.key).map(name);
            return Some(Reason::SelectorMismatch {
                key: name(need.key),
                wanted: wanted.unwrap_or_default(),
                has,
            });
        }
        if let Some(terms) = &demand.affinity
            && !any_term_holds(terms, &node.labels, &self.symbols)
        {
            let keys =
                terms.iter().flatten().map(|need| name(need.key)).collect::<std::collections::BTreeSet<_>>();
            return Some(Reason::NodeAffinityMismatch { keys: keys.into_iter().collect() });
        }
        for (claim, terms) in &demand.volumes {
            if !any_term_holds(terms, &node.labels, &self.symbols) {
                return Some(Reason::VolumeElsewhere { claim: name(*claim) });
            }
        }
        // A node without any such label is not bound to a zone.
        let zoned = demand.zones.iter().any(|(_, key, _)| value_of(&node.labels, *key).is_some());
        for (claim, key, values) in &demand.zones {
            if zoned && value_of(&node.labels, *key).is_none_or(|value| !values.contains(&value)) {
                return Some(Reason::VolumeElsewhere { claim: name(*claim) });
            }
        }
        None
    }
}

impl NodeClass {
    /// The first taint that keeps a pod away.
    pub fn untolerated(&self, tolerations: &[Tolerance], strict: bool) -> Option<(Sym, Sym, Effect)> {
        self.taints
            .iter()
            .filter(|(_, _, effect)| strict || *effect != Effect::PreferNoSchedule)
            .find(|taint| !tolerations.iter().any(|toleration| toleration.covers(taint)))
            .copied()
    }
}

/// Cells for answers that are found when they are asked for.
pub(crate) fn blank(rows: usize, columns: usize) -> Vec<Cell<u8>> {
    vec![Cell::new(UNKNOWN); rows * columns]
}
