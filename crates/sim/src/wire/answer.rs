//! Answers a server did not give: errors of its own making, and errors of the connection.

use super::naming::Paths;
use hostler_base::{Body, BoxError, transport};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use std::io;

/// An error answer in the server's own words.
pub(crate) fn error(paths: &Paths, status: u16) -> Response<Body> {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = match paths {
        Paths::Kubernetes => kubernetes_status(code),
        Paths::Templates { .. } => json!({ "message": code.canonical_reason().unwrap_or("error") }),
    };
    let mut response = Response::new(transport::full(body.to_string()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A page that somebody on the way shows in place of the server's answer, perhaps calling it fine.
pub(crate) fn page(status: u16) -> Response<Body> {
    let mut response = Response::new(transport::full("<html><body>Please try again later.</body></html>"));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

fn kubernetes_status(code: StatusCode) -> Value {
    let (reason, message) = match code.as_u16() {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "it is forbidden: the user cannot do this"),
        409 => ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        410 => ("Expired", "too old resource version"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the request did not complete within the allotted time"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code.as_u16(),
    });
    if code == StatusCode::TOO_MANY_REQUESTS {
        status["details"] = json!({ "retryAfterSeconds": 1 });
    }
    status
}

/// The watch event that sends a client back to list.
pub(crate) fn gone_event() -> String {
    format!("{}\n", json!({ "type": "ERROR", "object": kubernetes_status(StatusCode::GONE) }))
}

pub(crate) fn refused() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused").into()
}

pub(crate) fn timed_out() -> BoxError {
    io::Error::new(io::ErrorKind::TimedOut, "connection timed out").into()
}

pub(crate) fn reset() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}
