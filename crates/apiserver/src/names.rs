//! What names, label keys and label values may look like, with the explanations of a real server. Each
//! function gives the reason why a text is not allowed.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| lower(*byte));
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|byte| lower(*byte) || *byte == b'-')
}

/// One part of a DNS name, as for namespaces.
pub fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    (!is_label(text)).then(|| LABEL.to_owned())
}

/// One part of a DNS name that begins with a letter, as for services.
pub fn dns_1035_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    let letter_first = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    (!(letter_first && is_label(text))).then(|| DNS1035.to_owned())
}

/// A DNS name, as for most objects.
pub fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some(too_long(253));
    }
    (!text.split('.').all(is_label)).then(|| SUBDOMAIN.to_owned())
}

/// A name that only has to fit into a path, as for roles.
pub fn path_segment(text: &str) -> Option<String> {
    if text == "." || text == ".." {
        return Some(format!("may not be '{text}'"));
    }
    let found = ["/", "%"].into_iter().find(|part| text.contains(part))?;
    Some(format!("may not contain '{found}'"))
}

fn is_loose(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A label or annotation key: a name with an optional DNS prefix.
pub fn qualified_name(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            if name.contains('/') {
                return Some("a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned());
            }
            if prefix.is_empty() {
                return Some("prefix part must be non-empty".to_owned());
            }
            if let Some(why) = dns_subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some(format!("name part {}", too_long(63)));
    }
    (!is_loose(name)).then(|| QUALIFIED.to_owned())
}

pub fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some(too_long(63));
    }
    (!(text.is_empty() || is_loose(text))).then(|| VALUE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_rules() {
        assert!(dns_subdomain("a.b-c").is_none());
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", "a b"] {
            assert!(dns_subdomain(bad).is_some(), "{bad:?}");
        }
        assert!(dns_label("a.b").is_some());
        assert!(dns_1035_label("1a").is_some() && dns_1035_label("a1").is_none());
        assert!(path_segment("system:admin").is_none() && path_segment("a/b").is_some());
    }

    #[test]
    fn keys_and_values_of_labels_are_judged() {
        for good in ["a", "example.com/Name_1", "A.b-c"] {
            assert!(qualified_name(good).is_none(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Ex/a", "a!", "-a"] {
            assert!(qualified_name(bad).is_some(), "{bad:?}");
        }
        assert!(label_value("").is_none() && label_value("a_b").is_none());
        assert!(label_value("a b").is_some() && label_value(&"a".repeat(64)).is_some());
    }
}
