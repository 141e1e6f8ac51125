//! Label selectors, in either grammar.

use super::{SelectorGrammar, answer::Refusal};
use std::collections::{BTreeMap, BTreeSet};

/// What a selector asks for; a thing fits if all of it holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Debug, PartialEq, Eq)]
enum Requirement {
    In(String, BTreeSet<String>),
    /// Holds without the key, too.
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    pub(super) fn parse(text: &str, grammar: SelectorGrammar) -> Result<Self, Refusal> {
        let read = match grammar {
            SelectorGrammar::Equality => equality,
            SelectorGrammar::Kubernetes => set_based,
        };
        let parts = split(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        let requirements = parts.map(|part| {
            read(part).ok_or_else(|| Refusal::bad(format!("label_selector: {part:?} is not understood")))
        });
        Ok(Self(requirements.collect::<Result<_, _>>()?))
    }

    pub(super) fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

/// At commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn key(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    (!text.is_empty() && plain).then(|| text.to_owned())
}

fn value(text: &str) -> Option<String> {
    let text = text.trim();
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)).then(|| text.to_owned())
}

fn equality(part: &str) -> Option<Requirement> {
    let (name, wanted) = part.split_once('=')?;
    Some(Requirement::In(key(name)?, [value(wanted)?].into()))
}

fn set_based(part: &str) -> Option<Requirement> {
    if let Some((name, wanted)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key(name)?, [value(wanted)?].into()));
    }
    if let Some((name, wanted)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(key(name)?, [value(wanted)?].into()));
    }
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let values = list.split(',').map(value).collect::<Option<BTreeSet<_>>>()?;
        let (name, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Requirement::In(key(name)?, values)),
            "notin" => Some(Requirement::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    match part.strip_prefix('!') {
        Some(name) => Some(Requirement::Absent(key(name)?)),
        None => Some(Requirement::Exists(key(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str, grammar: SelectorGrammar) -> Option<bool> {
        let labels = [("kubernetes.io/machine", "m-1"), ("pool", "a"), ("empty", "")];
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Selector::parse(text, grammar).ok().map(|selector| selector.fits(&labels))
    }

    #[test]
    fn both_grammars_know_equality() {
        for grammar in [SelectorGrammar::Equality, SelectorGrammar::Kubernetes] {
            for (text, expected) in [
                ("", Some(true)),
                ("kubernetes.io/machine=m-1", Some(true)),
                ("kubernetes.io/machine=m-1,pool=a", Some(true)),
                ("kubernetes.io/machine=m-1,pool=b", Some(false)),
                ("empty=", Some(true)),
                ("none=", Some(false)),
                ("=a", None),
            ] {
                assert_eq!(fits(text, grammar), expected, "{grammar:?} {text}");
            }
        }
    }

    #[test]
    fn only_one_grammar_knows_sets() {
        for (text, expected) in [
            ("pool!=b", true),
            ("pool!=a", false),
            ("none!=a", true),
            ("pool==a", true),
            ("pool in (a, b),empty", true),
            ("pool notin (a,b)", false),
            ("none notin (a)", true),
            ("pool", true),
            ("!pool", false),
            ("!none", true),
        ] {
            assert_eq!(fits(text, SelectorGrammar::Kubernetes), Some(expected), "{text}");
            assert_eq!(fits(text, SelectorGrammar::Equality), None, "{text}");
        }
        for text in ["pool within (a)", "pool in a", "a b"] {
            assert_eq!(fits(text, SelectorGrammar::Kubernetes), None, "{text}");
        }
    }
}
