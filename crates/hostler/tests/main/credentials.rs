//! Credentials as Gardener gives them to its sidecar: the control cluster is the one that it runs in, the target cluster
//! has a kubeconfig whose token is in a file.

use crate::{
    machine_controller::{ask, port_of},
    playground::{Directory, Playground, Process, hostler, wait_for},
    process::{client, wait_until_async},
};
use base64::prelude::{BASE64_STANDARD, Engine};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, config::Kubeconfig};
use secrecy::ExposeSecret;
use std::{fs, path::Path, process::Command};

/// Where a process finds what its pod may know of the cluster.
const PLACE: &str = "/var/run/secrets/kubernetes.io";
const NAMESPACE: &str = "kube-public";

/// The address, authority and token of a playground.
struct Access {
    host: String,
    port: String,
    authority: String,
    token: String,
}

impl Access {
    fn to(playground: &Playground) -> Self {
        let read = Kubeconfig::read_from(&playground.kubeconfig).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        let address = cluster.server.as_ref().unwrap().trim_start_matches("https://");
        let (host, port) = address.split_once(':').unwrap();
        let token = read.auth_infos[0].auth_info.as_ref().unwrap().token.as_ref().unwrap();
        Self {
            host: host.to_owned(),
            port: port.trim_end_matches('/').to_owned(),
            authority: cluster.certificate_authority_data.clone().unwrap(),
            token: token.expose_secret().to_owned(),
        }
    }

    /// A kubeconfig with the token in a file.
    fn kubeconfig(&self, token: &Path) -> String {
        let Self { host, port, authority, .. } = self;
        let token = token.display();
        format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: 'https://{host}:{port}', certificate-authority-data: {authority}}}}}]
users: [{{name: a, user: {{tokenFile: '{token}'}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
current-context: a
"
        )
    }
}

/// A controller that reads its token from this file.
fn start(playground: &Playground, access: &Access, token: &Path) -> Process {
    let kubeconfig = playground.directory.file("by-file.kubeconfig");
    fs::write(&kubeconfig, access.kubeconfig(token)).unwrap();
    let mut command = hostler(&["machine-controller", "--address=127.0.0.1", "--port=0"]);
    command.arg(format!("--namespace={NAMESPACE}")).arg("--target-kubeconfig").arg(kubeconfig);
    Process::start(&playground.directory, "by-file", command)
}

async fn lead(playground: &Playground) {
    let leases: Api<Lease> = Api::namespaced(client(&playground.kubeconfig, |_| {}).await, NAMESPACE);
    let holder = async || leases.get_opt("machine-controller").await.unwrap()?.spec?.holder_identity;
    wait_until_async(async || holder().await.is_some_and(|holder| !holder.is_empty())).await;
}

#[tokio::test]
async fn a_token_in_a_file_is_read_again_when_it_changes() {
    let playground = Playground::start();
    let access = Access::to(&playground);
    let token = playground.directory.file("token");
    fs::write(&token, "0".repeat(64)).unwrap();
    let mut controller = start(&playground, &access, &token);
    let port = port_of(&mut controller);
    wait_for("it is refused", || controller.stderr().contains("Unauthorized").then_some(()));
    fs::write(&token, &access.token).unwrap();
    lead(&playground).await;
    wait_for("it is ready", || (ask(port, "/readyz")?.0 == 200).then_some(()));
}

#[tokio::test]
async fn the_cluster_that_it_runs_in_is_reached_by_what_its_pod_has() {
    let playground = Playground::start();
    let access = Access::to(&playground);
    let pod = Directory::new();
    fs::write(pod.file("ca.crt"), BASE64_STANDARD.decode(&access.authority).unwrap()).unwrap();
    fs::write(pod.file("token"), &access.token).unwrap();
    fs::write(pod.file("namespace"), NAMESPACE).unwrap();
    let kubeconfig = playground.directory.file("target.kubeconfig");
    fs::write(&kubeconfig, access.kubeconfig(&pod.file("token"))).unwrap();

    let script = format!(
        "mount -t tmpfs none \"$(readlink -f /var/run)\" && mkdir -p {PLACE} && ln -s \"$0\" {PLACE}/serviceaccount && exec \"$@\""
    );
    let inside = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(pod.path()).arg(program);
        command
    };
    if !inside("true").output().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: files cannot be mounted here");
        return;
    }
    let mut command = inside(env!("CARGO_BIN_EXE_hostler"));
    command
        .args([
            "machine-controller",
            "--address=127.0.0.1",
            "--port=0",
            "--control-kubeconfig=inClusterConfig",
        ])
        .arg(format!("--namespace={NAMESPACE}"))
        .arg("--target-kubeconfig")
        .arg(kubeconfig)
        .env_remove("RUST_LOG")
        .env("KUBERNETES_SERVICE_HOST", &access.host)
        .env("KUBERNETES_SERVICE_PORT", &access.port);
    let mut controller = Process::start(&playground.directory, "inside", command);
    let port = port_of(&mut controller);
    lead(&playground).await;
    wait_for("it is ready", || (ask(port, "/readyz")?.0 == 200).then_some(()));
}
