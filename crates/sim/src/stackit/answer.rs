//! What a call is answered with, before it becomes HTTP.

use crate::cloud::http::json_response;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

/// A call that was carried out.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Option<Value>,
}

/// A call that was not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

pub(super) type Outcome = Result<Answer, Refusal>;

/// An answer with a body. The signatures of the helpers let them end a handler.
#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which can fail")]
pub(super) fn answer(status: StatusCode, body: Value) -> Outcome {
    Ok(Answer { status, body: Some(body) })
}

pub(super) fn found(body: Value) -> Outcome {
    answer(StatusCode::OK, body)
}

pub(super) fn items(items: Vec<Value>) -> Outcome {
    found(json!({"items": items}))
}

#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which can fail")]
pub(super) fn empty(status: StatusCode) -> Outcome {
    Ok(Answer { status, body: None })
}

pub(super) fn accepted() -> Outcome {
    empty(StatusCode::ACCEPTED)
}

pub(super) fn done() -> Outcome {
    empty(StatusCode::NO_CONTENT)
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn missing(kind: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("the {kind} {id} was not found"))
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        match self.body {
            Some(body) => json_response(self.status, &body),
            None => self.status.into_response(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json_response(self.status, &json!({"code": self.status.as_u16(), "msg": self.message}))
    }
}
