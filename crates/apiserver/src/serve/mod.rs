//! The HTTPS listener: for kubectl and other processes on this machine.
//!
//! Whoever comes in has to speak TLS within a few seconds, send its request without dawdling, and read what
//! it asked for; what does not is cut off. What is more than can be answered at once is to come again. Requests
//! that a web page made are refused whatever they carry.

mod certificates;
mod kubeconfig;
mod stall;
mod unread;

pub use certificates::{CertificateError, Certificates};
pub use kubeconfig::kubeconfig;

use crate::{
    error::ApiError,
    handlers::{self, LongRunning},
    server::ApiServer,
};
use hostler_base::transport::{self, Body};
use http::{Request, Response, StatusCode, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use stall::Stall;
use std::{convert::Infallible, io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use unread::{Followed, Readers};

const FAREWELL: Duration = Duration::from_millis(500);
const MOST_STREAMS: u32 = 1000;
const MOST_HEADER_BYTES: u32 = 64 * 1024;

/// How long the listener waits for its clients, and for how many of them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// For the head of a request, and for the next request on the same connection.
    pub head: Duration,
    /// From the request's head to the answer's head, so also for the request's body.
    pub answer: Duration,
    /// How long a client may leave an answer unread.
    pub unread: Duration,
    /// How long a quiet HTTP/2 client is left alone before it is asked whether it is still there …
    pub ping_every: Duration,
    /// … and how long it may take to say so.
    pub ping_answer: Duration,
    pub connections: usize,
    /// How many requests, over all connections, may be between their head and the end of their answer. A watch is
    /// one of them until it begins.
    pub requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            unread: Duration::from_secs(60),
            ping_every: Duration::from_secs(30),
            ping_answer: Duration::from_secs(15),
            connections: 1024,
            requests: 400,
        }
    }
}

/// Serves until `shutdown`; then lets what is under way end, but not for long.
pub async fn serve(
    server: &ApiServer,
    listener: TcpListener,
    certificates: &Certificates,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_within(Limits::default(), server, listener, certificates, shutdown).await
}

/// The same with other limits.
pub async fn serve_within(
    limits: Limits,
    server: &ApiServer,
    listener: TcpListener,
    certificates: &Certificates,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let limits = Arc::new(limits);
    let acceptor = TlsAcceptor::from(certificates.server_config().map_err(io::Error::other)?);
    let places = Arc::new(Semaphore::new(limits.connections));
    let requests = Arc::new(Semaphore::new(limits.requests));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file handles, for example: others may be given back soon.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!("a connection was turned away: there are {} already", limits.connections);
            continue;
        };
        let (server, acceptor, watcher) = (server.clone(), acceptor.clone(), graceful.watcher());
        let (limits, requests) = (Arc::clone(&limits), Arc::clone(&requests));
        connections.spawn(async move {
            if let Some(stream) = handshake(stream, &acceptor, limits.handshake).await {
                let patience = limits.answer;
                let readers = Readers::default();
                let answers = readers.clone();
                let service = service_fn(move |request| {
                    let (server, answers) = (server.clone(), answers.clone());
                    let place = Arc::clone(&requests).try_acquire_owned().ok();
                    async move {
                        let answer = match &place {
                            Some(_) => answer(server, request, patience).await,
                            None => handlers::refusal(&too_many()),
                        };
                        let place = place.filter(|_| answer.extensions().get::<LongRunning>().is_none());
                        Ok::<Response<Followed>, Infallible>(answer.map(|body| answers.follow(body, place)))
                    }
                });
                let builder = builder(&limits);
                let stream = Stall::new(stream, limits.head, limits.unread);
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    biased;
                    ended = watcher.watch(connection.into_owned()) => if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    },
                    // All of the connection: hyper asks a stream that waits for its client nothing more.
                    () = readers.one_is_left_unread(limits.unread) => {
                        tracing::debug!("a connection was cut off: an answer was left unread");
                    }
                }
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(FAREWELL, graceful.shutdown()).await.is_err() {
        tracing::debug!("open watches were cut off");
    }
    connections.shutdown().await;
    Ok(())
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MOST_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping_answer)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(MOST_HEADER_BYTES);
    builder
}

/// Makes the connection a TLS one; someone who speaks plain HTTP is told so.
async fn handshake(
    mut stream: TcpStream,
    acceptor: &TlsAcceptor,
    patience: Duration,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let agree = async {
        let mut first = [0];
        let read = stream.peek(&mut first).await.ok()?;
        if read == 1 && first[0].is_ascii_alphabetic() {
            let text = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
            // What was sent is read first: otherwise closing would reset the connection and lose the answer.
            let _ = stream.read(&mut [0; 8192]).await;
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
            return None;
        }
        let _ = stream.set_nodelay(true);
        match acceptor.accept(stream).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        }
    };
    tokio::time::timeout(patience, agree).await.ok().flatten()
}

async fn answer(server: ApiServer, request: Request<Incoming>, patience: Duration) -> Response<Body> {
    if let Some(refusal) = foreign(&request) {
        return handlers::refusal(&refusal);
    }
    let answer = server.answer(request.map(transport::boxed));
    tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| {
        let why = "the request did not come in completely in time";
        handlers::refusal(&ApiError::new(StatusCode::REQUEST_TIMEOUT, "Timeout", why))
    })
}

/// Each request may bring a body of megabytes and take one away: without this a few clients could fill the memory.
fn too_many() -> ApiError {
    ApiError::too_many_requests("Too many requests, please try again later.", 1)
}

/// Refuses what a web page could send: a foreign `Origin`, or a `Host` that a foreign name was made to lead to.
fn foreign<B>(request: &Request<B>) -> Option<ApiError> {
    let text = |name| request.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let host = request.uri().authority().map(http::uri::Authority::as_str).or_else(|| text(header::HOST));
    let refuse = |what: &str| ApiError::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {what}"));
    if !host.is_some_and(is_own_name) {
        return Some(refuse("this server does not go by the name in the Host header"));
    }
    let origin = request.headers().get(header::ORIGIN)?;
    let own = host.map(|host| format!("https://{host}"));
    let same = origin.to_str().is_ok_and(|origin| own.is_some_and(|own| own.eq_ignore_ascii_case(origin)));
    (!same).then(|| refuse("requests of web pages are not answered"))
}

/// Addresses cannot be made to lead elsewhere; of names only those of this machine and of a cluster's own are ours.
fn is_own_name(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let host = host.to_ascii_lowercase();
    host.parse::<IpAddr>().is_ok() || certificates::NAMES.contains(&host.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered() {
        let names = [
            "localhost:6443",
            "127.0.0.1",
            "[::1]:6443",
            "10.0.0.1:1",
            "kubernetes.default.svc",
            "LOCALHOST",
        ];
        for name in names {
            assert!(is_own_name(name), "{name}");
        }
        for name in ["example.com", "localhost.example.com:6443", "", "127.0.0.1.example.com"] {
            assert!(!is_own_name(name), "{name}");
        }
    }

    #[test]
    fn web_pages_are_refused() {
        let request = |host: &str, origin: Option<&str>| {
            let mut request = Request::builder().uri("/api").header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            foreign(&request.body(()).unwrap()).is_some()
        };
        assert!(!request("localhost:1", None));
        assert!(!request("localhost:1", Some("https://localhost:1")));
        assert!(request("localhost:1", Some("https://localhost:2")));
        assert!(request("localhost:1", Some("http://localhost:1")));
        assert!(request("localhost:1", Some("null")));
        assert!(request("example.com", None));
    }
}
