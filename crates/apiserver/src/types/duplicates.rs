//! Finds fields that a JSON text has twice, which a decoded tree no longer shows.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

/// One warning per field that stands in an object more than once, as a real server words it. A text that is no
/// JSON has none.
pub fn duplicate_fields(text: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let walk = Walk { path: &mut String::new(), found: &mut found };
    if walk.deserialize(&mut deserializer).is_err() {
        return Vec::new();
    }
    found
}

struct Walk<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0.. {
            let _ = write!(self.path, "[{index}]");
            let next = items.next_element_seed(Walk { path: self.path, found: self.found })?;
            self.path.truncate(length);
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            fields.next_value_seed(Walk { path: self.path, found: self.found })?;
            if !seen.insert(key) {
                self.found.push(format!("duplicate field {:?}", self.path));
            }
            self.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_by_path() {
        let text = r#"{"foo":1,"data":{"a":"1","a":"2"},"data":{"a":"3"},"l":[{"x":null,"y":true,"x":1.5}]}"#;
        let expected =
            [r#"duplicate field "data.a""#, r#"duplicate field "data""#, r#"duplicate field "l[0].x""#];
        assert_eq!(duplicate_fields(text.as_bytes()), expected);
        assert_eq!(duplicate_fields(br#"{"a":1,"a":2"#), Vec::<String>::new());
    }
}
