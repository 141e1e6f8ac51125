//! A controller process in a world: it is started, crashes, stalls, and is started again with nothing but
//! what is written down on the servers.

use crate::wire::{Fence, Line, Paths, Stalled, Wire};
use futures::{FutureExt, future::BoxFuture};
use hostler_base::{Body, BoxError, Chance, Clock, Transport, transport};
use http::{Request, Response};
use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The name under which every world has its Kubernetes API server.
pub const KUBERNETES: &str = "kubernetes";

/// How a program's life is written: it gets its context and runs until the context's shutdown or for ever.
/// It owns every task it starts, so that dropping it ends all of them.
pub type Program = Arc<dyn Fn(Context) -> BoxFuture<'static, ()> + Send + Sync>;

/// The servers that can be reached, by name.
#[derive(Clone, Default)]
pub struct Servers(BTreeMap<String, (Paths, Transport)>);

impl Servers {
    pub fn add(&mut self, name: &str, paths: Paths, transport: Transport) {
        self.0.insert(name.to_owned(), (paths, transport));
    }

    /// A transport to a server; with a wire every call crosses it. Calls to a server that is not there fail.
    pub(crate) fn transport(&self, name: &str, wire: Option<(&Wire, &Line)>) -> Transport {
        match (self.0.get(name), wire) {
            (Some((paths, server)), Some((wire, line))) => wire.connect(line, paths, server),
            (Some((_, server)), None) => server.clone(),
            (None, _) => {
                let message = format!("there is no server called {name:?} in this world");
                transport::from_service(tower::service_fn(move |_: Request<Body>| {
                    let error: BoxError = message.clone().into();
                    async move { Err::<Response<Body>, BoxError>(error) }
                }))
            }
        }
    }
}

/// Makes kube's client of a transport; retries nothing by itself.
pub fn kube_client(transport: Transport) -> kube::Client {
    let service = transport
        .map_request(|request: Request<kube::client::Body>| request.map(hostler_base::transport::boxed));
    kube::Client::new(service, "default")
}

/// What one incarnation of a controller is given.
#[derive(Clone)]
pub struct Context {
    pub actor: String,
    /// Counts the incarnations of this actor, from 1.
    pub incarnation: u32,
    pub clock: Clock,
    pub chance: Chance,
    pub shutdown: CancellationToken,
    servers: Arc<Servers>,
    wire: Option<(Wire, Line)>,
}

impl Context {
    pub fn transport(&self, server: &str) -> Transport {
        self.servers.transport(server, self.wire.as_ref().map(|(wire, line)| (wire, line)))
    }

    pub fn kubernetes(&self) -> kube::Client {
        kube_client(self.transport(KUBERNETES))
    }
}

/// What a process is made of.
#[derive(Clone)]
pub struct Spec {
    pub actor: String,
    pub program: Program,
    /// How long it takes until a crashed process is there again.
    pub restart_after: Duration,
    pub clock: Clock,
    pub chance: Chance,
    pub servers: Arc<Servers>,
    /// Without a wire the process calls the servers directly and cannot be broken.
    pub wire: Option<Wire>,
}

/// The handle of a running process.
#[derive(Clone)]
pub struct Process {
    starts: mpsc::UnboundedSender<()>,
    live: Arc<Mutex<BTreeMap<u32, Fence>>>,
    started: Arc<AtomicUsize>,
}

enum Happened {
    Ended { incarnation: u32, how: &'static str },
    Due,
    Woken,
}

impl Process {
    /// The handle, and the future that runs the process until the shutdown.
    pub fn new(spec: Spec, shutdown: CancellationToken) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (starts, start_requests) = mpsc::unbounded_channel();
        let process = Self { starts, live: Arc::default(), started: Arc::default() };
        let (live, started) = (process.live.clone(), process.started.clone());
        let supervisor = Supervisor { spec, live, started, next: 1, running: JoinSet::new() };
        (process, supervisor.run(start_requests, shutdown))
    }

    /// Kills every live incarnation; the next one starts after the restart time.
    pub fn crash(&self) {
        self.fences().iter().for_each(|(_, fence)| fence.close());
    }

    /// The live incarnations stand still: none of their calls leaves, no answer reaches them, and their root is not
    /// polled. Tasks that they have spawned are not frozen: their timers go on, as those of a process do that cannot
    /// reach anybody.
    pub fn stall(&self) {
        self.fences().iter().for_each(|(_, fence)| fence.stall());
    }

    pub fn resume(&self) {
        self.fences().iter().for_each(|(_, fence)| fence.resume());
    }

    /// Starts one more incarnation beside those that are there.
    pub fn start_another(&self) {
        // A process whose world has ended starts nothing any more.
        let _ = self.starts.send(());
    }

    /// How many incarnations there have been.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    pub fn live(&self) -> Vec<u32> {
        self.fences().into_iter().map(|(incarnation, _)| incarnation).collect()
    }

    fn fences(&self) -> Vec<(u32, Fence)> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().map(|(incarnation, fence)| (*incarnation, fence.clone())).collect()
    }
}

struct Supervisor {
    spec: Spec,
    live: Arc<Mutex<BTreeMap<u32, Fence>>>,
    started: Arc<AtomicUsize>,
    next: u32,
    running: JoinSet<Happened>,
}

impl Supervisor {
    async fn run(mut self, mut starts: mpsc::UnboundedReceiver<()>, shutdown: CancellationToken) {
        let (stall_sender, mut stalls) = mpsc::unbounded_channel::<Stalled>();
        self.start(&stall_sender, &shutdown);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(()) = starts.recv() => self.start(&stall_sender, &shutdown),
                Some(Stalled { fence, time }) = stalls.recv() => {
                    self.start_later();
                    self.running.spawn(async move {
                        tokio::time::sleep(time).await;
                        fence.resume();
                        Happened::Woken
                    });
                }
                Some(happened) = self.running.join_next() => match happened {
                    Ok(Happened::Due) => self.start(&stall_sender, &shutdown),
                    Ok(Happened::Ended { incarnation, how }) => {
                        self.note(incarnation, how);
                        self.bury(incarnation);
                    }
                    // Panics of a program are caught where it runs.
                    Ok(Happened::Woken) | Err(_) => {}
                },
            }
        }
        // Whoever honours the shutdown ends by itself; the dead and the stalled are dropped.
        let fences: Vec<Fence> =
            self.live.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        fences.iter().filter(|fence| fence.is_stalled()).for_each(Fence::close);
        while !self.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            match self.running.join_next().await {
                Some(Ok(Happened::Ended { incarnation, .. })) => self.forget(incarnation),
                Some(_) => {}
                None => break,
            }
        }
    }

    fn start(&mut self, stalls: &mpsc::UnboundedSender<Stalled>, shutdown: &CancellationToken) {
        let incarnation = self.next;
        self.next += 1;
        self.started.fetch_add(1, Ordering::Relaxed);
        let fence = Fence::default();
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(incarnation, fence.clone());
        let spec = &self.spec;
        let line = Line {
            actor: spec.actor.clone(),
            incarnation,
            fence: fence.clone(),
            controller: Some(stalls.clone()),
        };
        let context = Context {
            actor: spec.actor.clone(),
            incarnation,
            clock: spec.clock.clone(),
            chance: spec.chance.split(&format!("{}/{incarnation}", spec.actor)),
            shutdown: shutdown.child_token(),
            servers: spec.servers.clone(),
            wire: spec.wire.clone().map(|wire| (wire, line)),
        };
        self.note(incarnation, "started");
        let program = self.spec.program.clone();
        self.running.spawn(async move {
            // Nothing of the program is looked at after a panic: it is dropped like that of a dead process.
            let root = AssertUnwindSafe(async move { program(context).await }).catch_unwind();
            let how = tokio::select! {
                biased;
                () = fence.closed() => "crashed",
                ended = while_awake(&fence, root) => if ended.is_ok() { "ended" } else { "panicked" },
            };
            fence.close();
            Happened::Ended { incarnation, how }
        });
    }

    fn start_later(&mut self) {
        let time = self.spec.restart_after;
        self.running.spawn(async move {
            tokio::time::sleep(time).await;
            Happened::Due
        });
    }

    /// Takes an ended incarnation off the list; the last one is replaced.
    fn bury(&mut self, incarnation: u32) {
        self.forget(incarnation);
        if self.live.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.start_later();
        }
    }

    fn forget(&self, incarnation: u32) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&incarnation);
    }

    fn note(&self, incarnation: u32, what: &str) {
        if let Some(wire) = &self.spec.wire {
            wire.note(&format!("{}/{incarnation} {what}", self.spec.actor));
        }
    }
}

/// Runs `root` as long as its process is awake: while it stalls, it is not polled. What it has spawned is.
async fn while_awake<T>(fence: &Fence, root: impl Future<Output = T>) -> T {
    let mut root = pin!(root);
    loop {
        tokio::select! {
            biased;
            () = fence.stalled() => fence.pass().await,
            output = &mut root => return output,
        }
    }
}
