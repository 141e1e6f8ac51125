//! Few pods: a bounded search over all ways, in the order of price. It starts from what the quick ways found and ends
//! when nothing can be better or its steps are spent.

use crate::board::{Board, ClassId};
use crate::intern::{Quick, Set};
use crate::market::{Ledger, Market};
use crate::model::Price;
use crate::pack::{Demand, Put};
use crate::state::{Law, NodeId, State, TemplateId, fits_in};
use crate::up::{Served, Solution, below_minimum, compare_unserved, offering_name, unserved};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// So many choices of types for groups that must have one are searched.
const CHOICES: usize = 8;

/// What may be bought, for each choice of types; the one chosen already first.
pub(crate) fn markets(
    board: &Board<'_>,
    open: &[TemplateId],
    undecided: &[(usize, Vec<&str>)],
    chosen: &BTreeMap<usize, &str>,
) -> Vec<Market> {
    let mut choices: Vec<BTreeMap<usize, &str>> = vec![BTreeMap::new()];
    for (group, names) in undecided {
        let mut names = names.clone();
        names.sort_by_key(|name| chosen.get(group) != Some(name));
        choices = choices
            .iter()
            .flat_map(|choice| {
                names.iter().map(|name| {
                    let mut more = choice.clone();
                    more.insert(*group, *name);
                    more
                })
            })
            .take(CHOICES)
            .collect();
    }
    choices
        .into_iter()
        .map(|choice| {
            let fits = |template: &TemplateId| {
                let kind = &board.templates[*template as usize];
                choice
                    .get(&kind.group)
                    .is_none_or(|name| offering_name(board, kind.group, kind.offering) == *name)
            };
            Market::new(board, open.iter().copied().filter(fits).collect())
        })
        .collect()
}

pub(crate) fn improve(
    state: &mut State<'_>,
    market: &Market,
    ledger: &Ledger,
    served: &Served,
    best: Solution,
) -> Solution {
    let board = state.board;
    state.rollback(served.mark);
    let ordered = served
        .all
        .iter()
        .map(|demand| board.class(demand.class))
        .any(|kind| !(kind.spread.is_empty() && kind.affinity.is_empty() && kind.claims.is_empty()));
    let mut offers = market.allowed.clone();
    offers.sort_by_key(|template| {
        let kind = &board.templates[*template as usize];
        (kind.price, !kind.preferred, *template)
    });
    let mut search = Search {
        steps: board.input.settings.search_steps,
        below: below_minimum(board, market),
        remaining: crate::pack::order(state, market, &served.all, false),
        state,
        market,
        ledger: ledger.clone(),
        offers: offers.into(),
        liked: BTreeMap::new(),
        best,
        puts: Vec::new(),
        contents: BTreeMap::new(),
        skipped: Vec::new(),
        seen: Set::default(),
        ordered,
    };
    search.step(0);
    let best = search.best;
    state.law = Law::Existing;
    best
}

struct Search<'s, 'a> {
    state: &'s mut State<'a>,
    market: &'s Market,
    ledger: Ledger,
    offers: Rc<[TemplateId]>,
    /// By class with preferences.
    liked: BTreeMap<ClassId, Rc<[TemplateId]>>,
    best: Solution,
    steps: u32,
    below: Vec<(usize, u32)>,
    remaining: Vec<Demand>,
    puts: Vec<Put>,
    /// By node: what was put there, sorted.
    contents: BTreeMap<NodeId, Vec<ClassId>>,
    skipped: Vec<Demand>,
    seen: Set<u64>,
    /// The order in which pods come may matter.
    ordered: bool,
}

impl Search<'_, '_> {
    fn step(&mut self, price: Price) {
        if self.steps == 0 {
            return;
        }
        self.steps -= 1;
        let verdict = compare_unserved(&unserved(self.state.board, &self.skipped), &self.best.unserved);
        if verdict == Ordering::Greater
            || (verdict == Ordering::Equal && price + self.at_least() >= self.best.price)
        {
            return;
        }
        if self.remaining.iter().all(|demand| demand.count == 0) {
            self.complete();
            return;
        }
        if !self.seen.insert(self.fingerprint()) {
            return;
        }
        let board = self.state.board;
        for at in 0..self.remaining.len() {
            if self.remaining[at].count == 0 {
                continue;
            }
            let class = self.remaining[at].class;
            self.remaining[at].count -= 1;
            self.try_nodes(class, price);
            self.try_new(class, price);
            self.remaining[at].count += 1;
            if !self.ordered {
                break;
            }
        }
        // Or go without the first of them.
        if let Some(at) = self.remaining.iter().position(|demand| demand.count > 0) {
            let demand = self.remaining[at].clone();
            let serving =
                compare_unserved(&unserved(board, &self.skipped), &self.best.unserved) == Ordering::Less;
            if serving || !self.best.unserved.is_empty() {
                self.remaining[at].count = 0;
                self.skipped.push(demand.clone());
                self.step(price);
                self.skipped.pop();
                self.remaining[at] = demand;
            }
        }
    }

    fn law(&self) -> Law {
        if self.state.places.len() > self.state.existing { Law::Universe } else { Law::Existing }
    }

    fn try_nodes(&mut self, class: ClassId, price: Price) {
        let mut tried: Vec<(TemplateId, Vec<ClassId>)> = Vec::new();
        let mut nodes: Vec<NodeId> = (0u32..).take(self.state.places.len()).collect();
        let board = self.state.board;
        if !board.class(class).ladder.is_empty() {
            // What is found first stays, unless something costs less.
            nodes.sort_by_key(|node| board.dislikes(class, self.state.places[*node as usize].class));
        }
        for node in nodes {
            self.state.law = self.law();
            if !self.state.fits(class, node) {
                continue;
            }
            if let Some(template) = self.state.places[node as usize].template {
                let same = (template, self.contents.get(&node).cloned().unwrap_or_default());
                if tried.contains(&same) {
                    continue;
                }
                tried.push(same);
            }
            self.put(class, node, price);
        }
    }

    fn try_new(&mut self, class: ClassId, price: Price) {
        let board = self.state.board;
        let offers = self.offers_for(class);
        for template in offers.iter().copied() {
            let kind = &board.templates[template as usize];
            if !fits_in(&board.class(class).request, &kind.free)
                || !board.agrees(class, kind.class)
                || self.ledger.objection(board, template, None).is_some()
            {
                continue;
            }
            let mark = self.state.mark();
            let node = self.state.open(template);
            self.state.law = Law::Universe;
            if self.state.suits(class, node) {
                self.ledger.add(board, template);
                self.put(class, node, price + kind.price);
                self.ledger.remove(board, template);
            }
            self.state.rollback(mark);
        }
    }

    /// Cheapest first; of those that cost the same what the class likes better.
    fn offers_for(&mut self, class: ClassId) -> Rc<[TemplateId]> {
        let board = self.state.board;
        if board.class(class).ladder.is_empty() {
            return self.offers.clone();
        }
        let sorted = self.liked.entry(class).or_insert_with(|| {
            let mut offers = self.offers.to_vec();
            offers.sort_by_key(|template| {
                let kind = &board.templates[*template as usize];
                (kind.price, !kind.preferred, board.dislikes(class, kind.class))
            });
            offers.into()
        });
        sorted.clone()
    }

    fn put(&mut self, class: ClassId, node: NodeId, price: Price) {
        let mark = self.state.mark();
        self.state.place(class, node, 1);
        self.puts.push(Put { class, node, count: 1 });
        let list = self.contents.entry(node).or_default();
        let at = list.partition_point(|other| *other < class);
        list.insert(at, class);
        self.step(price);
        if let Some(list) = self.contents.get_mut(&node) {
            list.remove(at);
            if list.is_empty() {
                self.contents.remove(&node);
            }
        }
        self.puts.pop();
        self.state.rollback(mark);
    }

    /// What is put where, whatever the order; new nodes of one kind can be exchanged.
    fn fingerprint(&self) -> u64 {
        let mut new: Vec<(TemplateId, &[ClassId])> = Vec::new();
        let mut hasher = Quick::default();
        for (node, list) in &self.contents {
            match self.state.places[*node as usize].template {
                Some(template) => new.push((template, list)),
                None => (node, list).hash(&mut hasher),
            }
        }
        new.sort_unstable();
        new.hash(&mut hasher);
        self.state.given.hash(&mut hasher);
        for demand in &self.skipped {
            demand.class.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What the rest costs at the very least: what does not fit into free room, where it is cheapest.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // Rounded down, so that it stays a bound.
    fn at_least(&self) -> Price {
        let board = self.state.board;
        let mut most: f64 = 0.0;
        for at in 0..board.width() {
            let wanted: i64 = self
                .remaining
                .iter()
                .map(|demand| demand.count * board.class(demand.class).request[at])
                .sum();
            let free: i64 = (0u32..)
                .zip(&self.state.places)
                .filter(|(_, place)| place.open)
                .map(|(node, _)| self.state.free(node)[at].max(0))
                .sum();
            most = most.max((wanted - free) as f64 * self.market.weights[at]);
        }
        ((most * (1.0 - 1e-9)).floor() as Price).max(self.missing_price())
    }

    /// What the minimum of each group still costs.
    fn missing_price(&self) -> Price {
        self.missing().iter().map(|(template, count)| self.price_of(*template) * Price::from(*count)).sum()
    }

    fn price_of(&self, template: TemplateId) -> Price {
        self.state.board.templates[template as usize].price
    }

    /// The cheapest templates for what groups lack of their minimum.
    fn missing(&self) -> Vec<(TemplateId, u32)> {
        let board = self.state.board;
        let new = &self.state.places[self.state.existing..];
        self.below
            .iter()
            .filter_map(|(group, missing)| {
                let of_group = |template: TemplateId| board.templates[template as usize].group == *group;
                let opened = new.iter().filter_map(|place| place.template).filter(|t| of_group(*t)).count();
                let missing = missing.saturating_sub(u32::try_from(opened).unwrap_or(u32::MAX));
                let may = |template: &TemplateId| self.ledger.objection(board, *template, None).is_none();
                let cheapest =
                    self.offers.iter().copied().find(|template| of_group(*template) && may(template));
                cheapest.filter(|_| missing > 0).map(|template| (template, missing))
            })
            .collect()
    }

    fn complete(&mut self) {
        let board = self.state.board;
        let mut opened: Vec<TemplateId> =
            self.state.places[self.state.existing..].iter().filter_map(|place| place.template).collect();
        let mut ledger = self.ledger.clone();
        let mut topped_up = Vec::new();
        for (template, count) in self.missing() {
            for _ in 0..count {
                // A maximum is stronger than a minimum.
                if ledger.objection(board, template, None).is_some() {
                    break;
                }
                ledger.add(board, template);
                opened.push(template);
            }
            topped_up.push((board.templates[template as usize].group, count));
        }
        let solution = Solution::new(board, self.puts.clone(), opened, self.skipped.clone(), topped_up);
        if solution.better(&self.best, board) {
            self.best = solution;
        }
    }
}
