//! The way to VPSie: whatever is sent goes through here, once.

use super::call::{Call, Content};
use crate::{
    auth::Pass,
    base::BaseUrl,
    breaker::Breaker,
    failure::{failure_of, meant_status, reference},
    limit::Limit,
};
use bytes::Bytes;
use hostler_base::transport;
use hostler_driver::{
    Code, Failure,
    client::{Outcome, Surroundings, retry_after},
};
use http::{Request, header};
use std::{sync::Arc, time::Duration};

/// How long VPSie may take to answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(25);
/// No answer is larger than this.
const ANSWER_LIMIT: usize = 10 << 20;

#[derive(Clone)]
pub(crate) struct Line(Arc<Inner>);

struct Inner {
    surroundings: Surroundings,
    base: BaseUrl,
    limit: Limit,
    breaker: Breaker,
}

/// What came of sending a call.
pub(crate) struct Attempt {
    /// With the status that is meant, whatever the one of the answer is.
    pub(crate) outcome: Outcome,
    pub(crate) result: Result<Bytes, Failure>,
}

impl Line {
    pub(crate) fn new(surroundings: Surroundings, base: BaseUrl) -> Self {
        let limit = Limit::new(surroundings.clock.clone(), surroundings.chance.split("limit"));
        let breaker = Breaker::new(surroundings.clock.clone());
        Self(Arc::new(Inner { surroundings, base, limit, breaker }))
    }

    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.0.surroundings
    }

    pub(crate) fn base(&self) -> &BaseUrl {
        &self.0.base
    }

    /// Sends a call when it is its turn. A failure of this itself means that nothing was sent.
    pub(crate) async fn send(&self, call: &Call, pass: Option<&Pass>) -> Result<Attempt, Failure> {
        let Inner { surroundings, limit, breaker, .. } = &*self.0;
        let request = self.request(call, pass)?;
        let turn = limit.turn(call.urgency).await?;
        let permit = breaker.admit()?;
        let name = call.operation.0;
        let exchange = transport::exchange(&surroundings.transport, request, ANSWER_LIMIT);
        let answer = match tokio::time::timeout(ATTEMPT_TIMEOUT, exchange).await {
            Ok(answer) => answer.map_err(|error| {
                Failure::new(Code::Unavailable, format!("cannot reach VPSie for {name}: {error}"))
            }),
            Err(_) => {
                let seconds = ATTEMPT_TIMEOUT.as_secs();
                let message = format!("VPSie did not answer {name} within {seconds} s");
                Err(Failure::new(Code::DeadlineExceeded, message))
            }
        };
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(failure) => {
                permit.ended(false);
                return Ok(Attempt { outcome: Outcome::Lost, result: Err(failure) });
            }
        };
        permit.ended(!head.status.is_server_error());
        let outcome = Outcome::Answered(meant_status(head.status, &body));
        let Some(failure) = failure_of(call.purpose, head.status, &body) else {
            limit.accepted();
            tracing::debug!(operation = name, status = head.status.as_u16(), "VPSie answered");
            return Ok(Attempt { outcome, result: Ok(body) });
        };
        let failure = failure.of_call(reference(&head.headers));
        tracing::info!(operation = name, path = call.path, %failure, "VPSie refused a call");
        if outcome == Outcome::Answered(429) {
            let wait = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            let wait = wait.and_then(|value| retry_after(value, surroundings.clock.now()));
            limit.refused(turn, wait, Some(failure.clone()));
        }
        Ok(Attempt { outcome, result: Err(failure) })
    }

    fn request(&self, call: &Call, pass: Option<&Pass>) -> Result<Request<hostler_base::Body>, Failure> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(self.0.base.under(call.prefix, &call.path))
            .extension(call.operation)
            .header(header::ACCEPT, "application/json");
        let body = match &call.content {
            Content::Nothing => Bytes::new(),
            Content::Json(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                body.clone()
            }
            Content::Form(body) => {
                request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
                body.clone()
            }
        };
        if let Some(Pass { header, value, .. }) = pass {
            request = request.header(header, value);
        }
        request.body(transport::full(body)).map_err(|error| {
            Failure::new(Code::InvalidArgument, format!("cannot call {}: {error}", call.operation.0))
        })
    }
}
