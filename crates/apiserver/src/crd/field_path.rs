//! Paths to fields as a definition writes them: `.spec.size`, `.spec['node-pool']`.

use super::schema::{Additional, Schema};
use std::fmt::Write as _;

/// The path in the form of messages (`spec.map[key]`) and the schema it leads to, or why it leads nowhere.
pub(super) fn resolve<'a>(path: &str, schema: &'a Schema) -> Result<(String, &'a Schema), String> {
    resolve_parts(path, schema, true)
}

/// As [`resolve`], without brackets.
pub(super) fn resolve_dotted<'a>(path: &str, schema: &'a Schema) -> Result<(String, &'a Schema), String> {
    resolve_parts(path, schema, false)
}

fn resolve_parts<'a>(path: &str, schema: &'a Schema, brackets: bool) -> Result<(String, &'a Schema), String> {
    let mut text = String::new();
    let mut schema = schema;
    let mut rest = path;
    if rest.is_empty() {
        return Err("does not refer to a valid field".to_owned());
    }
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let (quoted, after) = quoted(after)?;
            name = quoted;
            rest = after.strip_prefix(']').ok_or_else(|| {
                if after.is_empty() {
                    "unexpected end of JSON path".to_owned()
                } else {
                    format!("expected ] but got {after}")
                }
            })?;
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            return Err(format!("expected [ or . but got: {}", &rest[..end.max(1)]));
        }
        schema = match (&schema.additional, schema.properties.is_empty()) {
            (_, false) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&name);
                schema.properties.get(&name).ok_or("does not refer to a valid field")?
            }
            (Additional::Schema(additional), true) => {
                let _ = write!(text, "[{name}]");
                additional
            }
            _ => return Err("does not refer to a valid field".to_owned()),
        };
    }
    Ok((text, schema))
}

/// The text in single quotes at the start, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let wrong = || format!("expected single quoted string but got {text}");
    let mut characters = text.char_indices();
    if characters.next().map(|(_, first)| first) != Some('\'') {
        return Err(if text.is_empty() { "unexpected end of JSON path".to_owned() } else { wrong() });
    }
    let mut out = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Ok((out, &text[at + 1..])),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(escaped @ ('\'' | '\\')) => out.push(escaped),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid string literal: invalid escape char \\{shown}"));
                }
            },
            other => out.push(other),
        }
    }
    Err(wrong())
}
