//! The plan for programs: names instead of numbers, and every reason as value and as text.

use super::{Planned, table::full_name};
use anyhow::Context;
use hostler_planner::{Binding, Explanation, Fate, Target};
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

fn explanation(explanation: &Explanation) -> Value {
    let mut value = serde_json::to_value(explanation).unwrap_or_default();
    value["text"] = explanation.to_string().into();
    value
}

pub fn render(planned: &Planned) -> anyhow::Result<String> {
    let (cluster, up, down) = (&planned.cluster, &planned.up, &planned.down);
    let machines: Vec<Value> = up
        .machines
        .iter()
        .map(|machine| {
            let group = &cluster.groups[machine.group];
            let offering = &group.offerings[machine.offering];
            json!({ "group": group.name, "offering": offering.name, "zone": offering.zone, "price": offering.price })
        })
        .collect();
    let pods: Vec<Value> = up
        .pods
        .iter()
        .map(|verdict| {
            let names: Vec<String> = verdict.pods.iter().map(|pod| full_name(&cluster.pods[*pod])).collect();
            let reasons: Vec<Value> = verdict.reasons.iter().map(explanation).collect();
            json!({ "pods": names, "placed": verdict.placed, "reasons": reasons })
        })
        .collect();
    let nodes: Vec<Value> = down
        .nodes
        .iter()
        .map(|verdict| {
            let node = &cluster.nodes[verdict.node];
            let fate = match verdict.fate {
                Fate::Keep => "stays",
                Fate::Unneeded { .. } => "could go",
                Fate::Remove => "goes",
            };
            let why = Explanation::node(&node.name, verdict.reason.clone());
            json!({ "node": node.name, "group": node.group, "offering": node.offering, "fate": fate,
                    "why": explanation(&why) })
        })
        .collect();
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
            "groups": up.groups.iter().map(explanation).collect::<Vec<Value>>(),
        },
        "scale_down": { "removed": names, "saved": down.saved, "moves": moves, "nodes": nodes },
    });
    let text = serde_json::to_string_pretty(&plan).context("the plan cannot be written as JSON")?;
    Ok(text + "\n")
}
