//! Does a pod fit on a node?

use super::{NodeId, State};
use crate::board::{ClassId, CounterKind};
use crate::intern::Sym;

impl State<'_> {
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

    pub(super) fn affinity_met(&self, class: ClassId, node: NodeId) -> bool {
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

    pub(super) fn over_attach_limit(&self, class: ClassId, node: NodeId) -> Option<(Sym, i64)> {
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

    /// Where there is room for the class it may go, whoever else is there.
    pub fn only_room_matters(&self, class: ClassId) -> bool {
        self.repeats(class) && self.board.ident(class).forbidden.is_empty()
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
