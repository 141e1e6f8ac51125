//! Broken JSON, explained in the words of Go's decoder: clients and people compare them.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, map::Entry};
use std::{cell::RefCell, fmt};

/// Parses JSON; the last of several equal keys counts. Also gives the paths of keys that stand there twice.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let duplicates = RefCell::default();
    let value = read(bytes, &duplicates, None)?;
    Ok((value, duplicates.into_inner()))
}

/// Puts paths into the order in which they stand in the text; what does not stand there comes last.
pub(crate) fn sort_by_place(bytes: &[u8], paths: &mut [String]) {
    let places = RefCell::default();
    if read(bytes, &RefCell::default(), Some(&places)).is_ok() {
        let places = places.into_inner();
        paths.sort_by_cached_key(|path| places.iter().position(|place| place == path).unwrap_or(usize::MAX));
    }
}

fn read(
    bytes: &[u8],
    duplicates: &RefCell<Vec<String>>,
    places: Option<&RefCell<Vec<String>>>,
) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Node { above: None, duplicates, places }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// A step on the way to a value.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

struct Node<'a> {
    above: Option<(&'a Node<'a>, Step<'a>)>,
    duplicates: &'a RefCell<Vec<String>>,
    /// All paths in the order of the text, if someone wants to know.
    places: Option<&'a RefCell<Vec<String>>>,
}

impl Node<'_> {
    fn path(&self) -> String {
        match &self.above {
            None => String::new(),
            Some((above, Step::Index(index))) => format!("{}[{index}]", above.path()),
            Some((above, Step::Key(key))) => {
                let start = above.path();
                if start.is_empty() { (*key).to_owned() } else { format!("{start}.{key}") }
            }
        }
    }

    fn below<'b>(&'b self, step: Step<'b>) -> Node<'b> {
        Node { above: Some((self, step)), duplicates: self.duplicates, places: self.places }
    }
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
        while let Some(item) = list.next_element_seed(self.below(Step::Index(out.len())))? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(places) = self.places {
                places.borrow_mut().push(self.below(Step::Key(&key)).path());
            }
            let value = map.next_value_seed(self.below(Step::Key(&key)))?;
            match out.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(mut place) => {
                    let path = self.below(Step::Key(place.key())).path();
                    self.duplicates.borrow_mut().push(path);
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(out))
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
