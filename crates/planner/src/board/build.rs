//! From the cluster to the board.

use super::classes::Class;
use super::nodes::NodeMaker;
use super::terms::{Counter, CounterKind, Matcher};
use super::{Board, ClassId, Filter, Ident, Key, Life, NOWHERE, OpenClaim, Reach, Static, blank};
use crate::intern::{Map, Pool, Set, Sym, Symbols};
use crate::model::{
    Cluster, Effect, OwnerKind, Phase, Pod, PodSpec, Resources, Toleration, TolerationOperator, keys,
};
use crate::requests::{effective, raise};
use crate::select::{Labels, Need, Test};
use std::sync::Arc;

/// Class of a pod that is of no concern: it has ended.
pub(crate) const NO_CLASS: ClassId = ClassId::MAX;

pub(crate) struct Builder<'a> {
    pub input: &'a Cluster,
    pub symbols: Symbols,
    pub by_pointer: Map<(usize, Sym), ClassId>,
    pub by_spec: Map<(Sym, Arc<PodSpec>), ClassId>,
    pub classes: Vec<Class>,
    pub idents: Pool<(Sym, Labels)>,
    pub statics: Pool<Static>,
    pub filters: Pool<Filter>,
    pub matchers: Pool<Vec<Matcher>>,
    pub counters: Pool<Counter>,
    pub keys: Pool<Sym>,
    pub claims: Map<(Sym, Sym), usize>,
    pub volumes: Map<Sym, usize>,
    pub open_claims: Vec<OpenClaim>,
    /// By volume: once it is known.
    pub reach: Vec<Option<Reach>>,
    /// Some node has, or would have, a taint that only asks.
    pub soft_taints: bool,
}

impl Builder<'_> {
    pub fn key(&mut self, name: &str) -> u32 {
        let name = self.symbols.of(name);
        self.keys.of(name)
    }

    pub fn counter(&mut self, kind: CounterKind, matchers: u32, key: u32, filter: Option<u32>) -> u32 {
        self.counters.of(Counter { kind, matchers, key, filter })
    }
}

pub(crate) fn build(input: &Cluster) -> Board<'_> {
    let mut builder = Builder {
        input,
        symbols: Symbols::default(),
        by_pointer: Map::default(),
        by_spec: Map::default(),
        classes: Vec::new(),
        idents: Pool::default(),
        statics: Pool::default(),
        filters: Pool::default(),
        matchers: Pool::default(),
        counters: Pool::default(),
        keys: Pool::default(),
        claims: Map::default(),
        volumes: Map::default(),
        open_claims: Vec::new(),
        reach: vec![None; input.volumes.len()],
        soft_taints: soft_taints(input),
    };
    for (at, claim) in input.claims.iter().enumerate() {
        let key = (builder.symbols.of(&claim.namespace), builder.symbols.of(&claim.name));
        builder.claims.insert(key, at);
    }
    for (at, volume) in input.volumes.iter().enumerate() {
        let key = builder.symbols.of(&volume.name);
        builder.volumes.insert(key, at);
    }
    let pods = pods(&mut builder);
    let asked = daemon_requests(&builder, &pods);
    // All of them live until the last class is found: a class is looked up by the address of its spec.
    let specs: Vec<Arc<PodSpec>> = input
        .daemon_sets
        .iter()
        .zip(&asked)
        .map(|(set, asked)| Arc::new(with_requests(with_daemon_tolerations(&set.spec), asked)))
        .collect();
    let daemons: Vec<ClassId> = input
        .daemon_sets
        .iter()
        .zip(&specs)
        .map(|(set, spec)| builder.class_of(&set.namespace, spec))
        .collect();
    let resources = amounts(&mut builder.classes, input);
    finish(builder, resources, pods, &daemons)
}

/// By pod of the input.
struct Pods {
    class: Vec<ClassId>,
    node: Vec<u32>,
    life: Vec<Life>,
}

/// All that is asked of every pod, in one go: of a large cluster it takes longer to fetch a pod than to look at it.
fn pods(builder: &mut Builder<'_>) -> Pods {
    let input = builder.input;
    let names: Map<&str, u32> =
        (0u32..).zip(&input.nodes).map(|(at, node)| (node.name.as_str(), at)).collect();
    let count = input.pods.len();
    let mut pods = Pods {
        class: Vec::with_capacity(count),
        node: Vec::with_capacity(count),
        life: Vec::with_capacity(count),
    };
    for pod in &input.pods {
        let node = pod.node.as_ref().map(|name| names.get(name.as_str()).copied().unwrap_or(NOWHERE));
        pods.class.push(match pod.phase {
            Phase::Finished => NO_CLASS,
            _ => builder.class_of(&pod.namespace, &pod.spec),
        });
        pods.life.push(match node {
            _ if pod.phase == Phase::Finished => Life::Nothing,
            None => Life::Unbound,
            Some(NOWHERE) => Life::Nothing,
            Some(_) if expendable(input, pod) => Life::Nothing,
            Some(_) if pod.deleting.is_some() => Life::Leaving,
            Some(_) if tied_to_node(pod) => Life::Tied,
            Some(_) => Life::Runs,
        });
        pods.node.push(node.unwrap_or(NOWHERE));
    }
    pods
}

/// By daemon set: the most that its pods ask for where they run. It may be more than the daemon set says, since others may
/// write it into the pods when they are made.
fn daemon_requests(builder: &Builder<'_>, pods: &Pods) -> Vec<Resources> {
    let input = builder.input;
    let mut asked = vec![Resources::default(); input.daemon_sets.len()];
    let numbers: Map<(&str, &str), usize> = input
        .daemon_sets
        .iter()
        .enumerate()
        .map(|(at, set)| ((set.namespace.as_str(), set.name.as_str()), at))
        .collect();
    if numbers.is_empty() {
        return asked;
    }
    let mut seen: Set<(usize, ClassId)> = Set::default();
    for (pod, class) in input.pods.iter().zip(&pods.class).filter(|(_, class)| **class != NO_CLASS) {
        if let Some(owner) = pod.owner.as_ref().filter(|owner| owner.kind == OwnerKind::DaemonSet)
            && let Some(&set) = numbers.get(&(pod.namespace.as_str(), owner.name.as_str()))
            && seen.insert((set, *class))
        {
            raise(&mut asked[set], &effective(&builder.classes[*class as usize].spec));
        }
    }
    asked
}

/// The same, but asking for so much at least.
fn with_requests(mut spec: PodSpec, least: &Resources) -> PodSpec {
    let own = effective(&spec);
    let overhead = &mut spec.overhead;
    overhead.cpu += (least.cpu - own.cpu).max(0);
    overhead.memory += (least.memory - own.memory).max(0);
    overhead.ephemeral_storage += (least.ephemeral_storage - own.ephemeral_storage).max(0);
    for (name, amount) in &least.extended {
        let lacking = amount - own.extended.get(name).copied().unwrap_or(0);
        if lacking > 0 {
            *overhead.extended.entry(name.clone()).or_default() += lacking;
        }
    }
    spec
}

pub(crate) fn expendable(input: &Cluster, pod: &Pod) -> bool {
    pod.spec.priority.is_some_and(|priority| priority < input.settings.priority_cutoff)
}

/// Comes with the node and goes with it.
fn tied_to_node(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| matches!(owner.kind, OwnerKind::DaemonSet | OwnerKind::Node))
}

fn finish<'a>(
    mut builder: Builder<'a>,
    resources: Vec<String>,
    pods: Pods,
    daemons: &[ClassId],
) -> Board<'a> {
    let relevant = relevant_keys(&mut builder);
    let key_names = builder.keys.items.clone();
    let mut idents: Vec<Ident> = std::mem::take(&mut builder.idents.items)
        .into_iter()
        .map(|(namespace, labels)| Ident { namespace, labels, raises: Vec::new(), forbidden: Vec::new() })
        .collect();
    link(&builder, &mut idents);
    let mut maker = NodeMaker::new(builder.input, builder.symbols, relevant, &key_names, &resources);
    let nodes = maker.nodes();
    let templates = maker.templates();
    let NodeMaker { symbols, node_classes, domains, .. } = maker;
    let hostname = symbols.known(keys::HOSTNAME);
    let keys = key_names
        .into_iter()
        .zip(domains)
        .map(|(name, domains)| Key { name, dense: Some(name) != hostname, domains: domains.items })
        .collect();
    let columns = node_classes.items.len();
    let mut board = Board {
        input: builder.input,
        symbols,
        resources,
        classes: builder.classes,
        pod_class: pods.class,
        pod_node: pods.node,
        pod_life: pods.life,
        static_cells: blank(builder.statics.items.len(), columns),
        filter_cells: blank(builder.filters.items.len(), columns),
        statics: builder.statics.items,
        filters: builder.filters.items,
        idents,
        counters: builder.counters.items,
        keys,
        node_classes: node_classes.items,
        nodes: Vec::new(),
        templates: Vec::new(),
        open_claims: builder.open_claims,
        reach: builder.reach.into_iter().map(Option::flatten).collect(),
    };
    super::nodes::settle(&mut board, nodes, templates, daemons);
    board
}

/// Which identities raise which counters. Most selectors name a label and its value: only pods that have it are asked.
fn link(builder: &Builder<'_>, idents: &mut [Ident]) {
    let mut by_label: Map<(Sym, Sym), Vec<usize>> = Map::default();
    for (number, ident) in idents.iter().enumerate() {
        for label in &ident.labels {
            by_label.entry(*label).or_default().push(number);
        }
    }
    let everybody: Vec<usize> = (0..idents.len()).collect();
    let matched: Vec<Vec<usize>> = builder
        .matchers
        .items
        .iter()
        .map(|matchers| {
            let named =
                matchers.iter().flat_map(|matcher| matcher.needs.iter().flatten()).find_map(single_label);
            let candidates = named.map_or(everybody.as_slice(), |label| {
                by_label.get(&label).map_or(&[] as &[usize], Vec::as_slice)
            });
            candidates
                .iter()
                .copied()
                .filter(|number| {
                    let ident = &idents[*number];
                    matchers
                        .iter()
                        .all(|matcher| matcher.matches(ident.namespace, &ident.labels, &builder.symbols))
                })
                .collect()
        })
        .collect();
    for (number, counter) in (0u32..).zip(&builder.counters.items) {
        for ident in &matched[counter.matchers as usize] {
            match counter.kind {
                CounterKind::Match => idents[*ident].raises.push(number),
                CounterKind::Hold => idents[*ident].forbidden.push(number),
            }
        }
    }
}

fn single_label(need: &Need) -> Option<(Sym, Sym)> {
    match &need.test {
        Test::In(values) => match values.as_slice() {
            [value] => Some((need.key, *value)),
            _ => None,
        },
        _ => None,
    }
}

/// Labels of nodes that somebody asks for; by the others nodes need not be told apart.
fn relevant_keys(builder: &mut Builder<'_>) -> Set<Sym> {
    let mut relevant: Set<Sym> = Set::default();
    let mut note = |needs: &[Need]| {
        for need in needs {
            relevant.insert(need.key);
        }
    };
    for demand in &builder.statics.items {
        note(&demand.selector);
        demand.affinity.iter().flatten().for_each(|needs| note(needs));
        demand.volumes.iter().flat_map(|(_, terms)| terms).for_each(|needs| note(needs));
        for (_, key, _) in &demand.zones {
            note(&[Need { key: *key, test: Test::Exists }]);
        }
    }
    builder.reach.iter().flatten().flatten().flatten().for_each(|needs| note(needs));
    relevant
}

/// Requests as vectors; the names of the resources in their order. What is limited counts though nobody asks for it.
fn amounts(classes: &mut [Class], input: &Cluster) -> Vec<String> {
    let effective: Vec<Resources> = classes.iter().map(|class| effective(&class.spec)).collect();
    let mut names: Vec<String> =
        ["cpu", "memory", "ephemeral-storage", "pods"].into_iter().map(str::to_owned).collect();
    for request in &effective {
        for name in request.extended.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let limits = input.groups.iter().map(|group| &group.limits).chain([&input.settings.limits]);
    for name in limits.flat_map(|limits| limits.keys()).filter(|name| *name != "nodes") {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for (class, request) in classes.iter_mut().zip(&effective) {
        class.request = vector(request, &names);
    }
    names
}

pub(crate) fn vector(resources: &Resources, names: &[String]) -> Vec<i64> {
    let fixed = [resources.cpu, resources.memory, resources.ephemeral_storage, resources.pods];
    let extended = names[fixed.len()..].iter().map(|name| resources.extended.get(name).copied().unwrap_or(0));
    fixed.into_iter().chain(extended).collect()
}

fn soft_taints(input: &Cluster) -> bool {
    let soft = |taint: &crate::model::Taint| taint.effect == Effect::PreferNoSchedule;
    input.nodes.iter().flat_map(|node| &node.taints).any(soft)
        || input.groups.iter().flat_map(|group| &group.taints).any(soft)
}

/// What the DaemonSet controller adds to its pods.
fn with_daemon_tolerations(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    for key in
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
    {
        spec.tolerations.push(Toleration {
            key: format!("node.kubernetes.io/{key}"),
            operator: TolerationOperator::Exists,
            ..Toleration::default()
        });
    }
    spec
}
