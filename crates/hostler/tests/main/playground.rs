//! A running `hostler dev` with a directory of its own, on the embedded API server or beside a real one.

use crate::machine_controller::ask;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long anything may take before it counts as hanging; on a busy machine everything takes long.
pub const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// A directory that is removed with all that is in it.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hostler-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of what is in it.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is there.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(PATIENCE, what, look)
}

/// The same where it must not take longer than this.
fn wait_at_most<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(PAUSE);
    }
}

/// A process of ours; killed if the test forgets it.
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    /// It ends when its standard input does.
    ends_by_itself: bool,
}

impl Process {
    pub fn start(directory: &Directory, name: &str, mut command: Command) -> Self {
        let (stdout, stderr) =
            (directory.file(&format!("{name}.stdout")), directory.file(&format!("{name}.stderr")));
        let child = command
            // A real control plane ends when its standard input does.
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&stdout).unwrap())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, stdout, stderr, ends_by_itself: false }
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned()
    }

    /// Waits until its output has this in it.
    pub fn wait_to_say(&mut self, text: &str) {
        wait_for(text, || {
            if let Some(status) = self.has_ended() {
                panic!("ended with {status}: {}{}", self.stdout(), self.stderr());
            }
            self.stdout().contains(text).then_some(())
        });
    }

    /// Sends a signal by its name, `INT` for example.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the process ends", || self.has_ended())
    }

    /// Asks it to end as a kubelet does, which kills what is still there after the pod's grace period.
    pub fn end_within(&mut self, grace: Duration) -> ExitStatus {
        self.signal("TERM");
        wait_at_most(grace, "the process ends", || self.has_ended())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A control plane ends its own processes when its input ends; everything else is just killed.
        drop(self.child.stdin.take());
        let start = Instant::now();
        while self.ends_by_itself
            && start.elapsed() < PATIENCE
            && self.child.try_wait().is_ok_and(|end| end.is_none())
        {
            sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn hostler(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hostler"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

pub struct Playground {
    pub process: Process,
    /// The real control plane that the process is beside; it ends after it.
    control_plane: Option<Process>,
    pub kubeconfig: PathBuf,
    pub directory: Directory,
}

impl Playground {
    pub fn start() -> Self {
        Self::start_with(&["--stackit", "127.0.0.1:0"])
    }

    /// The same beside a real control plane, which this program starts.
    pub fn start_beside(control_plane: &Path) -> Self {
        let directory = Directory::new();
        let mut command = Command::new(control_plane);
        command.args(["up", "--until-eof", "--dir"]).arg(directory.file("control-plane"));
        let mut plane = Process::start(&directory, "control-plane", command);
        plane.ends_by_itself = true;
        plane.wait_to_say("export KUBECONFIG=");
        let kubeconfig = directory.file("control-plane/admin.kubeconfig");
        let mut command = hostler(&["dev", "--with-machine-sets", "--stackit", "127.0.0.1:0", "--beside"]);
        command.arg(&kubeconfig);
        let mut process = Process::start(&directory, "hostler", command);
        process.wait_to_say("Hostler is ready");
        Self { process, control_plane: Some(plane), kubeconfig, directory }
    }

    pub fn is_beside(&self) -> bool {
        self.control_plane.is_some()
    }

    /// What is in the simulated cloud: `servers`, `volumes` and `nics`.
    pub fn cloud(&self) -> Value {
        let port = wait_for("it says where the cloud is", || {
            let said = self.process.stdout();
            let (_, rest) = said.split_once("The simulated STACKIT is at http://127.0.0.1:")?;
            rest.split_once('\n')?.0.parse().ok()
        });
        let (status, state) = ask(port, "/_sim/state").unwrap();
        assert_eq!(status, 200, "{state}");
        serde_json::from_str(&state).unwrap()
    }

    pub fn start_with(more: &[&str]) -> Self {
        Self::start_in(Directory::new(), more)
    }

    pub fn start_in(directory: Directory, more: &[&str]) -> Self {
        let kubeconfig = directory.file("kubeconfig");
        let before = fs::read(&kubeconfig).ok();
        let mut command = hostler(&["dev", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(&kubeconfig).args(more);
        let mut process = Process::start(&directory, "hostler", command);
        wait_for("the kubeconfig is written", || {
            if let Some(status) = process.has_ended() {
                panic!("hostler ended with {status}: {}", process.stderr());
            }
            fs::read(&kubeconfig).ok().filter(|now| Some(now) != before.as_ref())
        });
        Self { process, control_plane: None, kubeconfig, directory }
    }
}
