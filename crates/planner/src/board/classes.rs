//! Classes of equal pods.

use super::build::Builder;
use super::terms::{CounterKind, Matcher};
use super::{ClassId, Filter, Static};
use crate::intern::Sym;
use crate::model::{
    Claim, Effect, NodeTerm, PodSpec, PodTerm, Requirement, Spread, SpreadPolicy, StorageClass,
    TolerationOperator, VolumeSource, keys,
};
use crate::reason::Reason;
use crate::select::{Need, Terms, node_terms, selector};
use std::sync::Arc;

pub(crate) struct Class {
    pub namespace: Sym,
    pub spec: Arc<PodSpec>,
    /// Amounts, in the order of the board's resources.
    pub request: Vec<i64>,
    pub demand: u32,
    pub ident: u32,
    pub priority: i32,
    /// Why no node can help.
    pub refusal: Option<Reason>,
    pub spread: Vec<SpreadCheck>,
    /// Counters of which each must be above zero where the pod goes.
    pub affinity: Vec<u32>,
    /// It satisfies its own affinity: the first of its kind may go anywhere.
    pub affinity_self: bool,
    /// Counters that must be zero where the pod goes.
    pub anti: Vec<u32>,
    /// Counters of its own anti-affinity, which keep others away.
    pub holds: Vec<u32>,
    pub ports: Vec<Port>,
    /// Driver and volume.
    pub volumes: Vec<(Sym, Sym)>,
    /// Claims that only one pod may use.
    pub single: Vec<Sym>,
    /// Claims that get a volume that is there, or none; those that ask for least first.
    pub claims: Vec<u32>,
    /// The same pod with its preferences as demands, most demanding first.
    pub ladder: Vec<ClassId>,
}

#[derive(Clone, Debug)]
pub(crate) struct SpreadCheck {
    pub counter: u32,
    pub self_match: bool,
    pub max_skew: i32,
    pub min_domains: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Port {
    pub number: u16,
    pub protocol: Sym,
    /// None is every address.
    pub ip: Option<Sym>,
}

impl Port {
    pub fn clashes(self, other: Self) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tolerance {
    key: Option<Sym>,
    exists: bool,
    value: Sym,
    effect: Option<Effect>,
}

impl Tolerance {
    pub fn covers(&self, (key, value, effect): &(Sym, Sym, Effect)) -> bool {
        self.effect.is_none_or(|own| own == *effect)
            && match self.key {
                None => self.exists,
                Some(own) => own == *key && (self.exists || self.value == *value),
            }
    }
}

const ZONE_KEYS: [&str; 4] = [
    keys::ZONE,
    keys::REGION,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl Builder<'_> {
    pub fn class_of(&mut self, namespace: &str, spec: &Arc<PodSpec>) -> ClassId {
        let namespace = self.symbols.of(namespace);
        let pointer = (Arc::as_ptr(spec) as usize, namespace);
        if let Some(&class) = self.by_pointer.get(&pointer) {
            return class;
        }
        let class = match self.by_spec.get(&(namespace, spec.clone())) {
            Some(&class) => class,
            None => {
                let ladder = self
                    .ladder(spec)
                    .into_iter()
                    .map(|(step, strict)| self.compile(namespace, &Arc::new(step), strict, spec))
                    .collect();
                let class = self.compile(namespace, spec, false, spec);
                self.classes[class as usize].ladder = ladder;
                self.by_spec.insert((namespace, spec.clone()), class);
                class
            }
        };
        // The address stays good as long as classes are looked for: whoever asks keeps the spec until then.
        self.by_pointer.insert(pointer, class);
        class
    }

    /// Every preference as a demand, then one less at a time: pod affinity, anti-affinity, node affinity, spread, and at
    /// last the taints that only ask.
    fn ladder(&self, spec: &PodSpec) -> Vec<(PodSpec, bool)> {
        let soft_taints = self.soft_taints;
        let mut pods = by_weight(&spec.affinity.pods.preferred);
        let mut anti = by_weight(&spec.affinity.anti.preferred);
        let mut nodes = by_weight(&spec.affinity.node.preferred);
        let mut spread: Vec<&Spread> = spec.spread.iter().filter(|spread| !spread.hard).collect();
        let mut steps = Vec::new();
        while !(pods.is_empty() && anti.is_empty() && nodes.is_empty() && spread.is_empty()) {
            let mut step = spec.clone();
            step.affinity.pods.required.extend(pods.iter().map(|term| (*term).clone()));
            step.affinity.anti.required.extend(anti.iter().map(|term| (*term).clone()));
            if let Some(heaviest) = nodes.first() {
                step.affinity.node.required = Some(join(spec.affinity.node.required.as_deref(), heaviest));
            }
            // Its own come first.
            step.spread.retain(|constraint| constraint.hard);
            step.spread
                .extend(spread.iter().map(|constraint| Spread { hard: true, ..(*constraint).clone() }));
            steps.push((step, soft_taints));
            if !pods.is_empty() {
                pods.remove(0);
            } else if !anti.is_empty() {
                anti.remove(0);
            } else if !nodes.is_empty() {
                nodes.remove(0);
            } else {
                spread.remove(0);
            }
        }
        if soft_taints {
            steps.push((spec.clone(), true));
        }
        steps
    }

    /// `base` is the pod without its preferences: spread constraints look at the nodes that it could go to.
    fn compile(&mut self, namespace: Sym, spec: &Arc<PodSpec>, strict: bool, base: &PodSpec) -> ClassId {
        let labels = crate::select::labels(&mut self.symbols, &spec.labels);
        let ident = self.idents.of((namespace, labels));
        let mut class = Class {
            namespace,
            spec: spec.clone(),
            request: Vec::new(),
            demand: 0,
            ident,
            priority: spec.priority.unwrap_or(0),
            refusal: (!spec.resource_claims.is_empty())
                .then(|| Reason::ResourceClaims { claims: spec.resource_claims.clone() }),
            spread: Vec::new(),
            affinity: Vec::new(),
            affinity_self: false,
            anti: Vec::new(),
            holds: Vec::new(),
            ports: Vec::new(),
            volumes: Vec::new(),
            single: Vec::new(),
            claims: Vec::new(),
            ladder: Vec::new(),
        };
        let mut demand = self.demand(spec, strict);
        self.storage(spec, &mut class, &mut demand);
        let plain = self.demand(base, false);
        let hard = base.spread.iter().filter(|constraint| constraint.hard).count();
        self.topology(namespace, spec, &plain, hard, &mut class);
        class.demand = self.statics.of(demand);
        for container in spec.containers.iter().chain(spec.init_containers.iter().filter(|init| init.sidecar))
        {
            for port in container.host_ports.iter().filter(|port| port.port != 0) {
                let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
                let any = port.ip.is_empty() || port.ip == "0.0.0.0";
                class.ports.push(Port {
                    number: port.port,
                    protocol: self.symbols.of(protocol),
                    ip: (!any).then(|| self.symbols.of(&port.ip)),
                });
            }
        }
        let number = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(class);
        number
    }

    fn demand(&mut self, spec: &PodSpec, strict: bool) -> Static {
        let selector = spec
            .node_selector
            .iter()
            .map(|(key, value)| Need::is(self.symbols.of(key), self.symbols.of(value)))
            .collect();
        let affinity = spec.affinity.node.required.as_ref().map(|terms| node_terms(&mut self.symbols, terms));
        let tolerations = self.tolerations(spec);
        Static { selector, affinity, tolerations, volumes: Vec::new(), zones: Vec::new(), strict }
    }

    fn tolerations(&mut self, spec: &PodSpec) -> Vec<Tolerance> {
        spec.tolerations
            .iter()
            .map(|toleration| Tolerance {
                key: (!toleration.key.is_empty()).then(|| self.symbols.of(&toleration.key)),
                exists: toleration.operator == TolerationOperator::Exists,
                value: self.symbols.of(&toleration.value),
                effect: toleration.effect,
            })
            .collect()
    }

    fn storage(&mut self, spec: &PodSpec, class: &mut Class, demand: &mut Static) {
        for volume in &spec.volumes {
            let VolumeSource::Claim(name) = &volume.source else { continue };
            let claim_symbol = self.symbols.of(name);
            let input = self.input;
            let Some(claim) = self.claims.get(&(class.namespace, claim_symbol)).map(|at| &input.claims[*at])
            else {
                class.refusal.get_or_insert_with(|| Reason::ClaimMissing { claim: name.clone() });
                continue;
            };
            let full = self.symbols.of(&format!("{}/{}", claim.namespace, claim.name));
            if claim.single_pod {
                class.single.push(full);
            }
            let refusal = match &claim.volume {
                Some(volume) => {
                    let missing = self.bound_volume(claim_symbol, name, volume, class, demand);
                    if missing.is_some() {
                        self.unbound_claim(claim_symbol, full, claim, class, demand);
                    }
                    missing
                }
                None => self.unbound_claim(claim_symbol, full, claim, class, demand),
            };
            if let Some(refusal) = refusal {
                class.refusal.get_or_insert(refusal);
            }
        }
    }

    fn bound_volume(
        &mut self,
        claim: Sym,
        claim_name: &str,
        volume: &str,
        class: &mut Class,
        demand: &mut Static,
    ) -> Option<Reason> {
        let symbol = self.symbols.of(volume);
        let input = self.input;
        let Some(volume) = self.volumes.get(&symbol).map(|at| &input.volumes[*at]) else {
            return Some(Reason::VolumeMissing { claim: claim_name.to_owned(), volume: volume.to_owned() });
        };
        if let Some(terms) = &volume.node_affinity {
            let terms: Terms = node_terms(&mut self.symbols, terms);
            demand.volumes.push((claim, terms));
        }
        for key in ZONE_KEYS {
            if let Some(values) = volume.labels.get(key) {
                let values = values.split("__").map(|value| self.symbols.of(value)).collect();
                let key = self.symbols.of(key);
                demand.zones.push((claim, key, values));
            }
        }
        if let Some(driver) = &volume.driver {
            class.volumes.push((self.symbols.of(driver), symbol));
        }
        None
    }

    fn unbound_claim(
        &mut self,
        symbol: Sym,
        full: Sym,
        claim: &Claim,
        class: &mut Class,
        demand: &mut Static,
    ) -> Option<Reason> {
        let name = claim.name.clone();
        let storage: Option<&StorageClass> = claim
            .class
            .as_ref()
            .and_then(|class| self.input.storage_classes.iter().find(|storage| storage.name == *class));
        let Some(storage) = storage else { return Some(Reason::ClaimWithoutClass { claim: name }) };
        // Also where no such pod can come: one that runs has its volume, whatever is not known of it yet.
        class.volumes.push((self.symbols.of(&storage.provisioner), full));
        if !storage.wait_for_first_consumer {
            return Some(Reason::ClaimUnbound { claim: name });
        }
        if storage.provisioner == NO_PROVISIONER {
            let Some(open) = self.open_claim(full, claim) else {
                return Some(Reason::ClaimNotProvisioned { claim: name });
            };
            class.claims.push(open);
            class.claims.sort_by_key(|claim| self.open_claims[*claim as usize].request);
            return None;
        }
        if !storage.allowed_topologies.is_empty() {
            let terms = node_terms(&mut self.symbols, &storage.allowed_topologies);
            demand.volumes.push((symbol, terms));
        }
        None
    }

    /// The first `own_hard` spread constraints are the pod's own, those behind were preferences.
    fn topology(
        &mut self,
        namespace: Sym,
        spec: &PodSpec,
        demand: &Static,
        own_hard: usize,
        class: &mut Class,
    ) {
        let own = self.idents.items[class.ident as usize].clone();
        let affinity: Vec<Matcher> =
            spec.affinity.pods.required.iter().map(|term| self.matcher(namespace, spec, term)).collect();
        if !affinity.is_empty() {
            class.affinity_self =
                affinity.iter().all(|matcher| matcher.matches(own.0, &own.1, &self.symbols));
            let together = self.matchers.of(affinity);
            for term in &spec.affinity.pods.required {
                let key = self.key(&term.topology_key);
                let counter = self.counter(CounterKind::Match, together, key, None);
                class.affinity.push(counter);
            }
        }
        for term in &spec.affinity.anti.required {
            let matcher = self.matcher(namespace, spec, term);
            let alone = self.matchers.of(vec![matcher]);
            let key = self.key(&term.topology_key);
            let matched = self.counter(CounterKind::Match, alone, key, None);
            let held = self.counter(CounterKind::Hold, alone, key, None);
            class.anti.push(matched);
            class.holds.push(held);
        }
        let hard: Vec<&Spread> = spec.spread.iter().filter(|constraint| constraint.hard).collect();
        let every_key: Vec<u32> = hard.iter().map(|constraint| self.key(&constraint.topology_key)).collect();
        for (at, constraint) in hard.into_iter().enumerate() {
            let mut keys = if at < own_hard { every_key[..own_hard].to_vec() } else { every_key.clone() };
            keys.sort_unstable();
            keys.dedup();
            let mut needs = constraint.selector.as_ref().map(|own| selector(&mut self.symbols, own));
            for key in &constraint.match_label_keys {
                if let (Some(needs), Some(value)) = (&mut needs, spec.labels.get(key)) {
                    needs.push(Need::is(self.symbols.of(key), self.symbols.of(value)));
                }
            }
            let mut matcher = Matcher { namespaces: Some(vec![namespace]), needs };
            let self_match = matcher.matches(own.0, &own.1, &self.symbols);
            // The scheduler counts nobody for a selector without requirements, and the pod itself all the same.
            matcher.needs = matcher.needs.filter(|needs| !needs.is_empty());
            let alone = self.matchers.of(vec![matcher]);
            let filter = Filter {
                selector: (constraint.node_affinity == SpreadPolicy::Honor)
                    .then(|| (demand.selector.clone(), demand.affinity.clone())),
                tolerations: (constraint.node_taints == SpreadPolicy::Honor)
                    .then(|| demand.tolerations.clone()),
                keys,
            };
            let filter = self.filters.of(filter);
            let key = self.key(&constraint.topology_key);
            let counter = self.counter(CounterKind::Match, alone, key, Some(filter));
            class.spread.push(SpreadCheck {
                counter,
                self_match,
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains.unwrap_or(1),
            });
        }
    }

    fn matcher(&mut self, namespace: Sym, spec: &PodSpec, term: &PodTerm) -> Matcher {
        let mut needs = term.selector.as_ref().map(|own| selector(&mut self.symbols, own));
        for (keys, operator) in [
            (&term.match_label_keys, crate::model::Operator::In),
            (&term.mismatch_label_keys, crate::model::Operator::NotIn),
        ] {
            for key in keys {
                if let (Some(needs), Some(value)) = (&mut needs, spec.labels.get(key)) {
                    let requirement = Requirement { key: key.clone(), operator, values: vec![value.clone()] };
                    needs.push(Need::of(&mut self.symbols, &requirement));
                }
            }
        }
        let namespaces = match &term.namespace_selector {
            None if term.namespaces.is_empty() => Some(vec![namespace]),
            Some(all) if all.labels.is_empty() && all.expressions.is_empty() => None,
            chosen => {
                let mut set: Vec<Sym> = term.namespaces.iter().map(|name| self.symbols.of(name)).collect();
                if let Some(chosen) = chosen {
                    let needs = selector(&mut self.symbols, chosen);
                    for candidate in &self.input.namespaces {
                        let labels = crate::select::labels(&mut self.symbols, &candidate.labels);
                        if crate::select::all_hold(&needs, &labels, &self.symbols) {
                            set.push(self.symbols.of(&candidate.name));
                        }
                    }
                }
                set.sort_unstable();
                set.dedup();
                Some(set)
            }
        };
        Matcher { namespaces, needs }
    }
}

fn by_weight<T>(terms: &[crate::model::Weighted<T>]) -> Vec<&T> {
    let mut sorted: Vec<_> = terms.iter().collect();
    sorted.sort_by_key(|weighted| std::cmp::Reverse(weighted.weight));
    sorted.into_iter().map(|weighted| &weighted.term).collect()
}

/// Every term of the first list together with the second.
fn join(required: Option<&[NodeTerm]>, preferred: &NodeTerm) -> Vec<NodeTerm> {
    match required {
        None => vec![preferred.clone()],
        Some(terms) => terms
            .iter()
            .filter(|term| !(term.labels.is_empty() && term.fields.is_empty()))
            .map(|term| {
                let mut both = term.clone();
                both.labels.extend(preferred.labels.iter().cloned());
                both.fields.extend(preferred.fields.iter().cloned());
                both
            })
            .collect(),
    }
}
