//! `hostler machine-controller` as a process.

use crate::{
    playground::{Directory, Playground, Process, hostler, wait_for},
    process::{client, refusal, wait_until_async},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
};

#[test]
fn one_that_cannot_work_says_why() {
    let directory = Directory::new();
    let table: [(&[&str], &str); 8] = [
        (&[], "--target-kubeconfig: this is not inside of a cluster; give the path of a kubeconfig"),
        (&["--target-kubeconfig=/nowhere"], "--target-kubeconfig: /nowhere is no kubeconfig"),
        (&["--target-kubeconfig=none"], "--control-kubeconfig: without a target cluster it must be given"),
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
    for (argument, expected) in [
        ("--leader-elect-retry-period=2d", "\"2d\" is no duration; write for example 90s, 1m30s or 2h"),
        ("--vmodule=drain", "\"drain\": give a pattern, = and a number, such as drain*=4"),
    ] {
        let output = hostler(&["machine-controller", argument]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{said}");
    }
}

/// Where it serves what a kubelet asks.
pub fn port_of(process: &mut Process) -> u16 {
    wait_for("it says where it serves", || {
        if let Some(status) = process.has_ended() {
            panic!("ended with {status}: {}", process.stderr());
        }
        let said = process.stderr();
        let (_, rest) = said.split_once("serving /healthz, /readyz and /metrics address=127.0.0.1:")?;
        rest.split_once('\n')?.0.trim().parse().ok()
    })
}

/// Status and body of the answer.
pub fn ask(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn is_ok(port: u16, path: &str) -> Option<()> {
    (ask(port, path)? == (200, "ok\n".to_owned())).then_some(())
}

fn start(playground: &Playground, name: &str, port: u16) -> Process {
    let mut command = hostler(&["machine-controller", "--namespace=kube-public", "--address=127.0.0.1"]);
    command.arg(format!("--port={port}")).arg("--target-kubeconfig").arg(&playground.kubeconfig);
    Process::start(&playground.directory, name, command)
}

#[tokio::test]
async fn one_leads_is_ready_and_gives_its_lease_back() {
    let playground = Playground::start();
    let mut first = start(&playground, "first", 0);
    let port = port_of(&mut first);
    let leases: Api<Lease> = Api::namespaced(client(&playground.kubeconfig, |_| {}).await, "kube-public");
    let holder = async || {
        let lease = leases.get_opt("machine-controller").await.unwrap()?;
        lease.spec?.holder_identity
    };
    wait_until_async(async || holder().await.is_some()).await;
    let leader = holder().await.unwrap();
    wait_for("it is ready", || is_ok(port, "/readyz"));

    // One that waits for the lease is healthy all the same, and ready to take over.
    let mut second = start(&playground, "second", 0);
    let other = port_of(&mut second);
    wait_for("it is healthy", || is_ok(other, "/healthz"));
    let standing_by = (200, "standing by: another process leads\n".to_owned());
    wait_for("it stands by", || (ask(other, "/readyz")? == standing_by).then_some(()));
    let taken = start(&playground, "third", port).wait();
    assert_eq!(taken.code(), Some(1), "the port is taken");

    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0), "{}", first.stderr());
    wait_until_async(async || holder().await.is_some_and(|now| !now.is_empty() && now != leader)).await;
    wait_for("the other one is ready", || is_ok(other, "/readyz"));
    second.signal("TERM");
    assert_eq!(second.wait().code(), Some(0), "{}", second.stderr());
    assert_eq!(holder().await.as_deref(), Some(""));
}

/// A server that takes calls and never answers.
struct Mute(std::net::SocketAddr);

/// A server that refuses every call, and what each path was asked by.
fn busy() -> (Mute, Arc<Mutex<BTreeMap<String, String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let noted = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let noted = noted.clone();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
                let agent = head.lines().find_map(|line| line.strip_prefix("user-agent: "));
                noted.lock().unwrap().insert(path, agent.unwrap_or_default().to_owned());
                let _ = stream.write_all(
                    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                );
            });
        }
    });
    (Mute(address), asked)
}

#[test]
fn it_introduces_itself_and_tells_what_it_is_busy_with_where_that_is_asked_for() {
    let directory = Directory::new();
    let (server, asked) = busy();
    let kubeconfig = server.kubeconfig(&directory);
    let agent_of = |ends: &str| {
        let asked = asked.lock().unwrap();
        asked.iter().find(|(path, _)| path.ends_with(ends)).map(|(_, agent)| agent.clone())
    };
    let profiles = ["--profiling", "--contention-profiling", "--vmodule=upst*=4"];
    for (name, elects, path, part, flags) in [
        ("waits", "true", "/leases/machine-controller", "machine-leader-election", &profiles[..]),
        ("works", "false", "/machines", "machine-controller", &[]),
    ] {
        let mut command = hostler(&["machine-controller", "--address=127.0.0.1", "--port=0"]);
        command.args(flags).env_remove("RUST_LOG");
        command.arg(format!("--leader-elect={elects}")).arg("--target-kubeconfig").arg(&kubeconfig);
        let mut process = Process::start(&directory, name, command);
        let port = port_of(&mut process);
        let agent = wait_for("it asks", || agent_of(path));
        assert_eq!(agent, format!("hostler/{} {part}", env!("CARGO_PKG_VERSION")));

        let asked_for = !flags.is_empty();
        let status = if asked_for { 200 } else { 404 };
        for path in ["", "cmdline", "goroutine", "block"] {
            assert_eq!(ask(port, &format!("/debug/pprof/{path}")).unwrap().0, status, "{path}");
        }
        if asked_for {
            let (_, line) = ask(port, "/debug/pprof/cmdline").unwrap();
            assert!(
                line.ends_with(kubeconfig.to_str().unwrap()) && line.contains("\0--profiling\0"),
                "{line}"
            );
        }
        // One file writes more, the others as before.
        let said = process.stderr();
        assert_eq!(said.contains("taken without effect"), asked_for, "{said}");
        assert_eq!(said.matches("DEBUG").count(), usize::from(asked_for), "{said}");
    }
}

impl Mute {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let taken: Vec<_> = listener.incoming().collect();
            drop(taken);
        });
        Self(address)
    }

    fn kubeconfig(&self, directory: &Directory) -> PathBuf {
        let file = directory.file("mute.kubeconfig");
        let text = format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: 'http://{}'}}}}]
users: [{{name: a, user: {{token: t}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
current-context: a
",
            self.0
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

#[test]
fn one_whose_api_server_is_mute_is_healthy_and_not_ready() {
    let directory = Directory::new();
    let kubeconfig = Mute::start().kubeconfig(&directory);
    for (elects, why) in
        [("false", "the first list has not arrived"), ("true", "not all watches are registered yet")]
    {
        let mut command = hostler(&["machine-controller", "--address=127.0.0.1", "--port=0"]);
        command.arg(format!("--leader-elect={elects}")).arg("--target-kubeconfig").arg(&kubeconfig);
        let mut process = Process::start(&directory, elects, command);
        let port = port_of(&mut process);
        wait_for("it says what it waits for", || {
            let (status, text) = ask(port, "/readyz")?;
            assert_eq!(status, 503, "{text}");
            text.contains(why).then_some(())
        });
        assert_eq!(ask(port, "/healthz"), Some((200, "ok\n".to_owned())));
        assert_eq!(ask(port, "/configz"), Some((200, "{}".to_owned())));
        let (status, metrics) = ask(port, "/metrics").unwrap();
        assert!(status == 200 && metrics.contains("\nprocess_open_fds "), "{metrics}");
    }
}

#[test]
fn a_playground_beside_a_mute_api_server_can_be_interrupted() {
    let directory = Directory::new();
    let mut command = hostler(&["--log-level=debug", "dev", "--beside"]);
    command.arg(Mute::start().kubeconfig(&directory));
    let mut process = Process::start(&directory, "beside", command);
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        // The second bit is the interrupt: from here on it does not just kill the process.
        (u64::from_str_radix(&caught, 16).ok()? & 0b10 != 0).then_some(())
    };
    wait_for("it catches signals", catches);
    process.signal("INT");
    assert_eq!(process.wait().code(), Some(0), "{}", process.stderr());
}
