//! ConfigMaps and Secrets.

use super::{
    json::{at, child, empty, entries, fill_text, flag, remove, set, text},
    names::config_key,
    report::{Report, same},
};
use crate::{
    contract::{Context, Kind},
    error::ApiError,
    field::FieldError,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

const LIMIT: usize = 1024 * 1024;

pub(crate) struct ConfigMaps;

impl Kind for ConfigMaps {
    fn prepare_create(&self, _object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let mut size = 0;
        for (key, value) in entries(object, &["data"]) {
            let field = format!("data[{key}]");
            report.wrong(&field, key, config_key(key));
            if at(object, &["binaryData", key]).is_string() {
                report.invalid(&field, key, "duplicate of key present in binaryData");
            }
            size += value.as_str().map_or(0, str::len);
        }
        for (key, value) in entries(object, &["binaryData"]) {
            report.wrong(format_args!("binaryData[{key}]"), key, config_key(key));
            size += decoded_size(value);
        }
        if size > LIMIT {
            report.too_long("[]", LIMIT);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        unchanged_if_immutable(new, old, &["data", "binaryData"], &mut report);
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) struct Secrets;

impl Kind for Secrets {
    fn default(&self, secret: &mut Value) {
        fill_text(secret, "type", "Opaque");
        // Written in plain text, kept encoded, never shown again.
        if let Some(Value::Object(texts)) = remove(secret, "stringData")
            && !texts.is_empty()
            && let Some(data) = child(secret, "data")
        {
            for (key, value) in &texts {
                set(data, key, STANDARD.encode(value.as_str().unwrap_or_default()));
            }
        }
    }

    fn validate(&self, secret: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let data = entries(secret, &["data"]);
        for (key, _) in &data {
            report.wrong(format_args!("data[{key}]"), key, config_key(key));
        }
        if data.iter().map(|(_, value)| decoded_size(value)).sum::<usize>() > LIMIT {
            report.too_long("data", LIMIT);
        }
        let has = |key: &str| at(secret, &["data", key]).is_string();
        let require = |key: &str, report: &mut Report| {
            if !has(key) {
                report.required(format!("data[{key}]"), "");
            }
        };
        match text(secret, &["type"]) {
            "kubernetes.io/service-account-token" => {
                let key = "kubernetes.io/service-account.name";
                if text(secret, &["metadata", "annotations", key]).is_empty() {
                    report.required(format!("metadata.annotations[{key}]"), "");
                }
            }
            "kubernetes.io/dockercfg" => docker_configuration(secret, ".dockercfg", &mut report),
            "kubernetes.io/dockerconfigjson" => {
                docker_configuration(secret, ".dockerconfigjson", &mut report);
            }
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                require("username", &mut report);
                require("password", &mut report);
            }
            "kubernetes.io/ssh-auth" if empty(at(secret, &["data", "ssh-privatekey"])) => {
                report.required("data[ssh-privatekey]", "");
            }
            "kubernetes.io/tls" => {
                require("tls.crt", &mut report);
                require("tls.key", &mut report);
            }
            _ => {}
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        report.immutable(new, old, &["type"], "type");
        unchanged_if_immutable(new, old, &["data"], &mut report);
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn unchanged_if_immutable(new: &Value, old: &Value, fields: &[&str], report: &mut Report) {
    if !flag(old, &["immutable"]) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if !flag(new, &["immutable"]) {
        report.forbidden("immutable", why);
    }
    for field in fields {
        if !same(at(new, &[field]), at(old, &[field])) {
            report.forbidden(*field, why);
        }
    }
}

fn docker_configuration(secret: &Value, key: &str, report: &mut Report) {
    let field = format!("data[{key}]");
    let Some(encoded) = at(secret, &["data", key]).as_str() else {
        report.required(field, "");
        return;
    };
    let content = STANDARD.decode(encoded).unwrap_or_default();
    let why = if content.is_empty() {
        "unexpected end of JSON input".to_owned()
    } else {
        match serde_json::from_slice::<Value>(&content) {
            Ok(Value::Object(_) | Value::Null) => return,
            Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
            Err(_) => {
                let first = char::from(content.first().copied().unwrap_or_default());
                format!("invalid character {first:?} looking for beginning of value")
            }
        }
    };
    report.invalid(field, "<secret contents redacted>", why);
}

/// How many bytes a base64 text stands for.
fn decoded_size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}
