//! Carries out one step. Every write of a Machine has its version as precondition, so what was decided on an
//! older one is refused and decided anew.

use super::{
    AttemptMark, Machine, MachineController, Means, Memory, Next, Purpose, Sightings, Tried, health,
    observe::{self, given_way, has_finalizer, replaces},
    token,
};
use crate::{
    api::{MachineClass, OperationState, OperationType, Phase, names},
    life::{Cursor, ORDER_IN_HAND, StatusChange, Step},
    metrics::{Method, Stage},
};
use hostler_controller::{EventKind, Key, Outcome, Trouble};
use hostler_driver::{
    Address, AddressKind, Attempt, Code, Deletion, Evidence, Failure, Finding, Found, How, Identity,
    Machine as Server, Order, ProviderId, Recognition, Settled,
};
use hostler_node::Node;
use k8s_openapi::{api::core::v1::NodeAddress, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use std::{sync::Arc, time::Duration};

/// How long a deletion that was ordered is left alone when nothing wakes the machine earlier.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// What marks are made of: a label value may hold these.
const MARK_ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

impl MachineController {
    pub(super) async fn act(
        &self,
        machine: Box<Machine>,
        step: Step,
        memory: &mut Memory,
        means: Result<Means, Failure>,
    ) -> Result<Next, Trouble> {
        match step {
            Step::AddFinalizer => self.write(machine, memory, hold).await,
            Step::MarkAttempt => {
                // An earlier attempt, if there was one, is ruled out where it was made.
                let place = self.means(&machine, Purpose::OrderAnew).map_err(Trouble::new)?.place;
                *memory = Memory { attempt_unsent: true, token: memory.token.take(), ..Memory::default() };
                let new = !has_finalizer(&machine);
                let mark = self.new_mark();
                self.unsent.note(self.caches.machines.key_of(&machine), mark.attempt.clone());
                let written = self.write(machine, memory, write_down(mark, place)).await;
                if let (Ok(Next::Again(machine)), true) = (&written, new) {
                    self.tokens_made.open(self.caches.machines.key_of(machine), machine);
                }
                written
            }
            Step::MarkOthers => {
                let place = means.map_err(Trouble::new)?.place;
                *memory = Memory::default();
                self.write(machine, memory, write_down(self.new_mark(), place)).await
            }
            Step::Redate(mark) => {
                let mark = AttemptMark { at: self.clock.now(), ..mark };
                *memory = Memory::default();
                self.write(machine, memory, |machine| {
                    machine.annotations_mut().insert(names::ATTEMPT_ANNOTATION.to_owned(), mark.render());
                })
                .await
            }
            Step::Adopt(id) => {
                let (node, has_target) = (machine.name_any(), self.target.is_some());
                let Means { place, order, .. } = means.map_err(Trouble::new)?;
                let seen = self.seen_of(&order.identity, &id, memory);
                *memory = Memory {
                    sightings: Sightings { asked: seen, ..Sightings::default() },
                    ..Memory::default()
                };
                self.write(machine, memory, move |machine| {
                    hold(machine);
                    machine.spec.provider_id = id.to_string();
                    let annotations = machine.annotations_mut();
                    annotations.remove(names::ATTEMPT_ANNOTATION);
                    annotations.remove(names::REPLACES_ANNOTATION);
                    annotations.insert(names::PLACE_ANNOTATION.to_owned(), place);
                    let priority = annotations.entry(names::PRIORITY_ANNOTATION.to_owned());
                    priority.or_insert_with(|| names::DEFAULT_PRIORITY.to_owned());
                    if has_target {
                        machine.labels_mut().entry(names::NODE_LABEL.to_owned()).or_insert(node);
                    }
                })
                .await
            }
            Step::Disown(id) => {
                let message = format!("{id} failed before it ever ran: it gives way to another server");
                self.event(&machine, EventKind::Normal, "ServerReplaced", &message);
                *memory = Memory::default();
                self.write(machine, memory, move |machine| {
                    machine.spec.provider_id.clear();
                    machine.labels_mut().remove(names::NODE_LABEL);
                    let given_way = given_way(machine).saturating_add(1);
                    let annotations = machine.annotations_mut();
                    annotations.insert(names::REPLACES_ANNOTATION.to_owned(), id.to_string());
                    annotations.insert(names::GIVEN_WAY_ANNOTATION.to_owned(), given_way.to_string());
                })
                .await
            }
            Step::NameNode(node) => {
                self.write(machine, memory, move |machine| {
                    machine.labels_mut().insert(names::NODE_LABEL.to_owned(), node);
                })
                .await
            }
            Step::RemoveFinalizer => {
                let written = self.write(machine, memory, |machine| {
                    machine.finalizers_mut().retain(|finalizer| finalizer != names::FINALIZER);
                });
                written.await?;
                Ok(Next::End(Outcome::Done))
            }
            Step::WriteStatus(change) => {
                let before = machine.status.as_ref().map(|status| status.current_status.phase);
                if change.phase == Some(Phase::Failed) && before == Some(Phase::Pending) {
                    self.tell_console(&machine, means.ok()).await;
                }
                self.write_status(machine, change, memory).await
            }
            Step::GiveUp(change) => self.give_up(machine, change, memory).await,
            Step::SetInPlace(stage, message) => self.set_in_place(&machine, stage, &message).await,
            Step::RecordConditions => self.record_conditions(machine, memory).await,
            // These act on the word of the object alone, which may be another one's of the same name by now.
            Step::OnNode(_)
            | Step::ReleaseNode
            | Step::DeleteNode
            | Step::DeleteServer(_)
            | Step::DeleteMachine
            | Step::SetPreserved(_)
            | Step::ChangeNode(_)
                if !memory.fresh =>
            {
                self.refresh(machine, memory).await
            }
            Step::OnNode(act) => {
                let order = self.drain_order(&machine, memory, &means);
                if let Some((drainer, order)) = self.drainer.as_ref().zip(order) {
                    drainer.act(&order, &act).await;
                }
                Ok(Next::Again(machine))
            }
            Step::FindNode => {
                self.find_node(&machine, memory).await?;
                Ok(Next::Again(machine))
            }
            Step::FindToken => self.find_token(machine, memory).await,
            Step::MakeToken(id) => self.make_token(machine, &id, memory).await,
            Step::DropToken(token) => self.drop_token(machine, &token, memory).await,
            Step::PatchNode(patch) => {
                self.patch_node(&node_name(&machine), patch, false, memory).await;
                Ok(Next::Again(machine))
            }
            Step::PatchNodeStatus(patch) => {
                self.patch_node(&node_name(&machine), patch, true, memory).await;
                Ok(Next::Again(machine))
            }
            Step::KeepUntil(until) => self.keep_until(machine, until, memory).await,
            Step::NotePreserve(value) => self.note_preserve(machine, value, memory).await,
            Step::SetPreserved(wanted) => self.set_preserved(machine, wanted).await,
            Step::ChangeNode(patch) => self.change_node(machine, patch).await,
            Step::DeleteMachine => self.delete_machine(machine).await,
            Step::ReleaseNode => {
                self.release_node(&machine, memory).await?;
                Ok(Next::Again(machine))
            }
            Step::DeleteNode => {
                self.delete_node(&machine, memory).await?;
                Ok(Next::Again(machine))
            }
            Step::Ask(_) | Step::List | Step::Create | Step::Settle(_) | Step::DeleteServer(_) => {
                self.act_in_cloud(machine, step, memory, means).await
            }
            Step::TryAgain { failure, again } => {
                if matches!(memory.failure, Some((Tried::Create, _))) {
                    self.be_patient(&machine, again);
                }
                Err(Trouble::after(failure, again))
            }
            Step::Wait { reason, again, .. } => Ok(Next::End(Outcome::Wait { reason, check: Some(again) })),
            Step::Rest(time) => Ok(Next::End(Outcome::After(time))),
            Step::Done => Ok(Next::End(Outcome::Done)),
        }
    }

    fn new_mark(&self) -> AttemptMark {
        AttemptMark { attempt: Attempt(self.chance.text(MARK_ALPHABET, 10)), at: self.clock.now() }
    }

    pub(super) fn machines(&self, machine: &Machine) -> Api<Machine> {
        Api::namespaced(self.control.clone(), &machine.namespace().unwrap_or_default())
    }

    pub(super) async fn write(
        &self,
        mut machine: Box<Machine>,
        memory: &mut Memory,
        change: impl FnOnce(&mut Machine),
    ) -> Result<Next, Trouble> {
        change(&mut machine);
        let api = self.machines(&machine);
        match api.replace(&machine.name_any(), &PostParams::default(), &machine).await {
            Ok(written) => Ok(self.written(written, memory)),
            // Gone, and the cache does not know it yet.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Next::End(Outcome::Done)),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on with what the API server answered. Whoever looks next sees it too, although no watch has told of it.
    fn written(&self, mut machine: Machine, memory: &mut Memory) -> Next {
        machine.meta_mut().managed_fields = None;
        memory.fresh = true;
        self.caches.machines.learn_own(Arc::new(machine.clone()));
        Next::Again(Box::new(machine))
    }

    /// What this run has seen of a server that is the machine's from now on, so that it is not asked for again.
    fn seen_of(&self, identity: &Identity, id: &ProviderId, memory: &Memory) -> Option<Finding> {
        let Sightings { created, listed, asked, .. } = &memory.sightings;
        let now = self.clock.now();
        let of_order = created
            .as_deref()
            .map(|server| (server, Evidence { how: How::Asked, began_at: now, answered_at: now }));
        let of_looks = asked
            .iter()
            .chain(listed)
            .flat_map(|finding| finding.found.machines().iter().map(|server| (server, finding.evidence)));
        let (server, evidence) = of_order.into_iter().chain(of_looks).find(|(server, _)| {
            server.provider_id == *id && identity.recognise(&server.marks) == Recognition::Ours
        })?;
        Some(Finding { found: Found::from_machines(vec![server.clone()]), evidence })
    }

    /// Goes on with the object as the API server has it. What was seen for an older one is forgotten.
    async fn refresh(&self, machine: Box<Machine>, memory: &mut Memory) -> Result<Next, Trouble> {
        let Some(live) = self.machines(&machine).get_opt(&machine.name_any()).await? else {
            return Ok(Next::End(Outcome::Done));
        };
        if live.uid() != machine.uid() || live.resource_version() != machine.resource_version() {
            *memory = Memory::default();
        }
        memory.fresh = true;
        Ok(Next::Again(Box::new(live)))
    }

    async fn record_conditions(
        &self,
        mut machine: Box<Machine>,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        self.copy_conditions(&mut machine);
        self.replace_status(machine, memory).await
    }

    /// What the node says is in the Machine's status too, word for word.
    fn copy_conditions(&self, machine: &mut Machine) {
        if let Some(node) = self.node(machine) {
            let status = machine.status.get_or_insert_default();
            status.conditions = health::conditions_of(&node).to_vec();
        }
    }

    pub(super) async fn replace_status(
        &self,
        machine: Box<Machine>,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let api = self.machines(&machine);
        let written = api.replace_status(&machine.name_any(), &PostParams::default(), &machine).await?;
        Ok(self.written(written, memory))
    }

    pub(super) async fn write_status(
        &self,
        mut machine: Box<Machine>,
        change: StatusChange,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let now = Time(self.clock.now());
        let mut status = machine.status.take().unwrap_or_default();
        let before = status.current_status.phase;
        if let Some(phase) = change.phase {
            status.current_status.phase = phase;
            status.current_status.timeout_active = change.timeout_active;
            status.current_status.last_update_time = Some(now.clone());
        }
        status.last_operation.description.clone_from(&change.description);
        status.last_operation.error_code =
            change.error_code.and_then(Code::name).map(str::to_owned).unwrap_or_default();
        status.last_operation.state = Some(change.state);
        status.last_operation.operation = Some(change.operation);
        status.last_operation.last_update_time = Some(now);
        let asked = memory.sightings.asked.iter().flat_map(|finding| finding.found.machines());
        let seen: Vec<Address> =
            asked.flat_map(|server| &server.addresses).chain(&memory.addresses).cloned().collect();
        if !seen.is_empty() {
            add_addresses(&mut status.addresses, seen, &machine.name_any());
        }
        // The cloud does not have to tell of one that fails later that it ran.
        if let (Some(id), Some(Phase::CrashLoopBackOff)) = (&memory.ran, change.phase) {
            status.last_known_state = observe::ran(id);
        }
        // What was to be kept for a while is not, once it is updated or deleted. A failure to make it ends nothing: if
        // it did, the time for which it is kept would begin anew with each attempt.
        if matches!(change.operation, OperationType::Delete | OperationType::InPlaceUpdate) {
            status.current_status.preserve_expiry_time = None;
        }
        machine.status = Some(status);
        if change.operation != OperationType::Delete {
            self.copy_conditions(&mut machine);
        }
        // A deletion's failure has no code of its own in the status.
        let deletion_failed =
            change.operation == OperationType::Delete && change.state == OperationState::Failed;
        if change.error_code.is_some() || deletion_failed {
            self.event(&machine, EventKind::Warning, "CloudFailure", &change.description);
        }
        let written = self.replace_status(machine, memory).await?;
        if let Next::Again(machine) = &written {
            self.count(machine, &change, before);
        }
        Ok(written)
    }

    /// What a written change means to dashboards.
    fn count(&self, machine: &Machine, change: &StatusChange, before: Phase) {
        let class = self.class_of(machine);
        match (change.phase, change.operation) {
            (Some(Phase::Running), OperationType::Create) => self.reached(Stage::Joined, machine),
            (Some(Phase::Failed), _) if before == Phase::Pending => {
                self.metrics.did_not_join(machine, class.as_deref());
            }
            (None, OperationType::Delete) if Cursor::read(&change.description) == Cursor::DeleteNode => {
                self.reached(Stage::Deleted, machine);
            }
            _ => {}
        }
    }

    fn reached(&self, stage: Stage, machine: &Machine) {
        let since = match stage {
            Stage::Deleted => &machine.metadata.deletion_timestamp,
            _ => &machine.metadata.creation_timestamp,
        };
        let took = since.as_ref().map(|since| self.clock.now().duration_since(since.0));
        if let Some(took) = took.and_then(|took| Duration::try_from(took).ok()) {
            self.metrics.reached(stage, machine, self.class_of(machine).as_deref(), took);
        }
    }

    pub(super) fn class_of(&self, machine: &Machine) -> Option<Arc<MachineClass>> {
        let name = machine.spec.class.name.clone();
        self.caches.classes.get(&Key::new("MachineClass", machine.namespace().unwrap_or_default(), name))
    }

    /// What its class's template lacks, in words.
    fn odd_template(&self, machine: &Machine) -> Option<String> {
        let lacks = self.class_of(machine)?.spec.node_template.as_ref()?.lacks();
        (!lacks.is_empty()).then(|| {
            format!(
                "the MachineClass's nodeTemplate lacks {}: Gardener's own machine controllers would stop at that, and an autoscaler may go wrong by it",
                lacks.join(", ")
            )
        })
    }

    /// Shows people the end of the console of a server whose node did not join in time.
    async fn tell_console(&self, machine: &Machine, means: Option<Means>) {
        let (Some(Means { driver, .. }), Ok(id)) = (means, machine.spec.provider_id.parse()) else { return };
        match driver.console(&id).await {
            Ok(tail) if tail.is_empty() => {}
            Ok(tail) => {
                let message = format!("the console of {id} ends with:\n{tail}");
                self.event(machine, EventKind::Warning, "NodeDidNotJoin", &message);
            }
            Err(failure) => tracing::debug!(%failure, "the console could not be read"),
        }
    }

    async fn delete_node(&self, machine: &Machine, memory: &mut Memory) -> Result<(), Trouble> {
        let Some(node) = self.node(machine) else { return Ok(()) };
        let Some(target) = self.target.clone() else { return Ok(()) };
        let nodes: Api<Node> = Api::all(target);
        let same = DeleteParams::default()
            .preconditions(kube::api::Preconditions { uid: node.uid(), resource_version: None });
        absent_is_fine(nodes.delete(&node.name_any(), &same).await)?;
        memory.node_deleted = true;
        Ok(())
    }

    async fn act_in_cloud(
        &self,
        machine: Box<Machine>,
        step: Step,
        memory: &mut Memory,
        means: Result<Means, Failure>,
    ) -> Result<Next, Trouble> {
        // Without means nothing of this is ever decided.
        let means = means.map_err(Trouble::new)?;
        let warnings = if step == Step::Create { self.check(&means) } else { Ok(Vec::new()) };
        let Means { driver, calls, mut order, .. } = means;
        let mut end = None;
        let (tried, result) = match step {
            Step::Ask(id) => {
                let finding = calls.timed(Method::GetStatus, driver.look(&order.identity, &id)).await;
                (Tried::Look, finding.map(|finding| memory.sightings.asked = Some(finding)))
            }
            Step::List => {
                let finding = calls.timed(Method::GetStatus, driver.find(&order.identity, None)).await;
                (Tried::Look, finding.map(|finding| memory.sightings.listed = Some(finding)))
            }
            Step::Create => {
                memory.attempt_unsent = false;
                self.unsent.forget(&Key::of(&*machine));
                for warning in warnings.iter().flatten().chain(&self.odd_template(&machine)) {
                    self.event(&machine, EventKind::Warning, "LooksWrong", warning);
                }
                let name = machine.name_any();
                order.user_data = order.user_data.map(|data| token::user_data(&name, &data, memory));
                let created = calls.timed(Method::Create, ordered(&*driver, &order)).await;
                if let Ok(server) = &created {
                    let server = server.as_ref();
                    let message = match server {
                        Some(server) => format!("ordered the server {}", server.provider_id),
                        None => "ordered a server; the cloud tells its id later".to_owned(),
                    };
                    self.event(&machine, EventKind::Normal, "ServerOrdered", &message);
                    self.reached(Stage::Created, &machine);
                    if server.is_none() {
                        end = Some(Outcome::Wait { reason: ORDER_IN_HAND, check: Some(LOOK_AGAIN) });
                    }
                }
                (Tried::Create, created.map(|server| memory.sightings.created = server.map(Box::new)))
            }
            Step::Settle(server) => {
                order.identity = named(order.identity, &machine, &server);
                memory.ran = Some(server.provider_id.clone());
                let settled = calls.timed(Method::Initialize, driver.settle(&order, &server)).await;
                let result = settled.map(|settled| match settled {
                    Settled::Done(server) => {
                        self.note_upkeep(&machine);
                        self.reached(Stage::Initialized, &machine);
                        memory.sightings.settled = true;
                        memory.addresses = server.addresses;
                    }
                    Settled::Did(what) => {
                        tracing::info!(what, "settled a part");
                        memory.sightings.asked = None;
                    }
                    Settled::Waiting(what) => {
                        tracing::info!(what, "settling has to wait");
                        end = Some(Outcome::Wait { reason: "Settling", check: Some(Duration::from_secs(5)) });
                    }
                });
                (Tried::Settle, result)
            }
            Step::DeleteServer(id) => {
                let mut asked = memory.sightings.asked.iter().flat_map(|finding| finding.found.machines());
                if let Some(server) = asked.find(|server| server.provider_id == id) {
                    order.identity = named(order.identity, &machine, server);
                }
                let asked = driver.delete(&order, &id);
                let deletion = calls.timed(Method::Delete, asked).await;
                if deletion.is_ok() {
                    let message = format!("ordered the deletion of {id}");
                    self.event(&machine, EventKind::Normal, "ServerDeletionOrdered", &message);
                }
                let result = deletion.map(|deletion| match deletion {
                    Deletion::Ordered => {
                        end = Some(Outcome::Wait { reason: "ServerDeleting", check: Some(LOOK_AGAIN) });
                    }
                    Deletion::Absent(_) => memory.sightings = Sightings::default(),
                });
                (Tried::Delete, result)
            }
            _ => return Ok(Next::Again(machine)),
        };
        if let Err(failure) = result {
            tracing::warn!(%failure, ?tried, "the cloud did not do it");
            memory.sightings = Sightings::default();
            memory.attempt_unsent = false;
            memory.failure = Some((tried, failure));
        }
        Ok(end.map_or(Next::Again(machine), Next::End))
    }
}

/// The server of an order; nothing if the cloud took the order and tells no id yet.
async fn ordered(driver: &dyn hostler_driver::Driver, order: &Order) -> Result<Option<Server>, Failure> {
    match driver.create(order).await {
        Err(failure) if failure.code == Code::Uninitialized => Ok(None),
        created => created.map(Some),
    }
}

/// What a server is recognised by. One that says nothing of a cluster, made when its class did not either, is the
/// machine's only because its id is written on it: it is taken for what it says, in this one call.
fn named(identity: Identity, machine: &Machine, server: &Server) -> Identity {
    let written = [Some(machine.spec.provider_id.as_str()), replaces(machine)];
    let id = server.provider_id.to_string();
    let is_named = written.into_iter().flatten().any(|written| written == id);
    if is_named && identity.recognise(&server.marks) == Recognition::WithoutDomain {
        return Identity { domain: String::new(), ..identity };
    }
    identity
}

/// Writes a mark for an order in this place.
fn write_down(mark: AttemptMark, place: String) -> impl FnOnce(&mut Machine) {
    move |machine| {
        hold(machine);
        let annotations = machine.annotations_mut();
        annotations.remove(names::REPLACES_ANNOTATION);
        annotations.insert(names::ATTEMPT_ANNOTATION.to_owned(), mark.render());
        annotations.insert(names::PLACE_ANNOTATION.to_owned(), place);
    }
}

/// Puts our finalizer on a Machine.
fn hold(machine: &mut Machine) {
    if !has_finalizer(machine) {
        machine.finalizers_mut().push(names::FINALIZER.to_owned());
    }
}

/// Adds what the cloud told to what is known, with the name of the node to be. What was known once stays.
fn add_addresses(known: &mut Vec<NodeAddress>, seen: Vec<Address>, name: &str) {
    let hostname = Address { kind: AddressKind::Hostname, address: name.to_owned() };
    known.extend(
        seen.into_iter()
            .chain([hostname])
            .map(|address| NodeAddress { type_: address.kind.to_string(), address: address.address }),
    );
    known.sort_by(|one, other| (&one.type_, &one.address).cmp(&(&other.type_, &other.address)));
    known.dedup();
}

pub(super) fn node_name(machine: &Machine) -> String {
    machine.labels().get(names::NODE_LABEL).cloned().unwrap_or_default()
}

fn absent_is_fine<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sorted_once_each_and_never_forgotten() {
        let ip = |address: &str| Address { kind: AddressKind::InternalIp, address: address.to_owned() };
        let mut known = Vec::new();
        add_addresses(&mut known, vec![ip("10.0.0.2"), ip("10.0.0.1"), ip("10.0.0.2")], "m");
        add_addresses(&mut known, vec![ip("10.0.0.0")], "m");
        let texts: Vec<String> = known.iter().map(|one| format!("{} {}", one.type_, one.address)).collect();
        assert_eq!(
            texts,
            ["Hostname m", "InternalIP 10.0.0.0", "InternalIP 10.0.0.1", "InternalIP 10.0.0.2"]
        );
    }
}
