//! The state as it is: pods on their nodes, and those that wait.

use crate::board::{Board, ClassId, NO_CLASS};
use crate::intern::Map;
use crate::model::{OwnerKind, Phase, Pod, Verdict};
use crate::reason::Reason;
use crate::state::{NodeId, State};

/// Pods that wait, by class, and those that are none of our business.
#[derive(Default)]
pub(crate) struct Waiting {
    /// In the order of the first pod of each; the class's pods in the order of the input.
    pub classes: Vec<(ClassId, Vec<usize>)>,
    pub ignored: Vec<(usize, Reason)>,
}

pub(crate) fn expendable(board: &Board<'_>, pod: &Pod) -> bool {
    pod.spec.priority.is_some_and(|priority| priority < board.input.settings.priority_cutoff)
}

/// Comes with the node and goes with it.
pub(crate) fn tied_to_node(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| matches!(owner.kind, OwnerKind::DaemonSet | OwnerKind::Node))
}

pub(crate) fn populate<'a>(board: &'a Board<'a>) -> (State<'a>, Waiting) {
    let mut state = State::new(board);
    let mut waiting = Waiting::default();
    let names: Map<&str, NodeId> =
        (0u32..).zip(&board.input.nodes).map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut slots: Vec<u32> = vec![u32::MAX; board.classes.len()];
    let mut wait = |waiting: &mut Waiting, class: ClassId, pod: usize| {
        let slot = &mut slots[class as usize];
        if *slot == u32::MAX {
            *slot = u32::try_from(waiting.classes.len()).unwrap_or(u32::MAX);
            waiting.classes.push((class, Vec::new()));
        }
        waiting.classes[*slot as usize].1.push(pod);
    };
    for (at, pod) in board.input.pods.iter().enumerate() {
        let class = board.pod_class[at];
        if class == NO_CLASS || pod.phase == Phase::Finished {
            continue;
        }
        if let Some(name) = &pod.node {
            let Some(&node) = names.get(name.as_str()) else { continue };
            if expendable(board, pod) {
                continue;
            }
            let draining = board.input.nodes[node as usize].draining;
            if pod.deleting.is_some() {
                state.place_leaving(class, node);
            } else if draining && !tied_to_node(pod) {
                wait(&mut waiting, class, at);
            } else {
                state.place(class, node, 1);
            }
            continue;
        }
        match not_ours(board, pod) {
            Some(reason) => {
                if let Reason::Nominated { node } = &reason
                    && let Some(node) = names.get(node.as_str())
                {
                    state.place(class, *node, 1);
                }
                waiting.ignored.push((at, reason));
            }
            None => wait(&mut waiting, class, at),
        }
    }
    for (number, node) in (0u32..).zip(&board.nodes) {
        for daemon in &node.daemons {
            state.place(*daemon, number, 1);
        }
    }
    state.plan();
    (state, waiting)
}

/// Why a pod without a node is not planned for.
fn not_ours(board: &Board<'_>, pod: &Pod) -> Option<Reason> {
    let settings = &board.input.settings;
    let owner = pod.owner.as_ref().map(|owner| owner.kind);
    let scheduler = pod.spec.scheduler.as_deref().unwrap_or("default-scheduler");
    match () {
        () if pod.deleting.is_some() => Some(Reason::BeingDeleted),
        () if owner == Some(OwnerKind::DaemonSet) => Some(Reason::DaemonPod),
        () if owner == Some(OwnerKind::Node) => Some(Reason::MirrorPod),
        () if pod.verdict == Verdict::Gated => Some(Reason::SchedulingGated),
        () if settings.schedulers.as_ref().is_some_and(|own| !own.iter().any(|name| name == scheduler)) => {
            Some(Reason::OtherScheduler { scheduler: scheduler.to_owned() })
        }
        () if pod.nominated_node.is_some() => {
            Some(Reason::Nominated { node: pod.nominated_node.clone().unwrap_or_default() })
        }
        () if pod.verdict == Verdict::Unseen => Some(Reason::NotSeenByScheduler),
        () if expendable(board, pod) => Some(Reason::Expendable {
            priority: pod.spec.priority.unwrap_or(0),
            cutoff: settings.priority_cutoff,
        }),
        () => None,
    }
}
