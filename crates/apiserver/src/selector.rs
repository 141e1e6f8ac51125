//! Label and field selectors: parsing with the messages of a real server, and matching.

use crate::{kinds::names, store::Stored};

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    pub(crate) labels: Vec<Requirement>,
    pub(crate) fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) test: Test,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) equal: bool,
}

impl Selector {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.fields.iter().all(|term| (stored.field(&term.field) == term.value) == term.equal)
            && self.labels.iter().all(|requirement| requirement.matches(stored.label(&requirement.key)))
    }
}

impl Requirement {
    pub(crate) fn matches(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
            Test::Greater(bound) => number().is_some_and(|number| number > *bound),
            Test::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }

    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Symbol(symbol) if *symbol == text)
    }

    fn keyword(&self) -> bool {
        matches!(self, Self::Word(word) if word == "in" || word == "notin")
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            out.push(Token::Symbol(symbol));
            rest = rest.get(symbol.len()..).unwrap_or_default().trim_start();
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return Err(format!("found '{rest}', expected: !, identifier, or 'end of string'"));
        }
        out.push(Token::Word(word.to_owned()));
        rest = after.trim_start();
    }
    out.push(Token::End);
    Ok(out)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek().is("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        valid_key(&key)?;
        if negated {
            return Ok(Requirement { key, test: Test::Absent });
        }
        if matches!(self.peek(), Token::End) || self.peek().is(",") {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let operator = self.next();
        let test = match operator.text() {
            "=" | "==" => Test::In(vec![self.exact(&key)?]),
            "!=" => Test::NotIn(vec![self.exact(&key)?]),
            "in" if operator.keyword() => Test::In(self.set(&key)?),
            "notin" if operator.keyword() => Test::NotIn(self.set(&key)?),
            sign @ (">" | "<") => {
                let value = self.exact(&key)?;
                let bound = value.parse().map_err(|_| {
                    format!("values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
                })?;
                if sign == ">" { Test::Greater(bound) } else { Test::Less(bound) }
            }
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, test })
    }

    fn exact(&mut self, key: &str) -> Result<String, String> {
        if matches!(self.peek(), Token::End) || self.peek().is(",") {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(word) => {
                valid_value(key, &word)?;
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn set(&mut self, key: &str) -> Result<Vec<String>, String> {
        let open = self.next();
        if !open.is("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    valid_value(key, &word)?;
                    values.push(word);
                    let after = self.next();
                    if after.is(")") {
                        break;
                    }
                    if !after.is(",") {
                        return Err(format!("found '{}', expected: ',' or ')'", after.text()));
                    }
                }
                token if token.is(",") => values.push(String::new()),
                token if token.is(")") => {
                    values.push(String::new());
                    break;
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

/// Parses a label selector; the error is what stands behind `unable to parse requirement`.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut out = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(out),
            token if token.is("!") || matches!(token, Token::Word(_)) => {
                let requirement =
                    parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                out.push(requirement);
            }
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
        match parser.next() {
            Token::End => break,
            token if token.is(",") => {
                let next = parser.peek();
                if !(next.is("!") || matches!(next, Token::Word(_))) {
                    return Err(format!("found '{}', expected: identifier after ','", next.text()));
                }
            }
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
    Ok(out)
}

fn valid_key(key: &str) -> Result<(), String> {
    match names::qualified_name(key).first() {
        Some(why) => Err(format!("<nil>: Invalid value: {key:?}: {why}")),
        None => Ok(()),
    }
}

fn valid_value(key: &str, value: &str) -> Result<(), String> {
    match names::label_value(value).first() {
        Some(why) => Err(format!("values[0][{key}]: Invalid value: {value:?}: {why}")),
        None => Ok(()),
    }
}

/// The one name a field selector asks for with `metadata.name=…`.
pub(crate) fn selected_name(text: &str) -> Option<String> {
    let terms = parse_fields(text).ok()?;
    terms.into_iter().find(|term| term.equal && term.field == "metadata.name").map(|term| term.value)
}

/// Parses a field selector: `a=b,c!=d` with `\` before `,`, `=` and itself inside values.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut out = Vec::new();
    for part in split_terms(text) {
        if part.is_empty() {
            continue;
        }
        let not_understood = || format!("invalid selector: '{text}'; can't understand '{part}'");
        let at = part.find('=').ok_or_else(not_understood)?;
        let (left, right) = part.split_at(at);
        let (field, value, equal) = match left.strip_suffix('!') {
            Some(field) => (field, right.get(1..).unwrap_or_default(), false),
            None => {
                (left, right.strip_prefix("==").or_else(|| right.strip_prefix('=')).unwrap_or_default(), true)
            }
        };
        out.push(FieldTerm { field: field.to_owned(), value: unescape(value)?, equal });
    }
    Ok(out)
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                out.push(text.get(start..index).unwrap_or_default());
                start = index + 1;
            }
            _ => {}
        }
    }
    out.push(text.get(start..).unwrap_or_default());
    out
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{next}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_requirements_match_as_they_should() {
        let cases = [
            ("a=1", Some("1"), true),
            ("a==1", Some("2"), false),
            ("a!=1", None, true),
            ("a", Some(""), true),
            ("!a", None, true),
            ("a in (1, 2)", Some("2"), true),
            ("a in (1,2)", None, false),
            ("a notin (1,2)", Some("3"), true),
            ("a notin (1,2)", None, true),
            ("a>5", Some("6"), true),
            ("a<5", Some("x"), false),
            ("a=", Some(""), true),
        ];
        for (text, value, expected) in cases {
            let parsed = parse_labels(text).unwrap();
            assert_eq!(parsed.iter().all(|one| one.matches(value)), expected, "{text} on {value:?}");
        }
        assert_eq!(parse_labels("a=1,b,!c").unwrap().len(), 3);
        assert!(parse_labels("").unwrap().is_empty());
    }

    #[test]
    fn broken_label_selectors_are_refused() {
        for text in ["a=1,", "=1", "a in 1", "a in (1", "a b", "a=%", ",", "a==="] {
            assert!(parse_labels(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_terms_know_escapes() {
        let parsed = parse_fields(r"metadata.name=a\,b,spec.nodeName!=x,status.phase==Running").unwrap();
        let term =
            |field: &str, value: &str, equal| FieldTerm { field: field.into(), value: value.into(), equal };
        let expected = [
            term("metadata.name", "a,b", true),
            term("spec.nodeName", "x", false),
            term("status.phase", "Running", true),
        ];
        assert_eq!(parsed, expected);
        assert_eq!(selected_name("a=b,metadata.name=c").as_deref(), Some("c"));
        assert_eq!(selected_name("metadata.name!=c"), None);
        assert!(parse_fields("metadata.name").is_err());
        assert!(parse_fields(r"a=b\x").is_err());
        assert!(parse_fields("a=b=c").is_err());
    }
}
