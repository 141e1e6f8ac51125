//! Flags of Gardener's provider binaries that mean nothing there, or something that is not needed here. They are taken
//! so that a command line can be used as it is.

use crate::arguments::go_bool;
use anyhow::bail;
use clap::{ArgAction, Args};
use hostler_base::GoDuration;

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
    /// There are no profiles of Go's kind in this process; a warning says so.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL", hide = true)]
    profiling: bool,
    /// The same; needs --profiling.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL", hide = true)]
    contention_profiling: bool,
    /// What the lease is; there are only Leases.
    #[arg(long, default_value = "leases", value_name = "KIND", hide = true)]
    leader_elect_resource_lock: String,
    /// How much is logged, from 0 to 10, unless --log-level or RUST_LOG say it: from 4 on as `debug`, from 6 on as `trace`.
    #[arg(long = "v", short = 'v', default_value_t = 0, value_name = "LEVEL", allow_negative_numbers = true)]
    verbosity: i32,
    /// Levels per file of Go's sources, which are not these; --log-level tells parts apart. A warning says so.
    #[arg(long, default_value = "", value_name = "PATTERN=N,...", hide = true)]
    vmodule: String,
    /// Without effect: lines are never held back.
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

    /// Says what was asked for and is not there.
    pub fn warn(&self) {
        if self.profiling {
            tracing::warn!("--profiling: there are no profiles of Go's kind; /metrics has what is measured");
        }
        if !self.vmodule.is_empty() {
            tracing::warn!(
                "--vmodule names files of other sources; use --log-level, for example info,hostler_gardener=debug"
            );
        }
        tracing::debug!(
            content_type = self.kube_api_content_type,
            cloud_provider = self.cloud_provider,
            start_interval = ?self.controller_start_interval.0,
            flush = ?self.log_flush_frequency.0,
            "taken without effect"
        );
    }

    /// The level of log lines that is meant, if one is.
    pub fn log_level(&self) -> Option<&'static str> {
        match self.verbosity {
            ..4 => None,
            4..6 => Some("debug"),
            6.. => Some("trace"),
        }
    }
}
