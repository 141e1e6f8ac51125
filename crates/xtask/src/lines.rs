//! Reads the little that is needed from lines of JSON, so that this program needs no library.

/// The value of a string field, the first one of this name.
pub fn text(line: &str, field: &str) -> Option<String> {
    let rest = after(line, field)?.strip_prefix('"')?;
    let mut out = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(out),
            '\\' => match characters.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'u' => {
                    let code: String = characters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&code, 16).ok()?;
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

/// The value of a number field.
pub fn number(line: &str, field: &str) -> Option<f64> {
    let rest = after(line, field)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Whether a field is `true`.
pub fn is_true(line: &str, field: &str) -> bool {
    after(line, field).is_some_and(|rest| rest.starts_with("true"))
}

fn after<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let name = format!("\"{field}\":");
    line.find(&name).map(|at| line[at + name.len()..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_unescaped() {
        let line = r#"{"type":"test","event":"failed","name":"a::b","exec_time":1.5,"stdout":"x \"y\"\n\u0041","test": true}"#;
        assert_eq!(text(line, "name").as_deref(), Some("a::b"));
        assert_eq!(text(line, "stdout").as_deref(), Some("x \"y\"\nA"));
        assert_eq!(number(line, "exec_time"), Some(1.5));
        assert!(is_true(line, "test") && !is_true(line, "missing"));
        assert_eq!(text(line, "missing"), None);
        assert_eq!(text(r#"{"executable":null}"#, "executable"), None);
    }

    #[test]
    fn broken_lines_are_passed_over() {
        for line in ["", "{", r#"{"name":"#, r#"{"name":"abc"#, r#"{"name":"\u12"#] {
            assert_eq!(text(line, "name"), None, "{line}");
        }
    }
}
