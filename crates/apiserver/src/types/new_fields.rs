//! The fields that a new object sets, written as text right away: whoever creates many objects pays for no tree of
//! them. Gives what [`compare`] finds to be added.

use super::compare::{Form, Inner, Keys, NOBODYS, Shape, fields_of, is_compared};
use serde_json::Value;

/// The set as `FieldsV1` has it; `None` if it is empty. `before` is what is there before anybody sets anything.
pub(super) fn added(before: &Value, new: &Value, shape: Shape<'_>, left_out: &[&str]) -> Option<String> {
    let mut text = Text { out: String::with_capacity(2048) };
    text.out.push('{');
    for (name, value) in fields_of(new).filter(|(name, _)| is_compared(name, left_out)) {
        let old = before.get(name);
        let inner = shape.field(name);
        if name == "metadata" {
            text.metadata(old, value, inner);
        } else {
            text.value(&Key::Field(name), old, value, inner);
        }
    }
    text.out.push('}');
    (text.out.len() > 2).then_some(text.out)
}

/// How a member of a set is called.
enum Key<'a> {
    /// `f:name`
    Field(&'a str),
    /// `k:{"name":"a"}` or `v:"a"`
    Element(&'a str),
}

/// Which sets got a member.
#[derive(Clone, Copy, Default)]
struct Found {
    added: bool,
    removed: bool,
}

struct Text {
    out: String,
}

impl Text {
    /// Begins a member; the place to which the text has to be cut if it is none after all.
    fn open(&mut self, key: &Key<'_>) -> usize {
        let start = self.out.len();
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        match key {
            Key::Field(name) => push_quoted(&mut self.out, "f:", name),
            Key::Element(key) => push_quoted(&mut self.out, "", key),
        }
        self.out.push_str(":{");
        start
    }

    /// Nobody owns what the server sets, nor the metadata as such.
    fn metadata(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>) {
        let start = self.open(&Key::Field("metadata"));
        let mut added = false;
        for (name, value) in fields_of(new).filter(|(name, _)| !NOBODYS.contains(name)) {
            let before = old.and_then(|old| old.get(name));
            added |= self.value(&Key::Field(name), before, value, inner.field(name)).added;
        }
        if added {
            self.out.push('}');
        } else {
            self.out.truncate(start);
        }
    }

    fn value(&mut self, key: &Key<'_>, old: Option<&Value>, new: &Value, inner: Inner<'_>) -> Found {
        if old == Some(new) {
            return Found::default();
        }
        let start = self.open(key);
        let inside = self.out.len();
        if old.is_none() {
            self.out.push_str("\".\":{}");
        }
        let is_same_sort = match old {
            Some(Value::Object(_)) => new.is_object() || new.is_null(),
            Some(Value::Array(_)) => new.is_array() || new.is_null(),
            _ => true,
        };
        let sample = if new.is_null() { old } else { Some(new) };
        let below = match inner.form(sample) {
            _ if !is_same_sort => Found::default(),
            Form::Leaf => Found::default(),
            Form::Map => self.map(old, new, inner),
            Form::List(keys) => self.list(old, new, inner, &keys),
        };
        if !below.added {
            // Without members below, the member itself has none of the marks.
            self.out.truncate(inside);
            if old.is_some() && below.removed {
                self.out.truncate(start);
                return below;
            }
        }
        self.out.push('}');
        Found { added: true, removed: below.removed }
    }

    fn map(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>) -> Found {
        let mut found = Found::default();
        for (name, value) in fields_of(new) {
            let before = old.and_then(|old| old.get(name));
            found.note(self.value(&Key::Field(name), before, value, inner.field(name)));
        }
        found.removed |= old.is_some_and(|old| fields_of(old).any(|(name, _)| new.get(name).is_none()));
        found
    }

    fn list(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>, keys: &Keys<'_>) -> Found {
        let mut found = Found::default();
        let (old, mut new) = (keys.items(old), keys.items(Some(new)));
        found.removed = old.iter().any(|(key, _)| !new.iter().any(|(other, _)| other == key));
        // The members of a set are in order; of several elements with one key the last one counts.
        new.sort_by(|(one, _), (two, _)| one.cmp(two));
        let element = inner.element();
        for (index, (key, item)) in new.iter().enumerate() {
            if new.get(index + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            let before = old.iter().find(|(other, _)| other == key).map(|(_, item)| *item);
            found.note(self.value(&Key::Element(key), before, item, element));
        }
        found
    }
}

impl Found {
    fn note(&mut self, other: Self) {
        self.added |= other.added;
        self.removed |= other.removed;
    }
}

/// Appends a JSON string; most names need no escapes and are copied as they are.
pub(super) fn push_quoted(out: &mut String, prefix: &str, text: &str) {
    out.push('"');
    out.push_str(prefix);
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push_str(text);
        out.push('"');
    } else {
        let escaped = Value::from(text).to_string();
        out.push_str(escaped.strip_prefix('"').unwrap_or(&escaped));
    }
}
