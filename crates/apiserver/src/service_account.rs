//! Tokens of service accounts: signed by this server's own key, so that none has to be remembered.

use crate::{
    contract::{GroupResource, Lookup, User},
    error::ApiError,
    field::FieldError,
    object,
    server::Core,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// HMAC with SHA-256.
fn sign(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| -> Vec<u8> {
        let mut block = vec![byte; 64];
        block.iter_mut().zip(key).for_each(|(slot, part)| *slot ^= part);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

/// Fills in the status of a `TokenRequest` for this account.
pub(crate) fn issue(core: &Core, account: &Value, request: &mut Value) -> Result<(), ApiError> {
    let spec = &request["spec"];
    if !request.is_object() || !(spec.is_object() || spec.is_null()) {
        return Err(ApiError::bad_request("a TokenRequest is an object, and so is its spec"));
    }
    let seconds = match &request["spec"]["expirationSeconds"] {
        Value::Null => 3600,
        wish => wish.as_i64().unwrap_or_default(),
    };
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        let why = if seconds < SHORTEST {
            "may not specify a duration less than 10 minutes"
        } else {
            "may not specify a duration larger than 2^32 seconds"
        };
        let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
    }
    let now = core.clock.now();
    let end = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let (namespace, name) = (object::namespace(account), object::name(account));
    let claims = json!({
        "iss": "https://kubernetes.default.svc.cluster.local", "aud": ["https://kubernetes.default.svc.cluster.local"],
        "iat": now.as_second(), "nbf": now.as_second(), "exp": end.as_second(),
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "kubernetes.io": {
            "namespace": namespace, "serviceaccount": {"name": name, "uid": object::text(account, "uid")},
        },
    });
    let message =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = URL_SAFE_NO_PAD.encode(sign(&core.token_key, message.as_bytes()));
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["kind"] = json!("TokenRequest");
    object::set(request, "name", json!(name));
    object::set(request, "namespace", json!(namespace));
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] =
        json!({"token": format!("{message}.{signature}"), "expirationTimestamp": object::seconds(end)});
    Ok(())
}

/// Who a token stands for, if it is one of ours, has not run out, and its account is still there.
pub(crate) fn user(core: &Core, token: &str) -> Option<User> {
    let (message, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    // Digests of both are compared, so that the time taken says nothing about the right signature.
    if Sha256::digest(&signature) != Sha256::digest(sign(&core.token_key, message.as_bytes())) {
        return None;
    }
    let (_, claims) = message.split_once('.')?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let end = Timestamp::from_second(claims["exp"].as_i64()?).ok()?;
    if core.clock.now() >= end {
        return None;
    }
    let own = &claims["kubernetes.io"];
    let namespace = own["namespace"].as_str()?;
    let (name, uid) = (own["serviceaccount"]["name"].as_str()?, own["serviceaccount"]["uid"].as_str()?);
    let account = core.get(&GroupResource::new("", "serviceaccounts"), namespace, name)?;
    if object::text(&account, "uid") != uid {
        return None;
    }
    Some(User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_hmac_sha256() {
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let hex = object::hex(&sign(&key, b"Hi There"));
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }
}
