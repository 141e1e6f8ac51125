//! Get and list.

use super::{
    Exchange, json_answer, json_body,
    list_body::{Item, ListBody},
    rules, view,
};
use crate::{
    error::{ApiError, Cause},
    field::{Fault, FieldError},
    negotiate::Form,
    selector::{self, Selector},
    store::{Key, Listed, Stored},
    table,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hostler_base::transport::{self, Body};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn get(exchange: &Exchange<'_>) -> Result<Response<Body>, ApiError> {
    let wanted = exchange.query.text("resourceVersion");
    if !wanted.is_empty() {
        not_too_new(exchange, super::watch::revision(wanted)?)?;
    }
    Ok(exchange.object(StatusCode::OK, &*find(exchange)?))
}

/// The object a request names.
pub(super) fn find(exchange: &Exchange<'_>) -> Result<Arc<Stored>, ApiError> {
    let target = exchange.target;
    let key = Key::new(&target.namespace, &target.name);
    exchange.core.store.get(&exchange.resource.shelf, &key).ok_or_else(|| exchange.not_found(&target.name))
}

/// Reads a resource version parameter.
pub(super) fn revision(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// A version this server has not reached yet cannot be waited for.
pub(super) fn not_too_new(exchange: &Exchange<'_>, wanted: u64) -> Result<(), ApiError> {
    let current = exchange.core.store.revision();
    if wanted <= current {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let mut error = ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
    let details = error.details.get_or_insert_default();
    details.retry_after_seconds = Some(1);
    details.causes.push(Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    });
    Err(error)
}

/// The selectors of a request.
pub(super) fn selector(exchange: &Exchange<'_>) -> Result<Selector, ApiError> {
    let labels =
        selector::parse_labels(exchange.query.text("labelSelector")).map_err(ApiError::bad_request)?;
    let fields =
        selector::parse_fields(exchange.query.text("fieldSelector")).map_err(ApiError::bad_request)?;
    for term in &fields {
        rules::check_selectable(exchange.resource, &exchange.target.version, &term.field)?;
    }
    Ok(Selector { labels, fields })
}

/// Which part of a list is wanted.
struct Paging {
    at: Option<u64>,
    start: Option<Key>,
    limit: usize,
    inconsistent: bool,
}

fn check_options(exchange: &Exchange<'_>) -> Result<(), ApiError> {
    let query = exchange.query;
    let matching = query.text("resourceVersionMatch");
    let mut errors = Vec::new();
    if !matching.is_empty() {
        let field = "resourceVersionMatch";
        if query.text("resourceVersion").is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !query.text("continue").is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let supported = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
            errors.push(FieldError::new(Fault::NotSupported, field, json!(matching), supported));
        }
        if matching == "Exact" && query.text("resourceVersion") == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if query.flag("sendInitialEvents").is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

fn paging(exchange: &Exchange<'_>) -> Result<Paging, ApiError> {
    check_options(exchange)?;
    let query = exchange.query;
    let limit = usize::try_from(query.number("limit")?.unwrap_or_default()).unwrap_or(0);
    let version = query.text("resourceVersion");
    let token = query.text("continue");
    if !token.is_empty() {
        if !version.is_empty() && version != "0" {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(why));
        }
        let (at, start) = decode_token(token, &exchange.target.namespace, exchange.resource.namespaced)?;
        return Ok(Paging { at, start: Some(start), limit, inconsistent: at.is_none() });
    }
    if version.is_empty() {
        return Ok(Paging { at: None, start: None, limit, inconsistent: false });
    }
    let wanted = revision(version)?;
    if wanted == 0 {
        // A real server answers this from its cache, which knows no pages.
        return Ok(Paging { at: None, start: None, limit: 0, inconsistent: false });
    }
    not_too_new(exchange, wanted)?;
    let exact = match query.text("resourceVersionMatch") {
        "Exact" => true,
        "NotOlderThan" => false,
        _ => limit > 0,
    };
    Ok(Paging { at: exact.then_some(wanted), start: None, limit, inconsistent: false })
}

/// `start` is relative to the namespace, as a real server has it.
fn encode_token(revision: i64, key: &Key, namespace: &str) -> String {
    let start = if namespace.is_empty() && !key.namespace.is_empty() {
        format!("{}/{}\0", key.namespace, key.name)
    } else {
        format!("{}\0", key.name)
    };
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
}

fn decode_token(token: &str, namespace: &str, namespaced: bool) -> Result<(Option<u64>, Key), ApiError> {
    let broken =
        |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"));
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| broken(&format!(": {error}")))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| broken(&format!(": {error}")))?;
    if value["v"] != "meta.k8s.io/v1" {
        let version = value["v"].as_str().unwrap_or_default();
        return Err(broken(&format!(": server does not recognize this encoded version {version}")));
    }
    let revision = match value["rv"].as_i64() {
        None | Some(0) => {
            return Err(broken(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        Some(revision) => u64::try_from(revision).ok(),
    };
    let start = value["start"].as_str().unwrap_or_default();
    if start.is_empty() {
        return Err(broken(": encoded start key empty (version meta.k8s.io/v1)"));
    }
    let key = match start.split_once('/') {
        Some((space, name)) if namespaced && namespace.is_empty() => Key::new(space, name),
        None if !(namespaced && namespace.is_empty()) => Key::new(namespace, start),
        _ => return Err(broken(&format!(": {start}"))),
    };
    Ok((revision, key))
}

pub(super) fn list(exchange: &Exchange<'_>) -> Result<Response<Body>, ApiError> {
    let selector = selector(exchange)?;
    let paging = paging(exchange)?;
    let namespace = exchange.target.namespace.as_str();
    let listed = exchange.core.store.list(&exchange.resource.shelf, namespace, paging.at);
    let Listed { items, revision } = listed.map_err(|_| too_old(exchange, &paging))?;
    let remaining = match &paging.start {
        Some(start) => items.get(items.partition_point(|item| *item.key < *start)..).unwrap_or_default(),
        None => &items[..],
    };
    let mut chosen: Vec<&Arc<Stored>> = Vec::new();
    let mut next = None;
    for item in remaining {
        if !selector.matches(item) {
            continue;
        }
        if paging.limit > 0 && chosen.len() == paging.limit {
            next = chosen.last().map(|last| Arc::clone(&last.key));
            break;
        }
        chosen.push(item);
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(last) = next {
        let shown = if paging.inconsistent { -1 } else { i64::try_from(revision).unwrap_or(i64::MAX) };
        metadata["continue"] = json!(encode_token(shown, &last, namespace));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(remaining.len() - chosen.len());
        }
    }
    Ok(render(exchange, &chosen, metadata))
}

fn too_old(exchange: &Exchange<'_>, paging: &Paging) -> ApiError {
    let Some(start) = &paging.start else {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    };
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of \
         the results. Continuing with the provided token results in an inconsistent list - objects that were \
         created, modified, or deleted between the time the first chunk was returned and now may show up in the \
         list.",
    );
    let key = Key::new(&start.namespace, start.name.trim_end_matches('\0'));
    error.next_page = Some(encode_token(-1, &key, &exchange.target.namespace));
    error
}

/// Writes a list by joining the stored bytes; only other forms than the object itself are parsed.
pub(super) fn render(exchange: &Exchange<'_>, items: &[&Arc<Stored>], metadata: Value) -> Response<Body> {
    let (resource, version) = (exchange.resource, exchange.target.version.as_str());
    let trees = || items.iter().map(|item| view::tree(resource, version, item));
    match exchange.form {
        Form::Table => {
            let now = exchange.core.clock.now();
            let table = table::table(resource, version, trees(), exchange.include, metadata, true, now);
            json_answer(StatusCode::OK, &table)
        }
        Form::Partial => {
            let items: Vec<Value> = trees().map(table::partial).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": items,
            });
            json_answer(StatusCode::OK, &list)
        }
        Form::Object | Form::Discovery => {
            json_body(StatusCode::OK, transport::boxed(join(exchange, items, &metadata)))
        }
    }
}

fn join(exchange: &Exchange<'_>, items: &[&Arc<Stored>], metadata: &Value) -> ListBody {
    let (resource, version) = (exchange.resource, exchange.target.version.as_str());
    let (kind, api_version) = (json!(resource.list_kind), json!(exchange.target.api_version()));
    let head = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":");
    // Items of built-in lists do not repeat what the list says of all of them.
    let own_type = view::own_type(resource, version);
    let own_type = resource.custom.is_none().then_some(own_type.as_bytes());
    let items = items.iter().map(|item| Item::new(&view::bytes(resource, version, item), own_type)).collect();
    ListBody::new(head.into(), items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_survive_the_way_out_and_in() {
        for (namespace, key) in [("", Key::new("a", "b")), ("a", Key::new("a", "b"))] {
            let (revision, start) = decode_token(&encode_token(7, &key, namespace), namespace, true).unwrap();
            assert_eq!(revision, Some(7));
            assert!(start > key && start < Key::new("a", "b0"));
        }
        let (revision, _) = decode_token(&encode_token(-1, &Key::new("", "n"), ""), "", false).unwrap();
        assert_eq!(revision, None);
        for token in ["x", "e30", "!"] {
            assert!(decode_token(token, "", true).is_err());
        }
    }
}
