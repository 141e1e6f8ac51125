//! What is where, at one moment of thinking. Everything that is tried is written to a journal and can be taken back, so
//! that no copy of the cluster is ever made.

mod claims;
mod objections;

pub(crate) use objections::too_small;

use crate::board::{Board, BoardNode, ClassId, CounterKind, FRESH, NOWHERE, NodeOrigin, Port};
use crate::intern::{Map, Sym};

pub(crate) type NodeId = u32;
pub(crate) type TemplateId = u32;

/// Over which domains a spread constraint is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    /// Over nodes that are there: nothing is bought.
    Existing,
    /// Also over what could be bought: zones that could get a node, and host names without end.
    Universe,
    /// Over nodes that are there and those of the plan.
    Planned,
}

pub(crate) struct Place {
    pub class: u32,
    pub open: bool,
    pub template: Option<TemplateId>,
    /// Pods other than those of daemon sets that a new node comes with.
    pub pods: i64,
    ports: Vec<Port>,
    /// Driver, volume, users.
    attached: Vec<(Sym, Sym, i64)>,
    limits: Vec<(Sym, i64)>,
}

#[derive(Clone, Copy)]
enum Step {
    Placed { class: ClassId, node: NodeId, count: i64 },
    Removed { class: ClassId, node: NodeId },
    Opened,
    Retyped { node: NodeId, before: TemplateId },
    Closed { node: NodeId, before: bool },
    Stood,
}

pub(crate) struct State<'a> {
    pub board: &'a Board<'a>,
    pub places: Vec<Place>,
    pub law: Law,
    free: Vec<i64>,
    domains: Vec<u32>,
    /// Nodes that were there before anything was opened.
    pub existing: usize,
    /// Nodes of which spread constraints know: those that were there, and those of the plan that are taken for granted.
    standing: usize,
    /// By counter: where its numbers begin; for host names unused.
    offsets: Vec<usize>,
    table: Vec<i32>,
    /// In the same order: how many nodes count for a spread constraint.
    eligible: Vec<i32>,
    /// In the same order: a node that counts could be bought there.
    possible: Vec<bool>,
    /// By host name: counter and number.
    hosts: Vec<Vec<(u32, i32)>>,
    /// By counter on host names: how many hosts have a number, and whether a host that counts could be bought.
    histograms: Vec<Vec<i32>>,
    possible_host: Vec<bool>,
    totals: Vec<i32>,
    host_key: Option<usize>,
    single: Map<Sym, i64>,
    /// By open claim: its volume and how many pods use it.
    pub given: Vec<Option<(u32, i64)>>,
    /// By volume.
    taken: Vec<bool>,
    /// Pods are put where they would go, not where they are: those that run have their volumes, whatever their claims say.
    planning: bool,
    journal: Vec<Step>,
}

impl<'a> State<'a> {
    /// Nodes without any pods.
    pub fn new(board: &'a Board<'a>) -> Self {
        let host_key = board.keys.iter().position(|key| !key.dense);
        let mut offsets = Vec::with_capacity(board.counters.len());
        let mut length = 0;
        for counter in &board.counters {
            offsets.push(length);
            let key = &board.keys[counter.key as usize];
            if key.dense {
                length += key.domains.len();
            }
        }
        let hosts = host_key.map_or(0, |key| board.keys[key].domains.len());
        let mut state = Self {
            board,
            places: Vec::with_capacity(board.nodes.len()),
            law: Law::Existing,
            free: Vec::with_capacity(board.nodes.len() * board.width()),
            domains: Vec::with_capacity(board.nodes.len() * board.keys.len()),
            existing: board.nodes.len(),
            standing: board.nodes.len(),
            offsets,
            table: vec![0; length],
            eligible: vec![0; length],
            possible: vec![false; length],
            hosts: vec![Vec::new(); hosts],
            histograms: vec![Vec::new(); board.counters.len()],
            possible_host: vec![false; board.counters.len()],
            totals: vec![0; board.counters.len()],
            host_key,
            single: Map::default(),
            given: vec![None; board.open_claims.len()],
            taken: vec![false; board.input.volumes.len()],
            planning: false,
            journal: Vec::new(),
        };
        for node in &board.nodes {
            state.places.push(Place {
                class: node.class,
                open: node.open,
                template: None,
                pods: 0,
                ports: Vec::new(),
                attached: Vec::new(),
                limits: node.attach_limits.clone(),
            });
            state.free.extend_from_slice(&node.allocatable);
            state.domains.extend_from_slice(&node.domains);
        }
        state.survey();
        state.survey_templates();
        state
    }

    /// Which domains exist, for every spread constraint.
    fn survey(&mut self) {
        let board = self.board;
        let mut kinds: Map<(usize, u32, u32), i32> = Map::default();
        let mut order: Vec<(usize, u32, u32)> = Vec::new();
        for node in board.nodes.iter().filter(|node| is_there(node)) {
            for (key, &domain) in node.domains.iter().enumerate().filter(|(_, domain)| **domain != NOWHERE) {
                let domain = if board.keys[key].dense { domain } else { 0 };
                let entry = kinds.entry((key, node.class, domain)).or_insert(0);
                if *entry == 0 {
                    order.push((key, node.class, domain));
                }
                *entry += 1;
            }
        }
        for (number, counter) in board.counters.iter().enumerate() {
            let Some(filter) = counter.filter else { continue };
            for &(key, class, domain) in order.iter().filter(|(key, _, _)| *key == counter.key as usize) {
                if board.counts(filter, class) {
                    let nodes = kinds[&(key, class, domain)];
                    if board.keys[key].dense {
                        self.eligible[self.offsets[number] + domain as usize] += nodes;
                    } else {
                        let histogram = &mut self.histograms[number];
                        histogram.resize(histogram.len().max(1), 0);
                        histogram[0] += nodes;
                    }
                }
            }
        }
    }

    fn survey_templates(&mut self) {
        let board = self.board;
        let mut kinds: Vec<(u32, &[u32])> =
            board.templates.iter().map(|template| (template.class, template.domains.as_slice())).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for (number, counter) in board.counters.iter().enumerate() {
            let Some(filter) = counter.filter else { continue };
            for (class, domains) in &kinds {
                let domain = domains[counter.key as usize];
                if domain == NOWHERE || !board.counts(filter, *class) {
                    continue;
                }
                if board.keys[counter.key as usize].dense && domain != FRESH {
                    self.possible[self.offsets[number] + domain as usize] = true;
                } else {
                    self.possible_host[number] = true;
                }
            }
        }
    }

    pub fn free(&self, node: NodeId) -> &[i64] {
        let width = self.board.width();
        &self.free[node as usize * width..(node as usize + 1) * width]
    }

    pub fn domain(&self, node: NodeId, key: u32) -> u32 {
        self.domains[node as usize * self.board.keys.len() + key as usize]
    }

    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back everything since the mark.
    pub fn rollback(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Step::Placed { class, node, count }) => self.book(class, node, -count, true),
                Some(Step::Removed { class, node }) => self.book(class, node, 1, true),
                Some(Step::Opened) => self.close_last(),
                Some(Step::Retyped { node, before }) => self.change_type(node, before),
                Some(Step::Closed { node, before }) => self.places[node as usize].open = before,
                Some(Step::Stood) => self.unstand_last(),
                None => break,
            }
        }
    }

    /// From here on it is about what could be.
    pub fn plan(&mut self) {
        self.settle();
        self.planning = true;
    }

    /// Forgets how to take back what was done.
    pub fn settle(&mut self) {
        self.journal.clear();
    }

    pub fn place(&mut self, class: ClassId, node: NodeId, count: i64) {
        self.book(class, node, count, true);
        self.journal.push(Step::Placed { class, node, count });
    }

    /// A pod that is on its way out: it takes room, and affinity sees it, spread does not.
    pub fn place_leaving(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, 1, false);
    }

    pub fn remove(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, -1, true);
        self.journal.push(Step::Removed { class, node });
    }

    /// No more pods for this node.
    pub fn close(&mut self, node: NodeId, open: bool) {
        let before = std::mem::replace(&mut self.places[node as usize].open, open);
        self.journal.push(Step::Closed { node, before });
    }

    pub fn open(&mut self, template: TemplateId) -> NodeId {
        let board = self.board;
        let kind = &board.templates[template as usize];
        let node = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place {
            class: kind.class,
            open: true,
            template: Some(template),
            pods: 0,
            ports: Vec::new(),
            attached: Vec::new(),
            limits: kind.attach_limits.clone(),
        });
        self.free.extend_from_slice(&kind.free);
        for domain in &kind.domains {
            if *domain == FRESH {
                self.domains.push(u32::try_from(self.hosts.len()).unwrap_or(NOWHERE));
                self.hosts.push(Vec::new());
            } else {
                self.domains.push(*domain);
            }
        }
        for daemon in &kind.daemons {
            self.greet(*daemon, node, 1);
        }
        self.journal.push(Step::Opened);
        node
    }

    /// A node of the plan that is there from now on, for spread constraints too.
    pub fn open_standing(&mut self, template: TemplateId) -> NodeId {
        let node = self.open(template);
        self.stand_next();
        self.journal.push(Step::Stood);
        node
    }

    fn close_last(&mut self) {
        let Some(node) = self.places.len().checked_sub(1) else { return };
        let board = self.board;
        let number = u32::try_from(node).unwrap_or(u32::MAX);
        if let Some(template) = self.places[node].template {
            for daemon in &board.templates[template as usize].daemons {
                self.greet(*daemon, number, -1);
            }
            if board.templates[template as usize].domains.contains(&FRESH) {
                self.hosts.pop();
            }
        }
        self.places.pop();
        self.free.truncate(node * board.width());
        self.domains.truncate(node * board.keys.len());
    }

    /// A daemon pod on a new node: its room is taken already.
    fn greet(&mut self, class: ClassId, node: NodeId, count: i32) {
        let board = self.board;
        for counter in &board.ident(class).raises {
            self.raise(*counter, node, count, true);
        }
        for counter in &board.class(class).holds {
            self.raise(*counter, node, count, true);
        }
        let ports = &board.class(class).ports;
        if count > 0 {
            self.places[node as usize].ports.extend_from_slice(ports);
        }
    }

    /// The same node as another offering. Only between templates that differ in nothing but size and price.
    pub fn retype(&mut self, node: NodeId, template: TemplateId) {
        if let Some(before) = self.places[node as usize].template {
            self.change_type(node, template);
            self.journal.push(Step::Retyped { node, before });
        }
    }

    fn change_type(&mut self, node: NodeId, template: TemplateId) {
        let board = self.board;
        let Some(before) = self.places[node as usize].template.replace(template) else { return };
        let width = board.width();
        let free = &mut self.free[node as usize * width..(node as usize + 1) * width];
        let (old, new) = (&board.templates[before as usize].free, &board.templates[template as usize].free);
        for ((free, old), new) in free.iter_mut().zip(old).zip(new) {
            *free += new - old;
        }
    }

    fn book(&mut self, class: ClassId, node: NodeId, count: i64, staying: bool) {
        let board = self.board;
        let kind = board.class(class);
        let width = board.width();
        let free = &mut self.free[node as usize * width..(node as usize + 1) * width];
        for (free, amount) in free.iter_mut().zip(&kind.request) {
            *free -= amount * count;
        }
        self.places[node as usize].pods += count;
        let delta = i32::try_from(count).unwrap_or(0);
        for counter in &board.ident(class).raises {
            self.raise(*counter, node, delta, staying);
        }
        for counter in &kind.holds {
            self.raise(*counter, node, delta, staying);
        }
        if !kind.ports.is_empty() {
            let ports = &mut self.places[node as usize].ports;
            for port in &kind.ports {
                if count > 0 {
                    ports.push(*port);
                } else if let Some(at) = ports.iter().rposition(|own| own == port) {
                    ports.remove(at);
                }
            }
        }
        for (driver, volume) in &kind.volumes {
            let attached = &mut self.places[node as usize].attached;
            match attached.iter_mut().find(|(_, own, _)| own == volume) {
                Some(entry) => entry.2 += count,
                None => attached.push((*driver, *volume, count)),
            }
            attached.retain(|(_, _, users)| *users > 0);
        }
        if self.planning && !kind.claims.is_empty() {
            self.give_volumes(class, node, count);
        }
        for claim in &kind.single {
            *self.single.entry(*claim).or_insert(0) += count;
        }
    }

    fn raise(&mut self, counter: u32, node: NodeId, delta: i32, staying: bool) {
        let board = self.board;
        let kind = &board.counters[counter as usize];
        if let Some(filter) = kind.filter
            && (!staying || !board.counts(filter, self.places[node as usize].class))
        {
            return;
        }
        let domain = self.domain(node, kind.key);
        if domain == NOWHERE {
            return;
        }
        self.totals[counter as usize] += delta;
        if board.keys[kind.key as usize].dense {
            self.table[self.offsets[counter as usize] + domain as usize] += delta;
            return;
        }
        let list = &mut self.hosts[domain as usize];
        let before = match list.iter_mut().find(|(own, _)| *own == counter) {
            Some(entry) => {
                entry.1 += delta;
                entry.1 - delta
            }
            None => {
                list.push((counter, delta));
                0
            }
        };
        if kind.filter.is_some() && (node as usize) < self.standing {
            let histogram = &mut self.histograms[counter as usize];
            let (before, after) =
                (usize::try_from(before).unwrap_or(0), usize::try_from(before + delta).unwrap_or(0));
            histogram.resize(histogram.len().max(before.max(after) + 1), 0);
            histogram[before] -= 1;
            histogram[after] += 1;
        }
    }

    /// How many are counted where the node is; none where it lacks the label.
    fn count_at(&self, counter: u32, node: NodeId) -> Option<i32> {
        let key = self.board.counters[counter as usize].key;
        let domain = self.domain(node, key);
        if domain == NOWHERE {
            return None;
        }
        if self.board.keys[key as usize].dense {
            return Some(self.table[self.offsets[counter as usize] + domain as usize]);
        }
        let list = &self.hosts[domain as usize];
        Some(list.iter().find(|(own, _)| *own == counter).map_or(0, |(_, count)| *count))
    }

    /// The smallest number over the domains that count.
    fn minimum(&self, counter: u32, min_domains: i32) -> i32 {
        let number = counter as usize;
        let key = &self.board.keys[self.board.counters[number].key as usize];
        if !key.dense {
            return match self.law {
                Law::Universe if self.possible_host[number] => 0,
                _ => {
                    let histogram = &self.histograms[number];
                    let domains: i32 = histogram.iter().sum();
                    if domains < min_domains {
                        return 0;
                    }
                    histogram
                        .iter()
                        .position(|hosts| *hosts > 0)
                        .map_or(0, |least| i32::try_from(least).unwrap_or(0))
                }
            };
        }
        let range = self.offsets[number]..self.offsets[number] + key.domains.len();
        let mut least = i32::MAX;
        let mut domains = 0;
        for at in range {
            if self.eligible[at] > 0 || (self.law == Law::Universe && self.possible[at]) {
                least = least.min(self.table[at]);
                domains += 1;
            }
        }
        if domains == 0 || domains < min_domains { 0 } else { least }
    }

    /// From here on the nodes of the plan are taken for granted, and no others come.
    pub fn plan_stands(&mut self) {
        self.law = Law::Planned;
        while self.standing < self.places.len() {
            self.stand_next();
        }
    }

    /// The opposite, before anything is taken back.
    pub fn plan_falls(&mut self, law: Law) {
        self.law = law;
        while self.standing > self.existing {
            self.unstand_last();
        }
    }

    fn stand_next(&mut self) {
        self.count_domains(self.standing, 1);
        self.standing += 1;
    }

    fn unstand_last(&mut self) {
        self.standing -= 1;
        self.count_domains(self.standing, -1);
    }

    /// The domains that a node adds to those over which spread is measured.
    fn count_domains(&mut self, place: usize, delta: i32) {
        let board = self.board;
        let node = u32::try_from(place).unwrap_or(u32::MAX);
        let class = self.places[place].class;
        for (number, counter) in (0u32..).zip(&board.counters) {
            let Some(filter) = counter.filter else { continue };
            let domain = self.domain(node, counter.key);
            if domain == NOWHERE || !board.counts(filter, class) {
                continue;
            }
            if board.keys[counter.key as usize].dense {
                self.eligible[self.offsets[number as usize] + domain as usize] += delta;
            } else {
                let count = usize::try_from(self.count_at(number, node).unwrap_or(0)).unwrap_or(0);
                let histogram = &mut self.histograms[number as usize];
                histogram.resize(histogram.len().max(count + 1), 0);
                histogram[count] += delta;
            }
        }
    }

    /// How many more of a class the free room takes.
    pub fn room(&self, class: ClassId, node: NodeId) -> i64 {
        room_in(&self.board.class(class).request, self.free(node))
    }

    pub fn fits(&self, class: ClassId, node: NodeId) -> bool {
        let place = &self.places[node as usize];
        place.open
            && fits_in(&self.board.class(class).request, self.free(node))
            && self.board.agrees(class, place.class)
            && self.suits(class, node)
    }

    /// Everything but labels, taints and amounts.
    pub fn suits(&self, class: ClassId, node: NodeId) -> bool {
        let kind = self.board.class(class);
        let ident = self.board.ident(class);
        let place = &self.places[node as usize];
        kind.ports.iter().all(|port| !place.ports.iter().any(|taken| taken.clashes(*port)))
            && (kind.claims.is_empty() || self.lacks_volume(class, node).is_none())
            && (kind.volumes.is_empty() || self.over_attach_limit(class, node).is_none())
            && kind.single.iter().all(|claim| self.single.get(claim).is_none_or(|users| *users == 0))
            && kind.anti.iter().all(|counter| self.count_at(*counter, node).is_none_or(|count| count == 0))
            && ident
                .forbidden
                .iter()
                .all(|counter| self.count_at(*counter, node).is_none_or(|count| count == 0))
            && (kind.affinity.is_empty() || self.affinity_met(class, node))
            && kind.spread.iter().all(|check| {
                self.count_at(check.counter, node).is_some_and(|count| {
                    count + i32::from(check.self_match) - self.minimum(check.counter, check.min_domains)
                        <= check.max_skew
                })
            })
    }

    fn affinity_met(&self, class: ClassId, node: NodeId) -> bool {
        let kind = self.board.class(class);
        let mut met = true;
        for counter in &kind.affinity {
            match self.count_at(*counter, node) {
                None => return false,
                Some(count) => met &= count > 0,
            }
        }
        met || (kind.affinity_self && kind.affinity.iter().all(|counter| self.totals[*counter as usize] == 0))
    }

    fn over_attach_limit(&self, class: ClassId, node: NodeId) -> Option<(Sym, i64)> {
        let kind = self.board.class(class);
        let place = &self.places[node as usize];
        place.limits.iter().copied().find(|(driver, limit)| {
            let mut volumes: Vec<Sym> = kind
                .volumes
                .iter()
                .filter(|(own, volume)| {
                    own == driver && !place.attached.iter().any(|(_, there, _)| there == volume)
                })
                .map(|(_, volume)| *volume)
                .collect();
            volumes.sort_unstable();
            volumes.dedup();
            let there = place.attached.iter().filter(|(own, _, _)| own == driver).count();
            let needed = i64::try_from(there + volumes.len()).unwrap_or(i64::MAX);
            !volumes.is_empty() && needed > *limit
        })
    }

    /// Pods of the class can be put on one node many at once: none of them minds the others.
    pub fn in_bulk(&self, class: ClassId) -> bool {
        let kind = self.board.class(class);
        kind.anti.is_empty()
            && kind.spread.is_empty()
            && kind.ports.is_empty()
            && kind.volumes.is_empty()
            && kind.claims.is_empty()
            && kind.single.is_empty()
    }

    /// What one new node takes of the class the next of its kind takes as well.
    pub fn repeats(&self, class: ClassId) -> bool {
        self.in_bulk(class) && self.board.class(class).affinity.is_empty()
    }

    /// Whether the numbers that keep a class away from a node are those of that node alone.
    pub fn minds_only_hosts(&self, class: ClassId) -> bool {
        let board = self.board;
        let host = |counter: &u32| Some(board.counters[*counter as usize].key as usize) == self.host_key;
        let kind = board.class(class);
        kind.affinity.is_empty()
            && kind.claims.is_empty()
            && kind.anti.iter().all(host)
            && kind.spread.iter().all(|check| host(&check.counter))
            && board.ident(class).forbidden.iter().all(host)
    }

    /// It keeps its own kind away.
    pub fn avoids_itself(&self, class: ClassId) -> bool {
        let board = self.board;
        let ident = board.ident(class);
        board.class(class).anti.iter().any(|counter| {
            board.counters[*counter as usize].kind == CounterKind::Match && ident.raises.contains(counter)
        })
    }
}

pub(crate) fn is_there(node: &BoardNode) -> bool {
    node.open || matches!(node.origin, NodeOrigin::Existing(_))
}

pub(crate) fn fits_in(request: &[i64], free: &[i64]) -> bool {
    request.iter().zip(free).all(|(amount, free)| *amount <= *free || *amount == 0)
}

pub(crate) fn room_in(request: &[i64], free: &[i64]) -> i64 {
    request
        .iter()
        .zip(free)
        .filter(|(amount, _)| **amount > 0)
        .map(|(amount, free)| (*free).max(0) / amount)
        .min()
        .unwrap_or(0)
}
