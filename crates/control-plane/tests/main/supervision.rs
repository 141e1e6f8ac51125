//! Nothing outlives the one that started it.

use crate::stage::{Directory, supervisor};
use hostler_control_plane::Program;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(60);

pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// The processes that have this in their command line.
pub fn processes(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) {
            found.push(line);
        }
    }
    found
}

/// A shell that starts a child, ignores polite requests, and says that it is there.
fn stubborn(directory: &Path, mark: &str) -> String {
    let file = directory.join("ready");
    format!("trap '' TERM; sh -c 'sleep 1000; : {mark}' & touch {}; wait; wait", file.display())
}

#[test]
fn a_process_ends_with_its_owner_and_its_children_with_it() {
    let directory = Directory::new();
    let mark = uuid::Uuid::new_v4().to_string();
    let program =
        Program::new("shell", "/bin/sh").arg("-c").arg(stubborn(directory.path(), &mark)).without_grace();
    let process = program.start(&supervisor(), directory.path()).unwrap();
    wait_for("the shell runs", || directory.path().join("ready").exists());
    // The supervisor, the shell and the shell's own child.
    wait_for("the child runs", || processes(&mark).len() == 3);
    drop(process);
    wait_for("nothing is left", || processes(&mark).is_empty());
}

/// Gives what the command lines of everything in this directory have in them.
fn until_the_api_server_runs(home: &Path) -> String {
    let mark = home.to_string_lossy().into_owned();
    wait_for("the API server runs", || processes(&mark).iter().any(|line| line.contains("kube-apiserver")));
    mark
}

fn start_plane(home: &Path, input: Stdio) -> std::process::Child {
    let up = Command::new(supervisor())
        .args(["up", "--bare", "--until-eof", "--dir"])
        .arg(home)
        .stdin(input)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mark = until_the_api_server_runs(home);
    for part in ["supervise", "etcd"] {
        assert!(processes(&mark).iter().any(|process| process.contains(part)));
    }
    up
}

#[test]
fn a_control_plane_ends_when_its_owner_is_gone() {
    let directory = Directory::new();
    let home = directory.path().join("plane");
    let mut up = start_plane(&home, Stdio::piped());
    // However an owner ends, its end of the pipe is closed.
    drop(up.stdin.take());
    assert!(up.wait().unwrap().success());
    wait_for("nothing is left", || processes(&home.to_string_lossy()).is_empty());
}

#[test]
fn what_belongs_to_a_control_plane_ends_when_it_is_killed() {
    let directory = Directory::new();
    let home = directory.path().join("plane");
    let mut up = start_plane(&home, Stdio::piped());
    up.kill().unwrap();
    up.wait().unwrap();
    wait_for("nothing is left", || processes(&home.to_string_lossy()).is_empty());
}

#[test]
fn ctrl_c_ends_a_control_plane_and_all_that_belongs_to_it() {
    let directory = Directory::new();
    let home = directory.path().join("plane");
    let mut up = Command::new(supervisor())
        .args(["up", "--bare", "--dir"])
        .arg(&home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mark = until_the_api_server_runs(&home);
    assert!(Command::new("kill").args(["-INT", &up.id().to_string()]).status().unwrap().success());
    assert!(up.wait().unwrap().success());
    wait_for("nothing is left", || processes(&mark).is_empty());
    assert!(home.join("kube-apiserver.log").exists(), "a directory of the user's is kept");
}

#[test]
fn a_control_plane_ends_with_the_shell_that_started_it() {
    let directory = Directory::new();
    let home = directory.path().join("plane");
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" up --bare --dir \"$1\" & wait"])
        .arg(supervisor())
        .arg(&home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mark = until_the_api_server_runs(&home);
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_for("nothing is left", || processes(&mark).is_empty());
}

/// What is called `go` here says that it is there and never ends.
fn endless_go(directory: &Path) {
    let go = directory.join("go");
    let started = directory.join("started");
    let script =
        format!("#!/bin/sh\n[ \"$1\" = version ] && exit 0\ntouch {}\nsleep 1000\n", started.display());
    fs::write(&go, script).unwrap();
    fs::set_permissions(&go, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_build_ends_with_whoever_asked_for_it() {
    for command in [&["build", "etcd"][..], &["up", "--bare"]] {
        let directory = Directory::new();
        endless_go(directory.path());
        let mut building = Command::new(supervisor())
            .args(command)
            .env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()))
            .env("HOSTLER_CACHE_DIR", directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mark = directory.path().to_string_lossy().into_owned();
        wait_for("Go runs", || directory.path().join("started").exists());
        assert!(!processes(&mark).is_empty());
        building.kill().unwrap();
        building.wait().unwrap();
        wait_for("nothing is left", || processes(&mark).is_empty());
    }
}
