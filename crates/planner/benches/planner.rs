//! The workloads of the established autoscalers: time, nodes, price against the lower bound, memory. One thread.
#![allow(clippy::wildcard_imports, clippy::cast_precision_loss)] // Numbers for people.

mod cases;

use std::process::ExitCode;
use std::time::Instant;

/// What one run says of itself.
pub struct Report {
    pub what: String,
    /// A line of numbers, and whether the bar is met.
    pub numbers: String,
    pub good: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut missed = 0;
    for (name, case) in cases::ALL {
        if !arguments.is_empty() && !arguments.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        for report in case() {
            let mark = if report.good { "ok    " } else { "MISSED" };
            println!("{mark} {:<34} {}", report.what, report.numbers);
            missed += usize::from(!report.good);
        }
    }
    println!("peak memory of the whole run {:.1} MB", megabytes(peak()));
    if missed > 0 {
        println!("{missed} bars missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Of a million bytes, as bars are written; they are compared in bytes.
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MB as f64
}

pub const MB: u64 = 1_000_000;

/// Median of five, in milliseconds of processor time, and the last result.
pub fn timed<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..5 {
        let (wall, start) = (Instant::now(), processor_time());
        let mut runs = 0.0;
        let spent = loop {
            drop(last.take());
            last = Some(run());
            runs += 1.0;
            let Some((end, start)) = processor_time().zip(start) else {
                break wall.elapsed().as_secs_f64() * 1000.0;
            };
            // The kernel counts in ticks: what is quick is run until there are enough of them.
            let spent = (end - start) as f64 / 1e6;
            if spent >= 60.0 || runs >= 50.0 {
                break spent;
            }
        };
        times.push(spent / runs);
    }
    times.sort_by(f64::total_cmp);
    (times[2], last.expect("it ran"))
}

/// Nanoseconds this thread has run: others on the machine do not count.
fn processor_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The most memory this process had so far.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

/// Forgets the peak, so that the next reading is of what follows.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
