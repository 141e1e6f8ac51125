//! From a cloud's machines to nodes: one that runs lets its node join, one that goes takes it along.

use crate::hollow::{HollowNodes, MachineSpec};
use hostler_base::Clock;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    time::Duration,
};
use tokio::sync::Notify;

/// The machines that are to run now, by the cloud's id.
pub(crate) type Wanted = BTreeMap<String, MachineSpec>;

/// The names of the machines that run already, by the cloud's id.
pub(crate) type Running = BTreeMap<String, String>;

/// Boots and switches off machines as the cloud wants it, for ever. `wanted` says what is to run now and how long it
/// stays so; of what runs already only the id counts. `changed` tells of a change that came from outside.
pub(crate) async fn drive(
    nodes: HollowNodes,
    clock: &Clock,
    changed: &Notify,
    wanted: impl Fn(&Running) -> (Wanted, Option<Duration>),
) {
    let mut running = Running::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    loop {
        let (wanted, next) = wanted(&running);
        let gone = running.iter().filter(|(id, _)| !wanted.contains_key(*id));
        let gone: BTreeSet<String> = gone.map(|(_, name)| name.clone()).collect();
        if !gone.is_empty() {
            for name in &gone {
                nodes.shutdown(name);
            }
            // Another machine may have the same name; that one goes on.
            running.retain(|_, name| !gone.contains(name));
            continue;
        }
        for (id, machine) in wanted {
            running.entry(id.clone()).or_insert_with(|| {
                let mut machine = machine;
                if !known.insert(id) {
                    // A machine that was a node before has the node's own credentials on its disk.
                    machine.bootstrap_token = None;
                }
                let name = machine.name.clone();
                nodes.boot(machine);
                name
            });
        }
        tokio::select! {
            biased;
            () = changed.notified() => {}
            () = async { match next { Some(wait) => clock.sleep(wait).await, None => pending().await } } => {}
        }
    }
}
