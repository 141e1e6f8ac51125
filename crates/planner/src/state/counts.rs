//! Who is counted where, for affinity and spread.

use super::{Law, NodeId, State};
use crate::board::{BoardNode, FRESH, NOWHERE, NodeOrigin};
use crate::intern::Map;

impl State<'_> {
    /// Which domains exist, for every spread constraint.
    pub(super) fn survey(&mut self) {
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

    pub(super) fn survey_templates(&mut self) {
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

    pub(super) fn raise(&mut self, counter: u32, node: NodeId, delta: i32, staying: bool) {
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
    pub(super) fn count_at(&self, counter: u32, node: NodeId) -> Option<i32> {
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
    pub(super) fn minimum(&self, counter: u32, min_domains: i32) -> i32 {
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

    pub(super) fn stand_next(&mut self) {
        self.count_domains(self.standing, 1);
        self.standing += 1;
    }

    pub(super) fn unstand_last(&mut self) {
        self.standing -= 1;
        self.count_domains(self.standing, -1);
    }

    /// The domains that a node adds to those over which spread is measured.
    pub(super) fn count_domains(&mut self, place: usize, delta: i32) {
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
}

pub(crate) fn is_there(node: &BoardNode) -> bool {
    node.open || matches!(node.origin, NodeOrigin::Existing(_))
}
