//! The plan for people.

use super::Planned;
use hostler_planner::model::{Pod, Price};
use hostler_planner::{Binding, NodeVerdict, PodsVerdict, Target};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

const MONTH: i64 = 730;

/// Per hour to five places, and per month.
fn money(price: Price) -> String {
    let decimal = |value: i64, unit: i64, places: usize| {
        let scale = 10_i64.pow(u32::try_from(places).unwrap_or_default());
        let rounded = (value + unit / scale / 2) / (unit / scale);
        format!("{}.{:0places$}", rounded / scale, rounded % scale)
    };
    let hourly = decimal(price, 1_000_000_000, 5);
    format!("{hourly} per hour ({} per month)", decimal(price * MONTH, 1_000_000_000, 2))
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

pub fn render(planned: &Planned) -> String {
    let cluster = &planned.cluster;
    let now =
        Timestamp::from_second(cluster.now).map_or_else(|_| cluster.now.to_string(), |now| now.to_string());
    let mut text = format!(
        "{now}: {}, {}, {}\n\n",
        count(cluster.nodes.len(), "node"),
        count(cluster.pods.len(), "pod"),
        count(cluster.groups.len(), "group"),
    );
    up(planned, &mut text);
    down(planned, &mut text);
    line(&mut text, "");
    cheaper(planned, &mut text);
    text
}

fn up(planned: &Planned, text: &mut String) {
    let (cluster, up) = (&planned.cluster, &planned.up);
    if up.machines.is_empty() {
        line(text, "Scale-up: nothing to buy");
    } else {
        line(text, &format!("Scale-up: {}, {}", count(up.machines.len(), "machine"), money(up.price)));
        let mut kinds: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for machine in &up.machines {
            *kinds.entry((machine.group, machine.offering)).or_default() += 1;
        }
        let rows = kinds.into_iter().map(|((group, offering), number)| {
            let group = &cluster.groups[group];
            let offering = &group.offerings[offering];
            let zone = offering.zone.clone().unwrap_or_else(|| "-".to_owned());
            vec![number.to_string(), offering.name.clone(), group.name.clone(), zone, money(offering.price)]
        });
        table(text, &["COUNT", "OFFERING", "GROUP", "ZONE", "PRICE OF ONE"], rows.collect());
        if let Some(runner_up) = &up.runner_up {
            line(text, &format!("  {runner_up}"));
        }
        let unplaced = up.unplaced().len();
        if unplaced > 0 {
            line(text, &format!("  {} without a place even so", count(unplaced, "pod")));
        }
    }
    for reason in &up.groups {
        line(text, &format!("  {reason}"));
    }
    if !up.pods.is_empty() {
        line(text, "");
        line(text, "Pods without a node, and why");
        for verdict in &up.pods {
            pods(planned, verdict, text);
        }
    }
    line(text, "");
}

fn pods(planned: &Planned, verdict: &PodsVerdict, text: &mut String) {
    let name = verdict.pods.first().map(|pod| full_name(&planned.cluster.pods[*pod])).unwrap_or_default();
    let others = match verdict.pods.len() {
        0 | 1 => String::new(),
        more => format!(" and {} more like it", more - 1),
    };
    let placed = match (verdict.placed, verdict.pods.len()) {
        (0, _) => "no place".to_owned(),
        (placed, all) if placed == all => "placed".to_owned(),
        (placed, all) => format!("{placed} of {all} placed"),
    };
    line(text, &format!("  {name}{others}: {placed}"));
    for reason in &verdict.reasons {
        line(text, &format!("    {reason}"));
    }
}

fn down(planned: &Planned, text: &mut String) {
    let down = &planned.down;
    if down.removed.is_empty() {
        line(text, "Scale-down: nothing to give back");
    } else {
        let number = count(down.removed.len(), "node");
        line(text, &format!("Scale-down: {number}, saves {}", money(down.saved)));
    }
    nodes(planned, &down.nodes.iter().collect::<Vec<_>>(), text);
    for moved in &down.moves {
        moves(planned, moved, &super::json::target(planned, moved.target), text);
    }
}

fn nodes(planned: &Planned, verdicts: &[&NodeVerdict], text: &mut String) {
    let rows = verdicts.iter().map(|verdict| {
        let node = &planned.cluster.nodes[verdict.node];
        let fate = super::json::fate(&verdict.fate);
        let known = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let group = known(&node.group);
        vec![node.name.clone(), group, known(&node.offering), fate.to_owned(), verdict.reason.to_string()]
    });
    table(text, &["NODE", "GROUP", "OFFERING", "FATE", "WHY"], rows.collect());
}

fn moves(planned: &Planned, moved: &Binding, to: &str, text: &mut String) {
    let pod = &planned.cluster.pods[moved.pod];
    let from = pod.node.as_deref().unwrap_or("-");
    line(text, &format!("  {} moves from {from} to {to}", full_name(pod)));
}

fn cheaper(planned: &Planned, text: &mut String) {
    let (cluster, cheaper) = (&planned.cluster, &planned.cheaper);
    let plan = &cheaper.plan;
    if !cluster.groups.iter().any(|group| group.consolidation.enabled) {
        line(text, "Consolidation: off for every group");
        return;
    }
    let bought = |machine: &usize| {
        let machine = plan.machines[*machine];
        let group = &cluster.groups[machine.group];
        format!("{} of {}", group.offerings[machine.offering].name, group.name)
    };
    if plan.steps.is_empty() {
        line(text, "Consolidation: nothing can be had for less");
    } else {
        let gone: usize = plan.steps.iter().map(|step| step.removed.len()).sum();
        let (gone, come) = (count(gone, "node"), count(plan.machines.len(), "machine"));
        line(text, &format!("Consolidation: {gone} for {come}, saves {}", money(plan.saved)));
        line(text, &format!("  nodes of all groups before it  {}", money(cheaper.before)));
        line(text, &format!("  nodes of all groups after it   {}", money(cheaper.after)));
        let rows = plan.steps.iter().map(|step| {
            let gone: Vec<&str> = step.removed.iter().map(|at| cluster.nodes[*at].name.as_str()).collect();
            let come: Vec<String> = step.machines.iter().map(bought).collect();
            let come = if come.is_empty() { "-".to_owned() } else { come.join(", ") };
            let (before, after) = cheaper.prices(cluster, step);
            vec![gone.join(", "), come, money(before), money(after), money(step.saved)]
        });
        table(text, &["GOES", "COMES", "BEFORE", "AFTER", "SAVES"], rows.collect());
    }
    nodes(planned, &planned.looked_at(), text);
    for moved in plan.steps.iter().flat_map(|step| &step.moves) {
        let to = match moved.target {
            Target::New(machine) => format!("a new {}", bought(&machine)),
            there => super::json::target(planned, there),
        };
        moves(planned, moved, &to, text);
    }
}

fn line(text: &mut String, what: &str) {
    text.push_str(what);
    text.push('\n');
}

/// Columns as wide as their widest cell.
fn table(text: &mut String, heads: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in [heads].into_iter().chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(&row) {
            let width = *width;
            // Writing into a text cannot fail.
            let _ = write!(line, "  {cell:width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_rounded_to_what_people_read() {
        let table = [
            (0, "0.00000 per hour (0.00 per month)"),
            (16_438_356, "0.01644 per hour (12.00 per month)"),
            (1_234_567_890, "1.23457 per hour (901.23 per month)"),
            (4_999, "0.00000 per hour (0.00 per month)"),
        ];
        for (price, text) in table {
            assert_eq!(money(price), text);
        }
    }

    #[test]
    fn columns_stand_below_each_other() {
        let mut text = String::new();
        table(
            &mut text,
            &["A", "LONG"],
            vec![vec!["x".repeat(3), String::new()], vec!["é".to_owned(), "y".to_owned()]],
        );
        assert_eq!(text, "  A    LONG\n  xxx\n  é    y\n");
    }
}
