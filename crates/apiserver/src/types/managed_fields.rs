//! `metadata.managedFields`: who set which field. Keeps entries of operation Update; those of Apply are kept
//! and lose what others change.

pub use super::compare::Shape;
use super::{
    compare::{self, Changes},
    field_set::{self, FieldSet},
    new_fields,
    time::{self, Precision},
};
use crate::json_text::{begin_field, push_text};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    /// See [`manager_name`].
    pub manager: &'a str,
    /// The version that the request was made in.
    pub api_version: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    pub time: Timestamp,
    /// Top-level fields that this request cannot change, for example `status`.
    pub left_out: &'a [&'a str],
}

/// More entries of operation Update are put together.
const MAX_UPDATERS: usize = 10;
const OLD_UPDATERS: &str = "ancient-changes";
const MAX_NAME: usize = 128;

/// The manager's name: the query parameter `fieldManager`, else the user agent up to the first slash.
pub fn manager_name(field_manager: Option<&str>, user_agent: &str) -> String {
    if let Some(name) = field_manager.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let mut name = String::new();
    let agent = user_agent.split('/').next().unwrap_or_default();
    for character in agent.chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > MAX_NAME {
            break;
        }
        name.push(character);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Writes `metadata.managedFields` of `new`. To be called with the decoded and defaulted object as
/// [`super::fill_zero_values`] completes it, before the server itself changes anything.
/// `old` is what is stored; see [`of_new`] for a create.
pub fn record(old: &Value, new: &mut Value, who: &Writer<'_>, shape: Shape<'_>) {
    let mut entries = entries_before(old, new, who);
    let changes = compare::compare(old, new, shape, who.left_out);
    apply(&mut entries, changes, who);
    let Some(fields) = new.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        let entries = entries.into_iter().map(Value::Object).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// Writes `metadata.managedFields` of an object that is created, as JSON text, into an empty buffer; whether anything
/// is set. To be called at the same point as [`record`]; nobody looks at the list again before the object is encoded.
pub fn of_new(out: &mut Vec<u8>, new: &Value, who: &Writer<'_>, shape: Shape<'_>) -> bool {
    out.extend_from_slice(b"[{");
    let put = |out: &mut Vec<u8>, name: &str, text: &str| {
        begin_field(out, "", name);
        push_text(out, "", text);
    };
    put(out, "apiVersion", who.api_version);
    put(out, "fieldsType", "FieldsV1");
    begin_field(out, "", "fieldsV1");
    let is_any = new_fields::push_added(out, before_all(shape), new, shape, who.left_out);
    put(out, "manager", who.manager);
    put(out, "operation", "Update");
    if !who.subresource.is_empty() {
        put(out, "subresource", who.subresource);
    }
    put(out, "time", &time::print(who.time, Precision::Seconds));
    out.extend_from_slice(b"}]");
    is_any
}

/// What is there before anybody sets anything: structs that are no pointers.
fn before_all(shape: Shape<'_>) -> &'static Value {
    match shape {
        Shape::Builtin(ty) => ty.zero(),
        Shape::Schema(_) | Shape::Untyped => &Value::Null,
    }
}

type Entry = Map<String, Value>;

fn text<'a>(entry: &'a Entry, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn entries_of(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// The entries that hold before this write: those that were sent, unless there are none worth reading. An empty
/// list or a single empty entry wipes them out.
fn entries_before(old: &Value, new: &mut Value, who: &Writer<'_>) -> Vec<Entry> {
    let readable = |entries: &Vec<Value>| -> Vec<Entry> {
        entries
            .iter()
            .filter_map(Value::as_object)
            .filter(|entry| {
                matches!(text(entry, "operation"), "Apply" | "Update")
                    && entry.get("fieldsV1").is_some_and(Value::is_object)
            })
            .cloned()
            .collect()
    };
    if who.subresource.is_empty()
        && let Some(sent) = entries_of(new)
    {
        match sent.as_slice() {
            [] => return Vec::new(),
            [Value::Object(entry)] if entry.is_empty() => return Vec::new(),
            _ => {}
        }
        let sent = readable(sent);
        if !sent.is_empty() {
            return sent;
        }
    }
    entries_of(old).map(readable).unwrap_or_default()
}

fn apply(entries: &mut Vec<Entry>, changes: Changes, who: &Writer<'_>) {
    for set in [&changes.added_or_modified, &changes.removed] {
        if !set.is_empty() {
            for entry in entries.iter_mut() {
                if let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") {
                    field_set::subtract(fields, set);
                }
            }
        }
    }
    let is_mine = |entry: &Entry| {
        text(entry, "operation") == "Update"
            && text(entry, "manager") == who.manager
            && text(entry, "apiVersion") == who.api_version
            && text(entry, "subresource") == who.subresource
    };
    if !changes.added_or_modified.is_empty() {
        let time = Value::String(time::print(who.time, Precision::Seconds));
        if let Some(mine) = entries.iter_mut().find(|entry| is_mine(entry)) {
            mine.insert("time".to_owned(), time);
            if let Some(Value::Object(fields)) = mine.get_mut("fieldsV1") {
                field_set::add(fields, changes.added_or_modified);
            }
        } else {
            entries.push(new_entry(who.manager, who, time, changes.added_or_modified));
        }
    }
    entries
        .retain(|entry| entry.get("fieldsV1").and_then(Value::as_object).is_some_and(|set| !set.is_empty()));
    put_old_ones_together(entries, who);
    entries.sort_by(|left, right| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .into_iter()
            .map(|name| text(left, name).cmp(text(right, name)))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
}

fn new_entry(manager: &str, who: &Writer<'_>, time: Value, fields: FieldSet) -> Entry {
    let mut entry = Entry::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("manager", Value::from(manager));
    put("operation", Value::from("Update"));
    put("apiVersion", Value::from(who.api_version));
    put("time", time);
    put("fieldsType", Value::from("FieldsV1"));
    put("fieldsV1", Value::Object(fields));
    if !who.subresource.is_empty() {
        put("subresource", Value::from(who.subresource));
    }
    entry
}

/// Keeps the list short: the oldest updates of one version become one entry.
fn put_old_ones_together(entries: &mut Vec<Entry>, who: &Writer<'_>) {
    let is_update = |entry: &Entry| text(entry, "operation") == "Update";
    while entries.iter().filter(|entry| is_update(entry)).count() > MAX_UPDATERS {
        let mut oldest: Vec<usize> = (0..entries.len())
            .filter(|index| {
                is_update(&entries[*index]) && text(&entries[*index], "apiVersion") == who.api_version
            })
            .collect();
        oldest.sort_by(|left, right| {
            let key = |index: &usize| (text(&entries[*index], "time"), text(&entries[*index], "manager"));
            key(left).cmp(&key(right))
        });
        let [first, second, ..] = oldest[..] else { return };
        let (keep, take) = (first.min(second), first.max(second));
        let time = entries[second].get("time").cloned().unwrap_or_default();
        let mut taken = entries.remove(take);
        let Some(Value::Object(mut fields)) = entries[keep].remove("fieldsV1") else { return };
        if let Some(Value::Object(more)) = taken.remove("fieldsV1") {
            field_set::add(&mut fields, more);
        }
        let bucket = Writer { subresource: "", ..who.clone() };
        entries[keep] = new_entry(OLD_UPDATERS, &bucket, time, fields);
    }
}

#[cfg(test)]
#[path = "managed_fields_tests.rs"]
mod tests;
