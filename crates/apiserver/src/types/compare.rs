//! What changed between two objects, as sets of fields. Lists whose elements have keys are compared element by
//! element; what is atomic is compared as a whole.

use super::{
    field_set::{self, FieldSet},
    table::{self, Field, FieldType, ListKind, TypeRef, TypeShape, Walk},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// What is known about an object's fields.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    Builtin(TypeRef),
    /// The structural schema (`openAPIV3Schema`) of a custom kind.
    Schema(&'a Value),
    /// Objects are taken apart, lists are not.
    Untyped,
}

#[derive(Default)]
pub(super) struct Changes {
    pub(super) added_or_modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// A shape somewhere inside an object.
#[derive(Clone, Copy)]
pub(super) enum Inner<'a> {
    Struct(TypeRef),
    /// A field of a struct knows more than its type.
    Field(&'static Field),
    Type(&'static FieldType),
    Schema(&'a Value),
    Untyped,
}

/// How a value is compared.
pub(super) enum Form<'a> {
    /// As a whole.
    Leaf,
    Map,
    List(Keys<'a>),
}

pub(super) enum Keys<'a> {
    /// The elements themselves.
    Values,
    Named(&'a [&'static str]),
    InSchema(&'a [Value]),
}

/// Whether the top-level field of this name is looked at.
pub(super) fn is_compared(name: &str, left_out: &[&str]) -> bool {
    !matches!(name, "apiVersion" | "kind") && !left_out.contains(&name)
}

/// The fields of an object, none of anything else.
pub(super) fn fields_of(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

impl<'a> Shape<'a> {
    /// The shape of a top-level field.
    pub(super) fn field(self, name: &str) -> Inner<'a> {
        match (name, self) {
            // Custom kinds' schemas say nothing about metadata.
            ("metadata", Self::Schema(_) | Self::Untyped) => {
                table::object_meta().map_or(Inner::Untyped, Inner::Struct)
            }
            (_, Self::Builtin(ty)) => Inner::Struct(ty).field(name),
            (_, Self::Schema(schema)) => Inner::Schema(schema).field(name),
            (_, Self::Untyped) => Inner::Untyped,
        }
    }
}

/// Compares everything but the top-level fields that are left out.
pub(super) fn compare(old: &Value, new: &Value, shape: Shape<'_>, left_out: &[&str]) -> Changes {
    let mut changes = Changes::default();
    for (name, value) in fields_of(new).filter(|(name, _)| is_compared(name, left_out)) {
        changes.value(field_key(name), old.get(name), Some(value), shape.field(name));
    }
    for (name, value) in fields_of(old).filter(|(name, _)| is_compared(name, left_out)) {
        if new.get(name).is_none() {
            changes.value(field_key(name), Some(value), None, shape.field(name));
        }
    }
    strip(&mut changes.added_or_modified);
    strip(&mut changes.removed);
    changes
}

/// The metadata that the server sets: nobody owns it.
pub(super) const NOBODYS: [&str; 10] = [
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

fn strip(set: &mut FieldSet) {
    let Some(Value::Object(metadata)) = set.get_mut("f:metadata") else { return };
    metadata.retain(|key, _| key.strip_prefix("f:").is_some_and(|name| !NOBODYS.contains(&name)));
    if metadata.is_empty() {
        set.remove("f:metadata");
    }
}

/// `f:name`
fn field_key(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 2);
    key.push_str("f:");
    key.push_str(name);
    key
}

impl Changes {
    fn value(&mut self, key: String, old: Option<&Value>, new: Option<&Value>, inner: Inner<'_>) {
        if old == new {
            return;
        }
        let mut below = Self::default();
        let is_same_sort = match (old, new) {
            (Some(Value::Object(_)), Some(new)) => new.is_object() || new.is_null(),
            (Some(Value::Array(_)), Some(new)) => new.is_array() || new.is_null(),
            _ => true,
        };
        match inner.form(new.filter(|value| !value.is_null()).or(old)) {
            _ if !is_same_sort => {}
            Form::Leaf => {}
            Form::Map => below.map(old, new, inner),
            Form::List(keys) => below.list(old, new, inner, &keys),
        }
        let is_leaf = below.added_or_modified.is_empty() && below.removed.is_empty();
        match (old, new) {
            (None, _) => field_set::insert(&mut self.added_or_modified, key, below.added_or_modified, true),
            (_, None) => field_set::insert(&mut self.removed, key, below.removed, true),
            _ if is_leaf => field_set::insert(&mut self.added_or_modified, key, FieldSet::new(), true),
            _ => {
                if !below.removed.is_empty() {
                    field_set::insert(&mut self.removed, key.clone(), below.removed, false);
                }
                if !below.added_or_modified.is_empty() {
                    field_set::insert(&mut self.added_or_modified, key, below.added_or_modified, false);
                }
            }
        }
    }

    fn map(&mut self, old: Option<&Value>, new: Option<&Value>, inner: Inner<'_>) {
        let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        for (name, value) in new.into_iter().flatten() {
            let before = old.and_then(|old| old.get(name));
            self.value(field_key(name), before, Some(value), inner.field(name));
        }
        for (name, value) in old.into_iter().flatten() {
            if !new.is_some_and(|new| new.contains_key(name)) {
                self.value(field_key(name), Some(value), None, inner.field(name));
            }
        }
    }

    fn list(&mut self, old: Option<&Value>, new: Option<&Value>, inner: Inner<'_>, keys: &Keys<'_>) {
        let (old, new) = (keys.items(old), keys.items(new));
        let element = inner.element();
        // Of several with the same key the first counts.
        let known: BTreeMap<&str, &Value> =
            old.iter().rev().map(|(key, item)| (key.as_str(), *item)).collect();
        let kept: BTreeSet<&str> = new.iter().map(|(key, _)| key.as_str()).collect();
        for (key, item) in &new {
            self.value(key.clone(), known.get(key.as_str()).copied(), Some(item), element);
        }
        for (key, item) in &old {
            if !kept.contains(key.as_str()) {
                self.value(key.clone(), Some(item), None, element);
            }
        }
    }
}

impl<'a> Inner<'a> {
    pub(super) fn form(self, value: Option<&Value>) -> Form<'a> {
        let untyped = if value.is_some_and(Value::is_object) { Form::Map } else { Form::Leaf };
        match self {
            Self::Struct(ty) if ty.is_atomic() => Form::Leaf,
            Self::Struct(_) => Form::Map,
            Self::Field(field) if field.is_atomic => Form::Leaf,
            Self::Field(field) => match (&field.ty.shape, &field.list) {
                (TypeShape::List(_), ListKind::Set) => Form::List(Keys::Values),
                (TypeShape::List(_), ListKind::Map(keys)) => Form::List(Keys::Named(keys)),
                _ => Self::Type(&field.ty).form(value),
            },
            Self::Type(ty) => match &ty.shape {
                TypeShape::Struct(inner) => Self::Struct(*inner).form(value),
                TypeShape::Map(_) => Form::Map,
                TypeShape::Raw
                | TypeShape::Json
                | TypeShape::SchemaOrArray
                | TypeShape::SchemaOrBool
                | TypeShape::SchemaOrStrings => untyped,
                _ => Form::Leaf,
            },
            Self::Schema(schema) => {
                let extension = |name: &str| schema.get(name).and_then(Value::as_str);
                match value {
                    Some(Value::Object(_)) if extension("x-kubernetes-map-type") != Some("atomic") => {
                        Form::Map
                    }
                    Some(Value::Array(_)) => match extension("x-kubernetes-list-type") {
                        Some("set") => Form::List(Keys::Values),
                        Some("map") => schema
                            .get("x-kubernetes-list-map-keys")
                            .and_then(Value::as_array)
                            .map_or(Form::Leaf, |keys| Form::List(Keys::InSchema(keys))),
                        _ => Form::Leaf,
                    },
                    _ => Form::Leaf,
                }
            }
            Self::Untyped => untyped,
        }
    }

    /// The shape of a field of an object, or of a value of a map.
    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Struct(ty) => ty.field(name).map_or(Self::Untyped, Self::Field),
            Self::Field(field) => Self::Type(&field.ty).field(name),
            Self::Type(ty) => match &ty.shape {
                TypeShape::Struct(inner) => Self::Struct(*inner).field(name),
                TypeShape::Map(value) => Self::Type(value),
                _ => Self::Untyped,
            },
            Self::Schema(schema) => schema
                .get("properties")
                .and_then(|properties| properties.get(name))
                .or_else(|| schema.get("additionalProperties").filter(|inner| inner.is_object()))
                .map_or(Self::Untyped, Self::Schema),
            Self::Untyped => Self::Untyped,
        }
    }

    /// The shapes of an object's fields, to be asked for one after the other.
    pub(super) fn fields(self) -> Fields<'a> {
        let ty = match self {
            Self::Struct(ty) => Some(ty),
            Self::Field(Field { ty, .. }) | Self::Type(ty) => match ty.shape {
                TypeShape::Struct(ty) => Some(ty),
                _ => None,
            },
            Self::Schema(_) | Self::Untyped => None,
        };
        Fields { inner: self, walk: ty.map(TypeRef::walk) }
    }

    pub(super) fn element(self) -> Self {
        match self {
            Self::Field(Field { ty: FieldType { shape: TypeShape::List(element), .. }, .. }) => {
                Self::Type(element)
            }
            Self::Schema(schema) => schema.get("items").map_or(Self::Untyped, Self::Schema),
            _ => Self::Untyped,
        }
    }
}

/// See [`Inner::fields`].
pub(super) struct Fields<'a> {
    inner: Inner<'a>,
    walk: Option<Walk>,
}

impl<'a> Fields<'a> {
    pub(super) fn field(&mut self, name: &str) -> Inner<'a> {
        match &mut self.walk {
            Some(walk) => walk.field(name).map_or(Inner::Untyped, Inner::Field),
            None => self.inner.field(name),
        }
    }
}

impl Keys<'_> {
    fn items<'v>(&self, list: Option<&'v Value>) -> Vec<(String, &'v Value)> {
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| (self.of(item), item)).collect()
    }

    /// `k:{"name":"a"}` or `v:"a"`
    fn of(&self, item: &Value) -> String {
        let mut key = String::with_capacity(64);
        self.push(&mut key, item);
        key
    }

    /// Writes the key of an element.
    pub(super) fn push(&self, key: &mut String, item: &Value) {
        match self {
            Self::Values => {
                key.push_str("v:");
                push_json(key, item);
            }
            Self::Named(names) => push_named(key, item, names.iter().copied()),
            Self::InSchema(names) => push_named(key, item, names.iter().filter_map(Value::as_str)),
        }
    }
}

/// Writes the fields that an element is known by, in the order of their names.
fn push_named<'a>(key: &mut String, item: &Value, names: impl Iterator<Item = &'a str> + Clone) {
    key.push_str("k:{");
    let mut last = "";
    while let Some(name) = names.clone().filter(|name| *name > last).min() {
        if let Some(value) = item.get(name) {
            key.push_str(if key.ends_with('{') { "\"" } else { ",\"" });
            key.push_str(name);
            key.push_str("\":");
            push_json(key, value);
        }
        last = name;
    }
    key.push('}');
}

/// Field names and most keys need no escapes: those are copied as they are.
fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::String(text) if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        other => {
            // Writing into a string cannot fail.
            let _ = write!(out, "{other}");
        }
    }
}
