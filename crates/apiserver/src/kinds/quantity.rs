//! Quantities such as `100m`, `1Gi` or `1e3`, as far as comparing and adding them needs.

use std::cmp::Ordering;

/// In billionths, so that every suffix down to `n` is exact. Far beyond what any machine has it saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Quantity(i128);

const BILLION: i128 = 1_000_000_000;

impl Quantity {
    /// `None` for what is no quantity at all.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end =
            digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let scale = scale_of(suffix)?;
        let mut value = digits_of(whole).saturating_mul(scale.numerator);
        for (place, digit) in fraction.bytes().enumerate().take(18) {
            let divisor = 10_i128.pow(u32::try_from(place).ok()? + 1);
            value = value.saturating_add(i128::from(digit - b'0').saturating_mul(scale.numerator) / divisor);
        }
        // Go rounds away from zero when a value is finer than it can hold.
        let rounded = if scale.denominator == 1 {
            value
        } else if value % scale.denominator == 0 {
            value / scale.denominator
        } else {
            value / scale.denominator + 1
        };
        Some(Self(rounded.saturating_mul(sign)))
    }

    pub(crate) fn sign(self) -> Ordering {
        self.0.cmp(&0)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Whether it is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.0 % BILLION == 0
    }
}

/// What one unit is, in billionths, as a fraction.
struct Scale {
    numerator: i128,
    denominator: i128,
}

fn scale_of(suffix: &str) -> Option<Scale> {
    let numerator = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => BILLION,
        "k" => BILLION * 1_000,
        "M" => BILLION * 1_000_000,
        "G" => BILLION * BILLION,
        "T" => BILLION * BILLION * 1_000,
        "P" => BILLION * BILLION * 1_000_000,
        "E" => BILLION * BILLION * BILLION,
        "Ki" => BILLION << 10,
        "Mi" => BILLION << 20,
        "Gi" => BILLION << 30,
        "Ti" => BILLION << 40,
        "Pi" => BILLION << 50,
        "Ei" => BILLION << 60,
        _ => return exponent(suffix),
    };
    Some(Scale { numerator, denominator: 1 })
}

fn exponent(suffix: &str) -> Option<Scale> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = digits.parse().ok()?;
    if power >= 0 {
        let factor = 10_i128.checked_pow(u32::try_from(power).ok()?).unwrap_or(i128::MAX);
        Some(Scale { numerator: BILLION.saturating_mul(factor), denominator: 1 })
    } else {
        let divisor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
        Some(Scale { numerator: BILLION, denominator: divisor })
    }
}

fn digits_of(text: &str) -> i128 {
    text.bytes().fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_value() {
        let cases = [
            ("1", "1000m", Ordering::Equal),
            ("0.5", "500m", Ordering::Equal),
            ("1Gi", "1G", Ordering::Greater),
            ("1e3", "1k", Ordering::Equal),
            ("1E", "1e18", Ordering::Equal),
            ("100m", "1", Ordering::Less),
            ("-1", "0", Ordering::Less),
            ("1.5Gi", "1536Mi", Ordering::Equal),
            ("1e-3", "1m", Ordering::Equal),
            ("+2", "2", Ordering::Equal),
            ("1.9e31", "1", Ordering::Greater),
            ("0.9e40", "1E", Ordering::Greater),
            ("-9.99e99", "-1E", Ordering::Less),
        ];
        for (left, right, order) in cases {
            assert_eq!(Quantity::parse(left).cmp(&Quantity::parse(right)), order, "{left} {right}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in
            ["", "x", "1x", ".", "-", "1..2", "1ee3", "e3", "9999999999999999999999999999999999999999999y"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
        assert!(Quantity::parse("99999999999999999999999999999999999999999999999999E").is_some());
    }
}
