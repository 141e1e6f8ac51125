//! Field errors: what is wrong with one field of an object, in the words of a real API server.

use serde_json::Value;
use std::fmt::Write as _;

/// What kind of mistake a field holds. The names are the `reason` of a `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    NotFound,
}

impl Fault {
    /// `reason` on the wire.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotFound => "Not found",
        }
    }
}

/// One field's error. `field` is the path, for example `spec.containers[0].image`; `<nil>` for the root.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub fault: Fault,
    pub field: String,
    /// The offending value as it is shown; not shown for `Required`, `Forbidden` and `TooLong`.
    pub value: Value,
    pub detail: String,
    /// Whether the value is left out of the message although this kind of fault usually shows it.
    pub value_omitted: bool,
    /// The value as a real server writes it, where the order of its fields or their names differ.
    pub shown_as: Option<String>,
}

impl FieldError {
    #[cold]
    pub fn new(fault: Fault, field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self {
            fault,
            field: field.into(),
            value,
            detail: detail.into(),
            value_omitted: false,
            shown_as: None,
        }
    }

    /// The same error without the value in its message: for objects and lists that failed as a whole.
    pub fn without_value(mut self) -> Self {
        self.value_omitted = true;
        self
    }

    /// The same error with this text in place of the value.
    pub fn shown_as(mut self, text: String) -> Self {
        self.shown_as = Some(text);
        self
    }

    #[cold]
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Required, field, Value::Null, detail)
    }

    #[cold]
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Invalid, field, value.into(), detail)
    }

    #[cold]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Forbidden, field, Value::Null, detail)
    }

    #[cold]
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Fault::Duplicate, field, value.into(), "")
    }

    #[cold]
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let mut names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        names.sort();
        Self::new(Fault::NotSupported, field, value.into(), format!("supported values: {}", names.join(", ")))
    }

    /// The message without the field's name, as it stands in a cause.
    pub fn message(&self) -> String {
        let words = self.fault.words();
        let mut text = match self.fault {
            Fault::Required | Fault::Forbidden | Fault::TooLong => words.to_owned(),
            _ if self.value_omitted => words.to_owned(),
            _ => match &self.shown_as {
                Some(text) => format!("{words}: {text}"),
                None => format!("{words}: {}", shown(&self.value)),
            },
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// A value as Go's field errors print it: strings quoted, nil as `null`, the rest as compact JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => plain_float(float),
            _ => number.to_string(),
        },
        // Go's encoder writes these so that the text can stand in HTML.
        other => other.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
    }
}

/// A string in double quotes with the escapes of Go's `%q`.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A float as Go's `%v` prints it: no `.0`, and an exponent only where the number is very large or small.
pub fn plain_float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        let Some((mantissa, exponent)) = text.split_once('e') else { return text };
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{number}")
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_like_those_of_a_real_server() {
        let cases = [
            (FieldError::required("spec.containers", ""), "spec.containers: Required value"),
            (
                FieldError::invalid("metadata.name", "A", "must be lower case"),
                "metadata.name: Invalid value: \"A\": must be lower case",
            ),
            (
                FieldError::invalid("spec.replicas", -1, "too small"),
                "spec.replicas: Invalid value: -1: too small",
            ),
            (
                FieldError::not_supported("type", "X", &["B", "A"]),
                "type: Unsupported value: \"X\": supported values: \"A\", \"B\"",
            ),
            (FieldError::duplicate("ports[1]", "http"), "ports[1]: Duplicate value: \"http\""),
            (FieldError::invalid("a", 3.0, "x"), "a: Invalid value: 3: x"),
            (FieldError::invalid("a", 1e21, "x"), "a: Invalid value: 1e+21: x"),
            (FieldError::invalid("a", 0.000_01, "x"), "a: Invalid value: 1e-05: x"),
            (FieldError::invalid("a", "\u{1}é\"\\\n", "x"), "a: Invalid value: \"\\x01é\\\"\\\\\\n\": x"),
            (FieldError::invalid("spec", Value::Null, "x").without_value(), "spec: Invalid value: x"),
            (
                FieldError::new(Fault::TooMany, "a", 5.into(), "must have at most 3 items"),
                "a: Too many: 5: must have at most 3 items",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
