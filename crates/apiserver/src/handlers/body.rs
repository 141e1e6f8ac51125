//! Bodies: read with a limit, decoded by their content type.

use crate::{
    error::ApiError,
    negotiate::{self, Encoding},
};
use bytes::{Bytes, BytesMut};
use hostler_base::transport::Body;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::Value;

const LIMIT: usize = 3 * 1024 * 1024;

pub(super) async fn read(mut body: Body) -> Result<Bytes, ApiError> {
    let mut out = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if out.len() + data.len() > LIMIT {
            return Err(ApiError::too_large(format!("Request entity too large: limit is {LIMIT}")));
        }
        out.extend_from_slice(&data);
    }
    Ok(out.freeze())
}

/// Decodes a body to a JSON tree.
pub(super) fn decode(headers: &HeaderMap, body: &Bytes) -> Result<Value, ApiError> {
    match negotiate::encoding(headers)? {
        Encoding::Json => json(body),
        Encoding::Yaml => yaml(body),
        Encoding::Protobuf => Err(ApiError::unsupported_media_type("protobuf is not understood yet")),
    }
}

pub(super) fn json(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type json): {error}"))
    })
}

pub(super) fn yaml(body: &[u8]) -> Result<Value, ApiError> {
    let wrong = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("error converting YAML to JSON: {error}"))
    };
    let text = std::str::from_utf8(body).map_err(|error| wrong(&error))?;
    serde_saphyr::from_str(text).map_err(|error| wrong(&error))
}
