//! Durations as Go writes them: `1h30m`, `1.5s`, `100ms`.

use std::{str::FromStr, time::Duration};

/// A duration on the command line or in an object; never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no duration; write for example 90s, 1m30s or 2h"))
    }
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = tail;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let good = [
            ("0", 0),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1.5s", 1_500),
            ("100ms", 100),
            ("+3s", 3_000),
            (".5s", 500),
        ];
        for (text, milliseconds) in good {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(milliseconds))), "{text}");
        }
        for text in ["", "15", "s", "-1s", "1 s", "1d", "1.2.3s", "9999999999999999999h"] {
            let refused = text.parse::<GoDuration>().unwrap_err();
            assert!(refused.contains("is no duration"), "{text}: {refused}");
        }
    }
}
