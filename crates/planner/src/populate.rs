//! The state as it is: pods on their nodes, and those that wait.

use crate::board::{Board, ClassId, Life, expendable};
use crate::model::{OwnerKind, Pod, Verdict};
use crate::reason::Reason;
use crate::state::{NodeId, State};

/// Pods that wait, by class, and those that are none of our business.
#[derive(Default)]
pub(crate) struct Waiting {
    /// In the order of the first pod of each; the class's pods in the order of the input.
    pub classes: Vec<(ClassId, Vec<usize>)>,
    pub ignored: Vec<(usize, Reason)>,
}

pub(crate) fn populate<'a>(board: &'a Board<'a>) -> (State<'a>, Waiting) {
    let mut state = State::new(board);
    let mut waiting = Waiting::default();
    let mut slots: Vec<u32> = vec![u32::MAX; board.classes.len()];
    let mut wait = |waiting: &mut Waiting, class: ClassId, pod: usize| {
        let slot = &mut slots[class as usize];
        if *slot == u32::MAX {
            *slot = u32::try_from(waiting.classes.len()).unwrap_or(u32::MAX);
            waiting.classes.push((class, Vec::new()));
        }
        waiting.classes[*slot as usize].1.push(pod);
    };
    for (at, life) in board.pod_life.iter().enumerate() {
        let (class, node) = (board.pod_class[at], board.pod_node[at]);
        match life {
            Life::Nothing => {}
            Life::Leaving => state.place_leaving(class, node),
            Life::Runs if board.input.nodes[node as usize].draining => wait(&mut waiting, class, at),
            Life::Runs | Life::Tied => state.place_running(class, node),
            Life::Unbound => match not_ours(board, &board.input.pods[at]) {
                Some(reason) => {
                    if let Reason::Nominated { node } = &reason
                        && let Some(node) = board.input.nodes.iter().position(|own| own.name == *node)
                    {
                        state.place(class, NodeId::try_from(node).unwrap_or(NodeId::MAX), 1);
                    }
                    waiting.ignored.push((at, reason));
                }
                None => wait(&mut waiting, class, at),
            },
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
        () if expendable(board.input, pod) => Some(Reason::Expendable {
            priority: pod.spec.priority.unwrap_or(0),
            cutoff: settings.priority_cutoff,
        }),
        () => None,
    }
}
