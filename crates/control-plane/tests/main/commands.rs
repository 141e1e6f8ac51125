//! `cargo xtask control-plane` as a person uses it.

use crate::stage::{Directory, supervisor};
use std::process::{Command, Output};

fn control_plane(arguments: &[&str]) -> Command {
    let mut command = Command::new(supervisor());
    command.args(arguments);
    command
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_there_is_not_built_again() {
    let output = control_plane(&["build", "etcd", "kube-apiserver"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(&output).0, "all 2 are there\n");
}

#[test]
fn a_machine_without_go_is_told_what_to_install() {
    let empty = Directory::new();
    let output = control_plane(&["build", "etcd"])
        .env("PATH", empty.path())
        .env("HOSTLER_CACHE_DIR", empty.path())
        .output()
        .unwrap();
    let (stdout, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(stdout, "");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("Go is not installed") && stderr.contains("install Go 1.26.2"), "{stderr}");
}

#[test]
fn a_build_that_fails_leaves_nothing_that_looks_built() {
    let empty = Directory::new();
    let go = empty.path().join("go");
    let calls = empty.path().join("calls");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = version ] || {{ echo $1 >>{}; echo 'Get \"https://x\": no network' >&2; exit 1; }}\n",
        calls.display()
    );
    std::fs::write(&go, script).unwrap();
    std::fs::set_permissions(&go, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", empty.path().display());
        control_plane(arguments).env("PATH", path).env("HOSTLER_CACHE_DIR", empty.path()).output().unwrap()
    };
    let output = run(&["build", "etcd"]);
    let (_, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("etcd cannot be built") && stderr.contains("no network"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "build\n".repeat(3), "a network may come back");
    let (_, stderr) = said(&run(&["path", "etcd"]));
    assert_eq!(stderr, "etcd is not built yet: cargo xtask control-plane build etcd\n");
}

#[test]
fn unknown_binaries_and_full_directories_are_told() {
    let output = control_plane(&["build", "etdc"]).output().unwrap();
    let (_, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.starts_with("there is no binary \"etdc\", there are etcd, kube-apiserver"), "{stderr}");
    let full = Directory::new();
    std::fs::write(full.path().join("file"), "").unwrap();
    let output = control_plane(&["up", "--dir"]).arg(full.path()).output().unwrap();
    let (_, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.ends_with("is not empty: give an empty directory with --dir\n"), "{stderr}");
}
