//! `cargo xtask control-plane`: builds and starts the real things.
#![forbid(unsafe_code)]

use anyhow::{Context, anyhow, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use hostler_control_plane::{
    ADMINISTRATOR, BuildError, ControlPlane, Options, Process, Store, catalogue, cluster_api, gardener,
    own_binary, supervise, temporary_directory,
};
use std::{
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// The exit code for a machine without Go.
const NO_GO: u8 = 3;
/// How often the processes are looked after.
const PAUSE: Duration = Duration::from_millis(500);

/// Builds and starts a real control plane: etcd, kube-apiserver and what runs on them.
#[derive(Parser)]
#[command(name = "cargo xtask control-plane", bin_name = "cargo xtask control-plane")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds the binaries that are not in the cache yet.
    Build(Build),
    /// Starts a control plane; it ends on Ctrl-C, and with whoever started it.
    Up(Up),
    /// Prints where a binary is.
    Path { binary: String },
    /// Runs a command until standard input ends.
    #[command(hide = true)]
    Supervise {
        #[arg(long, default_value_t = 10_000)]
        grace_millis: u64,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Args)]
struct Build {
    /// Only these; all when none is named.
    binaries: Vec<String>,
}

#[derive(Args)]
struct Up {
    /// What runs beside it: Gardener's machine-controller-manager, Cluster API's managers.
    #[arg(long, value_delimiter = ',')]
    with: Vec<Companion>,
    /// Where everything is kept: certificates, kubeconfigs, data, logs. A new directory that is removed at the end when none is given.
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Users besides the administrator, each with a kubeconfig: NAME or NAME:GROUP.
    #[arg(long = "user", value_name = "NAME")]
    users: Vec<String>,
    /// Only etcd and the API server: no controller manager and no scheduler.
    #[arg(long)]
    bare: bool,
    /// The namespace in which Gardener's manager looks for Machines.
    #[arg(long, default_value = "default", requires = "with")]
    namespace: String,
    /// Also ends when standard input does.
    #[arg(long)]
    until_eof: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Companion {
    Mcm,
    Capi,
}

const MANAGERS: [cluster_api::Manager; 3] = [
    cluster_api::Manager::Core,
    cluster_api::Manager::KubeadmBootstrap,
    cluster_api::Manager::KubeadmControlPlane,
];

fn main() -> ExitCode {
    let result = match Line::parse().command {
        Command::Build(build) => run_build(&build),
        Command::Up(up) => run_up(up),
        Command::Path { binary } => print_path(&binary),
        Command::Supervise { grace_millis, command } => {
            return supervise(&command, Duration::from_millis(grace_millis)).unwrap_or_else(|error| {
                eprintln!("{error:#}");
                ExitCode::from(127)
            });
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            match error.downcast_ref::<BuildError>() {
                Some(BuildError::NoGo) => ExitCode::from(NO_GO),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run_build(build: &Build) -> anyhow::Result<()> {
    let wanted = match build.binaries.as_slice() {
        [] => catalogue::ALL.to_vec(),
        names => names.iter().map(|name| named(name)).collect::<anyhow::Result<_>>()?,
    };
    let start = Instant::now();
    let store = own_store()?;
    let missing = wanted.iter().filter(|binary| !store.has(binary)).count();
    store.build(&wanted, &mut say)?;
    if missing == 0 {
        say(&format!("all {} are there", wanted.len()));
    } else {
        say(&format!("{missing} of {} built in {:.0} s", wanted.len(), start.elapsed().as_secs_f64()));
    }
    Ok(())
}

/// The user's store; what is built in it ends with this process.
fn own_store() -> anyhow::Result<Store> {
    Ok(Store::of_user()?.supervised_by(own_binary()?))
}

fn named(name: &str) -> anyhow::Result<&'static catalogue::Binary> {
    catalogue::named(name).ok_or_else(|| {
        let known: Vec<&str> = catalogue::ALL.iter().map(|binary| binary.name).collect();
        anyhow!("there is no binary {name:?}, there are {}", known.join(", "))
    })
}

fn print_path(binary: &str) -> anyhow::Result<()> {
    let (store, binary) = (Store::of_user()?, named(binary)?);
    if !store.has(binary) {
        bail!("{0} is not built yet: cargo xtask control-plane build {0}", binary.name);
    }
    say(&store.path(binary).to_string_lossy());
    Ok(())
}

fn run_up(up: Up) -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another crypto provider is already in use"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (directory, ours) = match &up.dir {
        Some(directory) => (own_directory(directory)?, false),
        None => (temporary_directory()?, true),
    };
    let result = runtime.block_on(run_until_asked_to_end(&up, &directory));
    // Does not wait for a build that is under way: it ends with this process.
    runtime.shutdown_background();
    if ours {
        // Something that was just being started may still write there; after a failure the logs are kept.
        let _ = if result.is_ok() { fs::remove_dir_all(&directory) } else { fs::remove_dir(&directory) };
    }
    result
}

/// A directory of the user's: made if it is not there, and then it must be empty.
fn own_directory(directory: &Path) -> anyhow::Result<PathBuf> {
    let made = fs::create_dir_all(directory).and_then(|()| fs::canonicalize(directory));
    let directory = made.with_context(|| format!("{} cannot be made", directory.display()))?;
    let mut entries =
        fs::read_dir(&directory).with_context(|| format!("{} cannot be read", directory.display()))?;
    if entries.next().is_some() {
        bail!("{} is not empty: give an empty directory with --dir", directory.display());
    }
    Ok(directory)
}

async fn run_until_asked_to_end(up: &Up, directory: &Path) -> anyhow::Result<()> {
    let mut signals =
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
    let [interrupt, terminate, hangup] = &mut signals;
    let mut end = pin!(async {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            () = end_of_parent() => {}
            () = end_of_input(), if up.until_eof => {}
        }
    });
    let (mut plane, mut companions) = tokio::select! {
        biased;
        () = &mut end => return Ok(()),
        started = start(up, directory) => started?,
    };
    say(&format!(
        "A Kubernetes API is at {}; logs are in {}. Ctrl-C ends it.\nexport KUBECONFIG={}",
        plane.server(),
        directory.display(),
        plane.admin_kubeconfig().display()
    ));
    let result = tokio::select! {
        biased;
        () = end => Ok(()),
        failed = look_after(&mut plane, &mut companions) => failed,
    };
    for companion in companions {
        companion.stop().await;
    }
    plane.stop().await;
    result
}

/// A process whose parent ends gets another one.
async fn end_of_parent() {
    let parent = parent_id();
    while parent_id() == parent {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn end_of_input() {
    let (ended, end) = oneshot::channel();
    // A thread of its own: a read from standard input cannot be taken back.
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while !matches!(io::stdin().read(&mut bytes), Ok(0) | Err(_)) {}
        let _ = ended.send(());
    });
    let _ = end.await;
}

async fn look_after(plane: &mut ControlPlane, companions: &mut [Process]) -> anyhow::Result<()> {
    loop {
        plane.check()?;
        companions.iter_mut().try_for_each(Process::check)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts everything. Whoever drops what this returns ends the processes.
async fn start(up: &Up, directory: &Path) -> anyhow::Result<(ControlPlane, Vec<Process>)> {
    let store = own_store()?;
    let mut options = Options::new(store.clone(), directory.to_owned());
    if up.bare {
        options.parts.clear();
    }
    options.users = up.users.iter().map(|user| user_and_group(user)).collect::<anyhow::Result<_>>()?;
    let mut wanted = options.binaries();
    if up.with.contains(&Companion::Mcm) {
        wanted.extend(gardener::binaries());
    }
    if up.with.contains(&Companion::Capi) {
        wanted.extend(MANAGERS.map(cluster_api::Manager::binary));
    }
    // Building takes minutes; signals must end it all the same.
    tokio::task::spawn_blocking(move || store.build(&wanted, &mut say)).await??;
    let mut plane = ControlPlane::start(options).await?;
    let mut companions = Vec::new();
    for companion in [Companion::Mcm, Companion::Capi].iter().filter(|companion| up.with.contains(companion))
    {
        match companion {
            Companion::Mcm => companions.push(gardener::start(&mut plane, &up.namespace).await?),
            Companion::Capi => {
                for manager in MANAGERS {
                    companions.push(cluster_api::start(&mut plane, manager).await?);
                }
            }
        }
    }
    Ok((plane, companions))
}

/// `NAME` or `NAME:GROUP`.
fn user_and_group(text: &str) -> anyhow::Result<(String, Option<String>)> {
    let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !plain(name) || name == ADMINISTRATOR {
        bail!(
            "--user: {name:?} is no name for a user: give letters, digits and dashes, and not {ADMINISTRATOR:?}"
        );
    }
    if group.is_some_and(|group| group.is_empty() || group.contains(['"', ',', '\n'])) {
        bail!("--user: the group of {name:?} is empty or has quotes, commas or line breaks in it");
    }
    Ok((name.to_owned(), group.map(str::to_owned)))
}

fn say(line: &str) {
    // Without a reader of these lines the control plane is there all the same.
    let _ = writeln!(io::stdout(), "{line}");
    let _ = io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_may_have_a_group() {
        let cases = [
            ("bob", Some(("bob", None))),
            ("bob:readers", Some(("bob", Some("readers")))),
            ("bob:system:readers", Some(("bob", Some("system:readers")))),
            ("", None),
            (":readers", None),
            ("bob:", None),
            ("bob:a,b", None),
            ("bob smith", None),
            ("../bob", None),
            (ADMINISTRATOR, None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(name, group)| (name.to_owned(), group.map(str::to_owned)));
            assert_eq!(user_and_group(text).ok(), expected, "{text:?}");
        }
    }
}
