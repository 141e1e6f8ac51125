//! Patterns in schemas are written for Go's regexp package; ours differs in a few places.

use regex::Regex;

/// Compiles a pattern that was written for Go.
///
/// Here `\d`, `\w`, `\s` and `\b` know Unicode, in Go only ASCII; here a class may hold classes and set
/// operations, in Go `[`, `&&` and `--` in a class are plain characters; in Go a brace that starts no
/// repetition stands for itself, and so do `\<` and `\>`.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translate(pattern))
}

fn translate(pattern: &str) -> String {
    let characters: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    // The first character of a class may be a literal `]`.
    let mut class_start = false;
    while let Some(&character) = characters.get(at) {
        let next = characters.get(at + 1).copied();
        match character {
            '\\' => {
                at += 1;
                match next {
                    Some('Q') if !in_class => {
                        at += 1;
                        while let Some(&literal) = characters.get(at) {
                            if literal == '\\' && characters.get(at + 1) == Some(&'E') {
                                at += 1;
                                break;
                            }
                            out.push_str(&regex::escape(&literal.to_string()));
                            at += 1;
                        }
                    }
                    Some(named @ ('p' | 'P' | 'x')) if characters.get(at + 1) == Some(&'{') => {
                        out.push('\\');
                        out.push(named);
                        let rest = characters.iter().skip(at + 1);
                        let length = rest.clone().take_while(|character| **character != '}').count();
                        out.extend(rest.take(length + 1));
                        at += length + 1;
                    }
                    Some(escaped) => escape(escaped, in_class, &mut out),
                    None => out.push('\\'),
                }
                class_start = false;
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if next == Some('^') {
                    out.push('^');
                    at += 1;
                }
            }
            ']' if in_class && class_start => {
                out.push_str("\\]");
                class_start = false;
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if next == Some(':') => {
                let end =
                    characters.iter().skip(at).take(LONGEST_MARK).position(|character| *character == ']');
                if let Some(length) = end.filter(|length| characters.get(at + length - 1) == Some(&':')) {
                    out.extend(characters.iter().skip(at).take(length + 1));
                    at += length;
                } else {
                    out.push_str("\\[");
                }
                class_start = false;
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
                class_start = false;
            }
            '-' if in_class && next == Some('-') => {
                out.push_str("\\-");
                class_start = false;
            }
            '{' if !in_class && !starts_repetition(&characters[at..]) => out.push_str("\\{"),
            '}' if !in_class && !ends_repetition(&characters[..at]) => out.push_str("\\}"),
            other => {
                out.push(other);
                class_start = false;
            }
        }
        at += 1;
    }
    out
}

fn escape(escaped: char, in_class: bool, out: &mut String) {
    const DIGIT: &str = "0-9";
    const WORD: &str = "0-9A-Za-z_";
    const SPACE: &str = "\\t\\n\\f\\r ";
    let members = match escaped.to_ascii_lowercase() {
        'd' => DIGIT,
        'w' => WORD,
        's' => SPACE,
        _ => {
            match escaped {
                'b' if !in_class => out.push_str("(?-u:\\b)"),
                'B' if !in_class => out.push_str("(?-u:\\B)"),
                '<' | '>' => out.push(escaped),
                other => {
                    out.push('\\');
                    out.push(other);
                }
            }
            return;
        }
    };
    if escaped.is_ascii_uppercase() {
        out.push_str("[^");
        out.push_str(members);
        out.push(']');
    } else if in_class {
        out.push_str(members);
    } else {
        out.push('[');
        out.push_str(members);
        out.push(']');
    }
}

/// Longer than any `{n,m}` and any `[:class:]` that means something.
const LONGEST_MARK: usize = 16;

/// Whether the text starts with `{n}`, `{n,}` or `{n,m}`.
fn starts_repetition(characters: &[char]) -> bool {
    let Some(end) = characters.iter().take(LONGEST_MARK).position(|character| *character == '}') else {
        return false;
    };
    let inside: String = characters[1..end].iter().collect();
    let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
    let digits = |text: &str| text.chars().all(|character| character.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

fn ends_repetition(before: &[char]) -> bool {
    let last = &before[before.len().saturating_sub(LONGEST_MARK)..];
    let Some(start) = last.iter().rposition(|character| *character == '{') else { return false };
    let mut text = last[start..].to_vec();
    text.push('}');
    starts_repetition(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a-b_1", true),
            (r"^[\w-]+$", "é", false),
            (r"^[^\s]+$", "a b", false),
            (r"^[\S]+$", "ab", true),
            (r"^[[]$", "[", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^a{2}$", "aa", true),
            (r"^{x}$", "{x}", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^\p{L}\x{41}$", "éA", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\/a\-b$", "/a-b", true),
        ];
        for (pattern, text, matches) in cases {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in ["(", "[a", r"(?=a)", r"\1", "[b-a]"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
