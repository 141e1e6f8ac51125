//! Update of an object or a part of it: read, change, check, write if nobody else did meanwhile.

use super::{
    Exchange, body,
    create::{check_type, create_object, encode, same_namespace},
    read,
    rules::{self, FieldValidation, Rules},
    view,
};
use crate::{
    access,
    admission::{self, Operation},
    contract::keep,
    error::ApiError,
    field::FieldError,
    kinds::{self, metadata},
    object,
    registry::Resource,
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
    /// Another subresource that is written like the object: `approval`, `finalize`.
    Other,
}

/// How a write came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Put,
    Patch,
}

/// How often a write that names no version is tried again when others write at the same time.
const ATTEMPTS: usize = 5;

pub(super) fn update(exchange: &Exchange<'_>, part: Part, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("UpdateOptions")?;
    let validation = FieldValidation::read(exchange, "UpdateOptions")?;
    let (mut new, source) = body::decode_strictly(exchange.headers, &exchange.resource.kind, bytes)?;
    check_type(exchange, &mut new)?;
    let new = rules::decode(exchange, new, &source, validation)?;
    same_name(exchange, &new)?;
    same_namespace(exchange, &new)?;
    let key = Key::new(&exchange.target.namespace, &exchange.target.name);
    let missing = exchange.core.store.get(&exchange.resource.shelf, &key).is_none();
    if missing && part == Part::Main && exchange.resource.create_on_update {
        let attributes = exchange.target.attributes("create", "");
        super::permit(exchange.core, exchange.user, &attributes)?;
        let stored = create_object(exchange, new, dry_run)?;
        return Ok(exchange.object(StatusCode::CREATED, &stored));
    }
    let stored = change(exchange, part, dry_run, Means::Put, wanted(new))?;
    Ok(exchange.object(StatusCode::OK, &stored))
}

/// Gives an object as long as it is asked for, and the object itself if that is only once: a write that names a
/// version is not tried again.
fn wanted(new: Value) -> impl FnMut(&Value) -> Result<Value, ApiError> {
    let names_version = !object::text(&new, "resourceVersion").is_empty();
    let mut left = Some(new);
    move |_| {
        let taken = if names_version { left.take() } else { left.clone() };
        taken.ok_or_else(|| ApiError::internal("a write that names a version was tried again"))
    }
}

/// The name in the body has to be the one in the path.
pub(super) fn same_name(exchange: &Exchange<'_>, new: &Value) -> Result<(), ApiError> {
    let (name, expected) = (object::name(new), &exchange.target.name);
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != expected {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        )));
    }
    Ok(())
}

/// Changes the object the request names. `make` gets the current object and gives the wanted one.
pub(super) fn change(
    exchange: &Exchange<'_>,
    part: Part,
    dry_run: bool,
    means: Means,
    mut make: impl FnMut(&Value) -> Result<Value, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    let resource = exchange.resource;
    for _ in 0..ATTEMPTS {
        let current = read::find(exchange)?;
        let old = view::tree(resource, &exchange.target.version, &current);
        let mut new = make(&old)?;
        let version = object::text(&new, "resourceVersion").to_owned();
        check_version(exchange, &version, &current, means)?;
        prepare(exchange, part, means, &mut new, &old)?;
        match write(exchange, &current, &old, new, dry_run) {
            Err(Clash::Changed) if version.is_empty() => {}
            Err(Clash::Missing) => return Err(exchange.not_found(&exchange.target.name)),
            Err(Clash::TooLarge) => return Err(ApiError::does_not_fit()),
            Err(_) => break,
            Ok(stored) => return Ok(stored),
        }
    }
    Err(ApiError::modified(resource.group(), resource.name(), &exchange.target.name))
}

/// Changes the object the request names as the server itself does: without the checks of an update.
pub(super) fn overwrite(
    exchange: &Exchange<'_>,
    dry_run: bool,
    edit: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    for _ in 0..ATTEMPTS {
        let current = read::find(exchange)?;
        let old = view::tree(exchange.resource, &exchange.target.version, &current);
        let mut new = old.clone();
        edit(&mut new)?;
        match write(exchange, &current, &old, new, dry_run) {
            Err(Clash::Missing) => return Err(exchange.not_found(&exchange.target.name)),
            Err(Clash::TooLarge) => return Err(ApiError::does_not_fit()),
            Err(_) => {}
            Ok(stored) => return Ok(stored),
        }
    }
    Err(ApiError::modified(exchange.resource.group(), exchange.resource.name(), &exchange.target.name))
}

fn check_version(
    exchange: &Exchange<'_>,
    version: &str,
    current: &Stored,
    means: Means,
) -> Result<(), ApiError> {
    let (resource, name) = (exchange.resource, &exchange.target.name);
    if version.is_empty() {
        if means == Means::Put && !resource.unconditional_update {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(ApiError::invalid(resource.group(), resource.name(), name, &[error]));
        }
        return Ok(());
    }
    let Ok(version) = version.parse::<u64>() else {
        let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
    };
    if version == current.revision {
        return Ok(());
    }
    Err(ApiError::modified(resource.group(), resource.name(), name))
}

fn check_uid(exchange: &Exchange<'_>, means: Means, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (resource, name) = (exchange.resource, exchange.target.name.as_str());
    let (uid, found) = (object::text(new, "uid"), object::text(old, "uid"));
    if uid.is_empty() || uid == found {
        return Ok(());
    }
    if means == Means::Patch {
        let error = FieldError::invalid("metadata.uid", uid, "field is immutable");
        return Err(ApiError::invalid(resource.group(), &resource.kind, name, &[error]));
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}{name}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {found}",
        resource.name(),
        if resource.namespaced { format!("{}/", exchange.target.namespace) } else { String::new() },
    );
    Err(ApiError::conflict(resource.group(), resource.name(), name, &why))
}

/// Makes the wanted object one that may be written, or says why it may not.
fn prepare(
    exchange: &Exchange<'_>,
    part: Part,
    means: Means,
    new: &mut Value,
    old: &Value,
) -> Result<(), ApiError> {
    let resource = exchange.resource;
    check_uid(exchange, means, new, old)?;
    let rules = Rules::of(resource, &exchange.target.version);
    let kind = rules.kind();
    keep(new, old, "apiVersion");
    keep(new, old, "kind");
    object::keep(new, old, "namespace");
    object::keep(new, old, "generation");
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if object::metadata(new).is_none_or(|metadata| metadata.get(field).is_none_or(Value::is_null)) {
            object::keep(new, old, field);
        }
    }
    rules::in_core_form(resource, new, |new| kind.default(new));
    exchange.admit(Operation::Update, Some(new), Some(old))?;
    let before = seen_by_rules(resource, old);
    let old_form = before.as_ref().unwrap_or(old);
    let errors = rules::in_core_form(resource, new, |new| -> Result<Vec<FieldError>, ApiError> {
        let (context, subresource) = (exchange.context(), exchange.target.subresource.as_str());
        match part {
            Part::Main => kind.prepare_update(new, old_form, &context)?,
            Part::Status => rules.prepare_status(new, old_form, &context),
            Part::Other => kind.prepare_subresource_update(subresource, new, old_form, &context),
        }
        let mut errors = metadata::validate_update(new, old_form);
        errors.extend(match part {
            Part::Main => rules.validate_update(resource, new, old_form),
            Part::Status => rules.validate_status_update(new, old_form),
            Part::Other => kind.validate_subresource_update(subresource, new, old_form),
        });
        Ok(errors)
    })?;
    if !errors.is_empty() {
        return Err(ApiError::invalid(resource.group(), &resource.kind, &exchange.target.name, &errors));
    }
    let attributes = exchange.attributes("update", &exchange.target.name);
    admission::validate(&attributes, Operation::Update, new, Some(old), &exchange.context())?;
    if resource.group() == "rbac.authorization.k8s.io" {
        access::check_grant(exchange.user, resource.name(), new, Some(old), &**exchange.core)?;
    }
    object::tidy(new);
    rules::complete(resource, new);
    let counted = part == Part::Main && object::generation(old) > 0;
    if counted && kind.has_generation() && kind.moves_generation(new, old) {
        object::set(new, "generation", json!(object::generation(old) + 1));
    }
    Ok(())
}

/// The form in which a kind's rules see an object, where it is another.
fn seen_by_rules(resource: &Resource, object: &Value) -> Option<Value> {
    (resource.shelf != resource.id).then(|| kinds::to_core_v1(object))
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
    rules::record_manager(exchange, old, &mut new);
    let rules = Rules::of(exchange.resource, &exchange.target.version);
    let gone = object::is_deleting(&new)
        && !rules.kind().is_held(&new)
        && object::grace(&new).unwrap_or_default() == 0;
    if dry_run {
        return Ok(Arc::new(encode(exchange, &current.key, current.revision, &mut new)));
    }
    let (store, shelf) = (&exchange.core.store, &exchange.resource.shelf);
    let encode = |revision| encode(exchange, &current.key, revision, &mut new);
    let stored = if gone {
        store.remove(shelf, &current.key, current.revision, encode)?
    } else {
        store.replace(shelf, &current.key, current.revision, encode)?
    };
    exchange.wrote();
    Ok(stored)
}
