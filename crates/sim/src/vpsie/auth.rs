//! Who is let in, and how often.

use super::{
    Settings,
    answer::{Answer, Checked, Outcome, Refusal},
    call::Call,
    cloud::Cloud,
    settings::{KeyHeader, TokenAnswer},
};
use crate::cloud::after;
use hostler_base::Chance;
use http::{HeaderMap, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// A refresh token lives so many times as long as an access token.
const REFRESH_FACTOR: u32 = 24;

const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789";

/// The credentials that were issued, and the tokens that were given for them.
#[derive(Default)]
pub(super) struct Keys {
    issued: BTreeMap<String, Issued>,
    granted: BTreeMap<String, Granted>,
}

struct Issued {
    kind: NewKey,
    secret: String,
    valid_until: Option<Timestamp>,
    revoked: bool,
}

struct Granted {
    client: String,
    until: Timestamp,
}

/// What kind of credential is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKey {
    /// One text, for the header of every call.
    Token,
    /// An id and a secret, which give a token for a while.
    Client,
}

/// A credential as the console shows it once.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// By which it can be revoked; a client's id.
    pub id: String,
    /// A token, or a client's secret.
    pub secret: String,
}

impl Keys {
    pub(super) fn issue(&mut self, kind: NewKey, valid_until: Option<Timestamp>, chance: &Chance) -> Key {
        let key = Key { id: chance.text(ALPHABET, 20), secret: chance.text(ALPHABET, 48) };
        let issued = Issued { kind, secret: key.secret.clone(), valid_until, revoked: false };
        self.issued.insert(key.id.clone(), issued);
        key
    }

    /// False if there is no such key.
    pub(super) fn revoke(&mut self, id: &str) -> bool {
        self.issued.get_mut(id).map(|key| key.revoked = true).is_some()
    }

    fn usable(&self, kind: NewKey, now: Timestamp) -> impl Iterator<Item = (&String, &Issued)> {
        self.issued.iter().filter(move |(_, key)| {
            key.kind == kind && !key.revoked && key.valid_until.is_none_or(|until| until > now)
        })
    }

    fn is_api_key(&self, text: &str, settings: &Settings, now: Timestamp) -> bool {
        settings.tokens.contains(text) || self.usable(NewKey::Token, now).any(|(_, key)| key.secret == text)
    }

    fn is_client(&self, id: &str, settings: &Settings, now: Timestamp) -> bool {
        settings.clients.contains_key(id) || self.usable(NewKey::Client, now).any(|(known, _)| known == id)
    }

    fn is_access_token(&self, text: &str, settings: &Settings, now: Timestamp) -> bool {
        self.granted.get(text).is_some_and(|granted| {
            granted.until > now
                && (!settings.revoked_at_once || self.is_client(&granted.client, settings, now))
        })
    }
}

/// What a call carries to be let in.
#[derive(Clone, Default)]
pub(super) struct Credential {
    key: Option<String>,
    bearer: Option<String>,
}

impl Credential {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str()).and_then(|text| text.strip_prefix("Bearer "));
        Self { key: text("vpsie-auth").map(str::to_owned), bearer: bearer.map(str::to_owned) }
    }

    /// Whose calls are counted together.
    fn account(&self) -> &str {
        self.key.as_deref().or(self.bearer.as_deref()).unwrap_or_default()
    }
}

/// The calls of the last minute.
#[derive(Default)]
pub(super) struct Limiter(BTreeMap<String, VecDeque<Timestamp>>);

impl Limiter {
    /// Counts a call, or says how many seconds it comes too early.
    fn count(&mut self, account: &str, most: usize, now: Timestamp) -> Result<(), i64> {
        let calls = self.0.entry(account.to_owned()).or_default();
        let minute = SignedDuration::from_mins(1);
        while calls.front().is_some_and(|first| now.duration_since(*first) >= minute) {
            calls.pop_front();
        }
        if calls.len() >= most {
            let first = calls.front().map_or(minute, |first| minute - now.duration_since(*first));
            return Err(first.as_secs() + 1);
        }
        calls.push_back(now);
        Ok(())
    }
}

impl Cloud {
    /// Counts a call; the error says after how many seconds the next one may come.
    pub(super) fn within_rate(&mut self, credential: &Credential) -> Result<(), i64> {
        match self.settings.requests_per_minute {
            0 => Ok(()),
            most => self.limiter.count(credential.account(), most, self.now),
        }
    }

    /// Whether a call may be carried out.
    pub(super) fn admit(&self, credential: &Credential) -> Checked<()> {
        let settings = &self.settings;
        let needed = settings.require_token || !settings.tokens.is_empty() || !settings.clients.is_empty();
        let is_key = |text: &String| self.keys.is_api_key(text, settings, self.now);
        let by_key = settings.key_header != KeyHeader::Bearer && credential.key.as_ref().is_some_and(is_key);
        let by_bearer = credential.bearer.as_ref().is_some_and(|text| {
            self.keys.is_access_token(text, settings, self.now)
                || (settings.key_header != KeyHeader::VpsieAuth && is_key(text))
        });
        if !needed || by_key || by_bearer {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized"))
    }

    /// Gives a token for a client's id and secret, which come as JSON or as a form.
    pub(super) fn exchange(&mut self, call: &Call) -> Outcome {
        let field = |name: &str| call.text(name).or_else(|| call.form.get(name).map(String::as_str));
        let (Some(client), Some(secret)) = (field("clientId"), field("clientSecret")) else {
            return Err(Refusal::bad("clientId and clientSecret are required"));
        };
        let (settings, now) = (&self.settings, self.now);
        let is_issued =
            self.keys.usable(NewKey::Client, now).any(|(id, key)| id == client && key.secret == secret);
        if !is_issued && settings.clients.get(client).is_none_or(|known| known != secret) {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "the client id or the client secret is wrong",
            ));
        }
        let until = after(now, settings.token_life);
        let refresh_until = after(now, settings.token_life.saturating_mul(REFRESH_FACTOR));
        let (token, refresh) = (self.chance.text(ALPHABET, 40), self.chance.text(ALPHABET, 40));
        self.keys.granted.retain(|_, granted| granted.until > now);
        self.keys.granted.insert(token.clone(), Granted { client: client.to_owned(), until });
        let shown = |token: &str, until: Timestamp| json!({"token": token, "expires": until.to_string()});
        let bare = |token: &str| json!({"token": token});
        let answer: Value = match settings.token_answer {
            TokenAnswer::AccessToken => json!({"accessToken": shown(&token, until),
                "refreshToken": shown(&refresh, refresh_until)}),
            TokenAnswer::WithoutExpiry => {
                json!({"accessToken": bare(&token), "refreshToken": bare(&refresh)})
            }
            TokenAnswer::Token => json!({"error": false, "token": {"access": shown(&token, until),
                "refresh": shown(&refresh, refresh_until)}}),
        };
        Ok(Answer::Bare(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_room_for_so_many() {
        let mut limiter = Limiter::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(limiter.count("a", 2, at(0)), Ok(()));
        assert_eq!(limiter.count("a", 2, at(30)), Ok(()));
        assert_eq!(limiter.count("a", 2, at(40)), Err(21));
        assert_eq!(limiter.count("b", 2, at(40)), Ok(()));
        assert_eq!(limiter.count("a", 2, at(60)), Ok(()), "the first is a minute ago");
        assert_eq!(limiter.count("a", 2, at(89)), Err(2));
    }
}
