//! What is in the image's root directory.

use crate::certificates;
use anyhow::{Context, bail};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// One thing in the image, in the order in which it has to be made.
pub struct Entry<'a> {
    /// Relative to the root.
    pub path: &'static str,
    pub what: What<'a>,
}

pub enum What<'a> {
    Directory,
    Executable(&'a [u8]),
    File(Vec<u8>),
    Link(&'static str),
}

impl What<'_> {
    pub fn mode(&self) -> u32 {
        match self {
            Self::Directory | Self::Executable(_) => 0o755,
            Self::File(_) => 0o644,
            Self::Link(_) => 0o777,
        }
    }
}

/// Everything in the image. The certificates are where the libraries look for them and where Gardener adds its own.
pub fn entries(executable: &[u8]) -> Vec<Entry<'_>> {
    let entry = |path, what| Entry { path, what };
    vec![
        entry("etc", What::Directory),
        entry("etc/ssl", What::Directory),
        entry("etc/ssl/certs", What::Directory),
        entry("etc/ssl/certs/ca-certificates.crt", What::File(certificates::authorities().into_bytes())),
        entry("hostler", What::Executable(executable)),
        // For manifests that name the command as those of Gardener's own machine controllers do.
        entry("machine-controller", What::Link("hostler")),
    ]
}

/// Writes the image's files into a directory, for an engine that makes an image of it.
pub fn write_root(executable: &[u8], root: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(root).with_context(|| format!("{} cannot be made", root.display()))?;
    let mut there = fs::read_dir(root).with_context(|| format!("{} cannot be read", root.display()))?;
    if there.next().is_some() {
        bail!("{} is not empty: what is in it would become part of the image", root.display());
    }
    for Entry { path, what } in entries(executable) {
        let path = root.join(path);
        write(&path, &what).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, what: &What<'_>) -> std::io::Result<()> {
    match what {
        What::Directory => fs::create_dir(path)?,
        What::Executable(bytes) => fs::write(path, bytes)?,
        What::File(bytes) => fs::write(path, bytes)?,
        What::Link(target) => return symlink(target, path),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(what.mode()))
}
