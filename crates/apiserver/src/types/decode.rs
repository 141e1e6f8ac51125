//! Reads JSON into a built-in kind as Go's decoder does, and leaves out what its encoder would leave out.

use super::{
    go_value::go_kind,
    quantity,
    table::{self, Field, FieldType, TypeRef, TypeShape},
    time::{self, Precision},
};
use crate::{error::ApiError, go_json::MOST_COMPLAINTS};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// An object as it is stored, and the paths of the fields that were dropped because nobody knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub object: Value,
    pub unknown: Vec<String>,
}

/// Decodes the object of a request's body. Unknown fields are dropped and reported, nulls are dropped, quantities
/// and times get their stored form, and empty values vanish where Go's encoder omits them.
pub fn decode(ty: TypeRef, value: Value) -> Result<Decoded, ApiError> {
    read(ty, value, false)
}

/// Decodes what a strategic merge patch made; what does not fit is refused in other words.
pub fn decode_merged(ty: TypeRef, value: Value) -> Result<Decoded, ApiError> {
    read(ty, value, true)
}

fn read(ty: TypeRef, value: Value, is_merged: bool) -> Result<Decoded, ApiError> {
    let mut decoder = Decoder { unknown: Some(Vec::new()), is_merged };
    let mut object = value;
    let Value::Object(map) = &mut object else {
        let found = found(&object, false);
        let words = format!("json: cannot unmarshal {found} into Go value of type v1.{}", ty.short_name());
        return Err(refusal(ty, &words));
    };
    decoder.structure(ty, map, &Path::Root).map_err(|words| refusal(ty, &words))?;
    Ok(Decoded { object, unknown: decoder.unknown.unwrap_or_default() })
}

fn refusal(ty: TypeRef, words: &str) -> ApiError {
    let (kind, version) = (ty.short_name(), ty.version());
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {words}"))
}

/// Puts back what Go's encoder always writes: fields without `omitempty`, and structs that are no pointers.
pub fn fill_zero_values(ty: TypeRef, object: &mut Value) {
    if let Value::Object(map) = object {
        fill_structure(ty, map);
    }
}

fn fill_structure(ty: TypeRef, map: &mut Map<String, Value>) {
    let mut walk = ty.walk();
    for (name, value) in map.iter_mut() {
        if (value.is_object() || value.is_array())
            && let Some(field) = walk.field(name)
            && field.ty.structure().is_some_and(TypeRef::has_zeros)
        {
            fill_value(&field.ty, value);
        }
    }
    for (name, zero) in ty.always_written() {
        if !map.contains_key(*name) {
            map.insert((*name).to_owned(), zero.clone());
        }
    }
}

fn fill_value(ty: &FieldType, value: &mut Value) {
    match (&ty.shape, value) {
        (TypeShape::Struct(inner), Value::Object(map)) => fill_structure(*inner, map),
        (TypeShape::List(element), Value::Array(items)) => {
            for item in items {
                fill_value(element, item);
            }
        }
        (TypeShape::Map(element), Value::Object(map)) => {
            for item in map.values_mut() {
                fill_value(element, item);
            }
        }
        _ => {}
    }
}

/// What stands in JSON for a field that was not set, if anything.
pub(super) fn written_zero(field: &Field) -> Option<Value> {
    if field.omit_zero {
        return None;
    }
    let is_struct = matches!(
        field.ty.shape,
        TypeShape::Struct(_)
            | TypeShape::Time
            | TypeShape::MicroTime
            | TypeShape::Quantity
            | TypeShape::IntOrString
            | TypeShape::Raw
            | TypeShape::Json
    );
    if field.omit_empty && (field.is_pointer || !is_struct) {
        return None;
    }
    if field.is_pointer {
        return Some(Value::Null);
    }
    Some(match &field.ty.shape {
        TypeShape::Struct(inner) => inner.zero().clone(),
        other => zero(other),
    })
}

fn zero(shape: &TypeShape) -> Value {
    match shape {
        TypeShape::String => Value::from(""),
        TypeShape::Bool => Value::from(false),
        TypeShape::Int32 | TypeShape::Int64 | TypeShape::Float64 | TypeShape::IntOrString => Value::from(0),
        TypeShape::Quantity => Value::from("0"),
        TypeShape::Struct(_) => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// Where the decoder is; kept on the stack and only written out for an error.
enum Path<'a> {
    Root,
    Field { parent: &'a Path<'a>, owner: TypeRef, field: &'a Field },
    Index { parent: &'a Path<'a>, index: usize },
    Key { parent: &'a Path<'a>, key: &'a str },
}

impl Path<'_> {
    /// `spec.containers[0].name`
    fn shown(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field { parent, field, .. } => joined(parent.shown(), field.json),
            Self::Key { parent, key } => joined(parent.shown(), key),
            Self::Index { parent, index } => format!("{}[{index}]", parent.shown()),
        }
    }

    /// The fields as Go's decoder names them: without indices and keys, with embedded structs.
    fn go(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Index { parent, .. } | Self::Key { parent, .. } => parent.go(),
            Self::Field { parent, field, .. } if field.embedded_in.is_empty() => {
                joined(parent.go(), field.json)
            }
            Self::Field { parent, field, .. } => joined(joined(parent.go(), &field.embedded_in), field.json),
        }
    }

    /// The struct that is being filled.
    fn owner(&self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Index { parent, .. } | Self::Key { parent, .. } => parent.owner(),
            Self::Field { owner, .. } => owner.short_name(),
        }
    }
}

fn joined(mut path: String, name: &str) -> String {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    path
}

fn found(value: &Value, with_number: bool) -> Cow<'static, str> {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
        Value::Number(number) if with_number => format!("number {number}").into(),
        Value::Number(_) => "number".into(),
    }
}

struct Decoder {
    /// `None` where a real server does not look for unknown fields.
    unknown: Option<Vec<String>>,
    /// The result of a strategic merge is not read from text; what does so has its own words.
    is_merged: bool,
}

impl Decoder {
    fn mismatch(&self, ty: &FieldType, value: &Value, with_number: bool, path: &Path<'_>) -> String {
        let found = found(value, with_number);
        let go_type = ty.go();
        if !self.is_merged {
            let (owner, path) = (path.owner(), path.go());
            return format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}"
            );
        }
        let source = go_kind(value);
        match &ty.shape {
            TypeShape::Struct(_) => format!("cannot restore struct from: {source}"),
            TypeShape::Map(_) => format!("cannot restore map from {source}"),
            TypeShape::List(_) | TypeShape::Bytes => format!("cannot restore slice from {source}"),
            TypeShape::String if source == "int64" => "cannot convert int64 to string".to_owned(),
            TypeShape::Int32 if value.is_number() => format!("cannot convert {source} to int32"),
            TypeShape::Int64 if value.is_number() => format!("cannot convert {source} to int64"),
            TypeShape::String => "unrecognized type: string".to_owned(),
            TypeShape::Bool | TypeShape::Int32 | TypeShape::Int64 | TypeShape::Float64 => {
                let plain = FieldType { shape: ty.shape.clone(), go_name: "", is_wrapped: false };
                format!("unrecognized type: {}", plain.go())
            }
            _ => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
        }
    }

    fn structure(
        &mut self,
        ty: TypeRef,
        map: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let mut is_some_dropped = false;
        let mut walk = ty.walk();
        for (key, value) in map.iter_mut() {
            let field = walk.field(key);
            if field.is_none()
                && let Some(unknown) = &mut self.unknown
                && unknown.len() < MOST_COMPLAINTS
            {
                unknown.push(joined(path.shown(), key));
            }
            if let Some(field) = field
                && !value.is_null()
            {
                self.value(&field.ty, value, &Path::Field { parent: path, owner: ty, field })?;
                if !field.is_left_out(value) {
                    continue;
                }
            }
            *value = Value::Null;
            is_some_dropped = true;
        }
        if is_some_dropped {
            map.retain(|_, value| !value.is_null());
        }
        Ok(())
    }

    fn value(&mut self, ty: &FieldType, value: &mut Value, path: &Path<'_>) -> Result<(), String> {
        match &ty.shape {
            TypeShape::Raw | TypeShape::Json => {}
            TypeShape::String | TypeShape::IntOrString if value.is_string() => {}
            TypeShape::Bool if value.is_boolean() => {}
            TypeShape::Float64 if value.is_number() => {}
            TypeShape::Int32 | TypeShape::Int64 | TypeShape::IntOrString if is_integer(ty, value) => {}
            TypeShape::Bytes => match value {
                Value::String(text) => base64_text(text)?,
                other => return Err(self.mismatch(ty, other, false, path)),
            },
            TypeShape::Time | TypeShape::MicroTime => {
                let precision =
                    if matches!(ty.shape, TypeShape::Time) { Precision::Seconds } else { Precision::Micros };
                match value {
                    Value::String(text) => {
                        if let Cow::Owned(stored) = time::canonical(text, precision)? {
                            *text = stored;
                        }
                    }
                    other => return Err(self.mismatch(ty, other, false, path)),
                }
            }
            TypeShape::Quantity => stored_quantity(value)?,
            TypeShape::Struct(inner) => match value {
                Value::Object(map) => self.structure(*inner, map, path)?,
                other => return Err(self.mismatch(ty, other, false, path)),
            },
            TypeShape::List(element) => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.element(element, item, &Path::Index { parent: path, index })?;
                    }
                }
                other => return Err(self.mismatch(ty, other, false, path)),
            },
            TypeShape::Map(element) => match value {
                Value::Object(map) => {
                    for (key, item) in map.iter_mut() {
                        self.element(element, item, &Path::Key { parent: path, key })?;
                    }
                }
                other => return Err(self.mismatch(ty, other, false, path)),
            },
            TypeShape::SchemaOrArray | TypeShape::SchemaOrBool | TypeShape::SchemaOrStrings => {
                self.schema_or(&ty.shape, value, path)?;
            }
            TypeShape::Int32 | TypeShape::Int64 | TypeShape::IntOrString => {
                return Err(self.mismatch(ty, value, true, path));
            }
            TypeShape::String | TypeShape::Bool | TypeShape::Float64 => {
                return Err(self.mismatch(ty, value, false, path));
            }
        }
        Ok(())
    }

    /// An element of a list or map: null stands for the zero value.
    fn element(&mut self, ty: &FieldType, value: &mut Value, path: &Path<'_>) -> Result<(), String> {
        if value.is_null() {
            *value = zero(&ty.shape);
            return Ok(());
        }
        self.value(ty, value, path)
    }

    /// The places of a CRD's schema that hold a schema or something else. Go reads them with a decoder of
    /// their own, which does not look for unknown fields and takes what it does not expect as nothing.
    fn schema_or(&mut self, shape: &TypeShape, value: &mut Value, path: &Path<'_>) -> Result<(), String> {
        let Some(ty) = table::schema_props() else { return Ok(()) };
        let unknown = self.unknown.take();
        let result = match (shape, value) {
            (_, Value::Object(map)) => self.structure(ty, map, path),
            (TypeShape::SchemaOrArray, Value::Array(items)) => {
                let element = FieldType { shape: TypeShape::Struct(ty), go_name: "", is_wrapped: false };
                items.iter_mut().try_for_each(|item| self.element(&element, item, path))
            }
            (TypeShape::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (TypeShape::SchemaOrBool, _) => Err("boolean or JSON schema expected".to_owned()),
            (TypeShape::SchemaOrStrings, Value::Array(items)) if items.iter().all(Value::is_string) => Ok(()),
            (_, other) => {
                *other = Value::Object(Map::new());
                Ok(())
            }
        };
        self.unknown = unknown;
        result
    }
}

fn is_integer(ty: &FieldType, value: &Value) -> bool {
    value.as_i64().is_some_and(|number| matches!(ty.shape, TypeShape::Int64) || i32::try_from(number).is_ok())
}

fn stored_quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.to_string()),
    };
    let stored = quantity::canonical(text.trim()).map_err(|error| error.to_string())?;
    if value.as_str().is_none_or(|text| text != stored) {
        *value = Value::String(stored.into_owned());
    }
    Ok(())
}

/// Checks padded base64 and drops line breaks, which Go's decoder skips.
fn base64_text(text: &mut String) -> Result<(), String> {
    let wrong = |place: usize| Err(format!("illegal base64 data at input byte {place}"));
    let is_break = |byte: u8| byte == b'\n' || byte == b'\r';
    if text.bytes().any(is_break) {
        text.retain(|character| character != '\n' && character != '\r');
    }
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let body = text.len() - padding;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    if let Some(place) = text.bytes().take(body).position(|byte| !is_digit(byte)) {
        return wrong(place);
    }
    match (body % 4, padding) {
        (0, 0) | (2, 2) | (3, 1) => Ok(()),
        (0 | 1, 1..) => wrong(body),
        (_, 0) => wrong(body - body % 4),
        (2, 1) => wrong(text.len()),
        _ => wrong(body + 1),
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
