//! Which offerings a solution may use, and the best of several solutions.

use super::{Served, Solution, compare_unserved};
use crate::board::{Board, NodeOrigin};
use crate::market::{Ledger, Market};
use crate::model::Preferences;
use crate::pack::{Demand, Packing, order};
use crate::reason::Reason;
use crate::state::{Law, State, TemplateId};
use std::collections::{BTreeMap, BTreeSet};

/// By group: why it does not grow.
pub(crate) fn gates(board: &Board<'_>) -> Vec<Option<Reason>> {
    let now = board.input.now;
    board
        .input
        .groups
        .iter()
        .map(|group| {
            let until = group.last_scale_up.map(|last| last + group.scale_up.window);
            match () {
                () if group.paused => Some(Reason::GroupPaused),
                () if !group.scale_up.enabled => Some(Reason::ScaleUpDisabled),
                () if group.offerings.is_empty() => Some(Reason::NoOfferings),
                () if !group.offerings.iter().any(|offering| offering.available) => {
                    Some(Reason::NoneAvailable)
                }
                () => until.filter(|until| *until > now).map(|until| Reason::ScaleUpPause { until }),
            }
        })
        .collect()
}

/// Without mixing, the type a group keeps to once it has nodes: the one most of them are of.
pub(crate) fn kept_type<'b>(board: &'b Board<'_>, group: usize) -> Option<&'b str> {
    kept_type_among(board, group, |_| true, &[])
}

/// The same, if there were only these nodes, and new ones.
pub(crate) fn kept_type_among<'b>(
    board: &'b Board<'_>,
    group: usize,
    among: impl Fn(usize) -> bool,
    new: &[TemplateId],
) -> Option<&'b str> {
    let input = &board.input.groups[group];
    if input.mixing {
        return None;
    }
    let mut count: BTreeMap<&str, (u32, bool)> = BTreeMap::new();
    let nodes = board.nodes.iter().enumerate().filter(|(at, _)| among(*at)).map(|(_, node)| node);
    let types = nodes.filter(|node| node.group == Some(group)).filter_map(|node| match node.origin {
        NodeOrigin::Existing(at) => board.input.nodes[at].offering.as_deref(),
        NodeOrigin::Machine(at) => {
            let machine = &board.input.machines[at];
            // It will be no node of any type.
            (!machine.failed).then_some(machine.offering.as_str())
        }
    });
    let new = new.iter().map(|template| &board.templates[*template as usize]);
    let new = new.filter(|kind| kind.group == group).map(|kind| offering_name(board, group, kind.offering));
    for name in types.chain(new) {
        count.entry(name).or_insert_with(|| (0, Some(name) == input.preferred.as_deref())).0 += 1;
    }
    count.into_iter().rev().max_by_key(|(_, rank)| *rank).map(|(name, _)| name)
}

/// Templates of groups that may grow, by the type the group keeps to.
pub(crate) fn open_templates(board: &Board<'_>, gates: &[Option<Reason>]) -> Vec<TemplateId> {
    let kept: Vec<Option<&str>> =
        (0..board.input.groups.len()).map(|group| kept_type(board, group)).collect();
    (0u32..)
        .zip(&board.templates)
        .filter(|(_, kind)| gates[kind.group].is_none())
        .filter(|(_, kind)| {
            kept[kind.group].is_none_or(|name| offering_name(board, kind.group, kind.offering) == name)
        })
        .map(|(number, _)| number)
        .collect()
}

pub(crate) fn offering_name<'b>(board: &'b Board<'_>, group: usize, offering: usize) -> &'b str {
    &board.input.groups[group].offerings[offering].name
}

/// So many types of one group are tried where it must choose one for all its nodes.
const TYPES: usize = 24;

/// The best solution, and the best of those that do without one of its types.
pub(crate) fn best(
    state: &mut State<'_>,
    board: &Board<'_>,
    gates: &[Option<Reason>],
    ledger: &Ledger,
    served: &Served,
) -> (Solution, Option<Solution>) {
    let open = open_templates(board, gates);
    let undecided = undecided(board, &open, &served.left);
    let mut chosen: BTreeMap<usize, &str> =
        undecided.iter().filter_map(|(group, names)| names.first().map(|name| (*group, *name))).collect();
    let market = |chosen: &BTreeMap<usize, &str>| {
        let fits = |template: &TemplateId| {
            let kind = &board.templates[*template as usize];
            chosen
                .get(&kind.group)
                .is_none_or(|name| offering_name(board, kind.group, kind.offering) == *name)
        };
        Market::new(board, open.iter().copied().filter(fits).collect())
    };
    let mut best = solve(state, &market(&chosen), ledger, served);
    for (group, names) in &undecided {
        for name in names.iter().skip(1) {
            let mut other = chosen.clone();
            other.insert(*group, name);
            let solution = solve(state, &market(&other), ledger, served);
            if solution.better(&best, board) {
                best = solution;
                chosen = other;
            }
        }
    }
    best = verified(state, served, best);
    let pods: i64 = served.all.iter().map(|demand| demand.count).sum();
    let few = usize::try_from(pods).unwrap_or(usize::MAX) <= board.input.settings.search_pods;
    if few && ignores_preferences(board) {
        for markets in crate::search::markets(board, &open, &undecided, &chosen) {
            let found = crate::search::improve(state, &markets, ledger, served, best.clone());
            let found = verified(state, served, found);
            if found.better(&best, board) {
                best = found;
            }
        }
    }
    let Some(second) = second(state, board, ledger, served, &open, &undecided, &best) else {
        return (best, None);
    };
    if second.better(&best, board) { (second, Some(best)) } else { (best, Some(second)) }
}

/// A second solution is looked for where there are no more pods, no more classes times templates and no more types.
const SECOND: (i64, usize, usize) = (1_000, 20_000, 8);

fn second(
    state: &mut State<'_>,
    board: &Board<'_>,
    ledger: &Ledger,
    served: &Served,
    open: &[TemplateId],
    undecided: &[(usize, Vec<&str>)],
    best: &Solution,
) -> Option<Solution> {
    let kind = |template: TemplateId| {
        let kind = &board.templates[template as usize];
        (kind.group, offering_name(board, kind.group, kind.offering))
    };
    let bought: BTreeSet<(usize, &str)> = best.opened.iter().map(|template| kind(*template)).collect();
    let pods: i64 = served.left.iter().map(|demand| demand.count).sum();
    let (most_pods, most_work, most_types) = SECOND;
    if pods == 0
        || pods > most_pods
        || served.left.len() * open.len() > most_work
        || bought.len() > most_types
    {
        return None;
    }
    let mut second: Option<Solution> = None;
    for without in &bought {
        // A group that has no type yet keeps to the one it got, or starts with the next one.
        let only = |group: usize| {
            let (_, names) = undecided.iter().find(|(own, _)| *own == group)?;
            let got = bought.iter().find(|own| own.0 == group && *own != without);
            let next = || names.iter().copied().find(|name| (group, *name) != *without);
            Some(got.map_or_else(next, |(_, name)| Some(*name)))
        };
        let may = |template: &TemplateId| {
            let (group, name) = kind(*template);
            (group, name) != *without && only(group).is_none_or(|only| only == Some(name))
        };
        let market = Market::new(board, open.iter().copied().filter(may).collect());
        // Whoever looked last may have taken back what fits where nodes are.
        state.rollback(served.mark);
        for put in &served.puts {
            state.place(put.class, put.node, put.count);
        }
        let solution = solve(state, &market, ledger, served);
        let solution = verified(state, served, solution);
        let as_good = compare_unserved(&solution.unserved, &best.unserved).is_le();
        if as_good && second.as_ref().is_none_or(|second| solution.better(second, board)) {
            second = Some(solution);
        }
    }
    second
}

/// New nodes come with daemon pods. Where those count for others, all of them are there before the first pod is bound to
/// one, so what was found is tried again in that light.
fn verified(state: &mut State<'_>, served: &Served, solution: Solution) -> Solution {
    let board = state.board;
    let counted = |template: &TemplateId| {
        let daemons = &board.templates[*template as usize].daemons;
        daemons.iter().any(|daemon| !board.ident(*daemon).raises.is_empty())
    };
    if !solution.opened.iter().any(counted) {
        return solution;
    }
    let nothing = Market::new(board, Vec::new());
    state.rollback(served.mark);
    state.law = Law::Existing;
    let mut packing = Packing::new(state, &nothing, Ledger::new(board));
    let mut left: BTreeMap<u32, i64> =
        solution.left.iter().map(|demand| (demand.class, demand.count)).collect();
    let mut stands = false;
    for put in &solution.puts {
        if put.node as usize >= packing.state.existing && !stands {
            for template in &solution.opened {
                packing.state.open(*template);
            }
            packing.state.plan_stands();
            stands = true;
        }
        for _ in 0..put.count {
            if !stands || packing.state.fits(put.class, put.node) {
                packing.put(put.class, put.node, 1);
            } else {
                *left.entry(put.class).or_insert(0) += 1;
            }
        }
    }
    let mut left: Vec<Demand> = left.into_iter().map(|(class, count)| Demand { class, count }).collect();
    if stands {
        for demand in &mut left {
            let all = 0..packing.state.places.len();
            demand.count = packing.fill(demand.class, demand.class, demand.count, all);
        }
        packing.state.plan_falls(Law::Universe);
    }
    left.retain(|demand| demand.count > 0);
    let puts = std::mem::take(&mut packing.puts);
    state.rollback(served.mark);
    state.law = Law::Existing;
    Solution::new(board, puts, solution.opened, left, solution.topped_up)
}

/// Groups without mixing and without nodes, and the types they could start with, most promising first.
pub(crate) fn undecided<'b>(
    board: &'b Board<'_>,
    open: &[TemplateId],
    left: &[Demand],
) -> Vec<(usize, Vec<&'b str>)> {
    let mut groups: BTreeMap<usize, Vec<(f64, &str)>> = BTreeMap::new();
    let market = Market::new(board, open.to_vec());
    for template in open {
        let kind = &board.templates[*template as usize];
        if board.input.groups[kind.group].mixing || kept_type(board, kind.group).is_some() {
            continue;
        }
        let useful = left.iter().any(|demand| {
            crate::state::fits_in(&board.class(demand.class).request, &kind.free)
                && board.agrees(demand.class, kind.class)
        });
        let types = groups.entry(kind.group).or_default();
        let name = offering_name(board, kind.group, kind.offering);
        // To reach its minimum a group may start with one that helps no pod.
        let short = board.input.groups[kind.group].min > 0;
        if (useful || short || left.is_empty()) && !types.iter().any(|(_, other)| *other == name) {
            #[allow(clippy::cast_precision_loss)] // A score, not an amount.
            let density = kind.price as f64 / market.value(&kind.free).max(f64::MIN_POSITIVE);
            types.push((density, name));
        }
    }
    groups
        .into_iter()
        .map(|(group, mut types)| {
            types.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(other.1)));
            types.truncate(TYPES);
            (group, types.into_iter().map(|(_, name)| name).collect::<Vec<_>>())
        })
        .filter(|(_, names)| !names.is_empty())
        .collect()
}

/// Preferences that buy nodes are known to one way only.
fn ignores_preferences(board: &Board<'_>) -> bool {
    board.input.settings.preferences == Preferences::Ignore
}

/// The best of several ways.
fn solve(state: &mut State<'_>, market: &Market, ledger: &Ledger, served: &Served) -> Solution {
    let board = state.board;
    let below = below_minimum(board, market);
    let plain = order(state, market, &served.left, false);
    let mut best = attempt(state, market, ledger, served, &plain, Way::Classes { early: false });
    if !below.is_empty() {
        let other = attempt(state, market, ledger, served, &plain, Way::Classes { early: true });
        if other.better(&best, board) {
            best = other;
        }
    }
    if !best.left.is_empty() {
        let urgent = order(state, market, &served.left, true);
        let other = attempt(state, market, ledger, served, &urgent, Way::Classes { early: true });
        if other.better(&best, board) {
            best = other;
        }
    }
    if ignores_preferences(board) && crate::pattern::affordable(market, &served.left) {
        let other = attempt(state, market, ledger, served, &plain, Way::Patterns);
        if other.better(&best, board) {
            best = other;
        }
    }
    best
}

enum Way {
    /// Class by class; the minimum of each group before or after.
    Classes { early: bool },
    /// Node by node.
    Patterns,
}

fn attempt(
    state: &mut State<'_>,
    market: &Market,
    ledger: &Ledger,
    served: &Served,
    order: &[Demand],
    way: Way,
) -> Solution {
    let board = state.board;
    let mark = state.mark();
    state.law = Law::Universe;
    let mut packing = Packing::new(state, market, ledger.clone());
    packing.puts = served.puts.clone();
    let mut topped_up = Vec::new();
    let left = match way {
        Way::Classes { early } => {
            if early {
                topped_up = top_up(&mut packing, board, market);
            }
            packing.run(order)
        }
        Way::Patterns => crate::pattern::run(&mut packing, order),
    };
    packing.shrink();
    let more = top_up(&mut packing, board, market);
    if !more.is_empty() {
        topped_up = more;
    }
    let left = settle_late(&mut packing, left);
    let puts = std::mem::take(&mut packing.puts);
    let opened = state.places[state.existing..].iter().filter_map(|place| place.template).collect();
    state.rollback(mark);
    state.law = Law::Existing;
    Solution::new(board, puts, opened, left, topped_up)
}

/// What found no place where zones that could be had count as empty may find one where only the plan's nodes count.
pub(crate) fn settle_late(packing: &mut Packing<'_, '_>, left: Vec<Demand>) -> Vec<Demand> {
    let spread = |demand: &Demand| !packing.state.board.class(demand.class).spread.is_empty();
    if !left.iter().any(spread) {
        return left;
    }
    packing.state.plan_stands();
    let mut waiting = left;
    loop {
        let mut still = Vec::new();
        let mut moved = false;
        for demand in waiting {
            let all = 0..packing.state.places.len();
            let count = packing.fill(demand.class, demand.class, demand.count, all);
            moved |= count < demand.count;
            if count > 0 {
                still.push(Demand { count, ..demand });
            }
        }
        if still.is_empty() || !moved {
            packing.state.plan_falls(Law::Universe);
            return still;
        }
        waiting = still;
    }
}

/// Groups with fewer nodes than they must have, and how many are missing.
pub(crate) fn below_minimum(board: &Board<'_>, market: &Market) -> Vec<(usize, u32)> {
    let alive = alive(board);
    (0..board.input.groups.len())
        .filter(|group| {
            market.allowed.iter().any(|template| board.templates[*template as usize].group == *group)
        })
        .filter_map(|group| {
            let missing = board.input.groups[group].min.saturating_sub(alive[group]);
            (missing > 0).then_some((group, missing))
        })
        .collect()
}

/// Nodes and machines that stay, by group.
fn alive(board: &Board<'_>) -> Vec<u32> {
    let mut alive = vec![0; board.input.groups.len()];
    for node in &board.nodes {
        let stays = match node.origin {
            NodeOrigin::Existing(at) => !board.input.nodes[at].draining,
            NodeOrigin::Machine(at) => !board.input.machines[at].failed,
        };
        if let Some(group) = node.group.filter(|_| stays) {
            alive[group] += 1;
        }
    }
    alive
}

/// The cheapest nodes there are, until every group has its minimum.
pub(crate) fn top_up(packing: &mut Packing<'_, '_>, board: &Board<'_>, market: &Market) -> Vec<(usize, u32)> {
    let mut opened = vec![0u32; board.input.groups.len()];
    for place in &packing.state.places[packing.state.existing..] {
        if let Some(template) = place.template {
            opened[board.templates[template as usize].group] += 1;
        }
    }
    let mut grown = Vec::new();
    for (group, missing) in below_minimum(board, market) {
        let missing = missing.saturating_sub(opened[group]);
        let mut added = 0;
        while added < missing {
            let cheapest = market
                .allowed
                .iter()
                .copied()
                .filter(|template| board.templates[*template as usize].group == group)
                .filter(|template| packing.ledger.objection(board, *template, None).is_none())
                .min_by_key(|template| {
                    let kind = &board.templates[*template as usize];
                    (kind.price, !kind.preferred, *template)
                });
            let Some(template) = cheapest else { break };
            packing.open(template);
            added += 1;
        }
        if added > 0 {
            grown.push((group, added));
        }
    }
    grown
}
