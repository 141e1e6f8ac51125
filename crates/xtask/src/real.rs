//! `cargo xtask test real`: what Hostler claims, on the real things.

use crate::{
    guard::{guarded, status_of},
    steps::write_image,
    suite::{Binary, Built, REAL, Tally, build, list, report, run_binary, told},
};
use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// What every test uses.
const PLANE: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const GARDENER: &str = "machine-controller-manager";
const CLUSTER_API: [&str; 3] = ["cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane"];
const KUBECTL: &str = "kubectl";
const PROVIDER: &str = "stackit-machine-controller";
const OTHERS: [&str; 2] = ["clusterctl", PROVIDER];
const FILTERS: &str = "scheduler-filters";
/// The exit code that tells of a machine without Go.
const NO_GO: i32 = 3;
/// The test that tells how many conformance cases there are, and the word before the number.
const CASES: (&str, &str) = ("conformance::there_are_many_cases", "CASES:");
/// The tests of the image that ships.
const IMAGE: &str = "image::";
/// The tests that use kubectl.
const STORIES: [&str; 3] = ["nodes::", "objects::", "workloads::"];

pub fn run(names: &[&str]) -> Result<(), String> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let built = build(&["--features", REAL])?;
    let program = built.program("hostler-control-plane")?;
    let (judged, stories) = (test(&built, "control-plane")?, test(&built, "hostler")?);
    let wanted = list(&judged, names)?;
    let status = status_of(guarded(&program).arg("build").args(needed(&wanted, names.is_empty())))
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if !is_built(status.code(), env::var_os("CI").is_some())? {
        // The stories are played twice, but only when nobody picks tests by name.
        let played = if names.is_empty() { 2 * list(&stories, &STORIES)?.len() } else { 0 };
        let cases = if wanted.iter().any(|test| test.starts_with("conformance::")) {
            format!(" and {} conformance cases", told(&judged, CASES.0, CASES.1)?)
        } else {
            String::new()
        };
        println!(
            "left out: {} tests{cases} on a real control plane, since there is no Go to build it with",
            wanted.len() + played
        );
        return Ok(());
    }
    let plane = Plane::start(&program)?;
    println!("✓ a control plane is up");
    let on_it = [
        ("HOSTLER_REAL_KUBECONFIG", plane.kubeconfig.clone().into()),
        ("HOSTLER_BINARY", built.program("hostler")?.into()),
    ];
    let without_image: Vec<&str> = names.iter().copied().chain(["--skip", IMAGE]).collect();
    run_binary(&judged, &without_image, &on_it, &mut tally)?;
    plane.end();
    if names.is_empty() {
        let kubectl = path(&program, KUBECTL)?;
        let installed = installed_kubectl().filter(|installed| *installed != kubectl);
        if installed.is_none() {
            println!("no kubectl is installed: the one that was built is used alone");
        }
        let with_new = [("HOSTLER_KUBECTL", kubectl.clone().into())];
        let named = stories.called("kubectl as built, on the embedded server");
        run_binary(&named, &STORIES, &with_new, &mut tally)?;
        let every = env::join_paths([kubectl].into_iter().chain(installed))
            .map_err(|error| format!("the path of kubectl: {error}"))?;
        let beside = [("HOSTLER_KUBECTL", every), ("HOSTLER_CONTROL_PLANE", program.clone().into())];
        run_binary(&stories.called("every kubectl on kube-apiserver"), &STORIES, &beside, &mut tally)?;
    }
    // At last, since an optimised build takes longer than most tests.
    if wanted.iter().any(|test| test.starts_with(IMAGE)) {
        let archive = built.program("hostler")?.with_file_name("hostler-image-test.tar");
        write_image(&archive)?;
        let named = judged.called("the image that ships");
        run_binary(&named, &[IMAGE], &[("HOSTLER_IMAGE", archive.into())], &mut tally)?;
    }
    report(&tally, start)
}

/// What has to be built for these tests, and for the stories with kubectl.
fn needed(tests: &[String], stories: bool) -> Vec<&'static str> {
    let mut needed = PLANE.to_vec();
    let mut add = |binary| {
        if !needed.contains(&binary) {
            needed.push(binary);
        }
    };
    for test in tests {
        match test.split("::").next().unwrap_or_default() {
            "conformance" | "image" | "supervision" => {}
            "cluster_api" => CLUSTER_API.into_iter().for_each(&mut add),
            "definitions" | "drain" | "faults" | "gardener" | "rights" | "strategies" => add(GARDENER),
            "filters" => add(FILTERS),
            "beside" | "take_over" => [GARDENER, PROVIDER].into_iter().for_each(&mut add),
            // Also whoever is new here, until it says what it needs.
            _ => [GARDENER, KUBECTL]
                .into_iter()
                .chain(CLUSTER_API)
                .chain(OTHERS)
                .chain([FILTERS])
                .for_each(&mut add),
        }
    }
    if stories {
        add(KUBECTL);
    }
    needed
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
    fn only_what_is_needed_is_built() {
        let of = |tests: &[&str], stories| {
            let tests: Vec<String> = tests.iter().map(|&test| test.to_owned()).collect();
            needed(&tests, stories).split_off(PLANE.len())
        };
        let all = [
            GARDENER,
            KUBECTL,
            "cluster-api",
            "kubeadm-bootstrap",
            "kubeadm-control-plane",
            "clusterctl",
            PROVIDER,
            FILTERS,
        ];
        let cases: [(&[&str], bool, &[&str]); 8] = [
            (&["filters::a"], false, &[FILTERS]),
            (&["conformance::every_case_passes"], false, &[]),
            (&["faults::a", "rights::b"], false, &[GARDENER]),
            (&["beside::a", "take_over::b"], false, &[GARDENER, PROVIDER]),
            (&["cluster_api::a", "supervision::b"], false, &CLUSTER_API),
            (&["conformance::a"], true, &[KUBECTL]),
            (&["commands::a", "gardener::b"], true, &all),
            (&["new::a"], false, &all),
        ];
        for (tests, stories, expected) in cases {
            assert_eq!(of(tests, stories), expected, "{tests:?}");
        }
    }

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
