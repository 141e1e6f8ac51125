//! How stored objects look in an answer: their version and form.

use super::{Exchange, rules};
use crate::{negotiate::Form, object, registry::Resource, store::Stored, table};
use bytes::Bytes;
use futures::FutureExt;
use hostler_base::transport::{self, Body};
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// Whether the stored bytes are what a client of this version sees.
pub(super) fn as_stored(resource: &Resource, version: &str, stored: &Stored) -> bool {
    if resource.shelf != resource.id {
        return false;
    }
    let several = resource.custom.as_ref().is_some_and(|custom| custom.kind.versions().len() > 1);
    if several {
        // A state of the past may be in a version that was the storage version then.
        stored.bytes.starts_with(own_type(resource, version).as_bytes())
    } else {
        resource.storage_version == version
    }
}

/// How the bytes of an object of this version begin.
pub(super) fn own_type(resource: &Resource, version: &str) -> String {
    let api_version = crate::request::api_version(resource.group(), version);
    format!("{{\"kind\":{},\"apiVersion\":{},", json!(resource.kind), json!(api_version))
}

/// The object as a tree in the version that was asked for.
pub(super) fn tree(resource: &Resource, version: &str, stored: &Stored) -> Value {
    let mut object = stored.parse();
    if !as_stored(resource, version, stored) {
        rules::from_storage(resource, version, &mut object);
    }
    object
}

/// The bytes of one object in the version that was asked for.
pub(super) fn bytes(resource: &Resource, version: &str, stored: &Stored) -> Bytes {
    if as_stored(resource, version, stored) {
        stored.bytes.clone()
    } else {
        object::encode(&tree(resource, version, stored), None)
    }
}

/// The bytes of one object in the form that was asked for.
pub(super) fn one(exchange: &Exchange<'_>, stored: &Stored) -> Bytes {
    let (resource, version) = (exchange.resource, exchange.target.version.as_str());
    match exchange.form {
        Form::Partial => Bytes::from(table::partial(tree(resource, version, stored)).to_string()),
        Form::Table => {
            let object = tree(resource, version, stored);
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let now = exchange.core.clock.now();
            let table = table::table(resource, version, [object], exchange.include, metadata, true, now);
            Bytes::from(table.to_string())
        }
        Form::Object | Form::Discovery => bytes(resource, version, stored),
    }
}

/// The same answer in YAML.
pub(super) fn as_yaml(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    // Answers other than watches are there as a whole, so this does not wait.
    let Some(Ok(collected)) = body.collect().now_or_never() else {
        return Response::from_parts(parts, transport::empty());
    };
    let bytes = collected.to_bytes();
    let text =
        serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| serde_saphyr::to_string(&value).ok());
    match text {
        Some(text) => {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
            Response::from_parts(parts, transport::full(text))
        }
        None => Response::from_parts(parts, transport::full(bytes)),
    }
}
