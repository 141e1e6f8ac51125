//! What VPSie wraps its answers into.

use super::lenient;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{error::Category, value::RawValue};
use std::fmt;

/// What an answer says about itself, whatever its status.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, deserialize_with = "lenient::trouble")]
    error: Option<bool>,
    #[serde(default, deserialize_with = "lenient::whole")]
    code: Option<i64>,
    #[serde(default, deserialize_with = "lenient::text")]
    message: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient::whole")]
    total: Option<i64>,
    /// As some lists write it.
    #[serde(default, rename = "total ", deserialize_with = "lenient::whole")]
    odd_total: Option<i64>,
}

/// The same where `error` itself holds the words.
#[derive(Deserialize)]
struct Worded {
    #[serde(default, deserialize_with = "lenient::text")]
    error: Option<String>,
}

/// What an answer says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// It says whether something went wrong, as all of VPSie's answers do. What is on the way to it may answer in JSON,
    /// too.
    pub(crate) own: bool,
    pub(crate) refused: bool,
    pub(crate) code: Option<i64>,
    pub(crate) message: Option<String>,
}

impl Told {
    /// Nothing if the answer is none of VPSie's.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        if begins_with(body, b'[') {
            return is_json(body).then(Self::default);
        }
        let Envelope { error, code, message, .. } = serde_json::from_slice(body).ok()?;
        let words = || {
            let Worded { error } = serde_json::from_slice(body).ok()?;
            error.filter(|text| text.contains(char::is_alphabetic))
        };
        let (own, refused) = (error.is_some(), error == Some(true));
        Some(Self { own, refused, code, message: message.or_else(words) })
    }
}

/// Why an answer that should hold something does not. It never shows what the answer holds instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Unreadable {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<serde_json::Error> for Unreadable {
    /// The parser's own words may quote the answer.
    fn from(error: serde_json::Error) -> Self {
        Self::new(match error.classify() {
            Category::Eof | Category::Io => "it is cut off".to_owned(),
            Category::Syntax => "it is not JSON".to_owned(),
            Category::Data => format!("something in it is of another kind, at its byte {}", error.column()),
        })
    }
}

/// The `data` of an answer; the whole of one that has no envelope.
pub(crate) fn data<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    let Envelope { data, .. } = serde_json::from_slice(body)?;
    match data.map(RawValue::get) {
        None | Some("null") => Err(Unreadable::new("there is no data in it")),
        Some(text) => Ok(serde_json::from_str(text)?),
    }
}

/// The same for a list, which may stand for itself, in `data`, or in `data.rows`. One that says that there is more than
/// it holds is no list: what is missing in it would count as absent.
pub(crate) fn list<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, Unreadable> {
    #[derive(Deserialize)]
    #[serde(bound = "T: DeserializeOwned")]
    struct Nested<T> {
        rows: Vec<T>,
        #[serde(default, deserialize_with = "lenient::whole")]
        count: Option<i64>,
    }
    if begins_with(body, b'[') {
        return Ok(serde_json::from_slice(body)?);
    }
    let Envelope { data, total, odd_total, .. } = serde_json::from_slice(body)?;
    let (items, count): (Vec<T>, _) = match data.map(RawValue::get) {
        Some(text) if text.starts_with('[') => (serde_json::from_str(text)?, None),
        Some(text) if text.starts_with('{') => {
            let Nested { rows, count } = serde_json::from_str(text)?;
            (rows, count)
        }
        _ => return Err(Unreadable::new("there is no list in it")),
    };
    let told =
        total.max(odd_total).max(count).and_then(|told| usize::try_from(told).ok()).unwrap_or_default();
    if told > items.len() {
        return Err(Unreadable::new(format!("it holds {} of {told}", items.len())));
    }
    Ok(items)
}

fn begins_with(body: &[u8], wanted: u8) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&wanted)
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(refused: bool, code: Option<i64>, message: Option<&str>) -> Told {
        Told { own: true, refused, code, message: message.map(str::to_owned) }
    }

    fn bare(message: Option<&str>) -> Told {
        Told { message: message.map(str::to_owned), ..Told::default() }
    }

    #[test]
    fn an_answer_tells_of_itself_in_several_ways() {
        let table = [
            (r#"{"error":false,"data":[]}"#, Some(told(false, None, None))),
            (
                r#"{"error":true,"code":404,"message":"x not found"}"#,
                Some(told(true, Some(404), Some("x not found"))),
            ),
            (r#"{"error":1,"code":"403","message":null}"#, Some(told(true, Some(403), None))),
            (r#"{"error":"Unauthorized"}"#, Some(told(true, None, Some("Unauthorized")))),
            (r#"{"error":"1"}"#, Some(told(true, None, None))),
            (r#"{"error":null}"#, Some(told(false, None, None))),
            (r#"{"data":true}"#, Some(bare(None))),
            (r#"{"message":"fine"}"#, Some(bare(Some("fine")))),
            ("[]", Some(bare(None))),
            (" [1, 2]", Some(bare(None))),
            ("[1, 2", None),
            ("<html>", None),
            ("", None),
            ("true", None),
        ];
        for (body, expected) in table {
            assert_eq!(Told::read(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn lists_are_found_wherever_they_are_and_parts_of_them_are_none() {
        let fine = [
            "[1,2]",
            r#"{"error":false,"data":[1,2]}"#,
            r#"{"data":[1,2],"total":2}"#,
            r#"{"data":[1,2],"total":"2"}"#,
            r#"{"data":[1,2],"total ":1}"#,
            r#"{"data":{"rows":[1,2],"count":2}}"#,
            r#"{"data":{"rows":[1,2]}}"#,
        ];
        for body in fine {
            assert_eq!(list::<i64>(body.as_bytes()), Ok(vec![1, 2]), "{body}");
        }
        let none = [
            r#"{"data":[1,2],"total":3}"#,
            r#"{"data":[1,2],"total ":3}"#,
            r#"{"data":{"rows":[1,2],"count":3}}"#,
            r#"{"data":null}"#,
            r#"{"data":true}"#,
            r#"{"data":{}}"#,
            "{}",
            "[1,2",
            "",
        ];
        for body in none {
            assert!(list::<i64>(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        for body in [r#"{"data":"hunter2"}"#, r#"{"data":["hunter2"]}"#, "hunter2", r#"{"data":["hunter2"#] {
            let (one, many) = (data::<i64>(body.as_bytes()), list::<i64>(body.as_bytes()));
            for told in [one.unwrap_err().to_string(), many.unwrap_err().to_string()] {
                assert!(!told.contains("hunter2") && !told.is_empty(), "{body}: {told}");
            }
        }
        assert_eq!(data::<i64>(br#"{"error":false,"data":7}"#), Ok(7));
        assert!(data::<i64>(br#"{"error":false}"#).is_err());
    }
}
