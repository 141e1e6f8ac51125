//! Node by node: every offering is filled with what waits, and the one that holds the most for its price is bought,
//! as often as there are pods to fill it the same way.

use crate::board::ClassId;
use crate::market::Market;
use crate::pack::{Demand, Packing};
use crate::state::TemplateId;

/// Classes times templates: one look at everything.
const LOOK: usize = 40_000;
/// Fillings tried in one run.
const FILLINGS: usize = 400_000;

pub(crate) fn affordable(market: &Market, demands: &[Demand]) -> bool {
    let look = demands.len() * market.allowed.len();
    look > 0 && look <= LOOK && demands.len() * look <= 20 * FILLINGS
}

struct Filling {
    template: TemplateId,
    contents: Vec<(ClassId, i64)>,
    score: f64,
    preferred: bool,
    /// Preferences of its pods that are not followed.
    dislikes: usize,
}

pub(crate) fn run(packing: &mut Packing<'_, '_>, order: &[Demand]) -> Vec<Demand> {
    let mut waiting: Vec<Demand> = order.to_vec();
    let all = 0..packing.state.places.len();
    for demand in &mut waiting {
        demand.count = packing.fill(demand.class, demand.class, demand.count, all.clone());
    }
    let mut late: Vec<Demand> = Vec::new();
    let mut work = 0;
    loop {
        waiting.retain(|demand| demand.count > 0);
        let Some(seed) = waiting.first().cloned() else { break };
        if work > FILLINGS {
            late.append(&mut waiting);
            break;
        }
        work += waiting.len() * packing.market.allowed.len();
        let Some(best) = best_filling(packing, &waiting) else {
            waiting.remove(0);
            late.push(seed);
            continue;
        };
        let bulk = best.contents.iter().all(|(class, _)| packing.state.repeats(*class));
        loop {
            let node = packing.open(best.template);
            for (class, count) in &best.contents {
                packing.put(*class, node, *count);
                if let Some(demand) = waiting.iter_mut().find(|demand| demand.class == *class) {
                    demand.count -= count;
                }
            }
            let again = bulk
                && packing.ledger.objection(packing.state.board, best.template, None).is_none()
                && best.contents.iter().all(|(class, count)| {
                    waiting.iter().any(|demand| demand.class == *class && demand.count >= *count)
                });
            if !again {
                break;
            }
        }
    }
    packing.run(&late)
}

fn best_filling(packing: &mut Packing<'_, '_>, waiting: &[Demand]) -> Option<Filling> {
    let board = packing.state.board;
    let seed = waiting.first()?;
    let request = &board.class(seed.class).request;
    let mut best: Option<Filling> = None;
    for at in 0..packing.market.allowed.len() {
        let template = packing.market.allowed[at];
        let kind = &board.templates[template as usize];
        if !crate::state::fits_in(request, &kind.free)
            || !board.agrees(seed.class, kind.class)
            || packing.ledger.objection(board, template, None).is_some()
        {
            continue;
        }
        let mark = packing.state.mark();
        let node = packing.state.open(template);
        let mut contents = Vec::new();
        let mut value = 0.0;
        for demand in waiting {
            let class = demand.class;
            let mut count = 0;
            if packing.state.in_bulk(class) {
                if packing.state.fits(class, node) {
                    count = packing.state.room(class, node).min(demand.count);
                    packing.state.place(class, node, count);
                }
            } else {
                while count < demand.count && packing.state.fits(class, node) {
                    packing.state.place(class, node, 1);
                    count += 1;
                }
            }
            if count == 0 {
                if contents.is_empty() {
                    break;
                }
                continue;
            }
            #[allow(clippy::cast_precision_loss)] // A score, not an amount.
            let many = count as f64;
            value += many * packing.market.value(&board.class(class).request).max(f64::MIN_POSITIVE);
            contents.push((class, count));
        }
        packing.state.rollback(mark);
        if contents.is_empty() {
            continue;
        }
        #[allow(clippy::cast_precision_loss)] // A score, not an amount.
        let score = kind.price as f64 / value;
        let dislikes = contents
            .iter()
            .map(|(class, count)| board.dislikes(*class, kind.class) * usize::try_from(*count).unwrap_or(0))
            .sum();
        let wins = best.as_ref().is_none_or(|best| {
            score < best.score * (1.0 - 1e-12)
                || (score <= best.score * (1.0 + 1e-12)
                    && (!kind.preferred, dislikes) < (!best.preferred, best.dislikes))
        });
        if wins {
            best = Some(Filling { template, contents, score, preferred: kind.preferred, dislikes });
        }
    }
    best
}
