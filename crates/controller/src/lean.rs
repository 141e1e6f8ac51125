//! Objects without the list of those who own their fields: it is the larger half of most of them, of no use here, and
//! dear to read.

use hostler_base::{Body, BoxError, Transport, transport};
use http::{Request, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use std::borrow::Cow;

/// Leaves the owners out of every answer that is one object. A server takes an object without them as one whose owners
/// stay as they are.
pub(crate) fn without_owners_in_answers(inner: Transport) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let streams = crate::client::is_watch(&request);
        let answer = transport::send(&inner, request);
        async move {
            let answer = answer.await?;
            if streams {
                return Ok::<_, BoxError>(answer);
            }
            let (mut head, body) = answer.into_parts();
            let body = body.collect().await?.to_bytes();
            let Ok(Cow::Owned(shortened)) = str::from_utf8(&body).map(without_owners) else {
                return Ok(http::Response::from_parts(head, transport::full(body)));
            };
            head.headers.remove(CONTENT_LENGTH);
            Ok(http::Response::from_parts(head, transport::full(shortened)))
        }
    }))
}

/// The object without the list of those who own its fields. Text that is not laid out like an object stays as it is;
/// whoever reads it says what is wrong with it.
pub(crate) fn without_owners(text: &str) -> Cow<'_, str> {
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

/// What `metadata` says in this member, if it is a plain text.
pub(crate) fn in_metadata<'a>(object: &'a str, quoted_name: &str) -> Option<&'a str> {
    let text = object.as_bytes();
    let (_, metadata) = member(text, blank(text, 0), b"\"metadata\"")?;
    let (_, start) = member(text, metadata, quoted_name.as_bytes())?;
    let plain = object.get(start + 1..string(text, start)? - 1)?;
    (!plain.contains('\\')).then_some(plain)
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
    fn what_metadata_says_is_found_where_it_is_plain() {
        let object = json!({"kind": "x", "spec": {"metadata": {"name": "other"}}, "metadata":
            {"labels": {"name": "label"}, "name": "n", "namespace": "a\"b", "generation": 5}})
        .to_string();
        let said = |name: &str| in_metadata(&object, name);
        assert_eq!(said("\"name\""), Some("n"));
        for unsaid in ["\"namespace\"", "\"generation\"", "\"uid\""] {
            assert_eq!(said(unsaid), None, "{unsaid}");
        }
        for broken in
            ["", "{", r#"{"metadata":{"name":"#, r#"{"metadata":{"name":""#, r#"{"metadata":"name"}"#]
        {
            assert_eq!(in_metadata(broken, "\"name\""), None, "{broken}");
        }
    }

    #[tokio::test]
    async fn answers_lose_their_owners_and_nothing_else() {
        for (path, told, expected) in [
            (
                "/a",
                r#"{"metadata":{"name":"n","managedFields":[{"manager":"m"}]},"x":1}"#,
                r#"{"metadata":{"name":"n"},"x":1}"#,
            ),
            ("/a", "no object", "no object"),
            ("/a?watch=true", r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{"managedFields":[]}}"#),
        ] {
            let server = tower::service_fn(move |_: Request<Body>| async move {
                let answer = http::Response::builder().header(CONTENT_LENGTH, told.len());
                Ok::<_, BoxError>(answer.body(transport::full(told)).unwrap())
            });
            let lean = without_owners_in_answers(transport::from_service(server));
            let request = Request::get(path).body(transport::empty()).unwrap();
            let answer = transport::exchange(&lean, request, 1 << 10).await.unwrap();
            let length =
                answer.headers().get(CONTENT_LENGTH).map(|length| length.to_str().unwrap().to_owned());
            assert_eq!(length.is_none(), told != expected);
            assert_eq!(answer.into_body(), expected);
        }
    }
}
