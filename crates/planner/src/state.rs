//! What is where, at one moment of thinking. Everything that is tried is written to a journal and can be taken back, so
//! that no copy of the cluster is ever made.

mod claims;
mod counts;
mod fits;
mod objections;

pub(crate) use counts::is_there;
pub(crate) use fits::{fits_in, room_in};
pub(crate) use objections::too_small;

use crate::board::{Board, ClassId, FRESH, NOWHERE, Port};
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
    Removed { class: ClassId, node: NodeId, staying: bool },
    Opened,
    Retyped { node: NodeId, before: TemplateId },
    Closed { node: NodeId, before: bool },
    Stood,
    Withdrawn { node: NodeId },
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
                Some(Step::Removed { class, node, staying }) => self.book(class, node, 1, staying),
                Some(Step::Opened) => self.close_last(),
                Some(Step::Retyped { node, before }) => self.change_type(node, before),
                Some(Step::Closed { node, before }) => self.places[node as usize].open = before,
                Some(Step::Stood) => self.unstand_last(),
                Some(Step::Withdrawn { node }) => self.count_domains(node as usize, 1),
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

    /// A pod that is there from the beginning: nobody takes it back by a rollback.
    pub fn place_running(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, 1, true);
    }

    /// A pod that is on its way out: it takes room, and affinity sees it, spread does not.
    pub fn place_leaving(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, 1, false);
    }

    pub fn remove(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, -1, true);
        self.journal.push(Step::Removed { class, node, staying: true });
    }

    /// The opposite of `place_leaving`.
    pub fn remove_leaving(&mut self, class: ClassId, node: NodeId) {
        self.book(class, node, -1, false);
        self.journal.push(Step::Removed { class, node, staying: false });
    }

    /// The node is gone, not only closed: spread constraints do not know it any more. All pods are off it.
    pub fn withdraw(&mut self, node: NodeId) {
        self.count_domains(node as usize, -1);
        self.journal.push(Step::Withdrawn { node });
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
}
