//! One simulated cloud on a port, for other processes.

use crate::{dev::listen, stop::StopSignals};
use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use hostler_base::{Chance, Clock};
use hostler_sim::{
    stackit::{self, Fault, Stackit},
    vpsie::{self, Vpsie},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    fs,
    io::{self, Write},
    marker::PhantomData,
    net::SocketAddr,
    path::PathBuf,
};
use tokio::net::TcpListener;

#[derive(Subcommand)]
pub enum Cloud {
    /// STACKIT's IaaS API, versions 1 and 2, and its token endpoint.
    Stackit(Options<Stackit>),
    /// VPSie's API, managed clusters included.
    Vpsie(Options<Vpsie>),
}

/// A cloud that can be served alone.
pub trait Simulated: Clone + Send + Sync + Sized + 'static {
    type Settings: Default;
    const NAME: &str;
    /// Where it listens if nobody says where.
    const ADDRESS: &str;
    /// A path to try.
    const TRY: &str;

    fn read_fault(text: &str) -> Result<Fault, String>;
    fn assign(settings: &mut Self::Settings, text: &str) -> Result<(), String>;
    fn choose(settings: &mut Self::Settings, catalogue: Value) -> Result<(), String>;
    fn start(settings: Self::Settings, chance: Chance) -> Self;
    fn add_fault(&self, fault: Fault) -> Result<(), String>;
    fn serve(self, listener: TcpListener) -> impl Future<Output = ()> + Send;
}

impl Simulated for Stackit {
    type Settings = stackit::Settings;
    const NAME: &str = "STACKIT";
    const ADDRESS: &str = "127.0.0.1:8480";
    const TRY: &str = "/v2/projects/p/regions/eu01/servers";

    fn read_fault(text: &str) -> Result<Fault, String> {
        Self::read_fault(text)
    }

    fn assign(settings: &mut Self::Settings, text: &str) -> Result<(), String> {
        settings.assign(text)
    }

    fn choose(settings: &mut Self::Settings, catalogue: Value) -> Result<(), String> {
        let catalogue = stackit::Catalogue::deserialize(catalogue).map_err(|error| error.to_string())?;
        settings.catalogue = Some(catalogue);
        Ok(())
    }

    fn start(settings: Self::Settings, chance: Chance) -> Self {
        Self::new(settings, Clock::system(), chance)
    }

    fn add_fault(&self, fault: Fault) -> Result<(), String> {
        self.add_fault(fault)
    }

    async fn serve(self, listener: TcpListener) {
        self.serve(listener).await;
    }
}

impl Simulated for Vpsie {
    type Settings = vpsie::Settings;
    const NAME: &str = "VPSie";
    const ADDRESS: &str = "127.0.0.1:8481";
    const TRY: &str = "/apps/v2/vm";

    fn read_fault(text: &str) -> Result<Fault, String> {
        Self::read_fault(text)
    }

    fn assign(settings: &mut Self::Settings, text: &str) -> Result<(), String> {
        settings.assign(text)
    }

    fn choose(settings: &mut Self::Settings, catalogue: Value) -> Result<(), String> {
        settings.merge(&Value::Object(Map::from_iter([("catalogue".to_owned(), catalogue)])))
    }

    fn start(settings: Self::Settings, chance: Chance) -> Self {
        Self::new(settings, Clock::system(), chance)
    }

    fn add_fault(&self, fault: Fault) -> Result<(), String> {
        self.add_fault(fault)
    }

    async fn serve(self, listener: TcpListener) {
        self.serve(listener).await;
    }
}

#[derive(Args)]
pub struct Options<C: Simulated> {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = C::ADDRESS, value_name = "ADDR")]
    listen: SocketAddr,
    /// Makes calls go wrong, for example "* status=500 times=2"; can be given several times.
    #[arg(long, value_parser = C::read_fault, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Changes how the cloud behaves, for example jitter=10; can be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Only what is in this JSON file exists, in the parts that it has: sizes of machines, images and so on.
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Makes everything that is drawn by chance repeatable.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[arg(skip)]
    cloud: PhantomData<C>,
}

impl<C: Simulated> Options<C> {
    fn settings(&self) -> anyhow::Result<C::Settings> {
        let mut settings = C::Settings::default();
        if let Some(path) = &self.catalogue {
            let text = fs::read_to_string(path)
                .with_context(|| format!("--catalogue: {} cannot be read", path.display()))?;
            let no_catalogue = || format!("--catalogue: {} is no catalogue", path.display());
            // A list would be taken for the fields in their order.
            let fields: Map<String, Value> = serde_json::from_str(&text).with_context(no_catalogue)?;
            C::choose(&mut settings, Value::Object(fields))
                .map_err(|problem| anyhow!("{}: {problem}", no_catalogue()))?;
        }
        for text in &self.set {
            C::assign(&mut settings, text).map_err(|problem| anyhow!("--set {text}: {problem}"))?;
        }
        Ok(settings)
    }

    async fn serve(self) -> anyhow::Result<()> {
        let settings = self.settings()?;
        let mut stop = StopSignals::listen()?;
        let (listener, address) = listen("--listen", self.listen).await?;
        let chance = self.seed.map_or_else(Chance::from_entropy, Chance::from_seed);
        let cloud = C::start(settings, chance);
        for fault in self.fault {
            cloud.add_fault(fault).map_err(|problem| anyhow!("--fault: {problem}"))?;
        }
        // Without a reader of these lines the cloud is there all the same.
        let _ = writeln!(
            io::stdout(),
            "A simulated {} is at http://{address}\nTry: curl http://{address}{}",
            C::NAME,
            C::TRY
        );
        tokio::select! {
            biased;
            () = stop.received() => {}
            () = cloud.serve(listener) => {}
        }
        Ok(())
    }
}

pub async fn run(cloud: Cloud) -> anyhow::Result<()> {
    match cloud {
        Cloud::Stackit(options) => options.serve().await,
        Cloud::Vpsie(options) => options.serve().await,
    }
}
