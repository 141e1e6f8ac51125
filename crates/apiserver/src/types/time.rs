//! Times as a real server reads and writes them: RFC 3339 in seconds, and in microseconds.

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time},
    tz::{Offset, TimeZone},
};
use std::{borrow::Cow, fmt::Write as _};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Writes a time as the wire has it.
pub(super) fn print(time: Timestamp, precision: Precision) -> String {
    let time = Offset::UTC.to_datetime(time);
    let mut out = format!("{:04}", time.year());
    for (before, number) in [
        ('-', time.month()),
        ('-', time.day()),
        ('T', time.hour()),
        (':', time.minute()),
        (':', time.second()),
    ] {
        let number = number.unsigned_abs();
        out.extend([before, char::from(b'0' + number / 10), char::from(b'0' + number % 10)]);
    }
    if precision == Precision::Micros {
        // Writing into a string cannot fail.
        let _ = write!(out, ".{:06}", time.subsec_nanosecond() / 1000);
    }
    out.push('Z');
    out
}

/// The stored form of a time: in UTC, with the precision of its field. The error is what Go's parser says.
pub(super) fn canonical(text: &str, precision: Precision) -> Result<Cow<'_, str>, String> {
    let (local, offset) = parse(text, precision).map_err(|fault| fault.words(text, precision))?;
    let is_stored_form = offset == Offset::UTC
        && text.ends_with('Z')
        && text.len() == if precision == Precision::Seconds { 20 } else { 27 };
    if is_stored_form {
        return Ok(Cow::Borrowed(text));
    }
    let zoned = local.to_zoned(TimeZone::fixed(offset)).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(print(zoned.timestamp(), precision)))
}

enum Fault<'a> {
    /// What stands there instead of which part of the layout.
    Expected(&'a str, &'static str),
    OutOfRange(&'static str),
    Extra(&'a str),
}

impl Fault<'_> {
    fn words(&self, text: &str, precision: Precision) -> String {
        let layout = precision.layout();
        match self {
            Self::Expected(rest, part) => {
                format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
            }
            Self::OutOfRange(what) => format!("parsing time {text:?}: {what} out of range"),
            Self::Extra(rest) => format!("parsing time {text:?}: extra text: {rest:?}"),
        }
    }
}

/// A number of exactly `digits` digits, or of one or two when the second may be missing.
fn number<'a>(
    rest: &mut &'a str,
    digits: usize,
    may_be_short: bool,
    part: &'static str,
) -> Result<i16, Fault<'a>> {
    let mut count = rest.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    if count < digits {
        if !(may_be_short && count == 1) {
            return Err(Fault::Expected(rest, part));
        }
        count = 1;
    }
    let (number, after) = rest.split_at(count);
    *rest = after;
    Ok(number.parse().unwrap_or_default())
}

fn literal<'a>(rest: &mut &'a str, part: &'static str) -> Result<(), Fault<'a>> {
    *rest = rest.strip_prefix(part).ok_or(Fault::Expected(rest, part))?;
    Ok(())
}

fn within(value: i16, range: std::ops::Range<i16>, what: &'static str) -> Result<i8, Fault<'static>> {
    if range.contains(&value) {
        Ok(i8::try_from(value).unwrap_or_default())
    } else {
        Err(Fault::OutOfRange(what))
    }
}

fn parse(text: &str, precision: Precision) -> Result<(DateTime, Offset), Fault<'_>> {
    let mut rest = text;
    let year = number(&mut rest, 4, false, "2006")?;
    literal(&mut rest, "-")?;
    let month = within(number(&mut rest, 2, false, "01")?, 1..13, "month")?;
    literal(&mut rest, "-")?;
    let day = number(&mut rest, 2, false, "02")?;
    literal(&mut rest, "T")?;
    let hour = within(number(&mut rest, 2, true, "15")?, 0..24, "hour")?;
    literal(&mut rest, ":")?;
    let minute = within(number(&mut rest, 2, false, "04")?, 0..60, "minute")?;
    literal(&mut rest, ":")?;
    let second = within(number(&mut rest, 2, false, "05")?, 0..60, "second")?;
    let nanos = fraction(&mut rest, precision)?;
    let offset = zone(&mut rest)?;
    if !rest.is_empty() {
        return Err(Fault::Extra(rest));
    }
    let date = i8::try_from(day).ok().and_then(|day| Date::new(year, month, day).ok());
    let date = date.ok_or(Fault::OutOfRange("day"))?;
    let time = Time::new(hour, minute, second, nanos).map_err(|_| Fault::OutOfRange("hour"))?;
    Ok((DateTime::from_parts(date, time), offset))
}

fn fraction<'a>(rest: &mut &'a str, precision: Precision) -> Result<i32, Fault<'a>> {
    let digits = rest
        .strip_prefix(['.', ','])
        .map_or("", |after| &after[..after.bytes().take_while(u8::is_ascii_digit).count()]);
    let used = match precision {
        Precision::Micros if digits.len() < 6 => return Err(Fault::Expected(rest, ".000000")),
        Precision::Micros => &digits[..6],
        Precision::Seconds if digits.is_empty() => return Ok(0),
        Precision::Seconds => digits,
    };
    *rest = &rest[used.len() + 1..];
    let nanos: String = used.chars().chain(std::iter::repeat('0')).take(9).collect();
    Ok(nanos.parse().unwrap_or_default())
}

fn zone<'a>(rest: &mut &'a str) -> Result<Offset, Fault<'a>> {
    const PART: &str = "Z07:00";
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Ok(Offset::UTC);
    }
    let start = *rest;
    let bad = |_| Fault::Expected(start, PART);
    let sign = match rest.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Fault::Expected(start, PART)),
    };
    *rest = &rest[1..];
    let hours = number(rest, 2, false, PART).map_err(bad)?;
    literal(rest, ":").map_err(|_| Fault::Expected(start, PART))?;
    let minutes = number(rest, 2, false, PART).map_err(|_| Fault::Expected(start, PART))?;
    let hours = within(hours, 0..25, "time zone offset hour")?;
    let minutes = within(minutes, 0..61, "time zone offset minute")?;
    let seconds = sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60);
    Offset::from_seconds(seconds).map_err(|_| Fault::OutOfRange("time zone offset hour"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stored_in_utc_with_their_precision() {
        let cases = [
            ("2020-01-02T03:04:05Z", Precision::Seconds, "2020-01-02T03:04:05Z"),
            ("2020-01-02T03:04:05.999Z", Precision::Seconds, "2020-01-02T03:04:05Z"),
            ("2020-01-01T00:04:05+01:00", Precision::Seconds, "2019-12-31T23:04:05Z"),
            ("2020-01-02T03:04:05.000001-00:30", Precision::Micros, "2020-01-02T03:34:05.000001Z"),
            ("2020-01-02T03:04:05.123456Z", Precision::Micros, "2020-01-02T03:04:05.123456Z"),
        ];
        for (text, precision, stored) in cases {
            assert_eq!(canonical(text, precision).as_deref(), Ok(stored));
        }
    }

    #[test]
    fn refusals_have_the_words_of_gos_parser() {
        let cases = [
            (
                "x",
                Precision::Seconds,
                r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
            ),
            (
                "2020-01-01T00:00:00Z",
                Precision::Micros,
                r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
            (
                "2020-13-01T00:00:00Z",
                Precision::Seconds,
                r#"parsing time "2020-13-01T00:00:00Z": month out of range"#,
            ),
            (
                "2020-02-30T00:00:00Z",
                Precision::Seconds,
                r#"parsing time "2020-02-30T00:00:00Z": day out of range"#,
            ),
            (
                "2020-02-03T00:00:00Zx",
                Precision::Seconds,
                r#"parsing time "2020-02-03T00:00:00Zx": extra text: "x""#,
            ),
        ];
        for (text, precision, words) in cases {
            assert_eq!(canonical(text, precision), Err(words.to_owned()));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.][0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})|.*") {
            for precision in [Precision::Seconds, Precision::Micros] {
                if let Ok(stored) = canonical(&text, precision) {
                    let again = canonical(&stored, precision).map(Cow::into_owned);
                    proptest::prop_assert_eq!(again, Ok(stored.into_owned()));
                }
            }
        }
    }
}
