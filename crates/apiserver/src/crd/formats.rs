//! The string formats a real server checks in custom resources. Others are accepted and not looked at.

use base64::Engine;
use regex::Regex;
use std::{net::Ipv6Addr, sync::LazyLock};

/// The check of a format, or `None` if a real server does not know it. Dashes in the name do not count.
pub(super) fn check(name: &str) -> Option<fn(&str) -> bool> {
    let known: fn(&str) -> bool = match name.replace('-', "").as_str() {
        "bsonobjectid" => is_bson_id,
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => is_ipv4,
        "ipv6" => is_ipv6,
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| UUID.is_match(text),
        "uuid3" => |text| UUID3.is_match(text),
        "uuid4" => |text| UUID4.is_match(text),
        "uuid5" => |text| UUID5.is_match(text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| SSN.is_match(text),
        "hexcolor" => |text| HEX_COLOR.is_match(text),
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => |text| parse_duration(text).is_some(),
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && LABEL.is_match(text),
        "k8slongname" => |text| text.len() <= 253 && SUBDOMAIN.is_match(text),
        _ => return None,
    };
    Some(known)
}

macro_rules! patterns {
    ($($name:ident = $pattern:literal;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("the pattern is a constant and tested"));)*
    };
}

patterns! {
    UUID = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    SSN = "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    CARD = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$";
    LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    COUNT_AND_UNIT = r"([0-9]+)\s*([A-Za-zµ]+)";
}

fn is_bson_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What may stand in a request line: an absolute path or a full URL.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) || !escapes_are_whole(text) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    let named = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // Opaque addresses (`mailto:a@b`) need no slashes; with an authority it must be well formed.
    let authority =
        rest.strip_prefix("//").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    named && authority.is_none_or(is_authority)
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.rsplit_once(']') {
        Some((address, port)) if address.starts_with('[') => port,
        Some(_) => return false,
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let port_is_number = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    port_is_number && !host.contains(|character: char| " \"<>\\^`{}|".contains(character))
}

fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2)
}

/// An address, possibly with a display name: `a@b`, `Name <a@b>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atoms = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|atom| {
                let allowed = |character: char| {
                    character.is_ascii_alphanumeric()
                        || "!#$%&'*+-/=?^_`{|}~".contains(character)
                        || !character.is_ascii()
                };
                !atom.is_empty() && atom.chars().all(allowed)
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || atoms(local)) && (literal || atoms(domain))
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Leading zeros are allowed: a real server reads addresses the old, sloppy way.
fn parse_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|part| {
            (1..=3).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse::<u16>().is_ok_and(|number| number <= 255)
        })
}

fn parse_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

fn is_ipv4(text: &str) -> bool {
    parse_ipv4(text)
}

fn is_ipv6(text: &str) -> bool {
    parse_ipv6(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let Ok(length) = length.parse::<u16>() else { return false };
    (parse_ipv4(address) && length <= 32) || (parse_ipv6(address) && length <= 128)
}

/// Six, eight or twenty bytes in pairs with `:` or `-`, or in fours with `.`.
fn is_mac(text: &str) -> bool {
    let hex =
        |part: &&str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    [(':', 2, 1), ('-', 2, 1), ('.', 4, 2)].into_iter().any(|(separator, length, bytes)| {
        let parts: Vec<&str> = text.split(separator).collect();
        [6, 8, 20].contains(&(parts.len() * bytes)) && parts.iter().all(|part| hex(part, length))
    })
}

fn digits_of_isbn(text: &str) -> String {
    text.chars().filter(|character| !matches!(character, '-' | ' ' | '\t' | '\n')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits_of_isbn(text);
    let digits = text.chars().enumerate().map(|(position, character)| match character {
        'X' if position == 9 => Some(10),
        other => other.to_digit(10),
    });
    let Some(digits) = digits.collect::<Option<Vec<u32>>>() else { return false };
    digits.len() == 10 && digits.iter().zip(1..).map(|(digit, weight)| weight * digit).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = digits_of_isbn(text);
    let digits: Option<Vec<u32>> = text.chars().map(|character| character.to_digit(10)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 13) else { return false };
    let weighted =
        digits.iter().take(12).enumerate().map(|(at, digit)| if at % 2 == 0 { *digit } else { digit * 3 });
    (10 - weighted.sum::<u32>() % 10) % 10 == digits[12]
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|character| character.to_digit(10))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    sum.is_multiple_of(10)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Less strict than RFC 3339 in the same way as a real server: what follows `t` is compared as text.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME.captures(time).is_some_and(|part| &part[1] <= "23" && &part[2] <= "59" && &part[3] <= "59")
}

/// Names of a unit, the last of which may be followed by anything, and its nanoseconds.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hr", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
    (&["w", "wk", "week"], 604_800_000_000_000),
];

/// Nanoseconds of a duration: Go's (`1h30m`), or a list of counts with a unit as in `2 days`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    if let Some(nanoseconds) = parse_go_duration(text) {
        return Some(nanoseconds);
    }
    let mut total = None;
    for captures in COUNT_AND_UNIT.captures_iter(text) {
        let count: i64 = captures[1].parse().ok()?;
        let unit = captures[2].to_lowercase();
        for (names, nanoseconds) in UNITS {
            let spelled_out = names.last().is_some_and(|last| unit.starts_with(last));
            if spelled_out || names.contains(&unit.as_str()) {
                total = Some(total.unwrap_or(0_i64).wrapping_add(count.wrapping_mul(nanoseconds)));
            }
        }
    }
    total
}

/// Nanoseconds of a duration as Go writes it; the sum of its parts may not leave the range of an `i64`.
fn parse_go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end =
            tail.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let scale: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let mut part = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(scale)? };
        let mut digit_value = scale;
        for digit in fraction.chars() {
            digit_value /= 10;
            part = part.checked_add(digit_value * i64::from(digit.to_digit(10)?))?;
        }
        total = total.checked_add(part)?;
        rest = next;
    }
    Some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_what_a_real_server_does() {
        let cases: [(&str, &[&str], &[&str]); 23] = [
            (
                "date-time",
                &["2024-05-01T12:00:00Z", "2024-05-01t12:00:00.5+02:00"],
                &["2024-05-01", "x", "2024-05-01T24:00:00Z", "2024-13-01T00:00:00Z"],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", ""]),
            ("duration", &["1h30m", "1.5h", "2 days", "-5s", "0", "3 weeks"], &["", "5", "abc", "h"]),
            (
                "uuid",
                &["01234567-89ab-cdef-0123-456789abcdef", "0123456789ABCDEF0123456789abcdef"],
                &["0123", ""],
            ),
            ("uuid3", &["01234567-89ab-3def-0123-456789abcdef"], &["01234567-89ab-4def-0123-456789abcdef"]),
            ("uuid4", &["01234567-89ab-4def-8123-456789abcdef"], &["01234567-89ab-4def-0123-456789abcdef"]),
            ("uuid5", &["01234567-89ab-5def-8123-456789abcdef"], &["01234567-89ab-4def-8123-456789abcdef"]),
            ("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "10.0.0.256", "::1"]),
            ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["10.0.0.1", "1::2::3"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "x/8"]),
            (
                "mac",
                &["00:00:5e:00:53:01", "00-00-5E-00-53-01", "0000.5e00.5301"],
                &["00:00:5e:00:53", "zz:00:5e:00:53:01"],
            ),
            ("email", &["a@b.c", "Ann <a.b@c>"], &["a", "@b", "a@", "a b@c"]),
            ("uri", &["http://a/b", "/a/b", "mailto:a@b"], &["a/b", "", "http://a:x/", "http://[::1"]),
            ("hostname", &["a", "a-b.example.com"], &["a_b", "-a", ""]),
            ("byte", &["aGk="], &["a", "", "!!"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "x"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", "1"]),
            ("ssn", &["111-22-3333"], &["111-22-333"]),
            ("hexcolor", &["#FFFFFF", "fff"], &["#ff"]),
            ("rgbcolor", &["rgb(255,255,255)"], &["rgb(256,1,1)"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("k8s-short-name", &["a-1"], &["A", "a.b", "-a"]),
            ("k8s-long-name", &["a-1.b"], &["A", "a..b"]),
        ];
        for (name, good, bad) in cases {
            let check = check(name).unwrap_or_else(|| panic!("{name} is unknown"));
            for text in good {
                assert!(check(text), "{name} refuses {text:?}");
            }
            for text in bad {
                assert!(!check(text), "{name} accepts {text:?}");
            }
        }
        assert!(check("isbn10").is_some_and(|check| !check(&"9".repeat(50_000))));
        assert!(check("password").is_some_and(|check| check("")));
        assert!(check("int-or-string").is_none());
    }
}
