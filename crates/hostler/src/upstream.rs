//! Flags of Gardener's provider binaries that mean nothing there, or something that is not needed here. They are taken
//! so that a command line can be used as it is.

use crate::{
    arguments::go_bool,
    logs::{FileLevels, level_of},
};
use anyhow::bail;
use axum::Router;
use clap::{ArgAction, Args};
use hostler_base::GoDuration;
use hostler_controller::Health;
use tracing_subscriber::filter::LevelFilter;

#[derive(Args)]
#[group(id = "upstream")]
pub struct Options {
    /// Without effect, as in Gardener's controllers.
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf", value_name = "TYPE", hide = true)]
    kube_api_content_type: String,
    /// Without effect, as in Gardener's controllers.
    #[arg(long, default_value = "", value_name = "NAME", hide = true)]
    cloud_provider: String,
    /// Without effect, as in Gardener's controllers.
    #[arg(long, default_value = "0s", value_name = "DURATION", hide = true)]
    controller_start_interval: GoDuration,
    /// Whether /debug/pprof/ is served, beside /metrics: the command line and the runs under way.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    profiling: bool,
    /// Whether it tells of what waited for a worker, too; needs --profiling.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    contention_profiling: bool,
    /// What the lease is; there are only Leases.
    #[arg(long, default_value = "leases", value_name = "KIND", hide = true)]
    leader_elect_resource_lock: String,
    /// How much is logged, from 0 to 10, unless --log-level or RUST_LOG say it: from 4 on as `debug`, from 6 on as `trace`.
    #[arg(long = "v", short = 'v', default_value_t = 0, value_name = "LEVEL", allow_negative_numbers = true)]
    verbosity: i32,
    /// More log lines from some source files, such as drain*=4: as many as --v=4 would let all files write. A pattern is
    /// the name of a file or, of a mod.rs, of its directory; with a / it is the path, both without .rs.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATTERN=N,...")]
    vmodule: FileLevels,
    /// Without effect, as in Gardener's controllers: it is for log files, and lines for standard error are never held back.
    #[arg(long, default_value = "5s", value_name = "DURATION", hide = true)]
    log_flush_frequency: GoDuration,
}

impl Options {
    pub fn check(&self) -> anyhow::Result<()> {
        if self.leader_elect_resource_lock != "leases" {
            bail!(
                "--leader-elect-resource-lock: {:?} is not supported: only leases are",
                self.leader_elect_resource_lock
            );
        }
        if self.contention_profiling && !self.profiling {
            bail!("--contention-profiling needs --profiling");
        }
        Ok(())
    }

    /// Says what is taken and changes nothing.
    pub fn tell(&self) {
        tracing::debug!(
            content_type = self.kube_api_content_type,
            cloud_provider = self.cloud_provider,
            start_interval = ?self.controller_start_interval.0,
            flush = ?self.log_flush_frequency.0,
            "taken without effect"
        );
    }

    /// What is served for people who look for what the process is busy with, if they asked for it.
    pub fn profiles(&self, health: &Health) -> Router {
        if self.profiling { health.profiles(self.contention_profiling) } else { Router::new() }
    }

    /// Which files write more log lines than others.
    pub fn file_levels(&self) -> FileLevels {
        self.vmodule.clone()
    }

    /// The level of log lines that is meant, if one is.
    pub fn log_level(&self) -> Option<&'static str> {
        match level_of(self.verbosity) {
            LevelFilter::DEBUG => Some("debug"),
            LevelFilter::TRACE => Some("trace"),
            _ => None,
        }
    }
}
