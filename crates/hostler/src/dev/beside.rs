//! The world around an API server that is not ours: nodes, a cloud and the controllers join a real cluster.

use super::{FAREWELL, install_definitions, populate, until_stopped, what_to_try};
use crate::stop::StopSignals;
use anyhow::Context;
use hostler_base::{Chance, Clock};
use hostler_sim::World;
use std::{
    io::{self, Write},
    path::{Path, absolute},
};

pub async fn run(kubeconfig: &Path, with_machine_sets: bool) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let shown = kubeconfig.display();
    let kubeconfig = absolute(kubeconfig).with_context(|| format!("{shown} is no file name"))?;
    let config = crate::kubeconfig::cluster(&kubeconfig).await?;
    let address = config.cluster_url.to_string();
    let kubernetes = crate::kubeconfig::transport(config)?;
    let mut world = World::beside(kubernetes, Clock::system(), Chance::from_entropy(), None);
    install_definitions(&world).await.with_context(|| format!("{address}, where {shown} leads"))?;
    populate(&mut world, with_machine_sets);
    // Without a reader of these lines the world is there all the same.
    let _ = writeln!(
        io::stdout(),
        "Hostler is ready beside the Kubernetes API at {address}, with hollow nodes and a simulated STACKIT.

{}
Ctrl-C ends it; what it has made in the cluster stays there.",
        what_to_try(&kubeconfig)
    );
    until_stopped(&mut world, &mut stop).await?;
    if tokio::time::timeout(FAREWELL, world.stop()).await.is_err() {
        tracing::warn!("not everything ended in time");
    }
    Ok(())
}
