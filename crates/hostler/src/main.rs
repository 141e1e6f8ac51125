//! Hostler takes machines into service as Kubernetes nodes and out of service again.
//!
//! This crate is the command line and the wiring; what is wired lives in the other crates.
#![forbid(unsafe_code)]

mod arguments;
mod crds;
#[cfg(feature = "playground")]
mod dev;
mod entropy;
mod kubeconfig;
mod logs;
mod machine_controller;
mod machine_sets;
mod plan;
#[cfg(feature = "playground")]
mod sim;
mod stop;
mod upstream;
mod web;

use anyhow::{Context, anyhow};
use clap::{Parser, Subcommand};
use logs::FileLevels;
use std::process::ExitCode;

#[cfg(feature = "lean")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Takes machines into service as Kubernetes nodes and out of service again.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Hostler {
    #[command(flatten)]
    logs: logs::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a small world to try things in: a Kubernetes API, nodes, a simulated STACKIT and all controllers.
    #[cfg(feature = "playground")]
    Dev(dev::Options),
    /// Serves a simulated cloud alone, over plain HTTP.
    #[cfg(feature = "playground")]
    #[command(subcommand)]
    Sim(sim::Cloud),
    /// Runs the Machine controller for Gardener on STACKIT.
    MachineController(Box<machine_controller::Options>),
    /// Says which nodes a cluster needs and which it could give back, from a file of kubectl; nothing is changed.
    Plan(plan::Options),
    /// Prints the CustomResourceDefinitions, for `kubectl apply -f -`.
    Crds,
}

fn main() -> ExitCode {
    let hostler = Hostler::parse_from(arguments::understood(std::env::args_os()));
    match run(hostler) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostler: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(hostler: Hostler) -> anyhow::Result<()> {
    let (level, files) = if let Command::MachineController(options) = &hostler.command {
        (options.upstream.log_level(), options.upstream.file_levels())
    } else {
        (None, FileLevels::default())
    };
    hostler.logs.start(level, files)?;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another crypto provider is already in use"))?;
    match hostler.command {
        #[cfg(feature = "playground")]
        Command::Dev(options) => block_on(Threads::Many, dev::run(options)),
        #[cfg(feature = "playground")]
        Command::Sim(cloud) => block_on(Threads::Many, sim::run(cloud)),
        Command::MachineController(options) => block_on(Threads::One, machine_controller::run(*options)),
        Command::Plan(options) => plan::run(&options),
        Command::Crds => crds::print(),
    }
}

/// How many threads work.
#[derive(Clone, Copy)]
enum Threads {
    /// For a controller: it waits for others most of the time, and whoever hands work to another thread has to wake it.
    One,
    #[cfg(feature = "playground")]
    Many,
}

fn block_on(threads: Threads, command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        #[cfg(feature = "playground")]
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().context("the runtime cannot be started")?;
    let ended = runtime.block_on(command);
    // Not dropped: that would wait for what cannot be interrupted, such as the resolution of a name.
    runtime.shutdown_background();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn what_cannot_be_interrupted_is_not_waited_for() {
        let start = std::time::Instant::now();
        let resolving = || std::thread::sleep(std::time::Duration::from_mins(10));
        let ended = block_on(Threads::One, async move {
            drop(tokio::task::spawn_blocking(resolving));
            Ok(())
        });
        assert!(ended.is_ok() && start.elapsed() < std::time::Duration::from_mins(5));
    }

    #[test]
    fn the_command_line_is_sound() {
        Hostler::command().debug_assert();
    }
}
