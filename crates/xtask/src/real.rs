//! `cargo xtask test real`: what Hostler claims, on the real things.

use crate::{
    guard::{guarded, status_of},
    suite::{Binary, Built, REAL, Tally, build, count, report, run_binary},
};
use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// What the tests use of everything that can be built.
const NEEDED: [&str; 9] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "machine-controller-manager",
    "cluster-api",
    "kubeadm-bootstrap",
    "kubeadm-control-plane",
];
/// The exit code that tells of a machine without Go.
const NO_GO: i32 = 3;
/// The tests that use kubectl.
const STORIES: [&str; 3] = ["nodes::", "objects::", "workloads::"];

pub fn run(names: &[&str]) -> Result<(), String> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let built = build(&["--features", REAL])?;
    let program = built.program("hostler-control-plane")?;
    let (judged, stories) = (test(&built, "control-plane")?, test(&built, "hostler")?);
    let status = status_of(guarded(&program).arg("build").args(NEEDED))
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if !is_built(status.code(), env::var_os("CI").is_some())? {
        // The stories are played twice, but only when nobody picks tests by name.
        let played = if names.is_empty() { 2 * count(&stories, &STORIES) } else { 0 };
        let left_out = count(&judged, names) + played;
        println!(
            "left out: {left_out} tests on a real control plane (one of them runs all conformance cases), since there is no Go to build it with"
        );
        return Ok(());
    }
    let kubectl = path(&program, "kubectl")?;
    let plane = Plane::start(&program)?;
    println!("✓ a control plane is up");
    let on_it = [
        ("HOSTLER_REAL_KUBECONFIG", plane.kubeconfig.clone().into()),
        ("HOSTLER_BINARY", built.program("hostler")?.into()),
    ];
    run_binary(&judged, names, &on_it, &mut tally)?;
    plane.end();
    if names.is_empty() {
        if installed_kubectl().is_none() {
            tally.remarks.push("kubectl is not installed: only the built one was used".to_owned());
        }
        let with_new = [("HOSTLER_KUBECTL", kubectl.clone().into())];
        let named = stories.called("kubectl as built, on the embedded server");
        run_binary(&named, &STORIES, &with_new, &mut tally)?;
        let every = env::join_paths([kubectl].into_iter().chain(installed_kubectl()))
            .map_err(|error| format!("the path of kubectl: {error}"))?;
        let beside = [("HOSTLER_KUBECTL", every), ("HOSTLER_CONTROL_PLANE", program.clone().into())];
        run_binary(&stories.called("every kubectl on kube-apiserver"), &STORIES, &beside, &mut tally)?;
    }
    report(&tally, start)
}

/// Whether the tests can run, by the exit code of the build. A machine without Go is no failure, unless it is there
/// to test.
fn is_built(code: Option<i32>, ci: bool) -> Result<bool, String> {
    match code {
        Some(0) => Ok(true),
        Some(NO_GO) if ci => {
            Err("✗ CI is set and there is no Go to build the real control plane with: install it".to_owned())
        }
        Some(NO_GO) => Ok(false),
        _ => Err("✗ the real control plane does not build".to_owned()),
    }
}

fn test(built: &Built, package: &str) -> Result<Binary, String> {
    let label = format!("{package} (integration)");
    let found = built.tests.iter().find(|binary| binary.label == label);
    found.cloned().ok_or_else(|| format!("✗ cargo built no tests of {package}"))
}

fn path(program: &Path, name: &str) -> Result<PathBuf, String> {
    let output = Command::new(program).args(["path", name]).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().next().map(PathBuf::from);
    found.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn installed_kubectl() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join("kubectl")).find(|file| file.is_file())
}

/// A running control plane; it ends when this process does.
struct Plane {
    child: Child,
    kubeconfig: PathBuf,
}

impl Plane {
    fn start(program: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(["up", "--until-eof"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a control plane without output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let kubeconfig = lines.find_map(|line| line.strip_prefix("export KUBECONFIG=").map(PathBuf::from));
        kubeconfig
            .map(|kubeconfig| Self { child, kubeconfig })
            .ok_or_else(|| "✗ the control plane does not start".to_owned())
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        // What it says at the end is not needed.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_go_leaves_the_tests_out_and_is_a_failure_where_ci_is_set() {
        assert_eq!((is_built(Some(0), false), is_built(Some(0), true)), (Ok(true), Ok(true)));
        assert_eq!(is_built(Some(NO_GO), false), Ok(false));
        assert!(
            is_built(Some(NO_GO), true).is_err_and(|why| why.contains("CI is set") && why.contains("Go"))
        );
        for code in [Some(1), None] {
            assert!(is_built(code, false).is_err() && is_built(code, true).is_err());
        }
    }
}
