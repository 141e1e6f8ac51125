//! Refusals: every answer that is not an object is a `Status`, built from an [`ApiError`].

use crate::field::FieldError;
use http::StatusCode;
use serde_json::{Value, json};

/// A refusal on its way to becoming a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub code: StatusCode,
    /// The machine-readable reason, for example `NotFound`; empty when a real server gives none.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// For an expired page: where to go on without consistency.
    pub next_page: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The kind for `Invalid`, the resource (plural) elsewhere, as a real server has it.
    pub kind: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<i32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// `pods` or `deployments.apps`: how a resource is named in messages.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl ApiError {
    #[cold]
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, next_page: None }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group = group.to_owned();
        details.kind = kind.to_owned();
        details.name = name.to_owned();
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    /// No such path at all.
    pub fn no_such_path() -> Self {
        let mut error =
            Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(group, resource, name)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(group, resource, name)
    }

    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(group, resource, name)
    }

    /// The object does not fit into the store; the words are those of etcd.
    pub fn does_not_fit() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", "etcdserver: request is too large")
    }

    /// The object changed since it was read.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} {name:?} is forbidden: {why}", qualified(group, resource))
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// What would answer is not there.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        error.details = Some(Box::default());
        error
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The version asked for is no longer, or not yet, in the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.details.get_or_insert_default().retry_after_seconds = Some(retry_after_seconds);
        error
    }

    /// The object's fields are wrong; names the kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let list = match errors {
            [] => "<nil>".to_owned(),
            [one] => one.to_string(),
            several => {
                let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("[{}]", texts.join(", "))
            }
        };
        let message = format!("{} {name:?} is invalid: {list}", qualified(group, kind));
        let mut error =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(group, kind, name);
        error.details.get_or_insert_default().causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.fault.reason().to_owned(),
                message: error.message(),
                field: error.field.clone(),
            })
            .collect();
        error
    }

    /// The `Status` object that goes over the wire.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.next_page {
            status["metadata"]["continue"] = json!(token);
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_json();
        }
        status
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut out = serde_json::Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_json).collect();
            out.insert("causes".to_owned(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds {
            out.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut out = serde_json::Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        Value::Object(out)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
