//! The named calls of a flow as a committed list: one missing or new fails the test.

use http::Method;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

/// One call of an actor, named so that it is the same one in every run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boundary {
    pub actor: String,
    pub verb: String,
    pub template: String,
    /// Whom it is about: the values of the template's parameters, random ids by their stable names.
    pub object: String,
    /// Counts the calls of this actor with this verb, template and object, from 1.
    pub nth: usize,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actor, verb, template, object, nth } = self;
        let object = if object.is_empty() { "-" } else { object };
        write!(f, "{actor} {verb} {template} {object} #{nth}")
    }
}

/// What kind of call it is. Only effects have a number in the committed list: how often something is read,
/// watched or renewed depends on how long a flow takes, so these are there once each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Effect,
    Read,
    /// A read that may be answered by a replica which is behind: one with `resourceVersion=0`.
    CachedRead,
    Watch,
    Lease,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Effect => "effect",
            Self::Read => "read",
            Self::CachedRead => "cached read",
            Self::Watch => "watch",
            Self::Lease => "lease",
        })
    }
}

impl Class {
    pub(crate) fn of(method: &Method) -> Self {
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            Self::Read
        } else {
            Self::Effect
        }
    }
}

/// The calls of the recorded actors in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording(pub Vec<(Class, Boundary)>);

impl Recording {
    /// The committed form.
    pub fn to_text(&self) -> String {
        let mut seen = BTreeSet::new();
        let mut text = String::new();
        for (class, boundary) in &self.0 {
            let line = match class {
                Class::Effect => boundary.to_string(),
                Class::Read | Class::CachedRead | Class::Watch | Class::Lease => {
                    let shown = boundary.to_string();
                    let without_number = shown.rsplit_once(" #").map_or(shown.as_str(), |(head, _)| head);
                    format!("{without_number} ({class})")
                }
            };
            if seen.insert(line.clone()) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// What a sweep goes through, after the first `skip` calls: every effect, and of each read, watch and renewal the
    /// first `repeats`.
    pub fn to_sweep(&self, skip: usize, repeats: usize) -> Vec<(Class, Boundary)> {
        let mut counts: BTreeMap<(&str, &str, &str, &str), usize> = BTreeMap::new();
        let mut chosen = Vec::new();
        for (class, boundary) in self.0.iter().skip(skip) {
            let Boundary { actor, verb, template, object, .. } = boundary;
            let count = counts.entry((actor, verb, template, object)).or_default();
            *count += 1;
            if *class == Class::Effect || *count <= repeats {
                chosen.push((*class, boundary.clone()));
            }
        }
        chosen
    }

    /// Compares with the committed list. With `HOSTLER_UPDATE_BOUNDARIES` set the list is written instead.
    pub fn check(&self, committed: &Path) -> Result<(), String> {
        let found = self.to_text();
        if std::env::var_os("HOSTLER_UPDATE_BOUNDARIES").is_some() {
            return fs::write(committed, found).map_err(|error| format!("{}: {error}", committed.display()));
        }
        let expected = fs::read_to_string(committed).map_err(|error| {
            format!("{}: {error}; set HOSTLER_UPDATE_BOUNDARIES=1 to write it", committed.display())
        })?;
        match difference(&expected, &found) {
            None => Ok(()),
            Some(diff) => Err(format!(
                "the boundaries differ from {} (- committed, + found; HOSTLER_UPDATE_BOUNDARIES=1 accepts):\n{diff}",
                committed.display()
            )),
        }
    }
}

/// The lines that are in one text only, or nothing if the texts have the same lines in the same order.
fn difference(committed: &str, found: &str) -> Option<String> {
    if committed == found {
        return None;
    }
    let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
    committed.lines().for_each(|line| *balance.entry(line).or_default() -= 1);
    found.lines().for_each(|line| *balance.entry(line).or_default() += 1);
    let mut diff = String::new();
    let lines = committed.lines().map(|line| (line, -1, '-')).chain(found.lines().map(|line| (line, 1, '+')));
    for (line, sign, mark) in lines {
        if let Some(left) = balance.get_mut(line)
            && left.signum() == sign
        {
            *left -= sign;
            diff.extend([mark, ' ']);
            diff.push_str(line);
            diff.push('\n');
        }
    }
    if diff.is_empty() {
        diff = format!("the same calls in another order:\n{found}");
    }
    Some(diff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(verb: &str, nth: usize) -> Boundary {
        Boundary { actor: "a".into(), verb: verb.into(), template: "/t".into(), object: "o".into(), nth }
    }

    #[test]
    fn effects_are_numbered_and_reads_are_there_once() {
        let recording = Recording(vec![
            (Class::Watch, boundary("WATCH", 1)),
            (Class::Effect, boundary("PUT", 1)),
            (Class::Read, boundary("GET", 1)),
            (Class::Read, boundary("GET", 2)),
            (Class::Effect, boundary("PUT", 2)),
            (Class::Read, boundary("GET", 3)),
        ]);
        assert_eq!(
            recording.to_text(),
            "a WATCH /t o (watch)\na PUT /t o #1\na GET /t o (read)\na PUT /t o #2\n"
        );
        assert_eq!(recording.to_sweep(0, 2).len(), 5);
        assert_eq!(recording.to_sweep(3, 1).len(), 2, "the second GET is the first that counts");
    }

    #[test]
    fn a_difference_names_the_lines() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "b\nc\n").as_deref(), Some("- a\n+ c\n"));
        assert_eq!(
            difference("a\nb\n", "b\na\n").as_deref(),
            Some("the same calls in another order:\nb\na\n")
        );
    }
}
