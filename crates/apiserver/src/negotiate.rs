//! In which form an answer is wanted, and in which form a body comes.

use crate::error::ApiError;
use http::{HeaderMap, StatusCode, header};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object itself.
    Object,
    /// `PartialObjectMetadata` and its list.
    Partial,
    Table,
    /// Aggregated discovery.
    Discovery,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Picks the first form in `Accept` that this server can give. Protobuf is never given: whoever asks for
/// it alone is refused, as a real server refuses what it does not have.
pub(crate) fn form(headers: &HeaderMap, discovery: bool) -> Result<Form, ApiError> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(Form::Object);
    }
    let found = accept.split(',').find_map(|clause| clause_form(clause, discovery));
    found.ok_or_else(|| {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}");
        let mut error = ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message);
        error.details = Some(Box::default());
        error
    })
}

/// Whether the answer is wanted as YAML: it is the first in `Accept` that can be given.
pub(crate) fn wants_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
    let given = |media: &String| {
        matches!(media.as_str(), "application/json" | "application/yaml" | "*/*" | "application/*")
    };
    accept.split(',').map(media).find(given).is_some_and(|media| media == "application/yaml")
}

fn clause_form(clause: &str, discovery: bool) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "application/json" | "*/*" | "application/*" | "application/yaml") {
        return None;
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", _, _) => Some(Form::Object),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") if discovery => Some(Form::Discovery),
        ("Table", "meta.k8s.io", "v1") if !discovery => Some(Form::Table),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") if !discovery => {
            Some(Form::Partial)
        }
        _ => None,
    }
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The media type without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let full = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    full.split(';').next().unwrap_or_default().trim()
}

pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    match media_type(headers) {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Encoding::Protobuf),
        _ => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn accept(text: &'static str) -> Result<Form, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(text));
        form(&headers, false)
    }

    #[test]
    fn the_first_form_that_can_be_given_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(table), Ok(Form::Table));
        assert_eq!(accept("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Object));
        assert_eq!(
            accept(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            ),
            Ok(Form::Partial)
        );
        assert_eq!(accept("*/*"), Ok(Form::Object));
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf").map_err(|error| error.code.as_u16()),
            Err(406)
        );
    }
}
