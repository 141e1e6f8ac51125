//! Quantities as whole numbers.

use crate::error::{At, Fault};
use hostler_planner::model::Resources;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// More of anything than a node can have; a thousand of them can still be added up.
const MOST: i128 = 1 << 53;
/// Digits that matter: what is behind them is rounded up.
const DIGITS: usize = 30;

/// A list of resources: CPU in thousandths, all else in its own unit, rounded up as the scheduler rounds.
pub fn resources(list: &BTreeMap<String, Quantity>) -> Result<Resources, Fault> {
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        let digits = if name == "cpu" { 3 } else { 0 };
        let amount = exact(&quantity.0, digits).at(name)?;
        match name.as_str() {
            "cpu" => amounts.cpu = amount,
            "memory" => amounts.memory = amount,
            "ephemeral-storage" => amounts.ephemeral_storage = amount,
            "pods" => amounts.pods = amount,
            other if counts(other) => {
                amounts.extended.insert(other.to_owned(), amount);
            }
            _ => {}
        }
    }
    Ok(amounts)
}

/// Besides the four the scheduler looks at huge pages and at names with a domain, and at nothing else.
fn counts(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || (name.contains('/') && !name.starts_with("requests."))
}

/// A quantity times ten to the power of `digits`, rounded up.
pub fn exact(text: &str, digits: u32) -> Result<i64, Fault> {
    let malformed = || Fault::new(format!("{text:?} is no quantity"));
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if unsigned.starts_with('-') {
        return Err(Fault::new(format!("{text:?} is negative")));
    }
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let (tens, twos) = scale(suffix).ok_or_else(malformed)?;
    let too_much = || Fault::new(format!("{text:?} is more than can be counted"));
    let whole = whole.trim_start_matches('0');
    // In front of the first digit that counts zeros say nothing but where it stands.
    let zeros = if whole.is_empty() { fraction.len() - fraction.trim_start_matches('0').len() } else { 0 };
    let fraction = &fraction[zeros..];
    let (kept, rest) = fraction.split_at(fraction.len().min(DIGITS - 1));
    if whole.len() > DIGITS - 1 {
        return Err(too_much());
    }
    // Digits that count are those of the number without its point.
    let kept = &kept[..kept.len().min(DIGITS - whole.len())];
    let dropped = rest.bytes().chain(fraction[kept.len()..].bytes()).any(|digit| digit != b'0');
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(kept.bytes()) {
        value = value * 10 + i128::from(digit - b'0');
    }
    if value == 0 && !dropped {
        return Ok(0);
    }
    let places = i64::try_from(kept.len() + zeros).unwrap_or(i64::MAX);
    let exponent = (tens + i64::from(digits)).saturating_sub(places);
    let value = scaled(value, twos, exponent, dropped).ok_or_else(too_much)?;
    i64::try_from(value).map_err(|_| too_much())
}

/// `value · 2^twos · 10^exponent`, rounded up; none where it is too much.
fn scaled(value: i128, twos: u32, exponent: i64, more: bool) -> Option<i128> {
    // The powers of two go in step by step with the powers of ten, so that nothing overflows on the way.
    let (mut value, mut more, mut twos, mut exponent) = (value, more, twos, exponent);
    while twos > 0 || exponent != 0 {
        if exponent < 0 && (twos == 0 || value > i128::MAX >> 11) {
            more |= value % 10 != 0;
            value /= 10;
            exponent += 1;
            if value == 0 {
                break;
            }
        } else if twos > 0 {
            value = value.checked_mul(1024)?;
            twos -= 10;
        } else {
            value = value.checked_mul(10).filter(|value| *value <= MOST)?;
            exponent -= 1;
        }
    }
    let value = value + i128::from(more);
    (value <= MOST).then_some(value)
}

/// The powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i64, u32)> {
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
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?;
            (exponent.parse::<i32>().ok().map(i64::from)?, 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_and_rounded_up() {
        let table = [
            ("0", 0, 0),
            ("0.0", 3, 0),
            ("1", 3, 1000),
            ("0.1", 3, 100),
            (".5", 3, 500),
            ("5.", 0, 5),
            ("250m", 3, 250),
            ("250m", 0, 1),
            ("0.0001", 3, 1),
            ("1100u", 3, 2),
            ("1n", 0, 1),
            ("1000000n", 3, 1),
            ("1000001n", 3, 2),
            ("128974848", 0, 128_974_848),
            ("129e6", 0, 129_000_000),
            ("129E6", 0, 129_000_000),
            ("1e-3", 3, 1),
            ("129M", 0, 129_000_000),
            ("123Mi", 0, 128_974_848),
            ("1.5Gi", 0, 1_610_612_736),
            ("0.1Ki", 0, 103),
            ("1Pi", 0, 1_125_899_906_842_624),
            ("0.000001Ei", 0, 1_152_921_504_607),
            ("0.00000000000000000001E", 0, 1),
            ("1k", 3, 1_000_000),
            ("+2", 0, 2),
            ("00000000000000000000000000000000000012", 0, 12),
            ("0.1000000000000000000000000000000000000001", 1, 2),
            ("0.1000000000000000000000000000000000000000", 1, 1),
            ("9007199254740992", 0, 9_007_199_254_740_992),
            ("1e-400", 0, 1),
            ("0e99", 0, 0),
            ("0.00000000000000000000000000000000000000001e41", 0, 1),
            ("0.00000000000000000000000000000000000000001e43", 0, 100),
            ("0.00000000000000000000000000000000000000001", 3, 1),
            (".00000000000000000000000000000000000000000", 3, 0),
        ];
        for (text, digits, expected) in table {
            assert_eq!(exact(text, digits), Ok(expected), "{text} with {digits} digits");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        let table = [
            ("", "\"\" is no quantity"),
            ("Gi", "\"Gi\" is no quantity"),
            ("1 Gi", "\"1 Gi\" is no quantity"),
            ("1gi", "\"1gi\" is no quantity"),
            ("1.2.3", "\"1.2.3\" is no quantity"),
            (".", "\".\" is no quantity"),
            ("1e", "\"1e\" is no quantity"),
            ("1e1.5", "\"1e1.5\" is no quantity"),
            ("-1", "\"-1\" is negative"),
            ("9E", "\"9E\" is more than can be counted"),
            ("9007199254740993", "\"9007199254740993\" is more than can be counted"),
            ("1e2147483647", "\"1e2147483647\" is more than can be counted"),
            ("0.00000000000000000000000000000000000000001e2000000000", "more than can be counted"),
            ("99999999999999999999999999999999999999999", "more than can be counted"),
        ];
        for (text, problem) in table {
            let fault = exact(text, 0).unwrap_err().to_string();
            assert!(fault.ends_with(problem), "{text}: {fault}");
        }
    }

    proptest::proptest! {
        /// A number of thousandths comes back, however it is written.
        #[test]
        fn thousandths_come_back(thousandths in 0i64..1_000_000_000_000) {
            let (whole, rest) = (thousandths / 1000, thousandths % 1000);
            let texts = [
                format!("{thousandths}m"),
                format!("{whole}.{rest:03}"),
                format!("{}u", i128::from(thousandths) * 1000),
                format!("{thousandths}e-3"),
            ];
            for text in texts {
                proptest::prop_assert_eq!(exact(&text, 3), Ok(thousandths), "{}", text);
            }
        }

        /// Nothing panics, and no more comes out than can be counted.
        #[test]
        fn anything_can_be_asked(text in "[+-]?[0-9.]{0,45}([eE][+-]?[0-9]{0,12}|[numkMGTPE]i?)?", digits in 0u32..10) {
            if let Ok(value) = exact(&text, digits) {
                proptest::prop_assert!((0..=1 << 53).contains(&value));
            }
        }
    }
}
