//! The world around an API server that is not ours: nodes, a cloud and the controllers join a real cluster.

use super::{CloudDoor, FAREWELL, Options, install_definitions, populate, until_stopped, what_to_try};
use crate::{kubeconfig::Cluster, stop::StopSignals};
use anyhow::Context;
use hostler_base::{Chance, Clock};
use hostler_controller::{Metrics, StackOptions};
use hostler_sim::World;
use std::{
    io::{self, Write},
    path::{Path, absolute},
};

pub async fn run(kubeconfig: &Path, options: &Options) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let cloud = CloudDoor::open(options.stackit).await?;
    let shown = kubeconfig.display();
    let kubeconfig = absolute(kubeconfig).with_context(|| format!("{shown} is no file name"))?;
    let config = crate::kubeconfig::cluster(&kubeconfig).await?;
    let address = config.cluster_url.to_string();
    let clock = Clock::system();
    // A connection can die without a word, and nothing of this world would notice by itself.
    let limits = StackOptions::alone("world", Metrics::new(), clock.clone());
    let kubernetes = hostler_controller::stack(Cluster::reached_by(config)?.transport, &limits);
    let mut world = World::beside(kubernetes, clock, Chance::from_entropy(), None);
    tokio::select! {
        biased;
        () = stop.received() => return Ok(()),
        installed = install_definitions(&world) => {
            installed.with_context(|| format!("{address}, where {shown} leads"))?;
        }
    }
    let stackit = populate(&mut world, options.with_machine_sets);
    let cloud = cloud.lead_to(stackit, &mut world);
    // Without a reader of these lines the world is there all the same.
    let _ = writeln!(
        io::stdout(),
        "Hostler is ready beside the Kubernetes API at {address}, with hollow nodes and a simulated STACKIT.

{cloud}{}
Ctrl-C ends it; what it has made in the cluster stays there.",
        what_to_try(&kubeconfig)
    );
    until_stopped(&mut world, &mut stop).await?;
    if tokio::time::timeout(FAREWELL, world.stop()).await.is_err() {
        tracing::warn!("not everything ended in time");
    }
    Ok(())
}
