//! Gardener's own machine-controller-manager, which turns MachineDeployments into Machines.

use crate::{
    catalogue::{Binary, MACHINE_CONTROLLER_MANAGER},
    manifests,
    plane::{ControlPlane, unchecked, wait_until},
    ports::free_port,
    process::{Process, Program},
    store::Store,
};
use kube::Client;
use serde_json::Value;
use std::path::Path;

/// What has to be built for this.
pub fn binaries() -> Vec<&'static Binary> {
    vec![&MACHINE_CONTROLLER_MANAGER]
}

/// The CustomResourceDefinitions as Gardener has them.
pub fn definitions(store: &Store) -> anyhow::Result<Vec<Value>> {
    manifests::read(&store.assets(MACHINE_CONTROLLER_MANAGER.group).join("crds"))
}

/// Installs the definitions and waits until they are served.
pub async fn install(store: &Store, client: &Client) -> anyhow::Result<()> {
    manifests::define(client, &definitions(store)?).await
}

/// The manager for the Machines of one namespace, and the port on which it tells how it is.
pub fn manager(store: &Store, kubeconfig: &Path, namespace: &str) -> anyhow::Result<(Program, u16)> {
    let port = free_port()?;
    let program = Program::new("machine-controller-manager", store.path(&MACHINE_CONTROLLER_MANAGER))
        .flag("control-kubeconfig", kubeconfig)
        .flag("target-kubeconfig", kubeconfig)
        .flag("namespace", namespace)
        // Ours takes the same lease before it looks after MachineSets.
        .flag("leader-elect", "true")
        .flag("address", "127.0.0.1")
        .flag("port", port.to_string())
        .flag("v", "3");
    Ok((program, port))
}

/// Installs the definitions, starts the manager beside a control plane and waits until it is healthy.
pub async fn start(plane: &mut ControlPlane, namespace: &str) -> anyhow::Result<Process> {
    let client = plane.client().await?;
    install(plane.store(), &client).await?;
    let (program, port) = manager(plane.store(), &plane.admin_kubeconfig(), namespace)?;
    let mut process = program.start(plane.supervisor(), plane.directory())?;
    let health = unchecked(&format!("http://127.0.0.1:{port}"))?;
    wait_until("Gardener's manager is healthy", || process.check(), &health, "/healthz").await?;
    Ok(process)
}
