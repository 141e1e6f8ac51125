//! Who is measured, how it is started, and what it uses.

use anyhow::Context;
use clap::ValueEnum;
use hostler_control_plane::{Program, Store, catalogue::STACKIT_MACHINE_CONTROLLER, free_port};
use std::{fs, path::Path, time::Duration};

/// The length of the unit that Linux counts processor time in, whatever its own clock is.
const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Contender {
    Hostler,
    Go,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hostler => "Hostler",
            Self::Go => "the Go provider",
        }
    }

    /// How many machines it drains at once at most.
    pub fn drains_at_once(self) -> usize {
        match self {
            Self::Hostler => usize::MAX,
            // It has so many workers for everything.
            Self::Go => 50,
        }
    }

    /// With the arguments that Gardener gives it.
    pub fn program(
        self,
        hostler: &Path,
        store: &Store,
        kubeconfig: &Path,
        namespace: &str,
        cloud: &str,
    ) -> anyhow::Result<Program> {
        let program = match self {
            Self::Hostler => Program::new("hostler", hostler).arg("machine-controller"),
            Self::Go => Program::new("go", store.path(&STACKIT_MACHINE_CONTROLLER)),
        };
        Ok(program
            .flag("control-kubeconfig", kubeconfig)
            .flag("kube-api-qps", "100")
            .flag("kube-api-burst", "200")
            .flag("machine-drain-timeout", "2h")
            .flag("machine-health-timeout", "10m")
            .flag("machine-safety-apiserver-statuscheck-timeout", "30s")
            .flag("machine-safety-apiserver-statuscheck-period", "1m")
            .flag("machine-safety-orphan-vms-period", "30m")
            .flag("namespace", namespace)
            .flag("port", free_port()?.to_string())
            .flag("target-kubeconfig", kubeconfig)
            .flag("v", "3")
            .flag("machine-creation-timeout", "45m")
            .flag("resource-exhausted-retry", "30m")
            .env("STACKIT_IAAS_ENDPOINT", cloud)
            .env("STACKIT_NO_AUTH", "true")
            .env("NO_PROXY", "127.0.0.1"))
    }
}

/// What a process has used so far.
pub struct Usage {
    pub cpu: Duration,
    pub peak_memory: u64,
}

impl Usage {
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
        };
        let stat = read("stat")?;
        let status = read("status")?;
        Self::parse(&stat, &status).context("/proc does not tell what the process has used")
    }

    fn parse(stat: &str, status: &str) -> Option<Self> {
        // The name of the program may have anything in it; the numbers begin behind its bracket.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(Self { cpu: TICK * (ticks(11)? + ticks(12)?), peak_memory: kibibytes * 1024 })
    }
}
