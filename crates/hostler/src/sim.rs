//! One simulated cloud on a port, for other processes.

use crate::{dev::listen, stop::StopSignals};
use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use hostler_base::{Chance, Clock};
use hostler_sim::stackit::{Catalogue, Fault, Settings, Stackit};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
};

#[derive(Subcommand)]
pub enum Cloud {
    /// STACKIT's IaaS API, versions 1 and 2, and its token endpoint.
    Stackit(Options),
}

#[derive(Args)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:8480", value_name = "ADDR")]
    listen: SocketAddr,
    /// Makes calls go wrong, for example "CreateServer status=500 times=2"; can be given several times.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Changes how the cloud behaves, for example listLag=10; can be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Only what is in this JSON file exists: machine types, images, networks, keypairs, zones.
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Makes everything that is drawn by chance repeatable.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

impl Options {
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = Settings::default();
        if let Some(path) = &self.catalogue {
            let text = fs::read_to_string(path)
                .with_context(|| format!("--catalogue: {} cannot be read", path.display()))?;
            let no_catalogue = || format!("--catalogue: {} is no catalogue", path.display());
            // A list would be taken for the fields in their order.
            let fields: serde_json::Map<String, Value> =
                serde_json::from_str(&text).with_context(no_catalogue)?;
            let catalogue = Catalogue::deserialize(Value::Object(fields)).with_context(no_catalogue)?;
            settings.catalogue = Some(catalogue);
        }
        for text in &self.set {
            settings.assign(text).map_err(|problem| anyhow!("--set {text}: {problem}"))?;
        }
        Ok(settings)
    }
}

pub async fn run(cloud: Cloud) -> anyhow::Result<()> {
    let Cloud::Stackit(options) = cloud;
    let settings = options.settings()?;
    let mut stop = StopSignals::listen()?;
    let (listener, address) = listen("--listen", options.listen).await?;
    let chance = options.seed.map_or_else(Chance::from_entropy, Chance::from_seed);
    let cloud = Stackit::new(settings, Clock::system(), chance);
    for fault in options.fault {
        cloud.add_fault(fault).map_err(|problem| anyhow!("--fault: {problem}"))?;
    }
    // Without a reader of these lines the cloud is there all the same.
    let _ = writeln!(
        io::stdout(),
        "A simulated STACKIT is at http://{address}\nTry: curl http://{address}/v2/projects/p/regions/eu01/servers"
    );
    tokio::select! {
        biased;
        () = stop.received() => {}
        () = cloud.serve(listener) => {}
    }
    Ok(())
}
