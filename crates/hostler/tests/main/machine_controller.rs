//! `hostler machine-controller` as a process.

use crate::{
    playground::{Directory, Playground, Process, hostler, wait_for},
    process::{client, refusal, wait_until_async},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

#[test]
fn one_that_cannot_work_says_why() {
    let directory = Directory::new();
    let table: [(&[&str], &str); 8] = [
        (&[], "--target-kubeconfig: this is not inside of a cluster; give the path of a kubeconfig"),
        (&["--target-kubeconfig=/nowhere"], "--target-kubeconfig: /nowhere is no kubeconfig"),
        (
            &["--target-kubeconfig=none"],
            "--target-kubeconfig: a controller without a target cluster is not supported",
        ),
        (&["--leader-elect-lease-duration=8s"], "--leader-elect-lease-duration must be longer than"),
        (&["--leader-elect-renew-deadline=1s"], "--leader-elect-lease-duration must be longer than"),
        (&["--leader-elect-retry-period=0"], "--leader-elect-lease-duration must be longer than"),
        (&["--leader-elect-lease-duration=15500ms"], "--leader-elect-lease-duration: give whole seconds"),
        (&["--kube-api-qps=0"], "--kube-api-qps and --kube-api-burst: give numbers above zero"),
    ];
    for (arguments, expected) in table {
        let mut command = hostler(&["machine-controller"]);
        command.args(arguments).env_remove("KUBERNETES_SERVICE_HOST");
        let said = refusal(&directory, command);
        assert!(said.starts_with(expected), "{arguments:?}: {said}");
    }
    let output = hostler(&["machine-controller", "--leader-elect-retry-period=2d"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("\"2d\" is no duration; write for example 90s, 1m30s or 2h"), "{said}");
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// The first line of the answer.
fn ask(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next().map(str::to_owned)
}

fn start(playground: &Playground, name: &str, port: u16) -> Process {
    let mut command = hostler(&["machine-controller", "--namespace=kube-public", "--address=127.0.0.1"]);
    command.arg(format!("--port={port}")).arg("--target-kubeconfig").arg(&playground.kubeconfig);
    Process::start(&playground.directory, name, command)
}

#[tokio::test]
async fn one_leads_is_ready_and_gives_its_lease_back() {
    let playground = Playground::start();
    let (port, other) = (free_port(), free_port());
    let mut first = start(&playground, "first", port);
    let leases: Api<Lease> = Api::namespaced(client(&playground.kubeconfig, |_| {}).await, "kube-public");
    let holder = async || {
        let lease = leases.get_opt("machine-controller").await.unwrap()?;
        lease.spec?.holder_identity
    };
    wait_until_async(async || holder().await.is_some()).await;
    let leader = holder().await.unwrap();
    wait_for("it is ready", || (ask(port, "/readyz")? == "HTTP/1.1 200 OK").then_some(()));

    // One that waits for the lease is healthy all the same.
    let mut second = start(&playground, "second", other);
    wait_for("it is healthy", || (ask(other, "/healthz")? == "HTTP/1.1 200 OK").then_some(()));
    let taken = start(&playground, "third", port).wait();
    assert_eq!(taken.code(), Some(1), "the port is taken");

    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0), "{}", first.stderr());
    wait_until_async(async || holder().await.is_some_and(|now| !now.is_empty() && now != leader)).await;
    second.signal("TERM");
    assert_eq!(second.wait().code(), Some(0), "{}", second.stderr());
    assert_eq!(holder().await.as_deref(), Some(""));
}
