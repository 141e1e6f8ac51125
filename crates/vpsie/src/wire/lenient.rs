//! VPSie writes flags as numbers, numbers as texts and leaves out what it likes: everything is read in each of these
//! ways, and what cannot be read is as good as left out.

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::fmt;

enum Loose {
    Truth(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Nothing,
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Loose, E> {
        Ok(Loose::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Loose, E> {
        Ok(Loose::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Loose, E> {
        Ok(i64::try_from(number).map_or(Loose::Nothing, Loose::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Loose, E> {
        Ok(Loose::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Loose, E> {
        Ok(Loose::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Nothing)
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LooseVisitor)
    }
}

/// `true`, 1, "1" and "true", or their opposites.
pub(crate) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(match Loose::deserialize(from)? {
        Loose::Truth(truth) => Some(truth),
        Loose::Whole(number) => Some(number != 0),
        Loose::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Some(true),
            "0" | "false" | "off" | "no" => Some(false),
            _ => None,
        },
        Loose::Real(_) | Loose::Nothing => None,
    })
}

/// Whether something went wrong: also a text in place of the flag says so, unless it says the opposite. It is there, so
/// there is always an answer.
pub(crate) fn trouble<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(Some(match Loose::deserialize(from)? {
        Loose::Truth(truth) => truth,
        Loose::Whole(number) => number != 0,
        Loose::Real(number) => number != 0.0,
        Loose::Text(text) => {
            !matches!(text.trim().to_ascii_lowercase().as_str(), "" | "0" | "false" | "null")
        }
        Loose::Nothing => false,
    }))
}

pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(match Loose::deserialize(from)? {
        Loose::Whole(number) => Some(number),
        Loose::Real(number) => format!("{number:.0}").parse().ok(),
        Loose::Text(text) => text.trim().parse().ok(),
        Loose::Truth(_) | Loose::Nothing => None,
    })
}

/// A text that says something; a number is told as it is written.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = match Loose::deserialize(from)? {
        Loose::Text(text) => text,
        Loose::Whole(number) => number.to_string(),
        Loose::Truth(_) | Loose::Real(_) | Loose::Nothing => return Ok(None),
    };
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

pub(crate) fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(text(from)?.and_then(|text| text.trim().parse().ok()))
}

/// An amount of money in millionths.
pub(crate) fn micros<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(match Loose::deserialize(from)? {
        Loose::Whole(number) => u64::try_from(number).ok().and_then(|whole| whole.checked_mul(1_000_000)),
        Loose::Real(number) => micros_of(&format!("{number:.6}")),
        Loose::Text(text) => micros_of(text.trim()),
        Loose::Truth(_) | Loose::Nothing => None,
    })
}

/// Reads a decimal number. What comes after the sixth place is cut off.
fn micros_of(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !(part.is_empty() || digits(part)) {
        return None;
    }
    let part: String = part.chars().chain("000000".chars()).take(6).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part.parse().ok()?)
}

/// The texts of a list: of objects in it their names. One text may stand for a list of them.
pub(crate) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        List(Vec<Item>),
        One(String),
        Other(IgnoredAny),
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Item {
        Text(String),
        Named {
            #[serde(alias = "tag", alias = "tag_name", alias = "tagName")]
            name: String,
        },
        Other(IgnoredAny),
    }
    let texts: Vec<String> = match Texts::deserialize(from)? {
        Texts::List(items) => {
            let text = |item| match item {
                Item::Text(text) | Item::Named { name: text } => Some(text),
                Item::Other(_) => None,
            };
            items.into_iter().filter_map(text).collect()
        }
        Texts::One(text) => text.split(',').map(|tag| tag.trim().to_owned()).collect(),
        Texts::Other(_) => Vec::new(),
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn whatever_form_a_value_has_it_is_read() {
        let odd = || json!([1, {"a": [2]}]);
        let flags = [
            (json!(true), Some(true)),
            (json!(0), Some(false)),
            (json!(2), Some(true)),
            (json!("1"), Some(true)),
            (json!("0"), Some(false)),
            (json!("False"), Some(false)),
            (json!(null), None),
            (json!("maybe"), None),
            (odd(), None),
        ];
        for (value, expected) in flags {
            assert_eq!(flag(&value).unwrap(), expected, "{value}");
        }
        let troubles = [
            (json!(false), false),
            (json!(true), true),
            (json!(1), true),
            (json!(0), false),
            (json!(""), false),
            (json!("false"), false),
            (json!("Unauthorized"), true),
            (json!(null), false),
        ];
        for (value, expected) in troubles {
            assert_eq!(trouble(&value).unwrap(), Some(expected), "{value}");
        }
        let numbers = [
            (json!(7), Some(7)),
            (json!("7"), Some(7)),
            (json!(7.0), Some(7)),
            (json!(u64::MAX), None),
            (json!("seven"), None),
            (json!(null), None),
            (odd(), None),
        ];
        for (value, expected) in numbers {
            assert_eq!(whole(&value).unwrap(), expected, "{value}");
        }
        let strings = [(json!("a"), Some("a")), (json!(5), Some("5")), (json!(" "), None), (json!({}), None)];
        for (value, expected) in strings {
            assert_eq!(text(&value).unwrap().as_deref(), expected, "{value}");
        }
        let moments =
            [(json!("2026-01-01T00:00:00.000Z"), true), (json!("yesterday"), false), (json!(0), false)];
        for (value, expected) in moments {
            assert_eq!(moment(&value).unwrap().is_some(), expected, "{value}");
        }
    }

    #[test]
    fn money_is_exact() {
        let table = [
            (json!(6), Some(6_000_000)),
            (json!(6.5), Some(6_500_000)),
            (json!("12.345678"), Some(12_345_678)),
            (json!("12.3456789"), Some(12_345_678)),
            (json!("7"), Some(7_000_000)),
            (json!(0.1), Some(100_000)),
            (json!(-1), None),
            (json!(-0.5), None),
            (json!("1,5"), None),
            (json!(""), None),
            (json!(null), None),
            (json!(i64::MAX), None),
        ];
        for (value, expected) in table {
            assert_eq!(micros(&value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn tags_come_in_several_shapes() {
        let table: [(Value, &[&str]); 6] = [
            (json!(["a", "b"]), &["a", "b"]),
            (json!([{"name": "a", "id": 1}, {"tag": "b"}, {"tag_name": "c"}, 7, null]), &["a", "b", "c"]),
            (json!("a, b"), &["a", "b"]),
            (json!(""), &[]),
            (json!(null), &[]),
            (json!({"a": 1}), &[]),
        ];
        for (value, expected) in table {
            assert_eq!(texts(&value).unwrap(), expected, "{value}");
        }
    }
}
