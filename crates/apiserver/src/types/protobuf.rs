//! Kubernetes protobuf to JSON: the envelope that typed Go clients and kubectl send, read by the table.

use super::{
    table::{self, Field, FieldType, TypeRef, TypeShape, Wire},
    time::{self, Precision},
};
use crate::error::ApiError;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// What every body starts with.
pub const PREFIX: &[u8; 4] = b"k8s\0";
/// Deeper than any real object; CRD schemas nest most.
const MAX_DEPTH: usize = 100;

/// The object in a protobuf body, with apiVersion and kind, as a Go client would have written it in JSON. It still
/// has to be decoded: times and quantities are as they were sent.
/// What is no message at all is refused by `unrecognized`, which gets the reason.
pub fn from_protobuf(body: &[u8], unrecognized: impl Fn(&str) -> ApiError) -> Result<Value, ApiError> {
    let Some(envelope) = body.strip_prefix(PREFIX) else {
        return Err(unrecognized(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if envelope.is_empty() {
        return Err(unrecognized("empty body"));
    }
    read(envelope).map_err(|fault| match fault {
        Fault::Malformed(words) => unrecognized(words),
        Fault::UnknownKind { api_version, kind } => {
            ApiError::bad_request(format!("no kind {kind:?} is registered for version {api_version:?}"))
        }
    })
}

enum Fault {
    Malformed(&'static str),
    UnknownKind { api_version: String, kind: String },
}

const CUT_OFF: Fault = Fault::Malformed("unexpected EOF");
const WIRE_TYPE: Fault = Fault::Malformed("proto: illegal wireType");

fn read(envelope: &[u8]) -> Result<Value, Fault> {
    let (mut api_version, mut kind) = (String::new(), String::new());
    let mut raw: &[u8] = &[];
    let mut content_type = String::new();
    for entry in Entries(envelope) {
        match entry? {
            (1, Entry::Bytes(type_meta)) => {
                for entry in Entries(type_meta) {
                    match entry? {
                        (1, Entry::Bytes(text)) => api_version = self::text(text),
                        (2, Entry::Bytes(text)) => kind = self::text(text),
                        _ => {}
                    }
                }
            }
            (2, Entry::Bytes(bytes)) => raw = bytes,
            (4, Entry::Bytes(bytes)) => content_type = text(bytes),
            _ => {}
        }
    }
    let mut object = Object::new();
    if content_type == "application/json" {
        let parsed =
            serde_json::from_slice(raw).map_err(|_| Fault::Malformed("its raw part is no JSON object"))?;
        let Value::Object(parsed) = parsed else {
            return Err(Fault::Malformed("its raw part is no JSON object"));
        };
        object = parsed;
    } else {
        let Some(ty) = table::kind(&api_version, &kind) else {
            return Err(Fault::UnknownKind { api_version, kind });
        };
        structure(ty, raw, &mut object, MAX_DEPTH)?;
    }
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

/// One field of a message as it stands on the wire.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message; ends after the first error.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u32, Entry<'a>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<(u32, Entry<'a>), Fault> {
        let tag = varint(&mut self.0)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or(Fault::Malformed("proto: illegal tag"))?;
        let entry = match tag & 7 {
            0 => Entry::Varint(varint(&mut self.0)?),
            1 => Entry::Fixed(fixed(self.take(8)?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| CUT_OFF)?;
                Entry::Bytes(self.take(length)?)
            }
            5 => Entry::Fixed(fixed(self.take(4)?)),
            _ => return Err(WIRE_TYPE),
        };
        Ok((number, entry))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0;
    for place in 0..10 {
        let (first, rest) = bytes.split_first().ok_or(CUT_OFF)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::Malformed("proto: integer overflow"))
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a message into an object; a message that comes in several parts is put together.
fn structure(ty: TypeRef, message: &[u8], object: &mut Object, depth: usize) -> Result<(), Fault> {
    let depth = depth.checked_sub(1).ok_or(Fault::Malformed("too deeply nested"))?;
    for entry in Entries(message) {
        let (number, entry) = entry?;
        match ty.wire(number) {
            None => {}
            Some(Wire::Embedded(inner)) => {
                let Entry::Bytes(message) = entry else { return Err(WIRE_TYPE) };
                structure(inner, message, object, depth)?;
            }
            Some(Wire::Field(index)) => {
                if let Some(field) = ty.fields().get(index) {
                    self::field(field, entry, object, depth)?;
                }
            }
        }
    }
    Ok(())
}

fn field(field: &Field, entry: Entry<'_>, object: &mut Object, depth: usize) -> Result<(), Fault> {
    match &field.ty.shape {
        TypeShape::List(element) if !field.ty.is_wrapped => {
            let slot = object.entry(field.json).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = slot {
                list_element(element, entry, items, depth)?;
            }
        }
        TypeShape::Map(element) => {
            let slot = object.entry(field.json).or_insert_with(|| Value::Object(Object::new()));
            if let Value::Object(map) = slot {
                let (key, value) = map_entry(element, entry, depth)?;
                map.insert(key, value);
            }
        }
        TypeShape::Struct(inner) => {
            let Entry::Bytes(message) = entry else { return Err(WIRE_TYPE) };
            let slot = object.entry(field.json).or_insert_with(|| Value::Object(Object::new()));
            if let Value::Object(map) = slot {
                structure(*inner, message, map, depth)?;
            }
        }
        _ => {
            let value = single(&field.ty, entry, depth)?;
            if value.is_null() || field.is_left_out(&value) {
                object.remove(field.json);
            } else {
                object.insert(field.json.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn list_element(
    element: &FieldType,
    entry: Entry<'_>,
    items: &mut Vec<Value>,
    depth: usize,
) -> Result<(), Fault> {
    if let (TypeShape::Int32 | TypeShape::Int64 | TypeShape::Bool, Entry::Bytes(mut packed)) =
        (&element.shape, entry)
    {
        while !packed.is_empty() {
            items.push(single(element, Entry::Varint(varint(&mut packed)?), depth)?);
        }
    } else {
        items.push(single(element, entry, depth)?);
    }
    Ok(())
}

fn map_entry(element: &FieldType, entry: Entry<'_>, depth: usize) -> Result<(String, Value), Fault> {
    let Entry::Bytes(message) = entry else { return Err(WIRE_TYPE) };
    let mut key = String::new();
    let mut value = None;
    for entry in Entries(message) {
        match entry? {
            (1, Entry::Bytes(bytes)) => key = text(bytes),
            (2, entry) => value = Some(single(element, entry, depth)?),
            _ => {}
        }
    }
    let value = match value {
        Some(value) => value,
        // An absent value is the zero value.
        None => match &element.shape {
            TypeShape::String | TypeShape::Bytes => Value::from(""),
            TypeShape::Bool => Value::from(false),
            TypeShape::Int32 | TypeShape::Int64 => Value::from(0),
            _ => single(element, Entry::Bytes(&[]), depth)?,
        },
    };
    Ok((key, value))
}

fn single(ty: &FieldType, entry: Entry<'_>, depth: usize) -> Result<Value, Fault> {
    Ok(match (&ty.shape, entry) {
        (TypeShape::Bool, Entry::Varint(value)) => Value::from(value != 0),
        (TypeShape::Int32, Entry::Varint(value)) => Value::from(low_32_bits(value)),
        (TypeShape::Int64, Entry::Varint(value)) => Value::from(value.cast_signed()),
        (TypeShape::Float64, Entry::Fixed(value)) => float(f64::from_bits(value)),
        (TypeShape::String, Entry::Bytes(bytes)) => Value::String(text(bytes)),
        (TypeShape::Bytes, Entry::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
        (TypeShape::Time, Entry::Bytes(message)) => timestamp(message, Precision::Seconds)?,
        (TypeShape::MicroTime, Entry::Bytes(message)) => timestamp(message, Precision::Micros)?,
        (TypeShape::Quantity, Entry::Bytes(message)) => quantity(message)?,
        (TypeShape::IntOrString, Entry::Bytes(message)) => int_or_string(message)?,
        (TypeShape::Raw | TypeShape::Json, Entry::Bytes(message)) => raw_json(message)?,
        (
            TypeShape::SchemaOrArray | TypeShape::SchemaOrBool | TypeShape::SchemaOrStrings,
            Entry::Bytes(message),
        ) => schema_or(&ty.shape, message, depth)?,
        (TypeShape::Struct(inner), Entry::Bytes(message)) => {
            let mut object = Object::new();
            structure(*inner, message, &mut object, depth)?;
            Value::Object(object)
        }
        // A list that is a message of its own.
        (TypeShape::List(element), Entry::Bytes(message)) => {
            let depth = depth.checked_sub(1).ok_or(Fault::Malformed("too deeply nested"))?;
            let mut items = Vec::new();
            for entry in Entries(message) {
                if let (1, entry) = entry? {
                    list_element(element, entry, &mut items, depth)?;
                }
            }
            Value::Array(items)
        }
        _ => return Err(WIRE_TYPE),
    })
}

fn low_32_bits(value: u64) -> i32 {
    let bytes = value.to_le_bytes();
    i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Whole numbers are written without a fraction, as Go does.
fn float(value: f64) -> Value {
    let text = value.to_string();
    text.parse::<i64>().map_or_else(|_| Value::from(value), Value::from)
}

fn timestamp(message: &[u8], precision: Precision) -> Result<Value, Fault> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for entry in Entries(message) {
        match entry? {
            (1, Entry::Varint(value)) => seconds = value.cast_signed(),
            (2, Entry::Varint(value)) => nanos = low_32_bits(value),
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| Fault::Malformed("a time is out of range"))?;
    Ok(Value::String(time::print(time, precision)))
}

fn quantity(message: &[u8]) -> Result<Value, Fault> {
    let mut value = "0".to_owned();
    for entry in Entries(message) {
        if let (1, Entry::Bytes(bytes)) = entry?
            && !bytes.is_empty()
        {
            value = text(bytes);
        }
    }
    Ok(Value::String(value))
}

fn int_or_string(message: &[u8]) -> Result<Value, Fault> {
    let (mut is_string, mut number, mut string) = (false, 0, String::new());
    for entry in Entries(message) {
        match entry? {
            (1, Entry::Varint(kind)) => is_string = kind == 1,
            (2, Entry::Varint(value)) => number = low_32_bits(value),
            (3, Entry::Bytes(bytes)) => string = text(bytes),
            _ => {}
        }
    }
    Ok(if is_string { Value::String(string) } else { Value::from(number) })
}

fn raw_json(message: &[u8]) -> Result<Value, Fault> {
    let mut raw: &[u8] = &[];
    for entry in Entries(message) {
        if let (1, Entry::Bytes(bytes)) = entry? {
            raw = bytes;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|_| Fault::Malformed("a raw value is no JSON"))
}

/// The places of a CRD's schema that hold a schema (the first field for two of them) or something else.
fn schema_or(shape: &TypeShape, message: &[u8], depth: usize) -> Result<Value, Fault> {
    let Some(ty) = table::schema_props() else { return Ok(Value::Null) };
    let schema_number = if matches!(shape, TypeShape::SchemaOrBool) { 2 } else { 1 };
    let mut schema = None;
    let mut allows = false;
    let mut items = Vec::new();
    for entry in Entries(message) {
        match entry? {
            (number, Entry::Bytes(message)) if number == schema_number => {
                structure(ty, message, schema.get_or_insert_with(Object::new), depth)?;
            }
            (1, Entry::Varint(value)) => allows = value != 0,
            (2, Entry::Bytes(bytes)) if matches!(shape, TypeShape::SchemaOrStrings) => {
                items.push(Value::String(text(bytes)));
            }
            (2, Entry::Bytes(message)) => {
                let mut object = Object::new();
                structure(ty, message, &mut object, depth)?;
                items.push(Value::Object(object));
            }
            _ => {}
        }
    }
    Ok(match (shape, schema) {
        (TypeShape::SchemaOrBool, None) => Value::Bool(allows),
        (_, _) if !items.is_empty() => Value::Array(items),
        (_, Some(schema)) => Value::Object(schema),
        (_, None) => Value::Null,
    })
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
