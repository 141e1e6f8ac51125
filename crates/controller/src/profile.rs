//! What a process is busy with, under the paths where Go programs tell it: for people with a question and `curl`, not for
//! Go's own tools.

use crate::{Health, Key};
use axum::{Router, extract::State, routing::get};
use std::{env, fmt::Write, time::Duration};

/// What every queue tells of the time that keys waited for a worker.
const WAITED: &str = "hostler_queue_latency_seconds";

impl Health {
    /// `/debug/pprof/`: the command line and the runs under way; with contention also what waited for a worker.
    pub fn profiles(&self, contention: bool) -> Router {
        let index = if contention { "cmdline\ngoroutine\nblock\n" } else { "cmdline\ngoroutine\n" };
        let mut router = Router::new()
            .route("/debug/pprof/", get(async move || index))
            .route("/debug/pprof/cmdline", get(command_line))
            .route("/debug/pprof/goroutine", get(under_way));
        if contention {
            router = router.route("/debug/pprof/block", get(waited));
        }
        router.with_state(self.clone())
    }
}

/// As Go writes it: with a NUL between two arguments.
async fn command_line() -> String {
    let arguments: Vec<String> = env::args_os().map(|text| text.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

async fn under_way(State(health): State<Health>) -> String {
    let mut runs: Vec<(&'static str, &'static str, Key, Duration)> = Vec::new();
    for queue in health.queues() {
        runs.extend(queue.under_way().into_iter().map(|(key, lane, taken)| (queue.name(), lane, key, taken)));
    }
    // What has taken longest is what is asked for.
    runs.sort_by(|one, other| other.3.cmp(&one.3).then_with(|| one.2.cmp(&other.2)));
    let mut text = format!("runs under way: {}\n", runs.len());
    for (queue, lane, key, taken) in runs {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{queue} {lane} {key} for {:.3} s", taken.as_secs_f64());
    }
    text
}

async fn waited(State(health): State<Health>) -> String {
    let text = health.metrics().text();
    let waited = text.lines().filter_map(|line| line.strip_prefix(WAITED));
    let sums = waited.filter(|line| line.starts_with("_sum") || line.starts_with("_count"));
    let lines: Vec<&str> = sums.map(|line| line.trim_start_matches('_')).collect();
    format!("waiting for a worker, seconds and times:\n{}\n", lines.join("\n"))
}
