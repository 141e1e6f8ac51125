//! Chores as a person starts them, and ends them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const XTASK: &str = env!("CARGO_BIN_EXE_hostler-xtask");
const PATIENCE: Duration = Duration::from_secs(120);

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A directory with programs that are scripts; some write down their processes.
struct Scripts(PathBuf);

impl Scripts {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn add(self, name: &str, script: &str) -> Self {
        let file = self.0.join(name);
        fs::write(&file, format!("#!/bin/sh\nhome={}\n{script}\n", self.0.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A cargo that takes for ever, and has a child that does.
    fn endless_cargo(self) -> Self {
        self.add("cargo", &format!("{ENDLESS} >>$home/started; wait"))
    }

    /// A cargo that has built what `test real` uses: a control plane whose build ends with this code, and tests that
    /// take for ever.
    fn built(self, code: u8) -> Self {
        let artifact = |package: &str, target: &str, test: bool, file: &str| {
            let home = self.0.display();
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{home}/crates/{package}/Cargo.toml","target":{{"name":"{target}"}},"profile":{{"test":{test}}},"executable":"{home}/{file}"}}"#
            )
        };
        let artifacts = [
            artifact("control-plane", "hostler-control-plane", false, "plane"),
            artifact("hostler", "hostler", false, "hostler"),
            artifact("control-plane", "main", true, "tests"),
            artifact("hostler", "main", true, "tests"),
        ];
        for package in ["control-plane", "hostler"] {
            fs::create_dir_all(self.0.join("crates").join(package)).unwrap();
        }
        let plane = format!(
            "case $1 in build) exit {code};; up) echo $$ >>$home/started; echo export KUBECONFIG=/nowhere; \
             case \"$*\" in *--until-eof*) exec cat;; *) exec sleep 1000;; esac;; esac"
        );
        let tests = format!(
            "case \"$*\" in *--list*) echo 'conformance::a: test'; echo 'nodes::b: test';; *--exact*) echo 'CASES: 437';; \
             *) {ENDLESS} >>$home/started; wait;; esac"
        );
        let cargo = artifacts.map(|line| format!("echo '{line}'")).join("\n");
        self.add("cargo", &cargo).add("plane", &plane).add("tests", &tests).add("hostler", "exit 0")
    }

    fn xtask(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(XTASK);
        command.args(arguments).env("CARGO", self.0.join("cargo")).env_remove("CI");
        command
    }

    /// So many processes, as soon as they are there.
    fn processes(&self, number: usize) -> Vec<String> {
        wait_for("all have started", || {
            let started = fs::read_to_string(self.0.join("started")).ok()?;
            let processes: Vec<String> = started.split_whitespace().map(str::to_owned).collect();
            (started.ends_with('\n') && processes.len() == number).then_some(processes)
        })
    }
}

const ENDLESS: &str = "sleep 1000 & echo $$ $!";

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a process runs; one that nobody has asked about since it ended does not.
fn runs(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

#[test]
fn a_chore_that_is_killed_leaves_nothing_behind() {
    // A control plane and a test with its child; otherwise a cargo with its child.
    let chores: [(&[&str], usize); 3] = [(&["test"], 2), (&["bench"], 2), (&["test", "real"], 3)];
    // Not an interrupt: whoever runs tests in the background of a shell has them ignored.
    for signal in ["KILL", "TERM"] {
        for (chore, number) in chores {
            let scripts = Scripts::new(&format!("{}-{signal}", chore.join("-")));
            let scripts = if number == 3 { scripts.built(0) } else { scripts.endless_cargo() };
            let mut xtask = scripts.xtask(chore).stdout(Stdio::null()).spawn().unwrap();
            let processes = scripts.processes(number);
            assert!(processes.iter().all(|process| runs(process)), "{chore:?}: {processes:?}");
            let kill = format!("kill -{signal} {}", xtask.id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            assert!(!xtask.wait().unwrap().success());
            wait_for("all have ended", || (!processes.iter().any(|process| runs(process))).then_some(()));
        }
    }
}

#[test]
fn without_go_it_is_told_what_is_left_out_and_where_ci_is_set_it_fails() {
    let scripts = Scripts::new("no-go").built(3);
    let output = scripts.xtask(&["test", "real"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    // Two tests on the control plane, and the stories on both servers.
    let told = "left out: 6 tests and 437 conformance cases on a real control plane, since there is no Go to build it with";
    assert_eq!(text.lines().last(), Some(told));
    let output = scripts.xtask(&["test", "real"]).env("CI", "true").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("CI is set and there is no Go"), "{output:?}");
}

#[test]
fn a_guarded_command_ends_as_it_would_alone() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let mut guard =
            Command::new(XTASK).args(["guard", "sh", "-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pipe = guard.stdin.take();
        assert_eq!(guard.wait().unwrap().code(), Some(code), "{script}");
        drop(pipe);
    }
    let output = Command::new(XTASK).args(["guard", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("/nowhere cannot be started"));
}
