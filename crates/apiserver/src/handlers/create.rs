//! Create, and what create and update share: checks of the body, encoding, names.

use super::{
    Exchange, body,
    rules::{self, FieldValidation, Rules},
};
use crate::{
    access,
    admission::{self, Operation},
    error::ApiError,
    field::FieldError,
    json_text,
    kinds::metadata,
    object,
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
/// How often a generated name that is taken is drawn again.
const DRAWS: usize = 8;

/// Encodes an object as it is kept, with its revision; zero for a dry run's new object.
pub(super) fn encode(exchange: &Exchange<'_>, key: &Arc<Key>, revision: u64, object: &mut Value) -> Stored {
    encode_managed(exchange, key, revision, object, None)
}

/// The same for an object whose `managedFields` are text already.
fn encode_managed(
    exchange: &Exchange<'_>,
    key: &Arc<Key>,
    revision: u64,
    object: &mut Value,
    managers: Option<&[u8]>,
) -> Stored {
    let resource = exchange.resource;
    let version = if revision == 0 { Value::Null } else { json!(revision.to_string()) };
    object::set(object, "resourceVersion", version);
    rules::to_storage(resource, object);
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let mut labels: Vec<(Box<str>, Box<str>)> =
        labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into())).collect();
    labels.sort();
    let fields = rules::boxed(rules::field_values(resource, object));
    let bytes = object::encode(object, managers);
    Stored::new(Arc::clone(key), revision, bytes, labels.into_boxed_slice(), fields)
}

/// Checks that the body is an object of the kind and version that the path names.
pub(super) fn check_type(exchange: &Exchange<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = exchange.resource;
    let expected = exchange.target.api_version();
    if resource.custom.is_some() {
        let given = |name: &str| object[name].as_str().unwrap_or_default();
        let (api_version, kind) = (given("apiVersion"), given("kind"));
        let missing = [(kind, "Kind"), (api_version, "apiVersion")];
        if let Some((_, missing)) = missing.into_iter().find(|(given, _)| given.is_empty()) {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object '{missing}' is missing in \
                 '{object}' ({object})",
                resource.kind
            )));
        }
        if api_version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != resource.kind {
            let error = FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
            return Err(ApiError::invalid(resource.group(), kind, object::name(object), &[error]));
        }
    } else {
        check_built_in_type(object, &expected, &resource.kind)?;
    }
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    Ok(())
}

/// Checks that an object, which may leave out its type, is of the built-in kind that is expected.
pub(super) fn check_built_in_type(
    object: &mut Value,
    expected_version: &str,
    expected_kind: &str,
) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {expected_kind}): couldn't get version/kind; json \
             parse error: it is no object"
        )));
    }
    let given = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let api_version = given("apiVersion").unwrap_or(expected_version);
    let kind = given("kind").unwrap_or(expected_kind);
    if api_version != expected_version || kind != expected_kind {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let why = if crate::types::kind(api_version, kind).is_some() {
            let group = expected_version.rsplit_once('/').map_or("core", |(group, _)| group);
            let package = group.split('.').next().unwrap_or_default();
            format!("converting ({version}.{kind}) to ({package}.{expected_kind}): unknown conversion")
        } else {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )
        };
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {expected_kind}: {why}"
        )));
    }
    for (name, value) in [("apiVersion", expected_version), ("kind", expected_kind)] {
        if object.get(name).and_then(Value::as_str) != Some(value) {
            object[name] = json!(value);
        }
    }
    Ok(())
}

/// A random UUID in the form of version 4.
pub(super) fn uid(chance: &Chance) -> String {
    let hex = object::hex(&chance.u128().to_be_bytes());
    let variant = match hex.as_bytes().get(16).map(|byte| byte % 4) {
        Some(0) => "-8",
        Some(1) => "-9",
        Some(2) => "-a",
        _ => "-b",
    };
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), "-", part(8..12), "-4", part(13..16), variant, part(17..20), "-", part(20..32)].concat()
}

fn generated_name(chance: &Chance, base: &str) -> String {
    let mut end = base.len().min(LONGEST_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", base.get(..end).unwrap_or_default(), chance.text(NAME_ALPHABET, GENERATED))
}

pub(super) fn create(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("CreateOptions")?;
    let validation = FieldValidation::read(exchange, "CreateOptions")?;
    let (mut object, source) = body::decode_strictly(exchange.headers, &exchange.resource.kind, bytes)?;
    check_type(exchange, &mut object)?;
    let object = rules::decode(exchange, object, &source, validation)?;
    if exchange.resource.create_only {
        return super::subresource::answer_only(exchange, object, dry_run);
    }
    let stored = create_object(exchange, object, dry_run)?;
    Ok(exchange.object(StatusCode::CREATED, &stored))
}

/// Creates a decoded object, or finds out whether it could be.
pub(crate) fn create_object(
    exchange: &Exchange<'_>,
    mut object: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, ApiError> {
    let (resource, target) = (exchange.resource, exchange.target);
    same_namespace(exchange, &object)?;
    if resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        return Err(ApiError::method_not_allowed(
            "create not allowed while custom resource definition is terminating",
        ));
    }
    if !object::text(&object, "resourceVersion").is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
    }
    let metadata = object::metadata_mut(&mut object);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    if !resource.namespaced {
        metadata.remove("namespace");
    } else if metadata.get("namespace").and_then(Value::as_str) != Some(&target.namespace) {
        metadata.insert("namespace".to_owned(), json!(target.namespace));
    }
    let rules = Rules::of(resource, &target.version);
    rules::in_core_form(resource, &mut object, |object| rules.kind().default(object));
    // Nobody owns what the server adds from here on.
    rules::complete(resource, &mut object);
    json_text::with_room(|room| {
        let is_managed = rules::first_manager(exchange, &object, room);
        insert_named(exchange, object, is_managed.then_some(&room[..]), dry_run)
    })
}

/// Puts an object into the store under its name, or under one that is made for it.
fn insert_named(
    exchange: &Exchange<'_>,
    mut object: Value,
    managers: Option<&[u8]>,
    dry_run: bool,
) -> Result<Arc<Stored>, ApiError> {
    object::set(&mut object, "creationTimestamp", json!(object::seconds(exchange.core.clock.now())));
    let base = object::text(&object, "generateName").to_owned();
    if !object::name(&object).is_empty() || base.is_empty() {
        return insert(exchange, object, managers, dry_run);
    }
    for _ in 1..DRAWS {
        let mut candidate = object.clone();
        object::set(&mut candidate, "name", json!(generated_name(&exchange.core.chance, &base)));
        match insert(exchange, candidate, managers, dry_run) {
            Err(error) if error.reason == "AlreadyExists" => {}
            result => return result,
        }
    }
    object::set(&mut object, "name", json!(generated_name(&exchange.core.chance, &base)));
    insert(exchange, object, managers, dry_run)
}

/// The namespace in the body, if there is one, has to be the one in the path.
pub(super) fn same_namespace(exchange: &Exchange<'_>, object: &Value) -> Result<(), ApiError> {
    let namespace = object::namespace(object);
    if namespace.is_empty() || namespace == exchange.target.namespace || !exchange.resource.namespaced {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Puts an object that has its name into the store, if its kind agrees.
fn insert(
    exchange: &Exchange<'_>,
    mut object: Value,
    managers: Option<&[u8]>,
    dry_run: bool,
) -> Result<Arc<Stored>, ApiError> {
    let (resource, target) = (exchange.resource, exchange.target);
    let rules = Rules::of(resource, &target.version);
    let kind = rules.kind();
    object::set(&mut object, "uid", json!(uid(&exchange.core.chance)));
    let attributes = exchange.attributes("create", object::name(&object));
    admission::admit(&attributes, Operation::Create, Some(&mut object), None, &exchange.context())?;
    rules::in_core_form(resource, &mut object, |object| kind.prepare_create(object, &exchange.context()))?;
    let generation = if kind.has_generation() { json!(1) } else { Value::Null };
    object::set(&mut object, "generation", generation);
    object::tidy(&mut object);
    rules::complete(resource, &mut object);
    let object = &mut object;
    let name = object::name(object).to_owned();
    let rule = metadata::name_rule(resource.group(), resource.name());
    let mut errors = metadata::validate_create(object, resource.namespaced, rule);
    errors.extend(rules::in_core_form(resource, object, |object| kind.validate(object)));
    if !errors.is_empty() {
        return Err(ApiError::invalid(resource.group(), &resource.kind, &name, &errors));
    }
    admission::validate(&attributes, Operation::Create, object, None, &exchange.context())?;
    if resource.group() == "rbac.authorization.k8s.io" {
        access::check_grant(exchange.user, resource.name(), object, None, &**exchange.core)?;
    }
    let key = Arc::new(Key::new(&exchange.target.namespace, &name));
    let exists = || {
        let mut error = ApiError::already_exists(resource.group(), resource.name(), &name);
        let present = exchange.core.store.get(&resource.shelf, &key);
        if present.is_some_and(|present| object::is_deleting(&present.parse())) {
            error.message = format!("object is being deleted: {}", error.message);
        }
        error
    };
    if dry_run {
        return if exchange.core.store.get(&resource.shelf, &key).is_some() {
            Err(exists())
        } else {
            Ok(Arc::new(encode_managed(exchange, &key, 0, object, managers)))
        };
    }
    let stored = exchange
        .core
        .store
        .insert(&resource.shelf, &key, |revision| encode_managed(exchange, &key, revision, object, managers))
        .map_err(|clash| match clash {
            Clash::Exists => exists(),
            Clash::TooLarge => ApiError::does_not_fit(),
            Clash::Missing | Clash::Changed => ApiError::modified(resource.group(), resource.name(), &name),
        })?;
    exchange.wrote();
    Ok(stored)
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
