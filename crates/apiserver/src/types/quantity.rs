//! Quantities (`500m`, `1Gi`): read and written back in the form a real server stores.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    Format,
    Suffix,
}

impl std::fmt::Display for QuantityError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// An unsigned decimal number: digits (the first is not 0) times ten to the power of `exponent`.
struct Magnitude {
    digits: Vec<u8>,
    exponent: i64,
}

const NANO: i64 = -9;
/// The largest amount with a binary suffix.
const MAX_BINARY: u64 = i64::MAX.unsigned_abs();
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

struct Parts<'a> {
    is_negative: bool,
    /// Without leading zeros, but at least one digit.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// The stored form of a quantity: the text itself where that is fine already.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (format, exponent) = interpret(parts.suffix)?;
    let is_short = fits_a_word(&parts, format, exponent);
    if is_short && is_kept_as_written(&parts, format, exponent) {
        return Ok(Cow::Borrowed(text));
    }
    if is_short
        && format == Format::Binary
        && let Some(number) = short_binary(parts.whole, exponent).filter(|number| *number >= 1024)
    {
        let sign = if parts.is_negative { "-" } else { "" };
        return Ok(Cow::Owned(format!("{sign}{}", in_1024s(number))));
    }
    let mut magnitude = Magnitude::new(parts.whole, parts.fraction);
    let mut format = format;
    if format == Format::Binary {
        (0..exponent).for_each(|_| magnitude.multiply(2));
    } else {
        magnitude.exponent += exponent;
    }
    if !is_short {
        magnitude.round_up(NANO);
        if format == Format::Binary && magnitude.whole().is_none_or(|(whole, _)| whole > MAX_BINARY) {
            magnitude = Magnitude::new(&MAX_BINARY.to_string(), "");
        }
    }
    if magnitude.digits.is_empty() {
        return Ok(Cow::Borrowed("0"));
    }
    let sign = if parts.is_negative { "-" } else { "" };
    if format == Format::Binary {
        match magnitude.whole() {
            Some((whole, true)) if whole >= 1024 => {
                return Ok(Cow::Owned(format!("{sign}{}", in_1024s(whole))));
            }
            _ => format = Format::Decimal,
        }
    }
    Ok(Cow::Owned(format!("{sign}{}", magnitude.in_1000s(format))))
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let without_zeros = unsigned.trim_start_matches('0');
    let (whole, rest) = without_zeros.split_at(digits_of(without_zeros));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits_of(rest)),
        None => ("", rest),
    };
    let number = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let number = number.strip_prefix(['-', '+']).unwrap_or(number);
    if digits_of(number) < number.len() {
        return Err(QuantityError::Format);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { is_negative: text.starts_with('-'), whole, fraction, suffix })
}

/// The exponent is one of ten, or of two for the binary format.
fn interpret(suffix: &str) -> Result<(Format, i64), QuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Format::Decimal, *exponent));
    }
    if let Some(index) = BINARY.iter().position(|name| *name == suffix) {
        return Ok((Format::Binary, 10 * i64::try_from(index).unwrap_or_default()));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|text| text.parse::<i64>().ok());
    // Beyond 32 bits a real server wraps around; nobody means such a number.
    let exponent = exponent.filter(|exponent| i32::try_from(*exponent).is_ok());
    Ok((Format::Exponent, exponent.ok_or(QuantityError::Suffix)?))
}

/// A real server has a short way for numbers that fit a 64-bit integer, and only that one knows fixed points.
fn fits_a_word(parts: &Parts<'_>, format: Format, exponent: i64) -> bool {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
    if format == Format::Binary {
        parts.fraction.is_empty() && 14 - length(parts.whole) - exponent * 3 / 10 >= 0
    } else {
        length(parts.whole) + length(parts.fraction) <= 18 && exponent - length(parts.fraction) >= NANO
    }
}

/// A whole number with a binary suffix, where that fits.
fn short_binary(whole: &str, exponent: i64) -> Option<u64> {
    let factor = 1_u64.checked_shl(u32::try_from(exponent).ok()?)?;
    whole.parse::<u64>().ok()?.checked_mul(factor)
}

fn is_kept_as_written(parts: &Parts<'_>, format: Format, exponent: i64) -> bool {
    if format == Format::Binary {
        return parts.whole.parse::<u64>().is_ok_and(|number| number & 7 != 0);
    }
    let fraction = i64::try_from(parts.fraction.len()).unwrap_or_default();
    let zeros =
        parts.whole.bytes().chain(parts.fraction.bytes()).rev().take_while(|digit| *digit == b'0').count();
    (exponent - fraction) % 3 == 0 && zeros < 3 && !parts.whole.starts_with('0')
}

fn in_1024s(mut number: u64) -> String {
    let mut times = 0;
    while number >= 1024 && number.is_multiple_of(1024) && times < BINARY.len() - 1 {
        number /= 1024;
        times += 1;
    }
    format!("{number}{}", BINARY[times])
}

impl Magnitude {
    fn new(whole: &str, fraction: &str) -> Self {
        let digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|digit| digit - b'0')
            .skip_while(|digit| *digit == 0)
            .collect();
        Self { digits, exponent: -i64::try_from(fraction.len()).unwrap_or_default() }
    }

    fn multiply(&mut self, factor: u8) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let product = *digit * factor + carry;
            *digit = product % 10;
            carry = product / 10;
        }
        if carry > 0 {
            self.digits.insert(0, carry);
        }
    }

    /// Drops everything below ten to the power of `exponent`, away from zero.
    fn round_up(&mut self, exponent: i64) {
        if self.exponent >= exponent || self.digits.is_empty() {
            return;
        }
        let dropped = usize::try_from(exponent - self.exponent).unwrap_or(usize::MAX);
        let rest = self.digits.split_off(self.digits.len().saturating_sub(dropped));
        self.exponent = exponent;
        if rest.iter().all(|digit| *digit == 0) {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// The whole part and whether that is all; `None` when it is too large.
    fn whole(&self) -> Option<(u64, bool)> {
        let below = usize::try_from(-self.exponent).unwrap_or_default().min(self.digits.len());
        let (whole, fraction) = self.digits.split_at(self.digits.len() - below);
        let mut number: u64 = 0;
        for digit in whole {
            number = number.checked_mul(10)?.checked_add(u64::from(*digit))?;
        }
        for _ in 0..self.exponent.max(0) {
            number = number.checked_mul(10)?;
        }
        Some((number, fraction.iter().all(|digit| *digit == 0)))
    }

    fn in_1000s(mut self, format: Format) -> String {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.digits.push(0);
            self.exponent -= 1;
        }
        let mut text: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        if format == Format::Exponent {
            if self.exponent != 0 {
                text.push('e');
                text.push_str(&self.exponent.to_string());
            }
        } else if let Some((name, _)) = DECIMAL.iter().find(|(_, exponent)| *exponent == self.exponent) {
            text.push_str(name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_stored_as_a_real_server_stores_them() {
        // Made with Go's resource.ParseQuantity and String.
        for line in include_str!("../../tests/data/quantities.txt").lines() {
            let (text, expected) = line.split_once('\t').expect("two columns");
            let got = canonical(text).map_or_else(|error| format!("{error:?}"), Cow::into_owned);
            assert_eq!(got, expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_the_stored_form_is_stable(text in "[-+]?[0-9.]{0,30}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,4}|.*") {
            if let Ok(stored) = canonical(&text) {
                let again = canonical(&stored).expect("a stored form is a quantity").into_owned();
                proptest::prop_assert_eq!(again, stored.into_owned());
            }
        }
    }
}
