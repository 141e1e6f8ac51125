//! Levels of single source files, as Go's logs have them.

use std::str::FromStr;
use tracing::{Level, Metadata, level_filters::LevelFilter};

/// What a verbosity lets through, from 0 to 10.
pub fn level_of(verbosity: i32) -> LevelFilter {
    match verbosity {
        ..4 => LevelFilter::INFO,
        4..6 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    }
}

/// `pattern=N,…`: which files write more lines than others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileLevels(Vec<(String, LevelFilter)>);

impl FileLevels {
    /// Whether a line of this file and level is written because of them; the first pattern that fits counts.
    pub fn allow(&self, line: &Metadata<'_>) -> bool {
        line.is_event() && line.file().is_some_and(|file| self.reach(file, *line.level()))
    }

    fn reach(&self, file: &str, level: Level) -> bool {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let fits = |pattern: &str| matches(pattern, if pattern.contains('/') { path } else { name });
        self.0.iter().find(|(pattern, _)| fits(pattern)).is_some_and(|(_, up_to)| level <= *up_to)
    }
}

impl FromStr for FileLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let levels = parts.map(|part| {
            let wrong = || format!("{part:?}: give a pattern, = and a number, such as drain*=4");
            let (pattern, verbosity) = part.split_once('=').ok_or_else(wrong)?;
            let pattern = pattern.strip_suffix(".rs").unwrap_or(pattern);
            if pattern.is_empty() {
                return Err(wrong());
            }
            if pattern.contains(['[', '\\']) {
                return Err(format!("{part:?}: of signs that stand for others there are * and ?"));
            }
            Ok((pattern.to_owned(), level_of(verbosity.parse().map_err(|_| wrong())?)))
        });
        levels.collect::<Result<_, _>>().map(Self)
    }
}

/// `*` stands for any signs and `?` for one, but neither for a slash.
fn matches(pattern: &str, text: &str) -> bool {
    let Some(sign) = pattern.chars().next() else { return text.is_empty() };
    let rest = &pattern[sign.len_utf8()..];
    if sign == '*' {
        let end = text.find('/').unwrap_or(text.len());
        let ends = text[..end].char_indices().map(|(at, _)| at).chain([end]);
        return ends.into_iter().any(|at| matches(rest, &text[at..]));
    }
    let first = text.chars().next().filter(|first| *first == sign || (sign == '?' && *first != '/'));
    first.is_some_and(|first| matches(rest, &text[first.len_utf8()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_gos_logs_name_them() {
        let act = "crates/node/src/drainer/act.rs";
        let drainer = "crates/node/src/drainer/mod.rs";
        let table = [
            ("act=4", act, Some(Level::DEBUG)),
            ("act=5", act, Some(Level::DEBUG)),
            ("act=6", act, Some(Level::TRACE)),
            ("act=3", act, Some(Level::INFO)),
            ("act.rs=4", act, Some(Level::DEBUG)),
            ("a?t=4", act, Some(Level::DEBUG)),
            ("*=4", act, Some(Level::DEBUG)),
            ("a*=3,act=6", act, Some(Level::INFO)),
            ("other=6,act=4", act, Some(Level::DEBUG)),
            ("ac=6", act, None),
            ("actor=6", act, None),
            ("a?=6", act, None),
            ("", act, None),
            ("drainer=4", drainer, Some(Level::DEBUG)),
            ("mod=4", drainer, None),
            ("drainer=4", act, None),
            ("crates/node/src/drainer/*=6", act, Some(Level::TRACE)),
            ("crates/*/src/drainer/act=6", act, Some(Level::TRACE)),
            ("crates/*/act=6", act, None),
            ("crates/node/src/dr?iner/act=4", act, Some(Level::DEBUG)),
            ("crates?node/src/drainer/act=4", act, None),
        ];
        for (levels, file, most) in table {
            let levels: FileLevels = levels.parse().unwrap();
            for level in [Level::INFO, Level::DEBUG, Level::TRACE] {
                let expected = most.is_some_and(|most| level <= most);
                assert_eq!(levels.reach(file, level), expected, "{levels:?} {file} {level}");
            }
        }
    }

    #[test]
    fn what_is_no_level_of_a_file_is_refused() {
        for (levels, part) in [
            ("act", "act"),
            ("act=", "act="),
            ("act=much", "act=much"),
            ("=4", "=4"),
            ("act=4,[ab]=4", "[ab]=4"),
            ("act=4,x=y,z=1", "x=y"),
        ] {
            let refused = levels.parse::<FileLevels>().unwrap_err();
            assert!(refused.starts_with(&format!("{part:?}: ")), "{refused}");
        }
    }
}
