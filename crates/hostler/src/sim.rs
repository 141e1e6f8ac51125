//! One simulated cloud on a port, for other processes.

use crate::{dev::listen, stop::StopSignals};
use anyhow::Context;
use clap::{Args, Subcommand};
use hostler_base::{Chance, Clock};
use hostler_sim::stackit::{Settings, Stackit};
use std::{
    io::{self, Write},
    net::SocketAddr,
};

#[derive(Subcommand)]
pub enum Cloud {
    /// STACKIT's IaaS API: servers that start, run and go.
    Stackit(Options),
}

#[derive(Args)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:8480", value_name = "ADDR")]
    listen: SocketAddr,
}

pub async fn run(cloud: Cloud) -> anyhow::Result<()> {
    let Cloud::Stackit(options) = cloud;
    let mut stop = StopSignals::listen()?;
    let (listener, address) = listen(options.listen).await?;
    let cloud = Stackit::new(Settings::default(), Clock::system(), Chance::from_entropy());
    // Without a reader of these lines the cloud is there all the same.
    let _ = writeln!(
        io::stdout(),
        "A simulated STACKIT is at http://{address}\nTry: curl http://{address}/v2/projects/p/regions/eu01/servers"
    );
    let served = axum::serve(listener, cloud.router());
    tokio::select! {
        biased;
        () = stop.received() => Ok(()),
        served = async { served.await } => served.context("the simulated cloud cannot be served any more"),
    }
}
