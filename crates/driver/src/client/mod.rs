//! What the clients of all clouds have in common.

mod closest;
mod redact;
mod repeat;
mod shared;
mod tokens;

pub use closest::closest;
pub use redact::{HIDDEN, without_secret_words};
pub use repeat::{Outcome, Purpose, Step, Tried, next_step};
pub use shared::{Pace, Shared};
pub use tokens::{LAST_MOMENT, Token, Tokens};

use hostler_base::{Chance, Clock, Transport};
use jiff::Timestamp;
use std::{net::IpAddr, time::Duration};

/// The name of what is called, as the cloud's vendor or the documents call it. It travels in the request's extensions,
/// for whoever counts calls on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationName(pub &'static str);

/// What a client needs from its surroundings.
#[derive(Clone)]
pub struct Surroundings {
    pub transport: Transport,
    pub clock: Clock,
    pub chance: Chance,
}

/// Percent-encodes everything that is not unreserved.
pub fn escape(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// What a `Retry-After` header asks for: seconds, or a moment.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(moment.duration_since(now)).unwrap_or_default())
}

/// Whether the host of a URL is this machine itself, so that what is sent there does not leave it.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether a text has the form of a UUID, in either case.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_is_unreserved_stays_as_it_is() {
        assert_eq!(escape("a/../b?c=d e"), "a%2F..%2Fb%3Fc%3Dd%20e");
        assert_eq!(escape("kubernetes.io/machine=m-1~_"), "kubernetes.io%2Fmachine%3Dm-1~_");
    }

    #[test]
    fn retry_after_is_seconds_or_a_moment() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let table = [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Thu, 01 Jan 2026 00:00:30 GMT", Some(30)),
            ("Wed, 31 Dec 2025 23:59:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in table {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (host, expected) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn a_uuid_has_its_dashes_where_they_belong() {
        let id = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
        assert!(is_uuid(id) && is_uuid(&id.to_uppercase()));
        for other in ["", &id[1..], &id.replace('-', ""), &id.replace('b', "g"), "ubuntu-22.04-lts"] {
            assert!(!is_uuid(other), "{other}");
        }
    }
}
