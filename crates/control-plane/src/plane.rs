//! One control plane: etcd, kube-apiserver and, where wanted, the controller manager and the scheduler.

use crate::{
    authority::{self, Authority, write_private},
    catalogue::{Binary, ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER},
    ports::free_port,
    process::{Process, Program, own_binary},
    store::Store,
};
use anyhow::{Context, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// How long something may take to be ready; it is seconds, but on a busy machine everything takes long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// How long one question may take: a server that takes calls and is silent is asked again.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// The user with all rights.
pub const ADMINISTRATOR: &str = "admin";

/// Something beside etcd and the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    ControllerManager,
    Scheduler,
}

impl Part {
    fn binary(self) -> &'static Binary {
        match self {
            Self::ControllerManager => &KUBE_CONTROLLER_MANAGER,
            Self::Scheduler => &KUBE_SCHEDULER,
        }
    }
}

pub struct Options {
    pub store: Store,
    /// Where everything is kept. Must be there.
    pub directory: PathBuf,
    /// The binary with the command `supervise`; this crate's own one when it is the caller.
    pub supervisor: Option<PathBuf>,
    pub parts: Vec<Part>,
    /// Users besides the administrator, and their groups.
    pub users: Vec<(String, Option<String>)>,
}

impl Options {
    pub fn new(store: Store, directory: PathBuf) -> Self {
        Self {
            store,
            directory,
            supervisor: None,
            parts: vec![Part::ControllerManager, Part::Scheduler],
            users: Vec::new(),
        }
    }

    /// What has to be built for this.
    pub fn binaries(&self) -> Vec<&'static Binary> {
        let parts = self.parts.iter().map(|part| part.binary());
        [&ETCD, &KUBE_APISERVER].into_iter().chain(parts).collect()
    }
}

/// A running control plane. Dropping it ends its processes.
pub struct ControlPlane {
    store: Store,
    directory: PathBuf,
    supervisor: PathBuf,
    authority: Authority,
    etcd_url: String,
    port: u16,
    etcd: Process,
    api: Option<Process>,
    others: Vec<Process>,
}

impl ControlPlane {
    /// Starts it and waits until it is ready. The binaries must have been built.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let supervisor = options.supervisor.clone().map_or_else(own_binary, Ok)?;
        let authority = Authority::new()?;
        let directory = options.directory.clone();
        let (private, public) = authority::signing_keys()?;
        let own = authority.server("kube-apiserver")?;
        for (file, text) in [
            ("ca.crt", authority.pem()),
            ("ca.key", authority.key_pem()),
            ("api.crt", &own.certificate),
            ("api.key", &own.key),
            ("sa.key", &private),
            ("sa.pub", &public),
        ] {
            write_private(&directory.join(file), text)?;
        }
        let (etcd_url, peer_url) = (loopback("http")?, loopback("http")?);
        let etcd = Program::new("etcd", options.store.path(&ETCD))
            .flag("data-dir", directory.join("etcd"))
            .arg("--unsafe-no-fsync")
            .flag("listen-client-urls", &etcd_url)
            .flag("advertise-client-urls", &etcd_url)
            .flag("listen-peer-urls", &peer_url)
            .flag("initial-advertise-peer-urls", &peer_url)
            .flag("initial-cluster", format!("default={peer_url}"))
            .flag("log-level", "warn")
            .start(&supervisor, &directory)?;
        let mut plane = Self {
            store: options.store.clone(),
            directory,
            supervisor,
            authority,
            etcd_url,
            port: free_port()?,
            etcd,
            api: None,
            others: Vec::new(),
        };
        plane.write_users(&options.users)?;
        plane.start_api().await?;
        let mut ports = Vec::new();
        for part in &options.parts {
            ports.push((part.binary().name, plane.start_part(*part)?));
        }
        for (name, port) in ports {
            let client = unchecked(&format!("https://127.0.0.1:{port}"))?;
            wait_until(&format!("{name} is ready"), || plane.check(), &client, "/healthz").await?;
        }
        Ok(plane)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn supervisor(&self) -> &Path {
        &self.supervisor
    }

    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// etcd's client URL, plain HTTP.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The kubeconfig of a user.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.directory.join(format!("{user}.kubeconfig"))
    }

    /// The administrator's kubeconfig.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig(ADMINISTRATOR)
    }

    /// How a user reaches the API server, without repeating anything by itself.
    pub async fn config(&self, user: &str) -> anyhow::Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        // On loopback there is no proxy, whatever the environment says.
        config.proxy_url = None;
        Ok(config)
    }

    /// A client of the administrator.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::try_from(self.config(ADMINISTRATOR).await?)?)
    }

    /// Runs something of our own beside the control plane, for as long as it is there.
    pub fn run(&mut self, program: &Program) -> anyhow::Result<()> {
        let process = program.start(&self.supervisor, &self.directory)?;
        self.others.push(process);
        Ok(())
    }

    /// Stops the API server and starts it again: its watch cache forgets, connections end, objects stay.
    pub async fn restart_api(&mut self) -> anyhow::Result<()> {
        if let Some(api) = self.api.take() {
            api.stop().await;
        }
        self.start_api().await
    }

    /// Fails if one of the processes has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let processes = [&mut self.etcd].into_iter().chain(&mut self.api).chain(&mut self.others);
        processes.into_iter().try_for_each(Process::check)
    }

    /// Ends everything, the API server's users first, and waits for it.
    pub async fn stop(mut self) {
        for process in self.others.drain(..).rev().collect::<Vec<_>>() {
            process.stop().await;
        }
        if let Some(api) = self.api.take() {
            api.stop().await;
        }
        self.etcd.stop().await;
    }

    fn write_users(&self, more: &[(String, Option<String>)]) -> anyhow::Result<()> {
        let administrator = (ADMINISTRATOR.to_owned(), Some("system:masters".to_owned()));
        let mut tokens = String::new();
        for (user, group) in [administrator].iter().chain(more) {
            let token = uuid::Uuid::new_v4().simple().to_string();
            let groups = group.as_ref().map(|group| format!(",\"{group}\"")).unwrap_or_default();
            tokens.extend([&token, ",", user, ",", user, &groups, "\n"]);
            let text = kubeconfig(&self.server(), self.authority.pem(), user, &token);
            write_private(&self.kubeconfig(user), &text)?;
        }
        write_private(&self.directory.join("tokens.csv"), &tokens)
    }

    async fn start_api(&mut self) -> anyhow::Result<()> {
        let file = |name: &str| self.directory.join(name);
        let api = Program::new("kube-apiserver", self.store.path(&KUBE_APISERVER))
            .flag("etcd-servers", &self.etcd_url)
            .flag("bind-address", "127.0.0.1")
            .flag("advertise-address", "127.0.0.1")
            .flag("endpoint-reconciler-type", "none")
            .flag("secure-port", self.port.to_string())
            .flag("tls-cert-file", file("api.crt"))
            .flag("tls-private-key-file", file("api.key"))
            .flag("cert-dir", file("certs"))
            .flag("client-ca-file", file("ca.crt"))
            .flag("service-account-issuer", "https://kubernetes.default.svc")
            .flag("service-account-key-file", file("sa.pub"))
            .flag("service-account-signing-key-file", file("sa.key"))
            .flag("token-auth-file", file("tokens.csv"))
            .flag("authorization-mode", "RBAC")
            .flag("service-cluster-ip-range", "10.96.0.0/16")
            .arg("--enable-bootstrap-token-auth")
            .flag("allow-privileged", "true")
            .flag("disable-admission-plugins", "ServiceAccount")
            .flag("shutdown-delay-duration", "0s")
            .start(&self.supervisor, &self.directory)?;
        let client = self.client().await?;
        let (etcd, api) = (&mut self.etcd, self.api.insert(api));
        let check = || etcd.check().and_then(|()| api.check());
        wait_until("kube-apiserver is ready", check, &client, "/readyz").await
    }

    /// Gives the port on which it tells how it is.
    fn start_part(&mut self, part: Part) -> anyhow::Result<u16> {
        let port = free_port()?;
        let file = |name: &str| self.directory.join(name);
        let binary = part.binary();
        let program = Program::new(binary.name, self.store.path(binary))
            .flag("kubeconfig", self.admin_kubeconfig())
            .flag("leader-elect", "false")
            .flag("bind-address", "127.0.0.1")
            .flag("secure-port", port.to_string());
        let program = match part {
            Part::Scheduler => program,
            Part::ControllerManager => program
                .flag("cert-dir", file("controller-manager"))
                .flag("root-ca-file", file("ca.crt"))
                .flag("service-account-private-key-file", file("sa.key"))
                .flag("cluster-signing-cert-file", file("ca.crt"))
                .flag("cluster-signing-key-file", file("ca.key")),
        };
        self.run(&program)?;
        Ok(port)
    }
}

/// Waits until a server answers at this path that all is well; `check` fails when it never will.
pub(crate) async fn wait_until(
    what: &str,
    mut check: impl FnMut() -> anyhow::Result<()>,
    client: &Client,
    path: &str,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !tokio::time::timeout(CALL_LIMIT, is_ok(client, path)).await.unwrap_or(false) {
        check()?;
        if start.elapsed() > PATIENCE {
            bail!("{what}: not within {PATIENCE:?}");
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Whether a server on loopback answers that all is well.
async fn is_ok(client: &Client, path: &str) -> bool {
    match http::Request::get(path).body(Vec::new()) {
        Ok(request) => client.request_text(request).await.is_ok(),
        Err(_) => false,
    }
}

/// A client for a server whose certificate is its own.
pub(crate) fn unchecked(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

fn loopback(scheme: &str) -> anyhow::Result<String> {
    Ok(format!("{scheme}://127.0.0.1:{}", free_port()?))
}

fn kubeconfig(server: &str, ca_pem: &str, user: &str, token: &str) -> String {
    let authority = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: control-plane
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: control-plane
  context:
    cluster: control-plane
    user: {user}
    namespace: default
current-context: control-plane
"
    )
}

/// A directory for one control plane, below the system's temporary one.
pub fn temporary_directory() -> anyhow::Result<PathBuf> {
    let name = format!("hostler-control-plane-{}", uuid::Uuid::new_v4().simple());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_calls_and_is_silent_is_not_waited_for_for_ever() {
        // Another test of this process may have been first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = unchecked(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let start = Instant::now();
        let waited = wait_until("the silent one", || Ok(()), &client, "/readyz").await;
        assert!(waited.is_err_and(|error| error.to_string().contains("the silent one: not within")));
        assert!(start.elapsed() < PATIENCE * 2);
    }
}
