//! The rules of single fields, as the specification has them.

use super::answer::Refusal;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, net::IpAddr};

pub(super) type Checked<T> = Result<T, Refusal>;

/// 36 characters, hexadecimal in lower case.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_digit() || ('a'..='f').contains(&c),
        })
}

fn is_alphanumeric(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Names of machine types, networks, volumes and the like.
pub(super) fn is_generic_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 127
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " /._-".contains(c))
}

/// DNS labels with dots between them.
pub(super) fn is_server_name(text: &str) -> bool {
    let label = |part: &str| {
        is_alphanumeric(&part.replace('-', "")) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 63 && text.split('.').all(label)
}

pub(super) fn is_keypair_name(text: &str) -> bool {
    text.len() <= 127 && text.chars().all(|c| c.is_ascii_alphanumeric() || "@._-".contains(c))
}

/// `local-part@domain` in lower case.
pub(super) fn is_mail(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let Some((local, domain)) = text.split_once('@') else { return false };
    text.len() <= 255
        && local.split('.').all(word)
        && domain.contains('.')
        && domain.split('.').all(|part| word(part) && !part.starts_with('-') && !part.ends_with('-'))
}

/// An address, or a range of addresses.
pub(super) fn is_address_or_cidr(text: &str) -> bool {
    match text.split_once('/') {
        None => text.parse::<IpAddr>().is_ok(),
        Some((address, length)) => {
            let digits = !length.is_empty() && length.chars().all(|c| c.is_ascii_digit());
            let longest = match address.parse::<IpAddr>() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            digits && length.parse::<u8>().is_ok_and(|length| length <= longest)
        }
    }
}

/// The text of a label's key or value. The documented pattern has no slash, but STACKIT's own Kubernetes
/// service writes keys with one.
fn is_label(text: &str, may_have_slash: bool) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c) || (may_have_slash && c == '/'))
}

/// The fields of a body, each read with its rule; a problem names the field.
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn of(body: Option<&'a Value>) -> Checked<Self> {
        match body {
            Some(Value::Object(fields)) => Ok(Self(fields)),
            Some(_) => Err(Refusal::bad("the body does not match the schema: it is not an object")),
            None => Err(Refusal::bad("the body does not match the schema: there is none")),
        }
    }

    pub(super) fn part(&self, field: &str) -> Checked<Option<Self>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields))),
            Some(_) => Err(wrong(field, "is not an object")),
        }
    }

    /// Refuses what the schema does not have.
    pub(super) fn only(&self, known: &[&str]) -> Checked<()> {
        match self.0.keys().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => Err(wrong(field, "is not known here")),
        }
    }

    /// The value, if there is one; `null` counts as none.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field is there at all, be it as `null`.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    pub(super) fn text(&self, field: &str, rule: fn(&str) -> bool) -> Checked<Option<String>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if rule(text) => Ok(Some(text.clone())),
            Some(value) => Err(wrong(field, &format!("{value} does not match the pattern"))),
        }
    }

    pub(super) fn required(&self, field: &str, rule: fn(&str) -> bool) -> Checked<String> {
        self.text(field, rule)?.ok_or_else(|| wrong(field, "is required"))
    }

    pub(super) fn truth(&self, field: &str) -> Checked<Option<bool>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(wrong(field, "is neither true nor false")),
        }
    }

    pub(super) fn number(&self, field: &str, least: i64, most: i64) -> Checked<Option<i64>> {
        match self.get(field).map(Value::as_i64) {
            None => Ok(None),
            Some(Some(number)) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(_) => Err(wrong(field, &format!("is not a number from {least} to {most}"))),
        }
    }

    pub(super) fn texts(&self, field: &str, rule: fn(&str) -> bool) -> Checked<Option<Vec<String>>> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let items = value.as_array().ok_or_else(|| wrong(field, "is not a list"))?;
        let texts = items.iter().map(|item| match item {
            Value::String(text) if rule(text) => Ok(text.clone()),
            _ => Err(wrong(field, &format!("{item} does not match the pattern"))),
        });
        texts.collect::<Checked<_>>().map(Some)
    }

    /// Changes to labels: a key with nothing takes the label away.
    pub(super) fn label_changes(&self) -> Checked<BTreeMap<String, Option<String>>> {
        let Some(labels) = self.part("labels")? else { return Ok(BTreeMap::new()) };
        let changes = labels.0.iter().map(|(key, value)| {
            if !is_label(key, true) || key.starts_with("stackit-") {
                return Err(wrong("labels", &format!("the key {key:?} is not valid")));
            }
            match value {
                Value::Null => Ok((key.clone(), None)),
                Value::String(text) if text.is_empty() || is_label(text, false) => {
                    Ok((key.clone(), Some(text.clone())))
                }
                _ => Err(wrong("labels", &format!("{value} of {key:?} is not valid"))),
            }
        });
        changes.collect()
    }

    pub(super) fn labels(&self) -> Checked<BTreeMap<String, String>> {
        Ok(self.label_changes()?.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    /// Changes to metadata, whose values may be of any type.
    pub(super) fn metadata_changes(&self) -> Checked<BTreeMap<String, Value>> {
        let Some(metadata) = self.part("metadata")? else { return Ok(BTreeMap::new()) };
        let changes = metadata.0.iter().map(|(key, value)| {
            let key_fits = (1..=255).contains(&key.len())
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_:. ".contains(c));
            let value_fits = value.as_str().is_none_or(|text| text.chars().count() <= 255);
            if key_fits && value_fits {
                Ok((key.clone(), value.clone()))
            } else {
                Err(wrong("metadata", &format!("{key:?} is not valid")))
            }
        });
        changes.collect()
    }
}

pub(super) fn wrong(field: &str, problem: &str) -> Refusal {
    Refusal::bad(format!("the body does not match the schema: {field} {problem}"))
}

/// An id in a path.
pub(super) fn path_id<'a>(kind: &str, id: &'a str) -> Checked<&'a str> {
    if is_uuid(id) { Ok(id) } else { Err(Refusal::bad(format!("{kind}: {id:?} is an invalid uuid"))) }
}

pub(super) fn change_labels(
    labels: &mut BTreeMap<String, String>,
    changes: BTreeMap<String, Option<String>>,
) {
    for (key, value) in changes {
        match value {
            Some(value) => labels.insert(key, value),
            None => labels.remove(&key),
        };
    }
}

/// A time as the API writes it.
pub(super) fn stamp(time: Timestamp) -> Value {
    Value::String(time.to_string())
}

pub(super) fn any(_: &str) -> bool {
    true
}

pub(super) fn is_description(text: &str) -> bool {
    text.chars().count() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_are_the_documented_ones() {
        type Rule = fn(&str) -> bool;
        let long = "a".repeat(64);
        let cases: [(Rule, &[&str], &[&str]); 6] = [
            (
                is_uuid,
                &["0123abcd-0000-4000-8000-000000000000"],
                &["", "x", "0123ABCD-0000-4000-8000-000000000000", "0123abcd00000-4000-8000-000000000000"],
            ),
            (is_generic_name, &["c2i.2", "a b/c", "A"], &["", "-a", "a-", "a$b", " a"]),
            (is_server_name, &["m-1", "a.b", "A1"], &["", "-a", "a-", "a..b", "a_b", &long]),
            (is_keypair_name, &["", "me@host.a_b-c"], &["a b", "a/b"]),
            (is_mail, &["a-b.c@sa.stackit.cloud"], &["a", "@b.c", "a@b", "A@b.c", "a@-b.c"]),
            (
                is_address_or_cidr,
                &["10.0.0.1", "10.0.0.0/8", "fd00::/64", "::1", "0.0.0.0/0"],
                &["", "10.0.0.0/33", "10.0/8", "10.0.0.0/", "10.0.0.0/+8", "fd00::/129"],
            ),
        ];
        for (at, (rule, good, bad)) in cases.into_iter().enumerate() {
            for text in good {
                assert!(rule(text), "rule {at}: {text:?} is good");
            }
            for text in bad {
                assert!(!rule(text), "rule {at}: {text:?} is bad");
            }
        }
    }

    #[test]
    fn labels_may_have_a_slash_in_keys_only_and_null_removes() {
        let read = |labels: Value| {
            let body = json!({"labels": labels});
            Fields::of(Some(&body)).and_then(|fields| fields.label_changes())
        };
        let good = read(json!({"kubernetes.io/machine": "m-1", "empty": "", "gone": null})).unwrap();
        assert_eq!(good["gone"], None);
        assert_eq!(good["empty"].as_deref(), Some(""));
        for bad in [
            json!({"a": 1}),
            json!({"a": "b/c"}),
            json!({"": "b"}),
            json!({"stackit-a": "b"}),
            json!({"a".repeat(64): "b"}),
            json!({"a": "b".repeat(64)}),
            json!({"-a": "b"}),
            json!([]),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
