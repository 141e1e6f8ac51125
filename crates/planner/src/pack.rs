//! Putting pods into nodes: first where room is free, then where more room is cheapest, be it a new node or a larger
//! one in place of a smaller that is not bought yet.

use crate::board::{Board, ClassId, PODS};
use crate::intern::Quick;
use crate::market::{Ledger, Market};
use crate::model::{PodSpec, Preferences, Price, VolumeSource};
use crate::state::{Law, NodeId, State, TemplateId, fits_in, room_in};
use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// So many of the nodes that grew last are asked first when there are many.
const RECENT: usize = 32;
/// So many sizes above the first that is large enough are looked at.
const SIZES: usize = 16;

/// Pods of one class that wait.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub class: ClassId,
    pub count: i64,
}

/// Pods of a class on a node, in the order they are put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub class: ClassId,
    pub node: NodeId,
    pub count: i64,
}

pub(crate) struct Packing<'s, 'a> {
    pub state: &'s mut State<'a>,
    pub market: &'s Market,
    pub ledger: Ledger,
    pub puts: Vec<Put>,
    /// New nodes before this one are none of its own: they stay as they are.
    first: usize,
    /// Numbers of new nodes that grew or came lately, the last one last.
    recent: Vec<NodeId>,
    /// By zone of a template: how many were opened, for balance.
    zones: crate::intern::Map<(usize, u32), u32>,
    candidates: Vec<(f64, NodeId)>,
}

/// A way to get room, by price for one pod.
#[derive(Clone, Copy, Debug)]
struct Offer {
    price: Price,
    pods: i64,
    template: TemplateId,
    /// A node that becomes this, instead of a new one.
    grow: Option<NodeId>,
    /// What is left over, as a tie-break.
    waste: f64,
    zone_load: u32,
    preferred: bool,
}

impl Offer {
    fn better(&self, other: &Self) -> bool {
        let ours = i128::from(self.price) * i128::from(other.pods);
        let theirs = i128::from(other.price) * i128::from(self.pods);
        ours.cmp(&theirs)
            .then(self.grow.is_none().cmp(&other.grow.is_none()))
            .then(other.preferred.cmp(&self.preferred))
            .then(other.pods.cmp(&self.pods))
            .then(self.zone_load.cmp(&other.zone_load))
            .then(self.waste.total_cmp(&other.waste))
            .then(self.template.cmp(&other.template))
            == Ordering::Less
    }
}

impl<'s, 'a> Packing<'s, 'a> {
    pub fn new(state: &'s mut State<'a>, market: &'s Market, ledger: Ledger) -> Self {
        Self {
            first: state.places.len(),
            state,
            market,
            ledger,
            puts: Vec::new(),
            recent: Vec::new(),
            zones: crate::intern::Map::default(),
            candidates: Vec::new(),
        }
    }

    fn board(&self) -> &'a Board<'a> {
        self.state.board
    }

    /// Puts pods where room is free. Gives back how many are left.
    pub fn fill(
        &mut self,
        demand: ClassId,
        class: ClassId,
        mut count: i64,
        nodes: std::ops::Range<usize>,
    ) -> i64 {
        let state = &*self.state;
        let kind = state.board.class(demand);
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let there = self.first;
        for node in nodes {
            let place = &state.places[node];
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            let free = state.free(node);
            if place.open && fits_in(&kind.request, free) && state.board.agrees(demand, place.class) {
                let score = if (node as usize) < there { f64::MIN } else { self.market.value(free) };
                candidates.push((score, node));
            }
        }
        // What exists first, as it stands; then the node with the least room to lose.
        candidates.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let bulk = self.state.in_bulk(demand);
        let once = bulk || self.state.minds_only_hosts(demand);
        loop {
            let before = count;
            for (_, node) in &candidates {
                if count == 0 {
                    break;
                }
                count -= self.put_here(demand, class, *node, count, bulk);
            }
            if count == 0 || count == before || once {
                break;
            }
        }
        self.candidates = candidates;
        count
    }

    /// As many as go, of those that are wanted.
    fn put_here(&mut self, demand: ClassId, class: ClassId, node: NodeId, wanted: i64, bulk: bool) -> i64 {
        let mut put = 0;
        if bulk {
            if self.state.suits(demand, node) {
                put = self.state.room(demand, node).min(wanted);
                if put > 0 {
                    self.state.place(class, node, put);
                }
            }
        } else {
            while put < wanted && self.state.fits(demand, node) {
                self.state.place(class, node, 1);
                put += 1;
            }
        }
        if put > 0 {
            self.note(class, node, put);
        }
        put
    }

    /// What was found to fit.
    pub fn put(&mut self, class: ClassId, node: NodeId, count: i64) {
        self.state.place(class, node, count);
        self.note(class, node, count);
    }

    fn note(&mut self, class: ClassId, node: NodeId, count: i64) {
        match self.puts.last_mut() {
            Some(last) if last.class == class && last.node == node => last.count += count,
            _ => self.puts.push(Put { class, node, count }),
        }
    }

    /// Buys room for pods as long as there is some to be had. Gives back how many are left.
    pub fn buy(&mut self, demand: ClassId, class: ClassId, mut count: i64) -> i64 {
        let bulk = self.state.in_bulk(demand);
        while count > 0 {
            let Some(offer) = self.best_offer(demand, count) else { break };
            let offer = if offer.grow.is_none() { self.most_welcome(demand, offer, count) } else { offer };
            let node = match offer.grow {
                Some(node) => {
                    self.grow(node, offer.template);
                    node
                }
                None => self.open(offer.template),
            };
            let put = self.put_here(demand, class, node, count, bulk);
            count -= put;
            if put == 0 {
                break;
            }
            if offer.grow.is_none() && self.state.repeats(demand) {
                count -= self.repeat(demand, class, offer, count);
            }
        }
        count
    }

    /// More of the same, as long as each is filled.
    fn repeat(&mut self, demand: ClassId, class: ClassId, offer: Offer, count: i64) -> i64 {
        let mut put = 0;
        while count - put >= offer.pods
            && self.ledger.objection(self.board(), offer.template, None).is_none()
            && self.balanced(offer.template)
        {
            let node = self.open(offer.template);
            let here = self.put_here(demand, class, node, offer.pods, true);
            if here == 0 {
                break;
            }
            put += here;
        }
        put
    }

    /// No other zone with the same to offer has less.
    fn balanced(&self, template: TemplateId) -> bool {
        let kind = &self.board().templates[template as usize];
        kind.zone.is_none() || self.board().input.groups[kind.group].offerings.len() == 1
    }

    pub fn open(&mut self, template: TemplateId) -> NodeId {
        self.ledger.add(self.board(), template);
        let kind = &self.board().templates[template as usize];
        if let Some(zone) = kind.zone {
            *self.zones.entry((kind.group, zone)).or_insert(0) += 1;
        }
        let node = self.state.open(template);
        self.touch(node);
        node
    }

    fn grow(&mut self, node: NodeId, template: TemplateId) {
        if let Some(before) = self.state.places[node as usize].template {
            self.ledger.remove(self.board(), before);
        }
        self.ledger.add(self.board(), template);
        self.state.retype(node, template);
        self.touch(node);
    }

    fn touch(&mut self, node: NodeId) {
        self.recent.retain(|other| *other != node);
        if self.recent.len() >= RECENT {
            self.recent.remove(0);
        }
        self.recent.push(node);
    }

    fn best_offer(&mut self, demand: ClassId, count: i64) -> Option<Offer> {
        let fresh = self.fresh_offer(demand, count);
        let new_nodes = self.state.places.len() - self.first;
        let first = u32::try_from(self.first).unwrap_or(u32::MAX);
        let last = u32::try_from(self.state.places.len()).unwrap_or(u32::MAX);
        let mut best = fresh;
        let consider = |best: &mut Option<Offer>, node: NodeId| {
            if let Some(offer) = self.growth(demand, node, count)
                && best.is_none_or(|best| offer.better(&best))
            {
                *best = Some(offer);
            }
        };
        if new_nodes <= 2 * RECENT {
            (first..last).for_each(|node| consider(&mut best, node));
        } else {
            self.recent.iter().rev().for_each(|node| consider(&mut best, *node));
            if best.is_none_or(|best| best.grow.is_none()) {
                (first..last).for_each(|node| consider(&mut best, node));
            }
        }
        best
    }

    /// The cheapest new node, by what it costs for each pod it takes.
    fn fresh_offer(&mut self, demand: ClassId, count: i64) -> Option<Offer> {
        let board = self.board();
        let request = &board.class(demand).request;
        let alone = !self.state.in_bulk(demand);
        let mut best: Option<Offer> = None;
        let market = self.market;
        for family in &market.families {
            // Cheapest first: what takes all is not beaten by anything behind it.
            for &template in family {
                let kind = &board.templates[template as usize];
                if !fits_in(request, &kind.free) {
                    continue;
                }
                if !board.agrees(demand, kind.class) {
                    break;
                }
                let pods = if alone { 1 } else { room_in(request, &kind.free).min(count) };
                let zone_load = self.zone_load(template);
                let offer = Offer {
                    price: kind.price,
                    pods,
                    template,
                    grow: None,
                    waste: market.worth[template as usize],
                    zone_load,
                    preferred: kind.preferred,
                };
                if best.is_some_and(|best| !offer.better(&best)) {
                    if alone || pods == count {
                        break;
                    }
                    continue;
                }
                if self.ledger.objection(board, template, None).is_some()
                    || !self.suits_fresh(demand, template)
                {
                    continue;
                }
                best = Some(offer);
                if alone || pods == count {
                    break;
                }
            }
        }
        best
    }

    /// Of what costs the same and takes as many pods the one that agrees with most of what they would like.
    fn most_welcome(&mut self, class: ClassId, offer: Offer, count: i64) -> Offer {
        let board = self.board();
        let market = self.market;
        let request = &board.class(class).request;
        let alone = !self.state.in_bulk(class);
        for step in &board.class(class).ladder {
            let mut best: Option<Offer> = None;
            for &template in &market.allowed {
                let kind = &board.templates[template as usize];
                let pods = if alone { 1 } else { room_in(request, &kind.free).min(count) };
                if (kind.price, kind.preferred, pods) != (offer.price, offer.preferred, offer.pods)
                    || !fits_in(request, &kind.free)
                    || !board.agrees(*step, kind.class)
                {
                    continue;
                }
                let zone_load = self.zone_load(template);
                let twin = Offer { template, zone_load, waste: market.worth[template as usize], ..offer };
                if best.is_none_or(|best| twin.better(&best))
                    && self.ledger.objection(board, template, None).is_none()
                    && self.suits_fresh(*step, template)
                {
                    best = Some(twin);
                }
            }
            if let Some(best) = best {
                return best;
            }
        }
        offer
    }

    fn zone_load(&self, template: TemplateId) -> u32 {
        let kind = &self.board().templates[template as usize];
        kind.zone.map_or(0, |zone| self.zones.get(&(kind.group, zone)).copied().unwrap_or(0))
    }

    /// A pod would be welcome on a new node of this kind.
    pub fn suits_fresh(&mut self, demand: ClassId, template: TemplateId) -> bool {
        let board = self.board();
        let kind = board.class(demand);
        if kind.affinity.is_empty()
            && kind.anti.is_empty()
            && kind.spread.is_empty()
            && board.ident(demand).forbidden.is_empty()
            && kind.ports.is_empty()
            && kind.volumes.is_empty()
            && kind.claims.is_empty()
            && kind.single.is_empty()
        {
            return true;
        }
        let mark = self.state.mark();
        let node = self.state.open(template);
        let suits = self.state.suits(demand, node);
        self.state.rollback(mark);
        suits
    }

    /// The cheapest larger size of a new node that takes at least one more.
    fn growth(&self, demand: ClassId, node: NodeId, count: i64) -> Option<Offer> {
        let board = self.board();
        let place = &self.state.places[node as usize];
        let now = place.template?;
        if !place.open || !board.agrees(demand, place.class) {
            return None;
        }
        let current = &board.templates[now as usize];
        let family = &self.market.families[*self.market.family.get(now as usize)?];
        let request = &board.class(demand).request;
        let free = self.state.free(node);
        let start = self.market.rank[now as usize];
        let alone = !self.state.in_bulk(demand);
        if alone && !self.state.suits(demand, node) {
            return None;
        }
        let left = self.market.value(free) - self.market.worth[now as usize];
        let mut best: Option<Offer> = None;
        let mut seen = 0;
        for &template in &family[start + 1..] {
            let kind = &board.templates[template as usize];
            let pods = larger_room(request, free, &current.free, &kind.free);
            let pods = if alone { pods.min(1) } else { pods.min(count) };
            if pods < 1 {
                continue;
            }
            let price = kind.price - current.price;
            let waste = left + self.market.worth[template as usize];
            let offer = Offer {
                price,
                pods,
                template,
                grow: Some(node),
                waste,
                zone_load: 0,
                preferred: kind.preferred,
            };
            if best.is_none_or(|best| offer.better(&best))
                && self.ledger.objection(board, template, Some(now)).is_none()
            {
                best = Some(offer);
            }
            seen += 1;
            if seen >= SIZES || pods == count || alone {
                break;
            }
        }
        best.filter(|_| alone || self.state.suits(demand, node))
    }

    /// Every new node as the cheapest that still holds what was put on it.
    pub fn shrink(&mut self) {
        let board = self.board();
        for at in self.first..self.state.places.len() {
            let node = u32::try_from(at).unwrap_or(u32::MAX);
            let Some(now) = self.state.places[at].template else { continue };
            let Some(family) =
                self.market.family.get(now as usize).and_then(|at| self.market.families.get(*at))
            else {
                continue;
            };
            let current = &board.templates[now as usize];
            let free = self.state.free(node);
            let cheaper = family.iter().copied().take_while(|template| *template != now).find(|template| {
                let kind = &board.templates[*template as usize];
                let holds = free
                    .iter()
                    .zip(&kind.free)
                    .zip(&current.free)
                    .all(|((free, new), old)| free + new - old >= 0);
                holds && self.ledger.objection(board, *template, Some(now)).is_none()
            });
            if let Some(template) = cheaper {
                self.grow(node, template);
            }
        }
    }

    /// One class after the other, those that wait for others again, until nothing moves.
    pub fn run(&mut self, order: &[Demand]) -> Vec<Demand> {
        let mut waiting: Vec<Demand> = order.to_vec();
        loop {
            let mut left = Vec::new();
            let mut moved = false;
            for demand in waiting {
                let count = self.serve(demand.class, demand.count);
                moved |= count < demand.count;
                if count > 0 {
                    left.push(Demand { class: demand.class, count });
                }
            }
            if left.is_empty() || !moved {
                return left;
            }
            waiting = left;
        }
    }

    fn serve(&mut self, class: ClassId, mut count: i64) -> i64 {
        let board = self.board();
        let respect = board.input.settings.preferences == Preferences::Respect;
        for step in &board.class(class).ladder {
            if count == 0 {
                return 0;
            }
            count = self.fill(*step, class, count, 0..self.state.places.len());
            if respect {
                count = self.buy(*step, class, count);
            }
        }
        if count > 0 {
            count = self.fill(class, class, count, 0..self.state.places.len());
        }
        if count > 0 {
            // A preference decides between offers of one price only.
            count = self.buy(class, class, count);
        }
        count
    }

    /// Only where nodes are, until nothing moves.
    pub fn settle_existing(&mut self, order: &[Demand]) -> Vec<Demand> {
        self.state.law = Law::Existing;
        let mut waiting: Vec<Demand> = order.to_vec();
        loop {
            let mut left = Vec::new();
            let mut moved = false;
            for demand in waiting {
                let mut count = demand.count;
                let steps = &self.board().class(demand.class).ladder;
                for step in steps.iter().chain(std::iter::once(&demand.class)) {
                    if count > 0 {
                        count = self.fill(*step, demand.class, count, 0..self.first);
                    }
                }
                moved |= count < demand.count;
                if count > 0 {
                    left.push(Demand { class: demand.class, count });
                }
            }
            if left.is_empty() || !moved {
                return left;
            }
            waiting = left;
        }
    }
}

fn larger_room(request: &[i64], free: &[i64], old: &[i64], new: &[i64]) -> i64 {
    let mut room = i64::MAX;
    for at in 0..request.len() {
        let then = free[at] + new[at] - old[at];
        if then < 0 {
            // What is there already needs more of this.
            return 0;
        }
        if request[at] > 0 {
            room = room.min(then / request[at]);
        }
    }
    if room == i64::MAX { 0 } else { room }
}

struct Asking {
    demand: Demand,
    /// A number for the whole of the specification, once it is asked for.
    look: Cell<Option<u64>>,
}

impl Asking {
    /// By what the pods are, not by the order in which they came: who asks again gets the same answer.
    fn compare(&self, other: &Self, board: &Board<'_>) -> Ordering {
        let (own, theirs) = (board.class(self.demand.class), board.class(other.demand.class));
        (board.symbols.name(own.namespace).cmp(board.symbols.name(theirs.namespace)))
            .then_with(|| own.spec.labels.cmp(&theirs.spec.labels))
            .then_with(|| claims(&own.spec).cmp(claims(&theirs.spec)))
            .then_with(|| self.look(board).cmp(&other.look(board)))
            .then(self.demand.class.cmp(&other.demand.class))
    }

    fn look(&self, board: &Board<'_>) -> u64 {
        self.look.get().unwrap_or_else(|| {
            let mut hasher = Quick::default();
            board.class(self.demand.class).spec.hash(&mut hasher);
            self.look.set(Some(hasher.finish()));
            hasher.finish()
        })
    }
}

fn claims(spec: &PodSpec) -> impl Iterator<Item = &String> {
    spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim(claim) => Some(claim),
        _ => None,
    })
}

/// In which order classes are served: those that dictate how many nodes there are, those that are hard to please, and
/// large before small.
pub(crate) fn order(
    state: &State<'_>,
    market: &Market,
    demands: &[Demand],
    priority_first: bool,
) -> Vec<Demand> {
    let board = state.board;
    let mut keyed: Vec<(i32, u8, f64, f64, Asking)> = demands
        .iter()
        .map(|demand| {
            let kind = board.class(demand.class);
            let priority = if priority_first { -kind.priority } else { 0 };
            let tier = match () {
                () if state.avoids_itself(demand.class) || !kind.ports.is_empty() => 0,
                () if !kind.spread.is_empty() && state.minds_only_hosts(demand.class) => 1,
                () if !(kind.spread.is_empty() && kind.affinity.is_empty() && kind.anti.is_empty()) => 2,
                () if !kind.claims.is_empty() => 2,
                () => 3,
            };
            let mut amounts = kind.request.clone();
            amounts[PODS] = 0;
            let (size, value) = (market.size(&amounts), market.value(&amounts));
            (priority, tier, -size, -value, Asking { demand: demand.clone(), look: Cell::new(None) })
        })
        .collect();
    keyed.sort_by(|one, other| {
        one.0
            .cmp(&other.0)
            .then(one.1.cmp(&other.1))
            .then(one.2.total_cmp(&other.2))
            .then(one.3.total_cmp(&other.3))
            .then_with(|| one.4.compare(&other.4, board))
    });
    keyed.into_iter().map(|(_, _, _, _, asking)| asking.demand).collect()
}
