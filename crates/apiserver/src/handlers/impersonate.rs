//! Acting as someone else: `kubectl --as`.

use super::permit;
use crate::{
    contract::{Attributes, User},
    error::ApiError,
    request::decoded_bytes,
    server::Core,
};
use http::HeaderMap;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

fn texts(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

/// The extra fields that are claimed, by their keys.
fn extras(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut extras: Vec<(String, String)> = headers
        .iter()
        .filter_map(|(name, value)| {
            let key = decoded_bytes(name.as_str().strip_prefix("impersonate-extra-")?);
            Some((String::from_utf8_lossy(&key).into_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    extras.sort();
    extras
}

/// Who the request is to be treated as coming from, if the user may do that.
pub(super) fn act_as(core: &Core, user: &User, headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let name = texts(headers, "impersonate-user").into_iter().next().unwrap_or_default();
    let mut groups = texts(headers, "impersonate-group");
    let uid = texts(headers, "impersonate-uid").into_iter().next().unwrap_or_default();
    let extras = extras(headers);
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extras.is_empty() {
            return Ok(None);
        }
        let why = "requested impersonation of groups, a uid or extra fields without impersonating a user";
        return Err(ApiError::internal(why));
    }
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        permit(core, user, &attributes)
    };
    let account = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, account)) => may("", "serviceaccounts", namespace, account)?,
        None => may("", "users", "", &name)?,
    }
    for group in &groups {
        may("", "groups", "", group)?;
    }
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", &uid)?;
    }
    // Nobody here looks at extra fields, but who may not claim them is told.
    for (key, value) in &extras {
        may("authentication.k8s.io", &format!("userextras/{key}"), "", value)?;
    }
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let everyone = if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !groups.iter().any(|group| group == everyone) {
        groups.push(everyone.to_owned());
    }
    Ok(Some(User { name, uid, groups }))
}
