//! The kubeconfig file: written at once as a whole, readable by its owner only, and never in place of a file
//! that is not ours.
//!
//! While a process runs it holds a lock on its file, so a second one that wants the same file notices; the
//! lock of a process that was killed is gone with it. At the end the file is removed if it still says what
//! was written.

use anyhow::{Context, anyhow, bail};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf, absolute},
    process,
};

/// The first line of a file that is ours.
const MARK: &str = "# Written by `hostler dev`, which replaces and removes this file.\n";

/// The right to write a file, shown to be possible by a locked draft beside it.
pub struct Claim {
    target: PathBuf,
    draft: Draft,
}

/// The file as it was written; dropping this removes it.
pub struct Written {
    path: PathBuf,
    text: String,
    /// Holds the lock.
    _file: File,
}

struct Draft {
    path: PathBuf,
    file: Option<File>,
}

impl Claim {
    pub fn on(target: &Path) -> anyhow::Result<Self> {
        let target = absolute(target).with_context(|| format!("{:?} is no file name", target.display()))?;
        check_existing(&target)?;
        let draft = Draft::beside(&target).with_context(|| cannot_write(&target))?;
        Ok(Self { target, draft })
    }

    pub fn write(mut self, text: &str) -> anyhow::Result<Written> {
        let text = format!("{MARK}{text}");
        let written = self.draft.write(&text).and_then(|file| {
            fs::rename(&self.draft.path, &self.target)?;
            Ok(file)
        });
        let file = written.with_context(|| cannot_write(&self.target))?;
        Ok(Written { path: self.target, text, _file: file })
    }
}

fn cannot_write(target: &Path) -> String {
    format!("{} cannot be written, give another file with --kubeconfig", target.display())
}

fn check_existing(target: &Path) -> anyhow::Result<()> {
    let shown = target.display();
    let file = match File::open(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| cannot_write(target))?,
    };
    let text = io::read_to_string(&file).with_context(|| cannot_write(target))?;
    if !text.starts_with(MARK) {
        bail!("{shown} is there already and not written by hostler: give another file with --kubeconfig");
    }
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(anyhow!(
            "another hostler dev is running and {shown} is its kubeconfig: stop it, or give another file with --kubeconfig and another address with --listen"
        )),
        // A file system without locks cannot tell.
        Err(TryLockError::Error(error)) => {
            tracing::debug!(%error, "the kubeconfig cannot be locked");
            Ok(())
        }
    }
}

impl Draft {
    fn beside(target: &Path) -> io::Result<Self> {
        let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", process::id()));
        let path = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        if let Err(error) = file.try_lock() {
            tracing::debug!(%error, "the kubeconfig cannot be locked");
        }
        Ok(Self { path, file: Some(file) })
    }

    fn write(&mut self, text: &str) -> io::Result<File> {
        let mut file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is nothing under this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

impl Written {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "{} could not be removed", self.path.display());
        }
    }
}
