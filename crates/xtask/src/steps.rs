//! One step of a chore: a command with a line of progress before and after.

use std::{
    env,
    process::{Command, Stdio},
    time::Instant,
};

/// Cargo, the one that started us.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether a command can be started at all and says that it is fine.
pub fn is_there(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a command; its output is shown only if it fails.
pub fn step(name: &str, command: &mut Command) -> Result<(), String> {
    println!("… {name}");
    let start = Instant::now();
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        println!("✓ {name} ({:.1} s)", start.elapsed().as_secs_f64());
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(format!("✗ {name} failed"))
}

/// The benchmarks of all crates that have some.
pub fn bench() -> Result<(), String> {
    let status = cargo().args(["bench", "--workspace", "--benches"]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("a benchmark failed".to_owned()),
        Err(error) => Err(format!("cannot start the benchmarks: {error}")),
    }
}
