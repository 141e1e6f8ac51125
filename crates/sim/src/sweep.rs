//! Runs a flow once per boundary and fault, each time in a fresh world, and asks: was the goal reached in
//! the end, and did the observers never see a violated invariant?

use crate::{
    boundaries::{Boundary, Class, Recording},
    wire::{Break, Fault, Plan, Violation, Wire, last_lines},
};
use std::{
    fmt, io,
    time::{Duration, Instant},
};

/// How one run of a flow ended.
#[derive(Clone, Debug)]
pub struct Finished {
    pub goal: Result<(), String>,
    pub violations: Vec<Violation>,
    pub recording: Recording,
    pub trace: String,
    pub faults: usize,
    /// How many of them happened at exactly the boundary that they were meant for.
    pub ruled: usize,
    /// How many recorded calls only brought about the state that the flow begins with.
    pub swept_from: usize,
}

impl Finished {
    pub fn of(wire: &Wire, goal: Result<(), String>) -> Self {
        Self {
            goal,
            violations: wire.violations(),
            recording: wire.recording(),
            trace: wire.trace(),
            faults: wire.faults(),
            ruled: wire.ruled(),
            swept_from: wire.swept_from(),
        }
    }
}

type Faults = Box<dyn Fn(Class, &Boundary) -> Vec<Fault> + Send + Sync>;

/// What is swept. The flow itself is a function from a plan to a finished run.
pub struct Sweep {
    pub name: String,
    pub seed: u64,
    /// How many repetitions of each read, watch and renewal are swept.
    pub repeats: usize,
    pub faults: Faults,
    /// Of all pairs of boundary and fault only every so-manieth is run.
    pub every: usize,
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Nothing if the run without faults failed.
    pub at: Option<(Boundary, Fault)>,
    pub seed: u64,
    pub goal: Option<String>,
    pub violations: Vec<Violation>,
    pub tail: String,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub boundaries: usize,
    pub runs: usize,
    /// How many runs there would be if none was left out.
    pub whole: usize,
    pub elapsed: Duration,
    pub failures: Vec<Failure>,
    pub recording: Recording,
}

impl Sweep {
    /// A sweep with every fault that fits a boundary.
    pub fn new(name: &str, seed: u64) -> Self {
        Self { name: name.to_owned(), seed, repeats: 2, faults: Box::new(all_faults), every: 1 }
    }

    /// Only those faults for which `keep` says so.
    pub fn only(mut self, keep: impl Fn(Class, &Boundary, &Fault) -> bool + Send + Sync + 'static) -> Self {
        let faults = self.faults;
        self.faults = Box::new(move |class, boundary| {
            let all = faults(class, boundary);
            all.into_iter().filter(|fault| keep(class, boundary, fault)).collect()
        });
        self
    }

    /// Leaves runs out, always the same ones, unless `HOSTLER_SWEEPS` is set to `whole`. An odd number takes turns with
    /// the faults of a boundary.
    pub fn every(self, every: usize) -> Self {
        let whole = std::env::var_os("HOSTLER_SWEEPS").is_some_and(|wanted| wanted == "whole");
        Self { every: if whole { 1 } else { every.max(1) }, ..self }
    }

    pub fn run<F>(&self, flow: F) -> io::Result<Report>
    where
        F: AsyncFn(Plan) -> Finished,
    {
        let start = Instant::now();
        let calm = paused(flow(Plan::seeded(self.seed)))?;
        let boundaries = calm.recording.to_sweep(calm.swept_from, self.repeats);
        let mut report = Report {
            name: self.name.clone(),
            boundaries: boundaries.len(),
            runs: 1,
            whole: 1,
            elapsed: Duration::ZERO,
            failures: Vec::new(),
            recording: calm.recording.clone(),
        };
        report.failures.extend(judge(None, self.seed, calm));
        if report.failures.is_empty() {
            for (class, boundary) in boundaries {
                for fault in (self.faults)(class, &boundary) {
                    report.whole += 1;
                    if !(report.whole - 2).is_multiple_of(self.every) {
                        continue;
                    }
                    let plan = Plan::seeded(self.seed).fault_at(boundary.clone(), fault.clone());
                    let finished = paused(flow(plan))?;
                    report.runs += 1;
                    report.failures.extend(judge(Some((boundary.clone(), fault)), self.seed, finished));
                }
            }
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }
}

/// Runs a future on a runtime of its own whose time is virtual.
pub fn paused<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(future))
}

fn judge(at: Option<(Boundary, Fault)>, seed: u64, finished: Finished) -> Option<Failure> {
    let mut goal = finished.goal.err();
    if at.is_some() && finished.ruled == 0 && goal.is_none() {
        goal = Some("the boundary was not reached: two runs with the same seed differ".to_owned());
    }
    if goal.is_none() && finished.violations.is_empty() {
        return None;
    }
    let tail = last_lines(&finished.trace);
    Some(Failure { at, seed, goal, violations: finished.violations, tail })
}

/// Every fault that can happen to a call of this class.
pub fn all_faults(class: Class, boundary: &Boundary) -> Vec<Fault> {
    let seconds = Duration::from_secs;
    let answer = |status, after_effect| Fault::Answer { status, after_effect };
    let page = |status, after_effect| Fault::Page { status, after_effect };
    let mut faults = vec![
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::Refused,
        Fault::TimeoutBefore,
        Fault::Dead,
        Fault::Delay(seconds(3)),
        answer(429, false),
        answer(500, false),
        answer(503, false),
        Fault::Stall(seconds(120)),
        answer(403, false),
        page(200, false),
        page(502, false),
    ];
    match class {
        Class::Effect | Class::Lease => {
            faults.extend([
                Fault::TimeoutAfter,
                Fault::Duplicate,
                // Arrives after most callers have given up.
                Fault::Delay(seconds(12)),
                answer(500, true),
                answer(503, true),
                // Somebody else was faster, at the object itself or at a quota that counts it.
                answer(409, false),
                page(200, true),
                page(502, true),
            ]);
            // Whoever sends a lost request again on the way gets told that what it asks for is taken. An API server
            // answers like that by itself, see `Duplicate`.
            if !boundary.template.starts_with("/api") {
                faults.push(answer(409, true));
            }
        }
        Class::Read => {}
        Class::CachedRead => faults.extend((1..=3).map(Fault::Behind)),
        Class::Watch => {
            faults.push(answer(410, false));
            let breaks = [
                Break::Close,
                Break::Reset,
                Break::Gone,
                Break::Dead,
                Break::Skip(seconds(20)),
                Break::Behind { revisions: 1, lasts: seconds(4) },
                Break::Behind { revisions: 2, lasts: seconds(4) },
                Break::Behind { revisions: 3, lasts: seconds(4) },
            ];
            // Later watches are those after a reconnect: they see little, and what they see is alike.
            let last = if boundary.nth == 1 { 4 } else { 0 };
            for after in 0..=last {
                faults.extend(breaks.iter().map(|then| Fault::Watch { after, then: then.clone() }));
            }
        }
    }
    faults
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((boundary, fault)) => writeln!(f, "at {boundary}: {fault} (seed {})", self.seed)?,
            None => writeln!(f, "without any fault (seed {})", self.seed)?,
        }
        if let Some(goal) = &self.goal {
            writeln!(f, "  goal not reached: {goal}")?;
        }
        for violation in &self.violations {
            writeln!(f, "  violated after {}: {}", violation.after, violation.message)?;
        }
        for line in self.tail.lines() {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "only shown")]
        let rate = self.runs as f64 / self.elapsed.as_secs_f64().max(1e-9);
        let of_all = if self.whole > self.runs { format!(" of {}", self.whole) } else { String::new() };
        writeln!(
            f,
            "sweep {}: {} boundaries, {}{of_all} runs, {rate:.0} runs/s, {} failed",
            self.name,
            self.boundaries,
            self.runs,
            self.failures.len()
        )?;
        for failure in self.failures.iter().take(3) {
            write!(f, "{failure}")?;
        }
        if self.failures.len() > 3 {
            writeln!(f, "and at:")?;
            for (boundary, fault) in self.failures.iter().skip(3).filter_map(|failure| failure.at.as_ref()) {
                writeln!(f, "  {boundary}: {fault}")?;
            }
        }
        Ok(())
    }
}
