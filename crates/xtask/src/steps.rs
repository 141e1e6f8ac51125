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

/// The benchmarks: package and name.
const BENCHMARKS: [(&str, &str); 2] = [("hostler-apiserver", "apiserver"), ("hostler-sim", "world")];

pub fn bench() -> Result<(), String> {
    for (package, name) in BENCHMARKS {
        let status = cargo().args(["bench", "--quiet", "--package", package, "--bench", name]).status();
        let status = status.map_err(|error| format!("cannot start the benchmark {name}: {error}"))?;
        if !status.success() {
            return Err(format!("the benchmark {name} failed"));
        }
    }
    Ok(())
}
