//! Objects as they come over the wire, one that cannot be understood among others.
//!
//! kube's `DeserializeGuard` serves the same end, but it makes two copies of every object in memory before it reads
//! one, and it reads who owns which field, which is the larger half of most objects and of no use here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An object, or why it could not be understood and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K>(pub(super) Result<K, Misunderstood>);

#[derive(Clone, Debug)]
pub(super) struct Misunderstood {
    pub(super) why: String,
    pub(super) metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<K: DeserializeOwned> Guarded<K> {
    /// Fails only if the text is no object, or has no name that can be read.
    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let text = without_owners(text);
        let object = match serde_json::from_str(&text) {
            Ok(object) => Ok(object),
            Err(error) => {
                let Named { metadata } = serde_json::from_str(&text)?;
                Err(Misunderstood { why: error.to_string(), metadata })
            }
        };
        Ok(Self(object))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Box::<RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

/// The object without the list of those who own its fields. Text that is not laid out like an object stays as it is;
/// whoever reads it says what is wrong with it.
fn without_owners(text: &str) -> Cow<'_, str> {
    let shortened = owners(text.as_bytes()).and_then(|(from, to)| {
        let (before, after) = (text.get(..from)?.trim_end(), text.get(to..)?.trim_start());
        // One of the two commas around it goes with it.
        let joined = match after.strip_prefix(',') {
            Some(after) => [before, after].concat(),
            None => [before.strip_suffix(',').unwrap_or(before), after].concat(),
        };
        Some(Cow::Owned(joined))
    });
    shortened.unwrap_or(Cow::Borrowed(text))
}

/// Where `metadata.managedFields` begins and ends.
fn owners(text: &[u8]) -> Option<(usize, usize)> {
    let (_, metadata) = member(text, blank(text, 0), b"\"metadata\"")?;
    let (from, list) = member(text, metadata, b"\"managedFields\"")?;
    Some((from, value(text, list)?))
}

/// Where the member of this quoted name begins in the object at `at`, and where its value does.
fn member(text: &[u8], at: usize, name: &[u8]) -> Option<(usize, usize)> {
    (*text.get(at)? == b'{').then_some(())?;
    let mut key = blank(text, at + 1);
    loop {
        let colon = blank(text, string(text, key)?);
        (*text.get(colon)? == b':').then_some(())?;
        let start = blank(text, colon + 1);
        if text.get(key..)?.starts_with(name) {
            return Some((key, start));
        }
        let comma = blank(text, value(text, start)?);
        (*text.get(comma)? == b',').then_some(())?;
        key = blank(text, comma + 1);
    }
}

/// Behind the white space at `at`.
fn blank(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Behind the string at `at`.
fn string(text: &[u8], at: usize) -> Option<usize> {
    (*text.get(at)? == b'"').then_some(())?;
    let mut next = at + 1;
    loop {
        match text.get(next)? {
            b'"' => return Some(next + 1),
            b'\\' => next += 2,
            _ => next += 1,
        }
    }
}

/// Behind the value at `at`, of whatever kind.
fn value(text: &[u8], at: usize) -> Option<usize> {
    let (mut next, mut depth) = (at, 0_usize);
    loop {
        next = match text.get(next)? {
            b'"' => string(text, next)?,
            b'{' | b'[' => {
                depth += 1;
                next + 1
            }
            b'}' | b']' if depth == 0 => return Some(next),
            b'}' | b']' => {
                depth -= 1;
                next + 1
            }
            b',' if depth == 0 => return Some(next),
            _ => next + 1,
        };
        if depth == 0 && matches!(text.get(next - 1), Some(b'"' | b'}' | b']')) {
            return Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::ObjectList;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn only_the_owners_of_the_object_itself_are_left_out() {
        let owners = json!([{"manager": "a \" } ] b", "fieldsV1": {"f:x": {"k:{\"a\":\"}\"}": [1, {}]}}}]);
        for (what, object) in [
            ("first", json!({"metadata": {"managedFields": owners, "name": "n"}})),
            (
                "last",
                json!({"metadata": {"annotations": {"a": "{\"managedFields\":[1]}"}, "managedFields": owners}}),
            ),
            ("alone", json!({"metadata": {"managedFields": owners}, "spec": {"x": 1}})),
            ("none", json!({"metadata": {"name": "n"}})),
            (
                "elsewhere",
                json!({"spec": {"metadata": {"managedFields": owners}}, "metadata": {"name": "n"}}),
            ),
            (
                "before",
                json!({"a": "\\", "kind": [1, "x", {"metadata": {"managedFields": 1}}], "metadata": {"managedFields": owners}}),
            ),
        ] {
            let mut expected = object.clone();
            if let Some(metadata) = expected["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            for text in [object.to_string(), serde_json::to_string_pretty(&object).unwrap()] {
                let read: Value = serde_json::from_str(&without_owners(&text)).unwrap();
                assert_eq!(read, expected, "{what}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_left_as_it_is_or_stays_an_object(text in r#"[{}\[\],:"\\ a]{0,40}"#) {
            let wrapped = format!(r#"{{"metadata":{{"managedFields":{text}}}}}"#);
            let was = serde_json::from_str::<Value>(&wrapped).is_ok();
            let shortened = without_owners(&wrapped);
            prop_assert!(!was || serde_json::from_str::<Value>(&shortened).is_ok(), "{shortened}");
            without_owners(&text);
        }
    }

    #[test]
    fn one_that_cannot_be_understood_does_not_spoil_the_others() {
        let good = json!({"metadata": {"name": "good", "managedFields": [{"manager": "m"}]}});
        let bad = json!({"metadata": {"name": "bad", "namespace": "n"}, "spec": {"containers": "none"}});
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [good, bad]});
        let list: ObjectList<Guarded<Pod>> = serde_json::from_str(&list.to_string()).unwrap();
        let [Guarded(Ok(one)), Guarded(Err(other))] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!((one.metadata.name.as_deref(), &one.metadata.managed_fields), (Some("good"), &None));
        assert_eq!(other.metadata.name.as_deref(), Some("bad"));
        assert!(other.why.contains("expected a sequence"), "{}", other.why);
    }
}
