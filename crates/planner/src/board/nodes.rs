//! Nodes that are there or coming, and templates of nodes that could be bought.

use super::build::vector;
use super::{Board, ClassId, FRESH, NOWHERE};
use crate::intern::{Pool, Set, Sym, Symbols};
use crate::model::{
    Cluster, Effect, Group, Machine, Margin, Node, Offering, OwnerKind, Price, Resources, Taint, keys,
};
use crate::select::{Labels, NAME_FIELD};
use std::collections::{BTreeMap, BTreeSet};

/// What tells nodes apart for those pods that there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeClass {
    pub labels: Labels,
    pub taints: Vec<(Sym, Sym, Effect)>,
    /// By topology key: whether the node has it.
    pub present: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOrigin {
    Existing(usize),
    Machine(usize),
}

pub(crate) struct BoardNode {
    pub origin: NodeOrigin,
    pub class: u32,
    pub allocatable: Vec<i64>,
    /// By topology key.
    pub domains: Vec<u32>,
    /// Pods may be put here.
    pub open: bool,
    pub attach_limits: Vec<(Sym, i64)>,
    /// Daemon pods that will come.
    pub daemons: Vec<ClassId>,
    pub group: Option<usize>,
    pub offering: Option<usize>,
    /// Not ready yet, but expected to be.
    pub booting: bool,
}

/// A node that could be bought.
#[derive(Clone)]
pub(crate) struct Template {
    pub group: usize,
    pub offering: usize,
    pub class: u32,
    /// After the daemon sets took theirs.
    pub free: Vec<i64>,
    /// What counts against limits.
    pub capacity: Vec<i64>,
    pub price: Price,
    pub preferred: bool,
    pub domains: Vec<u32>,
    pub attach_limits: Vec<(Sym, i64)>,
    pub daemons: Vec<ClassId>,
    /// The label of its zone, for balance.
    pub zone: Option<Sym>,
}

const STATUS_TAINTS: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
];
/// Stands for the name of a node that has none yet: no pod can ask for it.
const UNBORN: &str = "\u{0}";

/// Group, name, class, size, price and domains.
type Look = (usize, Sym, u32, Vec<i64>, Price, Vec<u32>);

pub(crate) struct NodeMaker<'a> {
    input: &'a Cluster,
    pub symbols: Symbols,
    relevant: Set<Sym>,
    key_names: Vec<Sym>,
    resources: &'a [String],
    pub node_classes: Pool<NodeClass>,
    pub domains: Vec<Pool<Sym>>,
    groups: BTreeMap<&'a str, usize>,
    /// By group and offering: the least that a ready node has.
    seen: BTreeMap<(&'a str, &'a str), Resources>,
}

impl<'a> NodeMaker<'a> {
    pub fn new(
        input: &'a Cluster,
        symbols: Symbols,
        relevant: Set<Sym>,
        key_names: &[Sym],
        resources: &'a [String],
    ) -> Self {
        Self {
            input,
            symbols,
            relevant,
            key_names: key_names.to_vec(),
            resources,
            node_classes: Pool::default(),
            domains: key_names.iter().map(|_| Pool::default()).collect(),
            groups: input.groups.iter().enumerate().map(|(at, group)| (group.name.as_str(), at)).collect(),
            seen: seen(input, |_| true),
        }
    }

    pub fn nodes(&mut self) -> Vec<BoardNode> {
        let mut nodes: Vec<BoardNode> =
            self.input.nodes.iter().enumerate().map(|(at, node)| self.node(at, node)).collect();
        for (at, machine) in self.input.machines.iter().enumerate() {
            nodes.push(self.machine(at, machine));
        }
        nodes
    }

    fn node(&mut self, at: usize, node: &Node) -> BoardNode {
        let group = node.group.as_ref().and_then(|name| self.groups.get(name.as_str())).copied();
        let age = self.input.now - node.created;
        let young = age < self.input.settings.startup_time;
        let booting = young && !node.ready;
        let startup = group.map_or(&[] as &[Taint], |group| &self.input.groups[group].startup_taints);
        let mut taints: Vec<Taint> = node
            .taints
            .iter()
            .filter(|taint| !(young && startup.iter().any(|start| start.key == taint.key)))
            .filter(|taint| !(booting && STATUS_TAINTS.contains(&taint.key.as_str())))
            .cloned()
            .collect();
        if node.unschedulable && !taints.iter().any(|taint| taint.key == keys::UNSCHEDULABLE) {
            taints.push(Taint::new(keys::UNSCHEDULABLE, "", Effect::NoSchedule));
        }
        let class = self.class(&node.labels, &taints, &node.name);
        let domains = self.domains_of(&node.labels, None);
        let offering = group.and_then(|group| {
            let zone = node.labels.get(keys::ZONE);
            let named = |offering: &&Offering| Some(&offering.name) == node.offering.as_ref();
            let offerings = &self.input.groups[group].offerings;
            offerings
                .iter()
                .position(|offering| named(&offering) && offering.zone.as_ref() == zone)
                .or_else(|| offerings.iter().position(|offering| named(&offering)))
        });
        let mut allocatable = node.allocatable.clone();
        // A node that does not know itself yet.
        if booting
            && allocatable.cpu == 0
            && allocatable.memory == 0
            && let (Some(group), Some(offering)) = (group, offering)
        {
            let group = &self.input.groups[group];
            allocatable = self.expected(group, &group.offerings[offering]);
        }
        BoardNode {
            origin: NodeOrigin::Existing(at),
            class,
            allocatable: vector(&allocatable, self.resources),
            domains,
            open: (node.ready || booting) && !node.draining,
            attach_limits: self.limits(&node.attach_limits),
            daemons: Vec::new(),
            group,
            offering,
            booting,
        }
    }

    fn machine(&mut self, at: usize, machine: &Machine) -> BoardNode {
        let group = self.groups.get(machine.group.as_str()).copied();
        let offering = group.and_then(|group| {
            let offerings = &self.input.groups[group].offerings;
            offerings
                .iter()
                .position(|offering| offering.name == machine.offering && offering.zone == machine.zone)
                .or_else(|| offerings.iter().position(|offering| offering.name == machine.offering))
        });
        let blank = (BTreeMap::new(), Vec::new(), Resources::default(), BTreeMap::new());
        let (labels, taints, allocatable, limits) = match (group, offering) {
            (Some(group), Some(offering)) => {
                let group = &self.input.groups[group];
                let offering = &group.offerings[offering];
                let mut labels = template_labels(group, offering);
                if let Some(zone) = &machine.zone {
                    labels.insert(keys::ZONE.to_owned(), zone.clone());
                }
                let allocatable = self.expected(group, offering);
                (labels, template_taints(group), allocatable, offering.attach_limits.clone())
            }
            _ => blank,
        };
        let class = self.class(&labels, &taints, UNBORN);
        let domains = self.domains_of(&labels, Some(&format!("{UNBORN}{}", machine.name)));
        BoardNode {
            origin: NodeOrigin::Machine(at),
            class,
            allocatable: vector(&allocatable, self.resources),
            domains,
            open: !machine.failed && offering.is_some(),
            attach_limits: self.limits(&limits),
            daemons: Vec::new(),
            group,
            offering,
            booting: true,
        }
    }

    /// Offerings that look the same to every pod and cost the same are one.
    pub fn templates(&mut self) -> Vec<Template> {
        let mut templates: Vec<Template> = Vec::new();
        let mut seen: Set<Look> = Set::default();
        for (at, group) in self.input.groups.iter().enumerate() {
            for (which, offering) in
                group.offerings.iter().enumerate().filter(|(_, offering)| offering.available)
            {
                let labels = template_labels(group, offering);
                let class = self.class(&labels, &template_taints(group), UNBORN);
                let domains = self.domains_of(&labels, None);
                let free = vector(&self.expected(group, offering), self.resources);
                let name = self.symbols.of(&offering.name);
                let key = (at, name, class, free.clone(), offering.price, domains.clone());
                if !seen.insert(key) {
                    continue;
                }
                templates.push(Template {
                    group: at,
                    offering: which,
                    class,
                    free,
                    capacity: vector(&offering.capacity, self.resources),
                    price: offering.price,
                    preferred: group.preferred.as_ref() == Some(&offering.name),
                    domains,
                    attach_limits: self.limits(&offering.attach_limits),
                    daemons: Vec::new(),
                    zone: labels.get(keys::ZONE).map(|zone| self.symbols.of(zone)),
                });
            }
        }
        templates
    }

    /// What a node of the offering will have: the least that one was seen with, else what is known, else the size less
    /// a margin.
    fn expected(&self, group: &Group, offering: &Offering) -> Resources {
        let seen = self.seen.get(&(group.name.as_str(), offering.name.as_str())).cloned();
        seen.or_else(|| offering.allocatable.clone()).unwrap_or_else(|| {
            less(&offering.capacity, &self.input.settings.margin, self.input.settings.default_pods)
        })
    }

    fn limits(&mut self, limits: &BTreeMap<String, i64>) -> Vec<(Sym, i64)> {
        limits.iter().map(|(driver, limit)| (self.symbols.of(driver), *limit)).collect()
    }

    fn class(&mut self, labels: &BTreeMap<String, String>, taints: &[Taint], name: &str) -> u32 {
        let mut kept: Labels = Vec::new();
        for (key, value) in labels {
            if let Some(key) = self.symbols.known(key).filter(|key| self.relevant.contains(key)) {
                kept.push((key, self.symbols.of(value)));
            }
        }
        let field = self.symbols.of(NAME_FIELD);
        if self.relevant.contains(&field) {
            kept.push((field, self.symbols.of(name)));
        }
        kept.sort_unstable();
        let mut taints: Vec<(Sym, Sym, Effect)> = taints
            .iter()
            .map(|taint| (self.symbols.of(&taint.key), self.symbols.of(&taint.value), taint.effect))
            .collect();
        taints.sort_unstable();
        let present = self.key_names.iter().map(|key| labels.contains_key(self.symbols.name(*key))).collect();
        self.node_classes.of(NodeClass { labels: kept, taints, present })
    }

    /// A template gets a new domain for its host name whenever it is opened; a machine in flight has one already.
    fn domains_of(&mut self, labels: &BTreeMap<String, String>, host: Option<&str>) -> Vec<u32> {
        let hostname = self.symbols.of(keys::HOSTNAME);
        let mut domains = Vec::with_capacity(self.key_names.len());
        for (at, key) in self.key_names.clone().into_iter().enumerate() {
            let domain = match (labels.get(self.symbols.name(key)), host) {
                (None, _) => NOWHERE,
                (Some(_), Some(host)) if key == hostname => {
                    let value = self.symbols.of(host);
                    self.domains[at].of(value)
                }
                (Some(value), _) if value == UNBORN => FRESH,
                (Some(value), _) => {
                    let value = self.symbols.of(value);
                    self.domains[at].of(value)
                }
            };
            domains.push(domain);
        }
        domains
    }
}

/// By group and offering: the least that one of these nodes has.
pub(crate) fn seen(input: &Cluster, among: impl Fn(usize) -> bool) -> BTreeMap<(&str, &str), Resources> {
    let mut seen: BTreeMap<(&str, &str), Resources> = BTreeMap::new();
    let nodes = input.nodes.iter().enumerate().filter(|(at, _)| among(*at)).map(|(_, node)| node);
    for node in nodes.filter(|node| node.ready && node.allocatable.cpu > 0) {
        if let (Some(group), Some(offering)) = (&node.group, &node.offering) {
            let least = seen.entry((group, offering)).or_insert_with(|| node.allocatable.clone());
            lower(least, &node.allocatable);
        }
    }
    seen
}

fn lower(least: &mut Resources, other: &Resources) {
    least.cpu = least.cpu.min(other.cpu);
    least.memory = least.memory.min(other.memory);
    least.ephemeral_storage = least.ephemeral_storage.min(other.ephemeral_storage);
    least.pods = least.pods.min(other.pods);
    for (name, amount) in &mut least.extended {
        *amount = (*amount).min(other.extended.get(name).copied().unwrap_or(0));
    }
}

fn less(capacity: &Resources, margin: &Margin, default_pods: i64) -> Resources {
    Resources {
        cpu: (capacity.cpu - margin.cpu).max(0),
        memory: (capacity.memory - margin.memory - capacity.memory / 100 * margin.memory_percent).max(0),
        ephemeral_storage: capacity.ephemeral_storage
            - capacity.ephemeral_storage / 100 * margin.ephemeral_percent,
        pods: if capacity.pods > 0 { capacity.pods } else { default_pods },
        extended: capacity.extended.clone(),
    }
}

pub(crate) fn template_labels(group: &Group, offering: &Offering) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [(keys::OS, "linux"), (keys::ARCH, "amd64")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    labels.insert(keys::INSTANCE_TYPE.to_owned(), offering.name.clone());
    if let Some(zone) = &offering.zone {
        labels.insert(keys::ZONE.to_owned(), zone.clone());
    }
    labels.extend(group.labels.clone());
    labels.extend(offering.labels.clone());
    labels.insert(keys::HOSTNAME.to_owned(), UNBORN.to_owned());
    labels
}

pub(crate) fn template_taints(group: &Group) -> Vec<Taint> {
    let startup = |taint: &&Taint| !group.startup_taints.iter().any(|start| start.key == taint.key);
    group.taints.iter().filter(startup).cloned().collect()
}

/// Puts nodes and templates on the board, with the daemon sets that will run on them.
pub(crate) fn settle(
    board: &mut Board<'_>,
    nodes: Vec<BoardNode>,
    templates: Vec<Template>,
    daemons: &[ClassId],
) {
    board.nodes = nodes;
    board.templates = templates;
    let there = daemons_there(board);
    for at in 0..board.nodes.len() {
        if !board.nodes[at].booting || !crate::state::is_there(&board.nodes[at]) {
            continue;
        }
        let node_class = board.nodes[at].class;
        let present = there.get(&at);
        let coming: Vec<ClassId> = (0..daemons.len())
            .filter(|set| board.agrees(daemons[*set], node_class))
            .filter(|set| present.is_none_or(|present| !present.contains(&daemon_name(board, *set))))
            .map(|set| daemons[set])
            .collect();
        board.nodes[at].daemons = coming;
    }
    for at in 0..board.templates.len() {
        let node_class = board.templates[at].class;
        let coming: Vec<ClassId> =
            daemons.iter().copied().filter(|daemon| board.agrees(*daemon, node_class)).collect();
        for daemon in &coming {
            let request = board.classes[*daemon as usize].request.clone();
            for (free, amount) in board.templates[at].free.iter_mut().zip(request) {
                *free -= amount;
            }
        }
        board.templates[at].daemons = coming;
    }
}

fn daemon_name<'a>(board: &Board<'a>, set: usize) -> (&'a str, &'a str) {
    let set = &board.input.daemon_sets[set];
    (&set.namespace, &set.name)
}

/// By node that boots: the daemon sets whose pods are there already.
fn daemons_there<'a>(board: &Board<'a>) -> BTreeMap<usize, BTreeSet<(&'a str, &'a str)>> {
    let names: BTreeMap<&str, usize> = board
        .input
        .nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| board.nodes[*at].booting)
        .map(|(at, node)| (node.name.as_str(), at))
        .collect();
    let mut there: BTreeMap<usize, BTreeSet<(&str, &str)>> = BTreeMap::new();
    if names.is_empty() || board.input.daemon_sets.is_empty() {
        return there;
    }
    for pod in &board.input.pods {
        if let (Some(node), Some(owner)) = (&pod.node, &pod.owner)
            && owner.kind == OwnerKind::DaemonSet
            && let Some(at) = names.get(node.as_str())
        {
            there.entry(*at).or_default().insert((&pod.namespace, &owner.name));
        }
    }
    there
}
