//! A watch, line by line.

use super::guard::Guarded;
use crate::{Key, lean::in_metadata};
use futures::{AsyncBufReadExt, Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, core::Status};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, error::Error, io, ops::Range};

/// What one line tells.
pub(super) enum Event {
    Applied(Unread),
    Deleted(Unread),
    /// Everything up to this version was told.
    Bookmark(String),
    Refused(Box<Status>),
}

/// An object that was told and not read yet: most of what a controller is told it has written itself.
pub(super) struct Unread {
    line: String,
    object: Range<usize>,
}

impl Unread {
    fn text(&self) -> &str {
        self.line.get(self.object.clone()).unwrap_or_default()
    }

    pub(super) fn read<K: DeserializeOwned>(&self) -> Result<Guarded<K>, kube::Error> {
        Guarded::read(self.text()).map_err(kube::Error::SerdeError)
    }

    /// Which object it is, and in which version.
    pub(super) fn key_and_version(&self, kind: Cow<'static, str>) -> Option<(Key, &str)> {
        let said = |name: &str| in_metadata(self.text(), name);
        let key = Key::named(kind, said("\"namespace\""), Some(said("\"name\"")?));
        Some((key, said("\"resourceVersion\"")?))
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    metadata: ObjectMeta,
}

/// Sends the request of a watch. The stream ends where the server ends it, or where it is cut off.
pub(super) async fn events(
    client: &Client,
    mut request: http::Request<Vec<u8>>,
) -> Result<impl Stream<Item = Result<Event, kube::Error>> + Send + use<>, kube::Error> {
    // A server may pack every line by itself, which the client below does not unpack.
    let plain = http::HeaderValue::from_static("identity");
    request.headers_mut().entry(http::header::ACCEPT_ENCODING).or_insert(plain);
    let lines = client.request_stream(request).await?.lines();
    Ok(lines.filter_map(async |line| match line {
        Ok(line) => read(line).transpose(),
        Err(error) if is_cut_off(&error) => {
            tracing::debug!(%error, "a watch was cut off");
            None
        }
        Err(error) => Some(Err(kube::Error::ReadEvents(error))),
    }))
}

fn read(line: String) -> Result<Option<Event>, kube::Error> {
    let Line { kind, object } = match serde_json::from_str(&line) {
        Ok(line) => line,
        // The last line before it was cut off.
        Err(error) if error.is_eof() => return Ok(None),
        Err(error) => {
            let status = serde_json::from_str::<Status>(&line).ok();
            return Err(
                status.map_or(kube::Error::SerdeError(error), |status| kube::Error::Api(status.boxed()))
            );
        }
    };
    let event = match &*kind {
        "ADDED" | "MODIFIED" => {
            let object = place(&line, object.get());
            return Ok(Some(Event::Applied(Unread { line, object })));
        }
        "DELETED" => {
            let object = place(&line, object.get());
            return Ok(Some(Event::Deleted(Unread { line, object })));
        }
        "BOOKMARK" => serde_json::from_str::<Marked>(object.get())
            .map(|mark| Event::Bookmark(mark.metadata.resource_version.unwrap_or_default())),
        "ERROR" => serde_json::from_str(object.get()).map(Event::Refused),
        // A kind of news that nobody knows yet.
        _ => return Ok(None),
    };
    event.map(Some).map_err(kube::Error::SerdeError)
}

/// Where a part of a text is in it.
fn place(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr().addr()).saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

/// Whether the server or something on the way has ended the connection.
fn is_cut_off(error: &io::Error) -> bool {
    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut) {
        return true;
    }
    // What an error of this kind holds is not among its sources.
    let mut cause: Option<&(dyn Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(is_cut_off)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn lines_are_read_in_whatever_order_their_members_come() {
        let object =
            r#"{"metadata":{"namespace":"n","name":"a","resourceVersion":"7","managedFields":[{}]}}"#;
        let kind = Cow::Borrowed("ConfigMap");
        let told = |line: &str| match read(line.to_owned()) {
            Ok(Some(Event::Applied(object))) => {
                let version =
                    object.key_and_version(kind.clone()).map(|(key, version)| format!("{key} at {version}"));
                match object.read::<ConfigMap>().unwrap() {
                    Guarded(Ok(map)) => format!("applied {} {version:?}", map.metadata.name.unwrap()),
                    Guarded(Err(other)) => {
                        format!("misunderstood {} {version:?}", other.metadata.name.unwrap())
                    }
                }
            }
            Ok(Some(Event::Deleted(_))) => "deleted".to_owned(),
            Ok(Some(Event::Bookmark(version))) => format!("up to {version}"),
            Ok(Some(Event::Refused(status))) => format!("refused {}", status.code),
            Ok(None) => "nothing".to_owned(),
            Err(kube::Error::Api(status)) => format!("answered {}", status.code),
            Err(error) => format!("wrong: {error}"),
        };
        for (line, expected) in [
            (format!(r#"{{"type":"ADDED","object":{object}}}"#), "applied a Some(\"ConfigMap n/a at 7\")"),
            (format!(r#"{{"object":{object},"type":"MODIFIED"}}"#), "applied a Some(\"ConfigMap n/a at 7\")"),
            (format!(r#"{{"type":"DELETED","object":{object}}}"#), "deleted"),
            (format!(r#"{{"type":"BOOKMARK","object":{object}}}"#), "up to 7"),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"b"},"data":7}}"#.to_owned(),
                "misunderstood b None",
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#.to_owned(),
                "refused 410",
            ),
            (r#"{"kind":"Status","status":"Failure","code":500}"#.to_owned(), "answered 500"),
            (format!(r#"{{"type":"LATER","object":{object}}}"#), "nothing"),
            (r#"{"type":"ADDED","obj"#.to_owned(), "nothing"),
        ] {
            assert_eq!(told(&line), expected, "{line}");
        }
        assert!(told("<html>").starts_with("wrong: "));
    }

    #[test]
    fn a_connection_that_ends_is_no_failure() {
        let nested = io::Error::other(io::Error::new(io::ErrorKind::UnexpectedEof, "peer closed"));
        assert!(
            is_cut_off(&nested) && is_cut_off(&io::Error::other("unexpected EOF during chunk size line"))
        );
        assert!(!is_cut_off(&io::Error::other("connection reset")));
    }
}
