//! A world of its own for each test: server, clock, chance, and a transport that writes down every call.

use hostler_apiserver::{ApiServer, Options, User};
use hostler_base::{Body, BoxError, Chance, Clock, Entropy, Transport, transport};
use hostler_controller::{Fence, Metrics, StackOptions, kube_client};
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, api::ObjectMeta};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tower::ServiceExt;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) metrics: Metrics,
    pub(crate) log: Log,
    pub(crate) faults: Faults,
}

/// Every call with its time, body and answer.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(part)).count()
    }

    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

/// What is wrong with the network.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// No call is answered any more.
    pub(crate) dead: Arc<AtomicBool>,
    /// Watches are answered but tell nothing.
    pub(crate) mute: Arc<AtomicBool>,
    /// Watches end as soon as they begin.
    pub(crate) curt: Arc<AtomicBool>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let chance = Chance::from_seed(seed);
        let entropy = Entropy::guessable(chance.split("entropy"));
        let server = ApiServer::new(Options::new(clock.clone(), chance.split("server"), entropy));
        let (metrics, log, faults) = (Metrics::new(), Log::default(), Faults::default());
        Self { server, clock, chance, metrics, log, faults }
    }

    pub(crate) fn options(&self, fence: Fence) -> StackOptions {
        StackOptions {
            client: "kubernetes",
            server: None,
            user_agent: "hostler-test/1".into(),
            timeout: SECOND * 5,
            rate: None,
            fence,
            metrics: self.metrics.clone(),
            clock: self.clock.clone(),
        }
    }

    /// A client through the whole stack that may do everything.
    pub(crate) fn client(&self) -> Client {
        self.client_of(ApiServer::admin(), Fence::open(self.clock.clone()), self.faults.clone())
    }

    pub(crate) fn client_of(&self, user: User, fence: Fence, faults: Faults) -> Client {
        let wire = self.recorded(self.server.transport(user), faults);
        kube_client(wire, &self.options(fence), "default")
    }

    /// A client that nobody disturbs and nobody writes down, for the test itself.
    pub(crate) fn quiet_client(&self) -> Client {
        let transport = self.server.transport(ApiServer::admin());
        kube_client(transport, &self.options(Fence::open(self.clock.clone())), "default")
    }

    pub(crate) fn recorded(&self, inner: Transport, faults: Faults) -> Transport {
        let (log, clock) = (self.log.clone(), self.clock.clone());
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let (log, clock, faults, inner) = (log.clone(), clock.clone(), faults.clone(), inner.clone());
            let (parts, body) = request.into_parts();
            let body = body.collect();
            async move {
                let body = body.await?.to_bytes();
                let call = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
                if faults.dead.load(Ordering::SeqCst) {
                    log.write(format!("{} {call} -> never", clock.now()));
                    std::future::pending::<()>().await;
                }
                let watch = parts.uri.query().unwrap_or_default().contains("watch=true");
                let request = Request::from_parts(parts, transport::full(body));
                let answer: Result<Response<Body>, BoxError> =
                    (Box::pin(inner.oneshot(request)) as futures::future::BoxFuture<'static, _>).await;
                let answer = answer?;
                log.write(format!("{} {call} -> {}", clock.now(), answer.status().as_u16()));
                if watch && faults.mute.load(Ordering::SeqCst) {
                    let silence =
                        futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, BoxError>>();
                    return Ok(Response::new(transport::boxed(http_body_util::StreamBody::new(silence))));
                }
                if watch && faults.curt.load(Ordering::SeqCst) {
                    return Ok(Response::new(transport::empty()));
                }
                Ok::<_, BoxError>(answer)
            }
        }))
    }
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Lets virtual time pass, and everybody do what they would do in it.
pub(crate) async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Where log lines go to be looked at.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Takes the lines of this thread as long as the guard lives, in one of the two formats.
    pub(crate) fn capture(json: bool) -> (Self, tracing::subscriber::DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let format =
            tracing_subscriber::fmt().without_time().with_ansi(false).with_writer(move || writer.clone());
        // Other tests have no subscriber and run beside this one: without somebody who is interested everywhere,
        // they could switch the spans off for all.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let guard = if json {
            tracing::subscriber::set_default(format.json().finish())
        } else {
            tracing::subscriber::set_default(format.finish())
        };
        (lines, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
