//! The end of a console log, for people: short, and without what looks like a secret.

use hostler_driver::client::{HIDDEN, without_secret_words};

/// Enough to see why a node did not join.
const LINES: usize = 20;
/// What fits into an event with some words around it.
const LENGTH: usize = 900;
/// What comes after one of these words on a line is not shown.
const TELLTALES: [&str; 5] = ["token", "password", "secret", "bearer", "private key"];

pub(super) fn tail(log: &str) -> String {
    let mut in_key = false;
    let mut lines = Vec::new();
    for line in log.lines() {
        let lower = line.to_lowercase();
        let begins = lower.contains("-----begin");
        if !in_key && !begins {
            lines.push(without_secrets(line, &lower));
        }
        in_key = (in_key || begins) && !lower.contains("-----end");
    }
    let from = lines.len().saturating_sub(LINES);
    let text = lines.split_off(from).join("\n");
    let length = text.chars().count();
    text.chars().skip(length.saturating_sub(LENGTH)).collect()
}

fn without_secrets(line: &str, lower: &str) -> String {
    // Letters whose small form has another length would shift what is found: then nothing is shown.
    let end = TELLTALES.iter().filter_map(|word| Some(lower.find(word)? + word.len())).min();
    let shown = match end {
        None => line.to_owned(),
        Some(end) if line.len() == lower.len() && line.is_char_boundary(end) => {
            if line[end..].trim().is_empty() { line.to_owned() } else { format!("{} {HIDDEN}", &line[..end]) }
        }
        Some(_) => HIDDEN.to_owned(),
    };
    let plain: String = shown.chars().filter(|c| *c == '\t' || !c.is_control()).collect();
    without_secret_words(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_shown() {
        let log: Vec<String> = (0..100).map(|line| format!("line {line}")).collect();
        let tail = tail(&log.join("\n"));
        assert!(tail.starts_with("line 80\n") && tail.ends_with("line 99"), "{tail}");
        assert_eq!(super::tail(&"ü".repeat(5000)).chars().count(), LENGTH);
        assert_eq!(super::tail(""), "");
    }

    #[test]
    fn nothing_that_looks_secret_is_shown() {
        let table = [
            ("kubelet failed", "kubelet failed"),
            ("join with abcdef.0123456789abcdef now", "join with [hidden] now"),
            ("--x=abcdef.0123456789abcdef", "[hidden]"),
            ("export TOKEN=hunter2 x", "export TOKEN [hidden]"),
            ("Password: hunter2", "Password [hidden]"),
            ("got eyJhbGciOi.x.y", "got [hidden]"),
            ("the token", "the token"),
            ("\u{1b}[31mred", "[31mred"),
            ("İ token hunter2", "[hidden]"),
        ];
        for (line, expected) in table {
            assert_eq!(tail(line), expected, "{line}");
        }
        let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(tail(key), "a\nb");
        assert_eq!(tail("a\n-----BEGIN X-----\nhunter2"), "a");
    }
}
