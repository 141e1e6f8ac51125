//! Writes the container image of a built `hostler`; `cargo xtask image` builds it first.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::Parser;
use hostler_image::{VERSION, archive, check_alone, write_root};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Writes a container image with hostler in it, without a container engine.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The executable; it must need no shared libraries.
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,
    /// Where to write the image, as an OCI archive.
    #[arg(long, value_name = "FILE", default_value = "target/hostler-image.tar")]
    output: PathBuf,
    /// Writes the files of the image into this empty directory instead, as the Dockerfile needs them.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "output")]
    root: Option<PathBuf>,
    /// What the image is called where it is loaded.
    #[arg(long, default_value = concat!("localhost/hostler:", env!("CARGO_PKG_VERSION")))]
    name: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(told) => {
            // Whoever does not listen has the image all the same.
            let _ = writeln!(io::stdout(), "{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hostler-image: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<String> {
    let binary = fs::read(&options.binary)
        .with_context(|| format!("--binary: {} cannot be read", options.binary.display()))?;
    check_alone(&binary).with_context(|| format!("--binary: {}", options.binary.display()))?;
    if let Some(root) = &options.root {
        write_root(&binary, root).context("--root")?;
        return Ok(format!("The files of the image are in {}", root.display()));
    }
    let output = &options.output;
    let digest = write(&binary, options, output)
        .with_context(|| format!("--output: {} cannot be written", output.display()))?;
    let (size, output) = (fs::metadata(output)?.len(), output.display());
    let megabytes = size / 1_000_000;
    Ok(format!(
        "The image {name} is in {output} ({megabytes} MB)\n  {digest}\n\
         Try: podman load --input {output}\n     \
         skopeo copy oci-archive:{output} docker://REGISTRY/hostler:{VERSION}",
        name = options.name,
    ))
}

fn write(binary: &[u8], options: &Options, output: &Path) -> anyhow::Result<String> {
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent)?;
    }
    archive(binary, &options.name, BufWriter::new(File::create(output)?))
}
