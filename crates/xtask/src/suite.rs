//! `cargo xtask test`: formatting, lints, every test, and what took longest.

use crate::{
    guard::{self, guarded, output_of},
    lines,
    steps::{cargo, is_there, step},
};
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// The feature with the tests on a real control plane: linted always, built only where they run.
pub const REAL: &str = "hostler-control-plane/real";

/// A compiled test binary and the package it belongs to.
#[derive(Clone)]
pub struct Binary {
    pub label: String,
    executable: PathBuf,
    directory: PathBuf,
}

impl Binary {
    /// The same under another name, for another way of running it.
    pub fn called(&self, label: &str) -> Self {
        Self { label: label.to_owned(), ..self.clone() }
    }
}

/// What cargo has built.
pub struct Built {
    pub tests: Vec<Binary>,
    programs: Vec<(String, PathBuf)>,
}

impl Built {
    /// A binary that the tests run.
    pub fn program(&self, name: &str) -> Result<PathBuf, String> {
        let found = self.programs.iter().find(|(known, _)| known == name);
        found.map(|(_, path)| path.clone()).ok_or_else(|| format!("✗ cargo built no {name}"))
    }
}

#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: Vec<String>,
    ignored: usize,
    times: Vec<(f64, String)>,
    /// Why tests were left out, and how many for each reason.
    left_out: BTreeMap<String, usize>,
    /// What was not looked at and is no test.
    pub remarks: Vec<String>,
    /// What tests counted: boundaries of sweeps, calls per machine.
    counted: Vec<String>,
}

/// A line of a test's output that begins so is told at the end.
const COUNTS: [&str; 5] =
    ["sweep ", "killed at ", "1000 machines", "scheduler and planner on ", "small cases: "];

fn counts(line: &str) -> bool {
    // What a sweep found wrong is either shown by the test that fails, or it was to be found.
    let found = line.starts_with("sweep ") && !line.ends_with(" 0 failed");
    COUNTS.iter().any(|start| line.starts_with(start)) && !found
}

pub fn run(names: &[&str]) -> Result<(), String> {
    let start = Instant::now();
    let mut tally = Tally::default();
    if names.is_empty() {
        step("formatting", cargo().args(["fmt", "--all", "--check"]))?;
        let lints =
            ["clippy", "--workspace", "--all-targets", "--features", REAL, "--quiet", "--", "-D", "warnings"];
        step("lints", cargo().args(lints))?;
        let production =
            ["clippy", "--package", "hostler", "--no-default-features", "--quiet", "--", "-D", "warnings"];
        step("the binary without the playground", cargo().args(production))?;
        if is_there(cargo().args(["deny", "--version"])) {
            step("dependencies", cargo().args(["deny", "check", "bans", "licenses", "sources"]))?;
        } else {
            let remark = "cargo-deny is not installed: bans, licenses and sources were not checked";
            tally.remarks.push(remark.to_owned());
        }
    }
    for binary in build(&[])?.tests {
        run_binary(&binary, names, &[], &mut tally)?;
    }
    report(&tally, start)
}

/// The names of tests that sweep have this word in them.
const SWEEPS: &str = "survive";

/// Sweeps with nothing left out: all of them, or those with one of the names.
pub fn run_long(names: &[&str]) -> Result<(), String> {
    let (start, mut tally) = (Instant::now(), Tally::default());
    let names = if names.is_empty() { &[SWEEPS] } else { names };
    for binary in build(&[])?.tests {
        run_binary(&binary, names, &[("HOSTLER_SWEEPS", "whole".into())], &mut tally)?;
    }
    report(&tally, start)
}

pub fn build(more: &[&str]) -> Result<Built, String> {
    println!("… building tests");
    let start = Instant::now();
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics", "--quiet"])
        .args(more)
        .stdout(Stdio::piped());
    let output = output_of(&mut command).map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("✗ the tests do not build".to_owned());
    }
    let artifacts = String::from_utf8_lossy(&output.stdout);
    let mut tests: Vec<Binary> = artifacts.lines().filter_map(binary).collect();
    tests.sort_by(|a, b| a.label.cmp(&b.label));
    println!("✓ building tests ({:.1} s)", start.elapsed().as_secs_f64());
    if tests.is_empty() {
        return Err("✗ cargo built no test binary".to_owned());
    }
    Ok(Built { tests, programs: artifacts.lines().filter_map(program).collect() })
}

/// The name and path of a binary that is no test.
fn program(line: &str) -> Option<(String, PathBuf)> {
    let profile = line.split_once("\"profile\":")?.1;
    if lines::text(line, "reason")? != "compiler-artifact" || lines::is_true(profile, "test") {
        return None;
    }
    let name = line.split_once("\"target\":").and_then(|(_, rest)| lines::text(rest, "name"))?;
    Some((name, PathBuf::from(lines::text(line, "executable")?)))
}

fn binary(line: &str) -> Option<Binary> {
    // A target has a field of the same name, which says that it could be tested.
    let profile = line.split_once("\"profile\":")?.1;
    if lines::text(line, "reason")? != "compiler-artifact" || !lines::is_true(profile, "test") {
        return None;
    }
    let executable = PathBuf::from(lines::text(line, "executable")?);
    let directory = Path::new(&lines::text(line, "manifest_path")?).parent()?.to_owned();
    let package = directory.file_name()?.to_string_lossy().into_owned();
    let target = line.split_once("\"target\":").and_then(|(_, rest)| lines::text(rest, "name"))?;
    let label = if target == "main" { format!("{package} (integration)") } else { package };
    Some(Binary { label, executable, directory })
}

/// Variables that tests find in their environment.
pub type Environment = [(&'static str, OsString)];

pub fn run_binary(
    binary: &Binary,
    names: &[&str],
    environment: &Environment,
    tally: &mut Tally,
) -> Result<(), String> {
    let start = Instant::now();
    let mut command = guarded(&binary.executable);
    telling(&mut command)
        .args(names)
        .current_dir(&binary.directory)
        .env("CARGO_MANIFEST_DIR", &binary.directory)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped());
    let mut child = guard::start(&mut command)
        .map_err(|error| format!("cannot start {}: {error}", binary.executable.display()))?;
    let pipe = child.stdin.take();
    let (passed, failed) = (tally.passed, tally.failed.len());
    let output = child.stdout.take().ok_or("a test binary without output")?;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("reading from {}: {error}", binary.label))?;
        read(&line, &binary.label, tally);
    }
    let status = child.wait().map_err(|error| format!("waiting for {}: {error}", binary.label))?;
    drop(pipe);
    let (passed, failed) = (tally.passed - passed, tally.failed.len() - failed);
    if !status.success() && failed == 0 {
        tally.failed.push(format!("{}: the test binary ended with {status}", binary.label));
    }
    if passed + failed > 0 {
        let mark = if status.success() { '✓' } else { '✗' };
        let seconds = start.elapsed().as_secs_f64();
        println!("{mark} {}: {passed} passed, {failed} failed ({seconds:.1} s)", binary.label);
    }
    Ok(())
}

/// Lets a test binary tell of each test how it ended, how long it took and what it printed.
fn telling(command: &mut Command) -> &mut Command {
    command.args(["-Z", "unstable-options", "--format", "json", "--report-time", "--show-output"]);
    // A stable test binary does that only so.
    command.env("RUSTC_BOOTSTRAP", "1")
}

fn read(line: &str, label: &str, tally: &mut Tally) {
    if !line.starts_with('{') || lines::text(line, "type").as_deref() != Some("test") {
        return;
    }
    let Some(name) = lines::text(line, "name") else { return };
    let name = format!("{label}: {name}");
    let output = lines::text(line, "stdout").unwrap_or_default();
    for (_, reason) in output.lines().filter_map(|text| text.split_once("SKIPPED: ")) {
        *tally.left_out.entry(reason.to_owned()).or_default() += 1;
    }
    tally.counted.extend(output.lines().filter(|text| counts(text)).map(|text| format!("{label}: {text}")));
    match lines::text(line, "event").as_deref() {
        Some("ok") => tally.passed += 1,
        Some("ignored") => tally.ignored += 1,
        Some("timeout") => {
            println!("… {name} takes long");
            return;
        }
        Some("failed") => {
            println!("✗ {name}\n{output}");
            tally.failed.push(name.clone());
        }
        _ => return,
    }
    if let Some(seconds) = lines::number(line, "exec_time") {
        tally.times.push((seconds, name));
    }
}

/// The tests of a binary whose names contain one of these.
pub fn list(binary: &Binary, names: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new(&binary.executable).arg("--list").args(names).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", binary.executable.display()))?;
    if !output.status.success() {
        return Err(format!("✗ {} does not list its tests", binary.label));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// The number that a test of this name prints behind a word.
pub fn told(binary: &Binary, test: &str, word: &str) -> Result<usize, String> {
    let output = Command::new(&binary.executable).args(["--exact", test, "--nocapture"]).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", binary.executable.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("✗ {test} of {} does not say {word}", binary.label))
}

pub fn report(tally: &Tally, start: Instant) -> Result<(), String> {
    let mut times = tally.times.clone();
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nthe slowest tests:");
    for (seconds, name) in times.iter().take(10) {
        println!("  {seconds:7.2} s  {name}");
    }
    for line in counted(tally) {
        println!("{line}");
    }
    for line in left_out(tally) {
        println!("{line}");
    }
    for name in &tally.failed {
        println!("failed: {name}");
    }
    println!("all of it took {:.0} s", start.elapsed().as_secs_f64());
    let skipped = tally.ignored + tally.left_out.values().sum::<usize>();
    // Whoever leaves itself out has passed all the same, as far as the test binary knows.
    let passed = tally.passed.saturating_sub(skipped - tally.ignored);
    println!("{passed} passed, {} failed, {skipped} skipped", tally.failed.len());
    verdict(tally, env::var_os("CI").is_some())
}

/// What tests counted, in the order of its text, whoever ended first.
fn counted(tally: &Tally) -> Vec<String> {
    let mut lines: Vec<String> = tally.counted.iter().map(|line| format!("  {line}")).collect();
    lines.sort();
    if !lines.is_empty() {
        lines.insert(0, "what was counted:".to_owned());
    }
    lines
}

/// What was left out, with the number of tests.
fn left_out(tally: &Tally) -> Vec<String> {
    let tests = |count: usize| if count == 1 { "1 test".to_owned() } else { format!("{count} tests") };
    let counted =
        tally.left_out.iter().map(|(reason, count)| format!("left out: {}: {reason}", tests(*count)));
    counted.chain(tally.remarks.iter().map(|remark| format!("left out: {remark}"))).collect()
}

fn verdict(tally: &Tally, ci: bool) -> Result<(), String> {
    if !tally.failed.is_empty() {
        return Err("✗ some tests failed".to_owned());
    }
    if ci && tally.left_out.keys().chain(&tally.remarks).any(|reason| reason.contains("kubectl")) {
        return Err("✗ tests were left out that must run where CI is set".to_owned());
    }
    if tally.passed == 0 {
        return Err("✗ no test ran".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_told_from_other_artifacts() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/base/Cargo.toml","target":{{"kind":["lib"],"name":"hostler_base","test":true}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = binary(&line(true, r#""/t/base-1""#)).unwrap();
        assert_eq!((found.label.as_str(), found.executable.to_str()), ("base", Some("/t/base-1")));
        assert!(binary(&line(false, r#""/t/base-1""#)).is_none());
        assert!(binary(&line(true, "null")).is_none());
    }

    const PROBE: &str = "HOSTLER_XTASK_PROBE";

    #[test]
    fn probe() {
        if env::var_os(PROBE).is_some() {
            println!("SKIPPED: kubectl not found");
        }
    }

    #[test]
    fn a_test_that_passes_can_say_that_it_was_left_out() {
        let mut command = Command::new(env::current_exe().unwrap());
        telling(&mut command);
        let output = command.args(["--exact", "suite::tests::probe"]).env(PROBE, "1").output().unwrap();
        let mut tally = Tally::default();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            read(line, "x", &mut tally);
        }
        assert_eq!(
            (tally.passed, left_out(&tally)),
            (1, vec!["left out: 1 test: kubectl not found".to_owned()])
        );
    }

    #[test]
    fn what_is_left_out_is_counted_and_must_not_be_where_ci_is_set() {
        let mut tally =
            Tally { passed: 5, remarks: vec!["cargo-deny is not installed".to_owned()], ..Tally::default() };
        assert_eq!((verdict(&tally, false), verdict(&tally, true)), (Ok(()), Ok(())));
        for name in ["a", "b", "c"] {
            let line = format!(
                r#"{{ "type": "test", "name": "{name}", "event": "ok", "stdout": "SKIPPED: kubectl not found\n" }}"#
            );
            read(&line, "x", &mut tally);
        }
        let told = ["left out: 3 tests: kubectl not found", "left out: cargo-deny is not installed"];
        assert_eq!(left_out(&tally), told);
        assert!(verdict(&tally, false).is_ok());
        assert!(verdict(&tally, true).is_err_and(|why| why.contains("CI is set")));
        tally.failed.push("d".to_owned());
        assert!(verdict(&tally, false).is_err());
        assert!(verdict(&Tally::default(), false).is_err_and(|why| why.contains("no test ran")));
    }

    #[test]
    fn what_tests_count_is_told_though_they_pass() {
        let mut tally = Tally::default();
        for (name, output) in [
            ("b", r"sweep one life: 70 boundaries, 1200 runs, 17 runs/s, 0 failed\n\nnoise of a sweep\n"),
            ("a", r"1000 machines up and down: 3.1 cloud calls each\nand more\n"),
            ("c", r"killed at 23 boundaries, nothing lost\n"),
            ("d", r"sweep a wrong one: 3 boundaries, 9 runs, 5 runs/s, 2 failed\nat x\n"),
        ] {
            let line =
                format!(r#"{{ "type": "test", "name": "{name}", "event": "ok", "stdout": "{output}" }}"#);
            read(&line, "x", &mut tally);
        }
        assert_eq!(
            counted(&tally),
            [
                "what was counted:",
                "  x: 1000 machines up and down: 3.1 cloud calls each",
                "  x: killed at 23 boundaries, nothing lost",
                "  x: sweep one life: 70 boundaries, 1200 runs, 17 runs/s, 0 failed",
            ]
        );
        assert_eq!(counted(&Tally::default()), [""; 0]);
    }

    #[test]
    fn results_are_counted() {
        let mut tally = Tally::default();
        for line in [
            r#"{ "type": "suite", "event": "started", "test_count": 3 }"#,
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5, "stdout": "SKIPPED: kubectl not found\n" }"#,
            r#"{ "type": "test", "name": "b", "event": "failed", "exec_time": 2.0, "stdout": "why" }"#,
            r#"{ "type": "test", "name": "c", "event": "ignored" }"#,
            "noise",
        ] {
            read(line, "x", &mut tally);
        }
        assert_eq!((tally.passed, tally.failed.len(), tally.ignored), (1, 1, 1));
        assert_eq!(tally.times, [(0.5, "x: a".to_owned()), (2.0, "x: b".to_owned())]);
        assert_eq!(left_out(&tally), ["left out: 1 test: kubectl not found"]);
    }
}
