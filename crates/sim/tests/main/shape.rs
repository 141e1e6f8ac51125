//! The shape of a JSON object, and a checker for it.

use serde_json::Value;

/// A field's type.
#[derive(Clone, Copy)]
pub enum Kind {
    Uuid,
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    Whole,
    /// Any number.
    Number,
    /// 0 or 1.
    Bit,
    Truth,
    Time,
    Mac,
    Address,
    /// Any object.
    Map,
    /// An object with texts in it.
    Labels,
    List(&'static Kind),
    Object(&'static Shape),
    /// Or `null`.
    Nullable(&'static Kind),
}

use Kind::{
    Address, Bit, Labels, List, Mac, Map, Nullable, Number, Object, Text, Time, Truth, Uuid, Whole, Word,
};

/// An object's fields: name, type, and whether there is no object without it. There are no other fields.
pub struct Shape(pub &'static [(&'static str, Kind, bool)]);

/// What is wrong with a value, with the way to it.
fn problem(value: &Value, kind: Kind) -> Option<String> {
    let fits = match kind {
        Nullable(inner) => return if value.is_null() { None } else { problem(value, *inner) },
        Object(shape) => return misshapen(value, &[shape]),
        List(inner) => match value.as_array() {
            None => false,
            Some(items) => {
                let mut problems =
                    items.iter().enumerate().filter_map(|(at, item)| Some((at, problem(item, *inner)?)));
                return problems.next().map(|(at, problem)| format!("[{at}]{problem}"));
            }
        },
        Uuid => value.as_str().is_some_and(|text| {
            text.len() == 36
                && text.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c))
        }),
        Text => value.is_string(),
        Word(known) => value.as_str().is_some_and(|text| known.contains(&text)),
        Whole => value.is_i64(),
        Number => value.is_number(),
        Bit => value == 0 || value == 1,
        Truth => value.is_boolean(),
        Time => {
            value.as_str().is_some_and(|text| text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok())
        }
        Mac => value.as_str().is_some_and(|text| {
            text.len() == 17
                && text.split(':').all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok())
        }),
        Address => value.as_str().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok()),
        Map => value.is_object(),
        Labels => value.as_object().is_some_and(|labels| labels.values().all(Value::is_string)),
    };
    (!fits).then(|| format!(": {value} does not fit"))
}

/// What is wrong with an object that is to have the fields of these shapes.
pub fn misshapen(value: &Value, shapes: &[&Shape]) -> Option<String> {
    let Some(object) = value.as_object() else { return Some(format!(": {value} is no object")) };
    let fields = || shapes.iter().flat_map(|shape| shape.0);
    if let Some(name) = object.keys().find(|name| fields().all(|(known, _, _)| known != name)) {
        return Some(format!(".{name} is not in the schema"));
    }
    fields().find_map(|(name, kind, required)| match object.get(*name) {
        None => required.then(|| format!(".{name} is missing")),
        Some(value) => problem(value, *kind).map(|problem| format!(".{name}{problem}")),
    })
}
