//! Hostler beside the Go machine controller for STACKIT: the same Machines on a real kube-apiserver each, the same
//! simulated cloud, the same arguments, one after the other. `cargo xtask bench gardener [--machines N]`.
#![expect(clippy::cast_precision_loss, reason = "only shown")]

mod contender;
mod slow_drains;
mod stage;

use anyhow::Context;
use clap::Parser;
use contender::Contender;
use hostler_control_plane::BuildError;
use slow_drains::Waits;
use stage::Stage;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

#[derive(Parser)]
struct Options {
    /// How many Machines are made and deleted.
    #[arg(long, default_value_t = 1_000, value_name = "NUMBER")]
    machines: usize,
    /// How many drain slowly while as many are made.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    drains: usize,
    /// Let the class ask for allowed addresses, as Gardener's extension does: one more call per machine for both.
    #[arg(long)]
    allowed_addresses: bool,
    /// Only this one, without a comparison.
    #[arg(long, value_enum)]
    only: Option<Contender>,
    /// The `hostler` that is measured, as `cargo xtask bench gardener` builds it.
    #[arg(long, env = "HOSTLER_BINARY", value_name = "FILE")]
    hostler: PathBuf,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one contender needed.
struct Figures {
    up: Duration,
    down: Duration,
    cpu: Duration,
    peak_memory: u64,
    cloud_calls: BTreeMap<&'static str, u64>,
    api_calls: u64,
    /// What the API server was asked, by this program too.
    asked: BTreeMap<String, u64>,
    /// From a Machine's creation until it runs, without and with slow drains beside.
    waits: Option<Waits>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the only provider");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&options))
}

async fn run(options: &Options) -> anyhow::Result<()> {
    println!(
        "{} Machines to Running and gone again; a server boots in {:?} and is deleted in {:?}, and up to {:?} more\n",
        options.machines,
        stage::BOOT_TIME,
        stage::DELETE_TIME,
        stage::JITTER
    );
    let mut all = Vec::new();
    for contender in [Contender::Hostler, Contender::Go] {
        if options.only.is_some_and(|only| only != contender) {
            continue;
        }
        match measure(contender, options).await {
            Err(error) if matches!(error.downcast_ref(), Some(BuildError::NoGo)) => {
                println!("left out: {error}");
                return Ok(());
            }
            measured => {
                let figures = measured.with_context(|| contender.name())?;
                show(contender, &figures, options.machines);
                all.push(figures);
            }
        }
    }
    if let [ours, theirs] = all.as_slice() {
        compare(ours, theirs);
    }
    Ok(())
}

async fn measure(contender: Contender, options: &Options) -> anyhow::Result<Figures> {
    let mut stage = Stage::start(contender, &options.hostler, options.allowed_addresses).await?;
    let names: Vec<String> = (0..options.machines).map(|number| stage::name("pool", number)).collect();
    let up = stage.make(&names).await?.whole;
    let down = stage.delete(&names).await?;
    stage.nothing_is_left().await?;
    let (cloud_calls, api_calls) = (stage.cloud_calls(), stage.api_calls().await?);
    let asked = stage.asked().await?;
    let usage = stage.usage()?;
    anyhow::ensure!(
        cloud_calls.get("CreateServer").copied() == u64::try_from(options.machines).ok(),
        "one server is ordered per Machine: {cloud_calls:?}"
    );
    let waits = if options.drains == 0 {
        None
    } else {
        Some(slow_drains::measure(&mut stage, options.drains, contender.drains_at_once()).await?)
    };
    stage.stop().await?;
    Ok(Figures {
        up,
        down,
        cpu: usage.cpu,
        peak_memory: usage.peak_memory,
        cloud_calls,
        api_calls,
        asked,
        waits,
    })
}

fn calls(figures: &Figures) -> u64 {
    figures.cloud_calls.values().sum()
}

fn show(contender: Contender, figures: &Figures, machines: usize) {
    println!("{}", contender.name());
    println!("  up {:.1} s, down {:.1} s", figures.up.as_secs_f64(), figures.down.as_secs_f64());
    println!(
        "  CPU {:.1} s, peak memory {} MiB",
        figures.cpu.as_secs_f64(),
        figures.peak_memory / (1024 * 1024)
    );
    let per_machine = |calls: u64| calls as f64 / machines as f64;
    println!(
        "  {:.2} cloud calls and {:.1} API server calls per machine; {:?}",
        per_machine(calls(figures)),
        per_machine(figures.api_calls),
        figures.cloud_calls
    );
    let often = |count: u64| count * 10 >= machines as u64;
    let asked: Vec<String> = (figures.asked.iter())
        .filter(|(_, count)| often(**count))
        .map(|(what, count)| format!("{what} {:.1}", per_machine(*count)))
        .collect();
    println!("  the API server was asked per machine, by the measuring program too: {}", asked.join(", "));
    if let Some(waits) = &figures.waits {
        println!("  from creation to Running: {waits}");
    }
    println!();
}

fn compare(ours: &Figures, theirs: &Figures) {
    println!("{:<24} {:>10} {:>10} {:>8} {:>8}", "", "Hostler", "Go", "ratio", "goal");
    let row = |what: &str, ours: f64, theirs: f64, goal: &str| {
        println!("{what:<24} {ours:>10.1} {theirs:>10.1} {:>8.2} {goal:>8}", ours / theirs);
    };
    let seconds = |time: Duration| time.as_secs_f64();
    row("up, s", seconds(ours.up), seconds(theirs.up), "");
    row("down, s", seconds(ours.down), seconds(theirs.down), "");
    row("up and down, s", seconds(ours.up + ours.down), seconds(theirs.up + theirs.down), "0.5");
    row("CPU, s", seconds(ours.cpu), seconds(theirs.cpu), "0.25");
    let mebibytes = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
    row("peak memory, MiB", mebibytes(ours.peak_memory), mebibytes(theirs.peak_memory), "0.35");
    row("cloud calls", calls(ours) as f64, calls(theirs) as f64, "0.35");
    row("API server calls", ours.api_calls as f64, theirs.api_calls as f64, "");
}
