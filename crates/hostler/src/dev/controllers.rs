//! The controllers as processes of the world.

use crate::{
    entropy,
    kubeconfig::Cluster,
    machine_sets::{self, Place},
};
use hostler_controller::{Health, LeaseOptions, StackOptions};
use hostler_gardener::{
    Options, Parts, Target,
    sets::{LEASE, SetOptions},
};
use hostler_sim::Context;
use hostler_stackit::StackitFactory;
use std::{sync::Arc, time::Duration};

/// The simulated STACKIT's name in the world.
pub const STACKIT: &str = "stackit";
/// Where Machines are looked for.
const NAMESPACE: &str = "default";

/// The Gardener Machine controller with the simulated STACKIT as its cloud. There is one process only, so
/// nobody else can lead and the fence stays open.
pub async fn machine_controller(context: Context) {
    let metrics = hostler_gardener::metrics();
    let options = StackOptions::alone("kubernetes", metrics.clone(), context.clock.clone());
    let kubernetes = hostler_controller::kube_client(context.transport("kubernetes"), &options, NAMESPACE);
    let options = StackOptions { client: STACKIT, ..options };
    let cloud = hostler_controller::stack(context.transport(STACKIT), &options);
    let parts = Parts {
        control: kubernetes.clone(),
        events: kubernetes.clone(),
        namespace: NAMESPACE.to_owned(),
        target: Some(Target { client: kubernetes.clone(), evictions: kubernetes }),
        options: Options::default(),
        drivers: Arc::new(StackitFactory::new(cloud, "", context.clock.clone())),
        other_drivers: Vec::new(),
        clock: context.clock.clone(),
        chance: context.chance.clone(),
        health: Health::new(metrics.clone()),
        metrics,
        instance: format!("{}-{}", context.actor, context.incarnation),
        entropy: entropy::system(),
        token_groups: String::new(),
    };
    // Boxed: it is a large future, and this one is moved around.
    Box::pin(hostler_gardener::run(parts, context.shutdown.clone())).await;
}

/// The controllers of MachineSets and MachineDeployments.
pub async fn machine_sets(context: Context) {
    let metrics = hostler_gardener::metrics();
    let instance = format!("{}-{}", context.actor, context.incarnation);
    let transport = context.transport("kubernetes");
    let kubernetes = Cluster { for_leases: transport.clone(), transport, address: String::new() };
    let place = Place {
        control: kubernetes.clone(),
        target: kubernetes,
        namespace: NAMESPACE.to_owned(),
        stack: StackOptions {
            timeout: Duration::from_secs(5),
            ..StackOptions::alone("kubernetes", metrics.clone(), context.clock.clone())
        },
        lease: LeaseOptions::new(NAMESPACE, LEASE, instance),
        chance: context.chance.clone(),
        health: Health::new(metrics),
        options: SetOptions::default(),
    };
    if let Err(error) = machine_sets::lead(place, context.shutdown.clone()).await {
        tracing::warn!(%error, "MachineSets are not looked after for a moment");
    }
}
