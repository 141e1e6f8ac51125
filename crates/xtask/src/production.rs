//! The binary as it ships: plain, or tuned. A tuned one is compiled twice, the second time with what the first one did
//! in a rehearsal: what runs often is compiled for speed, and all that runs at all lies together in memory.

use crate::{
    guard::{output_of, status_of},
    steps::{built, cargo, step},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The word for it in arguments.
pub const TUNED: &str = "--tuned";

/// What a tuned binary rehearses: machines that come and go, and drains.
const REHEARSAL: [&str; 6] = ["--only", "hostler", "--machines", "300", "--drains", "20"];

/// Where the compiler brings a linker that knows more than others do, and memory comes in pages of one size.
const KNOWN: &str = "x86_64-unknown-linux-gnu";

/// How the allocator keeps memory: in one place for all threads, and nothing of what was given back.
const ALLOCATOR: (&str, &str) =
    ("JEMALLOC_SYS_WITH_MALLOC_CONF", "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0");

/// Without the playground and without shared libraries.
pub fn build(tuned: bool) -> Result<PathBuf, String> {
    let target = host()?;
    if tuned { build_tuned(&target) } else { compile(&target, "", &[]) }
}

fn compile(target: &str, what: &str, flags: &[String]) -> Result<PathBuf, String> {
    println!("… hostler for {target} without shared libraries{what}");
    let all = ["-Ctarget-feature=+crt-static".to_owned()].into_iter().chain(flags.iter().cloned());
    let quoted: Vec<String> = all.map(|flag| format!("'{flag}'")).collect();
    // Only with a named target do the flags leave alone what runs during the build.
    let flags = format!("target.{target}.rustflags=[{}]", quoted.join(","));
    let options =
        ["build", "--profile", "production", "--package", "hostler", "--no-default-features", "--target"];
    let mut build = cargo();
    build.args(options).args([target, "--config", &flags]).env(ALLOCATOR.0, ALLOCATOR.1);
    if target == KNOWN {
        build.args(["--features", "lean"]);
    }
    built("hostler", &mut build)
}

fn build_tuned(target: &str) -> Result<PathBuf, String> {
    let profdata = profdata(target)?;
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tuned");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let place = place.canonicalize().map_err(|error| format!("{}: {error}", place.display()))?;

    let counting = compile(target, ", which counts", &[format!("-Cprofile-generate={}", place.display())])?;
    rehearse(&counting)?;
    let (counted, order) = (place.join("counted.profdata"), place.join("order.txt"));
    step(
        "what was counted",
        Command::new(&profdata).arg("merge").arg("-o").arg(&counted).args(raw(&place)?),
    )?;
    let shown = Command::new(&profdata).args(["show", "--all-functions", "--counts"]).arg(&counted).output();
    let shown = shown.map_err(|error| format!("cannot start {}: {error}", profdata.display()))?;
    let shown = String::from_utf8_lossy(&shown.stdout);
    let names = functions_that_ran(&shown);
    if names.is_empty() {
        return Err("the rehearsal has counted nothing".to_owned());
    }
    println!("  {} functions ran in the rehearsal", names.len());
    fs::write(&order, names.join("\n") + "\n").map_err(|error| format!("{}: {error}", order.display()))?;

    let mut flags = vec![format!("-Cprofile-use={}", counted.display())];
    if target == KNOWN {
        flags.push(format!("-Clink-arg=-Wl,--symbol-ordering-file={}", order.display()));
        flags.push("-Clink-arg=-Wl,--no-warn-symbol-ordering".to_owned());
    }
    compile(target, ", tuned", &flags)
}

/// Lets the benchmark of the machine controller do its work with a binary that counts.
fn rehearse(counting: &Path) -> Result<(), String> {
    println!("… a rehearsal");
    let mut benchmark = cargo();
    benchmark.args(["bench", "--quiet", "--package", "hostler-control-plane", "--features", "real"]);
    benchmark.args(["--bench", "gardener", "--"]).args(REHEARSAL).env("HOSTLER_BINARY", counting);
    let status = status_of(&mut benchmark).map_err(|error| format!("cannot start the rehearsal: {error}"))?;
    if status.success() { Ok(()) } else { Err("the rehearsal failed".to_owned()) }
}

fn raw(place: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let raw: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "profraw")).collect();
    if raw.is_empty() {
        return Err("the rehearsal left no counts: it needs Go for a real API server".to_owned());
    }
    Ok(raw)
}

/// Names of functions with at least one count, those with the highest first.
fn functions_that_ran(shown: &str) -> Vec<&str> {
    let mut name = "";
    let mut ran = Vec::new();
    for line in shown.lines() {
        if let Some(counts) = line.trim_start().strip_prefix("Block counts: [") {
            let counts = counts.trim_end_matches(']').split(", ");
            let most = counts.filter_map(|count| count.parse::<u64>().ok()).max().unwrap_or_default();
            if most > 0 {
                ran.push((most, name));
            }
        } else if let Some(function) = line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')) {
            // Behind the file, if it is local to one.
            name = function.rsplit(';').next().unwrap_or(function).trim_start();
        }
    }
    ran.sort_by(|one, other| other.cmp(one));
    ran.into_iter().map(|(_, name)| name).collect()
}

/// The compiler's own program that reads counts; it comes with a component of the toolchain.
fn profdata(target: &str) -> Result<PathBuf, String> {
    let output = output_of(rustc().args(["--print", "sysroot"]).stdout(Stdio::piped()));
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let program = Path::new(&root).join("lib/rustlib").join(target).join("bin/llvm-profdata");
    if !program.exists() {
        step("llvm-tools", Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    if program.exists() { Ok(program) } else { Err(format!("{} is not there", program.display())) }
}

fn rustc() -> Command {
    crate::guard::guarded(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// What the compiler compiles for when nobody says otherwise.
fn host() -> Result<String, String> {
    let output = output_of(rustc().arg("-vV").stdout(Stdio::piped()));
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not tell what it compiles for".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_ran_are_put_in_order() {
        let shown = "\
Counters:
  never:
    Hash: 0x0a4d0ad3efffffff
    Counters: 1
    Block counts: [0]
  some.rs;rarely:
    Hash: 0x0a4d0ad3efffffff
    Counters: 2
    Block counts: [0, 3]
  _ZN4core3str5often17hb90cE:
    Hash: 0x08486dddaf969f5f
    Counters: 3
    Block counts: [7, 0, 40]
Instrumentation level: IR  entry_first = 0
Functions shown: 3
";
        assert_eq!(functions_that_ran(shown), ["_ZN4core3str5often17hb90cE", "rarely"]);
    }
}
