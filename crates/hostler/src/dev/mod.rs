//! `hostler dev`: everything in one process, to try things in.

mod beside;
mod controllers;
mod kubeconfig;

use crate::{entropy, stop::StopSignals};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use hostler_apiserver::{
    ApiServer,
    serve::{self, Certificates},
};
use hostler_base::{Chance, Clock};
use hostler_gardener::api::crds;
use hostler_sim::{
    HollowNodes, MachineSpec, World,
    agent::AgentSettings,
    stackit::{Settings, Stackit},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::PostParams};
use secrecy::SecretString;
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::TcpListener;

/// How many nodes there are from the start.
const NODES: usize = 3;
/// How long what is under way may take at the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many times it is looked whether the server serves our kinds, and the pause between two looks.
const LOOKS: usize = 1200;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args)]
pub struct Options {
    /// Where the Kubernetes API listens; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:8443", value_name = "ADDR")]
    listen: SocketAddr,
    /// Where the kubeconfig is written. It is removed at the end if nobody has changed it.
    #[arg(long, default_value = "hostler.kubeconfig", value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The kubeconfig of a cluster to use in place of the embedded API, scheduler and workload controllers: one
    /// made for trying things, since nodes that are not real join it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "kubeconfig"])]
    beside: Option<PathBuf>,
    /// Beside a cluster: looks after MachineSets and MachineDeployments too. Only where Gardener's manager does not.
    #[arg(long, requires = "beside")]
    with_machine_sets: bool,
    /// Serves the simulated STACKIT there too, over plain HTTP and without a token, to look into it and to break it; port
    /// 0 picks a free one.
    #[arg(long, value_name = "ADDR")]
    stackit: Option<SocketAddr>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    match &options.beside {
        Some(kubeconfig) => beside::run(kubeconfig, &options).await,
        None => run_embedded(options).await,
    }
}

async fn run_embedded(options: Options) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let claim = kubeconfig::Claim::on(&options.kubeconfig)?;
    let (listener, address) = listen("--listen", options.listen).await?;
    let cloud = CloudDoor::open(options.stackit).await?;
    let clock = Clock::system();
    let certificates = Certificates::generate(&[address.ip()], clock.now())?;
    let token = entropy::system().text(b"0123456789abcdef", 64).context("there is no token for the API")?;
    let token = SecretString::from(token);
    let (mut world, stackit) = start_world(clock, token.clone(), &certificates.ca_pem).await?;
    let cloud = cloud.lead_to(stackit, &mut world);

    let api = world.api().cloned().context("a world without an API server")?;
    let shutdown = world.shutdown().clone();
    let text = serve::kubeconfig(reachable(address), &certificates.ca_pem, &token);
    let serving = tokio::spawn(async move { serve::serve(&api, listener, &certificates, shutdown).await });
    let written = claim.write(&text)?;
    greet(address, &cloud, written.path());
    until_stopped(&mut world, &mut stop).await?;
    drop(written);
    let farewell = async {
        world.stop().await;
        serving.await
    };
    match tokio::time::timeout(FAREWELL, farewell).await {
        Ok(Ok(served)) => served.context("the API could not be served"),
        Ok(Err(error)) => Err(anyhow!(error).context("the API could not be served")),
        Err(_) => {
            tracing::warn!("not everything ended in time");
            Ok(())
        }
    }
}

async fn until_stopped(world: &mut World, stop: &mut StopSignals) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = stop.received() => {}
        trouble = world.broken() => bail!("a part of the world broke: {trouble}"),
    }
    world.shutdown().cancel();
    Ok(())
}

/// Listens where this flag says, and says in one sentence why it cannot.
pub async fn listen(flag: &str, wanted: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(wanted).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{wanted} is taken: stop what listens there, or give another address with {flag} (port 0 picks a free one)"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("{wanted} may not be used: give a port above 1023 with {flag}")
        }
        ErrorKind::AddrNotAvailable => {
            anyhow!("{wanted} is no address of this machine: give another one with {flag}")
        }
        _ => anyhow!("{wanted} cannot be listened on: {error}"),
    })?;
    let address = listener.local_addr().with_context(|| format!("{wanted} cannot be listened on"))?;
    if !address.ip().is_loopback() {
        tracing::warn!("{address} is not a loopback address: others on the network can reach it");
    }
    Ok((listener, address))
}

/// Where a client on this machine finds a server that listens there.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

/// The way into the simulated cloud for other processes, if somebody wants one.
struct CloudDoor(Option<(TcpListener, SocketAddr)>);

impl CloudDoor {
    async fn open(wanted: Option<SocketAddr>) -> anyhow::Result<Self> {
        let Some(wanted) = wanted else { return Ok(Self(None)) };
        Ok(Self(Some(listen("--stackit", wanted).await?)))
    }

    /// Serves the cloud as long as the world is there, and gives what people are told about it.
    fn lead_to(self, cloud: Stackit, world: &mut World) -> String {
        let Some((listener, address)) = self.0 else { return String::new() };
        world.add_background(cloud.serve(listener));
        let url = format!("http://{}", reachable(address));
        format!("The simulated STACKIT is at {url}\nWhat is in it: curl {url}/_sim/state\n\n")
    }
}

async fn start_world(clock: Clock, token: SecretString, ca_pem: &str) -> anyhow::Result<(World, Stackit)> {
    let chance = Chance::from_entropy();
    let mut options = hostler_apiserver::Options::new(clock, chance.split("kubernetes"), entropy::system());
    options.users.push((token, ApiServer::admin()));
    let mut world = World::in_real_time(chance, options, None);
    install_definitions(&world).await?;
    world.start_cluster(hostler_cluster::Options {
        root_certificate: ca_pem.to_owned(),
        // Whoever deletes a node by hand wants to see its pods move now, not in a minute.
        gone_node_quarantine: Duration::from_secs(2),
        pod_garbage_period: Duration::from_secs(1),
        ..hostler_cluster::Options::all()
    });
    let cloud = populate(&mut world, true);
    Ok((world, cloud))
}

/// Definitions that are there already stay as they are.
async fn install_definitions(world: &World) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client());
    for crd in crds() {
        match definitions.create(&PostParams::default(), &crd).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created.context("the CustomResourceDefinitions cannot be installed")?),
        }
    }
    for _ in 0..LOOKS {
        if are_told_of(&world.client(), &crds()).await? {
            return Ok(());
        }
        world.clock().sleep(PAUSE).await;
    }
    bail!("the API server does not tell of the kinds in our CustomResourceDefinitions")
}

/// Whether discovery tells of these kinds. A real server takes its time for that, and kubectl does not know them before.
async fn are_told_of(client: &Client, definitions: &[CustomResourceDefinition]) -> anyhow::Result<bool> {
    let groups = client.list_api_groups().await?;
    let mut told = BTreeSet::new();
    for group in groups.groups.iter().flat_map(|group| &group.versions) {
        let group = &group.group_version;
        if definitions.iter().any(|crd| group.split('/').next() == Some(&crd.spec.group))
            && let Ok(kinds) = client.list_api_group_resources(group).await
        {
            told.extend(kinds.resources.into_iter().map(|kind| (group.clone(), kind.name)));
        }
    }
    Ok(definitions.iter().all(|crd| {
        let mut versions = crd.spec.versions.iter().filter(|version| version.served);
        versions.all(|version| {
            told.contains(&(format!("{}/{}", crd.spec.group, version.name), crd.spec.names.plural.clone()))
        })
    }))
}

/// Nodes, a cloud and the controllers; gives the cloud.
fn populate(world: &mut World, with_machine_sets: bool) -> Stackit {
    let nodes = world.start_hollow_nodes();
    boot_nodes(&nodes);
    let cloud = start_stackit(world, nodes);
    world.start_agents(AgentSettings::default());
    world.start("machine-controller", |context| Box::pin(controllers::machine_controller(context)));
    if with_machine_sets {
        world.start("machine-sets", |context| Box::pin(controllers::machine_sets(context)));
    }
    cloud
}

fn boot_nodes(nodes: &HollowNodes) {
    for number in 1..=NODES {
        let mut machine = MachineSpec::new(&format!("node-{number}"));
        machine.boot_time = Duration::ZERO;
        machine.ready_time = Duration::ZERO;
        nodes.boot(machine);
    }
}

fn start_stackit(world: &mut World, nodes: HollowNodes) -> Stackit {
    let settings = Settings {
        boot_time: Duration::from_millis(500),
        delete_time: Duration::from_millis(500),
        join_time: Duration::from_millis(250),
        ..Settings::default()
    };
    let cloud = Stackit::new(settings, world.clock().clone(), world.chance(controllers::STACKIT));
    world.add_cloud(controllers::STACKIT, Stackit::paths(), cloud.router());
    world.add_background(cloud.clone().drive(nodes));
    cloud
}

fn greet(address: SocketAddr, cloud: &str, kubeconfig: &Path) {
    // Without a reader of these lines the world is there all the same.
    let _ = writeln!(
        io::stdout(),
        "Hostler is ready: a Kubernetes API at https://{address} with {NODES} nodes and a simulated STACKIT.

{cloud}{}
Ctrl-C ends it; nothing is kept.",
        what_to_try(kubeconfig)
    );
}

fn what_to_try(kubeconfig: &Path) -> String {
    let kubeconfig = quoted(&kubeconfig.display().to_string());
    format!(
        "In another terminal:
  export KUBECONFIG={kubeconfig}
  kubectl get nodes
  kubectl apply -f samples/                  # two MachineClasses, a Machine, a set and a deployment of them
  kubectl get machines -w                    # each becomes a server and a node
  kubectl scale machinedeployment pool --replicas=5
  kubectl create deployment web --image=x --replicas=20
  kubectl get pods -o wide
  kubectl drain node-1 --ignore-daemonsets   # and back: kubectl uncordon node-1
  kubectl delete node node-3                 # its pods move
  kubectl delete -f samples/
"
    )
}

/// As a shell takes it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_led_to_an_address_they_can_reach() {
        let cases = [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:2", "127.0.0.1:2"),
            ("[::]:3", "[::1]:3"),
            ("10.1.2.3:4", "10.1.2.3:4"),
        ];
        for (listens, expected) in cases {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn paths_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("/home/a/hostler.kubeconfig"), "/home/a/hostler.kubeconfig");
        assert_eq!(quoted("/my files/it's"), r"'/my files/it'\''s'");
    }
}
