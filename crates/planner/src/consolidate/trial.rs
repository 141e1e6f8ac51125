//! What it would mean to give certain nodes back.

use super::Work;
use crate::board::{CPU, ClassId, MEMORY};
use crate::intern::Map;
use crate::model::Price;
use crate::pack::{Demand, Packing, Put, order};
use crate::reason::Reason;
use crate::state::{Law, TemplateId, fits_in};
use std::collections::BTreeMap;

/// So many machines that could take all the rest alone are looked at more closely.
const CLOSER: usize = 6;

/// Nodes that could go, and how.
pub(super) struct Trial {
    pub nodes: Vec<usize>,
    pub machines: Vec<TemplateId>,
    /// The number of a machine is what it gets when these are opened in order.
    pub puts: Vec<Put>,
    pub saving: Price,
    price: Price,
}

impl Trial {
    /// More of each unit of money that is given back; the more nodes in a tie.
    pub fn saves_more_of_its_price(&self, other: &Self) -> bool {
        let ours = i128::from(self.saving) * i128::from(other.price);
        let theirs = i128::from(other.saving) * i128::from(self.price);
        ours > theirs || (ours == theirs && self.nodes.len() > other.nodes.len())
    }
}

/// What is given back, and what must be saved by that at least.
struct Terms {
    price: Price,
    needed: Price,
}

impl Work<'_, '_> {
    /// How these nodes can go, all of them together; nothing is changed by asking.
    pub(super) fn attempt(&mut self, nodes: &[usize], may_buy: bool) -> Result<Trial, Reason> {
        let mark = self.clearing.state.mark();
        let verdict = self.weigh(nodes, may_buy);
        self.clearing.state.rollback(mark);
        self.clearing.state.law = Law::Planned;
        verdict
    }

    fn weigh(&mut self, nodes: &[usize], may_buy: bool) -> Result<Trial, Reason> {
        let terms = self.terms(nodes);
        if terms.price < terms.needed {
            return Err(terms.too_dear(0));
        }
        let pods: Vec<usize> = nodes.iter().flat_map(|at| &self.clearing.moving[*at]).copied().collect();
        if let Some(reason) = self.clearing.evictions.over_budget(&pods) {
            return Err(reason);
        }
        let refused = |pod: &&usize| self.board.class(self.board.pod_class[**pod]).refusal.is_some();
        if let Some(pod) = pods.iter().find(refused) {
            return Err(self.clearing.nowhere(*pod, nodes[0]));
        }
        self.clearing.vacate(nodes);
        let mut demands: BTreeMap<ClassId, i64> = BTreeMap::new();
        for pod in &pods {
            *demands.entry(self.board.pod_class[*pod]).or_insert(0) += 1;
        }
        let demands: Vec<Demand> =
            demands.into_iter().map(|(class, count)| Demand { class, count }).collect();
        let least = self.at_least(&demands);
        if least > if may_buy { terms.most() } else { 0 } {
            return Err(terms.too_dear(least));
        }
        let vacated = self.clearing.state.mark();
        let demands = order(&self.clearing.state, self.market, &demands, true);
        let (puts, left) = self.settle(&demands, may_buy);
        let objection = match left.first() {
            None => self.unbalanced(nodes, &[]),
            Some(homeless) => pods
                .iter()
                .find(|pod| self.board.pod_class[**pod] == homeless.class)
                .map(|pod| self.clearing.nowhere(*pod, nodes[0])),
        };
        let objection = objection.or_else(|| self.clearing.alone(nodes, &[], &puts, false));
        let Some(objection) = objection else { return Ok(terms.trial(self, nodes, Vec::new(), puts)) };
        if !may_buy {
            return Err(objection);
        }
        let mut offers = self.offers(nodes, &puts, &left, &terms);
        offers.sort_by_key(|offer| (offer.price, offer.machines.len()));
        for offer in offers.iter().take_while(|offer| offer.price <= terms.most()) {
            self.clearing.state.rollback(vacated);
            self.clearing.state.law = Law::Planned;
            if let Some(puts) = self.replay(offer)
                && self.clearing.alone(nodes, &offer.machines, &puts, false).is_none()
            {
                return Ok(terms.trial(self, nodes, offer.machines.clone(), puts));
            }
        }
        Err(offers
            .first()
            .filter(|offer| offer.price > terms.most())
            .map_or(objection, |offer| terms.too_dear(offer.price)))
    }

    fn terms(&self, nodes: &[usize]) -> Terms {
        let (mut price, mut share, mut by_pods): (Price, i128, Price) = (0, 0, 0);
        for at in nodes {
            let Some((_, group)) = self.clearing.group(*at) else { continue };
            let pods = Price::try_from(self.clearing.moving[*at].len()).unwrap_or(Price::MAX);
            price += self.price(*at);
            share += i128::from(self.price(*at)) * i128::from(group.consolidation.minimum_saving);
            by_pods = by_pods.saturating_add(group.consolidation.saving_per_pod.saturating_mul(pods));
        }
        let share = Price::try_from((share + 99) / 100).unwrap_or(Price::MAX);
        Terms { price, needed: share.max(by_pods).max(1) }
    }

    /// A group would have too few nodes, or grow again because those that stay are too busy.
    fn unbalanced(&self, nodes: &[usize], machines: &[TemplateId]) -> Option<Reason> {
        let clearing = &self.clearing;
        nodes.iter().filter_map(|at| clearing.group(*at)).find_map(|(number, group)| {
            let of_group = |at: &&usize| self.board.nodes[**at].group == Some(number);
            let going = u32::try_from(nodes.iter().filter(of_group).count()).unwrap_or(u32::MAX);
            let (mut coming, mut more) = (0, [0; 2]);
            for kind in machines.iter().map(|template| &self.board.templates[*template as usize]) {
                if kind.group == number {
                    coming += 1;
                    more[0] += kind.free[CPU];
                    more[1] += kind.free[MEMORY];
                }
            }
            let ready = clearing.ready[number];
            if ready + coming < group.min.saturating_add(going) {
                return Some(Reason::AtMinimum { ready, min: group.min });
            }
            clearing.trigger(number, nodes, more)
        })
    }

    /// What the pods cost at the very least: what does not fit into free room, where it is cheapest.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // Rounded down, so that it stays a bound.
    fn at_least(&self, demands: &[Demand]) -> Price {
        let state = &self.clearing.state;
        let mut lacking = vec![0i64; self.board.width()];
        for demand in demands {
            for (lacking, amount) in lacking.iter_mut().zip(&self.board.class(demand.class).request) {
                *lacking += amount * demand.count;
            }
        }
        for to in self.clearing.destinations.iter().filter(|to| state.places[**to as usize].open) {
            for (lacking, free) in lacking.iter_mut().zip(state.free(*to)) {
                *lacking -= (*free).max(0);
            }
        }
        let prices =
            lacking.iter().zip(&self.market.weights).map(|(lacking, weight)| *lacking as f64 * weight);
        (prices.fold(0.0, f64::max) * (1.0 - 1e-9)).floor() as Price
    }

    /// Puts pods where others are, as far as it goes. What is left is of interest only if something can be bought for it.
    fn settle(&mut self, demands: &[Demand], all: bool) -> (Vec<Put>, Vec<Demand>) {
        let state = &mut self.clearing.state;
        let mut puts = Vec::new();
        let mut waiting = demands.to_vec();
        loop {
            let mut left = Vec::new();
            let mut moved = false;
            for demand in waiting {
                let class = demand.class;
                let plain = state.repeats(class);
                let mut count = demand.count;
                for to in &self.clearing.destinations {
                    if count == 0 {
                        break;
                    }
                    let before = count;
                    while count > 0 && state.fits(class, *to) {
                        let together = if plain { state.room(class, *to).clamp(1, count) } else { 1 };
                        state.place(class, *to, together);
                        count -= together;
                    }
                    if count < before {
                        puts.push(Put { class, node: *to, count: before - count });
                    }
                }
                moved |= count < demand.count;
                if count > 0 {
                    left.push(Demand { class, count });
                    if plain && !all {
                        return (puts, left);
                    }
                }
            }
            // One that must be near another may come after it.
            let waits = |demand: &Demand| {
                !self.board.class(demand.class).affinity.is_empty()
                    || !self.board.class(demand.class).spread.is_empty()
            };
            if !moved || !left.iter().any(waits) {
                return (puts, left);
            }
            waiting = left;
        }
    }

    /// What could be bought for the pods that are left: one machine for all, and what the scale-up would buy.
    fn offers(&mut self, nodes: &[usize], puts: &[Put], left: &[Demand], terms: &Terms) -> Vec<Offer> {
        let mut offers = Vec::new();
        let first = u32::try_from(self.clearing.state.places.len()).unwrap_or(u32::MAX);
        let mut sum = vec![0i64; self.board.width()];
        for demand in left {
            for (sum, amount) in sum.iter_mut().zip(&self.board.class(demand.class).request) {
                *sum += amount * demand.count;
            }
        }
        for template in self.by_price {
            let kind = &self.board.templates[*template as usize];
            // One that is too dear is told of, so that the reason can say so.
            if offers.len() >= CLOSER || (!offers.is_empty() && kind.price > terms.most()) {
                break;
            }
            let takes_all = fits_in(&sum, &kind.free)
                && left.iter().all(|demand| self.board.agrees(demand.class, kind.class))
                && self.ledger.objection(self.board, *template, None).is_none()
                && self.unbalanced(nodes, &[*template]).is_none();
            if takes_all {
                let alone =
                    left.iter().map(|demand| Put { class: demand.class, node: first, count: demand.count });
                let puts = puts.iter().copied().chain(alone).collect();
                offers.push(Offer { price: kind.price, machines: vec![*template], puts });
            }
        }
        if !left.is_empty() {
            offers.extend(self.several(nodes, puts, left));
        }
        offers
    }

    fn several(&mut self, nodes: &[usize], puts: &[Put], left: &[Demand]) -> Option<Offer> {
        let state = &mut self.clearing.state;
        let mark = state.mark();
        let first = state.places.len();
        state.law = Law::Universe;
        let mut packing = Packing::new(state, self.market, self.ledger.clone());
        let homeless = packing.run(left);
        packing.shrink();
        let more = std::mem::take(&mut packing.puts);
        let machines: Vec<TemplateId> =
            state.places[first..].iter().filter_map(|place| place.template).collect();
        state.rollback(mark);
        state.law = Law::Planned;
        if !homeless.is_empty() || self.unbalanced(nodes, &machines).is_some() {
            return None;
        }
        let price = machines.iter().map(|template| self.board.templates[*template as usize].price).sum();
        Some(Offer { price, machines, puts: puts.iter().copied().chain(more).collect() })
    }

    /// Whether all pods find a place once the machines are there: as planned, and otherwise anywhere.
    fn replay(&mut self, offer: &Offer) -> Option<Vec<Put>> {
        let state = &mut self.clearing.state;
        let first = u32::try_from(state.places.len()).unwrap_or(u32::MAX);
        let new: Vec<_> = offer.machines.iter().map(|template| state.open_standing(*template)).collect();
        debug_assert!(new.first().is_none_or(|node| *node == first));
        let mut done: Vec<Put> = Vec::with_capacity(offer.puts.len());
        let mut homeless: Map<ClassId, i64> = Map::default();
        let mut classes = Vec::new();
        for put in &offer.puts {
            if state.repeats(put.class)
                && state.fits(put.class, put.node)
                && state.room(put.class, put.node) >= put.count
            {
                state.place(put.class, put.node, put.count);
                done.push(*put);
                continue;
            }
            for _ in 0..put.count {
                if state.fits(put.class, put.node) {
                    state.place(put.class, put.node, 1);
                    done.push(Put { count: 1, ..*put });
                } else {
                    let count = homeless.entry(put.class).or_insert(0);
                    if *count == 0 {
                        classes.push(put.class);
                    }
                    *count += 1;
                }
            }
        }
        for class in classes {
            for _ in 0..homeless[&class] {
                let anywhere = new.iter().chain(&self.clearing.destinations);
                let node = anywhere.copied().find(|node| state.fits(class, *node))?;
                state.place(class, node, 1);
                done.push(Put { class, node, count: 1 });
            }
        }
        Some(done)
    }
}

/// Machines, and where all pods go if they are bought.
struct Offer {
    price: Price,
    machines: Vec<TemplateId>,
    puts: Vec<Put>,
}

impl Terms {
    /// What may be spent on new machines.
    fn most(&self) -> Price {
        self.price - self.needed
    }

    fn too_dear(&self, price: Price) -> Reason {
        let saving = self.price - price;
        if saving > 0 {
            Reason::SavesTooLittle { saving, needed: self.needed }
        } else {
            Reason::NothingCheaper
        }
    }

    fn trial(
        &self,
        work: &Work<'_, '_>,
        nodes: &[usize],
        machines: Vec<TemplateId>,
        puts: Vec<Put>,
    ) -> Trial {
        let cost: Price =
            machines.iter().map(|template| work.board.templates[*template as usize].price).sum();
        Trial { nodes: nodes.to_vec(), machines, puts, saving: self.price - cost, price: self.price }
    }
}
