//! Selectors on labels that are numbers.

use crate::intern::{Sym, Symbols};
use crate::model::{NodeTerm, Operator, Requirement, Selector};
use std::collections::BTreeMap;

/// Sorted by key.
pub(crate) type Labels = Vec<(Sym, Sym)>;

/// The name of a node is asked for like a label of this key.
pub(crate) const NAME_FIELD: &str = "metadata.name";

pub(crate) fn labels(symbols: &mut Symbols, labels: &BTreeMap<String, String>) -> Labels {
    let mut compiled: Labels =
        labels.iter().map(|(key, value)| (symbols.of(key), symbols.of(value))).collect();
    compiled.sort_unstable();
    compiled
}

pub(crate) fn value_of(labels: &[(Sym, Sym)], key: Sym) -> Option<Sym> {
    labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Test {
    In(Vec<Sym>),
    NotIn(Vec<Sym>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
    /// A bound that is no number matches nothing.
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    pub key: Sym,
    pub test: Test,
}

impl Need {
    pub fn is(key: Sym, value: Sym) -> Self {
        Self { key, test: Test::In(vec![value]) }
    }

    pub fn of(symbols: &mut Symbols, requirement: &Requirement) -> Self {
        let mut values: Vec<Sym> = requirement.values.iter().map(|value| symbols.of(value)).collect();
        values.sort_unstable();
        let bound = || match requirement.values.as_slice() {
            [bound] => bound.parse::<i64>().ok(),
            _ => None,
        };
        let test = match requirement.operator {
            Operator::In => Test::In(values),
            Operator::NotIn => Test::NotIn(values),
            Operator::Exists => Test::Exists,
            Operator::DoesNotExist => Test::Absent,
            Operator::Gt => bound().map_or(Test::Never, Test::Above),
            Operator::Lt => bound().map_or(Test::Never, Test::Below),
        };
        Self { key: symbols.of(&requirement.key), test }
    }

    pub fn holds(&self, labels: &[(Sym, Sym)], symbols: &Symbols) -> bool {
        let value = value_of(labels, self.key);
        let number = || value.and_then(|value| symbols.name(value).parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(&value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
            Test::Never => false,
        }
    }
}

pub(crate) fn all_hold(needs: &[Need], labels: &[(Sym, Sym)], symbols: &Symbols) -> bool {
    needs.iter().all(|need| need.holds(labels, symbols))
}

/// One of several terms.
pub(crate) type Terms = Vec<Vec<Need>>;

/// A term without requirements matches nothing and is left out.
pub(crate) fn node_terms(symbols: &mut Symbols, terms: &[NodeTerm]) -> Terms {
    terms
        .iter()
        .filter(|term| !(term.labels.is_empty() && term.fields.is_empty()))
        .map(|term| {
            let need = |requirement: &Requirement| {
                let need = Need::of(symbols, requirement);
                if well_formed(requirement) { need } else { Need { test: Test::Never, ..need } }
            };
            let mut needs: Vec<Need> = term.labels.iter().map(need).collect();
            needs.extend(term.fields.iter().map(|field| {
                let key = symbols.of(NAME_FIELD);
                Need { key, ..Need::of(symbols, field) }
            }));
            needs
        })
        .collect()
}

/// The scheduler drops a term of which it cannot make a selector: a value must be one that a label can have.
fn well_formed(requirement: &Requirement) -> bool {
    let label = |value: &String| {
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let ends = [value.as_bytes().first(), value.as_bytes().last()];
        value.len() <= 63
            && ends.into_iter().flatten().all(u8::is_ascii_alphanumeric)
            && value.as_bytes().iter().all(inner)
    };
    let counted = match requirement.operator {
        Operator::In | Operator::NotIn => !requirement.values.is_empty(),
        Operator::Exists | Operator::DoesNotExist => requirement.values.is_empty(),
        Operator::Gt | Operator::Lt => true,
    };
    counted && requirement.values.iter().all(label)
}

pub(crate) fn any_term_holds(terms: &Terms, labels: &[(Sym, Sym)], symbols: &Symbols) -> bool {
    terms.iter().any(|needs| all_hold(needs, labels, symbols))
}

pub(crate) fn selector(symbols: &mut Symbols, selector: &Selector) -> Vec<Need> {
    let mut needs: Vec<Need> =
        selector.labels.iter().map(|(key, value)| Need::is(symbols.of(key), symbols.of(value))).collect();
    needs.extend(selector.expressions.iter().map(|requirement| Need::of(symbols, requirement)));
    needs
}
