//! How a kubeconfig leads to a cluster.

use anyhow::Context;
use hostler_base::Transport;
use hostler_controller::{transport_apart, transport_to};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::path::Path;

/// The cluster of the current context, with the proxy that the kubeconfig names for it, if it names one: the
/// environment's proxies are for the way to the clouds.
pub async fn cluster(file: &Path) -> anyhow::Result<Config> {
    let shown = file.display();
    let read = Kubeconfig::read_from(file).with_context(|| format!("{shown} is no kubeconfig"))?;
    let names_proxy =
        read.clusters.iter().flat_map(|named| &named.cluster).any(|cluster| cluster.proxy_url.is_some());
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("{shown} does not lead to a cluster"))?;
    if !names_proxy {
        config.proxy_url = None;
    }
    Ok(config)
}

/// The cluster that this process runs in.
pub fn surrounding() -> anyhow::Result<Config> {
    let mut config =
        Config::incluster().context("this is not inside of a cluster; give the path of a kubeconfig")?;
    config.proxy_url = None;
    Ok(config)
}

/// A cluster that can be called.
#[derive(Clone)]
pub struct Cluster {
    pub transport: Transport,
    /// The same for leases, on connections that are shared with nothing else: a lease is renewed in time also while all
    /// other calls hang with theirs.
    pub for_leases: Transport,
    /// Where its API server is.
    pub address: String,
}

impl Cluster {
    pub fn reached_by(config: Config) -> anyhow::Result<Self> {
        let address = config.cluster_url.to_string();
        let reached = |transport: Result<Transport, kube::Error>| {
            transport.with_context(|| format!("{address} cannot be called"))
        };
        let for_leases = reached(transport_apart(config.clone()))?;
        Ok(Self { transport: reached(transport_to(config))?, for_leases, address })
    }
}
