//! What a cluster does by itself, beside its API server: it schedules pods, runs workloads, collects
//! garbage, empties namespaces, keeps budgets' status, follows its nodes' life, and attaches volumes.
//!
//! All of it is off beside a real control plane, and each part can be switched off alone ([`Options`]).
//! Parts see the cluster through shared caches and run as sweeps: observe, decide by pure functions, act.
#![forbid(unsafe_code)]

mod accounts;
mod budgets;
mod cache;
mod discover;
mod events;
mod garbage;
mod kind;
mod namespaces;
mod nodes;
mod options;
mod part;
mod quantity;
mod scheduler;
mod selector;
mod tokens;
mod volumes;
mod watch;
mod workload;

pub use options::Options;

use cache::Signal;
use hostler_base::{Chance, Clock};
use kind::Caches;
use part::{Context, Part};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Parts and watches run until they are told to stop; one that ends is a fault of this crate.
    #[error("{0} of the cluster ended by itself")]
    Ended(&'static str),
    #[error("a part of the cluster failed")]
    Failed(#[source] tokio::task::JoinError),
}

type Starter = Box<dyn FnOnce(&mut JoinSet<&'static str>, &Arc<Context>) + Send>;

/// Runs all parts that are switched on until `shutdown`. Dropping the future stops everything as well.
pub async fn run(
    client: kube::Client,
    clock: Clock,
    chance: Chance,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let caches = Caches::default();
    let mut parts: Vec<Starter> = Vec::new();
    add(&mut parts, &caches, options.deployments, || workload::deployment::Deployments);
    add(&mut parts, &caches, options.replica_sets, || workload::replica_set::ReplicaSets);
    add(&mut parts, &caches, options.stateful_sets, || workload::stateful_set::StatefulSets);
    add(&mut parts, &caches, options.daemon_sets, || workload::daemon_set::DaemonSets);
    add(&mut parts, &caches, options.jobs, || workload::job::Jobs);
    add(&mut parts, &caches, options.volume_binding, || volumes::bind::Binder);
    add(&mut parts, &caches, options.provisioner, || volumes::provision::Provisioner);
    add(&mut parts, &caches, options.volume_protection, || volumes::protect::Protection);
    add(&mut parts, &caches, options.attach_detach, volumes::attach::AttachDetach::default);
    add(&mut parts, &caches, options.attacher, || volumes::attacher::Attacher);
    add(&mut parts, &caches, options.budgets, budgets::Budgets::default);
    add(&mut parts, &caches, options.node_life_cycle, nodes::health::NodeHealth::default);
    add(&mut parts, &caches, options.taint_eviction, nodes::eviction::TaintEviction::default);
    add(&mut parts, &caches, options.pod_garbage_collection, nodes::pod_garbage::PodGarbage::default);
    add(&mut parts, &caches, options.service_accounts, || accounts::Accounts);
    add(&mut parts, &caches, options.bootstrap_tokens, || tokens::Tokens);
    add(&mut parts, &caches, options.namespaces, || namespaces::Namespaces);
    if options.garbage_collection {
        let signal = part::register::<garbage::Collector>(&caches);
        let changes = garbage::graph::Changes::new(signal.clone());
        let collector = garbage::Collector::new(changes.clone(), &caches.feed(&changes));
        start_later(&mut parts, collector, signal);
    }
    add(&mut parts, &caches, options.scheduler, scheduler::Scheduler::default);

    let mut tasks = JoinSet::new();
    caches.start(&mut tasks, &client, &clock, &chance.split("watches"));
    let context =
        Arc::new(Context { client, clock, chance, caches, events: events::Events::default(), options });
    for part in parts {
        part(&mut tasks, &context);
    }
    if tasks.is_empty() {
        shutdown.cancelled().await;
        return Ok(());
    }
    let ended = tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        ended = tasks.join_next() => ended,
    };
    tasks.shutdown().await;
    match ended {
        None => Ok(()),
        Some(Ok(name)) => Err(Error::Ended(name)),
        Some(Err(error)) => Err(Error::Failed(error)),
    }
}

/// Registers what the part wants to see, and starts it later, when the watches are running.
fn add<P: Part>(parts: &mut Vec<Starter>, caches: &Caches, wanted: bool, part: impl FnOnce() -> P) {
    if wanted {
        let signal = part::register::<P>(caches);
        start_later(parts, part(), signal);
    }
}

fn start_later<P: Part>(parts: &mut Vec<Starter>, part: P, signal: Signal) {
    parts.push(Box::new(move |tasks, context| {
        tasks.spawn(part::drive(part, context.clone(), signal));
    }));
}
