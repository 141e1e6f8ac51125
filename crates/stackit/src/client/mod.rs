//! The IaaS API, versions 1 and 2: one method per operation, all of them through one way of sending.

mod call;
mod catalogue;
mod network;
mod path;
mod servers;
mod storage;

pub(crate) use call::TOKEN;
pub use path::{ApiVersion, Place};
pub use servers::{ConsoleLines, Reboot};

use crate::{
    auth::{Authorisation, Pass},
    failure::{failure_of, reference},
    limit::Limit,
};
use bytes::Bytes;
use call::Call;
use hostler_base::{Backoff, transport};
use hostler_driver::{
    Code, Failure,
    client::{Outcome, Step, Surroundings, Tried, next_step, retry_after},
};
use http::{HeaderMap, Request, StatusCode, header};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// How long one call may take, with everything: its turn, a token, repeats and the answer. Nothing of an
/// order reaches the cloud later than this after it was given.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// No list of a project is larger than this.
const ANSWER_LIMIT: usize = 64 << 20;
/// How long to wait before a question is asked again.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));

/// Where the API is and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    pub endpoint: String,
    pub version: ApiVersion,
}

/// The IaaS API for one place and one authorisation. Clones are the same client.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    surroundings: Surroundings,
    api: Api,
    place: Place,
    authorisation: Authorisation,
    limit: Arc<Limit>,
}

impl Client {
    /// Trailing slashes of the endpoint do not matter. All clients of a project should share its limit.
    pub fn new(
        surroundings: Surroundings,
        api: Api,
        place: Place,
        authorisation: Authorisation,
        limit: Arc<Limit>,
    ) -> Self {
        let endpoint = api.endpoint.trim_end_matches('/').to_owned();
        let api = Api { endpoint, ..api };
        Self(Arc::new(Inner { surroundings, api, place, authorisation, limit }))
    }

    pub fn place(&self) -> &Place {
        &self.0.place
    }

    pub fn version(&self) -> ApiVersion {
        self.0.api.version
    }

    fn in_project(&self, rest: &[&str]) -> Result<String, Failure> {
        path::in_project(self.version(), &self.0.place, rest)
    }

    fn in_region(&self, rest: &[&str]) -> Result<String, Failure> {
        path::in_region(self.version(), &self.0.place.region, rest)
    }

    fn of_caller(&self, rest: &[&str]) -> Result<String, Failure> {
        path::of_caller(self.version(), rest)
    }

    /// Sends a call and reads what it answers.
    async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        self.read(call, |answer| serde_json::from_slice(answer)).await
    }

    /// The same for an answer that is read in a way of its own.
    async fn read<T>(
        &self,
        call: Call,
        read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
    ) -> Result<T, Failure> {
        let target = call.target.clone();
        let answer = self.send(call).await?;
        read(&answer).map_err(|error| {
            Failure::new(
                Code::Unavailable,
                format!("STACKIT's answer to {target} is not what it should be: {error}"),
            )
        })
    }

    async fn list<T: DeserializeOwned>(&self, call: Call) -> Result<Vec<T>, Failure> {
        self.ask::<crate::wire::List<T>>(call).await.map(|list| list.items)
    }

    /// Sends a call whose answer holds nothing that matters.
    async fn tell(&self, call: Call) -> Result<(), Failure> {
        self.send(call).await.map(drop)
    }

    async fn send(&self, call: Call) -> Result<Bytes, Failure> {
        let attempts = self.attempts(&call);
        tokio::time::timeout(CALL_TIMEOUT, attempts).await.unwrap_or_else(|_| {
            let (method, target, seconds) = (&call.method, &call.target, CALL_TIMEOUT.as_secs());
            Err(Failure::new(
                Code::DeadlineExceeded,
                format!("STACKIT did not answer {method} {target} within {seconds} s"),
            ))
        })
    }

    async fn attempts(&self, call: &Call) -> Result<Bytes, Failure> {
        let Inner { surroundings, authorisation, limit, .. } = &*self.0;
        let mut tried = Tried::default();
        let mut before = None;
        loop {
            // A turn that does not come soon is no news if the cloud refused already.
            let turn = match limit.turn().await {
                Ok(turn) => turn,
                Err(failure) => return Err(before.unwrap_or(failure)),
            };
            let pass = authorisation.pass().await?;
            let (outcome, result) = self.attempt(call, pass.as_ref()).await;
            match outcome {
                Outcome::Answered(429) => {
                    limit.refused(turn, result.retry_after, result.result.as_ref().err().cloned());
                }
                Outcome::Answered(200..=299) => limit.accepted(),
                _ => {}
            }
            let can_renew = pass.as_ref().is_some_and(Pass::can_be_renewed);
            match next_step(call.purpose, outcome, tried, can_renew) {
                Step::Finish => return result.result,
                Step::Renew => {
                    tried.renewed = true;
                    if let Some(pass) = &pass {
                        authorisation.refused(pass).await;
                    }
                }
                Step::Repeat => {
                    // After a 429 the limit itself says when.
                    if outcome != Outcome::Answered(429) {
                        let pause = PAUSE.delay(tried.repeats, &surroundings.chance);
                        surroundings.clock.sleep(pause).await;
                    }
                    tried.repeats += 1;
                }
            }
            before = result.result.err();
        }
    }

    async fn attempt(&self, call: &Call, pass: Option<&Pass>) -> (Outcome, Attempted) {
        let request = match self.request(call, pass) {
            Ok(request) => request,
            // It never left; that is as good as a refusal.
            Err(failure) => {
                return (Outcome::Answered(400), Attempted { result: Err(failure), retry_after: None });
            }
        };
        let (method, target) = (&call.method, &call.target);
        let answer = transport::exchange(&self.0.surroundings.transport, request, ANSWER_LIMIT).await;
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => {
                let message = format!("cannot reach STACKIT for {method} {target}: {error}");
                let result = Err(Failure::new(Code::Unavailable, message));
                return (Outcome::Lost, Attempted { result, retry_after: None });
            }
        };
        let outcome = Outcome::Answered(head.status.as_u16());
        let reference = reference(&head.headers);
        if head.status.is_success() {
            tracing::debug!(%method, path = target, %reference, status = head.status.as_u16(), "STACKIT answered");
            return (outcome, Attempted { result: Ok(body), retry_after: None });
        }
        let failure = failure_of(call.purpose, head.status, &body).of_call(reference);
        tracing::info!(%method, path = target, %failure, "STACKIT refused a call");
        let now = self.0.surroundings.clock.now();
        let retry_after = (head.status == StatusCode::TOO_MANY_REQUESTS)
            .then(|| text(&head.headers, header::RETRY_AFTER.as_str()))
            .flatten()
            .and_then(|value| retry_after(value, now));
        (outcome, Attempted { result: Err(failure), retry_after })
    }

    fn request(&self, call: &Call, pass: Option<&Pass>) -> Result<Request<hostler_base::Body>, Failure> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(format!("{}{}", self.0.api.endpoint, call.target))
            .extension(call.operation)
            .header(header::ACCEPT, "application/json");
        if !call.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(pass) = pass {
            let mut value =
                header::HeaderValue::try_from(format!("Bearer {}", pass.token().expose_secret())).map_err(
                    |_| {
                        Failure::new(
                            Code::Unauthenticated,
                            "the access token holds characters that no token has: correct the Secret's key \"apiToken\"",
                        )
                    },
                )?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        request.body(transport::full(call.body.clone())).map_err(|error| {
            let message = format!("cannot call {} {}: {}", call.method, call.target, error);
            Failure::new(Code::InvalidArgument, message)
        })
    }
}

/// What one attempt brought: the answer and, after a 429, how long to wait.
struct Attempted {
    result: Result<Bytes, Failure>,
    retry_after: Option<Duration>,
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
