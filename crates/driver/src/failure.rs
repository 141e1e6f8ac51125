use crate::Code;
use std::{borrow::Cow, fmt};

/// Something a cloud could not do: why, and what the person should know or do about it.
///
/// The message never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reference}{message}")]
pub struct Failure {
    pub code: Code,
    /// The same whenever the same thing goes wrong: it is compared with what is written already.
    pub message: String,
    pub reference: Reference,
}

/// The ids under which the cloud knows the call that failed: its support asks for them. They are others each time, so
/// who compares texts leaves them out with [`without_references`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference(String);

/// What the names of ids are, in front of an error's text, in the Go provider for STACKIT.
const REFERENCES: [&str; 2] = ["X-Request-Id", "X-Trace-Id"];
/// No id is longer than this.
const LONGEST_ID: usize = 128;

impl Reference {
    /// Both ids, as far as the cloud has told them.
    pub fn new(request: Option<&str>, trace: Option<&str>) -> Self {
        let parts = REFERENCES.into_iter().zip([request, trace]).filter_map(|(name, id)| {
            // Anything else would not be found again in the text.
            let fits =
                |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':');
            let id: String = id?.chars().filter(|letter| fits(*letter)).take(LONGEST_ID).collect();
            (!id.is_empty()).then(|| format!("[{name}:{id}]: "))
        });
        Self(parts.collect())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text without the ids of calls: two texts about the same thing are then the same.
pub fn without_references(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for name in REFERENCES {
        let start = format!("[{name}:");
        while let Some(at) = text.find(&start) {
            let Some(end) = text[at..].find("]: ") else { break };
            let without = [&text[..at], &text[at + end + 3..]].concat();
            text = Cow::Owned(without);
        }
    }
    text
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reference: Reference::default() }
    }

    /// The same, of a call that has ids.
    #[must_use]
    pub fn of_call(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }

    /// The answer of an optional operation that a cloud does not have.
    pub fn unimplemented(operation: &str) -> Self {
        Self::new(Code::Unimplemented, format!("this cloud does not support {operation}"))
    }

    /// The text Gardener writes into a Machine's status and reads back.
    ///
    /// A reader finds the code again whatever the message is: brackets without a partner, which would
    /// mislead it, become round ones.
    pub fn to_machine_error(&self) -> String {
        format!(
            "machine codes error: code = [{}] message = [{}{}]",
            self.code,
            self.reference,
            with_balanced_brackets(&self.message)
        )
    }

    /// Reads [`Failure::to_machine_error`]'s form, wherever in the text it stands.
    ///
    /// `None` is "not a machine error", which callers treat as [`Code::Unknown`] with the whole text as
    /// message: see [`Failure::from_any_text`].
    pub fn from_machine_error(text: &str) -> Option<Self> {
        let groups = bracket_groups(text);
        let [code, message] = groups[..] else { return None };
        Some(Self::new(Code::from_name(code), message))
    }

    /// Like [`Failure::from_machine_error`], but every text is a failure.
    pub fn from_any_text(text: &str) -> Self {
        Self::from_machine_error(text).unwrap_or_else(|| Self::new(Code::Unknown, text))
    }
}

/// The contents of the outermost bracket pairs. What Gardener's reader does with odd input is part of the
/// format: a closing bracket too many is passed over, an opening one that is never closed swallows the rest.
fn bracket_groups(text: &str) -> Vec<&str> {
    let mut groups = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => {
                if depth == 0 {
                    start = at + 1;
                }
                depth += 1;
            }
            b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    groups.push(&text[start..at]);
                }
            }
            _ => {}
        }
    }
    groups
}

fn with_balanced_brackets(text: &str) -> Cow<'_, str> {
    let mut open = Vec::new();
    let mut lonely = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => open.push(at),
            b']' if open.pop().is_none() => lonely.push(at),
            _ => {}
        }
    }
    lonely.append(&mut open);
    if lonely.is_empty() {
        return Cow::Borrowed(text);
    }
    let replaced = text.char_indices().map(|(at, letter)| match letter {
        '[' if lonely.contains(&at) => '(',
        ']' if lonely.contains(&at) => ')',
        other => other,
    });
    Cow::Owned(replaced.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decoding_follows_gardeners_reader() {
        let decoded = |text| Failure::from_machine_error(text).map(|f| (f.code, f.message));
        let table: [(&str, Option<(Code, &str)>); 11] = [
            (
                "machine codes error: code = [NotFound] message = [no such server]",
                Some((Code::NotFound, "no such server")),
            ),
            (
                "Cloud provider message - machine codes error: code = [Internal] message = [x]",
                Some((Code::Internal, "x")),
            ),
            (
                "machine codes error: code = [Aborted] message = [a [b] [c [d]] e]",
                Some((Code::Aborted, "a [b] [c [d]] e")),
            ),
            ("machine codes error: code = [OK] message = []", Some((Code::Ok, ""))),
            ("machine codes error: code = [Nonsense] message = [x]", Some((Code::Unknown, "x"))),
            ("machine codes error: code = [Internal] message = [cut] here]", Some((Code::Internal, "cut"))),
            ("machine codes error: code = [Internal] message = [un [matched]", None),
            ("machine codes error: code = [Internal] message = [x] and [third]", None),
            ("machine codes error: code = [Internal]", None),
            ("] anything with [two] groups [will] do", Some((Code::Unknown, "will"))),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(decoded(text), expected.map(|(code, message)| (code, message.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_unknown_with_the_whole_text() {
        assert_eq!(
            Failure::from_any_text("dial tcp: refused"),
            Failure::new(Code::Unknown, "dial tcp: refused")
        );
        assert_eq!(
            Failure::from_any_text("machine codes error: code = [NotFound] message = [x]").code,
            Code::NotFound
        );
    }

    #[test]
    fn only_lonely_brackets_are_changed() {
        let table = [
            ("plain", "plain"),
            ("a [b] c", "a [b] c"),
            ("a ] b", "a ) b"),
            ("[ü [b]", "(ü [b]"),
            ("][", ")("),
            ("]a[b]c[", ")a[b]c("),
        ];
        for (message, shown) in table {
            let text = Failure::new(Code::Internal, message).to_machine_error();
            assert_eq!(text, format!("machine codes error: code = [Internal] message = [{shown}]"));
        }
    }

    #[test]
    fn ids_of_a_call_are_told_and_left_out_of_comparisons() {
        let failure = Failure::new(Code::PermissionDenied, "not [yours]");
        let of = |request, trace| failure.clone().of_call(Reference::new(request, trace));
        let table = [
            (of(None, None), ""),
            (of(Some("req-1"), None), "[X-Request-Id:req-1]: "),
            (of(None, Some("t")), "[X-Trace-Id:t]: "),
            (of(Some("req-1"), Some("t")), "[X-Request-Id:req-1]: [X-Trace-Id:t]: "),
            (of(Some("re]: q[-2\n"), Some("")), "[X-Request-Id:re:q-2]: "),
            (of(Some(" "), Some("ü")), ""),
        ];
        for (failure, reference) in table {
            let text = failure.to_machine_error();
            let expected =
                format!("machine codes error: code = [PermissionDenied] message = [{reference}not [yours]]");
            assert_eq!(text, expected);
            assert_eq!(failure.to_string(), format!("PermissionDenied: {reference}not [yours]"));
            let plain = "machine codes error: code = [PermissionDenied] message = [not [yours]]";
            assert_eq!(without_references(&text), plain);
            assert_eq!(
                Failure::from_machine_error(&text).map(|read| read.code),
                Some(Code::PermissionDenied)
            );
        }
        let long = "x".repeat(1_000);
        assert!(of(Some(&long), None).to_string().len() < 200);
        for odd in ["[X-Request-Id:", "[X-Request-Id:a] b", "[X-Trace-Id:"] {
            assert_eq!(without_references(odd), odd);
        }
    }

    #[test]
    fn a_failure_reads_as_a_sentence() {
        let failure: Box<dyn std::error::Error> = Box::new(Failure::new(Code::NotFound, "no image x"));
        assert_eq!(failure.to_string(), "NotFound: no image x");
    }

    proptest! {
        #[test]
        fn a_rendered_failure_decodes_to_the_same_code(message in "[\\[\\]ab ü]{0,24}|.*", place in 0..Code::NAMED.len()) {
            let failure = Failure::new(Code::NAMED[place], message.clone());
            let decoded = Failure::from_machine_error(&failure.to_machine_error());
            prop_assert_eq!(decoded.as_ref().map(|f| f.code), Some(failure.code));
            if !message.contains(['[', ']']) {
                prop_assert_eq!(decoded, Some(failure));
            }
        }

        #[test]
        fn decoding_never_panics(text in "[\\[\\]a ü]{0,40}|.*|(\\[X-(Request|Trace)-Id:|\\]: |ü){0,6}") {
            Failure::from_any_text(&text);
            without_references(&text);
        }
    }
}
