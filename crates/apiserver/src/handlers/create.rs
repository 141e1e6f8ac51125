//! Create, and what create and update share: checks of the body, encoding, names.

use super::{Exchange, body};
use crate::{
    contract::{Kind, keep},
    error::{ApiError, Cause},
    field::FieldError,
    names, object,
    registry::Resource,
    store::{Clash, Key, Stored},
};
use bytes::Bytes;
use hostler_base::{Chance, transport::Body};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Letters and digits that spell no words.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED: usize = 5;
const LONGEST_BASE: usize = 63 - GENERATED;

struct Plain;
impl Kind for Plain {}

/// What is special about the kind of a resource.
pub(super) fn hooks(_resource: &Resource) -> &'static dyn Kind {
    &Plain
}

pub(super) fn selectable(resource: &Resource) -> &'static [&'static str] {
    match (resource.group(), resource.name()) {
        ("", "pods") => &["spec.nodeName", "status.phase", "spec.schedulerName", "spec.serviceAccountName"],
        ("", "events") => {
            &["involvedObject.name", "involvedObject.uid", "involvedObject.namespace", "reason"]
        }
        _ => &[],
    }
}

pub(super) fn is_selectable(resource: &Resource, field: &str) -> bool {
    match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced,
        _ => selectable(resource).contains(&field),
    }
}

fn field_text(object: &Value, path: &str) -> String {
    let value = path.split('.').try_fold(object, |value, part| value.get(part));
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Encodes an object as it is kept, with its revision; zero for a dry run's new object.
pub(super) fn encode(exchange: &Exchange<'_>, key: &Arc<Key>, revision: u64, object: &mut Value) -> Stored {
    if revision == 0 {
        object::set(object, "resourceVersion", Value::Null);
    } else {
        object::set(object, "resourceVersion", json!(revision.to_string()));
    }
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()));
    let mut labels: Vec<(Box<str>, Box<str>)> = labels.collect();
    labels.sort();
    let fields = selectable(exchange.resource).iter().filter_map(|path| {
        let text = field_text(object, path);
        (!text.is_empty()).then(|| (Arc::from(*path), text.into_boxed_str()))
    });
    let fields = fields.collect();
    let bytes = Bytes::from(serde_json::to_vec(object).unwrap_or_default());
    Stored::new(Arc::clone(key), revision, bytes, labels.into_boxed_slice(), fields)
}

/// Checks that the body is an object of the kind and version that the path names.
pub(super) fn check_type(exchange: &Exchange<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = exchange.resource;
    let expected = exchange.target.api_version();
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): it is no object",
            resource.kind
        )));
    };
    let given = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (given("apiVersion"), given("kind"));
    if !kind.is_empty() && kind != resource.kind {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: converting ({api_version}, Kind={kind}) is not possible",
            resource.kind
        )));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    fields.insert("apiVersion".to_owned(), json!(expected));
    fields.insert("kind".to_owned(), json!(resource.kind));
    if !fields.get("metadata").is_some_and(Value::is_object) {
        fields.insert("metadata".to_owned(), json!({}));
    }
    Ok(())
}

/// A random UUID in the form of version 4.
pub(super) fn uid(chance: &Chance) -> String {
    let bits = chance.u128();
    let hex = format!("{bits:032x}");
    let variant = match hex.as_bytes().get(16).map(|byte| byte % 4) {
        Some(0) => '8',
        Some(1) => '9',
        Some(2) => 'a',
        _ => 'b',
    };
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-4{}-{variant}{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

fn generated_name(chance: &Chance, base: &str) -> String {
    let mut end = base.len().min(LONGEST_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", base.get(..end).unwrap_or_default(), chance.text(NAME_ALPHABET, GENERATED))
}

/// Checks labels, annotations, finalizers and owners.
pub(super) fn check_metadata(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let entries = |field: &str| {
        let map = new["metadata"][field].as_object();
        map.into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
    };
    for (key, value) in entries("labels") {
        if let Some(why) = names::qualified_name(&key) {
            errors.push(FieldError::invalid("metadata.labels", key, why));
        }
        if let Some(why) = names::label_value(&value) {
            errors.push(FieldError::invalid("metadata.labels", value, why));
        }
    }
    for (key, _) in entries("annotations") {
        if let Some(why) = names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key, why));
        }
    }
    for finalizer in object::finalizers(new) {
        if let Some(why) = names::qualified_name(&finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, why));
        }
    }
    errors
}

/// The namespace must be there and not be going away.
fn check_namespace(exchange: &Exchange<'_>, name: &str) -> Result<(), ApiError> {
    let namespace = exchange.target.namespace.as_str();
    if namespace.is_empty() {
        return Ok(());
    }
    let shelf = crate::contract::GroupResource::new("", "namespaces");
    let Some(found) = exchange.core.store.get(&shelf, &Key::new("", namespace)) else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    if object::is_deleting(&found.parsed()) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = ApiError::forbidden(exchange.resource.group(), exchange.resource.name(), name, &why);
        error.details.get_or_insert_default().causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        return Err(error);
    }
    Ok(())
}

pub(super) fn create(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("CreateOptions")?;
    let object = body::decode(exchange.headers, bytes)?;
    let stored = create_object(exchange, object, dry_run)?;
    Ok(exchange.object(StatusCode::CREATED, &stored))
}

/// Creates an object, or finds out whether it could be.
pub(crate) fn create_object(
    exchange: &Exchange<'_>,
    mut object: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, ApiError> {
    let (resource, target) = (exchange.resource, exchange.target);
    check_type(exchange, &mut object)?;
    let namespace = object::namespace(&object);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !object::text(&object, "resourceVersion").is_empty() {
        return Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    check_namespace(exchange, object::name(&object))?;
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object::set(&mut object, field, Value::Null);
    }
    object::set(
        &mut object,
        "namespace",
        if resource.namespaced { json!(target.namespace) } else { Value::Null },
    );
    let kind = hooks(resource);
    kind.default(&mut object);
    kind.prepare_create(&mut object, &exchange.context())?;
    let generation = if kind.has_generation() { json!(1) } else { Value::Null };
    object::set(&mut object, "generation", generation);
    object::set(&mut object, "uid", json!(uid(&exchange.core.chance)));
    object::set(&mut object, "creationTimestamp", json!(object::seconds(exchange.core.clock.now())));
    let base = object::text(&object, "generateName").to_owned();
    let generate = object::name(&object).is_empty() && !base.is_empty();
    // A name that is taken is drawn again, as a real server does.
    for attempt in 0.. {
        if generate {
            object::set(&mut object, "name", json!(generated_name(&exchange.core.chance, &base)));
        }
        object::tidy(&mut object);
        match insert(exchange, kind, &mut object, dry_run) {
            Err(error) if generate && error.reason == "AlreadyExists" && attempt < 7 => {}
            result => return result,
        }
    }
    Err(ApiError::internal("no name could be generated"))
}

fn insert(
    exchange: &Exchange<'_>,
    kind: &dyn Kind,
    object: &mut Value,
    dry_run: bool,
) -> Result<Arc<Stored>, ApiError> {
    let resource = exchange.resource;
    let name = object::name(object).to_owned();
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) =
        names::dns_subdomain(&name).filter(|_| resource.group() != "rbac.authorization.k8s.io")
    {
        errors.push(FieldError::invalid("metadata.name", name.clone(), why));
    }
    errors.extend(check_metadata(object));
    errors.extend(kind.validate(object));
    if !errors.is_empty() {
        return Err(ApiError::invalid(resource.group(), &resource.kind, &name, &errors));
    }
    let key = Arc::new(Key::new(&exchange.target.namespace, &name));
    let exists = || ApiError::already_exists(resource.group(), resource.name(), &name);
    if dry_run {
        return if exchange.core.store.get(&resource.shelf, &key).is_some() {
            Err(exists())
        } else {
            Ok(Arc::new(encode(exchange, &key, 0, object)))
        };
    }
    let stored = exchange
        .core
        .store
        .insert(&resource.shelf, &key, |revision| encode(exchange, &key, revision, object));
    stored.map_err(|clash| match clash {
        Clash::Exists => exists(),
        Clash::Missing | Clash::Changed => ApiError::modified(resource.group(), resource.name(), &name),
    })
}

/// Puts back what an update can never change.
pub(super) fn keep_identity(new: &mut Value, old: &Value) {
    keep(new, old, "apiVersion");
    keep(new, old, "kind");
    for field in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "generateName"] {
        object::keep(new, old, field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_have_the_form_of_version_4() {
        let chance = Chance::from_seed(1);
        for _ in 0..100 {
            let uid = uid(&chance);
            let parts: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
            assert_eq!(uid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        }
    }

    #[test]
    fn generated_names_stay_short() {
        let chance = Chance::from_seed(1);
        assert_eq!(generated_name(&chance, "web-").len(), 9);
        assert_eq!(generated_name(&chance, &"a".repeat(100)).len(), 63);
    }
}
