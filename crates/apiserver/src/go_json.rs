//! Broken JSON, explained in the words of Go's decoder: clients and people compare them.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, map::Entry};
use std::{cell::RefCell, collections::BTreeMap, fmt};

/// A real server tells of so many fields that are unknown or given twice.
pub(crate) const MOST_COMPLAINTS: usize = 100;

/// Parses JSON; the last of several equal keys counts. Also gives the paths of keys that stand there twice.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let notes = Notes::default();
    let value = read(bytes, &notes)?;
    Ok((value, notes.duplicates.into_inner()))
}

/// Puts paths into the order in which they stand in the text; what does not stand there comes last.
pub(crate) fn sort_by_place(bytes: &[u8], paths: &mut [String]) {
    let order = RefCell::default();
    let wanted = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    if (Finder { wanted, order: &order }).deserialize(&mut reader).is_ok() {
        let order = order.into_inner();
        paths.sort_by_cached_key(|path| order.get(path).copied().unwrap_or(usize::MAX));
    }
}

fn read(bytes: &[u8], notes: &Notes) -> Result<Value, serde_json::Error> {
    let node = Node { way: None, notes };
    match std::str::from_utf8(bytes) {
        // What is known to be text as a whole is not looked at again string by string.
        Ok(text) => read_with(serde_json::Deserializer::from_str(text), node),
        Err(_) => read_with(serde_json::Deserializer::from_slice(bytes), node),
    }
}

fn read_with<'de, R: serde_json::de::Read<'de>>(
    mut reader: serde_json::Deserializer<R>,
    node: Node<'_>,
) -> Result<Value, serde_json::Error> {
    let value = node.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// What is noted down on the way.
#[derive(Default)]
struct Notes {
    duplicates: RefCell<Vec<String>>,
}

/// The last step on the way to a value.
struct Step<'a> {
    before: Option<&'a Step<'a>>,
    to: To<'a>,
}

enum To<'a> {
    Key(&'a str),
    Index(usize),
}

impl Step<'_> {
    fn path(&self) -> String {
        let start = self.before.map(Self::path).unwrap_or_default();
        match self.to {
            To::Index(index) => format!("{start}[{index}]"),
            To::Key(key) if start.is_empty() => key.to_owned(),
            To::Key(key) => format!("{start}.{key}"),
        }
    }
}

/// Where a value is read.
#[derive(Clone, Copy)]
struct Node<'a> {
    way: Option<&'a Step<'a>>,
    notes: &'a Notes,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            let step = Step { before: self.way, to: To::Index(out.len()) };
            match list.next_element_seed(Node { way: Some(&step), notes: self.notes })? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let step = Step { before: self.way, to: To::Key(&key) };
            let value = map.next_value_seed(Node { way: Some(&step), notes: self.notes })?;
            match out.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(mut place) => {
                    let mut duplicates = self.notes.duplicates.borrow_mut();
                    if duplicates.len() < MOST_COMPLAINTS {
                        duplicates.push(Step { before: self.way, to: To::Key(place.key()) }.path());
                    }
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(out))
    }
}

/// Looks for paths in a text without making values of it, or paths of all there is.
struct Finder<'a> {
    /// The paths that may lie here, each with what is left of it.
    wanted: Vec<(&'a str, &'a str)>,
    /// Those that were found, numbered as they came.
    order: &'a RefCell<BTreeMap<String, usize>>,
}

impl<'a> Finder<'a> {
    fn below(&self, dot: &str, step: &str) -> Finder<'a> {
        let mut below = Finder { wanted: Vec::new(), order: self.order };
        for (path, rest) in &self.wanted {
            match rest.strip_prefix(dot).unwrap_or(rest).strip_prefix(step) {
                Some("") => {
                    let mut order = self.order.borrow_mut();
                    let place = order.len();
                    order.entry((*path).to_owned()).or_insert(place);
                }
                Some(after) if after.starts_with(['.', '[']) => below.wanted.push((path, after)),
                _ => {}
            }
        }
        below
    }
}

impl<'de> DeserializeSeed<'de> for Finder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if self.wanted.is_empty() {
            reader.deserialize_ignored_any(IgnoredAny).map(|_| ())
        } else {
            reader.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Finder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _value: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _value: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _value: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _value: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _value: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while list.next_element_seed(self.below("", &format!("[{index}]")))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(self.below(".", &key))?;
        }
        Ok(())
    }
}

/// What Go calls this type of value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Explains why these bytes are no JSON.
pub(crate) fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let Some(character) = offender(bytes, error) else { return error.to_string() };
    let text = error.to_string();
    let place = if text.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected value") || text.starts_with("expected ident") {
        "looking for beginning of value"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if text.starts_with("expected `,` or `]`") {
        "after array element"
    } else if text.starts_with("trailing characters") {
        "after top-level value"
    } else {
        return text;
    };
    format!("invalid character '{character}' {place}")
}

fn offender(bytes: &[u8], error: &serde_json::Error) -> Option<char> {
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let rest = line.get(error.column().checked_sub(1)?..)?;
    std::str::from_utf8(rest.get(..rest.len().min(4))?).ok()?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_stand_there_twice_are_told() {
        let text = br#"{"a": {"b": [1, {"c": 1, "c": 2.5}]}, "a": null, "d": "x"}"#;
        let (value, duplicates) = parse(text).unwrap();
        assert_eq!(value, serde_json::json!({"a": null, "d": "x"}));
        assert_eq!(duplicates, ["a.b[1].c", "a"]);
        let mut paths = ["d", "x", "a.b[1].c", "a"].map(str::to_owned);
        sort_by_place(text, &mut paths);
        assert_eq!(paths, ["a", "a.b[1].c", "d", "x"]);
    }

    #[test]
    fn no_body_makes_more_of_itself_when_it_is_complained_about() {
        let long = "k".repeat(1 << 20);
        let twice = vec!["\"a\":1"; 100_000].join(",");
        let text = format!("{{\"{long}\":{{{twice}}}}}");
        let (_, duplicates) = parse(text.as_bytes()).unwrap();
        assert_eq!(duplicates.len(), MOST_COMPLAINTS);
        let many: Vec<String> = (0..100_000).map(|number| format!("\"f{number}\":1")).collect();
        let text = format!("{{\"{long}\":{{{}}}}}", many.join(","));
        let mut paths: Vec<String> = (0..100).rev().map(|number| format!("{long}.f{number}")).collect();
        sort_by_place(text.as_bytes(), &mut paths);
        assert_eq!(
            (paths[0].as_str(), paths[99].as_str()),
            (&*format!("{long}.f0"), &*format!("{long}.f99"))
        );
    }

    #[test]
    fn broken_json_is_explained_like_in_go() {
        let cases = [
            ("{bad", "invalid character 'b' looking for beginning of object key string"),
            ("", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{\"a\":1 x}", "invalid character 'x' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
        ];
        for (text, expected) in cases {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(explain(text.as_bytes(), &error), expected, "{text}");
        }
    }
}
