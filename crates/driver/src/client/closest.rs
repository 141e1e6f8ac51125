/// The names that are most like the wanted one, the closest first, each as `told`; at most `most` of them.
pub fn closest(wanted: &str, names: impl IntoIterator<Item = (String, String)>, most: usize) -> Vec<String> {
    let mut there: Vec<(usize, String, String)> =
        names.into_iter().map(|(name, told)| (distance(wanted, &name), name, told)).collect();
    there.sort();
    there.dedup();
    there.into_iter().take(most).map(|(_, _, told)| told).collect()
}

/// How many letters have to be changed, added or taken away to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut now = Vec::with_capacity(before.len());
        now.push(row + 1);
        for (column, wanted) in other.iter().enumerate() {
            let changed = before[column] + usize::from(letter != *wanted);
            now.push(changed.min(before[column + 1] + 1).min(now[column] + 1));
        }
        before = now;
    }
    before.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("c2i.2", "c2i.4", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_closest_names_are_told_in_order_and_not_too_many() {
        let names = ["m2i.8", "c2i.16", "c2i.8", "c2i.2", "c2i.4", "c2i.4"];
        let names = names.map(|name| (name.to_owned(), format!("<{name}>")));
        assert_eq!(closest("c2i.3", names.clone(), 3), ["<c2i.2>", "<c2i.4>", "<c2i.8>"]);
        assert_eq!(closest("c2i.3", names, 9).len(), 5);
        assert!(closest("x", [], 3).is_empty());
    }
}
