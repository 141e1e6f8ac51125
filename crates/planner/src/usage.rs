//! The usage trigger: groups that grow because their nodes are busy, whatever pods asked for.

use crate::board::{Board, CPU, MEMORY, build};
use crate::market::Ledger;
use crate::model::{Cluster, Price};
use crate::plan::{NewMachine, UsageVerdict};
use crate::reason::Reason;
use crate::state::TemplateId;
use crate::up::choice;

/// By group: the machines that measured usage asks for, and since when it does. Means are over the group's ready nodes.
pub fn usage(cluster: &Cluster) -> Vec<UsageVerdict> {
    let board = build(cluster);
    let gates = choice::gates(&board);
    let open = choice::open_templates(&board, &gates);
    (0..cluster.groups.len()).map(|group| verdict(&board, group, &gates, &open)).collect()
}

fn verdict(board: &Board<'_>, group: usize, gates: &[Option<Reason>], open: &[TemplateId]) -> UsageVerdict {
    let input = &board.input.groups[group];
    let policy = &input.scale_up;
    let rests = |reason| UsageVerdict { group, machines: Vec::new(), hot_since: None, reason };
    let mut used = [0i64; 2];
    let mut size = [0i64; 2];
    for (node, kind) in board.input.nodes.iter().zip(&board.nodes) {
        if kind.group != Some(group) || !node.ready || node.draining {
            continue;
        }
        let Some(usage) = node.usage else { return rests(Reason::NoMeasurements) };
        used[0] += usage.cpu;
        used[1] += usage.memory;
        size[0] += node.allocatable.cpu;
        size[1] += node.allocatable.memory;
    }
    if size[0] == 0 || size[1] == 0 {
        return rests(Reason::NoReadyNodes);
    }
    let thresholds = [policy.cpu_threshold, policy.memory_threshold];
    let now = size;
    let percent = |which: usize| used[which] * 100 / now[which];
    let hot = (0..2).any(|which| thresholds[which] > 0 && percent(which) >= thresholds[which]);
    if !hot {
        return rests(Reason::UsageBelow { cpu_percent: percent(0), memory_percent: percent(1) });
    }
    let since = input.hot_since.unwrap_or(board.input.now);
    let waits = |reason| UsageVerdict { group, machines: Vec::new(), hot_since: Some(since), reason };
    if let Some(gate) = &gates[group] {
        return waits(gate.clone());
    }
    if board.input.now < since + policy.window {
        return waits(Reason::UsageHeating { since, window: policy.window });
    }
    // What is coming already counts as if it were there.
    for node in board.nodes.iter().filter(|node| node.group == Some(group) && node.booting && node.open) {
        size[0] += node.allocatable[CPU];
        size[1] += node.allocatable[MEMORY];
    }
    match cheapest(board, group, open, used, size, thresholds) {
        Ok(machines) => UsageVerdict {
            group,
            machines,
            hot_since: Some(since),
            reason: Reason::UsageAbove {
                cpu_percent: percent(0),
                memory_percent: percent(1),
                cpu_threshold: thresholds[0],
                memory_threshold: thresholds[1],
            },
        },
        Err(reason) => waits(reason),
    }
}

/// So many of one offering that the mean falls below the thresholds, at the least price.
fn cheapest(
    board: &Board<'_>,
    group: usize,
    open: &[TemplateId],
    used: [i64; 2],
    size: [i64; 2],
    thresholds: [i64; 2],
) -> Result<Vec<NewMachine>, Reason> {
    let mut best: Option<(bool, Price, bool, TemplateId, Vec<NewMachine>)> = None;
    let mut obstacle = Reason::NoneAvailable;
    for &template in open.iter().filter(|template| board.templates[**template as usize].group == group) {
        let kind = &board.templates[template as usize];
        let mut ledger = Ledger::new(board);
        let mut then = size;
        let mut machines = Vec::new();
        let hot = |then: [i64; 2]| {
            (0..2).any(|which| thresholds[which] > 0 && used[which] * 100 / then[which] >= thresholds[which])
        };
        while hot(then) && kind.free[CPU] > 0 && kind.free[MEMORY] > 0 {
            if let Some(reason) = ledger.objection(board, template, None) {
                obstacle = reason;
                break;
            }
            ledger.add(board, template);
            then[0] += kind.free[CPU];
            then[1] += kind.free[MEMORY];
            machines.push(NewMachine { group, offering: kind.offering });
        }
        let price = kind.price * Price::try_from(machines.len()).unwrap_or(Price::MAX);
        let rank = (hot(then), price, !kind.preferred, template);
        let better =
            best.as_ref().is_none_or(|(still, price, other, at, _)| rank < (*still, *price, *other, *at));
        if better && (!machines.is_empty() || !rank.0) {
            best = Some((rank.0, rank.1, rank.2, rank.3, machines));
        }
    }
    best.map(|(_, _, _, _, machines)| machines).ok_or(obstacle)
}
