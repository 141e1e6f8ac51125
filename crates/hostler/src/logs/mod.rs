//! Log lines on standard error.

mod files;

pub use files::{FileLevels, level_of};

use anyhow::Context;
use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

#[derive(Args)]
pub struct Options {
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// Which log lines are written, `info` if nothing is said: a level, or per part such as `warn,hostler_gardener=debug`.
    #[arg(long, global = true, env = "RUST_LOG", value_name = "FILTER")]
    log_level: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Options {
    /// Begins to write, at the given level if nobody has chosen one, and more from some files.
    pub fn start(&self, level: Option<&str>, files: FileLevels) -> anyhow::Result<()> {
        let chosen = self.log_level.as_deref().or(level).unwrap_or("info");
        let lines = EnvFilter::try_new(chosen)
            .with_context(|| format!("--log-level or RUST_LOG: {chosen:?} is no filter"))?;
        // A span names the object that a line is about, so it is needed even where its own level is not.
        let spans = filter_fn(|meta| meta.is_span() && meta.target().starts_with("hostler"));
        let filter = lines.or(spans).or(filter_fn(move |meta| files.allow(meta)));
        let layer =
            tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
        let layer = match self.log_format {
            Format::Text => layer.boxed(),
            Format::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
        };
        let started = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
        started.context("logs cannot be written")
    }
}
