//! Strategic merge patch: merges by what the table says about each field, and by the patch's own directives.

use super::{
    go_value::{go_list, go_value},
    table::{FieldType, TypeRef, TypeShape},
};
use crate::error::ApiError;
use http::StatusCode;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a built-in kind. The result is not decoded yet: it may hold
/// unknown fields and wrong types that came with the patch.
pub fn strategic_merge(ty: TypeRef, original: &Value, patch: &Value) -> Result<Value, ApiError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        let words = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_name(patch)
        );
        return Err(ApiError::bad_request(words));
    };
    let mut merged = original.clone();
    merge_object(&mut merged, patch.clone(), Schema::Struct(ty))?;
    Ok(Value::Object(merged))
}

/// What is known about the object or the list elements at hand.
#[derive(Clone, Copy)]
enum Schema {
    Struct(TypeRef),
    MapOf(&'static FieldType),
    Unknown,
}

struct Rule {
    merge: bool,
    replace: bool,
    merge_key: &'static str,
    /// Of the object, or of the list's elements.
    inner: Schema,
}

impl Schema {
    fn of(ty: &'static FieldType) -> Self {
        match &ty.shape {
            TypeShape::Struct(inner) => Self::Struct(*inner),
            TypeShape::Map(value) => Self::MapOf(value),
            TypeShape::List(element) => Self::of(element),
            TypeShape::SchemaOrArray | TypeShape::SchemaOrBool | TypeShape::SchemaOrStrings => {
                super::table::schema_props().map_or(Self::Unknown, Self::Struct)
            }
            _ => Self::Unknown,
        }
    }

    fn rule(self, key: &str) -> Rule {
        let plain = |inner| Rule { merge: false, replace: false, merge_key: "", inner };
        match self {
            Self::Struct(ty) => ty.field(key).map_or_else(
                || plain(Self::Unknown),
                |field| Rule {
                    merge: field.strategy.merge,
                    replace: field.strategy.replace,
                    merge_key: field.merge_key,
                    inner: Self::of(&field.ty),
                },
            ),
            Self::MapOf(value) => plain(Self::of(value)),
            Self::Unknown => plain(Self::Unknown),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Struct(ty) => ty.short_name(),
            _ => "map",
        }
    }
}

fn merge_object(original: &mut Object, mut patch: Object, schema: Schema) -> Result<(), ApiError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *original = patch;
            }
            Some("delete") => original.clear(),
            _ => return Err(unknown_directive(directive, patch.clone())),
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    let ordered: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for key in ordered {
        let order = patch.remove(&key).unwrap_or_default();
        let name = directive_target(&key, ELEMENT_ORDER, "invalid patch format of setElementOrder list")?;
        let order = list(order)?;
        merge_ordered_list(original, &mut patch, name, &order, &schema.rule(name))?;
    }
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            let name = directive_target(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?;
            delete_from_list(original, name, value)?;
        } else {
            merge_field(original, key, value, schema)?;
        }
    }
    Ok(())
}

fn merge_field(original: &mut Object, key: String, value: Value, schema: Schema) -> Result<(), ApiError> {
    match (original.get_mut(&key), value) {
        (_, Value::Null) => {
            original.remove(&key);
        }
        (Some(Value::Object(into)), Value::Object(patch)) => {
            let rule = schema.rule(&key);
            if rule.replace {
                *into = patch;
            } else {
                merge_object(into, patch, rule.inner)?;
            }
        }
        (Some(Value::Array(into)), Value::Array(patch)) => {
            let rule = schema.rule(&key);
            if rule.merge {
                let merged = merge_list(std::mem::take(into), patch, &rule)?;
                *into = merged;
            } else {
                *into = patch;
            }
        }
        (_, mut value) => {
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.insert(key, value),
                None => original.remove(&key),
            };
        }
    }
    Ok(())
}

/// `$retainKeys`: everything that is not named goes.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), ApiError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || ApiError::bad_request("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(wrong)?;
    let is_retained = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    let is_covered = |key: &str, value: &Value| {
        value.is_null()
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(ELEMENT_ORDER)
            || is_retained(key)
    };
    if !patch.iter().all(|(key, value)| is_covered(key, value)) {
        return Err(wrong());
    }
    original.retain(|key, _| is_retained(key));
    Ok(())
}

fn delete_from_list(original: &mut Object, name: &str, value: Value) -> Result<(), ApiError> {
    match (original.get_mut(name), value) {
        (_, Value::Null) => {
            original.remove(name);
        }
        (Some(Value::Array(items)), Value::Array(unwanted)) if !items.is_empty() || !unwanted.is_empty() => {
            has_objects(items, &unwanted)?;
            items.retain(|item| !unwanted.contains(item));
        }
        _ => {}
    }
    Ok(())
}

/// A list for which the patch names the order of its elements.
fn merge_ordered_list(
    original: &mut Object,
    patch: &mut Object,
    name: &str,
    order: &[Value],
    rule: &Rule,
) -> Result<(), ApiError> {
    let server = original.get(name).cloned().map(list).transpose()?;
    let wanted = patch.get(name).cloned().map(list).transpose()?;
    if let Some(wanted) = &wanted {
        check_order(wanted, order, rule.merge_key)?;
    }
    let has_objects = match (&server, &wanted) {
        (None, None) => return Ok(()),
        (server, wanted) => {
            has_objects(server.as_deref().unwrap_or_default(), wanted.as_deref().unwrap_or_default())?
        }
    };
    let merged = match (&server, wanted) {
        (Some(server), Some(wanted)) if rule.merge => merge_list(server.clone(), wanted, rule)?,
        (None, Some(wanted)) => wanted.into_iter().filter_map(without_directives).collect(),
        (_, Some(wanted)) => wanted,
        (Some(server), None) => server.clone(),
        (None, None) => return Ok(()),
    };
    let server = server.unwrap_or_default();
    let merged = in_order(merged, order, &server, rule.merge_key, has_objects)?;
    patch.remove(name);
    original.insert(name.to_owned(), Value::Array(merged));
    Ok(())
}

/// The patch's elements must come in the order that it states.
fn check_order(wanted: &[Value], order: &[Value], merge_key: &str) -> Result<(), ApiError> {
    if wanted.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for item in wanted.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let id = identity(item, merge_key, merge_key.is_empty())?;
        let found =
            order_left.by_ref().find_map(|entry| match identity(entry, merge_key, merge_key.is_empty()) {
                Ok(entry) if entry == id => Some(Ok(())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
        found.ok_or_else(|| {
            let (patch, order) = (go_list(wanted), go_list(order));
            unclassified(format!(
                "The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
            ))
        })??;
    }
    Ok(())
}

fn merge_list(mut original: Vec<Value>, mut patch: Vec<Value>, rule: &Rule) -> Result<Vec<Value>, ApiError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let has_objects = has_objects(&original, &patch)?;
    let mut merged;
    if has_objects {
        if rule.merge_key.is_empty() {
            return Err(unclassified(format!(
                "cannot merge lists without merge key for {}",
                rule.inner.name()
            )));
        }
        carry_out_directives(&mut original, &mut patch, rule.merge_key)?;
        merged = original.clone();
        let mut places = places(merged.iter().map(|item| item.get(rule.merge_key)));
        for item in &patch {
            let Value::Object(item) = item else { continue };
            let id = item.get(rule.merge_key).ok_or_else(|| no_merge_key(item, rule.merge_key))?;
            match places.get(&id.to_string()).and_then(|place| merged.get_mut(*place)) {
                Some(Value::Object(twin)) => merge_object(twin, item.clone(), rule.inner)?,
                _ => {
                    places.entry(id.to_string()).or_insert(merged.len());
                    merged.push(Value::Object(item.clone()));
                }
            }
        }
    } else {
        let mut seen = BTreeSet::new();
        let all = original.iter().chain(&patch);
        merged = all.filter(|item| seen.insert(item.to_string())).cloned().collect();
    }
    in_order(merged, &patch, &original, rule.merge_key, has_objects)
}

/// Where each value stands first, by its text.
fn places<'a>(values: impl Iterator<Item = Option<&'a Value>>) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (place, value) in values.enumerate() {
        if let Some(value) = value {
            places.entry(value.to_string()).or_insert(place);
        }
    }
    places
}

/// Elements with `$patch` are orders about the list, not elements of it.
fn carry_out_directives(
    original: &mut Vec<Value>,
    patch: &mut Vec<Value>,
    merge_key: &str,
) -> Result<(), ApiError> {
    let mut replace = false;
    let mut elements = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    for item in std::mem::take(patch) {
        let Value::Object(item) = item else { continue };
        match item.get(DIRECTIVE).map(|directive| (directive, directive.as_str())) {
            None => elements.push(Value::Object(item)),
            Some((_, Some("delete"))) => {
                let id = item.get(merge_key).ok_or_else(|| no_merge_key(&item, merge_key))?;
                deleted.insert(id.to_string());
            }
            Some((_, Some("replace"))) => replace = true,
            Some((_, Some("merge"))) => {
                return Err(unclassified("merging lists cannot yet be specified in the patch"));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, item.clone())),
        }
    }
    if !deleted.is_empty() {
        original.retain(|other| other.get(merge_key).is_none_or(|id| !deleted.contains(&id.to_string())));
    }
    if replace {
        *original = elements;
    } else {
        *patch = elements;
    }
    Ok(())
}

/// Sorts elements named by the patch as the patch has them, the others as the server has them, and puts
/// the two rows together so that the server's order is kept where it says something.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: &str,
    has_objects: bool,
) -> Result<Vec<Value>, ApiError> {
    let by_value = merge_key.is_empty();
    if !by_value && !has_objects {
        return Err(merged.first().map_or_else(
            || bad_type("map[string]interface {}", &Value::Null),
            |item| bad_type("map[string]interface {}", item),
        ));
    }
    if !by_value && let Some(place) = patch_order.iter().position(|item| !item.is_object()) {
        return Err(unclassified(format!("value for key {place} is not a map")));
    }
    let ids = |items: &[Value]| -> Result<BTreeMap<String, usize>, ApiError> {
        let ids: Result<Vec<&Value>, ApiError> =
            items.iter().map(|item| identity(item, merge_key, by_value)).collect();
        Ok(places(ids?.into_iter().map(Some)))
    };
    let (patch_order, server_order) = (ids(patch_order)?, ids(server_order)?);
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let id = identity(&item, merge_key, by_value)?.to_string();
        let in_server = server_order.get(&id).copied();
        match patch_order.get(&id).copied() {
            Some(place) => named.push((place, in_server, item)),
            None => others.push((in_server.unwrap_or(usize::MAX), in_server, item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, ..)| *place);
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut sorted = Vec::new();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return Ok(sorted),
            (Some(_), None) => true,
            (Some((_, Some(left), _)), Some((_, Some(right), _))) => left < right,
            _ => false,
        };
        sorted.extend(if other_first { others.next() } else { named.next() }.map(|(.., item)| item));
    }
}

/// By which an element is told from the others.
fn identity<'a>(item: &'a Value, merge_key: &str, by_value: bool) -> Result<&'a Value, ApiError> {
    if by_value {
        return Ok(item);
    }
    let Value::Object(object) = item else { return Err(bad_type("map[string]interface {}", item)) };
    object.get(merge_key).ok_or_else(|| no_merge_key(object, merge_key))
}

/// Whether the elements are objects; all of them must be of one type.
fn has_objects(left: &[Value], right: &[Value]) -> Result<bool, ApiError> {
    let mut items = left.iter().chain(right);
    let Some(first) = items.next() else {
        return Err(unclassified("no elements in any of the given slices"));
    };
    if first.is_array() {
        let words = "lists of lists are not supported";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", words));
    }
    if items.any(|item| go_name(item) != go_name(first)) {
        let words = format!("list element types are not identical: [{} {}]", go_list(left), go_list(right));
        return Err(unclassified(words));
    }
    Ok(first.is_object())
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, inner| {
            discard_nulls(inner);
            !inner.is_null()
        }),
        Value::Array(items) => {
            for item in items {
                discard_nulls(item);
            }
        }
        _ => {}
    }
}

/// Drops objects that only carry a directive.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => Value::Object(
            map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        other => other,
    })
}

fn directive_target<'a>(key: &'a str, directive: &str, words: &str) -> Result<&'a str, ApiError> {
    key.strip_prefix(directive)
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| ApiError::bad_request(words))
}

fn list(value: Value) -> Result<Vec<Value>, ApiError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(bad_type("[]interface {}", &other)),
    }
}

/// A real server has no class for these mistakes in a patch and answers 500 without a reason.
fn unclassified(words: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", words)
}

fn bad_type(expected: &str, found: &Value) -> ApiError {
    unclassified(format!("expected a {expected}, but received a {}", go_name(found)))
}

fn no_merge_key(object: &Object, key: &str) -> ApiError {
    let object = go_value(&Value::Object(object.clone()));
    unclassified(format!("map: {object} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, patch: Object) -> ApiError {
    let (directive, patch) = (go_value(directive), go_value(&Value::Object(patch)));
    unclassified(format!("unknown patch type: {directive} in map: {patch}"))
}

fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;
