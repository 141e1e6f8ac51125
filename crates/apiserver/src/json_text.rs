//! Writes JSON into memory. Most text needs no escapes: that is seen at once, and it is copied as it is.

use serde_json::Value;
use std::cell::RefCell;

pub(crate) fn push_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(fields) => {
            out.push(b'{');
            for (name, value) in fields {
                push_field(out, name, value);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_value(out, item);
            }
            out.push(b']');
        }
        Value::String(text) => push_text(out, "", text),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(_) => escape(out, value),
    }
}

pub(crate) fn push_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    begin_field(out, "", name);
    push_value(out, value);
}

/// Writes a name, which is in two parts, inside an object, and the comma that may be due before it.
pub(crate) fn begin_field(out: &mut Vec<u8>, prefix: &str, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    push_text(out, prefix, name);
    out.push(b':');
}

/// Writes a name that is in quotation marks already and ends with a colon.
pub(crate) fn begin_plain_field(out: &mut Vec<u8>, quoted: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(quoted.as_bytes());
}

/// Writes a string in two parts, of which the first needs no escapes.
#[inline(never)]
pub(crate) fn push_text(out: &mut Vec<u8>, prefix: &str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(prefix.as_bytes());
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else if text.bytes().any(|byte| byte < b' ') {
        let start = out.len();
        escape(out, &Value::from(text));
        // Without the quotation marks.
        out.remove(start);
        out.pop();
    } else {
        let mut rest = text.as_bytes();
        while let Some(place) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
            let (before, after) = rest.split_at(place);
            out.extend_from_slice(before);
            out.push(b'\\');
            out.extend_from_slice(&after[..1]);
            rest = &after[1..];
        }
        out.extend_from_slice(rest);
    }
    out.push(b'"');
}

/// Whether nothing in this text has to be escaped; looks at eight bytes at a time.
fn is_plain(text: &[u8]) -> bool {
    let is_plain = |word: &[u8; 8]| !has_special(u64::from_ne_bytes(*word));
    match text.last_chunk() {
        // The last eight bytes may be some of those before them once more.
        Some(last) => is_plain(last) && text.as_chunks().0.iter().all(is_plain),
        None => text.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\'),
    }
}

/// Whether one of eight bytes is a control character, a quotation mark or a backslash.
fn has_special(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The top bit of a byte is set where the subtraction had to borrow: there the byte was below `limit`.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & TOPS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, b' ') | equal(b'"') | equal(b'\\') != 0
}

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

const SPARE_BUFFERS: usize = 2;
const SPARE_CAPACITY: usize = 64 * 1024;

/// Gives room to write into that is used again and again: what is written is copied when its length is known.
pub(crate) fn with_room<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut room = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(8 * 1024));
    let result = write(&mut room);
    if room.capacity() <= SPARE_CAPACITY {
        room.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_BUFFERS {
                spare.push(room);
            }
        });
    }
    result
}

fn escape(out: &mut Vec<u8>, value: &Value) {
    // Writing into memory cannot fail, and a single value has no keys.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_the_same_as_that_of_the_library() {
        let long = "x".repeat(1000);
        for text in [
            "abcdefg\"hijklmnop",
            "abcdefgh\\",
            "1234567\n",
            "\u{1f}2345678 !",
            "ÿÿÿÿÿÿÿÿ",
            "",
            "a",
            "ä\u{7f}€😀",
            "\"",
            "\\",
            "a\"b\\c",
            "\n\u{1}\t\"",
            "\u{0}",
            "\u{2028}",
            &long,
        ] {
            for value in [
                json!(text),
                json!({text: text, "b": {}, "c": [], "d": [null, true, false, {"x": [1]}]}),
                json!([0, -1, 1.5, 1e300, u64::MAX, i64::MIN, 1e-7, [text, [text]]]),
            ] {
                let mut out = Vec::new();
                push_value(&mut out, &value);
                assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_the_same_as_that_of_the_library(text in ".*", prefix in "[a-z:]*") {
            let mut out = Vec::new();
            push_text(&mut out, &prefix, &text);
            let whole = format!("{prefix}{text}");
            proptest::prop_assert_eq!(String::from_utf8(out).unwrap(), Value::from(whole).to_string());
        }
    }
}
