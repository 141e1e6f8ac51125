//! The plan for programs: names instead of numbers, and every reason as value and as text.

use super::{Planned, table::full_name};
use anyhow::Context;
use hostler_planner::{Binding, Explanation, Fate, NewMachine, NodeVerdict, Reason, Target};
use serde_json::{Value, json};

/// The name of where a pod goes; machines of the plan are counted from zero.
pub(super) fn target(planned: &Planned, target: Target) -> String {
    match target {
        Target::Node(at) => planned.cluster.nodes[at].name.clone(),
        Target::Machine(at) => planned.cluster.machines[at].name.clone(),
        Target::New(at) => format!("new machine {at}"),
    }
}

fn binding(planned: &Planned, binding: &Binding) -> Value {
    let place = match binding.target {
        Target::Node(at) => json!({ "node": planned.cluster.nodes[at].name }),
        Target::Machine(at) => json!({ "coming": planned.cluster.machines[at].name }),
        Target::New(at) => json!({ "machine": at }),
    };
    json!({ "pod": full_name(&planned.cluster.pods[binding.pod]), "to": place })
}

pub(super) fn fate(fate: &Fate) -> &'static str {
    match fate {
        Fate::Keep => "stays",
        Fate::Unneeded { .. } => "could go",
        Fate::Remove => "goes",
    }
}

fn machine(planned: &Planned, machine: NewMachine) -> Value {
    let group = &planned.cluster.groups[machine.group];
    let offering = &group.offerings[machine.offering];
    json!({ "group": group.name, "offering": offering.name, "zone": offering.zone, "price": offering.price })
}

fn node(planned: &Planned, verdict: &NodeVerdict) -> Value {
    let node = &planned.cluster.nodes[verdict.node];
    let why = Explanation::node(&node.name, verdict.reason.clone());
    json!({ "node": node.name, "group": node.group, "offering": node.offering, "fate": fate(&verdict.fate),
            "why": explanation(&why) })
}

fn reason(reason: &Reason) -> Value {
    let mut value = serde_json::to_value(reason).unwrap_or_default();
    value["text"] = reason.to_string().into();
    value
}

fn explanation(explanation: &Explanation) -> Value {
    let mut value = serde_json::to_value(explanation).unwrap_or_default();
    value["text"] = explanation.to_string().into();
    value
}

pub fn render(planned: &Planned) -> anyhow::Result<String> {
    let (cluster, up, down) = (&planned.cluster, &planned.up, &planned.down);
    let machines: Vec<Value> = up.machines.iter().map(|one| machine(planned, *one)).collect();
    let pods: Vec<Value> = up
        .pods
        .iter()
        .map(|verdict| {
            let names: Vec<String> = verdict.pods.iter().map(|pod| full_name(&cluster.pods[*pod])).collect();
            let reasons: Vec<Value> = verdict.reasons.iter().map(explanation).collect();
            json!({ "pods": names, "placed": verdict.placed, "reasons": reasons })
        })
        .collect();
    let nodes: Vec<Value> = down.nodes.iter().map(|verdict| node(planned, verdict)).collect();
    let names: Vec<&str> = down.removed.iter().map(|at| cluster.nodes[*at].name.as_str()).collect();
    let bindings: Vec<Value> = up.bindings.iter().map(|one| binding(planned, one)).collect();
    let moves: Vec<Value> = down.moves.iter().map(|one| binding(planned, one)).collect();
    let plan = json!({
        "now": cluster.now,
        "warnings": planned.warnings,
        "scale_up": {
            "machines": machines,
            "price": up.price,
            "bindings": bindings,
            "pods": pods,
            "runner_up": up.runner_up.as_ref().map(reason),
            "groups": up.groups.iter().map(explanation).collect::<Vec<Value>>(),
        },
        "scale_down": { "removed": names, "saved": down.saved, "moves": moves, "nodes": nodes },
        "consolidation": cheaper(planned),
    });
    let text = serde_json::to_string_pretty(&plan).context("the plan cannot be written as JSON")?;
    Ok(text + "\n")
}

/// Machines are counted apart from those of the scale-up.
fn cheaper(planned: &Planned) -> Value {
    let (cluster, cheaper) = (&planned.cluster, &planned.cheaper);
    let plan = &cheaper.plan;
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            let removed: Vec<&str> = step.removed.iter().map(|at| cluster.nodes[*at].name.as_str()).collect();
            let (before, after) = cheaper.prices(cluster, step);
            let moves: Vec<Value> = step.moves.iter().map(|one| binding(planned, one)).collect();
            json!({ "removed": removed, "machines": step.machines, "price_before": before, "price_after": after,
                    "saved": step.saved, "moves": moves })
        })
        .collect();
    let machines: Vec<Value> = plan.machines.iter().map(|one| machine(planned, *one)).collect();
    let nodes: Vec<Value> = planned.looked_at().into_iter().map(|verdict| node(planned, verdict)).collect();
    json!({ "machines": machines, "steps": steps, "price_before": cheaper.before, "price_after": cheaper.after,
            "saved": plan.saved, "nodes": nodes })
}
