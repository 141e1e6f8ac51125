use hostler_driver::{Code, Failure};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// For how long an assertion may be used.
const ASSERTION_SECONDS: i64 = 3600;

/// A service account's key, as STACKIT hands it out.
pub struct ServiceAccountKey {
    kid: String,
    iss: String,
    sub: String,
    aud: String,
    token_endpoint: Option<String>,
    signing: EncodingKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyFile {
    credentials: Option<Credentials>,
    /// Where some people put it.
    private_key: Option<SecretString>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Credentials {
    kid: String,
    iss: String,
    sub: String,
    aud: String,
    private_key: Option<SecretString>,
    token_endpoint: Option<String>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    jti: &'a str,
    iat: i64,
    exp: i64,
}

impl ServiceAccountKey {
    /// Reads a key file; `name` is the Secret's key it stands in, `mail` the account if the file does not
    /// say it. What is no key file at all is the Secret's fault, what cannot be used is told as a client
    /// that could not be made.
    pub fn parse(name: &str, text: &SecretString, mail: Option<&str>) -> Result<Self, Failure> {
        let problem = |code, what: &str| Failure::new(code, format!("the Secret's key {name:?} {what}"));
        let unusable = |what: &str| problem(Code::Internal, what);
        let content = text.expose_secret().trim();
        if content.starts_with("-----BEGIN") {
            return Err(problem(
                Code::InvalidArgument,
                "holds a private key where the JSON of a service account key belongs: give the whole file that STACKIT handed out",
            ));
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(content).is_err() {
            return Err(problem(Code::InvalidArgument, "is not JSON: give the whole service account key"));
        }
        // The parser's own words could show a part of the key.
        let file: KeyFile = serde_json::from_str(content).map_err(|_| {
            unusable("is not a service account key: give the whole file that STACKIT handed out")
        })?;
        let credentials = file.credentials.ok_or_else(|| unusable("has no \"credentials\""))?;
        let iss = if credentials.iss.is_empty() { mail.unwrap_or_default() } else { &credentials.iss };
        let parts =
            [("kid", &*credentials.kid), ("iss", iss), ("sub", &credentials.sub), ("aud", &credentials.aud)];
        let missing: Vec<&str> =
            parts.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            return Err(unusable(&format!("lacks {} in its \"credentials\"", missing.join(", "))));
        }
        let private = credentials.private_key.or(file.private_key).ok_or_else(|| {
            unusable("has no \"credentials.privateKey\": add the private key that belongs to it")
        })?;
        let signing = EncodingKey::from_rsa_pem(private.expose_secret().trim().as_bytes()).map_err(|_| {
            unusable("has a \"credentials.privateKey\" that is no RSA private key in PEM form")
        })?;
        Ok(Self {
            iss: iss.to_owned(),
            kid: credentials.kid,
            sub: credentials.sub,
            aud: credentials.aud,
            token_endpoint: credentials.token_endpoint.filter(|url| !url.is_empty()),
            signing,
        })
    }

    /// Where the key itself says that tokens are.
    pub fn token_endpoint(&self) -> Option<&str> {
        self.token_endpoint.as_deref()
    }

    /// The account's mail.
    pub fn account(&self) -> &str {
        &self.iss
    }

    /// What is shown to the token endpoint.
    pub(super) fn assertion(&self, now: Timestamp, jti: &str) -> Result<SecretString, Failure> {
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::RS512) };
        let iat = now.as_second();
        let Self { iss, sub, aud, .. } = self;
        let claims = Claims { iss, sub, aud, jti, iat, exp: iat + ASSERTION_SECONDS };
        jsonwebtoken::encode(&header, &claims, &self.signing).map(SecretString::from).map_err(|error| {
            let message =
                format!("the private key of {iss} cannot sign: {error}; make a new service account key");
            Failure::new(Code::Internal, message)
        })
    }
}
