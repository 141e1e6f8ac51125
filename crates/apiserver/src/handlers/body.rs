//! Bodies: read with a limit, decoded by their content type.

use crate::{
    error::ApiError,
    go_json,
    negotiate::{self, Encoding},
    object, types,
};
use bytes::{Bytes, BytesMut};
use hostler_base::transport::Body;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::Value;

const LIMIT: usize = 3 * 1024 * 1024;
/// So much of a body that is too large is read and thrown away: a client that is cut off while it sends does not
/// see the answer.
const DRAINED: usize = 16 * LIMIT;

pub(super) async fn read(mut body: Body) -> Result<Bytes, ApiError> {
    let (mut first, mut out, mut length) = (Bytes::new(), BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let is_first = length == 0;
        length += data.len();
        if length > DRAINED {
            break;
        } else if length > LIMIT {
            continue;
        }
        // Most bodies come in one part, which is not copied.
        if is_first {
            first = data;
        } else {
            out.extend_from_slice(&std::mem::take(&mut first));
            out.extend_from_slice(&data);
        }
    }
    if length > LIMIT {
        return Err(ApiError::too_large(format!("Request entity too large: limit is {LIMIT}")));
    }
    Ok(if out.is_empty() { first } else { out.freeze() })
}

/// Decodes a body to a JSON tree; `kind` is what it should hold.
pub(super) fn decode(headers: &HeaderMap, kind: &str, body: &Bytes) -> Result<Value, ApiError> {
    decode_strictly(headers, kind, body).map(|(value, _)| value)
}

/// What is known about the text an object came from.
#[derive(Default)]
pub(super) struct Source {
    duplicates: Vec<String>,
    text: Bytes,
}

impl Source {
    /// What a real server says about fields it does not know and fields that are given twice.
    pub(super) fn complaints(&self, mut unknown: Vec<String>) -> Vec<String> {
        go_json::sort_by_place(&self.text, &mut unknown);
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        unknown.chain(self.duplicates.iter().map(|path| format!("duplicate field {path:?}"))).collect()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.duplicates.is_empty()
    }
}

/// Decodes a body and tells which of its fields are given twice.
pub(super) fn decode_strictly(
    headers: &HeaderMap,
    kind: &str,
    body: &Bytes,
) -> Result<(Value, Source), ApiError> {
    match negotiate::encoding(headers)? {
        Encoding::Json => {
            let (value, duplicates) = json(kind, body)?;
            Ok((value, Source { duplicates, text: body.clone() }))
        }
        Encoding::Yaml => Ok((yaml(body)?, Source::default())),
        Encoding::Protobuf => {
            let value = types::from_protobuf(body, |why| unrecognized(kind, why, body))?;
            Ok((value, Source::default()))
        }
    }
}

/// The refusal of a body of which not even the kind can be read.
fn unrecognized(kind: &str, why: &str, body: &[u8]) -> ApiError {
    let shown = if body.is_empty() { "<empty>".to_owned() } else { summary(body) };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

fn json(kind: &str, body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let unrecognized = |why: String| {
        unrecognized(kind, &format!("couldn't get version/kind; json parse error: {why}"), body)
    };
    let (value, duplicates) =
        go_json::parse(body).map_err(|error| unrecognized(go_json::explain(body, &error)))?;
    if value.is_object() {
        return Ok((value, duplicates));
    }
    let name = go_json::type_name(&value);
    Err(unrecognized(format!(
        "json: cannot unmarshal {name} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )))
}

/// The start of a body as a real server shows it: text as it is, the rest in hexadecimal.
fn summary(body: &[u8]) -> String {
    let start = body.get(..body.len().min(30)).unwrap_or_default();
    let more = if body.len() > 30 { " ..." } else { "" };
    match std::str::from_utf8(start) {
        Ok(text) if text.starts_with('{') => format!("{text}{more}"),
        _ => {
            format!("{}{more}", object::hex(start))
        }
    }
}

pub(super) fn yaml(body: &[u8]) -> Result<Value, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("error converting YAML to JSON: {error}"))
    };
    let text = std::str::from_utf8(body).map_err(|error| wrong(&error))?;
    serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| wrong(&error))
}

/// Anchors are for people who repeat a few lines, not for a body that grows a thousandfold when it is read.
fn yaml_options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    options.alias_limits.max_total_replayed_events = 10_000;
    options
}
