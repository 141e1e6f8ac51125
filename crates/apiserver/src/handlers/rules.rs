//! What the kind of an object asks for: one view on built-in kinds, which have code of their own, and custom
//! kinds, which have a schema.

use super::{Exchange, body::Source, create::check_built_in_type};
use crate::{
    contract::{Context, Kind, keep, same_besides},
    crd::{self, CustomVersion},
    error::ApiError,
    field::{Fault, FieldError},
    kinds,
    object::{self, DEEPEST},
    registry::Resource,
    server::Core,
    types::{
        self, Decoded, TypeRef,
        managed_fields::{self, Shape, Writer},
    },
};
use http::header;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The kind of a custom resource, as a [`Kind`].
struct CustomRules<'a>(&'a CustomVersion);

impl Kind for CustomRules<'_> {
    fn default(&self, object: &mut Value) {
        self.0.default(object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.0.validate(object, None)
    }

    fn has_status(&self) -> bool {
        self.0.has_status()
    }

    fn moves_generation(&self, new: &Value, old: &Value) -> bool {
        !same_besides(new, old, if self.0.has_status() { &["status"] } else { &[] })
    }
}

/// Definitions of custom resources; their status is the server's own.
struct Definitions;

impl Kind for Definitions {
    fn default(&self, object: &mut Value) {
        crd::default_crd(object);
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        object["status"] = json!({
            "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored_versions(object),
        });
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "status");
        let stored = stored_versions(new);
        if let (Some(known), Some(stored)) =
            (new["status"]["storedVersions"].as_array_mut(), stored.as_array())
        {
            known.extend(stored.iter().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>());
        }
        Ok(())
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        crd::validate_crd(object, None)
    }
}

fn stored_versions(definition: &Value) -> Value {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let storage =
        versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
    Value::Array(storage.collect())
}

/// The rules of one request's kind and version.
pub(super) struct Rules<'a> {
    custom: Option<CustomRules<'a>>,
    built_in: &'static dyn Kind,
}

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.group() == "apiextensions.k8s.io" && resource.name() == "customresourcedefinitions"
}

impl<'a> Rules<'a> {
    pub(super) fn of(resource: &'a Resource, version: &str) -> Self {
        let custom =
            resource.custom.as_ref().and_then(|custom| custom.kind.version(version)).map(CustomRules);
        let built_in: &'static dyn Kind = if is_definition(resource) {
            &Definitions
        } else {
            kinds::kind(resource.group(), resource.name())
        };
        Self { custom, built_in }
    }

    pub(super) fn kind(&self) -> &dyn Kind {
        match &self.custom {
            Some(custom) => custom,
            None => self.built_in,
        }
    }

    pub(super) fn validate_update(&self, resource: &Resource, new: &Value, old: &Value) -> Vec<FieldError> {
        if let Some(custom) = &self.custom {
            return custom.0.validate(new, Some(old));
        }
        if is_definition(resource) {
            return crd::validate_crd(new, Some(old));
        }
        let mut errors = self.built_in.validate(new);
        errors.extend(self.built_in.validate_update(new, old));
        errors
    }

    pub(super) fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        match &self.custom {
            Some(custom) => custom.0.validate(new, Some(old)),
            None => self.built_in.validate_status_update(new, old),
        }
    }

    /// What a status update may change.
    pub(super) fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        if self.custom.is_some() {
            let status = new.get("status").cloned();
            let managed = new["metadata"]["managedFields"].clone();
            let version = new["metadata"]["resourceVersion"].clone();
            *new = old.clone();
            if let Some(fields) = new.as_object_mut() {
                match status {
                    Some(status) => fields.insert("status".to_owned(), status),
                    None => fields.remove("status"),
                };
            }
            object::set(new, "managedFields", managed);
            object::set(new, "resourceVersion", version);
        } else {
            self.built_in.prepare_status_update(new, old, context);
        }
    }
}

/// How unknown fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// Reads how unknown fields are to be treated, and checks who wants to be named as the fields' manager.
    pub(super) fn read(exchange: &Exchange<'_>, options: &str) -> Result<Self, ApiError> {
        let manager = exchange.query.text("fieldManager");
        if manager.len() > 128 {
            let why = "may not be more than 128 bytes";
            let error = FieldError::new(Fault::TooLong, "fieldManager", json!(manager), why);
            return Err(ApiError::invalid("meta.k8s.io", options, "", &[error]));
        }
        if manager.chars().any(char::is_control) {
            let error =
                FieldError::invalid("fieldManager", manager, "should only contain printable characters");
            return Err(ApiError::invalid("meta.k8s.io", options, "", &[error]));
        }
        match exchange.query.text("fieldValidation") {
            "" | "Warn" => Ok(Self::Warn),
            "Ignore" => Ok(Self::Ignore),
            "Strict" => Ok(Self::Strict),
            other => {
                let error =
                    FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]);
                Err(ApiError::invalid("meta.k8s.io", options, "", &[error]))
            }
        }
    }
}

/// Reads an object as its kind does: drops what nobody knows and tells so.
pub(super) fn decode(
    exchange: &Exchange<'_>,
    value: Value,
    source: &Source,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    decode_with(types::decode, exchange, value, source, validation)
}

/// The same for what a strategic merge patch made.
pub(super) fn decode_merged(
    exchange: &Exchange<'_>,
    value: Value,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    decode_with(types::decode_merged, exchange, value, &Source::default(), validation)
}

fn decode_with(
    read: impl Fn(TypeRef, Value) -> Result<Decoded, ApiError>,
    exchange: &Exchange<'_>,
    value: Value,
    source: &Source,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let (resource, target) = (exchange.resource, exchange.target);
    if object::is_deeper(&value, DEEPEST) {
        return Err(ApiError::bad_request(format!(
            "the object is nested too deep: {DEEPEST} levels are read"
        )));
    }
    let (object, unknown) = if let Some(custom) = &resource.custom {
        let Some(version) = custom.kind.version(&target.version) else {
            return Err(ApiError::no_such_path());
        };
        decode_custom(version, value)?
    } else if let Some(ty) = resource.ty {
        let decoded = read(ty, value)?;
        (decoded.object, decoded.unknown)
    } else {
        (value, Vec::new())
    };
    if validation == FieldValidation::Ignore || (unknown.is_empty() && source.is_clean()) {
        return Ok(object);
    }
    complain(exchange, &resource.kind, &target.version, source.complaints(unknown), validation)?;
    Ok(object)
}

/// Refuses for what is wrong with the text of an object, or warns of it.
fn complain(
    exchange: &Exchange<'_>,
    kind: &str,
    version: &str,
    complaints: Vec<String>,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => exchange.warnings.borrow_mut().extend(complaints),
        FieldValidation::Strict if complaints.is_empty() => {}
        FieldValidation::Strict => {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                complaints.join(", ")
            )));
        }
    }
    Ok(())
}

/// Reads what belongs to another kind than the request's resource: the body of a subresource.
pub(super) fn decode_as(
    exchange: &Exchange<'_>,
    (api_version, kind): (&str, &str),
    mut value: Value,
    source: &Source,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    check_built_in_type(&mut value, api_version, kind)?;
    let ty = types::kind(api_version, kind)
        .ok_or_else(|| ApiError::internal(format!("the fields of {kind} are not known")))?;
    let decoded = types::decode(ty, value)?;
    let complaints = source.complaints(decoded.unknown);
    complain(exchange, kind, api_version.rsplit('/').next().unwrap_or_default(), complaints, validation)?;
    Ok(decoded.object)
}

fn decode_custom(version: &CustomVersion, mut value: Value) -> Result<(Value, Vec<String>), ApiError> {
    let mut unknown = Vec::new();
    if let (Some(ty), Some(metadata)) = (types::object_meta(), value.get_mut("metadata")) {
        let decoded = types::decode(ty, metadata.take())?;
        *metadata = decoded.object;
        unknown.extend(decoded.unknown.into_iter().map(|path| format!("metadata.{path}")));
    }
    unknown.extend(version.prune(&mut value));
    Ok((value, unknown))
}

/// Puts in what a real server always writes for a built-in kind.
pub(super) fn complete(resource: &Resource, object: &mut Value) {
    if let Some(ty) = resource.ty {
        types::fill_zero_values(ty, object);
    }
}

/// Writes down who changed which fields.
pub(super) fn record_manager(exchange: &Exchange<'_>, old: &Value, new: &mut Value) {
    with_writer(exchange, |who, shape| managed_fields::record(old, new, who, shape));
}

/// Writes who set which fields of a new object, as the text of its `managedFields`; whether anybody set any.
pub(super) fn first_manager(exchange: &Exchange<'_>, new: &Value, out: &mut Vec<u8>) -> bool {
    with_writer(exchange, |who, shape| managed_fields::of_new(out, new, who, shape))
}

fn with_writer<T>(exchange: &Exchange<'_>, write: impl FnOnce(&Writer<'_>, Shape<'_>) -> T) -> T {
    let (resource, target) = (exchange.resource, exchange.target);
    let api_version = target.api_version();
    let agent =
        exchange.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let manager = managed_fields::manager_name(exchange.query.get("fieldManager"), agent);
    let rules = Rules::of(resource, &target.version);
    let left_out: &[&str] =
        if target.subresource.is_empty() && rules.kind().has_status() { &["status"] } else { &[] };
    let who = Writer {
        manager: &manager,
        api_version: &api_version,
        subresource: &target.subresource,
        time: exchange.core.clock.now(),
        left_out,
    };
    let custom = resource.custom.as_ref().and_then(|custom| custom.kind.version(&target.version));
    let shape = match (custom, resource.ty) {
        (Some(custom), _) => Shape::Schema(custom.schema()),
        (None, Some(ty)) => Shape::Builtin(ty),
        (None, None) => Shape::Untyped,
    };
    write(&who, shape)
}

/// Lets a kind's rules look at an object: those of events know the core form only.
pub(super) fn in_core_form<T>(
    resource: &Resource,
    object: &mut Value,
    look: impl FnOnce(&mut Value) -> T,
) -> T {
    if resource.shelf == resource.id {
        return look(object);
    }
    let mut core = kinds::to_core_v1(object);
    let seen = look(&mut core);
    *object = kinds::to_events_v1(&core);
    seen
}

/// Makes an object of the request's version one of the version that is kept.
pub(super) fn to_storage(resource: &Resource, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.kind.convert(object, &resource.storage_version);
    } else if resource.shelf != resource.id {
        *object = kinds::to_core_v1(object);
    }
}

/// Makes a kept object one of the version a request asked for.
pub(super) fn from_storage(resource: &Resource, version: &str, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.kind.convert(object, version);
    } else if resource.shelf != resource.id {
        *object = kinds::to_events_v1(object);
    }
}

/// The selectable fields of a resource beside its name and namespace.
fn selectable(resource: &Resource, version: &str) -> Vec<Cow<'static, str>> {
    match &resource.custom {
        Some(custom) => {
            let version = custom.kind.version(version).into_iter();
            version.flat_map(CustomVersion::selectable_fields).cloned().map(Cow::Owned).collect()
        }
        None => {
            let own = kinds::selectable_fields(resource.group(), resource.name());
            own.iter().copied().map(Cow::Borrowed).collect()
        }
    }
}

/// Whether a field selector may name this field; the refusal is that of a real server.
pub(super) fn check_selectable(resource: &Resource, version: &str, field: &str) -> Result<(), ApiError> {
    let fields = selectable(resource, version);
    let common = match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced,
        _ => false,
    };
    if common || fields.iter().any(|one| one == field) {
        return Ok(());
    }
    let own = fields.iter().any(|one| !one.starts_with("metadata."));
    Err(ApiError::bad_request(if own || resource.custom.is_some() {
        format!("field label not supported: {field}")
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

/// Makes the kept objects of a custom kind what its changed definition says: a real server prunes and defaults them
/// whenever it reads them, and selects by fields that were not selectable when they were written.
pub(crate) fn refresh(core: &Core, resource: &Resource) {
    let Some(custom) = &resource.custom else { return };
    let Some(version) = custom.kind.version(&resource.storage_version) else { return };
    core.store.refresh(&resource.shelf, |stored| {
        let mut object = stored.as_written();
        custom.kind.convert(&mut object, &resource.storage_version);
        version.prune(&mut object);
        version.default(&mut object);
        stored.seen_as(object::encode(&object, None), boxed(field_values(resource, &object)))
    });
}

/// Selectable fields and their values, as the store has them.
pub(super) fn boxed(fields: Vec<(Cow<'static, str>, String)>) -> Box<[(Cow<'static, str>, Box<str>)]> {
    fields.into_iter().map(|(name, value)| (name, value.into_boxed_str())).collect()
}

/// The values of an object's selectable fields, for the store. `object` is in the kept version; the fields are
/// those of all versions.
pub(super) fn field_values(resource: &Resource, object: &Value) -> Vec<(Cow<'static, str>, String)> {
    let is_kept = |name: &str| !name.starts_with("metadata.");
    let Some(custom) = &resource.custom else {
        let names = kinds::selectable_fields(&resource.shelf.group, &resource.shelf.resource);
        let values = names.iter().filter(|name| is_kept(name)).map(|name| (name, kinds::field(object, name)));
        let set = values
            .filter_map(|(name, value)| Some((Cow::Borrowed(*name), value.filter(|text| !text.is_empty())?)));
        return set.collect();
    };
    let mut fields: Vec<(Cow<'static, str>, String)> = Vec::new();
    for version in custom.kind.versions() {
        for name in version.selectable_fields().iter().filter(|name| is_kept(name)) {
            if let Some(text) = version.selectable_value(object, name).filter(|text| !text.is_empty())
                && !fields.iter().any(|(known, _)| known == name)
            {
                fields.push((Cow::Owned(name.clone()), text));
            }
        }
    }
    fields
}
