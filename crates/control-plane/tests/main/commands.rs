//! `cargo xtask control-plane` as a person uses it.

use crate::{
    stage::{Directory, PATIENCE, hostler, store, supervisor},
    supervision::{processes, wait_for},
};
use hostler_base::GoDuration;
use hostler_control_plane::{catalogue, free_port};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

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
fn everything_that_can_be_built_is_built_and_starts() {
    let output = control_plane(&["build"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for binary in catalogue::ALL {
        let output = Command::new(store().path(binary)).arg("--help").output().unwrap();
        let (stdout, stderr) = said(&output);
        assert!(format!("{stdout}{stderr}").contains("Usage"), "{}: {output:?}", binary.name);
    }
}

/// A flag as a help text tells of it.
#[derive(Debug)]
struct Flag {
    name: String,
    default: Option<String>,
}

/// The flags of a help text: a line that begins with the name, and a default in brackets before the next one.
fn flags(help: &str, default: (&str, char)) -> Vec<Flag> {
    let mut all: Vec<Flag> = Vec::new();
    for line in help.lines() {
        let first = line.split_whitespace().find(|word| !word.ends_with(','));
        if let Some(name) = first.and_then(|word| word.strip_prefix("--")) {
            let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
            let name = name[..end.unwrap_or(name.len())].to_owned();
            all.push(Flag { name, default: None });
        }
        let value = line.rsplit_once(default.0).and_then(|(_, rest)| rest.split_once(default.1));
        if let (Some((value, _)), Some(flag)) = (value, all.last_mut()) {
            flag.default = Some(value.trim_matches('"').to_owned());
        }
    }
    all
}

/// Durations are written in more than one way.
fn same(one: &str, other: &str) -> bool {
    let duration = |text: &str| text.parse::<GoDuration>().ok().map(|duration| duration.0);
    one == other || duration(one).is_some_and(|parsed| duration(other) == Some(parsed))
}

#[test]
fn hostler_takes_every_flag_of_the_go_program_and_has_its_defaults() {
    let output =
        Command::new(store().path(&catalogue::STACKIT_MACHINE_CONTROLLER)).arg("--help").output().unwrap();
    let (stdout, stderr) = said(&output);
    let theirs = flags(&format!("{stdout}{stderr}"), ("(default ", ')'));
    assert!(theirs.len() > 30, "{theirs:?}");
    let output = Command::new(hostler()).args(["machine-controller", "--help"]).output().unwrap();
    let ours = flags(&said(&output).0, ("[default: ", ']'));
    let mut arguments = vec!["machine-controller".to_owned()];
    let mut compared = 0;
    for flag in &theirs {
        if let Some(default) = &flag.default {
            arguments.push(format!("--{}={default}", flag.name));
        }
        let own = ours.iter().find(|own| own.name == flag.name).and_then(|own| own.default.as_ref());
        if let (Some(own), Some(default)) = (own, &flag.default) {
            assert!(same(own, default), "--{}: {own} and not {default}", flag.name);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} defaults: {theirs:?} {ours:?}");
    // Those that have no default to be given with.
    for flag in theirs.iter().filter(|flag| flag.default.is_none() && flag.name != "help") {
        let output =
            Command::new(hostler()).args(["machine-controller", &format!("--{}=", flag.name)]).output();
        let (_, stderr) = said(&output.unwrap());
        assert!(!stderr.contains("unexpected argument"), "--{}: {stderr}", flag.name);
    }
    arguments.extend(["--control-kubeconfig=/nowhere", "--target-kubeconfig=/nowhere"].map(str::to_owned));
    let (_, stderr) = said(&Command::new(hostler()).args(&arguments).output().unwrap());
    assert!(stderr.contains("/nowhere is no kubeconfig"), "{arguments:?}: {stderr}");
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

/// A directory with a `go` that is this script, and what `control-plane` says with it.
struct FakeGo(Directory);

impl FakeGo {
    fn new(script: &str) -> Self {
        let directory = Directory::new();
        let go = directory.path().join("go");
        std::fs::write(&go, format!("#!/bin/sh\ncd {}\n{script}", directory.path().display())).unwrap();
        std::fs::set_permissions(&go, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Self(directory)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.0.path().display());
        control_plane(arguments).env("PATH", path).env("HOSTLER_CACHE_DIR", self.0.path()).output().unwrap()
    }

    /// What the script wrote into a file.
    fn wrote(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap()
    }
}

#[test]
fn only_what_is_asked_for_is_built_with_a_line_and_its_time_for_each() {
    // `go build -trimpath -ldflags L -o FILE PACKAGE`
    let go = FakeGo::new("[ \"$1\" = build ] && { echo $7 >>packages; echo >$6; }; exit 0\n");
    let output = go.run(&["build", "etcd", "stackit-machine-controller"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        go.wrote("packages"),
        "go.etcd.io/etcd/server/v3
github.com/stackitcloud/machine-controller-manager-provider-stackit/cmd/machine-controller
"
    );
    let (stdout, _) = said(&output);
    for name in ["etcd", "stackit-machine-controller"] {
        let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("✓ {name} (")));
        let seconds = line.and_then(|line| line.strip_suffix(" s)")).expect(&stdout);
        assert!(seconds.parse::<f64>().is_ok(), "{stdout}");
    }
    assert_eq!(said(&go.run(&["build", "etcd"])).0, "all 1 are there\n");
    assert_eq!(go.wrote("packages").lines().count(), 2, "nothing is built twice");
    go.run(&["build", "kubectl", "etcd"]);
    assert_eq!(go.wrote("packages").lines().nth(2), Some("k8s.io/kubernetes/cmd/kubectl"));
    assert_eq!(go.wrote("packages").lines().count(), 3, "etcd was there");
}

#[test]
fn a_build_that_fails_leaves_nothing_that_looks_built() {
    let go = FakeGo::new(
        "[ \"$1\" = version ] || { echo $1 >>calls; echo 'Get \"https://x\": no network' >&2; exit 1; }\n",
    );
    let output = go.run(&["build", "etcd"]);
    let (_, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("etcd cannot be built") && stderr.contains("no network"), "{stderr}");
    assert_eq!(go.wrote("calls"), "build\n".repeat(3), "a network may come back");
    let (_, stderr) = said(&go.run(&["path", "etcd"]));
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

/// Each of the kubeadm providers has a webhook that must answer before its object is taken.
const KUBEADM: &str = "
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: one}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: one}
spec:
  version: v1.35.0
  machineTemplate:
    spec:
      infrastructureRef:
        apiGroup: infrastructure.cluster.x-k8s.io
        kind: MetalStackMachineTemplate
        name: one
---
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineDeployment
metadata: {name: one}
spec:
  replicas: 0
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {name: one}}
  template:
    metadata: {labels: {name: one}}
    spec: {class: {kind: MachineClass, name: one}}
";

/// A child that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The built kubectl with somebody's kubeconfig.
struct Kubectl(PathBuf);

impl Kubectl {
    fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut kubectl = Command::new(store().path(&catalogue::KUBECTL))
            .args(arguments)
            .env("KUBECONFIG", &self.0)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        kubectl.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        kubectl.wait_with_output().unwrap()
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        said(&output).0
    }

    /// Until a `get` of these shows nothing.
    fn wait_until_gone(&self, what: &[&str]) {
        let arguments: Vec<&str> = ["get", "-o", "name"].iter().chain(what).copied().collect();
        self.wait_for(&format!("{what:?} go"), &arguments, str::is_empty);
    }

    fn wait_for(&self, what: &str, arguments: &[&str], wanted: impl Fn(&str) -> bool) {
        let patience = Instant::now() + PATIENCE;
        loop {
            let seen = self.run(arguments, "");
            if wanted(&seen) {
                return;
            }
            assert!(Instant::now() < patience, "{what}: {seen}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// How many servers, volumes and NICs there are in the simulated cloud on this port.
fn in_the_cloud(port: u16) -> [(&'static str, usize); 3] {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(b"GET /_sim/state HTTP/1.1\r\nhost: cloud\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let state: Value = serde_json::from_str(body).unwrap();
    ["servers", "volumes", "nics"].map(|kind| (kind, state[kind].as_array().unwrap().len()))
}

#[test]
fn everything_comes_up_and_works_together_until_ctrl_c() {
    let directory = Directory::new();
    let home = directory.path().join("plane");
    let mut up = control_plane(&["up", "--with", "mcm,capi", "--user", "bob", "--until-eof", "--dir"])
        .arg(&home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    let kubeconfig = lines.map(|line| line.strip_prefix("export KUBECONFIG=").map(PathBuf::from));
    let kubectl = Kubectl(kubeconfig.flatten().next().expect("a line to copy"));
    kubectl.run(&["create", "-f", "-"], KUBEADM);
    let strategy = "jsonpath={.spec.rollout.strategy.type}";
    assert_eq!(kubectl.run(&["get", "kubeadmcontrolplane", "one", "-o", strategy], ""), "RollingUpdate");
    assert_eq!(kubectl.run(&["auth", "can-i", "list", "pods"], ""), "yes\n");
    let bob = Kubectl(home.join("bob.kubeconfig")).output(&["auth", "can-i", "list", "pods"], "");
    assert_eq!(said(&bob).0, "no\n");

    // As CONTRIBUTING has it: the playground beside it, and Gardener's own manager above the machine controller.
    let log = || std::fs::File::create(home.join("hostler.log")).unwrap();
    let cloud = free_port().unwrap();
    let playground = Killed(
        Command::new(hostler())
            .args(["dev", "--beside"])
            .arg(&kubectl.0)
            .args(["--stackit", &format!("127.0.0.1:{cloud}")])
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap(),
    );
    kubectl.run(&["apply", "-f", "samples/"], "");
    let available = "jsonpath={.status.availableReplicas}";
    let pool = ["get", "machinedeployments.machine.sapcloud.io", "pool", "-o", available];
    kubectl.wait_for("the machines of the sample are available", &pool, |seen| seen == "3");
    let sets = ["get", "machinesets.machine.sapcloud.io", "-o", "name"];
    kubectl.wait_for("Gardener's manager makes a MachineSet", &sets, |seen| {
        seen.contains("machineset.machine.sapcloud.io/one-")
    });
    // Three of the deployment, two of the set, and one by itself.
    let phases =
        ["get", "machines.machine.sapcloud.io", "-o", "jsonpath={.items[*].status.currentStatus.phase}"];
    kubectl.wait_for("all run", &phases, |seen| {
        seen.split(' ').filter(|phase| *phase == "Running").count() == 6
    });
    assert_eq!(in_the_cloud(cloud), [("servers", 6), ("volumes", 6), ("nics", 6)]);
    kubectl.run(&["delete", "-f", "samples/", "--wait=false"], "");
    kubectl.run(&["delete", "machinedeployments.machine.sapcloud.io", "one", "--wait=false"], "");
    for kind in ["machinedeployments", "machinesets", "machines", "machineclasses"] {
        kubectl.wait_until_gone(&[&format!("{kind}.machine.sapcloud.io")]);
    }
    kubectl.wait_until_gone(&["secret", "stackit", "--ignore-not-found"]);
    let tokens =
        ["secrets", "--namespace=kube-system", "--field-selector=type=bootstrap.kubernetes.io/token"];
    kubectl.wait_until_gone(&tokens);
    assert_eq!(in_the_cloud(cloud), [("servers", 0), ("volumes", 0), ("nics", 0)]);
    drop(playground);

    // As in production, with nothing between it and the API server.
    let controller = Killed(
        Command::new(hostler())
            .args(["machine-controller", "--namespace=default", "--address=127.0.0.1", "--port=0"])
            .arg("--target-kubeconfig")
            .arg(&kubectl.0)
            .env("STACKIT_NO_AUTH", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let holder =
        ["get", "lease", "machine-controller", "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}"];
    kubectl.wait_for("the machine controller leads", &holder, |seen| !seen.is_empty());
    drop(controller);

    let mark = home.to_string_lossy().into_owned();
    for part in ["etcd", "kube-apiserver", "machine-controller-manager", "kubeadm-control-plane"] {
        assert!(processes(&mark).iter().any(|process| process.contains(part)), "{part} does not run");
    }
    assert!(Command::new("kill").args(["-INT", &up.id().to_string()]).status().unwrap().success());
    assert!(up.wait().unwrap().success());
    wait_for("nothing is left", || processes(&mark).is_empty());
}
