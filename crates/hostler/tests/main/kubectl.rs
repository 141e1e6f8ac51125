//! kubectl as a person uses it: every one that is found, each on a fresh playground.

use crate::playground::{PATIENCE, Playground, Process, wait_for};
use serde_json::Value;
use std::{
    cell::Cell,
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// kubectl on one playground.
pub struct Kubectl {
    program: PathBuf,
    pub playground: Playground,
    calls: Cell<u32>,
}

/// What a call came to.
pub struct Said {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a story with each kubectl of this machine: those that `HOSTLER_KUBECTL` lists as `PATH` lists
/// directories, or else the one in PATH. A machine without any leaves the story out, unless it is there to test
/// (`CI` is set). Where `HOSTLER_CONTROL_PLANE` names the program that starts a real control plane, the stories
/// are played on one.
pub fn with_each_kubectl(story: impl Fn(&Kubectl)) {
    let in_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path).map(|directory| directory.join("kubectl")).find(|file| file.is_file())
    };
    let programs: Vec<PathBuf> = match env::var_os("HOSTLER_KUBECTL") {
        Some(list) => env::split_paths(&list).collect(),
        None => in_path().into_iter().collect(),
    };
    let control_plane = env::var_os("HOSTLER_CONTROL_PLANE").map(PathBuf::from);
    if programs.is_empty() {
        assert!(env::var_os("CI").is_none(), "CI is set and kubectl not found: install it");
        println!("SKIPPED: kubectl not found");
    }
    for program in programs {
        println!("with {}", program.display());
        let playground = control_plane.as_deref().map_or_else(Playground::start, Playground::start_beside);
        story(&Kubectl { program, playground, calls: Cell::new(0) });
    }
}

/// The directory of the sample manifests.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
}

impl Kubectl {
    /// Whether the API server is a real one.
    pub fn is_beside(&self) -> bool {
        self.playground.is_beside()
    }

    /// Starts a call that goes on.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let number = self.calls.replace(self.calls.get() + 1);
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.playground.kubeconfig)
            // Its cache of what the server can do must not be one of another playground.
            .arg("--cache-dir")
            .arg(self.playground.directory.file("cache"))
            .args(arguments)
            .current_dir(self.playground.directory.path());
        println!("$ kubectl {}", arguments.join(" "));
        Process::start(&self.playground.directory, &format!("kubectl-{number}"), command)
    }

    pub fn try_to(&self, arguments: &[&str]) -> Said {
        let mut process = self.start(arguments);
        let success = process.wait().success();
        let said = Said { success, stdout: process.stdout(), stderr: process.stderr() };
        print!("{}{}", said.stdout, said.stderr);
        said
    }

    /// Makes a call that must succeed and gives what it says.
    pub fn run(&self, arguments: &[&str]) -> String {
        let said = self.try_to(arguments);
        assert!(said.success, "kubectl {}: {}", arguments.join(" "), said.stderr);
        said.stdout
    }

    /// Makes a call that must fail and gives the reason.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let said = self.try_to(arguments);
        assert!(!said.success, "kubectl {}: {}", arguments.join(" "), said.stdout);
        said.stderr
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["-o", "json"]].concat();
        serde_json::from_str(&self.run(&arguments)).unwrap()
    }

    /// Writes a manifest to a file and gives its path.
    pub fn manifest(&self, name: &str, text: &str) -> String {
        let file = self.playground.directory.file(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Waits until `kubectl get …` gives nothing.
    pub fn wait_until_none(&self, arguments: &[&str]) {
        let arguments = [&["get", "--ignore-not-found", "-o", "name"], arguments].concat();
        wait_for("nothing is left", || self.run(&arguments).is_empty().then_some(()));
    }

    pub fn wait_for_nodes(&self) {
        wait_for("there are three nodes", || {
            let nodes = self.run(&["get", "nodes", "-o", "name"]);
            (nodes.lines().count() == 3).then_some(())
        });
        self.run(&["wait", "--for=condition=Ready", "nodes", "--all", &limit()]);
        wait_for("no node is tainted", || {
            self.run(&["get", "nodes", "-o", "jsonpath={.items[*].spec.taints}"]).is_empty().then_some(())
        });
    }
}

/// How long kubectl may wait, as an argument.
pub fn limit() -> String {
    format!("--timeout={}s", PATIENCE.as_secs())
}

/// The columns of a table's line.
pub fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
