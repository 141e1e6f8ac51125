//! VPSie's API: one method per operation, all of them through one way of sending.

mod call;
mod catalogue;
mod kubernetes;
mod line;
mod vms;

pub(crate) use call::Call;
pub(crate) use line::Line;

use crate::{
    Grant,
    auth::Authorisation,
    base::BaseUrl,
    wire::envelope::{self, Unreadable},
};
use bytes::Bytes;
use call::path;
use hostler_base::Backoff;
use hostler_driver::{
    Code, Failure,
    client::{OperationName, Outcome, Step, Surroundings, Tried, next_step},
};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// How long one call may take, with everything: its turn, a token, repeats and the answer. Nothing of an order reaches
/// VPSie later than this after it was given.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// How long to wait before a question is asked again.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));

/// VPSie's API for one account. Clones are the same client.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    line: Line,
    authorisation: Authorisation,
}

impl Client {
    pub fn new(surroundings: Surroundings, base: BaseUrl, grant: &Grant) -> Self {
        let line = Line::new(surroundings, base);
        let authorisation = Authorisation::new(grant, &line);
        Self(Arc::new(Inner { line, authorisation }))
    }

    pub fn base(&self) -> &BaseUrl {
        self.0.line.base()
    }

    /// Sends a call and reads what it answers.
    async fn ask<T>(
        &self,
        call: Call,
        read: impl FnOnce(&[u8]) -> Result<T, Unreadable>,
    ) -> Result<T, Failure> {
        let operation = call.operation;
        let answer = self.send(call).await?;
        read(&answer).map_err(|why| odd(operation, &why))
    }

    async fn list<T: DeserializeOwned>(&self, call: Call) -> Result<Vec<T>, Failure> {
        self.ask(call, envelope::list).await
    }

    /// Sends a call whose answer holds nothing that matters.
    async fn tell(&self, call: Call) -> Result<(), Failure> {
        self.send(call).await.map(drop)
    }

    async fn send(&self, call: Call) -> Result<Bytes, Failure> {
        let attempts = self.attempts(&call);
        tokio::time::timeout(CALL_TIMEOUT, attempts).await.unwrap_or_else(|_| {
            let (name, seconds) = (call.operation.0, CALL_TIMEOUT.as_secs());
            let message = format!("VPSie did not answer {name} within {seconds} s");
            Err(Failure::new(Code::DeadlineExceeded, message))
        })
    }

    async fn attempts(&self, call: &Call) -> Result<Bytes, Failure> {
        let Inner { line, authorisation } = &*self.0;
        let surroundings = line.surroundings();
        let mut tried = Tried::default();
        let mut before = None;
        loop {
            let pass = authorisation.pass().await?;
            let attempt = match line.send(call, Some(&pass)).await {
                Ok(attempt) => attempt,
                // What cannot be sent once more is no news if VPSie refused already.
                Err(failure) => return Err(before.unwrap_or(failure)),
            };
            if attempt.result.is_ok() {
                authorisation.accepted(&pass);
            }
            let unauthorised = attempt.outcome == Outcome::Answered(401);
            let can_renew = unauthorised && authorisation.refused(&pass).await && !tried.renewed;
            match next_step(call.purpose, attempt.outcome, tried, can_renew) {
                Step::Finish if unauthorised => return attempt.result.map_err(advised),
                Step::Finish => return attempt.result,
                Step::Renew => tried.renewed = true,
                Step::Repeat => {
                    // After a 429 the limit itself says when.
                    if attempt.outcome != Outcome::Answered(429) {
                        let pause = PAUSE.delay(tried.repeats, &surroundings.chance);
                        surroundings.clock.sleep(pause).await;
                    }
                    tried.repeats += 1;
                }
            }
            before = attempt.result.err();
        }
    }
}

fn odd(operation: OperationName, why: &impl std::fmt::Display) -> Failure {
    let message = format!("VPSie's answer to {} is not what it should be: {why}", operation.0);
    Failure::new(Code::Unavailable, message)
}

/// What is to be done about credentials that VPSie does not take.
fn advised(failure: Failure) -> Failure {
    let message = format!("{}; check the Secret vpsie-secret", failure.message);
    Failure { message, ..failure }
}
