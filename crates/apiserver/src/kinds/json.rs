//! Reading and filling JSON that may have any shape: what is missing or of another type reads as empty.
//!
//! Checks and defaults call these hundreds of times for one object. What searches is not inlined: one copy of it stays
//! in the processor's cache, hundreds do not.

use serde_json::{Map, Value, map::Entry};
use std::cmp::Ordering;

static NULL: Value = Value::Null;

/// The value at a path of field names, `null` where there is none.
#[inline(never)]
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().try_fold(object, |value, key| value.get(key)).unwrap_or(&NULL)
}

/// The fields of these names, which are in order; `null` for what is missing. One walk finds them all.
pub(crate) fn pick<'a, const N: usize>(object: &'a Value, names: [&str; N]) -> [&'a Value; N] {
    debug_assert!(names.is_sorted(), "{names:?}");
    let mut found = [&NULL; N];
    let mut next = 0;
    for (name, value) in object.as_object().into_iter().flatten() {
        while let Some(wanted) = names.get(next) {
            match (**wanted).cmp(name.as_str()) {
                Ordering::Less => next += 1,
                Ordering::Equal => {
                    found[next] = value;
                    next += 1;
                    break;
                }
                Ordering::Greater => break,
            }
        }
    }
    found
}

/// The text at a path, empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

pub(crate) fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).as_i64()
}

pub(crate) fn flag(object: &Value, path: &[&str]) -> bool {
    at(object, path).as_bool().unwrap_or_default()
}

/// The elements of a list at a path; none where there is no list.
pub(crate) fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a map at a path in the order of their keys; none where there is no map.
pub(crate) fn entries<'a>(object: &'a Value, path: &[&str]) -> Vec<(&'a str, &'a Value)> {
    let mut entries: Vec<(&str, &Value)> = at(object, path)
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// Set and not `null`.
pub(crate) fn has(object: &Value, path: &[&str]) -> bool {
    !at(object, path).is_null()
}

/// Nothing, `null`, or an empty text, list or map: what Go leaves out of its JSON.
pub(crate) fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The elements of a list field, to be changed.
pub(crate) fn items_mut<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    list_mut(object, key).iter_mut()
}

#[inline(never)]
fn list_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut [Value] {
    object.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// A map field that is made if there is none; `None` if something else stands there.
#[inline(never)]
pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let fields = object.as_object_mut()?;
    if fields.get(key).is_none_or(Value::is_null) {
        fields.insert(key.to_owned(), Value::Object(Map::new()));
    }
    fields.get_mut(key).filter(|value| value.is_object())
}

/// Fills a field that is missing or `null`.
pub(crate) fn fill(object: &mut Value, key: &str, value: impl Into<Value>) {
    fill_if(object, key, Value::is_null, value.into());
}

/// Fills a field whose empty text counts as missing.
pub(crate) fn fill_text(object: &mut Value, key: &str, value: &str) {
    fill_if(object, key, |old| old.is_null() || old.as_str() == Some(""), value.into());
}

/// Fills a number field whose zero counts as missing.
pub(crate) fn fill_number(object: &mut Value, key: &str, value: i64) {
    fill_if(object, key, |old| old.is_null() || old.as_i64() == Some(0), value.into());
}

#[inline(never)]
fn fill_if(object: &mut Value, key: &str, counts_as_missing: fn(&Value) -> bool, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    match fields.entry(key) {
        Entry::Vacant(place) => {
            place.insert(value);
        }
        Entry::Occupied(mut place) => {
            if counts_as_missing(place.get()) {
                place.insert(value);
            }
        }
    }
}

/// Sets a field of an object; nothing happens on anything else.
pub(crate) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    set_value(object, key, value.into());
}

#[inline(never)]
fn set_value(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

#[inline(never)]
pub(crate) fn remove(object: &mut Value, key: &str) -> Option<Value> {
    object.as_object_mut()?.remove(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_reads_as_empty() {
        let object = json!({"a": {"b": "x", "n": 3, "l": [1], "t": true}, "z": null});
        assert_eq!(text(&object, &["a", "b"]), "x");
        assert_eq!(text(&object, &["a", "b", "c"]), "");
        assert_eq!(number(&object, &["a", "n"]), Some(3));
        assert_eq!(items(&object, &["a", "l"]).len(), 1);
        assert_eq!(items(&object, &["a", "b"]).len(), 0);
        assert!(flag(&object, &["a", "t"]) && !flag(&object, &["a", "n"]));
        assert!(!has(&object, &["z"]) && has(&object, &["a", "b"]));
    }

    #[test]
    fn several_fields_are_picked_at_once() {
        let object = json!({"a": 1, "b": 2, "d": null, "e": 5});
        assert_eq!(pick(&object, ["a", "c", "d", "e", "f"]), [&json!(1), &NULL, &NULL, &json!(5), &NULL]);
        assert_eq!(pick(&object, ["", "b"]), [&NULL, &json!(2)]);
        assert_eq!(pick(&json!([1]), ["a"]), [&NULL]);
    }

    #[test]
    fn filling_keeps_what_is_there() {
        let mut object = json!({"a": "x", "b": "", "c": 0, "d": null, "e": 1});
        fill_text(&mut object, "a", "y");
        fill_text(&mut object, "b", "y");
        fill_number(&mut object, "c", 7);
        fill(&mut object, "d", "z");
        fill(&mut object, "e", 2);
        assert_eq!(object, json!({"a": "x", "b": "y", "c": 7, "d": "z", "e": 1}));
        assert!(child(&mut object, "e").is_none());
        assert!(child(&mut object, "f").is_some());
        fill(&mut json!(3), "a", 1);
    }
}
