//! Builds binaries with Go and keeps them in a cache directory, keyed by what they are made from.

use crate::catalogue::{Binary, Group};
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::{
    env, fmt,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    time::Instant,
};

/// Where binaries are kept.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    /// Go ends with its owner where there is one.
    supervisor: Option<PathBuf>,
}

/// A module's files are asked for again when the network fails; Go itself does not do that.
const DOWNLOAD_ATTEMPTS: u32 = 3;

/// Why something could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// There is no Go on this machine.
    NoGo,
    Failed(anyhow::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGo => f.write_str(
                "Go is not installed: the real control plane is built with it, install Go 1.26.2 or newer (https://go.dev/dl) and have `go` in PATH",
            ),
            Self::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<anyhow::Error> for BuildError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Store {
    /// The store of this user: `HOSTLER_CACHE_DIR`, else `hostler` in the user's cache directory.
    pub fn of_user() -> anyhow::Result<Self> {
        let directory = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = directory("HOSTLER_CACHE_DIR")
            .or_else(|| directory("XDG_CACHE_HOME").map(|cache| cache.join("hostler")))
            .or_else(|| directory("HOME").map(|home| home.join(".cache/hostler")))
            .context("there is no place for the binaries: set HOSTLER_CACHE_DIR or HOME")?;
        Ok(Self::at(root.join("control-plane")))
    }

    pub fn at(root: PathBuf) -> Self {
        Self { root, supervisor: None }
    }

    /// What is being built ends with this process. `supervisor` is this crate's binary.
    pub fn supervised_by(mut self, supervisor: PathBuf) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// Where a binary is once it is built.
    pub fn path(&self, binary: &Binary) -> PathBuf {
        self.directory(binary.group).join("bin").join(binary.name)
    }

    /// Files of a module that were copied when its binaries were built.
    pub fn assets(&self, group: &Group) -> PathBuf {
        self.directory(group).join("assets")
    }

    pub fn has(&self, binary: &Binary) -> bool {
        self.path(binary).is_file()
    }

    /// Builds what is not there yet and tells a line about each. Processes that build at the same time wait
    /// for each other.
    pub fn build(&self, wanted: &[&Binary], tell: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
        let missing: Vec<&&Binary> = wanted.iter().filter(|binary| !self.has(binary)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !go_is_there() {
            return Err(BuildError::NoGo);
        }
        fs::create_dir_all(&self.root).with_context(|| format!("{} cannot be made", self.root.display()))?;
        let lock = self.root.join("lock");
        let lock = File::create(&lock).with_context(|| format!("{} cannot be made", lock.display()))?;
        lock.lock().context("the cache cannot be locked")?;
        for binary in missing {
            // Another process may have built it meanwhile.
            if !self.has(binary) {
                let start = Instant::now();
                tell(&format!("… {}", binary.name));
                self.make(binary)?;
                tell(&format!("✓ {} ({:.1} s)", binary.name, start.elapsed().as_secs_f64()));
            }
        }
        Ok(())
    }

    fn make(&self, binary: &Binary) -> anyhow::Result<()> {
        let group = binary.group;
        let directory = self.directory(group);
        fs::create_dir_all(directory.join("bin"))
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        write(&directory.join("go.mod"), group.module)?;
        write(&directory.join("go.sum"), group.sum)?;
        for (name, text) in group.sources {
            write(&directory.join(name), text)?;
        }
        let draft = directory.join("bin").join(format!(".{}.{}", binary.name, process::id()));
        let versions = group.versions.iter().map(|(variable, value)| format!(" -X {variable}={value}"));
        let link = format!("-s -w{}", versions.collect::<String>());
        let arguments =
            ["build", "-trimpath", "-ldflags", &link, "-o", &draft.to_string_lossy(), binary.package];
        let mut attempts = 1..DOWNLOAD_ATTEMPTS;
        let built = loop {
            match self.go(&directory, &arguments) {
                Err(error) if is_about_the_network(&error) && attempts.next().is_some() => {}
                result => break result,
            }
        };
        built.with_context(|| format!("{} cannot be built", binary.name))?;
        // Only now is the module there for sure.
        self.copy_assets(group)?;
        // A binary is there as a whole, with all that belongs to it, or not at all.
        fs::rename(&draft, self.path(binary)).with_context(|| format!("{} cannot be kept", binary.name))
    }

    fn copy_assets(&self, group: &Group) -> anyhow::Result<()> {
        for (module, from, to) in group.assets {
            let target = self.assets(group).join(to);
            if target.is_dir() {
                continue;
            }
            let root = self.go(&self.directory(group), &["list", "-m", "-f", "{{.Dir}}", module])?;
            let draft = self.directory(group).join(format!(".assets.{}", process::id()));
            copy_files(&Path::new(root.trim()).join(from), &draft)
                .and_then(|()| fs::create_dir_all(target.parent().unwrap_or(&target)))
                .and_then(|()| fs::rename(&draft, &target))
                .with_context(|| format!("{from} of {module} cannot be copied"))?;
        }
        Ok(())
    }

    fn go(&self, directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.supervisor.as_ref().map_or_else(
            || Command::new("go"),
            |supervisor| {
                let mut command = Command::new(supervisor);
                command.args(["supervise", "--grace-millis", "0", "--", "go"]).process_group(0);
                command
            },
        );
        let mut child = command
            .args(arguments)
            .current_dir(directory)
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("go cannot be started")?;
        // Held until the end: without it the supervisor would end Go.
        let pipe = child.stdin.take();
        let output = child.wait_with_output().context("go cannot be waited for")?;
        drop(pipe);
        if !output.status.success() {
            bail!("go {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn directory(&self, group: &Group) -> PathBuf {
        self.root.join(format!("{}-{}", group.name, key(group)))
    }
}

/// Changes with everything in this repository that decides about the binaries of a group: its module with all
/// checksums, the versions written into them, what is taken along, and the machine they are for.
fn key(group: &Group) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    };
    [group.module, group.sum, env::consts::OS, env::consts::ARCH].into_iter().for_each(&mut add);
    group.sources.iter().flat_map(|(name, text)| [name, text]).for_each(|text| add(text));
    group.versions.iter().flat_map(|(variable, value)| [variable, value]).for_each(|text| add(text));
    group.assets.iter().flat_map(|(module, from, to)| [module, from, to]).for_each(|text| add(text));
    let short = hash.finalize().iter().take(8).fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    format!("{short:016x}")
}

fn is_about_the_network(error: &anyhow::Error) -> bool {
    let text = error.to_string();
    text.contains("Get \"http") || text.contains("unexpected EOF") || text.contains("connection reset")
}

fn go_is_there() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// Copies the files of a directory; a module's own are read-only, the copies are not.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::write(to.join(entry.file_name()), fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{ETCD, KUBECTL};

    #[test]
    fn the_key_changes_with_what_goes_in() {
        let base = || Group { name: "g", module: "m", sum: "s", sources: &[], versions: &[], assets: &[] };
        let others = [
            Group { module: "n", ..base() },
            Group { sum: "t", ..base() },
            Group { sources: &[("main.go", "x")], ..base() },
            Group { sources: &[("main.go", "y")], ..base() },
            Group { versions: &[("v", "1")], ..base() },
            Group { versions: &[("v", "2")], ..base() },
            Group { assets: &[("m", "from", "to")], ..base() },
            Group { assets: &[("m", "from", "there")], ..base() },
        ];
        let keys: std::collections::BTreeSet<String> = others.iter().chain([&base()]).map(key).collect();
        assert_eq!(keys.len(), others.len() + 1, "{keys:?}");
        assert_eq!(key(&base()), key(&base()));
        assert_eq!(key(&base()).len(), 16);
    }

    #[test]
    fn groups_do_not_share_a_directory() {
        let store = Store::at(PathBuf::from("/cache"));
        assert_ne!(store.directory(ETCD.group), store.directory(KUBECTL.group));
        assert!(store.path(&ETCD).starts_with("/cache"));
        assert!(!store.has(&ETCD));
    }
}
