//! What can be bought, and how much of it.

use crate::board::{Board, PODS};
use crate::intern::Map;
use crate::model::Group;
use crate::reason::Reason;
use crate::state::TemplateId;

/// Templates a solution may use, and which of them can become which.
pub(crate) struct Market {
    pub allowed: Vec<TemplateId>,
    /// By template: others that differ in size and price only, cheapest first.
    pub families: Vec<Vec<TemplateId>>,
    /// By template.
    pub family: Vec<usize>,
    /// By template: its place in its family, and what all of it is worth.
    pub rank: Vec<usize>,
    pub worth: Vec<f64>,
    /// What a unit of a resource costs where it is cheapest.
    pub weights: Vec<f64>,
}

impl Market {
    pub fn new(board: &Board<'_>, allowed: Vec<TemplateId>) -> Self {
        type Likeness<'b> = (usize, u32, &'b [u32], &'b [(u32, i64)]);
        let mut numbers: Map<Likeness<'_>, usize> = Map::default();
        let mut families: Vec<Vec<TemplateId>> = Vec::new();
        let mut family = vec![usize::MAX; board.templates.len()];
        let weights = weights(board, &allowed);
        let worth: Vec<f64> = board.templates.iter().map(|kind| value(&kind.free, &weights)).collect();
        let mut sorted = allowed.clone();
        // Of those that cost the same the smaller one: it wastes less.
        sorted.sort_by(|one, other| {
            let key = |template: TemplateId| {
                let kind = &board.templates[template as usize];
                (kind.price, !kind.preferred)
            };
            let worth = |template: TemplateId| worth[template as usize];
            key(*one).cmp(&key(*other)).then(worth(*one).total_cmp(&worth(*other))).then(one.cmp(other))
        });
        for template in sorted {
            let kind = &board.templates[template as usize];
            let likeness = (kind.group, kind.class, kind.domains.as_slice(), kind.attach_limits.as_slice());
            let number = *numbers.entry(likeness).or_insert_with(|| {
                families.push(Vec::new());
                families.len() - 1
            });
            families[number].push(template);
            family[template as usize] = number;
        }
        let mut rank = vec![0; board.templates.len()];
        for members in &families {
            for (at, template) in members.iter().enumerate() {
                rank[*template as usize] = at;
            }
        }
        Self { allowed, families, family, rank, worth, weights }
    }

    /// What a pod is worth: the sum of its parts.
    pub fn value(&self, amounts: &[i64]) -> f64 {
        value(amounts, &self.weights)
    }

    /// The largest part alone.
    #[allow(clippy::cast_precision_loss)] // A score, not an amount.
    pub fn size(&self, amounts: &[i64]) -> f64 {
        amounts.iter().zip(&self.weights).map(|(amount, weight)| *amount as f64 * weight).fold(0.0, f64::max)
    }
}

#[allow(clippy::cast_precision_loss)] // A score, not an amount.
fn value(amounts: &[i64], weights: &[f64]) -> f64 {
    amounts.iter().zip(weights).map(|(amount, weight)| *amount as f64 * weight).sum()
}

#[allow(clippy::cast_precision_loss)] // Scores, not amounts.
fn weights(board: &Board<'_>, allowed: &[TemplateId]) -> Vec<f64> {
    (0..board.width())
        .map(|at| {
            if at == PODS {
                return 0.0;
            }
            allowed
                .iter()
                .map(|template| &board.templates[*template as usize])
                .filter(|kind| kind.free[at] > 0)
                .map(|kind| (kind.price.max(1)) as f64 / kind.free[at] as f64)
                .reduce(f64::min)
                .unwrap_or(0.0)
        })
        .collect()
}

/// How much of everything there is, against what there may be.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub nodes: Vec<u32>,
    total_nodes: i64,
    /// By group, of those resources that the group or the cluster limits.
    amounts: Vec<Vec<i64>>,
    totals: Vec<i64>,
    limited: bool,
}

impl Ledger {
    pub fn new(board: &Board<'_>) -> Self {
        let groups = &board.input.groups;
        let mut ledger = Self {
            nodes: vec![0; groups.len()],
            total_nodes: 0,
            amounts: vec![vec![0; board.width()]; groups.len()],
            totals: vec![0; board.width()],
            limited: !board.input.settings.limits.is_empty()
                || groups.iter().any(|group| !group.limits.is_empty()),
        };
        for node in &board.nodes {
            let Some(group) = node.group else { continue };
            let capacity = node
                .offering
                .map(|offering| &board.input.groups[group].offerings[offering].capacity)
                .map(|capacity| crate::board::vector(capacity, &board.resources));
            ledger.book(group, capacity.as_deref().unwrap_or(&node.allocatable), 1);
        }
        ledger
    }

    fn book(&mut self, group: usize, amounts: &[i64], sign: i64) {
        self.total_nodes += sign;
        self.nodes[group] = self.nodes[group].saturating_add_signed(if sign > 0 { 1 } else { -1 });
        if self.limited {
            for (at, amount) in amounts.iter().enumerate() {
                self.amounts[group][at] += sign * amount;
                self.totals[at] += sign * amount;
            }
        }
    }

    pub fn add(&mut self, board: &Board<'_>, template: TemplateId) {
        let kind = &board.templates[template as usize];
        self.book(kind.group, &kind.capacity, 1);
    }

    pub fn remove(&mut self, board: &Board<'_>, template: TemplateId) {
        let kind = &board.templates[template as usize];
        self.book(kind.group, &kind.capacity, -1);
    }

    /// Why one more cannot be had, or the same as another offering.
    pub fn objection(
        &self,
        board: &Board<'_>,
        template: TemplateId,
        instead: Option<TemplateId>,
    ) -> Option<Reason> {
        let kind = &board.templates[template as usize];
        let group: &Group = &board.input.groups[kind.group];
        if instead.is_none() {
            if self.nodes[kind.group] >= group.max {
                return Some(Reason::GroupFull { max: group.max });
            }
            if let Some(limit) = board.input.settings.limits.get("nodes")
                && self.total_nodes >= *limit
            {
                return Some(Reason::ClusterLimit { resource: "nodes".to_owned(), limit: *limit });
            }
        }
        if !self.limited {
            return None;
        }
        for (at, name) in board.resources.iter().enumerate() {
            let more = kind.capacity[at]
                - instead.map_or(0, |instead| board.templates[instead as usize].capacity[at]);
            if more <= 0 {
                continue;
            }
            if let Some(limit) = group.limits.get(name)
                && self.amounts[kind.group][at] + more > *limit
            {
                return Some(Reason::GroupLimit { resource: name.clone(), limit: *limit });
            }
            if let Some(limit) = board.input.settings.limits.get(name)
                && self.totals[at] + more > *limit
            {
                return Some(Reason::ClusterLimit { resource: name.clone(), limit: *limit });
            }
        }
        None
    }
}
