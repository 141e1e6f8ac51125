//! How calls get to a Kubernetes API server.

use hostler_base::{Body, BoxError, Transport, transport};
use http::Request;
use http_body_util::BodyExt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config, Error,
    client::{ClientBuilder, ConfigExt, RustlsTlsError},
};
use std::time::Duration;
use tower::{ServiceBuilder, ServiceExt};

/// A connection on which nothing has come for so long is asked for a sign of life.
const PING_AFTER: Duration = Duration::from_secs(5);
/// Without one it is given up, with all calls on it. Whatever died silently is noticed within the time of two calls.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A transport to the API server that a kube configuration names, with its certificates and credentials. All calls share
/// one connection where the server speaks HTTP/2: a thousand machines would otherwise keep as many connections as
/// there are calls at once, each with its own handshake and buffers.
pub fn transport_to(config: Config) -> Result<Transport, Error> {
    if config.proxy_url.is_some() {
        return transport_apart(config);
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    let mut tls =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName);
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name.map_err(Error::RustlsTls)?));
    }
    let client: Client<_, Body> = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(tls.enable_all_versions().wrap_connector(http));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(transport::from_service(service.map_err(|error: BoxError| transport::with_causes(&*error))))
}

/// The same with connections of its own, one for each call under way: a call that hangs with its connection holds up no
/// other one.
pub fn transport_apart(mut config: Config) -> Result<Transport, Error> {
    // A retry inside the client would hide a 429 from whoever must decide about it.
    config.default_retry = false;
    let client = ClientBuilder::try_from(config)?.build();
    Ok(transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let (parts, body) = request.into_parts();
        let body = body.collect();
        async move {
            let body = body.await?.to_bytes();
            Ok::<_, BoxError>(client.send(Request::from_parts(parts, body.into())).await?)
        }
    })))
}
