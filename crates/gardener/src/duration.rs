//! Durations in the words of the wire.

use std::time::Duration;

/// As Go writes it: `20m0s`, `1h0m0s`, `1.5s`, `250ms`.
pub(crate) fn in_go(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            nanos if nanos < 1_000 => format!("{nanos}ns"),
            nanos if nanos < 1_000_000 => format!("{}µs", with_fraction(nanos / 1_000, nanos % 1_000, 3)),
            nanos => format!("{}ms", with_fraction(nanos / 1_000_000, nanos % 1_000_000, 6)),
        };
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = with_fraction(seconds % 60, nanos, 9);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
    }
}

fn with_fraction(whole: impl std::fmt::Display, fraction: u32, digits: usize) -> String {
    let fraction = format!("{fraction:0digits$}");
    match fraction.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        for (nanos, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (250_000_000, "250ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (1_200_000_000_000, "20m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (5_430_010_000_000, "1h30m30.01s"),
        ] {
            assert_eq!(in_go(Duration::from_nanos(nanos)), expected);
        }
    }
}
