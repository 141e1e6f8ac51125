//! The way to the cloud, as a process: whom it trusts, and which proxies it takes. With a simulated STACKIT behind a real
//! TLS listener.

use crate::{
    playground::{Directory, Playground, Process, hostler},
    process::{client, wait_until_async},
};
use hostler_base::{Chance, Clock};
use hostler_sim::stackit::{NewKey, Settings, Stackit};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
const NAMESPACE: &str = "kube-public";
const GROUP: &str = "machine.sapcloud.io";
/// A name that nobody but a proxy can resolve.
const ELSEWHERE: &str = "iaas.cloud.invalid";

/// A simulated cloud behind TLS, and a proxy that leads to it whatever it is asked for.
struct Cloud {
    stackit: Stackit,
    /// What a client has to trust, as PEM.
    authority: String,
    port: u16,
    proxy: u16,
    /// What the proxy was asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

/// A listener on a free port, what is done for each connection, and that port.
async fn listen<F>(each: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not like what it sees hangs up.
            tokio::spawn(each(stream));
        }
    });
    port
}

impl Cloud {
    async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let settings = Settings { require_token: true, ..Settings::default() };
        let stackit = Stackit::new(settings, Clock::system(), Chance::from_seed(1));
        let plain = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let behind = plain.local_addr().unwrap();
        tokio::spawn(stackit.clone().serve(plain));

        let (authority, acceptor) = certificates();
        let port = listen(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut near = acceptor.accept(stream).await?;
                copy_bidirectional(&mut near, &mut TcpStream::connect(behind).await?).await.map(drop)
            }
        })
        .await;
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        let proxy = listen(move |mut stream| {
            let noted = Arc::clone(&noted);
            async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                noted.lock().unwrap().push(first);
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                copy_bidirectional(&mut stream, &mut TcpStream::connect(("127.0.0.1", port)).await?)
                    .await
                    .map(drop)
            }
        })
        .await;
        Self { stackit, authority, port, proxy, asked }
    }

    fn has_server(&self, name: &str) -> bool {
        self.stackit.servers().iter().any(|server| server.name == name)
    }
}

/// An authority, and a server that it vouches for.
fn certificates() -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["localhost", ELSEWHERE].map(str::to_owned)).unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap().der().clone();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (pem, TlsAcceptor::from(Arc::new(config)))
}

fn objects(client: &Client, group: &str, kind: &str) -> (Api<DynamicObject>, ApiResource) {
    let version = if group.is_empty() { "v1" } else { "v1alpha1" };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    (Api::namespaced_with(client.clone(), NAMESPACE, &resource), resource)
}

async fn create(client: &Client, group: &str, kind: &str, mut object: Value) {
    let (api, resource) = objects(client, group, kind);
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(kind);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A class whose Secret has a key of this cloud.
async fn prepare(client: &Client, cloud: &Cloud) {
    let key = NewKey { mail: "nodes@sa.stackit.cloud".into(), ..NewKey::default() };
    let key = cloud.stackit.issue_key(key).unwrap();
    let secret = json!({"metadata": {"name": "credentials"}, "stringData": {"project-id": PROJECT,
        "serviceaccount.json": key.to_string(), "userData": "#cloud-config"}});
    create(client, "", "Secret", secret).await;
    let class = json!({"metadata": {"name": "small"}, "provider": "stackit",
        "secretRef": {"name": "credentials", "namespace": NAMESPACE},
        "providerSpec": {"region": "eu01", "machineType": "c2i.2", "imageId": PROJECT,
            "networking": {"networkId": PROJECT}, "labels": {"kubernetes.io/cluster": "here"}}});
    create(client, GROUP, "MachineClass", class).await;
}

/// A controller whose cloud, and whose tokens, are at this host.
fn controller(kubeconfig: &Path, cloud: &Cloud, host: &str) -> Command {
    let mut command =
        hostler(&["machine-controller", "--address=127.0.0.1", "--port=0", "--leader-elect=false"]);
    command.arg(format!("--namespace={NAMESPACE}")).arg("--target-kubeconfig").arg(kubeconfig);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env("STACKIT_IAAS_ENDPOINT", format!("https://{host}:{}/", cloud.port));
    command.env("STACKIT_TOKEN_BASEURL", format!("https://{host}:{}/token", cloud.port));
    command
}

/// A machine of its own for each case. What is ordered for it is seen in the cloud, what is wrong on the Machine.
struct Case<'a> {
    name: String,
    client: Client,
    cloud: &'a Cloud,
    _process: Process,
}

impl<'a> Case<'a> {
    async fn start(playground: &Playground, cloud: &'a Cloud, name: &str, command: Command) -> Self {
        let client = client(&playground.kubeconfig, |_| {}).await;
        let machine =
            json!({"metadata": {"name": name}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}});
        create(&client, GROUP, "Machine", machine).await;
        let process = Process::start(&playground.directory, name, command);
        Self { name: name.to_owned(), client, cloud, _process: process }
    }

    async fn says(&self) -> String {
        let machine = objects(&self.client, GROUP, "Machine").0.get(&self.name).await.unwrap();
        machine.data["status"]["lastOperation"]["description"].as_str().unwrap_or_default().to_owned()
    }

    async fn orders(&self) {
        wait_until_async(async || {
            let said = self.says().await;
            assert!(!said.contains("cannot reach"), "{}: {said}", self.name);
            self.cloud.has_server(&self.name)
        })
        .await;
    }
}

#[tokio::test]
async fn the_cloud_is_trusted_by_the_files_and_directories_of_the_container() {
    let (playground, cloud) = (Playground::start(), Cloud::start().await);
    prepare(&client(&playground.kubeconfig, |_| {}).await, &cloud).await;
    let directory = Directory::new();
    let file = directory.file("private.pem");
    fs::write(&file, &cloud.authority).unwrap();
    // As the image has it, with what Gardener mounts beside the public authorities.
    let mounted = directory.file("certs");
    fs::create_dir(&mounted).unwrap();
    fs::write(mounted.join("ca-certificates.crt"), certificates().0).unwrap();

    let stranger = controller(&playground.kubeconfig, &cloud, "localhost");
    let refused = Case::start(&playground, &cloud, "stranger", stranger).await;
    wait_until_async(async || refused.says().await.contains("invalid peer certificate: UnknownIssuer")).await;
    assert!(!cloud.has_server("stranger"));
    drop(refused);

    let mut by_file = controller(&playground.kubeconfig, &cloud, "localhost");
    by_file.env("SSL_CERT_FILE", &file);
    Case::start(&playground, &cloud, "by-file", by_file).await.orders().await;

    fs::write(mounted.join("cloudprofile-ca.crt"), &cloud.authority).unwrap();
    let mut by_directory = controller(&playground.kubeconfig, &cloud, "localhost");
    by_directory.env("SSL_CERT_DIR", &mounted);
    Case::start(&playground, &cloud, "by-directory", by_directory).await.orders().await;

    // The place itself needs a view of the files of its own.
    let bare = controller(&playground.kubeconfig, &cloud, "localhost");
    let script = "mount --bind \"$0\" /etc/ssl/certs && exec \"$@\"";
    let mut mount = Command::new("unshare");
    mount.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(&mounted);
    let allowed = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(&mounted)
        .arg("true")
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: files cannot be mounted here");
        return;
    }
    in_its_place(&mut mount, &bare);
    Case::start(&playground, &cloud, "by-place", mount).await.orders().await;

    // Who names a file of others all the same trusts what is mounted.
    let mut beside = Command::new("unshare");
    beside.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(&mounted);
    let mut named = controller(&playground.kubeconfig, &cloud, "localhost");
    let others = directory.file("others.pem");
    fs::write(&others, certificates().0).unwrap();
    named.env("SSL_CERT_FILE", &others);
    in_its_place(&mut beside, &named);
    Case::start(&playground, &cloud, "beside", beside).await.orders().await;
}

/// Lets one command start another one, with its arguments and variables.
fn in_its_place(outer: &mut Command, inner: &Command) {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
}

#[tokio::test]
async fn proxies_of_the_environment_are_taken_to_the_cloud_and_nowhere_else() {
    let (playground, cloud) = (Playground::start(), Cloud::start().await);
    prepare(&client(&playground.kubeconfig, |_| {}).await, &cloud).await;
    let directory = Directory::new();
    let file = directory.file("private.pem");
    fs::write(&file, &cloud.authority).unwrap();
    let proxied = |host: &str| {
        let mut command = controller(&playground.kubeconfig, &cloud, host);
        command.env("SSL_CERT_FILE", &file).env("HTTPS_PROXY", format!("http://127.0.0.1:{}", cloud.proxy));
        command
    };

    Case::start(&playground, &cloud, "through", proxied(ELSEWHERE)).await.orders().await;
    let asked = cloud.asked.lock().unwrap().clone();
    let wanted = format!("CONNECT {ELSEWHERE}:{} HTTP/1.1", cloud.port);
    assert!(!asked.is_empty() && asked.iter().all(|line| *line == wanted), "{asked:?}");

    let mut direct = proxied("localhost");
    direct.env("NO_PROXY", "10.0.0.0/8,localhost");
    cloud.asked.lock().unwrap().clear();
    Case::start(&playground, &cloud, "direct", direct).await.orders().await;
    assert_eq!(*cloud.asked.lock().unwrap(), [""; 0]);
}
