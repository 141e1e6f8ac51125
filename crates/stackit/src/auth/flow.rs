use super::{Pass, ServiceAccountKey};
use crate::{
    client::TOKEN,
    failure::{excerpt, reference},
};
use hostler_base::{Backoff, transport};
use hostler_driver::{
    Code, Failure,
    client::{LAST_MOMENT, Surroundings, Token, Tokens, escape},
};
use http::{Request, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::time::Duration;

/// Where STACKIT gives out tokens.
pub(crate) const TOKEN_URL: &str = "https://service-account.api.stackit.cloud/token";
/// How long getting a token may take, with repeats.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Getting a token makes nothing, so it may be tried again.
const MOST_REPEATS: u32 = 2;
const PAUSE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
/// No answer with a token is larger than this.
const ANSWER_LIMIT: usize = 1 << 20;

/// Gets access tokens for a service account's key and keeps them while they last.
pub struct KeyFlow {
    key: ServiceAccountKey,
    url: String,
    surroundings: Surroundings,
    tokens: Tokens,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: SecretString,
    expires_in: Option<i64>,
}

#[derive(Deserialize)]
struct Expiry {
    exp: i64,
}

impl KeyFlow {
    /// Tokens come from `url`, else from where the key says, else from STACKIT.
    pub fn new(surroundings: Surroundings, key: ServiceAccountKey, url: Option<&str>) -> Self {
        let url = url.or_else(|| key.token_endpoint()).unwrap_or(TOKEN_URL).to_owned();
        let tokens = Tokens::new(surroundings.clock.clone());
        Self { key, url, surroundings, tokens }
    }

    /// A token that lasts.
    pub(super) async fn pass(&self) -> Result<Pass, Failure> {
        let Token { token, flight } = self.tokens.token(|| self.fetch()).await?;
        Ok(Pass { token, flight: Some(flight) })
    }

    /// Forgets the token of that flight; a newer one stays.
    pub(super) async fn forget(&self, flight: u64) {
        self.tokens.forget(flight).await;
    }

    async fn fetch(&self) -> Result<(SecretString, Timestamp), Failure> {
        let attempts = async {
            let mut repeats = 0;
            loop {
                match self.attempt().await {
                    Err(failure) if failure.code == Code::Unavailable && repeats < MOST_REPEATS => {
                        let pause = PAUSE.delay(repeats, &self.surroundings.chance);
                        self.surroundings.clock.sleep(pause).await;
                        repeats += 1;
                    }
                    other => return other,
                }
            }
        };
        tokio::time::timeout(TIMEOUT, attempts).await.unwrap_or_else(|_| {
            let (url, seconds) = (&self.url, TIMEOUT.as_secs());
            Err(Failure::new(Code::Unavailable, format!("{url} gave no access token within {seconds} s")))
        })
    }

    async fn attempt(&self) -> Result<(SecretString, Timestamp), Failure> {
        let Self { url, surroundings, .. } = self;
        let id = uuid::Builder::from_random_bytes(surroundings.chance.u128().to_be_bytes()).into_uuid();
        let assertion = self.key.assertion(surroundings.clock.now(), &id.to_string())?;
        let grant = escape("urn:ietf:params:oauth:grant-type:jwt-bearer");
        let form = format!("grant_type={grant}&assertion={}", escape(assertion.expose_secret()));
        let request = Request::post(url)
            .extension(TOKEN)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(transport::full(form))
            .map_err(|error| {
                Failure::new(Code::InvalidArgument, format!("the token URL {url:?} cannot be used: {error}"))
            })?;
        let answer = transport::exchange(&surroundings.transport, request, ANSWER_LIMIT).await;
        let answer = answer.map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot reach {url} for an access token: {error}"))
        })?;
        let (head, body) = answer.into_parts();
        if !head.status.is_success() {
            return Err(self.refusal(head.status, &body).of_call(reference(&head.headers)));
        }
        let unusable = |what: &str| {
            Failure::new(Code::Unavailable, format!("the answer of {url} is no access token: {what}"))
        };
        // The parser's own words could show the token.
        let told: TokenAnswer =
            serde_json::from_slice(&body).map_err(|_| unusable("its form is another one"))?;
        let claims: Option<Expiry> =
            jsonwebtoken::dangerous::insecure_decode_claims(told.access_token.expose_secret()).ok();
        let now = surroundings.clock.now();
        let ends_at = end(now, claims.map(|claims| claims.exp), told.expires_in).ok_or_else(|| {
            unusable("it has ended already, or nothing says when it ends; check this machine's clock")
        })?;
        Ok((told.access_token, ends_at))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        let Self { url, key, .. } = self;
        let (account, told) = (key.account(), excerpt(body));
        let number = status.as_u16();
        if number == 429 || status.is_server_error() {
            return Failure::new(Code::Unavailable, format!("{url} answered {number}: {told}"));
        }
        let advice = if told.to_lowercase().contains("kid") {
            "the key was deleted, or the token URL belongs to another STACKIT"
        } else {
            "check that the account exists and its key is active, or put a new key into the Secret"
        };
        Failure::new(
            Code::Unauthenticated,
            format!("{url} gave {account} no access token, it answered {number}: {told}; {advice}"),
        )
    }
}

/// When a token ends, by its own claim and by what was told with it: the earlier of the two. A claim in the
/// past is a sign that our clock is wrong; then only the time that was told counts.
fn end(now: Timestamp, claim: Option<i64>, lasts: Option<i64>) -> Option<Timestamp> {
    let told = lasts
        .filter(|seconds| *seconds > 0)
        .and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok());
    let claimed =
        claim.and_then(|second| Timestamp::from_second(second).ok()).filter(|end| *end > now + LAST_MOMENT);
    match (told, claimed) {
        (Some(told), Some(claimed)) => Some(told.min(claimed)),
        (told, claimed) => told.or(claimed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_ends_when_the_first_of_two_says_so() {
        let table = [
            // claim, told, end; now is 1000
            (Some(4600), Some(3600), Some(4600)),
            (Some(4000), Some(3600), Some(4000)),
            (Some(9000), Some(3600), Some(4600)),
            (Some(4600), None, Some(4600)),
            (None, Some(60), Some(1060)),
            (Some(900), Some(3600), Some(4600)),
            (Some(900), None, None),
            (Some(1003), None, None),
            (None, None, None),
            (None, Some(0), None),
            (None, Some(-5), None),
            (Some(i64::MAX), Some(60), Some(1060)),
            (None, Some(i64::MAX), None),
        ];
        for (claim, told, expected) in table {
            assert_eq!(end(at(1000), claim, told), expected.map(at), "{claim:?} {told:?}");
        }
    }
}
