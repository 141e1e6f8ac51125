//! `hostler machine-controller`: the Gardener Machine controller as a process of its own.

use crate::{
    arguments::go_bool, entropy, kubeconfig, kubeconfig::Cluster, machine_sets, stop::StopSignals, upstream,
    web,
};
use anyhow::{Context, bail};
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use clap::{ArgAction, Args};
use hostler_base::{Chance, Clock, GoDuration};
use hostler_controller::{
    Election, Fence, Health, LeaseOptions, Led, Metrics, Rate, StackOptions, kube_client, stack,
};
use hostler_gardener::{DrainLimits, FreezeOptions, OrphanOptions, Parts, Target, life::CALL_LIMIT};
use hostler_stackit::{ApiMetrics, Environment, StackitFactory, Surroundings};
use hostler_vpsie::VpsieFactory;
use std::{
    env,
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The lease of Gardener's machine controllers, ours and others.
const LEASE: &str = "machine-controller";
const IN_CLUSTER: &str = "inClusterConfig";
/// In place of a kubeconfig: there is no cluster for the nodes.
const NO_TARGET: &str = "none";
/// How long one call to Kubernetes may take at most.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long what is under way may take at the end: runs and events have less, so that the lease is given back. Gardener
/// gives the container five seconds.
const FAREWELL: Duration = Duration::from_secs(4);

#[derive(Args)]
pub struct Options {
    /// The cluster with the Machines: a kubeconfig, or inClusterConfig; the target cluster when empty.
    #[arg(long, default_value = "", value_name = "FILE")]
    control_kubeconfig: String,
    /// The cluster with the Nodes: a kubeconfig, or none if there is no such cluster; the cluster that this runs in
    /// when empty.
    #[arg(long, default_value = "", value_name = "FILE")]
    target_kubeconfig: String,
    /// The namespace of the Machines and of the lease.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Where /healthz, /readyz and /metrics are served.
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    address: IpAddr,
    /// The port there; 0 picks a free one.
    #[arg(long, default_value_t = 10259)]
    port: u16,
    /// Whether only one of several instances works at a time.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    leader_elect: bool,
    /// How long others wait after the leader's last sign of life.
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    leader_elect_lease_duration: GoDuration,
    /// How long the leader tries to renew before it gives up.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    leader_elect_renew_deadline: GoDuration,
    /// The time between attempts to get or renew the lease.
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    leader_elect_retry_period: GoDuration,
    /// How long a machine may take until its node is Ready, for Machines that do not say.
    #[arg(long, default_value = "20m", value_name = "DURATION")]
    machine_creation_timeout: GoDuration,
    /// How long a machine may be unhealthy until it has failed, for Machines that do not say.
    #[arg(long, default_value = "10m", value_name = "DURATION")]
    machine_health_timeout: GoDuration,
    /// Conditions that make a node unhealthy unless they are False, for Machines that do not say.
    #[arg(
        long,
        default_value = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable",
        value_name = "TYPES"
    )]
    node_conditions: String,
    /// How often both API servers are asked whether they are there.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    machine_safety_apiserver_statuscheck_period: GoDuration,
    /// How long one may give no answer until machines are left alone.
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    machine_safety_apiserver_statuscheck_timeout: GoDuration,
    /// How long an update in place may take, for Machines that do not say.
    #[arg(long, default_value = "20m", value_name = "DURATION")]
    machine_inplace_update_timeout: GoDuration,
    /// How long a machine is kept that somebody wants to look at, for Machines that do not say.
    #[arg(long, default_value = "96h", value_name = "DURATION")]
    machine_preserve_timeout: GoDuration,
    /// How long a drain may take before it is forced, for Machines that do not say.
    #[arg(long, default_value = "2h", value_name = "DURATION")]
    machine_drain_timeout: GoDuration,
    /// A pod that budgets hold back is deleted after so many times 20 s, for Machines that do not say.
    #[arg(long, default_value_t = 360, value_name = "TIMES")]
    machine_max_evict_retries: u32,
    /// How long after its pod's grace period a volume may take to be detached.
    #[arg(long, default_value = "2m", value_name = "DURATION")]
    machine_pv_detach_timeout: GoDuration,
    /// How long to wait until it is attached to another node.
    #[arg(long, default_value = "90s", value_name = "DURATION")]
    machine_pv_reattach_timeout: GoDuration,
    /// The groups that a new node belongs to while it joins, with commas between them: the auth-extra-groups of its
    /// bootstrap token. Each begins with system:bootstrappers:.
    #[arg(long, default_value = "", value_name = "GROUPS")]
    bootstrap_token_auth_extra_groups: String,
    /// How often servers are looked for that no Machine owns, besides when a Machine has gone.
    #[arg(long, default_value = "15m", value_name = "DURATION")]
    machine_safety_orphan_vms_period: GoDuration,
    /// Such a server is deleted when it was seen twice, so far apart.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    machine_safety_orphan_vms_grace: GoDuration,
    /// So many of them are deleted at once per class.
    #[arg(long, default_value_t = 10, value_name = "SERVERS")]
    machine_safety_orphan_vms_limit: usize,
    /// Tell of them and delete none.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    machine_safety_orphan_vms_dry_run: bool,
    /// Calls per second to each Kubernetes API.
    #[arg(long, default_value_t = 20.0, value_name = "CALLS")]
    kube_api_qps: f64,
    /// Calls that may come at once.
    #[arg(long, default_value_t = 30, value_name = "CALLS")]
    kube_api_burst: u32,
    /// How many Machines of one kind of work are worked on at once.
    #[arg(long, default_value_t = 50, value_name = "MACHINES")]
    concurrent_syncs: usize,
    /// How often every Machine is looked at whether or not something changed.
    #[arg(long, default_value = "12h", value_name = "DURATION")]
    min_resync_period: GoDuration,
    /// How long to wait when the cloud has no room; 0 means 10m.
    #[arg(long, default_value = "10m", value_name = "DURATION")]
    resource_exhausted_retry: GoDuration,
    #[command(flatten)]
    pub upstream: upstream::Options,
    #[command(flatten)]
    sets: machine_sets::Options,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    options.check()?;
    options.upstream.tell();
    let environment = environment()?;
    let mut signals = StopSignals::listen()?;
    let (clock, chance, metrics) = (Clock::system(), Chance::from_entropy(), hostler_gardener::metrics());
    metrics.tell_of_the_process();
    let (control, target) = clusters(&options).await?;
    let health = Health::new(metrics.clone());
    let address = SocketAddr::new(options.address, options.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("--address and --port: {address} cannot be listened on"))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "serving /healthz, /readyz and /metrics");
    }

    let instance = instance();
    let open = Fence::open(clock.clone());
    let unfenced = StackOptions {
        user_agent: user_agent("machine-leader-election"),
        ..stack_options("leader-election", Some(&control), &options, open, &metrics, &clock)
    };
    let election = options.leader_elect.then(|| {
        let client = kube_client(control.for_leases.clone(), &unfenced, &options.namespace);
        Election::new(client, lease(&options, &instance), clock.clone(), &chance, metrics.clone())
            .tells(health.clone())
    });
    let fence = election.as_ref().map_or_else(|| Fence::open(clock.clone()), Election::fence);
    let stacked = |client, cluster: Option<&Cluster>| {
        stack_options(client, cluster, &options, fence.clone(), &metrics, &clock)
    };
    let web = web::transport()?;
    let surroundings = |name, counted| {
        let cloud = cloud_options(name, &options, fence.clone(), &metrics, &clock);
        Surroundings { transport: stack(counted, &cloud), clock: clock.clone(), chance: chance.split(name) }
    };
    let counted = metrics.register_with(ApiMetrics::new).counted(web.clone(), clock.clone());
    let stackit = surroundings("stackit", counted);
    let counted = metrics.register_with(hostler_vpsie::ApiMetrics::new).counted(web, clock.clone());
    let vpsie = surroundings("vpsie", counted);
    // These have a lease of their own, whatever is said about the other one.
    let sets = target.clone().filter(|_| options.sets.with_machine_sets).map(|target| machine_sets::Place {
        control: control.clone(),
        stack: StackOptions { client: "machine-sets", ..unfenced.clone() },
        target,
        namespace: options.namespace.clone(),
        lease: lease(&options, &instance),
        chance: chance.split("machine-sets"),
        health: health.clone(),
        options: options.sets.chosen(),
    });
    let control_client =
        |name| kube_client(control.transport.clone(), &stacked(name, Some(&control)), &options.namespace);
    let parts = Parts {
        control: control_client("control"),
        events: control_client("events"),
        namespace: options.namespace.clone(),
        target: target.map(|target| {
            let options = stacked("target", Some(&target));
            Target {
                client: kube_client(target.transport.clone(), &options, "default"),
                evictions: kube_client(target.transport, &options, "default"),
            }
        }),
        options: options.chosen(),
        drivers: Arc::new(StackitFactory::with_environment(stackit, environment)),
        other_drivers: vec![Arc::new(VpsieFactory::new(vpsie))],
        clock,
        chance,
        metrics,
        health: health.clone(),
        instance,
        entropy: entropy::system(),
        token_groups: options.token_groups(),
    };
    let profiles = options.upstream.profiles(&health);
    let stop = CancellationToken::new();
    // Boxed: these are large futures.
    let machines = Box::pin(lead(election, parts, stop.clone()));
    let sets = Box::pin(async {
        match sets {
            Some(place) => machine_sets::lead(place, stop.clone()).await,
            None => Ok(()),
        }
    });
    let work = async { tokio::try_join!(machines, sets).map(|((), ())| ()) };
    let serve = async { axum::serve(listener, served(&health).merge(profiles)).await };
    let ended = async {
        tokio::select! {
            biased;
            led = work => led,
            served = serve => served.context("health and metrics cannot be served any more"),
        }
    };
    let mut ended = Box::pin(ended);
    tokio::select! {
        biased;
        () = signals.received() => {}
        ended = &mut ended => return ended,
    }
    stop.cancel();
    tokio::time::timeout(FAREWELL, ended).await.unwrap_or(Ok(()))
}

impl Options {
    fn chosen(&self) -> hostler_gardener::Options {
        hostler_gardener::Options {
            creation_timeout: self.machine_creation_timeout.0,
            health_timeout: self.machine_health_timeout.0,
            node_conditions: self.node_conditions.clone(),
            in_place_update_timeout: self.machine_inplace_update_timeout.0,
            preserve_timeout: self.machine_preserve_timeout.0,
            workers: self.concurrent_syncs,
            resync: self.min_resync_period.0,
            resource_exhausted_retry: self.resource_exhausted_retry.0,
            drain: DrainLimits {
                timeout: self.machine_drain_timeout.0,
                evict_retries: self.machine_max_evict_retries,
                detach: self.machine_pv_detach_timeout.0,
                reattach: self.machine_pv_reattach_timeout.0,
            },
            freeze: FreezeOptions {
                period: self.machine_safety_apiserver_statuscheck_period.0,
                timeout: self.machine_safety_apiserver_statuscheck_timeout.0,
            },
            orphans: OrphanOptions {
                period: self.machine_safety_orphan_vms_period.0,
                grace: self.machine_safety_orphan_vms_grace.0,
                limit: self.machine_safety_orphan_vms_limit,
                dry_run: self.machine_safety_orphan_vms_dry_run,
            },
        }
    }

    /// What bootstrap tokens say about their groups.
    fn token_groups(&self) -> String {
        self.bootstrap_token_auth_extra_groups.clone()
    }

    /// Values that would let nobody work, or two at once, are refused at the start.
    fn check(&self) -> anyhow::Result<()> {
        self.upstream.check()?;
        if self.concurrent_syncs == 0 {
            bail!("--concurrent-syncs: give a number above zero");
        }
        if self.target_kubeconfig == NO_TARGET && self.control_kubeconfig.is_empty() {
            bail!(
                "--control-kubeconfig: without a target cluster it must be given: a kubeconfig, or {IN_CLUSTER}"
            );
        }
        if self.target_kubeconfig == NO_TARGET && self.sets.with_machine_sets {
            bail!("--with-machine-sets: needs the cluster with the nodes; give it with --target-kubeconfig");
        }
        if !(self.kube_api_qps.is_finite() && self.kube_api_qps > 0.0 && self.kube_api_burst > 0) {
            bail!("--kube-api-qps and --kube-api-burst: give numbers above zero");
        }
        let (period, timeout) = (
            self.machine_safety_apiserver_statuscheck_period.0,
            self.machine_safety_apiserver_statuscheck_timeout.0,
        );
        if period < timeout {
            bail!(
                "--machine-safety-apiserver-statuscheck-period must not be shorter than --machine-safety-apiserver-statuscheck-timeout"
            );
        }
        let (lease, renew, retry) = (
            self.leader_elect_lease_duration.0,
            self.leader_elect_renew_deadline.0,
            self.leader_elect_retry_period.0,
        );
        if lease.subsec_nanos() != 0 {
            bail!("--leader-elect-lease-duration: give whole seconds, a lease knows no others");
        }
        // Attempts are spread by a fifth, so that candidates do not ask together for ever.
        if !(lease > renew && renew > retry.mul_f64(1.2) && !retry.is_zero()) {
            bail!(
                "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that longer than 1.2 times --leader-elect-retry-period, which must be above zero"
            );
        }
        if self.leader_elect && self.left_on_the_lease().is_zero() {
            bail!(
                "--leader-elect-lease-duration must be longer than twice --leader-elect-retry-period: between two renewals no call would be safe"
            );
        }
        Ok(())
    }

    /// What is always left on a lease that is renewed in time: one renewal may fail.
    fn left_on_the_lease(&self) -> Duration {
        self.leader_elect_lease_duration.0.saturating_sub(2 * self.leader_elect_retry_period.0)
    }

    /// A call may take as long as this, or less: the fence lets nothing pass that could outlast the lease.
    fn call_timeout(&self, at_most: Duration) -> Duration {
        if self.leader_elect { at_most.min(self.left_on_the_lease()) } else { at_most }
    }
}

/// What is served besides health and metrics is what Gardener's provider binaries serve, too: `/configz`, which has
/// nothing in it.
fn served(health: &Health) -> Router {
    let json = [(CONTENT_TYPE, "application/json")];
    health.router().route("/configz", get(async move || (json, "{}")))
}

async fn lead(election: Option<Election>, parts: Parts, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(election) = election else {
        Box::pin(hostler_gardener::run(parts, stop)).await;
        return Ok(());
    };
    match election.lead(&stop, || hostler_gardener::run(parts, stop.clone())).await {
        Led::Finished(()) | Led::Never => Ok(()),
        Led::Lost => bail!("the lease {LEASE} was lost: another instance may be working now"),
    }
}

fn lease(options: &Options, instance: &str) -> LeaseOptions {
    LeaseOptions {
        duration: options.leader_elect_lease_duration.0,
        renew_deadline: options.leader_elect_renew_deadline.0,
        retry_period: options.leader_elect_retry_period.0,
        ..LeaseOptions::new(&options.namespace, LEASE, instance)
    }
}

fn stack_options(
    client: &'static str,
    cluster: Option<&Cluster>,
    options: &Options,
    fence: Fence,
    metrics: &Metrics,
    clock: &Clock,
) -> StackOptions {
    let rate = Rate { per_second: options.kube_api_qps, burst: options.kube_api_burst };
    StackOptions {
        client,
        server: cluster.map(|cluster| cluster.address.clone()),
        user_agent: user_agent("machine-controller"),
        timeout: options.call_timeout(CALL_TIMEOUT.min(options.leader_elect_renew_deadline.0 / 2)),
        rate: Some(rate),
        fence,
        metrics: metrics.clone(),
        clock: clock.clone(),
    }
}

/// How a client introduces itself, with the part of the program that it works for.
pub fn user_agent(part: &str) -> String {
    format!("hostler/{} {part}", env!("CARGO_PKG_VERSION"))
}

/// How a cloud is called: it has a limit of its own for each project or account.
fn cloud_options(
    cloud: &'static str,
    options: &Options,
    fence: Fence,
    metrics: &Metrics,
    clock: &Clock,
) -> StackOptions {
    // What an attempt's horizon rests on: no create call is under way for longer.
    let timeout = options.call_timeout(options.leader_elect_renew_deadline.0.min(CALL_LIMIT.unsigned_abs()));
    StackOptions { rate: None, timeout, ..stack_options(cloud, None, options, fence, metrics, clock) }
}

/// The control cluster and the target cluster, if there is one.
async fn clusters(options: &Options) -> anyhow::Result<(Cluster, Option<Cluster>)> {
    if options.target_kubeconfig == NO_TARGET {
        return Ok((cluster("--control-kubeconfig", &options.control_kubeconfig).await?, None));
    }
    let target = cluster("--target-kubeconfig", &options.target_kubeconfig).await?;
    if options.control_kubeconfig.is_empty() {
        return Ok((target.clone(), Some(target)));
    }
    Ok((cluster("--control-kubeconfig", &options.control_kubeconfig).await?, Some(target)))
}

async fn cluster(flag: &str, file: &str) -> anyhow::Result<Cluster> {
    let config = if file.is_empty() || file == IN_CLUSTER {
        kubeconfig::surrounding()
    } else {
        kubeconfig::cluster(Path::new(file)).await
    };
    config.and_then(Cluster::reached_by).with_context(|| flag.to_owned())
}

/// What the variables say about STACKIT. One that is no text cannot be one of them.
fn environment() -> anyhow::Result<Environment> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Ok(Environment::read(&env::vars_os().filter_map(text).collect())?)
}

/// Unique among all instances, also over restarts.
fn instance() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("hostler").to_owned();
    format!("{host}_{}", uuid::Uuid::new_v4())
}

#[cfg(test)]
#[path = "machine_controller_tests.rs"]
mod tests;
