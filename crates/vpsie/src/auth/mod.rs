//! Who we are to VPSie: a key that lasts, or an id and a secret that are exchanged for tokens that end.

mod exchange;
mod key;

use crate::{Grant, client::Line};
use exchange::Exchange;
use hostler_driver::{Code, Failure};
use http::{HeaderName, HeaderValue};
use key::Key;
use secrecy::{ExposeSecret, SecretString};

/// The header in which a key goes.
const OWN_HEADER: HeaderName = HeaderName::from_static("vpsie-auth");

/// How calls are authorised.
pub(crate) enum Authorisation {
    Key(Key),
    Exchange(Box<Exchange>),
}

/// What one call carries.
pub(crate) struct Pass {
    pub(crate) header: HeaderName,
    pub(crate) value: HeaderValue,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A key, in this form; whether another form is still to be tried.
    Key { form: key::Form, proven: bool },
    /// A token of this flight.
    Flight(u64),
}

impl Authorisation {
    pub(crate) fn new(grant: &Grant, line: &Line) -> Self {
        match grant {
            Grant::Token(token) => Self::Key(Key::new(token.clone())),
            Grant::Client { id, secret } => {
                Self::Exchange(Box::new(Exchange::new(line.clone(), id.clone(), secret.clone())))
            }
        }
    }

    pub(crate) async fn pass(&self) -> Result<Pass, Failure> {
        match self {
            Self::Key(key) => key.pass(),
            Self::Exchange(exchange) => exchange.pass().await,
        }
    }

    /// VPSie did not take this pass. Whether the next one is another one.
    pub(crate) async fn refused(&self, pass: &Pass) -> bool {
        match (self, pass.origin) {
            (Self::Key(key), Origin::Key { form, proven }) => key.refused(form, proven),
            (Self::Exchange(exchange), Origin::Flight(flight)) => {
                exchange.forget(flight).await;
                true
            }
            _ => false,
        }
    }

    /// VPSie took this pass.
    pub(crate) fn accepted(&self, pass: &Pass) {
        if let (Self::Key(key), Origin::Key { form, proven: false }) = (self, pass.origin) {
            key.accepted(form);
        }
    }
}

fn bearer(token: &SecretString, origin: Origin) -> Result<Pass, Failure> {
    let value = header_value(&format!("Bearer {}", token.expose_secret()))?;
    Ok(Pass { header: http::header::AUTHORIZATION, value, origin })
}

/// A header's value that nothing shows.
fn header_value(text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::try_from(text).map_err(|_| {
        let message = format!(
            "{}: the token holds characters that no token has",
            crate::failure::text::AUTHENTICATION_FAILED
        );
        Failure::new(Code::Unauthenticated, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
