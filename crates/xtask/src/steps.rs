//! One step of a chore: a command with a line of progress before and after.

use crate::{
    guard::{guarded, output_of, status_of},
    lines,
    production::{self, TUNED},
};
use std::{
    env,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// Cargo, the one that started us. What it compiles ends with us.
pub fn cargo() -> Command {
    guarded(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether a command can be started at all and says that it is fine.
pub fn is_there(command: &mut Command) -> bool {
    status_of(command.stdout(Stdio::null()).stderr(Stdio::null())).is_ok_and(|status| status.success())
}

/// Runs a command; its output is shown only if it fails.
pub fn step(name: &str, command: &mut Command) -> Result<(), String> {
    println!("… {name}");
    let start = Instant::now();
    let output = output_of(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let output = output.map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        println!("✓ {name} ({:.1} s)", start.elapsed().as_secs_f64());
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(format!("✗ {name} failed"))
}

/// Becomes the program of the crate `control-plane`, so that signals reach it and nothing stands between.
pub fn control_plane(arguments: &[&str]) -> Result<(), String> {
    let program = build_binary("hostler-control-plane", "hostler-control-plane")?;
    let error = Command::new(&program).args(arguments).exec();
    Err(format!("cannot start {}: {error}", program.display()))
}

/// Builds a binary of the workspace and tells where it is.
pub fn build_binary(package: &str, name: &str) -> Result<PathBuf, String> {
    built(name, cargo().args(["build", "--quiet", "--package", package, "--bin", name]))
}

/// The executable that a build makes.
pub fn built(name: &str, build: &mut Command) -> Result<PathBuf, String> {
    build.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let output = output_of(build).map_err(|error| format!("cannot start cargo: {error}"))?;
    let artifacts = String::from_utf8_lossy(&output.stdout);
    let executable = artifacts.lines().filter_map(|line| lines::text(line, "executable")).next_back();
    match executable {
        Some(path) if output.status.success() => Ok(PathBuf::from(path)),
        _ => Err(format!("✗ {name} does not build")),
    }
}

/// Builds a `hostler` for production that needs no shared libraries, and becomes the program that writes an image
/// with it.
pub fn image(arguments: &[&str]) -> Result<(), String> {
    let mut writer = Command::new(build_binary("hostler-image", "hostler-image")?);
    let (tuned, arguments) = without_tuned(arguments);
    if !arguments.iter().any(|argument| ["--help", "-h", "--binary"].contains(argument)) {
        writer.arg("--binary").arg(production::build(tuned)?);
    }
    let error = writer.args(arguments).exec();
    Err(format!("cannot start {}: {error}", writer.get_program().display()))
}

/// Whether a tuned binary is asked for, and what else is.
fn without_tuned<'a>(arguments: &[&'a str]) -> (bool, Vec<&'a str>) {
    let others: Vec<&str> = arguments.iter().copied().filter(|argument| *argument != TUNED).collect();
    (others.len() < arguments.len(), others)
}

/// Writes the image that ships into a file.
pub fn write_image(archive: &Path) -> Result<(), String> {
    let mut writer = guarded(build_binary("hostler-image", "hostler-image")?);
    writer.arg("--binary").arg(production::build(false)?).arg("--output").arg(archive);
    step("the image", &mut writer)
}

/// The benchmarks: package, features and name.
const BENCHMARKS: [(&str, &str, &str); 6] = [
    ("hostler-apiserver", "", "apiserver"),
    ("hostler-sim", "", "world"),
    ("hostler", "", "dev"),
    ("hostler-planner", "", "planner"),
    ("hostler-control-plane", "real", "servers"),
    ("hostler-control-plane", "real", "gardener"),
];
/// The one that measures the binary that ships.
const OF_THE_BINARY: &str = "gardener";

/// The planner beside Karpenter's scheduler, which takes minutes and Go, so only who asks for it gets it.
const BESIDE: [&str; 2] = ["--beside", "karpenter"];
const BESIDE_KARPENTER: (&str, &str, &str) = ("hostler-control-plane", "real", "beside_karpenter");

/// Runs the named benchmarks, or all of them. What begins with a dash, and all behind it, is for one benchmark.
pub fn bench(words: &[&str]) -> Result<(), String> {
    let names = words.iter().take_while(|word| !word.starts_with('-')).count();
    let (wanted, arguments) = words.split_at(names);
    let known = BENCHMARKS.map(|(_, _, name)| name);
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no benchmark {unknown:?}, there are {}", known.join(", ")));
    }
    if let (Some(argument), true) = (arguments.first(), wanted.len() != 1) {
        return Err(format!("{argument}: name the one benchmark that it is for, before it"));
    }
    let (tuned, arguments) = without_tuned(arguments);
    if tuned && wanted != [OF_THE_BINARY] {
        return Err(format!("{TUNED} is for the benchmark {OF_THE_BINARY}"));
    }
    if arguments.starts_with(&BESIDE) {
        if wanted != ["planner"] {
            return Err(format!("{} is for the benchmark planner", BESIDE.join(" ")));
        }
        return run_bench(BESIDE_KARPENTER, tuned, &arguments[BESIDE.len()..]);
    }
    for benchmark in BENCHMARKS {
        if wanted.is_empty() || wanted.contains(&benchmark.2) {
            run_bench(benchmark, tuned, &arguments)?;
        }
    }
    Ok(())
}

fn run_bench(
    (package, features, name): (&str, &str, &str),
    tuned: bool,
    arguments: &[&str],
) -> Result<(), String> {
    let mut command = cargo();
    if name == OF_THE_BINARY {
        command.env("HOSTLER_BINARY", production::build(tuned)?);
    }
    println!("… {name}");
    command.args(["bench", "--quiet", "--package", package, "--features", features, "--bench", name]);
    if !arguments.is_empty() {
        command.arg("--").args(arguments);
    }
    let status = status_of(&mut command);
    let status = status.map_err(|error| format!("cannot start the benchmark {name}: {error}"))?;
    if !status.success() {
        return Err(format!("the benchmark {name} failed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_benchmarks_and_arguments_for_nobody_are_refused() {
        for (words, why) in [
            (&["gardner"][..], "there is no benchmark \"gardner\""),
            (&["--machines", "5"], "--machines: name the one benchmark"),
            (&["world", "gardener", "--machines", "5"], "--machines: name the one benchmark"),
            (&["world", "--tuned"], "--tuned is for the benchmark gardener"),
            (&["world", "--beside", "karpenter"], "--beside karpenter is for the benchmark planner"),
        ] {
            assert!(bench(words).is_err_and(|error| error.contains(why)), "{words:?}");
        }
    }
}
