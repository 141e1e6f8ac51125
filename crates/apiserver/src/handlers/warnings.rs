//! How much an answer warns of: headers that are too long break clients.

use std::collections::BTreeSet;

/// From this many characters on, warnings are cut.
const MOST_TOGETHER: usize = 4 * 1024;
const MOST_EACH: usize = 256;

/// Each warning once; when they are too long together, each is cut and the last are left out.
pub(super) fn limited(warnings: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut warnings: Vec<String> =
        warnings.into_iter().filter(|text| !text.is_empty() && seen.insert(text.clone())).collect();
    let length = |text: &String| text.chars().count();
    if warnings.iter().map(length).sum::<usize>() <= MOST_TOGETHER {
        return warnings;
    }
    let mut written = 0;
    warnings.retain_mut(|text| {
        if written >= MOST_TOGETHER {
            return false;
        }
        if let Some((end, _)) = text.char_indices().nth(MOST_EACH) {
            text.truncate(end);
        }
        written += length(text);
        true
    });
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_once_and_cut_when_they_are_too_many() {
        let texts = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|number| format!("{number:04}{}", "é".repeat(length - 4))).collect()
        };
        let sizes = |warnings: Vec<String>| -> (usize, usize) {
            let out = limited(warnings);
            (out.len(), out.iter().map(|text| text.chars().count()).max().unwrap_or_default())
        };
        assert_eq!(sizes(vec!["a".into(), "b".into(), "a".into(), String::new()]), (2, 1));
        assert_eq!(sizes(texts(1, 4096)), (1, 4096));
        assert_eq!(sizes(texts(1, 4097)), (1, 256));
        assert_eq!(sizes(texts(100, 100)), (41, 100));
        assert_eq!(sizes(texts(100, 1000)), (16, 256));
    }
}
