//! Why a pod does not fit.

use super::{NodeId, State};
use crate::board::{Board, ClassId};
use crate::reason::Reason;

impl State<'_> {
    /// Why a pod of the class cannot be put here.
    pub fn objection(&self, class: ClassId, node: NodeId) -> Option<Reason> {
        let board = self.board;
        let kind = board.class(class);
        let place = &self.places[node as usize];
        if let Some(refusal) = &kind.refusal {
            return Some(refusal.clone());
        }
        if !place.open {
            return Some(Reason::NotReady);
        }
        if let Some(reason) = board.disagreement(kind.demand, place.class) {
            return Some(reason);
        }
        if let Some(reason) = too_small(board, &kind.request, self.free(node)) {
            return Some(reason);
        }
        if let Some(port) =
            kind.ports.iter().find(|port| place.ports.iter().any(|taken| taken.clashes(**port)))
        {
            return Some(Reason::PortTaken { port: port.number });
        }
        if let Some((driver, limit)) = self.over_attach_limit(class, node) {
            return Some(Reason::AttachLimit { driver: board.symbols.name(driver).to_owned(), limit });
        }
        if let Some(claim) = self.lacks_volume(class, node) {
            return Some(Reason::NoVolumeLeft { claim: board.symbols.name(claim).to_owned() });
        }
        if let Some(claim) =
            kind.single.iter().find(|claim| self.single.get(claim).is_some_and(|users| *users > 0))
        {
            return Some(Reason::ClaimInUse { claim: board.symbols.name(*claim).to_owned() });
        }
        self.topology_objection(class, node)
    }

    fn topology_objection(&self, class: ClassId, node: NodeId) -> Option<Reason> {
        let board = self.board;
        let kind = board.class(class);
        let key_of = |counter: u32| {
            board.symbols.name(board.keys[board.counters[counter as usize].key as usize].name).to_owned()
        };
        let domain_of = |counter: u32| {
            let key = board.counters[counter as usize].key;
            let domain = self.domain(node, key) as usize;
            let name = board.keys[key as usize].domains.get(domain).map(|domain| board.symbols.name(*domain));
            name.map_or("new", |name| name.trim_start_matches('\u{0}')).to_owned()
        };
        let near = |counters: &[u32]| {
            counters
                .iter()
                .copied()
                .find(|counter| self.count_at(*counter, node).is_some_and(|count| count > 0))
        };
        if let Some(counter) = near(&kind.anti) {
            return Some(Reason::AntiAffinity { key: key_of(counter), domain: domain_of(counter) });
        }
        if let Some(counter) = near(&board.ident(class).forbidden) {
            return Some(Reason::Unwanted { key: key_of(counter), domain: domain_of(counter) });
        }
        if !kind.affinity.is_empty() && !self.affinity_met(class, node) {
            let unmet =
                kind.affinity.iter().find(|counter| self.count_at(**counter, node).is_none_or(|n| n == 0));
            return unmet.map(|counter| Reason::AffinityUnmet { key: key_of(*counter) });
        }
        for check in &kind.spread {
            let Some(count) = self.count_at(check.counter, node) else {
                return Some(Reason::TopologyKeyMissing { key: key_of(check.counter) });
            };
            let skew = count + i32::from(check.self_match) - self.minimum(check.counter, check.min_domains);
            if skew > check.max_skew {
                return Some(Reason::SpreadExceeded {
                    key: key_of(check.counter),
                    domain: domain_of(check.counter),
                    skew,
                    max_skew: check.max_skew,
                });
            }
        }
        None
    }
}

pub(crate) fn too_small(board: &Board<'_>, request: &[i64], free: &[i64]) -> Option<Reason> {
    let lacking = (0..request.len()).find(|at| request[*at] > free[*at] && request[*at] > 0)?;
    let (resource, needs, has) = (board.resources[lacking].clone(), request[lacking], free[lacking]);
    Some(Reason::TooSmall { resource, needs, has })
}
