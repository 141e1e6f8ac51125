//! Finds a node for every pod that has none.
//!
//! One predicate per module; [`decide`] asks them in the real scheduler's order and words the refusal as it
//! does. The predicates are this project's independent check on its planner: nothing else may use them, and
//! they use nothing of other rooms.

mod node_affinity;
mod pod_affinity;
mod ports;
mod resources;
mod run;
mod score;
mod snapshot;
mod spread;
pub(crate) mod storage;
pub(crate) mod taints;

pub(crate) use node_affinity::is_wanted;
pub(crate) use run::Scheduler;

use k8s_openapi::api::core::v1::Pod;
use pod_affinity::Neighbours;
use snapshot::{NodeView, Snapshot};
use std::collections::BTreeMap;
use storage::LateBinding;

/// Why a node will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// Nothing that runs on the node could be removed to change it.
    pub(crate) lasting: bool,
}

impl Refusal {
    fn passing(reason: &str) -> Self {
        Self { reason: reason.to_owned(), lasting: false }
    }

    fn lasting(reason: &str) -> Self {
        Self { reason: reason.to_owned(), lasting: true }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// To the node at this place of the snapshot, after these things about its claims are done.
    Place { node: usize, late: Vec<LateBinding> },
    /// Nowhere, for this reason.
    Unschedulable(String),
}

pub(crate) fn decide(pod: &Pod, snapshot: &Snapshot) -> Verdict {
    if snapshot.nodes.is_empty() {
        return Verdict::Unschedulable("no nodes available to schedule pods".to_owned());
    }
    let total = snapshot.nodes.len();
    let needs = match snapshot.storage.needs(pod, &snapshot.nodes) {
        Ok(needs) => needs,
        Err(reason) => {
            let preemption = preemption(pod, total, &[]);
            return Verdict::Unschedulable(format!("0/{total} nodes are available: {reason}. {preemption}"));
        }
    };
    let named = node_affinity::named_nodes(pod);
    let asked = resources::requests(pod);
    let spread = spread::required(pod, snapshot);
    let neighbours = Neighbours::of(pod, snapshot);
    let refusals_of = |node: &NodeView| -> Vec<Refusal> {
        if named.as_ref().is_some_and(|names| !names.contains(&node.name)) {
            return vec![Refusal::lasting("node(s) didn't satisfy plugin(s) [NodeAffinity]")];
        }
        let early = taints::cordoned(pod, &node.node)
            .or_else(|| taints::tainted(pod, &node.node))
            .or_else(|| node_affinity::unwanted(pod, &node.node))
            .or_else(|| ports::taken(pod, node));
        if let Some(refusal) = early {
            return vec![refusal];
        }
        let short = resources::refusals(&asked, node);
        if !short.is_empty() {
            return short;
        }
        let volumes = snapshot.storage.refusals(&needs, node);
        if !volumes.is_empty() {
            return volumes;
        }
        spread::refusal(&spread, node).or_else(|| neighbours.refusal(node)).into_iter().collect()
    };

    let mut feasible = Vec::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut passing = Vec::new();
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let refusals = refusals_of(node);
        if refusals.is_empty() {
            feasible.push(at);
            continue;
        }
        if refusals.iter().all(|refusal| !refusal.lasting) {
            passing.push(node);
        }
        for refusal in refusals {
            *reasons.entry(refusal.reason).or_default() += 1;
        }
    }
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
    let promised = feasible
        .iter()
        .copied()
        .find(|at| snapshot.nodes.get(*at).is_some_and(|node| Some(&node.name) == nominated));
    match promised.or_else(|| score::best(pod, snapshot, &feasible)) {
        Some(node) => {
            let late = snapshot.nodes.get(node).and_then(|view| snapshot.storage.late_bindings(&needs, view));
            Verdict::Place { node, late: late.unwrap_or_default() }
        }
        None => {
            let preemption = preemption(pod, total, &passing);
            Verdict::Unschedulable(format!(
                "0/{total} nodes are available: {}. {preemption}",
                histogram(&reasons)
            ))
        }
    }
}

/// Counted reasons, ordered as text as the real scheduler orders them.
fn histogram(reasons: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    parts.join(", ")
}

/// What the real scheduler adds about removing other pods; this one never does that and says so where the real one
/// might. `passing` are the nodes that fewer pods could make room on.
fn preemption(pod: &Pod, total: usize, passing: &[&NodeView]) -> String {
    if pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return "preemption: not eligible due to preemptionPolicy=Never.".to_owned();
    }
    let own = priority(pod);
    let yielding = passing.iter().filter(|node| node.pods.iter().any(|other| priority(other) < own)).count();
    let reasons = [
        ("No preemption victims found for incoming pod", passing.len() - yielding),
        ("node(s) have pods of lower priority, which this scheduler does not remove", yielding),
        ("Preemption is not helpful for scheduling", total - passing.len()),
    ];
    let reasons = reasons.into_iter().filter(|(_, nodes)| *nodes > 0);
    let reasons = reasons.map(|(reason, nodes)| (reason.to_owned(), nodes)).collect();
    format!("preemption: 0/{total} nodes are available: {}.", histogram(&reasons))
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

#[cfg(test)]
mod tests;
