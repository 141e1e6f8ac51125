use crate::{Failure, Outcome};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body as JSON, null when it is none.
    pub json: Value,
    asked: String,
}

impl Reply {
    pub(crate) fn new(asked: String, parts: &http::response::Parts, body: Bytes) -> Self {
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Self { status: parts.status.as_u16(), headers: parts.headers.clone(), body, json, asked }
    }

    pub fn text_body(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// A failure that shows the answer.
    pub fn unlike(&self, expected: &str) -> Failure {
        let mut body = self.text_body();
        if body.chars().count() > 1200 {
            body = format!("{}…", body.chars().take(1200).collect::<String>());
        }
        Failure(format!("{} answered {} {body}\n    but: {expected}", self.asked, self.status))
    }

    pub fn ok(self, status: u16) -> Result<Self, Failure> {
        if self.status == status { Ok(self) } else { Err(self.unlike(&format!("expected {status}"))) }
    }

    /// A `Status` of kind Failure with exactly this code, reason and message.
    pub fn refused(&self, code: u16, reason: &str, message: &str) -> Result<&Self, Failure> {
        self.refused_about(code, reason, message)?;
        self.is("/message", message)?;
        Ok(self)
    }

    /// Like [`Reply::refused`] where only a part of the message is the same on every server.
    pub fn refused_about(&self, code: u16, reason: &str, part: &str) -> Result<&Self, Failure> {
        if self.status != code {
            return Err(self.unlike(&format!("expected {code} {reason}: {part}")));
        }
        self.is("/kind", "Status")?;
        self.is("/apiVersion", "v1")?;
        self.is("/status", "Failure")?;
        self.is("/code", i64::from(code))?;
        if reason.is_empty() {
            self.lacks("/reason")?;
        } else {
            self.is("/reason", reason)?;
        }
        if self.text("/message").contains(part) {
            Ok(self)
        } else {
            Err(self.unlike(&format!("the message should have \"{part}\"")))
        }
    }

    /// Exactly these causes: reason, field, and a part of the message, in this order. A cause that is told twice
    /// in a row counts once: a real server repeats what two of its checks find.
    pub fn causes(&self, expected: &[(&str, &str, &str)]) -> Result<&Self, Failure> {
        let mut found = self.json["details"]["causes"].as_array().cloned().unwrap_or_default();
        found.dedup();
        let same = found.len() == expected.len()
            && found.iter().zip(expected).all(|(cause, (reason, field, message))| {
                cause["reason"].as_str().unwrap_or_default() == *reason
                    && cause["field"].as_str().unwrap_or_default() == *field
                    && cause["message"].as_str().unwrap_or_default().contains(message)
            });
        if same { Ok(self) } else { Err(self.unlike(&format!("expected the causes {expected:?}"))) }
    }

    /// The details of a refusal: kind, group and name of what it is about.
    pub fn details(&self, kind: &str, group: &str, name: &str) -> Result<&Self, Failure> {
        for (field, expected) in [("kind", kind), ("group", group), ("name", name)] {
            if expected.is_empty() {
                self.lacks(&format!("/details/{field}"))?;
            } else {
                self.is(&format!("/details/{field}"), expected)?;
            }
        }
        Ok(self)
    }
}

/// Looks into JSON by pointer, with failures that say what was there.
pub trait Look {
    fn value(&self) -> &Value;
    fn wrong(&self, expected: &str) -> Failure;

    /// Null where there is nothing.
    fn at(&self, pointer: &str) -> &Value {
        static NULL: Value = Value::Null;
        self.value().pointer(pointer).unwrap_or(&NULL)
    }

    /// Empty where there is no string.
    fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    fn is(&self, pointer: &str, expected: impl Into<Value>) -> Outcome
    where
        Self: Sized,
    {
        let expected = expected.into();
        let found = self.at(pointer);
        if *found == expected {
            return Ok(());
        }
        Err(self.wrong(&format!("{pointer} should be {expected} and is {found}")))
    }

    fn lacks(&self, pointer: &str) -> Outcome {
        match self.value().pointer(pointer) {
            None => Ok(()),
            Some(found) => Err(self.wrong(&format!("{pointer} should not be there and is {found}"))),
        }
    }

    fn has(&self, pointer: &str) -> Outcome {
        match self.value().pointer(pointer) {
            Some(found) if !found.is_null() && *found != "" => Ok(()),
            _ => Err(self.wrong(&format!("{pointer} should be there"))),
        }
    }

    /// The names of a list's items, in its order.
    fn names(&self) -> Vec<String> {
        let items = self.at("/items").as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item.text("/metadata/name")).collect()
    }

    fn names_are(&self, expected: &[&str]) -> Outcome {
        let found = self.names();
        if found == expected {
            return Ok(());
        }
        Err(self.wrong(&format!("the items should be {expected:?} and are {found:?}")))
    }

    /// A string inside a field.
    fn contains(&self, pointer: &str, part: &str) -> Outcome {
        if self.text(pointer).contains(part) {
            return Ok(());
        }
        Err(self.wrong(&format!("{pointer} should contain \"{part}\" and is {}", self.at(pointer))))
    }
}

impl Look for Reply {
    fn value(&self) -> &Value {
        &self.json
    }

    fn wrong(&self, expected: &str) -> Failure {
        self.unlike(expected)
    }
}

impl Look for Value {
    fn value(&self) -> &Value {
        self
    }

    fn wrong(&self, expected: &str) -> Failure {
        Failure(format!("{expected}\n    in: {self}"))
    }
}

/// Fails with both values unless they are equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure(format!("{what}: expected {expected:?}, found {found:?}")))
}

/// Fails with the sentence unless it holds.
pub(crate) fn holds(what: &str, truth: bool) -> Outcome {
    if truth { Ok(()) } else { Err(Failure(format!("this should hold: {what}"))) }
}
