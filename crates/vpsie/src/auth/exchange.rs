use super::{Origin, Pass, bearer};
use crate::{
    base::Prefix,
    client::{Call, Line},
    failure::text::AUTHENTICATION_FAILED,
};
use bytes::Bytes;
use hostler_base::Backoff;
use hostler_driver::{
    Code, Failure,
    client::{OperationName, Purpose, Step, Token, Tokens, Tried, escape, next_step},
};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::time::Duration;

const OPERATION: OperationName = OperationName("CreateToken");
/// How long getting a token may take, with repeats.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
/// How long a token lasts that does not say it.
const USUAL_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Exchanges an id and its secret for tokens, and keeps these while they last.
pub(crate) struct Exchange {
    line: Line,
    id: SecretString,
    secret: SecretString,
    tokens: Tokens,
}

/// Both shapes in which VPSie gives out tokens. The one for refreshing is used by nobody: the exchange is done again.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "accessToken")]
    access_token: Option<Access>,
    token: Option<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    access: Access,
}

#[derive(Deserialize)]
struct Access {
    token: SecretString,
    expires: Option<String>,
}

impl Exchange {
    pub(super) fn new(line: Line, id: SecretString, secret: SecretString) -> Self {
        let tokens = Tokens::new(line.surroundings().clock.clone());
        Self { line, id, secret, tokens }
    }

    pub(super) async fn pass(&self) -> Result<Pass, Failure> {
        let Token { token, flight } = self.tokens.token(|| self.fetch()).await?;
        bearer(&token, Origin::Flight(flight))
    }

    pub(super) async fn forget(&self, flight: u64) {
        self.tokens.forget(flight).await;
    }

    async fn fetch(&self) -> Result<(SecretString, Timestamp), Failure> {
        let attempts = tokio::time::timeout(TIMEOUT, self.attempts()).await;
        let answer = attempts.unwrap_or_else(|_| {
            let seconds = TIMEOUT.as_secs();
            Err(Failure::new(Code::Unavailable, format!("VPSie gave no access token within {seconds} s")))
        })?;
        let now = self.line.surroundings().clock.now();
        // The parser's own words could show the token.
        let told: Option<Answer> = serde_json::from_slice(&answer).ok();
        let access = told.and_then(|told| told.access_token.or_else(|| told.token.map(|pair| pair.access)));
        let Some(Access { token, expires }) =
            access.filter(|access| !access.token.expose_secret().is_empty())
        else {
            let message = "VPSie's answer to the exchange of the client's secret holds no access token";
            return Err(Failure::new(Code::Unavailable, message));
        };
        Ok((token, end(now, expires.as_deref())))
    }

    async fn attempts(&self) -> Result<Bytes, Failure> {
        let surroundings = self.line.surroundings();
        let mut tried = Tried::default();
        loop {
            let form = format!(
                "clientId={}&clientSecret={}",
                escape(self.id.expose_secret()),
                escape(self.secret.expose_secret())
            );
            // Getting a token makes nothing, so it may be tried again.
            let call =
                Call::new(OPERATION, Purpose::Read, http::Method::POST, Prefix::Main, "/auth/from/api")
                    .urgent()
                    .form(form);
            let attempt = self.line.send(&call, None).await?;
            match next_step(Purpose::Read, attempt.outcome, tried, false) {
                Step::Finish => return attempt.result.map_err(refusal),
                Step::Repeat | Step::Renew => {
                    let pause = PAUSE.delay(tried.repeats, &surroundings.chance);
                    surroundings.clock.sleep(pause).await;
                    tried.repeats += 1;
                }
            }
        }
    }
}

/// Why there is no token: VPSie cannot be asked now, or does not take what it was given.
fn refusal(failure: Failure) -> Failure {
    match failure.code {
        Code::Unavailable | Code::DeadlineExceeded => failure,
        Code::Unauthenticated => {
            let message =
                format!("{}; check the Secret's \"clientId\" and \"clientSecret\"", failure.message);
            Failure { message, ..failure }
        }
        _ => {
            let message = format!(
                "{AUTHENTICATION_FAILED}: {}; check the Secret's \"clientId\", \"clientSecret\" and \"url\"",
                failure.message
            );
            Failure { code: Code::Unauthenticated, message, ..failure }
        }
    }
}

/// When a token ends. An end in the past is a sign that our clock is wrong.
fn end(now: Timestamp, told: Option<&str>) -> Timestamp {
    let told: Option<Timestamp> = told.and_then(|text| text.trim().parse().ok());
    let usual = || now.checked_add(USUAL_LIFE).unwrap_or(Timestamp::MAX);
    told.filter(|end| *end > now).unwrap_or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lasts_as_long_as_it_says_else_an_hour() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let table = [
            (Some("2026-01-01T00:10:00Z"), 600),
            (Some("2026-01-01T02:00:00.000+01:00"), 3_600),
            (Some("2026-01-02T00:00:00Z"), 86_400),
            (Some("2025-12-31T23:59:59Z"), 3_600),
            (Some("soon"), 3_600),
            (Some(""), 3_600),
            (None, 3_600),
        ];
        for (told, seconds) in table {
            assert_eq!(end(now, told).duration_since(now).as_secs(), seconds, "{told:?}");
        }
    }

    #[test]
    fn what_vpsie_does_not_take_is_an_authentication_that_failed() {
        let table = [
            (Code::Unavailable, Code::Unavailable, "no"),
            (Code::DeadlineExceeded, Code::DeadlineExceeded, "no"),
            (Code::Unauthenticated, Code::Unauthenticated, "no; check the Secret's"),
            (
                Code::NotFound,
                Code::Unauthenticated,
                "VPSie API authentication failed: no; check the Secret's",
            ),
            (Code::Unknown, Code::Unauthenticated, "VPSie API authentication failed: no"),
        ];
        for (code, expected, text) in table {
            let failure = refusal(Failure::new(code, "no"));
            assert!(failure.code == expected && failure.message.starts_with(text), "{failure}");
        }
    }
}
