//! Nothing that a chore starts outlives it, however the chore ends: between the two stands a guard that sees the end
//! of a pipe.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitCode, ExitStatus, Output, Stdio},
    thread,
};

/// The word that makes this program a guard.
pub const CHORE: &str = "guard";

/// A command that ends when this process does. Start it with [`output_of`], [`status_of`] or [`start`], which hold
/// the other end of the pipe.
pub fn guarded(program: impl AsRef<OsStr>) -> Command {
    let guard = env::current_exe().unwrap_or_else(|_| OsString::from("xtask").into());
    let mut command = Command::new(guard);
    // In a group of its own: a Ctrl-C is for the chore, and ends the rest through it.
    command.arg(CHORE).arg(program).stdin(Stdio::piped()).process_group(0);
    command
}

/// A guarded command that is running.
pub fn start(command: &mut Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).spawn()
}

pub fn status_of(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = start(command)?;
    let pipe = child.stdin.take();
    let status = child.wait();
    drop(pipe);
    status
}

pub fn output_of(command: &mut Command) -> io::Result<Output> {
    let mut child = start(command)?;
    // Waiting for the output would close it.
    let pipe = child.stdin.take();
    let output = child.wait_with_output();
    drop(pipe);
    output
}

/// Runs a command in a process group of its own until it ends, or until standard input does.
pub fn run(mut command: impl Iterator<Item = OsString>) -> Result<ExitCode, String> {
    let program = command.next().ok_or("there is nothing to guard")?;
    let mut child = Command::new(&program)
        .args(command)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    let group = child.id();
    thread::spawn(move || {
        let mut byte = [0];
        while !matches!(io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
        end(group);
    });
    let status = child.wait().map_err(|error| format!("{}: {error}", program.display()))?;
    // What it has started and left behind.
    end(group);
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn end(group: u32) {
    // The shell's own `kill`: the program is not there on every machine. A group that is gone is none to end.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -9 -{group}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
