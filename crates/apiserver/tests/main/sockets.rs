//! Clients that do not keep to the rules, over real sockets: each is told or cut off, none is waited for.

use crate::kit::{Raw, options};
use bytes::Bytes;
use futures::StreamExt;
use hostler_apiserver::{
    ApiServer,
    serve::{Certificates, Limits, serve_within},
};
use hostler_base::{
    BoxError,
    transport::{self, Body},
};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};

const SHORT: Duration = Duration::from_millis(200);
/// Long enough for any machine: only a server that waits for ever reaches it.
const HANG: Duration = Duration::from_secs(30);
/// Far more than the history holds.
const CHANGES: usize = 600;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Served {
    server: ApiServer,
    address: SocketAddr,
    connector: TlsConnector,
    _stop: DropGuard,
}

/// Generous, but for the one limit a test is about.
fn limits() -> Limits {
    Limits { handshake: HANG, head: HANG, answer: HANG, unread: HANG, ..Limits::default() }
}

fn start(limits: Limits) -> Served {
    let mut options = options();
    options.users.push(("right".to_owned().into(), ApiServer::admin()));
    options.history = 50;
    let server = ApiServer::new(options);
    let certificates = Certificates::generate(&[], hostler_base::Clock::system().now()).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    // What the system buffers is not read and not unread: the less, the better.
    socket.set_send_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.ca_pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();

    let shutdown = CancellationToken::new();
    let (served, stop) = (server.clone(), shutdown.clone());
    tokio::spawn(async move { serve_within(limits, &served, listener, &certificates, stop).await });
    Served { server, address, connector: TlsConnector::from(Arc::new(config)), _stop: shutdown.drop_guard() }
}

impl Served {
    async fn tcp(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        soon(socket.connect(self.address)).await.unwrap()
    }

    async fn tls(&self) -> TlsStream<TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        soon(self.connector.connect(name, self.tcp().await)).await.unwrap()
    }

    /// Sends these bytes on a connection of their own and gives what comes back until the server hangs up.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.tls().await;
        soon(stream.write_all(bytes)).await.unwrap();
        rest(&mut stream).await
    }

    async fn is_well(&self) {
        let answer = self.say(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG / 2, future).await.expect("the server hangs")
}

/// What comes until the other side hangs up, however it does that.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\n\
         Content-Type: application/json\r\n{more}\r\n"
    )
}

fn status(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let status = body.and_then(|body| serde_json::from_str(body).ok());
    assert!(status.is_some(), "no Status but {answer:?}");
    status.unwrap_or_default()
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_cut_off() {
    let served = start(Limits { handshake: SHORT, ..limits() });
    // Nothing, and the first bytes of a TLS record.
    for beginning in [&b""[..], b"\x16\x03\x01"] {
        let mut stream = served.tcp().await;
        stream.write_all(beginning).await.unwrap();
        assert_eq!(rest(&mut stream).await, "", "{beginning:?}");
    }
    served.is_well().await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_request_head_is_cut_off() {
    let served = start(Limits { head: SHORT, ..limits() });
    let beginnings = [
        "",
        "G",
        "PRI * HTTP/2.0\r\n",
        "GET /readyz HTTP/1.1\r\n",
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\nX-",
    ];
    for beginning in beginnings {
        let answer = served.say(beginning.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{beginning:?}: {answer}");
    }
    // A connection that was used once and is then kept for nothing.
    let answer = served.say(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    served.is_well().await;
}

#[tokio::test]
async fn a_quiet_http2_client_is_asked_and_cut_off() {
    let served = start(Limits { ping_every: SHORT, ping_answer: SHORT, ..limits() });
    // The preface and empty settings; the questions that follow are not answered.
    served.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await;
    served.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    served.is_well().await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_body_is_told_and_cut_off() {
    let served = start(Limits { answer: SHORT, ..limits() });
    for (more, body) in
        [("Content-Length: 100\r\n", "{\"kind"), ("Transfer-Encoding: chunked\r\n", "5\r\n{\"k")]
    {
        let answer = served.say(format!("{}{body}", head("POST", MAPS, more)).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert_eq!(status(&answer)["reason"], "Timeout");
    }
    served.is_well().await;
}

#[tokio::test]
async fn a_huge_body_is_refused_with_and_without_its_length() {
    let served = start(limits());
    let mebibyte = 1024 * 1024;
    for (length, code) in [(4 * mebibyte, 413), (mebibyte, 400)] {
        let body = vec![b' '; length];
        let with = [
            head("POST", MAPS, &format!("Connection: close\r\nContent-Length: {length}\r\n")).as_bytes(),
            &body,
        ]
        .concat();
        let mut without =
            head("POST", MAPS, "Connection: close\r\nTransfer-Encoding: chunked\r\n").into_bytes();
        for chunk in body.chunks(100_000) {
            without.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            without.extend_from_slice(chunk);
            without.extend_from_slice(b"\r\n");
        }
        without.extend_from_slice(b"0\r\n\r\n");
        for request in [with, without] {
            let answer = served.say(&request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
            assert!(answer.contains("\"kind\":\"Status\""), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let served = start(limits());
    let mut stream = served.tls().await;
    stream.write_all(head("POST", MAPS, "Transfer-Encoding: chunked\r\n").as_bytes()).await.unwrap();
    let chunk = [b"fffff\r\n".as_slice(), &vec![b' '; 0xfffff], b"\r\n"].concat();
    let endless = async { while stream.write_all(&chunk).await.is_ok() {} };
    soon(endless).await;
    served.is_well().await;
}

#[tokio::test]
async fn broken_requests_are_refused() {
    let served = start(limits());
    let wide = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let lengths = head("POST", MAPS, "Content-Length: 1\r\nContent-Length: 2\r\n");
    let cases = [
        ("no HTTP at all\r\n\r\n", "400"),
        ("GET /api HTTP/9.9\r\nHost: localhost\r\n\r\n", "400"),
        ("GET /api\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
        ("GET /api HTTP/1.1\r\nHost localhost\r\n\r\n", "400"),
        ("GET /api HTTP/1.1\r\nConnection: close\r\n\r\n", "403"),
        (&wide, "431"),
        (&lengths, "400"),
        (&format!("{}zz\r\n", head("POST", MAPS, "Transfer-Encoding: chunked\r\n")), "400"),
    ];
    for (request, code) in cases {
        let answer = served.say(request.as_bytes()).await;
        let shown = request.get(..60).unwrap_or(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{shown:?}: {answer}");
    }
    // A handshake that is none.
    let mut stream = served.tcp().await;
    stream.write_all(b"\x16\x03\x01\x00\x05hello and more of it").await.unwrap();
    assert!(!rest(&mut stream).await.contains("HTTP"));
    served.is_well().await;
}

#[tokio::test]
async fn strangers_and_web_pages_get_nothing() {
    let served = start(limits());
    let get = |more: &str| format!("GET {MAPS} HTTP/1.1\r\nConnection: close\r\n{more}\r\n");
    let cases = [
        ("Host: localhost\r\nAuthorization: Bearer right\r\n", 200, ""),
        ("Host: localhost\r\nAuthorization: Bearer wrong\r\n", 401, "Unauthorized"),
        ("Host: localhost\r\nAuthorization: Basic cmlnaHQ6cmlnaHQ=\r\n", 403, "Forbidden"),
        ("Host: localhost\r\n", 403, "Forbidden"),
        ("Host: example.com\r\nAuthorization: Bearer right\r\n", 403, "Forbidden"),
        (
            "Host: localhost\r\nOrigin: https://example.com\r\nAuthorization: Bearer right\r\n",
            403,
            "Forbidden",
        ),
    ];
    for (more, code, reason) in cases {
        let answer = served.say(get(more).as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{more}: {answer}");
        assert_eq!(status(&answer)["reason"].as_str().unwrap_or_default(), reason, "{more}");
    }
}

#[tokio::test]
async fn too_many_connections_are_turned_away_until_there_is_room() {
    let served = start(Limits { connections: 2, ..limits() });
    let first = served.tls().await;
    let second = served.tls().await;
    assert_eq!(rest(&mut served.tcp().await).await, "");
    drop((first, second));
    // The places are free as soon as the server has noticed.
    let name = ServerName::try_from("localhost").unwrap();
    let again = async {
        while served.connector.connect(name.clone(), served.tcp().await).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}

/// Hundreds of changes to one object.
async fn many_changes(served: &Served) {
    let raw = Raw::new(&served.server);
    let padding = "x".repeat(4000);
    let mut map = json!({"metadata": {"name": "a"}, "data": {"padding": padding}});
    raw.json("POST", MAPS, &map).await;
    for n in 0..CHANGES {
        map["data"]["n"] = json!(n.to_string());
        let (code, _) = raw.json("PUT", &format!("{MAPS}/a"), &map).await;
        assert_eq!(code, 200);
        // In turn with the server, which could send now.
        tokio::task::yield_now().await;
    }
}

/// Opens a watch, reads its head only, and lets the changes happen.
async fn unread_watch(served: &Served) -> TlsStream<TcpStream> {
    let mut stream = served.tls().await;
    let request = head("GET", &format!("{MAPS}?watch=1"), "");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        seen.push(soon(stream.read_u8()).await.unwrap());
    }
    many_changes(served).await;
    stream
}

#[tokio::test]
async fn a_watcher_that_does_not_read_costs_little_and_gets_410() {
    let served = start(limits());
    let mut stream = unread_watch(&served).await;
    let (mut text, mut bytes) = (String::new(), [0; 8192]);
    while !text.contains("\"type\":\"ERROR\"") || !text.ends_with("\r\n") {
        let read = soon(stream.read(&mut bytes)).await.unwrap();
        assert_ne!(read, 0, "the watch ended without an error");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(text.contains("\"code\":410") && text.contains("\"reason\":\"Expired\""), "{text}");
    // What had been kept for it: a few batches, whatever happened meanwhile.
    let kept = text.matches("\"type\":\"MODIFIED\"").count();
    assert!(kept < CHANGES / 2, "{kept} changes were kept for a watcher that did not read");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off() {
    let served = start(Limits { unread: SHORT, ..limits() });
    let mut stream = unread_watch(&served).await;
    tokio::time::sleep(SHORT + SHORT / 2).await;
    let text = rest(&mut stream).await;
    assert!(!text.contains("\"type\":\"ERROR\""), "the watch went on");
    assert!(text.matches("\"type\":\"MODIFIED\"").count() < CHANGES / 2);
    served.is_well().await;
}

/// An HTTP/2 client that takes little at a time; the task ends with its connection.
async fn http2(served: &Served) -> (SendRequest<Body>, JoinHandle<()>) {
    let stream = TokioIo::new(served.tls().await);
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 * 1024)
        .handshake(stream)
        .await
        .unwrap();
    let ends = tokio::spawn(async move { drop(connection.await) });
    (sender, ends)
}

async fn get(sender: &mut SendRequest<Body>, path: &str) -> Incoming {
    let request = Request::get(format!("https://localhost{path}")).header("Authorization", "Bearer right");
    let response = soon(sender.send_request(request.body(transport::empty()).unwrap())).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

#[tokio::test]
async fn an_http2_client_that_leaves_a_watch_or_a_list_unread_is_cut_off() {
    let served = start(Limits { unread: SHORT, ..limits() });
    let (mut sender, ends) = http2(&served).await;
    let unread = get(&mut sender, &format!("{MAPS}?watch=1")).await;
    many_changes(&served).await;
    soon(ends).await.unwrap();
    drop(unread);

    let raw = Raw::new(&served.server);
    for n in 0..10 {
        let map = json!({"metadata": {"name": format!("long-{n}")}, "data": {"padding": "x".repeat(10_000)}});
        raw.json("POST", MAPS, &map).await;
    }
    let (mut sender, ends) = http2(&served).await;
    let unread = get(&mut sender, MAPS).await;
    soon(ends).await.unwrap();
    drop(unread);
    served.is_well().await;
}

#[tokio::test]
async fn an_http2_client_that_reads_is_kept_however_quiet_its_watch_is() {
    let served = start(Limits { unread: SHORT, ..limits() });
    let (mut sender, ends) = http2(&served).await;
    let mut watch = get(&mut sender, &format!("{MAPS}?watch=1")).await;
    for name in ["a", "b"] {
        tokio::time::sleep(3 * SHORT).await;
        let map = json!({"metadata": {"name": name}, "data": {"padding": "x".repeat(100_000)}});
        Raw::new(&served.server).json("POST", MAPS, &map).await;
        let mut text = Vec::new();
        while !text.ends_with(b"\n") {
            let frame = soon(watch.frame()).await.unwrap().unwrap();
            text.extend_from_slice(&frame.into_data().unwrap());
        }
        let event: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    assert!(!ends.is_finished());
}

/// What a client gets that comes too much.
async fn is_turned_away(sender: &mut SendRequest<Body>) -> bool {
    let request = Request::get(format!("https://localhost{MAPS}")).header("Authorization", "Bearer right");
    let response = soon(sender.send_request(request.body(transport::empty()).unwrap())).await.unwrap();
    let (head, body) = response.into_parts();
    let answer: Value = serde_json::from_slice(&soon(body.collect()).await.unwrap().to_bytes()).unwrap();
    if head.status == 200 {
        return false;
    }
    assert_eq!((head.status.as_u16(), &head.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!((&answer["kind"], &answer["reason"]), (&json!("Status"), &json!("TooManyRequests")));
    assert_eq!((&answer["code"], &answer["details"]), (&json!(429), &json!({"retryAfterSeconds": 1})));
    true
}

#[tokio::test]
async fn only_so_many_requests_are_under_way_at_once() {
    let served = start(Limits { requests: 2, ..limits() });
    let (mut sender, _ends) = http2(&served).await;
    let (mut other, _other_ends) = http2(&served).await;
    // Watches are not among them.
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(get(&mut sender, &format!("{MAPS}?watch=1")).await);
    }
    let mut slow = Vec::new();
    for name in ["a", "b"] {
        let (send, parts) = futures::channel::mpsc::unbounded::<Bytes>();
        let body = StreamBody::new(parts.map(|part| Ok::<_, BoxError>(Frame::data(part))));
        let request = Request::post(format!("https://localhost{MAPS}"))
            .header("Authorization", "Bearer right")
            .header("Content-Type", "application/json");
        let answer = sender.send_request(request.body(transport::boxed(body)).unwrap());
        slow.push((name, send, tokio::spawn(answer)));
    }
    assert!(is_turned_away(&mut sender).await);
    assert!(is_turned_away(&mut other).await, "the bound is one for all connections");
    for (name, send, answer) in slow {
        let map = json!({"metadata": {"name": name}, "data": {"padding": "x".repeat(100_000)}});
        send.unbounded_send(map.to_string().into()).unwrap();
        drop(send);
        let response = soon(answer).await.unwrap().unwrap();
        assert_eq!(response.status(), 201);
        soon(response.into_body().collect()).await.unwrap();
    }
    assert!(!is_turned_away(&mut sender).await);
    // An answer that waits for its reader is under way, too.
    let unread = [get(&mut other, MAPS).await, get(&mut other, MAPS).await];
    assert!(is_turned_away(&mut sender).await);
    for answer in unread {
        soon(answer.collect()).await.unwrap();
    }
    assert!(!is_turned_away(&mut sender).await);
    drop(watches);
}
