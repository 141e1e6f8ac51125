//! Broken JSON, explained in the words of Go's decoder: clients and people compare them.

use serde_json::Value;

/// What Go calls this type of value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Explains why these bytes are no JSON.
pub(crate) fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let Some(character) = offender(bytes, error) else { return error.to_string() };
    let text = error.to_string();
    let place = if text.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected value") || text.starts_with("expected ident") {
        "looking for beginning of value"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if text.starts_with("expected `,` or `]`") {
        "after array element"
    } else if text.starts_with("trailing characters") {
        "after top-level value"
    } else {
        return text;
    };
    format!("invalid character '{character}' {place}")
}

fn offender(bytes: &[u8], error: &serde_json::Error) -> Option<char> {
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let rest = line.get(error.column().checked_sub(1)?..)?;
    std::str::from_utf8(rest.get(..rest.len().min(4))?).ok()?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_is_explained_like_in_go() {
        let cases = [
            ("{bad", "invalid character 'b' looking for beginning of object key string"),
            ("", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{\"a\":1 x}", "invalid character 'x' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
        ];
        for (text, expected) in cases {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(explain(text.as_bytes(), &error), expected, "{text}");
        }
    }
}
