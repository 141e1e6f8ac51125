//! Who we are to the cloud: a service account's key, a token that somebody else made, or nobody.

mod flow;
mod key;

pub use flow::KeyFlow;
pub use key::ServiceAccountKey;

use hostler_driver::Failure;
use secrecy::SecretString;
use std::sync::Arc;

/// How calls are authorised. Clones share their tokens.
#[derive(Clone)]
pub enum Authorisation {
    /// Calls carry no token.
    None,
    /// Calls carry this token for as long as it lasts.
    Token(SecretString),
    /// Calls carry tokens that a service account's key gets.
    Key(Arc<KeyFlow>),
}

/// A token for one call.
pub(crate) struct Pass {
    token: SecretString,
    /// Which flight brought it; nothing if it cannot be renewed.
    flight: Option<u64>,
}

impl Pass {
    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    pub(crate) fn can_be_renewed(&self) -> bool {
        self.flight.is_some()
    }
}

impl Authorisation {
    pub(crate) async fn pass(&self) -> Result<Option<Pass>, Failure> {
        match self {
            Self::None => Ok(None),
            Self::Token(token) => Ok(Some(Pass { token: token.clone(), flight: None })),
            Self::Key(flow) => flow.pass().await.map(Some),
        }
    }

    /// The cloud did not take this pass: the next one is a new one.
    pub(crate) async fn refused(&self, pass: &Pass) {
        if let (Self::Key(flow), Some(flight)) = (self, pass.flight) {
            flow.forget(flight).await;
        }
    }
}
