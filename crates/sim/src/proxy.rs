//! A reverse proxy on loopback: lets a process of its own call through a [`Transport`], and with that across
//! the wire, where its calls are named and may be broken.

use hostler_base::{Body, BoxError, Transport, transport};
use http::{Request, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, task::JoinSet};

/// A proxy that listens. Dropping it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port and passes every request on. A call that fails on the way ends its connection,
    /// as a server does that is not there.
    pub async fn start(to: Transport) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, to));
        Ok(Self { address, _serving: serving })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Serves whoever connects, for ever.
pub(crate) async fn accept(listener: TcpListener, to: Transport) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            // The process has no room for another connection right now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let to = to.clone();
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| pass(to.clone(), request));
            let connection = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // Whoever called sees why; here nobody does.
            let _ = connection.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn pass(to: Transport, request: Request<Incoming>) -> Result<http::Response<Body>, BoxError> {
    let mut request = request.map(transport::boxed);
    // These are about the connection to us, or about us.
    for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING] {
        request.headers_mut().remove(name);
    }
    let mut response = transport::send(&to, request).await?;
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    Ok(response)
}
