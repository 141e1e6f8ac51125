//! The query part of a URL.

use crate::{error::ApiError, field::FieldError, request::decoded_bytes};

/// Names and values in the order they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        // What is no text becomes a character that no value may have: whoever reads it refuses it.
        let decode =
            |part: &str| String::from_utf8_lossy(&decoded_bytes(&part.replace('+', " "))).into_owned();
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// Like a real server: everything but `false` and `0` is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let wrong = || ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// Whether a write is only tried out.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        dry_run(&self.all("dryRun"), options)
    }
}

/// Reads a list of dry-run stages; `options` names the options object in the refusal.
pub(crate) fn dry_run(values: &[String], options: &str) -> Result<bool, ApiError> {
    let stages: Vec<&String> = values.iter().filter(|value| !value.is_empty()).collect();
    if stages.iter().any(|stage| *stage != "All") {
        let error = FieldError::not_supported("dryRun", serde_json::json!(values), &["All"]);
        return Err(ApiError::invalid("meta.k8s.io", options, "", &[error]));
    }
    Ok(!stages.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_found() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=x&a+b=c+d&dryRun=All");
        assert_eq!(query.text("labelSelector"), "a=b,c");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(Query::parse("watch=False").flag("watch"), Some(false));
        assert_eq!(query.flag("missing"), None);
        assert!(query.number("limit").is_err());
        assert_eq!(query.get("a b"), Some("c d"));
        assert!(query.dry_run("CreateOptions").unwrap());
        assert!(Query::parse("dryRun=Some").dry_run("CreateOptions").is_err());
    }

    #[test]
    fn what_is_no_text_does_not_become_nothing() {
        for text in
            ["labelSelector=%ff", "labelSelector=a%3D%ff", "labelSelector=%zz", "labelSelector=a%3D%e2%28%a1"]
        {
            let query = Query::parse(text);
            assert!(crate::selector::parse_labels(query.text("labelSelector")).is_err(), "{text}");
        }
        let query = Query::parse("fieldSelector=%ff");
        assert!(crate::selector::parse_fields(query.text("fieldSelector")).is_err());
    }
}
