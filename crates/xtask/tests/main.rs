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

/// A directory with a cargo that writes down its process and that of a child, and then takes for ever.
struct EndlessCargo(PathBuf);

impl EndlessCargo {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let script = format!(
            "#!/bin/sh\nsleep 1000 &\necho \"$$ $!\" >{0}/draft\nmv {0}/draft {0}/started\nwait\n",
            directory.display()
        );
        fs::write(directory.join("cargo"), script).unwrap();
        fs::set_permissions(directory.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    fn processes(&self) -> Vec<String> {
        let started = wait_for("cargo runs", || fs::read_to_string(self.0.join("started")).ok());
        started.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for EndlessCargo {
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
    // Not an interrupt: whoever runs tests in the background of a shell has them ignored.
    for signal in ["KILL", "TERM"] {
        for chore in ["test", "bench"] {
            let cargo = EndlessCargo::new(&format!("{chore}-{signal}"));
            let mut xtask = Command::new(XTASK)
                .arg(chore)
                .env("CARGO", cargo.0.join("cargo"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let processes = cargo.processes();
            assert!(processes.iter().all(|process| runs(process)), "{processes:?}");
            let kill = format!("kill -{signal} {}", xtask.id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            assert!(!xtask.wait().unwrap().success());
            wait_for("all have ended", || (!processes.iter().any(|process| runs(process))).then_some(()));
        }
    }
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
