//! Update of an object or its status: read, change, check, write if nobody else did meanwhile.

use super::{
    Exchange, body,
    create::{check_metadata, check_type, create_object, encode, hooks, keep_identity},
    patch, read,
};
use crate::{
    contract::Kind,
    error::ApiError,
    field::FieldError,
    object,
    store::{Clash, Key, Stored},
};
use bytes::Bytes;
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Which part of the object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

/// How often a write that names no version is tried again when others write at the same time.
const ATTEMPTS: usize = 5;

pub(super) fn update(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("UpdateOptions")?;
    let new = decode_update(exchange, bytes)?;
    let key = Key::new(&exchange.target.namespace, &exchange.target.name);
    let missing = exchange.core.store.get(&exchange.resource.shelf, &key).is_none();
    if missing && exchange.resource.create_on_update {
        let stored = create_object(exchange, new, dry_run)?;
        return Ok(exchange.object(StatusCode::CREATED, &stored));
    }
    let stored = change(exchange, Part::Main, dry_run, true, |_| Ok(new.clone()))?;
    Ok(exchange.object(StatusCode::OK, &stored))
}

fn decode_update(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Value, ApiError> {
    let mut new = body::decode(exchange.headers, bytes)?;
    check_type(exchange, &mut new)?;
    let target = exchange.target;
    let name = object::name(&new);
    if name != target.name {
        return Err(ApiError::bad_request(if name.is_empty() {
            "name must be provided".to_owned()
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({})", target.name)
        }));
    }
    let namespace = object::namespace(&new);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            target.namespace
        )));
    }
    Ok(new)
}

/// Subresources.
pub(super) fn subresource(
    exchange: &Exchange<'_>,
    verb: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let name = exchange.target.subresource.as_str();
    let known = exchange.resource.subresource(name).ok_or_else(ApiError::no_such_path)?;
    if !known.verbs.contains(&verb) {
        return Err(super::not_allowed());
    }
    match (name, verb) {
        (_, "get") => read::get(exchange),
        ("status", "update") => {
            let dry_run = exchange.query.dry_run("UpdateOptions")?;
            let new = decode_update(exchange, bytes)?;
            let stored = change(exchange, Part::Status, dry_run, true, |_| Ok(new.clone()))?;
            Ok(exchange.object(StatusCode::OK, &stored))
        }
        ("status", "patch") => patch::patch_part(exchange, Part::Status, bytes),
        _ => Err(super::not_allowed()),
    }
}

/// Changes the object the request names. `make` gets the current object and gives the wanted one. With
/// `strict` the wanted object's resource version has to be the current one where it is given.
pub(super) fn change(
    exchange: &Exchange<'_>,
    part: Part,
    dry_run: bool,
    strict: bool,
    make: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    let resource = exchange.resource;
    for _ in 0..ATTEMPTS {
        let current = read::find(exchange)?;
        let old = current.parse();
        let mut new = make(&old)?;
        let version = object::text(&new, "resourceVersion").to_owned();
        if version.is_empty() && strict && !resource.unconditional_update {
            let why = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", json!(0), why);
            return Err(ApiError::invalid(resource.group(), &resource.kind, &exchange.target.name, &[error]));
        }
        if !version.is_empty() && version != current.revision.to_string() {
            return Err(ApiError::modified(resource.group(), resource.name(), &exchange.target.name));
        }
        prepare(exchange, part, &mut new, &old)?;
        match write(exchange, &current, &old, new, dry_run) {
            Err(Clash::Changed) if version.is_empty() => {}
            Err(Clash::Missing) => return Err(exchange.not_found(&exchange.target.name)),
            Err(_) => break,
            Ok(stored) => return Ok(stored),
        }
    }
    Err(ApiError::modified(resource.group(), resource.name(), &exchange.target.name))
}

/// Makes the wanted object one that may be written, or says why it may not.
fn prepare(exchange: &Exchange<'_>, part: Part, new: &mut Value, old: &Value) -> Result<(), ApiError> {
    let resource = exchange.resource;
    let name = exchange.target.name.as_str();
    let uid = object::text(new, "uid");
    if !uid.is_empty() && uid != object::text(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::text(old, "uid")
        );
        return Err(ApiError::conflict(resource.group(), resource.name(), name, &why));
    }
    let kind = hooks(resource);
    keep_identity(new, old);
    object::keep(new, old, "namespace");
    if object::metadata(new).is_some_and(|metadata| !metadata.contains_key("deletionGracePeriodSeconds")) {
        object::keep(new, old, "deletionGracePeriodSeconds");
    }
    kind.default(new);
    let errors = match part {
        Part::Main => {
            kind.prepare_update(new, old, &exchange.context());
            let mut errors = check_metadata(new);
            errors.extend(kind.validate(new));
            errors.extend(kind.validate_update(new, old));
            errors
        }
        Part::Status => {
            kind.prepare_status_update(new, old, &exchange.context());
            kind.validate_status_update(new, old)
        }
    };
    if !errors.is_empty() {
        return Err(ApiError::invalid(resource.group(), &resource.kind, name, &errors));
    }
    object::tidy(new);
    if part == Part::Main && kind.has_generation() && differs_beyond_metadata(kind, new, old) {
        object::set(new, "generation", json!(object::generation(old) + 1));
    }
    Ok(())
}

fn differs_beyond_metadata(kind: &dyn Kind, new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return true };
    let counted = |field: &str| field != "metadata" && !(field == "status" && kind.has_status());
    new.iter().any(|(field, value)| counted(field) && old.get(field) != Some(value))
        || old.keys().any(|field| counted(field) && !new.contains_key(field))
}

/// Writes the new state; what changes nothing is not written, and an object that waited for its last
/// finalizer goes away.
fn write(
    exchange: &Exchange<'_>,
    current: &Arc<Stored>,
    old: &Value,
    mut new: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, Clash> {
    object::keep(&mut new, old, "resourceVersion");
    if new == *old {
        return Ok(Arc::clone(current));
    }
    let gone = object::is_deleting(&new)
        && object::finalizers(&new).is_empty()
        && object::grace(&new).unwrap_or_default() == 0;
    if dry_run {
        return Ok(Arc::new(encode(exchange, &current.key, current.revision, &mut new)));
    }
    let (store, shelf) = (&exchange.core.store, &exchange.resource.shelf);
    let encode = |revision| encode(exchange, &current.key, revision, &mut new);
    if gone {
        store.remove(shelf, &current.key, current.revision, encode)
    } else {
        store.replace(shelf, &current.key, current.revision, encode)
    }
}
