//! What every process tells Prometheus about itself, by the usual names: files, memory, processor time. Read from
//! `/proc` when it is asked for; where there is none nothing is told.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use std::{fmt, fs};

/// How many ticks a second has in `/proc`, on every Linux.
const TICKS: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

/// The files of `/proc` that tell it.
#[derive(Debug, Default)]
struct Files {
    /// `/proc/self/stat`
    stat: String,
    /// `/proc/self/status`
    status: String,
    /// `/proc/self/limits`
    limits: String,
    /// `/proc/stat`
    system: String,
    /// How many files are open.
    open: Option<u64>,
}

impl Files {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // The directory itself is open while it is counted.
        let open = fs::read_dir("/proc/self/fd").map(|files| files.count().saturating_sub(1)).ok();
        Self {
            stat: text("/proc/self/stat"),
            status: text("/proc/self/status"),
            limits: text("/proc/self/limits"),
            system: text("/proc/stat"),
            open: open.and_then(|open| u64::try_from(open).ok()),
        }
    }

    /// A number of `/proc/self/stat`, counted as its manual page does. The name before them may have spaces in it.
    fn ticks(&self, field: usize) -> Option<f64> {
        let (_, rest) = self.stat.rsplit_once(") ")?;
        rest.split(' ').nth(field.checked_sub(3)?)?.parse().ok()
    }

    /// Kilobytes in `/proc/self/status`, as bytes.
    fn bytes(&self, name: &str) -> Option<f64> {
        let rest = self.status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kilobytes: f64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kilobytes * 1024.0)
    }

    fn cpu_seconds(&self) -> Option<f64> {
        Some((self.ticks(14)? + self.ticks(15)?) / TICKS)
    }

    fn started_at(&self) -> Option<f64> {
        let booted = self.system.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(booted.trim().parse::<f64>().ok()? + self.ticks(22)? / TICKS)
    }

    /// The soft limit; one that does not limit anything is not told.
    fn open_at_most(&self) -> Option<f64> {
        let limit = self.limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        limit.split_whitespace().next()?.parse().ok()
    }

    fn gauges(&self) -> [(&'static str, &'static str, Option<f64>); 5] {
        #[expect(clippy::cast_precision_loss, reason = "there are not that many files")]
        let open = self.open.map(|open| open as f64);
        [
            ("process_open_fds", "Open files and connections", open),
            ("process_max_fds", "How many there may be", self.open_at_most()),
            ("process_resident_memory_bytes", "Memory in use", self.bytes("VmRSS")),
            ("process_virtual_memory_bytes", "Memory that is reserved", self.bytes("VmSize")),
            ("process_start_time_seconds", "When the process began, in Unix time", self.started_at()),
        ]
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let files = Files::read();
        if let Some(seconds) = files.cpu_seconds() {
            let help = "Processor time that was used";
            let counter =
                encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(counter)?;
        }
        for (name, help, value) in files.gauges() {
            if let Some(value) = value {
                let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(gauge)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn the_files_are_understood() {
        let files = Files {
            stat: "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 250 150 0 0 20 0 5 0 1000 9 8".to_owned(),
            status: "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\n".to_owned(),
            limits: "Limit    Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n"
                .to_owned(),
            system: "cpu 1 2\nbtime 1700000000\n".to_owned(),
            open: Some(9),
        };
        assert_eq!(files.cpu_seconds(), Some(4.0));
        let values = files.gauges().map(|(_, _, value)| value);
        let expected = [9.0, 1024.0, 524_288.0, 2_097_152.0, 1_700_000_010.0];
        assert_eq!(values, expected.map(Some));
        assert_eq!(Files::default().gauges().map(|(_, _, value)| value), [None; 5]);
        assert_eq!(Files::default().cpu_seconds(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_tells_of_itself() {
        let metrics = Metrics::new();
        assert!(!metrics.text().contains("process_"), "only where it is wanted");
        metrics.tell_of_the_process();
        let text = metrics.text();
        for name in [
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_max_fds",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_start_time_seconds",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let value: f64 = line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap();
            assert!(value >= 0.0, "{name} {value}");
        }
    }
}
