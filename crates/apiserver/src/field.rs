//! Field errors: what is wrong with one field of an object, in the words of a real API server.

use serde_json::Value;

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
    Internal,
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
            Self::Internal => "InternalError",
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
            Self::Internal => "Internal error",
        }
    }
}

/// One field's error. `field` is the path, for example `spec.containers[0].image`; `<nil>` for the root.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub fault: Fault,
    pub field: String,
    /// The offending value as it is shown; not shown for `Required`, `Forbidden` and `Internal`.
    pub value: Value,
    pub detail: String,
}

impl FieldError {
    pub fn new(fault: Fault, field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self { fault, field: field.into(), value, detail: detail.into() }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Required, field, Value::Null, detail)
    }

    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Invalid, field, value.into(), detail)
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Fault::Forbidden, field, Value::Null, detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Fault::Duplicate, field, value.into(), "")
    }

    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let mut names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        names.sort();
        Self::new(Fault::NotSupported, field, value.into(), format!("supported values: {}", names.join(", ")))
    }

    /// The message without the field's name, as it stands in a cause.
    pub fn message(&self) -> String {
        let words = self.fault.words();
        let mut text = match self.fault {
            Fault::Required | Fault::Forbidden | Fault::TooLong | Fault::TooMany | Fault::Internal => {
                words.to_owned()
            }
            _ => format!("{words}: {}", shown(&self.value)),
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
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
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
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
