//! A world: an API server, embedded or a real one beside it, what a cluster does by itself, hollow nodes, simulated clouds and
//! controllers, all in one process and in one set of tasks.

use crate::{
    agent::{AgentSettings, Agents},
    csi::{Csi, CsiSettings},
    hollow::HollowNodes,
    incarnation::{Context, KUBERNETES, Process, Servers, Spec, kube_client},
    metrics::Metrics,
    sweep::Finished,
    wire::{Line, Observer, Paths, Plan, Wire},
};
use futures::future::BoxFuture;
use hostler_apiserver::{ApiServer, Options};
use hostler_base::{Chance, Clock, Entropy, Transport, transport};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// When every virtual world begins: 2026-01-01T00:00:00Z.
const EPOCH: i64 = 1_767_225_600;

pub struct World {
    clock: Clock,
    chance: Chance,
    /// Nothing if the API server is a real one beside this world.
    api: Option<ApiServer>,
    /// Leads to the API server with all rights.
    kubernetes: Transport,
    servers: Servers,
    /// A world that runs for days is not broken and keeps no trace.
    wire: Option<Wire>,
    shutdown: CancellationToken,
    tasks: JoinSet<Result<(), String>>,
}

impl World {
    /// A world in virtual time, for a runtime whose time is paused. Every call crosses a wire with this plan.
    pub fn in_virtual_time(plan: Plan) -> Self {
        let clock = Clock::starting_at(Timestamp::from_second(EPOCH).unwrap_or(Timestamp::UNIX_EPOCH));
        let chance = Chance::from_seed(plan.seed());
        let entropy = Entropy::guessable(chance.split("entropy"));
        let options = Options::new(clock.clone(), chance.split(KUBERNETES), entropy);
        Self::embedded(clock, chance, options, Some(Wire::new(plan)))
    }

    /// A world in real time, whose API server may be served on a port. With a plan every call crosses a wire.
    pub fn in_real_time(chance: Chance, options: Options, plan: Option<Plan>) -> Self {
        Self::embedded(options.clock.clone(), chance, options, plan.map(Wire::new))
    }

    /// A world in real time around a real API server that `kubernetes` leads to with all rights. With a plan
    /// every call crosses a wire.
    pub fn beside(kubernetes: Transport, clock: Clock, chance: Chance, plan: Option<Plan>) -> Self {
        Self::new(clock, chance, None, kubernetes, plan.map(Wire::new))
    }

    fn embedded(clock: Clock, chance: Chance, options: Options, wire: Option<Wire>) -> Self {
        let api = ApiServer::new(options);
        let kubernetes = api.transport(ApiServer::admin());
        Self::new(clock, chance, Some(api), kubernetes, wire)
    }

    fn new(
        clock: Clock,
        chance: Chance,
        api: Option<ApiServer>,
        kubernetes: Transport,
        wire: Option<Wire>,
    ) -> Self {
        let mut servers = Servers::default();
        servers.add(KUBERNETES, Paths::Kubernetes, kubernetes.clone());
        let (shutdown, tasks) = (CancellationToken::new(), JoinSet::new());
        Self { clock, chance, api, kubernetes, servers, wire, shutdown, tasks }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A source of chance for one subject of this world.
    pub fn chance(&self, subject: &str) -> Chance {
        self.chance.split(subject)
    }

    /// The embedded API server, if this world has one.
    pub fn api(&self) -> Option<&ApiServer> {
        self.api.as_ref()
    }

    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// The wire that calls cross, if there is one.
    pub fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// A client that goes directly to the API server, for tests that look on: not traced, never broken.
    pub fn client(&self) -> kube::Client {
        kube_client(self.kubernetes.clone())
    }

    /// A client for an actor whose calls are traced but never broken, for example the user of a flow.
    pub fn client_of(&self, actor: &str) -> kube::Client {
        kube_client(self.transport_of(actor, KUBERNETES))
    }

    /// The same for any server.
    pub fn transport_of(&self, actor: &str, server: &str) -> Transport {
        let line = Line::of(actor);
        self.servers.transport(server, self.wire.as_ref().map(|wire| (wire, &line)))
    }

    /// Adds a simulated cloud. Controllers started later reach it by its name.
    pub fn add_cloud(&mut self, name: &str, paths: Paths, router: axum::Router) {
        let router = transport::from_service(tower::ServiceExt::map_request(
            router,
            |request: http::Request<transport::Body>| request.map(axum::body::Body::new),
        ));
        self.servers.add(name, paths, router);
    }

    /// Adds any other server. Controllers started later reach it by its name.
    pub fn add_server(&mut self, name: &str, paths: Paths, server: Transport) {
        self.servers.add(name, paths, server);
    }

    /// Leads to the API server with all rights: not traced, never broken.
    pub fn kubernetes(&self) -> Transport {
        self.kubernetes.clone()
    }

    /// Runs something beside the rest until the world ends.
    pub fn add_background(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = future => {}
            }
            Ok(())
        });
    }

    /// Starts a controller with all rights; a crashed one is there again after a second.
    pub fn start<F>(&mut self, actor: &str, program: F) -> Process
    where
        F: Fn(Context) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    {
        self.start_through(self.kubernetes.clone(), actor, program)
    }

    /// Starts a controller that reaches the API server through this transport, with the rights that it brings.
    pub fn start_through<F>(&mut self, kubernetes: Transport, actor: &str, program: F) -> Process
    where
        F: Fn(Context) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    {
        let mut servers = self.servers.clone();
        servers.add(KUBERNETES, Paths::Kubernetes, kubernetes);
        let spec = Spec {
            actor: actor.to_owned(),
            program: Arc::new(program),
            restart_after: Duration::from_secs(1),
            clock: self.clock.clone(),
            chance: self.chance.split(actor),
            servers: Arc::new(servers),
            wire: self.wire.clone(),
        };
        let (process, run) = Process::new(spec, self.shutdown.clone());
        self.tasks.spawn(async {
            run.await;
            Ok(())
        });
        process
    }

    /// What nodes and pods use, served by the embedded API server. Beside a real one nothing leads to it by itself.
    pub fn serve_metrics(&self) -> Metrics {
        let metrics = Metrics::new(self.clock.clone());
        if let Some(api) = &self.api {
            api.extend(metrics.extension());
        }
        metrics
    }

    /// Starts hollow nodes; machines are booted and shut down through the handle.
    pub fn start_hollow_nodes(&mut self) -> HollowNodes {
        let client = self.client_of("hollow");
        let (nodes, run) = HollowNodes::new(client, self.clock.clone());
        self.add_background(run);
        nodes
    }

    /// Starts a CSI driver's attacher. The cluster's own must be off, which serves every driver at once.
    pub fn start_csi(&mut self, settings: CsiSettings) -> Csi {
        let (csi, run) = Csi::new(settings, self.client_of("csi"), self.clock.clone());
        self.add_background(run);
        csi
    }

    /// Starts the node agents, which update nodes in place.
    pub fn start_agents(&mut self, settings: AgentSettings) -> Agents {
        let (agents, run) = Agents::new(settings, self.client_of("agents"), self.clock.clone());
        self.add_background(run);
        agents
    }

    /// Starts what a cluster does by itself; not to be used beside a real control plane.
    pub fn start_cluster(&mut self, options: hostler_cluster::Options) {
        let client = self.client_of("cluster");
        let (clock, chance) = (self.clock.clone(), self.chance.split("cluster"));
        let run = hostler_cluster::run(client, clock, chance, options, self.shutdown.clone());
        self.tasks.spawn(async move { run.await.map_err(|error| error.to_string()) });
    }

    /// Looks at the world after every call. Worlds without a wire are not observed.
    pub fn observe(&self, observer: Observer) {
        if let Some(wire) = &self.wire {
            wire.observe(observer);
        }
    }

    /// Lets the world run until `condition` holds: it is asked after every call and at least every second.
    /// Fails after `limit`, at the first violated invariant, and when a part of the world breaks.
    pub async fn run_until(
        &mut self,
        what: &str,
        limit: Duration,
        condition: impl AsyncFn() -> bool,
    ) -> Result<(), String> {
        let deadline = self.clock.instant() + limit;
        let mut calls = self.wire.as_ref().map(Wire::calls);
        loop {
            if condition().await {
                return Ok(());
            }
            if let Some(violation) = self.wire.as_ref().and_then(|wire| wire.violations().into_iter().next())
            {
                return Err(format!("an invariant was violated before {what}: {}", violation.message));
            }
            while let Some(ended) = self.tasks.try_join_next() {
                if let Err(error) = ended.unwrap_or_else(|error| Err(error.to_string())) {
                    return Err(format!("a part of the world broke before {what}: {error}"));
                }
            }
            if self.clock.instant() >= deadline {
                return Err(format!("not reached within {limit:?}: {what}"));
            }
            tokio::select! {
                biased;
                () = called(&mut calls) => {}
                () = self.clock.sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Lets the world run for a while, so that what is late arrives.
    pub async fn run_for(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Waits until a part of the world breaks, and says how. Parts that just end are passed over.
    pub async fn broken(&mut self) -> String {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(trouble)) => return trouble,
                Err(error) => return error.to_string(),
            }
        }
        std::future::pending().await
    }

    /// Ends a run of a flow in this world.
    pub fn finish(self, goal: Result<(), String>) -> Finished {
        match &self.wire {
            Some(wire) => Finished::of(wire, goal),
            None => Finished {
                goal,
                violations: Vec::new(),
                recording: crate::boundaries::Recording::default(),
                trace: String::new(),
                faults: 0,
                ruled: 0,
                swept_from: 0,
            },
        }
    }

    /// Asks everything to end, and waits until it has.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(wire) = &self.wire {
            if std::thread::panicking() {
                // A test fails in this world: this is what it takes to see why, and to see it again.
                eprintln!("{}", wire.story());
            }
            wire.cut();
        }
    }
}

async fn called(calls: &mut Option<tokio::sync::watch::Receiver<u64>>) {
    match calls {
        Some(calls) => {
            if calls.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}
