//! A call as it came over HTTP, and the reading of its fields.

use super::{
    answer::{Checked, Refusal},
    operation::Target,
};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) struct Call {
    pub(super) target: Target,
    pub(super) query: BTreeMap<String, String>,
    /// Of a body in JSON; null without one.
    pub(super) body: Value,
    /// Of a body that is a form.
    pub(super) form: BTreeMap<String, String>,
}

impl Call {
    pub(super) fn id(&self, at: usize) -> &str {
        self.target.ids.get(at).map(String::as_str).unwrap_or_default()
    }

    /// A text in the body. Of other types, as of empty texts, the API takes no notice.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.body[field].as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn required(&self, field: &str) -> Checked<&str> {
        self.text(field).ok_or_else(|| Refusal::bad(format!("{field} is required")))
    }

    /// A number that may come as a text.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        match &self.body[field] {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        }
    }

    /// A switch, which is `"0"` or `"1"`; anything else is as if it was not there.
    pub(super) fn flag(&self, field: &str) -> Option<bool> {
        match self.body[field].as_str() {
            Some("0") => Some(false),
            Some("1") => Some(true),
            _ => None,
        }
    }

    pub(super) fn texts(&self, field: &str) -> Vec<String> {
        let items = self.body[field].as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    /// What a fault may say that it is about.
    pub(super) fn about(&self) -> Vec<&str> {
        let named = ["hostname", "vmIdentifier", "identifier", "name", "dcIdentifier"];
        let in_body = named.into_iter().filter_map(|field| self.text(field));
        let in_form = self.form.get("dcIdentifier").map(String::as_str);
        self.target.ids.iter().map(String::as_str).chain(in_body).chain(in_form).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::operation::Operation, *};
    use serde_json::json;

    #[test]
    fn only_the_documented_types_count() {
        let call = |body| Call {
            target: Target { operation: Operation::CreateVM, ids: Vec::new() },
            query: BTreeMap::new(),
            body,
            form: BTreeMap::new(),
        };
        for (value, expected) in [
            (json!("1"), Some(true)),
            (json!("0"), Some(false)),
            (json!(1), None),
            (json!(0), None),
            (json!(true), None),
            (json!("yes"), None),
            (Value::Null, None),
        ] {
            assert_eq!(call(json!({"flag": value})).flag("flag"), expected, "{value}");
        }
        assert_eq!(call(json!({"n": "7"})).number("n"), Some(7));
        assert_eq!(call(json!({"n": 7})).number("n"), Some(7));
        assert_eq!(call(json!({"n": "x"})).number("n"), None);
        assert!(call(json!({"t": ""})).required("t").is_err());
    }
}
