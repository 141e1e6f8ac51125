//! Reading and writing the metadata of an object that is a JSON tree. Not inlined: a request calls these again and
//! again, and one copy stays in the processor's cache.

use crate::json_text::{self, begin_field, push_field};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The metadata to write to; made when it is missing.
#[inline(never)]
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if metadata(object).is_none() {
        if !object.is_object() {
            *object = json!({});
        }
        object["metadata"] = json!({});
    }
    match object.get_mut("metadata") {
        Some(Value::Object(map)) => map,
        _ => unreachable!("it was just made an object"),
    }
}

/// A text of the metadata; empty when it is missing.
#[inline(never)]
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|metadata| metadata.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

pub(crate) fn grace(object: &Value) -> Option<i64> {
    metadata(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = metadata(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

/// Sets a metadata field, or removes it when the value is null.
#[inline(never)]
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let metadata = metadata_mut(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Puts a metadata field of `old` back into `new`.
pub(crate) fn keep(new: &mut Value, old: &Value, field: &str) {
    let value = metadata(old).and_then(|metadata| metadata.get(field)).cloned().unwrap_or_default();
    set(new, field, value);
}

/// The time as objects have it: whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// Encodes an object with its type and metadata first, as a real server does. `managers` is what is put into its
/// metadata as `managedFields`, in JSON.
pub(crate) fn encode(object: &Value, managers: Option<&[u8]>) -> Bytes {
    let Some(fields) = object.as_object() else { return Bytes::from(object.to_string()) };
    let first = ["kind", "apiVersion", "metadata"];
    let head = first.iter().filter_map(|name| fields.get_key_value(*name));
    let tail = fields.iter().filter(|(name, _)| !first.contains(&name.as_str()));
    json_text::with_room(|out| {
        out.push(b'{');
        for (name, value) in head.chain(tail) {
            match (managers, value) {
                (Some(managers), Value::Object(metadata)) if name == "metadata" => {
                    begin_field(out, "", name);
                    encode_metadata(out, metadata, managers);
                }
                _ => push_field(out, name, value),
            }
        }
        out.push(b'}');
        Bytes::copy_from_slice(out)
    })
}

fn encode_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>, managers: &[u8]) {
    let name = "managedFields";
    let mut managers = Some(managers);
    let mut put_managers = |out: &mut Vec<u8>| {
        if let Some(managers) = managers.take() {
            begin_field(out, "", name);
            out.extend_from_slice(managers);
        }
    };
    out.push(b'{');
    for (field, value) in metadata {
        if field.as_str() > name {
            put_managers(out);
        }
        push_field(out, field, value);
    }
    put_managers(out);
    out.push(b'}');
}

/// So deep an object may be nested: what is stored can be read again, with the owners of its fields beside it, and
/// no walk over it needs much of the stack.
pub(crate) const DEEPEST: usize = 100;

/// Whether more than `levels` maps and lists lie in each other.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        _ => false,
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(if number < 10 { b'0' + number } else { b'a' - 10 + number });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Drops what is empty, as a real server does when it encodes: null labels and the like.
pub(crate) fn tidy(object: &mut Value) {
    let metadata = metadata_mut(object);
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_and_written() {
        let mut object = json!({"metadata": {"name": "a", "labels": {}, "finalizers": ["x"], "uid": ""}});
        assert_eq!((name(&object), finalizers(&object)), ("a", vec!["x".to_owned()]));
        tidy(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "a", "finalizers": ["x"]}}));
        set_finalizers(&mut object, &[]);
        set(&mut object, "generation", json!(2));
        assert_eq!(object, json!({"metadata": {"name": "a", "generation": 2}}));
        let mut odd = json!([]);
        set(&mut odd, "name", json!("b"));
        assert_eq!(name(&odd), "b");
    }

    #[test]
    fn type_and_metadata_come_first() {
        let object = json!({"apiVersion": "v1", "data": {"a\"b": 1}, "kind": "K", "metadata": {}, "a": null});
        let text = String::from_utf8(encode(&object, None).to_vec()).unwrap();
        assert!(text.starts_with(r#"{"kind":"K","apiVersion":"v1","metadata":{},"#), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    }

    #[test]
    fn managers_stand_in_their_place() {
        for (metadata, expected) in [
            (json!({}), r#"{"managedFields":[1]}"#),
            (json!({"labels": {}, "name": "a"}), r#"{"labels":{},"managedFields":[1],"name":"a"}"#),
            (json!({"a": 1}), r#"{"a":1,"managedFields":[1]}"#),
        ] {
            let text = encode(&json!({"metadata": metadata}), Some(b"[1]"));
            assert_eq!(text, format!("{{\"metadata\":{expected}}}"));
        }
    }

    #[test]
    fn times_have_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(seconds(time), "2026-01-02T03:04:05Z");
    }
}
