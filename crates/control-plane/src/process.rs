//! Processes that never outlive the one that started them.
//!
//! Between a process and its owner stands a small supervisor, the command `supervise` of this crate's binary:
//! it holds the read end of a pipe whose write end is the owner's. However the owner ends, the pipe ends too,
//! and the supervisor ends the process and its whole group.

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// How long a process may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// How much of a log is shown when its process fails.
const TAIL: usize = 15;

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    executable: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    grace: Duration,
}

impl Program {
    pub fn new(name: &str, executable: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            executable: executable.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            grace: GRACE,
        }
    }

    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// `--name=value`
    pub fn flag(self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.arg(argument)
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// It is killed without being asked first: a crash.
    pub fn without_grace(mut self) -> Self {
        self.grace = Duration::ZERO;
        self
    }

    /// Starts it; what it says goes to `<name>.log` in the directory, behind what is there already.
    pub fn start(&self, supervisor: &Path, directory: &Path) -> anyhow::Result<Process> {
        let path = directory.join(format!("{}.log", self.name));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let (output, errors) = (log.try_clone()?, log);
        let child = Command::new(supervisor)
            .arg("supervise")
            .arg("--grace-millis")
            .arg(self.grace.as_millis().to_string())
            .arg("--")
            .arg(&self.executable)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C in a terminal is for the owner, which decides what ends when.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", supervisor.display()))?;
        Ok(Process { name: self.name.clone(), child, log: path, ended: None })
    }
}

/// A running process. Dropping this ends it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: std::process::Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The process itself, behind its supervisor; none before it is started and after its end.
    pub fn id(&self) -> Option<u32> {
        let supervisor = self.child.id().to_string();
        let entries = fs::read_dir("/proc").ok()?;
        let mut ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        ids.find(|id| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name of a program may have anything in it; behind its bracket come its state and its parent.
            let behind = stat.rsplit_once(')').map(|(_, behind)| behind).unwrap_or_default();
            behind.split_whitespace().nth(1) == Some(&supervisor)
        })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Fails with the end of its log if it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.tail()),
        }
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(mut self) -> Option<ExitStatus> {
        drop(self.child.stdin.take());
        while self.ended().is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        self.ended
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The supervisor ends by itself; whoever reaps it does not matter.
        let _ = self.child.try_wait();
    }
}

/// The supervisor: runs a command in a process group of its own until it ends, or until standard input does.
pub fn supervise(command: &[OsString], grace: Duration) -> anyhow::Result<ExitCode> {
    let [executable, arguments @ ..] = command else { bail!("there is nothing to supervise") };
    let mut child = Command::new(executable)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("{} cannot be started", Path::new(executable).display()))?;
    let group =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process without a number")?;
    let (end, ends) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0];
        while !matches!(io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
        let _ = end.send(());
    });
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if ends.recv_timeout(PAUSE).is_ok() {
            break end_group(&mut child, group, grace)?;
        }
    };
    // What it has started and left behind.
    let _ = kill_process_group(group, Signal::KILL);
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn end_group(child: &mut std::process::Child, group: Pid, grace: Duration) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    if grace > Duration::ZERO {
        let _ = kill_process_group(group, Signal::TERM);
    }
    while start.elapsed() < grace {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    let _ = kill_process_group(group, Signal::KILL);
    Ok(child.wait()?)
}

/// The supervisor when the caller is this crate's own binary.
pub fn own_binary() -> anyhow::Result<PathBuf> {
    env::current_exe().context("the path of this program cannot be found")
}
