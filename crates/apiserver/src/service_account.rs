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
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// Who signs, and whom a token is for that names nobody else.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
pub(crate) const INVALID: &str = "invalid bearer token";
/// What a token can be bound to: the claim and the resource.
const BOUND: [(&str, &str); 3] = [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")];

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

/// Fills in the status of a `TokenRequest`, which is decoded, for this account.
pub(crate) fn issue(core: &Core, account: &Value, request: &mut Value) -> Result<(), ApiError> {
    let (namespace, name) = (object::namespace(account), object::name(account));
    let given = object::name(request);
    if !given.is_empty() && given != name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", given, why);
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", name, &[error]));
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        let why = if seconds < SHORTEST {
            "may not specify a duration less than 10 minutes"
        } else {
            "may not specify a duration larger than 2^32 seconds"
        };
        let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
    }
    let key = core.token_key.as_ref().map_err(|none| ApiError::internal(none.to_string()))?;
    let now = core.clock.now();
    let end = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let mut own = json!({
        "namespace": namespace, "serviceaccount": {"name": name, "uid": object::text(account, "uid")},
    });
    if let Some(bound) = request["spec"]["boundObjectRef"].as_object() {
        let (kind, claim) = bound_to(core, account, bound)?;
        own[kind] = claim;
    }
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
    }
    let claims = json!({
        "iss": ISSUER, "aud": spec["audiences"],
        "iat": now.as_second(), "nbf": now.as_second(), "exp": end.as_second(),
        "sub": format!("system:serviceaccount:{namespace}:{name}"), "kubernetes.io": own,
    });
    let message =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = URL_SAFE_NO_PAD.encode(sign(key, message.as_bytes()));
    object::set(request, "name", json!(name));
    object::set(request, "namespace", json!(namespace));
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] =
        json!({"token": format!("{message}.{signature}"), "expirationTimestamp": object::seconds(end)});
    Ok(())
}

/// The object that a token lives with, as the claim that names it.
fn bound_to(
    core: &Core,
    account: &Value,
    bound: &Map<String, Value>,
) -> Result<(&'static str, Value), ApiError> {
    let text = |field: &str| bound.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let Some((claim, resource)) = BOUND.iter().find(|(claim, _)| kind.to_lowercase() == *claim) else {
        let version = text("apiVersion");
        let group_version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        let why = format!("cannot bind token to object of type {group_version}, Kind={kind}");
        return Err(ApiError::bad_request(why));
    };
    let namespace = if *claim == "node" { "" } else { object::namespace(account) };
    let found = core
        .get(&GroupResource::new("", resource), namespace, name)
        .ok_or_else(|| ApiError::not_found("", resource, name))?;
    if *claim == "pod" && found["spec"]["serviceAccountName"] != account["metadata"]["name"] {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            object::name(account)
        )));
    }
    let found_uid = object::text(&found, "uid");
    if !uid.is_empty() && uid != found_uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", kind, name, &why));
    }
    Ok((claim, json!({"name": name, "uid": found_uid})))
}

/// Who a token stands for, and for which of the audiences, if it is one of ours, has not run out, and its account
/// and what it is bound to are still there; or why not.
pub(crate) fn user(core: &Core, token: &str, audiences: &[&str]) -> Result<(User, Vec<String>), String> {
    let claims = claims(core, token).ok_or(INVALID)?;
    let of_token: Vec<&str> =
        claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let common: Vec<String> =
        audiences.iter().filter(|wanted| of_token.contains(wanted)).map(|name| (*name).to_owned()).collect();
    if common.is_empty() {
        let list =
            |names: &[&str]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "[{INVALID}, token audiences [{}] is invalid for the target audiences [{}]]",
            list(&of_token),
            list(audiences)
        ));
    }
    let own = &claims["kubernetes.io"];
    let namespace = own["namespace"].as_str().ok_or(INVALID)?;
    let is_there = |claim: &str, resource: &str| {
        let (name, uid) = (own[claim]["name"].as_str()?, own[claim]["uid"].as_str()?);
        let namespace = if claim == "node" { "" } else { namespace };
        let found = core.get(&GroupResource::new("", resource), namespace, name)?;
        (object::text(&found, "uid") == uid).then(|| (name.to_owned(), uid.to_owned()))
    };
    let (name, uid) = is_there("serviceaccount", "serviceaccounts").ok_or(INVALID)?;
    if BOUND.iter().any(|(claim, resource)| !own[*claim].is_null() && is_there(claim, resource).is_none()) {
        return Err(INVALID.to_owned());
    }
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid,
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    };
    Ok((user, common))
}

/// What a token of ours says, as long as it has not run out.
fn claims(core: &Core, token: &str) -> Option<Value> {
    let (message, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let key = core.token_key.as_ref().ok()?;
    // Digests of both are compared, so that the time taken says nothing about the right signature.
    if Sha256::digest(&signature) != Sha256::digest(sign(key, message.as_bytes())) {
        return None;
    }
    let (_, claims) = message.split_once('.')?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let end = Timestamp::from_second(claims["exp"].as_i64()?).ok()?;
    (core.clock.now() < end).then_some(claims)
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
