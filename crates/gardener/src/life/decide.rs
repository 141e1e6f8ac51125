use super::{
    Cursor, LOOK_AGAIN, Observed, StatusChange, Step, Tried, drain, health, preserve, replace, text, token,
    upkeep,
};
use crate::api::{OperationState, OperationType, Phase};
use hostler_driver::{
    Code, Failure, Finding, How, Identity, Machine as Server, Operation, ProviderId, Recognition, State,
    gone_twice, retry, without_references,
};
use jiff::SignedDuration;
use std::time::Duration;

/// How long the cloud may take to delete a server before people are told.
const DELETE_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// Why it is waited for what becomes of an order that the cloud has taken.
pub(crate) const ORDER_IN_HAND: &str = "OrderInHand";
/// How soon finalizers that are waited for are looked for when nothing wakes the machine earlier.
const KEPT_SOON: Duration = Duration::from_secs(5);

/// The next step of this machine's life.
pub fn decide(seen: &Observed) -> Step {
    match (seen.deleting, seen.has_finalizer) {
        (true, false) => Step::Done,
        (true, true) => note_place(seen).unwrap_or_else(|| deletion(seen)),
        (false, false) if !is_new(seen) => Step::AddFinalizer,
        (false, true) if seen.node_lost || seen.node.as_ref().is_some_and(|node| node.going) => {
            Step::DeleteMachine
        }
        (false, _) => {
            let step = note_place(seen).unwrap_or_else(|| preserve::beside(seen, creation(seen)));
            if step == Step::Done && lacks_place(seen) { Step::Rest(upkeep::EVERY) } else { step }
        }
    }
}

/// Whether it has a server of another program, which writes down nowhere where it is.
fn lacks_place(seen: &Observed) -> bool {
    let known = matches!(seen.provider_id, Some(Ok(_))) && seen.attempt.is_none() && seen.replaces.is_none();
    known && !seen.placed && seen.has_finalizer
}

/// A server is looked for where it was ordered, whatever class and Secret say by then. Of one that another program has
/// ordered that is noted at first sight, while they still lead to it.
fn note_place(seen: &Observed) -> Option<Step> {
    let (Some(Ok(id)), Ok(identity), None) = (&seen.provider_id, &seen.ready_to_act, &seen.failure) else {
        return None;
    };
    if !lacks_place(seen) {
        return None;
    }
    let Some(asked) = &seen.sightings.asked else { return Some(Step::Ask(id.clone())) };
    let own = |server: &&Server| server.state.is_present() && !is_foreign(server, identity);
    asked.found.machines().first().filter(own).map(|_| Step::Adopt(id.clone()))
}

/// Whether nobody has begun with it. It gets its finalizer with the mark of its first order, so until then it can go
/// without being asked for.
fn is_new(seen: &Observed) -> bool {
    let unborn = matches!(seen.phase, Phase::Empty | Phase::CrashLoopBackOff | Phase::Failed);
    unborn && seen.untouched && seen.provider_id.is_none() && !seen.has_node_label
}

/// Whether another program has begun with it and left no more than the finalizer. That one writes nothing before its
/// order, which may be on its way, or done and in no list yet.
fn is_begun_by_others(seen: &Observed) -> bool {
    let nothing_known = seen.provider_id.is_none() && seen.replaces.is_none() && seen.attempt.is_none();
    seen.has_finalizer && nothing_known && !seen.placed
}

fn creation(seen: &Observed) -> Step {
    let started = match seen.phase {
        Phase::Empty => false,
        // What is still to be done to its server is done while it runs.
        Phase::CrashLoopBackOff => has_ready_node(seen),
        _ => true,
    };
    if started && is_named(seen) && matches!(seen.provider_id, Some(Ok(_))) {
        // Only its node matters now, whatever becomes of class, Secret and cloud.
        let of_node = || keep_up(seen).unwrap_or_else(|| health::health(seen));
        let step = if seen.has_target { of_node() } else { Step::Done };
        return upkeep::beside(seen, step);
    }
    let nothing_ordered = seen.attempt.is_none() && seen.replaces.is_none() && !is_begun_by_others(seen);
    if is_given_up(seen) && nothing_ordered {
        // Nothing was ordered of which anything could come.
        return Step::Done;
    }
    let identity = match &seen.ready_to_act {
        Ok(identity) => identity,
        Err(failure) => return creation_failed(seen, Operation::FindForCreate, failure),
    };
    if let Some((tried, failure)) = &seen.failure {
        let operation = match tried {
            Tried::Create => Operation::Create,
            Tried::Settle => Operation::Settle,
            Tried::Look | Tried::Delete => Operation::FindForCreate,
        };
        return creation_failed(seen, operation, failure);
    }
    match &seen.provider_id {
        Some(Err(why)) => creation_failed(seen, Operation::FindForCreate, &unreadable(why)),
        Some(Ok(id)) => start_up(seen, id, identity),
        None => first_server(seen),
    }
}

/// No id is written down: there may be no server, or one whose id we never learnt.
fn first_server(seen: &Observed) -> Step {
    if let Some(created) = &seen.sightings.created {
        return Step::Adopt(created.provider_id.clone());
    }
    if let Some(message) = &seen.not_kept
        && (seen.attempt.is_none() || seen.attempt_unsent)
    {
        return Step::Wait { reason: "NotYetKept", message: message.clone(), again: KEPT_SOON };
    }
    if let Some(step) = seen.replaces.as_ref().and_then(|old| replace::away_with(seen, old)) {
        return step;
    }
    // Without a look that succeeds nothing is marked: a mark binds the machine to the place it was made for.
    let Some(listed) = &seen.sightings.listed else {
        // The look after the mark is the last thing before the order.
        let token = token::before_order(seen).filter(|_| seen.attempt_unsent);
        return token.unwrap_or(Step::List);
    };
    if let Some(server) = replace::preferred(seen, listed) {
        return Step::Adopt(server.provider_id.clone());
    }
    if let Some(message) = in_hand(listed) {
        let failure = Failure::new(Code::DeadlineExceeded, message.clone());
        let wait = Step::Wait { reason: ORDER_IN_HAND, message, again: LOOK_AGAIN.unsigned_abs() };
        return match is_overdue(seen).then(|| creation_failed(seen, Operation::Create, &failure)) {
            Some(told @ Step::WriteStatus(_)) => told,
            _ => wait,
        };
    }
    let Some(mark) = &seen.attempt else {
        return if is_begun_by_others(seen) { Step::MarkOthers } else { order_anew(seen) };
    };
    let age = seen.now.duration_since(mark.at);
    if seen.attempt_unsent {
        // The look must come after the mark, or another writer's server could slip in between. If by the
        // clock it does not, the clock was set back: a new mark is right again.
        let looked_after_mark = listed.evidence.began_at >= mark.at;
        let ready = looked_after_mark && age <= super::SEND_WITHIN && token::before_order(seen).is_none();
        return if ready { Step::Create } else { order_anew(seen) };
    }
    if mark.is_from_the_future(seen.now) {
        return Step::Redate(mark.clone());
    }
    if mark.ruled_out_by(&listed.evidence, seen) {
        return order_anew(seen);
    }
    Step::Wait {
        reason: "OutcomeUnknown",
        message: format!(
            "no server has come of the create call of {} so far; no second one is sent until the cloud's lists show that none will",
            mark.at
        ),
        again: mark.wait(seen),
    }
}

/// Whether no server came in time. Whoever made the Machine makes another one in its place; were one ordered all the
/// same, nobody would ever stop ordering for a Machine that nobody looks after.
fn is_given_up(seen: &Observed) -> bool {
    seen.phase == Phase::Failed && seen.provider_id.is_none() && is_overdue(seen)
}

/// There is no server and no call under way. What cannot be ordered is told before anything is marked.
fn order_anew(seen: &Observed) -> Step {
    if is_given_up(seen) {
        return Step::Done;
    }
    match (&seen.refused, seen.order_in) {
        (Some(failure), _) => creation_failed(seen, Operation::Create, failure),
        (None, Some(time)) => Step::Rest(time),
        // Without its finalizer it could go and leave a token behind.
        (None, None) if !seen.has_finalizer => Step::MarkAttempt,
        (None, None) => token::before_order(seen).unwrap_or(Step::MarkAttempt),
    }
}

/// Whether the name of its node is written down, if it needs one.
fn is_named(seen: &Observed) -> bool {
    seen.has_node_label || !seen.has_target
}

/// The server has an id; it is brought to the point where its node can join.
fn start_up(seen: &Observed, id: &ProviderId, identity: &Identity) -> Step {
    let Some(asked) = &seen.sightings.asked else { return Step::Ask(id.clone()) };
    let Some(server) = asked.found.machines().first() else {
        return creation_failed(seen, Operation::Create, &gone(id));
    };
    if is_foreign(server, identity) {
        return creation_failed(seen, Operation::Create, &foreign(id, identity));
    }
    if !is_named(seen) {
        // The id is written but the name of the node is not: the same write, once more.
        return Step::Adopt(id.clone());
    }
    match &server.state {
        State::Failed { code, message } => {
            let failure = Failure::new(*code, format!("the server {id} failed: {message}"));
            match creation_failed(seen, Operation::Create, &failure) {
                told @ Step::TryAgain { .. } => replace::give_way(seen, server, &failure).unwrap_or(told),
                untold => untold,
            }
        }
        State::Deleted => creation_failed(seen, Operation::Create, &gone(id)),
        State::Running if !seen.sightings.settled => Step::Settle(Box::new(server.clone())),
        State::Running if !seen.has_target => Step::WriteStatus(StatusChange {
            phase: Some(Phase::Available),
            timeout_active: false,
            description: "Created machine on cloud provider".to_owned(),
            error_code: None,
            state: OperationState::Successful,
            operation: OperationType::Create,
        }),
        State::Running => Step::WriteStatus(StatusChange {
            phase: Some(Phase::Pending),
            timeout_active: true,
            description: "Creating machine on cloud provider".to_owned(),
            error_code: None,
            state: OperationState::Processing,
            operation: OperationType::Create,
        }),
        State::Pending | State::Stopped | State::Deleting | State::Unrecognised => {
            let message = format!("the server {id} is {}, waiting until it runs", server.raw_state);
            if is_overdue(seen) {
                return creation_failed(
                    seen,
                    Operation::Create,
                    &Failure::new(Code::DeadlineExceeded, message),
                );
            }
            Step::Wait { reason: "ServerStarting", message, again: LOOK_AGAIN.unsigned_abs() }
        }
    }
}

/// Whether a server that the Machine names is its own; if not, what to do.
pub(super) fn foreign_or_own(seen: &Observed, server: &Server) -> Result<(), Step> {
    match &seen.ready_to_act {
        Ok(identity) if is_foreign(server, identity) => {
            let failure = foreign(&server.provider_id, identity);
            Err(creation_failed(seen, Operation::FindForCreate, &failure))
        }
        _ => Ok(()),
    }
}

/// Whether a server whose id is written on the Machine is another one's all the same.
fn is_foreign(server: &Server, identity: &Identity) -> bool {
    identity.recognise(&server.marks) == Recognition::Foreign
}

fn foreign(id: &ProviderId, identity: &Identity) -> Failure {
    let Identity { domain, machine, class } = identity;
    // Without a cluster's name the class counts, too: whoever moved the Machine to another one has to know.
    let of = if domain.is_empty() { format!(" of class {class:?}") } else { String::new() };
    Failure::new(
        Code::InvalidArgument,
        format!(
            "spec.providerID: the server {id} is not labelled as machine {machine:?}{of} and is left alone: correct the id or remove it"
        ),
    )
}

fn unreadable(why: &str) -> Failure {
    Failure::new(Code::InvalidArgument, format!("spec.providerID: {why}: correct the id or remove it"))
}

fn gone(id: &ProviderId) -> Failure {
    Failure::new(Code::NotFound, format!("the server {id} is not there any more"))
}

pub(super) fn is_overdue(seen: &Observed) -> bool {
    seen.now.duration_since(seen.created_at) > seen.creation_timeout
}

fn has_ready_node(seen: &Observed) -> bool {
    seen.node.as_ref().is_some_and(|node| node.ready)
}

fn creation_failed(seen: &Observed, operation: Operation, failure: &Failure) -> Step {
    let overdue = is_overdue(seen) && !has_ready_node(seen);
    // A machine that has been up is not called a failed creation because the cloud does not answer.
    let phase = match seen.phase {
        Phase::Empty | Phase::CrashLoopBackOff | Phase::Failed if overdue => Phase::Failed,
        Phase::Empty | Phase::CrashLoopBackOff => Phase::CrashLoopBackOff,
        other => other,
    };
    let error = failure.to_machine_error();
    let description = match operation {
        Operation::Settle => format!("Provider error: {error}. {}", text::INITIALIZE),
        _ => format!("Cloud provider message - {error}"),
    };
    let change = StatusChange {
        phase: Some(phase),
        timeout_active: false,
        description,
        error_code: Some(failure.code),
        state: OperationState::Failed,
        operation: OperationType::Create,
    };
    written_or(seen, change, try_again(seen, operation, failure))
}

fn try_again(seen: &Observed, operation: Operation, failure: &Failure) -> Step {
    Step::TryAgain { failure: failure.clone(), again: period(seen, operation, failure) }
}

pub(super) fn period(seen: &Observed, operation: Operation, failure: &Failure) -> Duration {
    let period = seen.periods.of(retry::retry(operation, failure.code));
    period.unwrap_or(seen.periods.short)
}

/// Writes the status unless it is written already; then goes on with `next`. The ids of the first call that failed in
/// a way stay: the same is not written again for the sake of other ids.
pub(super) fn written_or(seen: &Observed, change: StatusChange, next: Step) -> Step {
    let same_phase = change.phase.is_none_or(|phase| phase == seen.phase);
    let same_words = without_references(&change.description) == without_references(&seen.description);
    if same_phase && same_words { next } else { Step::WriteStatus(change) }
}

/// What the node lacks that its Machine says of it.
fn keep_up(seen: &Observed) -> Option<Step> {
    let behind = &seen.node.as_ref()?.behind;
    let status = behind.status.clone().map(Step::PatchNodeStatus);
    status.or_else(|| behind.node.clone().map(Step::PatchNode))
}

pub(super) fn deleting_with(description: String, state: OperationState) -> StatusChange {
    StatusChange {
        phase: None,
        timeout_active: false,
        description,
        error_code: None,
        state,
        operation: OperationType::Delete,
    }
}

/// The first step of a deletion, from which all others follow. Who knows the node's name has nothing to ask for
/// before the drain.
fn begin(seen: &Observed) -> Step {
    let known = seen.has_target && seen.has_node_label;
    let description = if known { text::DRAIN } else { text::GET_VM_STATUS };
    Step::WriteStatus(StatusChange {
        phase: Some(Phase::Terminating),
        ..deleting_with(description.to_owned(), OperationState::Processing)
    })
}

fn deletion(seen: &Observed) -> Step {
    if seen.phase != Phase::Terminating {
        return begin(seen);
    }
    match Cursor::read(&seen.description) {
        Cursor::Start => begin(seen),
        Cursor::GetVmStatus => name_node(seen),
        Cursor::Drain => drain::drain(seen),
        Cursor::DeleteAttachments => drain::detach(seen),
        Cursor::DeleteVm => delete_servers(seen),
        Cursor::DeleteNode => match &seen.node {
            Some(node) if node.held => Step::ReleaseNode,
            Some(_) => Step::DeleteNode,
            None if let Some(node) = &seen.node_naming_it => Step::NameNode(node.clone()),
            None if seen.node_unseen => Step::FindNode,
            // Nothing is asked for between this and the end, so nobody could go on from a word about it.
            None => farewell(seen),
        },
        Cursor::RemoveFinalizer => farewell(seen),
    }
}

/// Server and node are gone.
fn farewell(seen: &Observed) -> Step {
    token::no_more(seen).unwrap_or(Step::RemoveFinalizer)
}

/// Before the drain the node's name must be known. It is written with the server's id, so without a name
/// there is no server, or one whose id we never learnt.
fn name_node(seen: &Observed) -> Step {
    let next = |description: &str| {
        Step::WriteStatus(deleting_with(description.to_owned(), OperationState::Processing))
    };
    let without_server =
        || next(&format!("VM was not found at provider. Moving forward to node drain. {}", text::DRAIN));
    if !seen.has_target {
        return next(&format!(
            "Running without target cluster, skipping node drain and volume attachment deletion. {}",
            text::DELETE_VM
        ));
    }
    if seen.has_node_label {
        return next(text::DRAIN);
    }
    if let Some(node) = &seen.node_naming_it {
        return Step::NameNode(node.clone());
    }
    let identity = match &seen.ready_to_act {
        Ok(identity) => identity,
        Err(failure) => return status_unknown(seen, failure),
    };
    if let Some((_, failure)) = &seen.failure {
        return status_unknown(seen, failure);
    }
    match &seen.provider_id {
        None => {}
        Some(Err(why)) => return status_unknown(seen, &unreadable(why)),
        Some(Ok(id)) => {
            let Some(asked) = &seen.sightings.asked else { return Step::Ask(id.clone()) };
            match asked.found.machines().first() {
                Some(server) if is_foreign(server, identity) => {
                    return status_unknown(seen, &foreign(id, identity));
                }
                Some(_) => return Step::Adopt(id.clone()),
                None => {}
            }
        }
    }
    let Some(listed) = &seen.sightings.listed else { return Step::List };
    replace::preferred(seen, listed)
        .map_or_else(without_server, |server| Step::Adopt(server.provider_id.clone()))
}

fn status_unknown(seen: &Observed, failure: &Failure) -> Step {
    let retry = match retry::retry(Operation::FindForDelete, failure.code) {
        retry::Retry::Short => "aborting with retry. ".to_owned(),
        _ => format!("aborting without retry. machine code: {} ", failure.to_machine_error()),
    };
    let description = format!(
        "Error occurred with decoding machine error status while getting VM status, {retry}{}",
        text::GET_VM_STATUS
    );
    let change = deleting_with(description, OperationState::Failed);
    written_or(seen, change, try_again(seen, Operation::FindForDelete, failure))
}

/// Every server that carries the identity goes, and the cloud has to say twice that none is left.
fn delete_servers(seen: &Observed) -> Step {
    let identity = match &seen.ready_to_act {
        Ok(identity) => identity,
        Err(failure) => return deletion_failed(seen, Operation::FindForDelete, failure),
    };
    if let Some((tried, failure)) = &seen.failure {
        let operation = if *tried == Tried::Delete { Operation::Delete } else { Operation::FindForDelete };
        return deletion_failed(seen, operation, failure);
    }
    let id = match &seen.provider_id {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(why)) => return deletion_failed(seen, Operation::Delete, &unreadable(why)),
    };
    if let Some(id) = id {
        let Some(asked) = &seen.sightings.asked else { return Step::Ask(id.clone()) };
        if asked.found.machines().iter().any(|server| is_foreign(server, identity)) {
            return deletion_failed(seen, Operation::Delete, &foreign(id, identity));
        }
        if let Some(step) = remove_all(seen, asked.found.machines()) {
            return step;
        }
    }
    let Some(listed) = &seen.sightings.listed else { return Step::List };
    if !is_named(seen) && replace::preferred(seen, listed).is_some() {
        // It came late, of a call that had no clear outcome, and may have a node with pods on it by now.
        return begin(seen);
    }
    if let Some(step) = remove_all(seen, listed.found.machines()) {
        return step;
    }
    if let Some(message) = in_hand(listed) {
        return wait_for_deletion(seen, ORDER_IN_HAND, message.clone(), message);
    }
    if let (Some(_), Some(asked)) = (id, &seen.sightings.asked)
        && !gone_twice(asked, listed)
    {
        return Step::List;
    }
    if is_begun_by_others(seen) {
        return Step::MarkOthers;
    }
    if let Some(mark) = &seen.attempt
        && !seen.attempt_unsent
        && !mark.ruled_out_by(&listed.evidence, seen)
    {
        if mark.is_from_the_future(seen.now) {
            return Step::Redate(mark.clone());
        }
        return Step::Wait {
            reason: "OutcomeUnknown",
            message: "no server has come of a create call so far; the Machine stays until the cloud's lists show that none will".to_owned(),
            again: mark.wait(seen),
        };
    }
    Step::WriteStatus(deleting_with(
        format!("VM deletion was successful. {}", text::DELETE_NODE),
        OperationState::Processing,
    ))
}

/// What to do with servers that have to go; nothing once none is shown any more.
fn remove_all(seen: &Observed, servers: &[Server]) -> Option<Step> {
    let is_going = |server: &&Server| matches!(server.state, State::Deleting | State::Deleted);
    let next = servers.iter().find(|server| !is_going(server)).or_else(|| servers.first());
    next.map(|server| remove(seen, server))
}

/// What to do with a server that has to go. One that is shown as deleted is waited for until it is not shown.
fn remove(seen: &Observed, server: &Server) -> Step {
    match server.state {
        State::Deleting | State::Deleted => {
            let id = &server.provider_id;
            let overdue =
                format!("the server {id} is still {}: look at it in the cloud's portal", server.raw_state);
            let message = format!("waiting for the cloud to delete {id}");
            wait_for_deletion(seen, "ServerDeleting", message, overdue)
        }
        _ => Step::DeleteServer(server.provider_id.clone()),
    }
}

/// Waits for something of the cloud's without which the deletion cannot go on; people are told of it when it takes long.
fn wait_for_deletion(seen: &Observed, reason: &'static str, message: String, overdue: String) -> Step {
    let wait = Step::Wait { reason, message, again: LOOK_AGAIN.unsigned_abs() };
    if seen.operation_at.is_none_or(|at| seen.now.duration_since(at) <= DELETE_WITHIN) {
        return wait;
    }
    let failure = Failure::new(Code::DeadlineExceeded, overdue);
    written_or(seen, deletion_failure(Operation::Delete, &failure), wait)
}

/// What is waited for while the cloud has an order in hand that may be for this machine: nobody can tell what comes of
/// it, and nothing that is in no list can be deleted.
pub(super) fn in_hand(listed: &Finding) -> Option<String> {
    (listed.evidence.how == How::Queued).then(|| {
        "the cloud has an order in hand that may be for this machine: waiting until it shows what comes of it; if it stays so, look at it in the cloud's portal".to_owned()
    })
}

fn deletion_failed(seen: &Observed, operation: Operation, failure: &Failure) -> Step {
    written_or(seen, deletion_failure(operation, failure), try_again(seen, operation, failure))
}

fn deletion_failure(operation: Operation, failure: &Failure) -> StatusChange {
    let error = failure.to_machine_error();
    let description = match retry::retry(operation, failure.code) {
        retry::Retry::Short => format!(
            "VM deletion failed due to - {error}. However, will re-try in the next resync. {}",
            text::DELETE_VM
        ),
        _ => format!("VM deletion failed due to - {error}. Aborting operation. {}", text::DELETE_VM),
    };
    deleting_with(description, OperationState::Failed)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
