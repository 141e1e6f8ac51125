//! Nodes that no Machine is behind say so (`node.machine.sapcloud.io/not-managed-by-mcm`), and nothing of ours holds
//! them back when somebody deletes them. A Machine takes that off its node again.

mod decide;

use crate::{
    api::{Machine, names},
    machine::{is_held, is_node_of, is_unmanaged, released},
};
use async_trait::async_trait;
use decide::{Observed, Verdict, decide};
use hostler_base::{Chance, Clock};
use hostler_controller::{
    Cache, Change, Key, Lane, Metrics, Outcome, Queue, QueueOptions, Reconciler, Run, Trouble,
};
use hostler_node::Node;
use jiff::SignedDuration;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;

const LANE: Lane = Lane { name: "nodes", workers: 4 };
const MARK: &str = "1";

pub(crate) struct Unmanaged {
    pub(crate) target: Client,
    /// Of the machines.
    pub(crate) namespace: String,
    pub(crate) machines: Cache<Machine>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) clock: Clock,
    pub(crate) creation_timeout: Duration,
}

impl Unmanaged {
    /// How many machines say that this node is theirs; one, if the one that the node names does.
    fn owners(&self, node: &Node) -> usize {
        let name = node.name_any();
        let owns = |machine: &Machine| {
            machine.labels().get(names::NODE_LABEL) == Some(&name)
                && is_node_of(&machine.spec.provider_id, node)
        };
        let named = node.labels().get(names::MACHINE_NAME_LABEL);
        let named = named
            .and_then(|name| self.machines.get(&Key::new("Machine", self.namespace.clone(), name.clone())));
        if named.is_some_and(|machine| owns(&machine)) {
            return 1;
        }
        self.machines.with_word(&name).iter().filter(|machine| owns(machine)).count()
    }

    /// Wakes the node of a machine that has gone.
    pub(crate) fn of_machine(queue: &Queue) -> impl Fn(&Change<Machine>) + Send + Sync + use<> {
        let queue = queue.clone();
        move |change| {
            let Change::Deleted { last } = change else { return };
            if let Some(node) = last.labels().get(names::NODE_LABEL) {
                queue.wake(Key::new("Node", "", node.clone()));
            }
        }
    }
}

#[async_trait]
impl Reconciler for Unmanaged {
    fn lane(&self, _: &Key) -> Lane {
        LANE
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let Some(node) = self.nodes.get(&run.key) else { return Ok(Outcome::Done) };
        let now = self.clock.now();
        let verdict = decide(&Observed {
            now,
            created_at: node.meta().creation_timestamp.as_ref().map_or(now, |time| time.0),
            creation_timeout: SignedDuration::try_from(self.creation_timeout).unwrap_or(SignedDuration::MAX),
            owners: self.owners(&node),
            marked: is_unmanaged(&node),
            held: is_held(&node),
        });
        match verdict {
            Verdict::Fine => Ok(Outcome::Done),
            Verdict::Young(left) => Ok(Outcome::After(left.unsigned_abs())),
            Verdict::Nobodys => {
                tracing::info!(node = node.name_any(), "no machine is behind this node");
                let mut patch = released(&node);
                patch["metadata"]["annotations"] = json!({names::NOT_MANAGED_ANNOTATION: MARK});
                let nodes: Api<Node> = Api::all(self.target.clone());
                let patch = Patch::Strategic(patch);
                match nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await {
                    // What it is by now is told by the watch, and looked at anew.
                    Ok(_) => Ok(Outcome::Done),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Done),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

/// The queue this controller works from.
pub(crate) fn queue(clock: &Clock, chance: &Chance, metrics: &Metrics) -> Queue {
    Queue::new(QueueOptions::new("node"), clock.clone(), chance, metrics.clone())
}
