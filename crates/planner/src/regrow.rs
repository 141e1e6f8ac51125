//! Would the scale-up buy again what was given back? A place for every pod is proven before a node goes, but the
//! scale-up finds places for pods that wait in its own way, and what it overlooks it buys.

use crate::clear::{Clearing, demands, vacate};
use crate::market::{Ledger, Market};
use crate::model::Price;
use crate::plan::Binding;
use crate::populate::populate;
use crate::state::{Law, State, TemplateId};
use crate::up::{self, Served, choice, compare_unserved};
use std::cmp::Ordering;

/// What the scale-up leaves without a place, and what it buys.
struct Appetite {
    unserved: Vec<(i32, i64)>,
    price: Price,
}

impl Appetite {
    fn is_nothing(&self) -> bool {
        self.unserved.is_empty() && self.price == 0
    }

    fn exceeds(&self, other: &Self) -> bool {
        match compare_unserved(&self.unserved, &other.unserved) {
            Ordering::Greater => true,
            Ordering::Equal => self.price > other.price,
            Ordering::Less => false,
        }
    }
}

/// Nodes that go together.
pub(crate) struct Step<'p> {
    pub nodes: &'p [usize],
    /// What comes before they go.
    pub machines: &'p [TemplateId],
    pub moves: &'p [Binding],
}

/// The first step with which the scale-up would buy more than without any, and a pod that waits.
pub(crate) fn regretted(clearing: &Clearing<'_>, steps: &[Step<'_>]) -> Option<(usize, usize)> {
    let pod = clearing.wait_for_room.first().and_then(|(_, pods)| pods.first()).copied()?;
    if steps.is_empty() {
        return None;
    }
    let board = clearing.board;
    let all = Market::new(board, choice::open_templates(board, &choice::gates(board)));
    let appetite = |count: usize| appetite(clearing, &all, &steps[..count]);
    let after = appetite(steps.len());
    if after.is_nothing() {
        return None;
    }
    let before = appetite(0);
    if !after.exceeds(&before) {
        return None;
    }
    let (mut good, mut bad) = (0, steps.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if appetite(middle).exceeds(&before) {
            bad = middle;
        } else {
            good = middle;
        }
    }
    Some((good, pod))
}

/// Once these steps are taken.
fn appetite(clearing: &Clearing<'_>, all: &Market, steps: &[Step<'_>]) -> Appetite {
    let board = clearing.board;
    let (mut state, _) = populate(board);
    let mut ledger = Ledger::new(board);
    for step in steps {
        for template in step.machines {
            state.open_standing(*template);
            ledger.add(board, *template);
        }
        vacate(&mut state, &clearing.moving, step.nodes);
        for Binding { pod, target } in step.moves {
            state.place(board.pod_class[*pod], up::place_of(board, *target), 1);
        }
    }
    // What came is there.
    state.existing = state.places.len();
    state.settle();
    let served = up::settle(&mut state, all, &ledger, &demands(board, &clearing.wait_for_room));
    if served.left.is_empty() {
        return Appetite { unserved: Vec::new(), price: 0 };
    }
    let solution = choice::best(&mut state, board, &choice::gates(board), &ledger, &served);
    Appetite { unserved: solution.unserved, price: solution.price }
}

impl Clearing<'_> {
    /// Whether all pods that wait find room, as the scale-up looks for it first.
    pub fn fits_again(&mut self) -> bool {
        let board = self.board;
        if self.wait_for_room.is_empty() {
            return true;
        }
        let all = Market::new(board, choice::open_templates(board, &choice::gates(board)));
        let state: &mut State<'_> = &mut self.state;
        let mark = state.mark();
        for (put, _) in &self.promised {
            for _ in 0..put.count {
                state.remove(put.class, put.node);
            }
        }
        let wanted = demands(board, &self.wait_for_room);
        let Served { left, .. } = up::settle(state, &all, &Ledger::new(board), &wanted);
        state.rollback(mark);
        state.law = Law::Existing;
        left.is_empty()
    }
}
