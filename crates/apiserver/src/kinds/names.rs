//! The shapes of names, label keys and values, ports and percentages; each check gives what is wrong in the
//! words of a real API server, nothing if all is well.

use std::borrow::Cow;

/// How an object of some kind may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces, services.
    Label,
    /// Anything that can stand in a path: the RBAC kinds.
    PathSegment,
    /// The kind's own validation says more than the path allows, for example CSI drivers.
    Own,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// What is wrong with this name; a prefix is the start of a generated name and may end with a dash.
pub(crate) fn name_errors(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix { Cow::Owned(mask_trailing_dash(name)) } else { Cow::Borrowed(name) };
    match rule {
        NameRule::Subdomain => subdomain(&masked),
        NameRule::Label => label(&masked),
        NameRule::PathSegment | NameRule::Own => path_segment(name, prefix),
    }
}

/// A real server does so too: the last two characters become an `a`.
fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(start) if !start.is_empty() => {
            let mut masked: String = start.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => name.to_owned(),
    }
}

pub(crate) fn label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 63);
    if !is_label(text) {
        if is_subdomain(text) {
            errors.push("must not contain dots".to_owned());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                         and must start and end with an alphanumeric character";
            errors.push(pattern_error(words, LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 253);
    errors.extend(subdomain_shape(text));
    errors
}

fn subdomain_shape(text: &str) -> Option<String> {
    let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                 and must start and end with an alphanumeric character";
    (!is_subdomain(text)).then(|| pattern_error(words, SUBDOMAIN, &["example.com"]))
}

/// A DNS-1035 label: one that starts with a letter.
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 63);
    if !is_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character";
        errors.push(pattern_error(words, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

pub(crate) fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// The key of a label or annotation, a finalizer, a resource name.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let pattern = || pattern_error(LABEL_KEY_WORDS, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".to_owned());
                }
                errors.extend(subdomain_shape(prefix).map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {tail}", pattern())];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_label_key(name) {
        errors.push(format!("name part {}", pattern()));
    }
    errors
}

pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_label_key(text) {
        let words = format!("a valid label must be an empty string or {}", &LABEL_KEY_WORDS["must ".len()..]);
        errors.push(pattern_error(&words, &format!("({LABEL_KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// A key in a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 253);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(pattern_error(words, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

pub(crate) fn environment_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if text.bytes().any(|byte| !(b' '..=b'~').contains(&byte) || byte == b'=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

pub(crate) fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec![between(1, 65535)] }
}

pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut errors = too_long(text, 15);
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(allowed) {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

pub(crate) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern_error(words, "[0-9]+%", &["1%", "93%"])]
}

pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn too_long(text: &str, limit: usize) -> Vec<String> {
    if text.len() > limit { vec![format!("must be no more than {limit} characters")] } else { Vec::new() }
}

fn pattern_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match (text.as_bytes().first(), text.as_bytes().last()) {
        (Some(first), Some(last)) => {
            inside(*first) && inside(*last) && text.bytes().all(|byte| inside(byte) || byte == b'-')
        }
        _ => false,
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label_key(text: &str) -> bool {
    match (text.as_bytes().first(), text.as_bytes().last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["a", "a-b", "1", "a.b-c.d"] {
            assert!(subdomain(name).is_empty(), "{name}");
        }
        for key in ["a", "A_b.c-d", "example.com/Key", "node.kubernetes.io/x"] {
            assert!(qualified_name(key).is_empty(), "{key}");
        }
        for value in ["", "a", "A_b.c-9"] {
            assert!(label_value(value).is_empty(), "{value}");
        }
        assert!(port_name("http-1").is_empty());
        assert!(percent("25%").is_empty());
        assert!(name_errors(NameRule::Subdomain, "web-", true).is_empty());
        assert!(name_errors(NameRule::PathSegment, "system:node", false).is_empty());
    }

    #[test]
    fn bad_names_are_refused_in_the_words_of_a_real_server() {
        let cases: [(Vec<String>, &[&str]); 12] = [
            (
                subdomain("A_b"),
                &[
                    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                   and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                   '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
            (
                label("A"),
                &[
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                   and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                   '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            (label("a.b"), &["must not contain dots"]),
            (label(&"a".repeat(64)), &["must be no more than 63 characters"]),
            (path_segment("a/b%c", false), &["may not contain '/'", "may not contain '%'"]),
            (path_segment("..", false), &["may not be '..'"]),
            (
                qualified_name("a b"),
                &[
                    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ],
            ),
            (
                label_value("-"),
                &[
                    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                   start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                   for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ],
            ),
            (
                config_key("x y"),
                &[
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                   'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                ],
            ),
            (config_key(".."), &["must not be '..'"]),
            (port_number(0), &["must be between 1 and 65535, inclusive"]),
            (
                percent("x"),
                &[
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                   regex used for validation is '[0-9]+%')",
                ],
            ),
        ];
        for (errors, expected) in cases {
            assert_eq!(errors, expected);
        }
    }
}
