//! Sets of completion indexes, as Kubernetes writes them: `0,2-4`.
//!
//! They are kept as ranges: a set of two thousand million indexes is one line in an object, and must not be more here.

use std::fmt;

/// Ranges with both ends, in order, with a gap between each two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// The indexes of the text that are below `end`; parts that are no range are passed over.
    pub(super) fn parse(text: &str, end: i32) -> Self {
        let ranges = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i32, i32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            let last = last.min(end.checked_sub(1)?);
            (0 <= first && first <= last).then_some((first, last))
        });
        Self::of(ranges.collect())
    }

    fn of(mut ranges: Vec<(i32, i32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Adds indexes; those below zero are none.
    pub(super) fn extend(&mut self, indexes: impl IntoIterator<Item = i32>) {
        let more = indexes.into_iter().filter(|index| *index >= 0).map(|index| (index, index));
        let ranges = self.0.drain(..).chain(more).collect();
        *self = Self::of(ranges);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(super) fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| i64::from(*last) - i64::from(*first) + 1).sum()
    }

    /// How many of these are in the other set too.
    pub(super) fn count_common(&self, other: &Self) -> i64 {
        let overlap = |one: &(i32, i32), two: &(i32, i32)| {
            (i64::from(one.1.min(two.1)) - i64::from(one.0.max(two.0)) + 1).max(0)
        };
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(one), Some(two)) = (mine.peek(), theirs.peek()) {
            common += overlap(one, two);
            if one.1 <= two.1 {
                mine.next();
            } else {
                theirs.next();
            }
        }
        common
    }

    /// The smallest indexes below `end` that are not in the set.
    pub(super) fn missing(&self, end: i32) -> impl Iterator<Item = i32> + '_ {
        let starts = std::iter::once(Some(0)).chain(self.0.iter().map(|(_, last)| last.checked_add(1)));
        let ends = self.0.iter().map(|(first, _)| *first).chain([end]);
        starts
            .zip(ends)
            .filter_map(|(start, stop)| Some(start?..stop))
            .flatten()
            .take_while(move |index| *index < end)
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(out, "{comma}{first}")?,
                1 => write!(out, "{comma}{first},{last}")?,
                _ => write!(out, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: i32 = i32::MAX;

    #[test]
    fn indexes_are_written_as_ranges() {
        for (text, end, written, count) in [
            ("", ALL, "", 0),
            ("0", ALL, "0", 1),
            ("0,1", ALL, "0,1", 2),
            ("0,2-4,7", ALL, "0,2-4,7", 5),
            ("7, 2-4,3,5 ,x,4-,-1", ALL, "2-5,7", 5),
            ("0-9", 5, "0-4", 5),
            ("5-9", 5, "", 0),
            ("0-2147483647", ALL, "0-2147483646", 2_147_483_647),
            ("2147483647,2147483646", ALL, "2147483646", 1),
            ("0-3", i32::MIN, "", 0),
        ] {
            let indexes = Indexes::parse(text, end);
            assert_eq!((indexes.to_string().as_str(), indexes.count()), (written, count), "{text}");
        }
    }

    #[test]
    fn what_is_missing_and_what_is_common() {
        let of = |text| Indexes::parse(text, ALL);
        for (text, end, missing) in [
            ("", 3, vec![0, 1, 2]),
            ("0,2", 4, vec![1, 3]),
            ("0-2", 3, vec![]),
            ("5-9", 3, vec![0, 1, 2]),
            ("1", 0, vec![]),
        ] {
            assert_eq!(of(text).missing(end).collect::<Vec<_>>(), missing, "{text}");
        }
        let most = of("0-2147483647");
        assert_eq!(most.missing(ALL).next(), None);
        for (one, two, common) in
            [("", "0-9", 0), ("0-4", "3-9", 2), ("0,2,4", "1-3", 1), ("0-2147483647", "5-6,9", 3)]
        {
            assert_eq!((of(one).count_common(&of(two)), of(two).count_common(&of(one))), (common, common));
        }
        let mut grown = of("0,2");
        grown.extend([1, 1, -1, 7]);
        assert_eq!(grown.to_string(), "0-2,7");
    }
}
