//! The fields that a new object sets, written as text right away: whoever creates many objects pays for no tree of
//! them. Gives what [`compare`] finds to be added.

use super::compare::{Form, Inner, Keys, NOBODYS, Shape, fields_of, is_compared};
use crate::json_text::{begin_field, begin_plain_field};
use serde_json::Value;
use std::ops::Range;

/// Writes the set as `FieldsV1` has it; whether it has a member. `before` is what is there before anybody sets
/// anything.
pub(super) fn push_added(
    out: &mut Vec<u8>,
    before: &Value,
    new: &Value,
    shape: Shape<'_>,
    left_out: &[&str],
) -> bool {
    let mut text = Text { out };
    text.out.push(b'{');
    for (name, value) in fields_of(new).filter(|(name, _)| is_compared(name, left_out)) {
        let old = before.get(name);
        let inner = shape.field(name);
        if name == "metadata" {
            text.metadata(old, value, inner);
        } else {
            text.value(&Key::Field(name), old, value, inner);
        }
    }
    let is_empty = text.out.last() == Some(&b'{');
    text.out.push(b'}');
    !is_empty
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

struct Text<'a> {
    out: &'a mut Vec<u8>,
}

impl Text<'_> {
    /// Begins a member; the place to which the text has to be cut if it is none after all.
    fn open(&mut self, key: &Key<'_>, inner: Inner<'_>) -> usize {
        let start = self.out.len();
        match (key, inner) {
            (Key::Field(_), Inner::Field(field)) => {
                begin_plain_field(self.out, &field.member);
            }
            (Key::Field(name), _) => begin_field(self.out, "f:", name),
            (Key::Element(key), _) => begin_field(self.out, "", key),
        }
        self.out.push(b'{');
        start
    }

    /// Nobody owns what the server sets, nor the metadata as such.
    fn metadata(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>) {
        let start = self.open(&Key::Field("metadata"), inner);
        let mut added = false;
        let mut fields = inner.fields();
        for (name, value) in fields_of(new).filter(|(name, _)| !NOBODYS.contains(name)) {
            let before = old.and_then(|old| old.get(name));
            added |= self.value(&Key::Field(name), before, value, fields.field(name)).added;
        }
        if added {
            self.out.push(b'}');
        } else {
            self.out.truncate(start);
        }
    }

    fn value(&mut self, key: &Key<'_>, old: Option<&Value>, new: &Value, inner: Inner<'_>) -> Found {
        if old == Some(new) {
            return Found::default();
        }
        let start = self.open(key, inner);
        let inside = self.out.len();
        let is_same_sort = match old {
            Some(Value::Object(_)) => new.is_object() || new.is_null(),
            Some(Value::Array(_)) => new.is_array() || new.is_null(),
            _ => true,
        };
        let sample = if new.is_null() { old } else { Some(new) };
        let below = match inner.form(sample) {
            _ if !is_same_sort => Found::default(),
            Form::Leaf => Found::default(),
            form => {
                if old.is_none() {
                    self.out.extend_from_slice(b"\".\":{}");
                }
                match form {
                    Form::List(keys) => self.list(old, new, inner, &keys),
                    _ => self.map(old, new, inner),
                }
            }
        };
        if !below.added {
            // Without members below, the member itself has none of the marks.
            self.out.truncate(inside);
            if old.is_some() && below.removed {
                self.out.truncate(start);
                return below;
            }
        }
        self.out.push(b'}');
        Found { added: true, removed: below.removed }
    }

    fn map(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>) -> Found {
        let mut found = Found::default();
        let mut fields = inner.fields();
        for (name, value) in fields_of(new) {
            let before = old.and_then(|old| old.get(name));
            found.note(self.value(&Key::Field(name), before, value, fields.field(name)));
        }
        found.removed |= old.is_some_and(|old| fields_of(old).any(|(name, _)| new.get(name).is_none()));
        found
    }

    fn list(&mut self, old: Option<&Value>, new: &Value, inner: Inner<'_>, keys: &Keys<'_>) -> Found {
        let mut found = Found::default();
        let (old, new) = (Elements::of(keys, old), Elements::of(keys, Some(new)));
        found.removed = old.iter().any(|(key, _)| new.find(key).is_none());
        let element = inner.element();
        let mut elements = new.iter().peekable();
        while let Some((key, item)) = elements.next() {
            // Of several elements with one key the last one counts.
            if elements.peek().is_none_or(|(next, _)| *next != key) {
                found.note(self.value(&Key::Element(key), old.find(key), item, element));
            }
        }
        found
    }
}

/// The elements of a list in the order of their keys.
struct Elements<'a> {
    /// All keys, one behind the other.
    keys: String,
    items: Vec<(Range<usize>, &'a Value)>,
}

impl<'a> Elements<'a> {
    fn of(keys: &Keys<'_>, list: Option<&'a Value>) -> Self {
        let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut elements =
            Self { keys: String::with_capacity(32 * list.len()), items: Vec::with_capacity(list.len()) };
        for item in list {
            let start = elements.keys.len();
            keys.push(&mut elements.keys, item);
            elements.items.push((start..elements.keys.len(), item));
        }
        let Self { keys, items } = &mut elements;
        items.sort_by(|(one, _), (two, _)| keys[one.clone()].cmp(&keys[two.clone()]));
        elements
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &'a Value)> {
        self.items.iter().map(|(range, item)| (&self.keys[range.clone()], *item))
    }

    fn find(&self, key: &str) -> Option<&'a Value> {
        self.iter().find(|(other, _)| *other == key).map(|(_, item)| item)
    }
}

impl Found {
    fn note(&mut self, other: Self) {
        self.added |= other.added;
        self.removed |= other.removed;
    }
}
