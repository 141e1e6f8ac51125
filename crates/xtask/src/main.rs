//! Chores of this repository: `cargo xtask test`, `bench`, `image` and `control-plane`.
#![forbid(unsafe_code)]

mod guard;
mod lines;
mod production;
mod real;
mod steps;
mod suite;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [NAME…]    formatting, lints and all tests; with names only the tests whose name contains one of them
  test real [NAME…]
                  the tests on a real control plane, which is built with Go when it is not there yet
  test long [NAME…]
                  every sweep as a whole, of which the other tests run a part: each fault at each call, for hours
  control-plane   builds and starts a real control plane: build, up (--help tells more)
  image           builds a static hostler and writes a container image, without a container engine: --output FILE
                  (--help tells more); with --tuned it is compiled twice, with a rehearsal in between
  bench [NAME…]   the benchmarks (apiserver, world, dev, planner, servers, gardener), in a release build; prints
                  what it measures; behind one name arguments for it: gardener --machines 100;
                  gardener --tuned measures the binary that image --tuned makes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [guard::CHORE, ..] = words.as_slice() {
        return guard::run(std::env::args_os().skip(2)).unwrap_or_else(|message| {
            eprintln!("{message}");
            ExitCode::from(127)
        });
    }
    let result = match words.as_slice() {
        ["test", "real", names @ ..] if names.iter().all(|name| !name.starts_with('-')) => real::run(names),
        ["test", "long", names @ ..] if names.iter().all(|name| !name.starts_with('-')) => {
            suite::run_long(names)
        }
        ["test", names @ ..] if names.iter().all(|name| !name.starts_with('-')) => suite::run(names),
        ["control-plane", rest @ ..] => steps::control_plane(rest),
        ["image", rest @ ..] => steps::image(rest),
        ["bench", names @ ..] => steps::bench(names),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
