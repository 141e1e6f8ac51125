//! A machine and its node go together: whoever deletes the node deletes the machine, and the node stays until the
//! server is gone.

use super::{Machine, MachineController, Memory, Next, act::node_name, observe::is_node_of};
use crate::api::names;
use hostler_controller::{Cache, Change, EventKind, Key, Outcome, Trouble};
use hostler_node::Node;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The nodes that were deleted under their machines before they could be held, by the machines. It is not written
/// down: after a restart such a machine is one whose node went missing.
#[derive(Clone, Default)]
pub(super) struct LostNodes(Arc<Mutex<BTreeMap<Key, Arc<Node>>>>);

impl LostNodes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, machine: &Key) {
        self.all().remove(machine);
    }

    fn has(&self, machine: &Machine) -> bool {
        let all = self.all();
        all.get(&Key::of(machine)).is_some_and(|node| is_node_of(&machine.spec.provider_id, node))
    }

    /// Takes note of nodes that come and go.
    pub(super) fn of_node(&self, machines: &Cache<Machine>) -> impl Fn(&Change<Node>) + Send + Sync + use<> {
        let (lost, machines) = (self.clone(), machines.clone());
        move |change| {
            if matches!(change, Change::Applied { .. }) && lost.all().is_empty() {
                return;
            }
            let [owner] = &owners(&machines, &change.key().name)[..] else { return };
            match change {
                Change::Deleted { last } if is_deleted_by_somebody(last) => {
                    lost.all().insert(Key::of(&**owner), last.clone());
                }
                _ => lost.forget(&Key::of(&**owner)),
            }
        }
    }
}

/// Whether a node that is not there any more was deleted in good order. One that was held and is not there all the
/// same was lost with the API server's data, and that is no reason to delete a machine.
fn is_deleted_by_somebody(node: &Node) -> bool {
    (node.meta().deletion_timestamp.is_some() || !is_held(node)) && !is_unmanaged(node)
}

pub(crate) fn is_held(node: &Node) -> bool {
    node.finalizers().iter().any(|finalizer| finalizer == names::NODE_FINALIZER)
}

pub(crate) fn is_unmanaged(node: &Node) -> bool {
    node.annotations().contains_key(names::NOT_MANAGED_ANNOTATION)
}

/// What takes our finalizer off a node, and nobody else's.
pub(crate) fn released(node: &Node) -> Value {
    json!({"metadata": {"uid": node.uid(), "$deleteFromPrimitiveList/finalizers": [names::NODE_FINALIZER]}})
}

/// The name of a machine's node, or the one that it will have: what machines are found by.
pub(super) fn node_or_own_name(machine: &Machine) -> String {
    machine.labels().get(names::NODE_LABEL).cloned().unwrap_or_else(|| machine.name_any())
}

/// The machine that a node names: what nodes are found by.
pub(super) fn machine_named_by(node: &Node) -> String {
    node.labels().get(names::MACHINE_NAME_LABEL).cloned().unwrap_or_default()
}

fn owners(machines: &Cache<Machine>, node: &str) -> Vec<Arc<Machine>> {
    let mut owners = machines.with_word(node);
    owners.retain(|machine| machine.labels().contains_key(names::NODE_LABEL));
    owners
}

impl MachineController {
    /// Whether somebody has deleted the node, and nobody else claims to be its machine.
    pub(super) fn is_going(&self, node: &Node) -> bool {
        node.meta().deletion_timestamp.is_some()
            && !is_unmanaged(node)
            && owners(&self.caches.machines, &node.name_any()).len() == 1
    }

    /// Whether the machine's node was deleted and is gone.
    pub(super) fn has_lost_its_node(&self, machine: &Machine) -> bool {
        self.lost_nodes.has(machine) && self.node(machine).is_none()
    }

    /// Asks for a node that may have joined just before its server went.
    pub(super) async fn find_node(&self, machine: &Machine, memory: &mut Memory) -> Result<(), Trouble> {
        let Some(target) = &self.target else { return Ok(()) };
        let live = Api::<Node>::all(target.clone()).get_opt(&node_name(machine)).await?;
        memory.node_looked_for = true;
        if let Some(live) = live {
            self.caches.nodes.learn(Arc::new(live));
        }
        Ok(())
    }

    pub(super) async fn release_node(&self, machine: &Machine, memory: &mut Memory) -> Result<(), Trouble> {
        let (Some(target), Some(node)) = (&self.target, self.node(machine)) else { return Ok(()) };
        let nodes: Api<Node> = Api::all(target.clone());
        let patch = Patch::Strategic(released(&node));
        match nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await {
            Ok(released) => self.caches.nodes.learn(Arc::new(released)),
            Err(kube::Error::Api(status)) if status.code == 404 => memory.node_deleted = true,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Deletes the Machine if its node is really going, or gone. What the cache shows may be the end of an earlier
    /// node of that name.
    pub(super) async fn delete_machine(&self, machine: Box<Machine>) -> Result<Next, Trouble> {
        let Some(target) = &self.target else { return Ok(Next::End(Outcome::Done)) };
        let name = node_name(&machine);
        if let Some(live) = Api::<Node>::all(target.clone()).get_opt(&name).await? {
            let going =
                live.meta().deletion_timestamp.is_some() && is_node_of(&machine.spec.provider_id, &live);
            if !going {
                self.lost_nodes.forget(&Key::of(&*machine));
                self.caches.nodes.learn(Arc::new(live));
                return Ok(Next::Again(machine));
            }
        }
        let same = Preconditions { uid: machine.uid(), resource_version: machine.resource_version() };
        let same = DeleteParams::default().preconditions(same);
        match self.machines(&machine).delete(&machine.name_any(), &same).await {
            Ok(deleted) => {
                let message = format!("the Node {name:?} was deleted: its machine is deleted, too");
                self.event(&machine, EventKind::Normal, "NodeDeleted", &message);
                let left = deleted.left();
                Ok(left.map_or(Next::End(Outcome::Done), |left| Next::Again(Box::new(left))))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Next::End(Outcome::Done)),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_vanished_was_deleted_unless_nobody_could_have_deleted_it() {
        let node = |deleted: Option<&str>, finalizers: &[&str], annotations: Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "m", "deletionTimestamp": deleted,
                "finalizers": finalizers, "annotations": annotations}}))
            .unwrap()
        };
        let (then, held) = (Some("2026-01-01T00:00:00Z"), &[names::NODE_FINALIZER][..]);
        for (what, node, expected) in [
            ("before it was held", node(None, &[], json!({})), true),
            ("held by others only", node(None, &["other/one"], json!({})), true),
            ("somebody tore it out of its finalizer", node(then, held, json!({})), true),
            ("released", node(then, &[], json!({})), true),
            ("an API server that forgot it", node(None, held, json!({})), false),
            ("no machine's", node(then, &[], json!({names::NOT_MANAGED_ANNOTATION: "1"})), false),
        ] {
            assert_eq!(is_deleted_by_somebody(&node), expected, "{what}");
        }
    }
}
