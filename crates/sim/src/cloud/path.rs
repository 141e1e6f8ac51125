//! Paths and forms: templates with braces for what varies, and percent-encoding.

use std::collections::BTreeMap;

/// `servers/{}` as `servers/{server}`.
pub(crate) fn named(path: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        let named = match parts.last() {
            Some(kind) if part == "{}" => format!("{{{}}}", kind.trim_end_matches('s')),
            _ => part.to_owned(),
        };
        parts.push(named);
    }
    parts.join("/")
}

/// What stands for the template's `{}` or `{name}`, if the path fits it.
pub(crate) fn ids(template: &str, segments: &[&str]) -> Option<Vec<String>> {
    let mut ids = Vec::new();
    let mut segments = segments.iter();
    for part in template.split('/') {
        let segment = segments.next()?;
        if part.starts_with('{') {
            ids.push((*segment).to_owned());
        } else if part != *segment {
            return None;
        }
    }
    segments.next().is_none().then_some(ids)
}

/// What percent-encoding stands for.
pub(crate) fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (first, tail) {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(*high)? * 16 + digit(*low)?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

/// `a=b&c=d` with percent-encoding, as in queries and forms.
pub(crate) fn pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let part = part.replace('+', " ");
        let (name, value) = part.split_once('=').unwrap_or((&part, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    parts.map(pair).collect()
}
