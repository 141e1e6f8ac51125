//! `cargo xtask test`: formatting, lints, every test, and what took longest.

use crate::{
    lines,
    steps::{cargo, is_there, step},
};
use std::{
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

/// How a test binary is run.
#[derive(Default)]
pub struct Runner {
    /// Runs it as a command of this program, so that it ends when we do, however that comes.
    pub supervisor: Option<PathBuf>,
    pub environment: Vec<(&'static str, OsString)>,
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
    pub notes: Vec<String>,
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
            tally
                .notes
                .push("cargo-deny is not installed: bans, licenses and sources were not checked".to_owned());
        }
    }
    for binary in build(&[])?.tests {
        run_binary(&binary, names, &Runner::default(), &mut tally)?;
    }
    report(&tally, start)
}

pub fn build(more: &[&str]) -> Result<Built, String> {
    println!("… building tests");
    let start = Instant::now();
    let output = cargo()
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics", "--quiet"])
        .args(more)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
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

pub fn run_binary(binary: &Binary, names: &[&str], runner: &Runner, tally: &mut Tally) -> Result<(), String> {
    let start = Instant::now();
    let mut command = match &runner.supervisor {
        None => Command::new(&binary.executable),
        Some(supervisor) => {
            let mut command = Command::new(supervisor);
            command
                .args(["supervise", "--grace-millis", "0", "--"])
                .arg(&binary.executable)
                .stdin(Stdio::piped());
            command
        }
    };
    let mut child = telling(&mut command)
        .args(names)
        .current_dir(&binary.directory)
        .env("CARGO_MANIFEST_DIR", &binary.directory)
        .envs(runner.environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", binary.executable.display()))?;
    let (passed, failed) = (tally.passed, tally.failed.len());
    let output = child.stdout.take().ok_or("a test binary without output")?;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("reading from {}: {error}", binary.label))?;
        read(&line, &binary.label, tally);
    }
    let status = child.wait().map_err(|error| format!("waiting for {}: {error}", binary.label))?;
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
    for (_, note) in output.lines().filter_map(|text| text.split_once("SKIPPED: ")) {
        tally.notes.push(note.to_owned());
    }
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

/// How many tests a binary has whose names contain one of these.
pub fn count(binary: &Binary, names: &[&str]) -> usize {
    let listed = Command::new(&binary.executable).arg("--list").args(names).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.lines().filter(|line| line.ends_with(": test")).count()
}

pub fn report(tally: &Tally, start: Instant) -> Result<(), String> {
    let mut times = tally.times.clone();
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nthe slowest tests:");
    for (seconds, name) in times.iter().take(10) {
        println!("  {seconds:7.2} s  {name}");
    }
    let mut notes = tally.notes.clone();
    notes.sort();
    notes.dedup();
    for note in &notes {
        println!("left out: {note}");
    }
    for name in &tally.failed {
        println!("failed: {name}");
    }
    println!("all of it took {:.0} s", start.elapsed().as_secs_f64());
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed.len(), tally.ignored);
    if !tally.failed.is_empty() {
        return Err("✗ some tests failed".to_owned());
    }
    if env::var_os("CI").is_some() && notes.iter().any(|note| note.contains("kubectl")) {
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
        assert_eq!((tally.passed, tally.notes), (1, vec!["kubectl not found".to_owned()]));
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
        assert_eq!(tally.notes, ["kubectl not found"]);
    }
}
