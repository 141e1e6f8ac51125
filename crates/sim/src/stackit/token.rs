//! Service account keys and the tokens that are given for them: the key flow, with real signatures.

use super::{Settings, answer::Refusal};
use crate::cloud::{after, uuid};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der},
    hmac,
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hostler_base::Chance;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How far a client's clock may be off, in seconds.
const SKEW: i64 = 60;

/// The longest life of an assertion, in seconds.
const LONGEST_ASSERTION: i64 = 3600;

/// A refresh token lives so many times as long as an access token.
const REFRESH_FACTOR: u32 = 24;

/// Whom assertions are for.
const AUDIENCE: &str = "https://stackit-service-account-prod.apps.01.cf.eu01.stackit.cloud";

const ISSUER: &str = "stackit/serviceaccount";

pub(super) struct Keys {
    secret: hmac::Key,
    by_kid: BTreeMap<String, AccountKey>,
}

struct AccountKey {
    /// In either of the two usual encodings.
    public_key: Vec<u8>,
    mail: String,
    subject: String,
    /// If not empty, the account has rights in these projects only.
    projects: BTreeSet<String>,
    valid_until: Option<Timestamp>,
    revoked: bool,
}

/// What a new key is to be.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// The service account's mail address.
    pub mail: String,
    /// If not empty, the account has rights in these projects only.
    pub projects: BTreeSet<String>,
    pub valid_until: Option<Timestamp>,
    /// The public key in PEM, if the user has made the pair.
    pub public_key: Option<String>,
}

/// Why the token endpoint gives no token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoToken {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) description: String,
}

impl NoToken {
    fn new(status: StatusCode, error: &'static str, description: impl Into<String>) -> Self {
        Self { status, error, description: description.into() }
    }

    fn grant(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_grant", description)
    }
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

fn from_pem(text: &str) -> Option<Vec<u8>> {
    let inner: String = text.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(inner).ok().filter(|der| !der.is_empty())
}

/// A token's header, claims, signature, and the text that is signed.
struct Parts<'a> {
    header: Value,
    claims: Value,
    signature: Vec<u8>,
    signed: &'a str,
}

fn parts(token: &str) -> Option<Parts<'_>> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let json = |part: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    Some(Parts {
        header: json(header)?,
        claims: json(claims)?,
        signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        signed,
    })
}

impl Keys {
    pub(super) fn new(chance: &Chance) -> Self {
        let secret: Vec<u8> = (0..4).flat_map(|_| chance.u128().to_be_bytes()).collect();
        Self { secret: hmac::Key::new(hmac::HMAC_SHA512, &secret), by_kid: BTreeMap::new() }
    }

    /// A new key as the portal hands it out, ready for a Secret.
    pub(super) fn issue(&mut self, new: NewKey, chance: &Chance, now: Timestamp) -> Result<Value, String> {
        let (public_key, private_key) = match &new.public_key {
            Some(text) => (from_pem(text).ok_or("publicKey: it is not PEM")?, None),
            None => {
                let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|error| error.to_string())?;
                let private: Pkcs8V1Der<'_> = pair.as_der().map_err(|error| error.to_string())?;
                let public: PublicKeyX509Der<'_> =
                    pair.public_key().as_der().map_err(|error| error.to_string())?;
                (public.as_ref().to_vec(), Some(pem("PRIVATE KEY", private.as_ref())))
            }
        };
        let (kid, subject) = (uuid(chance), uuid(chance));
        let mut handed_out = json!({
            "id": kid, "publicKey": pem("PUBLIC KEY", &public_key), "createdAt": now.to_string(),
            "validUntil": new.valid_until.map(|until| until.to_string()), "keyType": "USER_MANAGED",
            "keyOrigin": if private_key.is_some() { "GENERATED" } else { "USER_PROVIDED" },
            "keyAlgorithm": "RSA_2048", "active": true,
            "credentials": {"kid": kid, "iss": new.mail, "sub": subject, "aud": AUDIENCE},
        });
        if let Some(private_key) = private_key {
            handed_out["credentials"]["privateKey"] = json!(private_key);
        }
        let key = AccountKey {
            public_key,
            mail: new.mail,
            subject,
            projects: new.projects,
            valid_until: new.valid_until,
            revoked: false,
        };
        self.by_kid.insert(kid, key);
        Ok(handed_out)
    }

    /// False if there is no such key.
    pub(super) fn revoke(&mut self, kid: &str) -> bool {
        self.by_kid.get_mut(kid).map(|key| key.revoked = true).is_some()
    }

    fn usable(&self, kid: &str, now: Timestamp) -> Option<&AccountKey> {
        let expired = |key: &&AccountKey| key.valid_until.is_some_and(|until| until <= now);
        self.by_kid.get(kid).filter(|key| !key.revoked && !expired(key))
    }

    /// What the token endpoint answers to a form.
    pub(super) fn grant(
        &self,
        form: &BTreeMap<String, String>,
        settings: &Settings,
        chance: &Chance,
        now: Timestamp,
    ) -> Result<Value, NoToken> {
        let field = |name: &str| {
            form.get(name).map(String::as_str).ok_or_else(|| {
                NoToken::new(StatusCode::BAD_REQUEST, "invalid_request", format!("{name} is missing"))
            })
        };
        let kid = match field("grant_type")? {
            "urn:ietf:params:oauth:grant-type:jwt-bearer" => self.assertion(field("assertion")?, now)?,
            "refresh_token" => self.refreshed(field("refresh_token")?, now)?,
            other => {
                let description = format!("the grant type {other:?} is not supported");
                return Err(NoToken::new(StatusCode::BAD_REQUEST, "unsupported_grant_type", description));
            }
        };
        let life = settings.token_life;
        Ok(json!({
            "access_token": self.token(&kid, "access", life, chance, now),
            "refresh_token": self.token(&kid, "refresh", life.saturating_mul(REFRESH_FACTOR), chance, now),
            "expires_in": life.as_secs(), "scope": "user.default", "token_type": "Bearer",
        }))
    }

    /// Checks an assertion; gives the id of the key that has signed it.
    fn assertion(&self, token: &str, now: Timestamp) -> Result<String, NoToken> {
        let parts = parts(token).ok_or_else(|| NoToken::grant("the assertion is no JWT"))?;
        if parts.header["alg"] != "RS512" || parts.header["typ"] != "JWT" {
            return Err(NoToken::grant("the assertion must be a JWT with the algorithm RS512"));
        }
        let kid = parts.header["kid"].as_str().unwrap_or_default();
        let key = self.usable(kid, now).ok_or_else(|| {
            NoToken::new(StatusCode::UNAUTHORIZED, "invalid_client", format!("kid {kid} not found"))
        })?;
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA512, &key.public_key)
            .verify(parts.signed.as_bytes(), &parts.signature)
            .map_err(|_| NoToken::grant("the assertion's signature is wrong"))?;
        let claim = |name: &str, wanted: &str| match parts.claims[name].as_str() {
            Some(value) if value == wanted => Ok(()),
            _ => Err(NoToken::grant(format!("the assertion's {name} is not {wanted:?}"))),
        };
        claim("iss", &key.mail)?;
        claim("sub", &key.subject)?;
        claim("aud", AUDIENCE)?;
        let time = |name: &str| {
            parts.claims[name].as_i64().ok_or_else(|| NoToken::grant(format!("the assertion has no {name}")))
        };
        let (issued, expires, second) = (time("iat")?, time("exp")?, now.as_second());
        if issued > second + SKEW || expires <= second - SKEW || expires - issued > LONGEST_ASSERTION + SKEW {
            return Err(NoToken::grant("the assertion is not valid at this time"));
        }
        if parts.claims["jti"].as_str().is_none_or(str::is_empty) {
            return Err(NoToken::grant("the assertion has no jti"));
        }
        Ok(kid.to_owned())
    }

    fn refreshed(&self, token: &str, now: Timestamp) -> Result<String, NoToken> {
        let claims = self.claims(token, "refresh", now);
        let claims = claims.ok_or_else(|| NoToken::grant("the refresh token is not valid"))?;
        let kid = claims["kid"].as_str().unwrap_or_default();
        self.usable(kid, now).ok_or_else(|| NoToken::grant("the key of the refresh token is revoked"))?;
        Ok(kid.to_owned())
    }

    fn token(&self, kid: &str, usage: &str, life: Duration, chance: &Chance, now: Timestamp) -> String {
        let key = self.by_kid.get(kid);
        let header = json!({"alg": "HS512", "typ": "JWT"});
        let claims = json!({
            "iss": ISSUER, "sub": key.map(|key| key.subject.as_str()), "email": key.map(|key| key.mail.as_str()),
            "kid": kid, "use": usage, "jti": uuid(chance),
            "iat": now.as_second(), "exp": after(now, life).as_second(),
        });
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = hmac::sign(&self.secret, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The claims of a token of ours that has not expired.
    fn claims(&self, token: &str, usage: &str, now: Timestamp) -> Option<Value> {
        let parts = parts(token)?;
        hmac::verify(&self.secret, parts.signed.as_bytes(), &parts.signature).ok()?;
        let lives = parts.claims["exp"].as_i64().is_some_and(|expires| expires > now.as_second());
        (parts.header["alg"] == "HS512" && parts.claims["use"] == usage && lives).then_some(parts.claims)
    }

    /// Whether a call may be carried out, by its bearer token and the project that it is about.
    pub(super) fn admit(
        &self,
        bearer: Option<&str>,
        project: &str,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let needed = settings.require_token || !settings.tokens.is_empty();
        if !needed || bearer.is_some_and(|token| settings.tokens.contains(token)) {
            return Ok(());
        }
        let refusal = || Refusal::new(StatusCode::UNAUTHORIZED, "the access token is missing or not valid");
        let claims = bearer.and_then(|token| self.claims(token, "access", now)).ok_or_else(refusal)?;
        let kid = claims["kid"].as_str().unwrap_or_default();
        let key = if settings.revoked_at_once { self.usable(kid, now) } else { self.by_kid.get(kid) };
        let key = key.ok_or_else(refusal)?;
        if project.is_empty() || key.projects.is_empty() || key.projects.contains(project) {
            return Ok(());
        }
        let message = format!("{} has no rights in the project {project}", key.mail);
        Err(Refusal::new(StatusCode::FORBIDDEN, message))
    }
}
