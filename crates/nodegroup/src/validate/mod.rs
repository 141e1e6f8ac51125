//! What is wrong with a NodeGroup or a VPSieNode, as pure functions: for the controllers, and for the webhook of API
//! servers that do not know the rules of the definitions.

mod group;
mod node;
mod review;

pub use group::node_group;
pub use node::vpsie_node;
pub use review::{BODY_LIMIT, router};

use std::fmt;

/// Something that is wrong, and in which field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// As a path, for example `spec.minNodes`.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All of them in one line.
pub fn told(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// The problems found so far.
#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn when(&mut self, wrong: bool, field: impl Into<String>, message: impl Into<String>) {
        if wrong {
            self.0.push(Problem::new(field, message));
        }
    }

    fn at_least(&mut self, field: impl Into<String>, value: i64, least: i64) {
        self.when(value < least, field, format!("must be >= {least}, is {value}"));
    }

    fn positive(&mut self, field: impl Into<String>, value: i64) {
        self.when(value <= 0, field, format!("must be > 0, is {value}"));
    }

    fn percent(&mut self, field: impl Into<String>, value: i64) {
        self.when(!(0..=100).contains(&value), field, format!("must be between 0 and 100, is {value}"));
    }

    fn given(&mut self, field: &str, value: &str) {
        self.when(value.is_empty(), field, "is required and must not be empty");
    }
}

/// Whether this can be the key of a label: a name, perhaps behind a domain and a slash.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_domain(domain) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn is_label_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 63 && outer(bytes.first()) && outer(bytes.last()) && name.bytes().all(inner)
}

fn is_domain(domain: &str) -> bool {
    let part = |part: &str| {
        let outer =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = part.as_bytes();
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        outer(bytes.first()) && outer(bytes.last()) && part.bytes().all(inner)
    };
    domain.len() <= 253 && domain.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_kubernetes_reads_them() {
        let long = "x".repeat(64);
        let keys = [
            ("workload-type", true),
            ("example.com/role", true),
            ("A_b.c", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a b", false),
            ("/a", false),
            ("Example.com/a", false),
            ("example..com/a", false),
            ("a/b/c", false),
            (long.as_str(), false),
        ];
        for (key, fine) in keys {
            assert_eq!(is_label_key(key), fine, "{key:?}");
        }
        for (value, fine) in [("", true), ("v1.2_3", true), ("a/b", false), (long.as_str(), false)] {
            assert_eq!(is_label_value(value), fine, "{value:?}");
        }
    }
}
