//! What a call is answered with, before it becomes HTTP: the envelope that all answers have.

use super::Settings;
use crate::cloud::http::json_response;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Map, Value, json};

/// A call that was carried out.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Data(Value),
    /// A list, which says how much there is in all.
    List(Vec<Value>),
    /// A body without the envelope.
    Bare(Value),
    /// Nothing but the word that it went well.
    Done,
    /// Not even a body.
    Nothing,
}

/// A call that was not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

pub(super) type Outcome = Result<Answer, Refusal>;
pub(super) type Checked<T> = Result<T, Refusal>;

#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which can fail")]
pub(super) fn data(data: Value) -> Outcome {
    Ok(Answer::Data(data))
}

#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which can fail")]
pub(super) fn list(items: impl IntoIterator<Item = Value>) -> Outcome {
    Ok(Answer::List(items.into_iter().collect()))
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn missing(kind: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{kind} not found"))
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Whoever has no or a wrong credential, or comes too often, is told so by the status itself; what else goes wrong
    /// may come as a success whose body says that it is none.
    fn shown_status(&self, settings: &Settings) -> StatusCode {
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => self.status,
            StatusCode::NOT_FOUND if settings.missing_with_200 => StatusCode::OK,
            status if status.is_client_error() && settings.errors_with_200 => StatusCode::OK,
            status => status,
        }
    }

    pub(super) fn into_response(self, settings: &Settings) -> Response {
        error_response(self.shown_status(settings), self.status, &self.message)
    }
}

/// The body of everything that goes wrong.
pub(super) fn error_response(shown: StatusCode, code: StatusCode, message: &str) -> Response {
    json_response(shown, &json!({"error": true, "code": code.as_u16(), "message": message}))
}

impl Answer {
    /// What is in it as data, for a fault that takes something away.
    pub(super) fn shorten(&mut self, shorten: impl FnOnce(&mut Value)) {
        match self {
            Self::List(items) => {
                let mut list = Value::Array(std::mem::take(items));
                shorten(&mut list);
                if let Value::Array(left) = list {
                    *items = left;
                }
            }
            Self::Data(data) => match data.get_mut("rows") {
                Some(rows) => shorten(rows),
                None => shorten(data),
            },
            Self::Bare(_) | Self::Done | Self::Nothing => {}
        }
    }

    pub(super) fn into_response(self, settings: &Settings) -> Response {
        let mut body = Map::from_iter([("error".to_owned(), json!(false))]);
        match self {
            Self::Data(data) => {
                body.insert("data".to_owned(), data);
            }
            Self::List(items) => {
                if let Some(key) = settings.total.key() {
                    body.insert(key.to_owned(), json!(items.len()));
                }
                body.insert("data".to_owned(), Value::Array(items));
            }
            Self::Done => {}
            Self::Bare(bare) => return json_response(StatusCode::OK, &bare),
            Self::Nothing => return StatusCode::NO_CONTENT.into_response(),
        }
        json_response(StatusCode::OK, &Value::Object(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_errors_come_as_a_success_is_a_switch() {
        let cases = [
            (StatusCode::NOT_FOUND, false, true, 200),
            (StatusCode::NOT_FOUND, false, false, 404),
            (StatusCode::NOT_FOUND, true, false, 200),
            (StatusCode::BAD_REQUEST, false, true, 400),
            (StatusCode::BAD_REQUEST, true, true, 200),
            (StatusCode::UNAUTHORIZED, true, true, 401),
            (StatusCode::TOO_MANY_REQUESTS, true, true, 429),
            (StatusCode::INTERNAL_SERVER_ERROR, true, true, 500),
        ];
        for (status, errors_with_200, missing_with_200, expected) in cases {
            let settings = Settings { errors_with_200, missing_with_200, ..Settings::default() };
            let shown = Refusal::new(status, "x").shown_status(&settings);
            assert_eq!(shown.as_u16(), expected, "{status} {errors_with_200} {missing_with_200}");
        }
    }
}
