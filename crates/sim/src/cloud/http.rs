//! The way out for answers: whole, spoiled by a fault, or not at all.

use super::fault::{Fault, Spoiled};
use crate::proxy;
use axum::{
    Router,
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use futures::stream;
use hostler_base::{BoxError, Transport, transport};
use http::{HeaderValue, Request, StatusCode, header};
use serde_json::Value;
use std::io;
use tokio::net::TcpListener;
use tower::ServiceExt;

/// The largest body that is read.
pub(crate) const LARGEST_BODY: usize = 16 << 20;

/// Marks an answer that must not arrive: whoever has the connection ends it.
#[derive(Clone)]
struct Dropped;

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What a fault makes of an answer. A plain refusal has the cloud's own form.
pub(crate) fn spoiled(fault: &Fault, refusal: impl FnOnce(StatusCode, String) -> Response) -> Response {
    let status = fault.status.and_then(|status| StatusCode::from_u16(status).ok());
    let mut response = match fault.answer {
        Spoiled::No | Spoiled::NoItems | Spoiled::Half => {
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let usual = || status.canonical_reason().unwrap_or("a fault was asked for").to_owned();
            refusal(status, fault.message.clone().unwrap_or_else(usual))
        }
        Spoiled::Page => {
            let page = "<html><body><h1>The proxy cannot reach the server</h1></body></html>";
            let mut response = Response::new(Body::from(page));
            *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
            response
        }
        Spoiled::Empty => status.unwrap_or(StatusCode::OK).into_response(),
        Spoiled::Dropped => {
            let broken = || Err::<Bytes, _>(io::Error::from(io::ErrorKind::ConnectionReset));
            let mut response = Response::new(Body::from_stream(stream::iter([broken()])));
            response.extensions_mut().insert(Dropped);
            response
        }
    };
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A cloud's router as a transport whose calls can fail.
pub(crate) fn failing_transport(router: Router) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<transport::Body>| {
        let call = router.clone().oneshot(request.map(Body::new));
        async move {
            let response = call.await.unwrap_or_else(|never| match never {});
            if response.extensions().get::<Dropped>().is_some() {
                return Err(BoxError::from("the simulated cloud has closed the connection"));
            }
            Ok(response)
        }
    }))
}

/// Serves a cloud to other processes, until the future is dropped.
pub(crate) async fn serve(router: Router, listener: TcpListener) {
    proxy::accept(listener, failing_transport(router)).await;
}
