//! Kubernetes quantities as whole numbers, rounded up as the scheduler rounds them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Whole units, for example bytes or devices; `1m` counts as one.
pub(crate) fn units(quantity: &Quantity) -> i64 {
    scaled(&quantity.0, 0)
}

/// Thousandths, for processor time.
pub(crate) fn thousandths(quantity: &Quantity) -> i64 {
    scaled(&quantity.0, 3)
}

/// `text` times ten to the power of `digits`, rounded up; zero for what is no quantity at all, since the
/// API server lets no such thing in.
fn scaled(text: &str, digits: i32) -> i64 {
    parse(text, digits).unwrap_or(0)
}

fn parse(text: &str, digits: i32) -> Option<i64> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(end);
    let (negative, number) = match number.as_bytes().first()? {
        b'-' => (true, &number[1..]),
        b'+' => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (exponent, twos) = exponents(suffix)?;
    let mut tens = exponent.saturating_add(digits);
    let (mut mantissa, mut finer) = (0_i128, false);
    for digit in whole.bytes() {
        match add_digit(mantissa, digit) {
            Some(more) => mantissa = more,
            None => (tens, finer) = (tens.saturating_add(1), finer || digit != b'0'),
        }
    }
    for digit in fraction.bytes() {
        match add_digit(mantissa, digit) {
            Some(more) => (mantissa, tens) = (more, tens.saturating_sub(1)),
            None => finer = finer || digit != b'0',
        }
    }
    let mut value = mantissa << twos;
    if tens >= 0 {
        let factor = 10_i128.checked_pow(tens.unsigned_abs()).unwrap_or(i128::MAX);
        value = value.saturating_mul(factor).saturating_add(i128::from(finer));
    } else if let Some(divisor) = 10_i128.checked_pow(tens.unsigned_abs()) {
        // Away from zero: a request is never made smaller by rounding.
        value = value / divisor + i128::from(finer || value % divisor != 0);
    } else {
        value = i128::from(finer || value != 0);
    }
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// The number with one more digit; nothing when it has as many as can matter.
fn add_digit(mantissa: i128, digit: u8) -> Option<i128> {
    // 19 digits are as many as an `i64` has, and leave room for the largest power of two.
    const MOST: i128 = 1_000_000_000_000_000_000;
    (mantissa < MOST).then(|| mantissa * 10 + i128::from(digit.saturating_sub(b'0')))
}

/// The powers of ten and of two that a suffix stands for.
fn exponents(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        other => (other.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_whole_numbers_rounded_up() {
        for (text, expected_units, expected_thousandths) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("250m", 1, 250),
            ("1.5", 2, 1500),
            (".5", 1, 500),
            ("100k", 100_000, 100_000_000),
            ("1Ki", 1024, 1_024_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("1e3", 1000, 1_000_000),
            ("2E", 2_000_000_000_000_000_000, i64::MAX),
            ("1e2147483647", i64::MAX, i64::MAX),
            ("1e-2147483648", 1, 1),
            ("0e2147483647", 0, 0),
            ("1.5e40", i64::MAX, i64::MAX),
            ("99999999999999999999999999999999999999999999999999Ei", i64::MAX, i64::MAX),
            ("-99999999999999999999999999999999999999999999999999E", -i64::MAX, -i64::MAX),
            ("2.00000000000000000000000000000000000000000000000001", 3, 2001),
            ("0.000000000000000000000000000000000000000000000000015e50", 2, 1500),
            ("1u", 1, 1),
            ("-1", -1, -1000),
            ("nonsense", 0, 0),
            ("", 0, 0),
        ] {
            let quantity = Quantity(text.to_owned());
            assert_eq!(
                (units(&quantity), thousandths(&quantity)),
                (expected_units, expected_thousandths),
                "{text}"
            );
        }
    }
}
