//! The wire between actors and servers: every call crosses it, gets its name there, is written into the
//! trace, and may be broken.
//!
//! What the server does with a request happens in a task on the server's side: once a request is sent, a
//! caller that gives up or dies cannot take it back half-way.

mod answer;
mod fault;
mod fence;
mod naming;
mod watch;

pub use fault::{Break, Fault, Odds, Plan};
pub use fence::Fence;
pub use naming::Paths;

use crate::boundaries::{Boundary, Class, Recording};
use bytes::Bytes;
use futures::future::BoxFuture;
use hostler_base::{Body, BoxError, Chance, Transport, transport};
use http::{Method, Request, Response, StatusCode, Uri, request};
use http_body_util::BodyExt;
use naming::Names;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch as channel},
    task::JoinSet,
    time::Instant,
};

/// How long an operating system keeps trying before it tells a caller that a connection has timed out.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Every call takes a little while, so that a loop without a pause does not stop virtual time.
const LATENCY: Duration = Duration::from_millis(1);

/// How many lines of its trace a failed run shows.
const TAIL: usize = 60;

/// Looks at the servers' state after every call, from outside of the controllers; an error is a violated invariant.
pub type Observer = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// An invariant that did not hold after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub after: Boundary,
    pub message: String,
}

#[derive(Clone)]
pub struct Wire(Arc<Shared>);

struct Shared {
    start: Instant,
    plan: Plan,
    chance: Chance,
    state: Mutex<State>,
    observers: Mutex<Vec<Observer>>,
    calls: channel::Sender<u64>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct State {
    names: Names,
    counts: BTreeMap<(String, String, String, String), usize>,
    recording: Recording,
    trace: Vec<String>,
    violations: Vec<Violation>,
    faults: usize,
    /// How many of them were meant for exactly this boundary.
    ruled: usize,
    /// How many calls were recorded when the part of a flow began that is swept.
    swept_from: usize,
    /// Reconnects that will reach a replica that is behind, by actor and template.
    behind: BTreeMap<(String, String), Behind>,
}

#[derive(Clone, Copy)]
struct Behind {
    revisions: Option<u64>,
    lasts: Option<Duration>,
}

/// One end of the wire: an actor's, or one incarnation's of a controller.
#[derive(Clone)]
pub struct Line {
    pub(crate) actor: String,
    pub(crate) incarnation: u32,
    pub(crate) fence: Fence,
    /// Only a controller's calls are recorded as boundaries and broken.
    pub(crate) controller: Option<mpsc::UnboundedSender<Stalled>>,
}

/// Tells a process that an incarnation of it stands still.
#[derive(Debug)]
pub(crate) struct Stalled {
    pub(crate) fence: Fence,
    pub(crate) time: Duration,
}

impl Line {
    /// The end of an actor that is not a controller: its calls are traced but never broken.
    pub fn of(actor: &str) -> Self {
        Self { actor: actor.to_owned(), incarnation: 0, fence: Fence::default(), controller: None }
    }
}

/// A call on its way.
struct Call {
    boundary: Boundary,
    class: Class,
    shown: String,
    fault: Option<Fault>,
    behind: Option<Behind>,
}

#[derive(Clone)]
struct Sent {
    parts: request::Parts,
    body: Bytes,
}

impl Sent {
    fn request(&self) -> Request<Body> {
        Request::from_parts(self.parts.clone(), transport::full(self.body.clone()))
    }
}

impl Wire {
    pub fn new(plan: Plan) -> Self {
        let chance = Chance::from_seed(plan.seed).split("wire");
        Self(Arc::new(Shared {
            start: Instant::now(),
            plan,
            chance,
            state: Mutex::default(),
            observers: Mutex::default(),
            calls: channel::Sender::new(0),
            tasks: Mutex::default(),
        }))
    }

    /// A transport to `server` for the actor at this end.
    pub fn connect(&self, line: &Line, paths: &Paths, server: &Transport) -> Transport {
        let (wire, line, paths, server) = (self.clone(), line.clone(), paths.clone(), server.clone());
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let (wire, line, paths, server) = (wire.clone(), line.clone(), paths.clone(), server.clone());
            async move { wire.call(line, paths, server, request).await }
        }))
    }

    pub fn observe(&self, observer: Observer) {
        lock(&self.0.observers).push(observer);
    }

    /// Writes a line of somebody's own into the trace.
    pub fn note(&self, text: &str) {
        let time = self.0.start.elapsed();
        self.state().trace.push(format!("{:>9}.{:03} {text}", time.as_secs(), time.subsec_millis()));
    }

    pub fn trace(&self) -> String {
        let mut text = self.state().trace.join("\n");
        text.push('\n');
        text
    }

    /// Seed and last calls, for whoever has to find out what went wrong.
    pub fn story(&self) -> String {
        format!("seed {}; the last calls were:\n{}", self.0.plan.seed, last_lines(&self.trace()))
    }

    pub fn recording(&self) -> Recording {
        self.state().recording.clone()
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    /// How many faults have happened.
    pub fn faults(&self) -> usize {
        self.state().faults
    }

    /// How many of them were meant for exactly the boundary that they happened at.
    pub fn ruled(&self) -> usize {
        self.state().ruled
    }

    /// What was called until now is not swept: it only brings about the state that a flow begins with.
    pub fn sweep_from_here(&self) {
        let mut state = self.state();
        state.swept_from = state.recording.0.len();
    }

    /// How many recorded calls are not swept.
    pub fn swept_from(&self) -> usize {
        self.state().swept_from
    }

    /// Changes after every call.
    pub fn calls(&self) -> channel::Receiver<u64> {
        self.0.calls.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    async fn call(
        self,
        line: Line,
        paths: Paths,
        server: Transport,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        line.fence.pass().await;
        let (parts, body) = request.into_parts();
        let sent = Sent { body: body.collect().await?.to_bytes(), parts };
        let call = Arc::new(self.arrive(&line, &paths, &sent));
        match &call.fault {
            Some(Fault::Refused) => {
                self.write(&call, "");
                return Err(answer::refused());
            }
            Some(Fault::TimeoutBefore) => {
                self.write(&call, "");
                tokio::time::sleep(CONNECTION_TIMEOUT).await;
                return Err(answer::timed_out());
            }
            Some(Fault::Dead) if call.class != Class::Watch => {
                self.write(&call, "");
                return pending().await;
            }
            Some(Fault::Answer { status, after_effect: false }) => {
                self.write(&call, "");
                tokio::time::sleep(LATENCY).await;
                return Ok(answer::error(&paths, *status));
            }
            Some(Fault::Page { status, after_effect: false }) => {
                self.write(&call, "");
                tokio::time::sleep(LATENCY).await;
                return Ok(answer::page(*status));
            }
            Some(Fault::CrashBefore) => {
                self.write(&call, "");
                line.fence.close();
                return pending().await;
            }
            Some(Fault::Stall(time)) => {
                self.write(&call, "");
                line.fence.stall();
                if let Some(process) = &line.controller {
                    let _ = process.send(Stalled { fence: line.fence.clone(), time: *time });
                }
                line.fence.pass().await;
            }
            _ => {}
        }
        let (sender, receiver) = oneshot::channel();
        self.spawn({
            let (wire, line, paths, call) = (self.clone(), line.clone(), paths.clone(), call.clone());
            async move {
                let answer = wire.serve(&line, &paths, &server, sent, &call).await;
                // Whoever asked may be gone; the effect stays.
                let _ = sender.send(answer);
            }
        });
        if call.fault == Some(Fault::TimeoutAfter) {
            tokio::time::sleep(CONNECTION_TIMEOUT).await;
            line.fence.pass().await;
            return Err(answer::timed_out());
        }
        let answered = receiver.await.map_err(|_| answer::reset())?;
        line.fence.pass().await;
        match call.fault {
            Some(Fault::Answer { status, .. }) => Ok(answer::error(&paths, status)),
            Some(Fault::Page { status, .. }) => Ok(answer::page(status)),
            _ => answered,
        }
    }

    /// Names the call and decides what happens to it.
    fn arrive(&self, line: &Line, paths: &Paths, sent: &Sent) -> Call {
        let named = naming::name(paths, &sent.parts.method, &sent.parts.uri, &sent.body);
        let mut state = self.state();
        let values: Vec<String> = named.values.iter().map(|value| state.names.shown(value)).collect();
        let object = values.join("/");
        let key = (line.actor.clone(), named.verb.clone(), named.template.clone(), object.clone());
        let count = state.counts.entry(key).or_default();
        *count += 1;
        let boundary = Boundary {
            actor: line.actor.clone(),
            verb: named.verb,
            template: named.template,
            object,
            nth: *count,
        };
        let mut fault = None;
        if line.controller.is_some() {
            state.recording.0.push((named.class, boundary.clone()));
            fault = self.choose(&boundary, named.class);
            state.faults += usize::from(fault.is_some());
            let ruled = fault.is_some() && self.0.plan.rules.iter().any(|(at, _)| *at == boundary);
            state.ruled += usize::from(ruled);
        }
        let mut behind = None;
        if matches!(boundary.verb.as_str(), "LIST" | "WATCH") {
            let place = (boundary.actor.clone(), boundary.template.clone());
            if let Some(mut waiting) = state.behind.remove(&place) {
                behind = Some(waiting);
                // The list comes first, then the watch of the same replica.
                waiting.revisions = None;
                if boundary.verb == "LIST" {
                    state.behind.insert(place, waiting);
                }
            }
        }
        if let Some(Fault::Behind(revisions)) = fault {
            behind = Some(Behind { revisions: Some(revisions), lasts: None });
        }
        let incarnation =
            if line.incarnation == 0 { String::new() } else { format!("/{}", line.incarnation) };
        let numbered = boundary.to_string();
        let rest = numbered.strip_prefix(&boundary.actor).unwrap_or_default();
        let shown = format!("{}{incarnation}{rest} {}", boundary.actor, naming::shown_query(&sent.parts.uri));
        Call { boundary, class: named.class, shown: shown.trim_end().to_owned(), fault, behind }
    }

    fn choose(&self, boundary: &Boundary, class: Class) -> Option<Fault> {
        let plan = &self.0.plan;
        let ruled = plan.rules.iter().find(|(at, _)| at == boundary).map(|(_, fault)| fault.clone());
        ruled
            .or_else(|| plan.choosers.iter().find_map(|choose| choose(boundary, class)))
            .or_else(|| self.draw(class))
            .filter(|fault| fault.fits(class))
    }

    fn draw(&self, class: Class) -> Option<Fault> {
        let odds = self.0.plan.odds.as_ref()?;
        if self.0.start.elapsed() >= odds.calm_after {
            return None;
        }
        let mut fitting = odds.faults.iter().filter(|(_, fault)| fault.fits(class));
        fitting.find(|(probability, _)| self.0.chance.hit(*probability)).map(|(_, fault)| fault.clone())
    }

    /// The server's side of one call.
    async fn serve(
        &self,
        line: &Line,
        paths: &Paths,
        server: &Transport,
        sent: Sent,
        call: &Arc<Call>,
    ) -> Result<Response<Body>, BoxError> {
        let delay = if let Some(Fault::Delay(delay)) = call.fault { delay } else { LATENCY };
        tokio::time::sleep(delay).await;
        if call.fault == Some(Fault::Duplicate) {
            let first = self.deliver(paths, server, sent.request(), call).await?;
            self.write(call, &format!("-> {}", first.status().as_u16()));
        }
        if call.class == Class::Watch {
            let response = transport::send(server, sent.request()).await?;
            self.write(call, &format!("-> {}", response.status().as_u16()));
            if call.fault == Some(Fault::CrashAfter) {
                line.fence.close();
            }
            if line.fence.is_closed() || response.status() != StatusCode::OK {
                return Ok(response);
            }
            let breaking = self.breaking(call);
            let hold = call.behind.and_then(|behind| behind.lasts);
            let late = if let Some(Fault::Late(by)) = call.fault { Some(by) } else { None };
            let lag = watch::Lag { hold, late };
            return Ok(response.map(|body| watch::wrap(body, line.fence.clone(), breaking, lag)));
        }
        let mut response = self.deliver(paths, server, sent.request(), call).await?;
        if let Some(revisions) = call.behind.and_then(|behind| behind.revisions) {
            let (old, note) = older(server, &sent, response, revisions).await?;
            self.note(&format!("{} ** {note}", call.shown));
            response = old;
        }
        self.write(call, &format!("-> {}", response.status().as_u16()));
        if call.fault == Some(Fault::CrashAfter) {
            line.fence.close();
        }
        Ok(response)
    }

    /// Gives the request to the server, waits for all of its answer and lets the observers look.
    async fn deliver(
        &self,
        paths: &Paths,
        server: &Transport,
        request: Request<Body>,
        call: &Call,
    ) -> Result<Response<Body>, BoxError> {
        let learns = *paths != Paths::Kubernetes || request.method() == Method::POST;
        let response = transport::send(server, request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if learns
            && parts.status.is_success()
            && let Ok(answer) = serde_json::from_slice::<Value>(&body)
        {
            self.state().names.learn(paths, &answer);
        }
        let observers = lock(&self.0.observers).clone();
        for observer in observers {
            if let Err(message) = observer().await {
                self.violated(call, message);
            }
        }
        self.0.calls.send_modify(|calls| *calls += 1);
        Ok(Response::from_parts(parts, transport::full(body)))
    }

    fn violated(&self, call: &Call, message: String) {
        if self.state().violations.iter().any(|known| known.message == message) {
            return;
        }
        self.note(&format!("VIOLATED after {}: {message}", call.shown));
        self.state().violations.push(Violation { after: call.boundary.clone(), message });
    }

    fn breaking(&self, call: &Arc<Call>) -> Option<watch::Breaking> {
        let (after, then) = match &call.fault {
            Some(Fault::Watch { after, then }) => (*after, then.clone()),
            Some(Fault::Dead) => (0, Break::Dead),
            _ => return None,
        };
        let (wire, call) = (self.clone(), call.clone());
        let on_break = Box::new(move |then: &Break| {
            wire.note(&format!("{} ** {then}", call.shown));
            if let Break::Behind { revisions, lasts } = then {
                let place = (call.boundary.actor.clone(), call.boundary.template.clone());
                let behind = Behind { revisions: Some(*revisions), lasts: Some(*lasts) };
                wire.state().behind.insert(place, behind);
            }
        });
        Some(watch::Breaking { after, then, on_break })
    }

    fn write(&self, call: &Call, outcome: &str) {
        let fault = call.fault.as_ref().map(|fault| format!("** {fault}")).unwrap_or_default();
        // Renewals are many and say nothing as long as they succeed.
        if call.class == Class::Lease && fault.is_empty() && outcome.starts_with("-> 2") {
            return;
        }
        let parts: Vec<&str> =
            [call.shown.as_str(), outcome, &fault].into_iter().filter(|part| !part.is_empty()).collect();
        self.note(&parts.join(" "));
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.0.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends what is still on its way.
    pub(crate) fn cut(&self) {
        lock(&self.0.tasks).abort_all();
    }
}

/// The end of a trace, as much of it as somebody wants to read.
pub(crate) fn last_lines(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// The list as it was so many revisions ago, where the request allows an old answer: a list without a
/// resourceVersion is consistent on a real server too.
async fn older(
    server: &Transport,
    sent: &Sent,
    newest: Response<Body>,
    revisions: u64,
) -> Result<(Response<Body>, String), BoxError> {
    let pairs: Vec<(&str, &str)> = naming::query(&sent.parts.uri).collect();
    if !pairs.contains(&("resourceVersion", "0")) {
        return Ok((newest, "asked for the newest state, so the replica waits until it has it".to_owned()));
    }
    let (parts, body) = newest.into_parts();
    let body = body.collect().await?.to_bytes();
    let list: Value = serde_json::from_slice(&body).unwrap_or_default();
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
    let newest = Response::from_parts(parts, transport::full(body));
    let Some(revision) = revision.map(|revision| revision.saturating_sub(revisions).max(1)) else {
        return Ok((newest, "the answer has no resourceVersion".to_owned()));
    };
    let mut query: Vec<String> = pairs
        .iter()
        .filter(|(key, _)| !key.starts_with("resourceVersion"))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    query.push(format!("resourceVersion={revision}&resourceVersionMatch=Exact"));
    let mut sent = sent.clone();
    sent.parts.uri = format!("{}?{}", sent.parts.uri.path(), query.join("&")).parse::<Uri>()?;
    let old = transport::send(server, sent.request()).await?;
    Ok(if old.status().is_success() {
        (old, format!("answered as of {revision}"))
    } else {
        (newest, format!("{} for {revision}, so the newest state is given", old.status().as_u16()))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
