//! Address ranges, compared by what they mean and not by how they are written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses, without the bits that do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cidr {
    first: IpAddr,
    length: u8,
}

impl Cidr {
    /// Reads what Go's library reads: a whole address and a prefix length; bits beyond that length may be set.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let length = length.parse().ok().filter(|length| *length <= bits(address))?;
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Some(Self { first, length })
    }

    /// Like [`Cidr::parse`], but a single address is a range, too, as it is on a NIC.
    fn of_nic(text: &str) -> Option<Self> {
        let single = |first: IpAddr| Self { first, length: bits(first) };
        Self::parse(text).or_else(|| text.parse().ok().map(single))
    }
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Those of `wanted` that are not there, as they are written, each once.
pub(crate) fn missing(wanted: &[String], present: &[String]) -> Vec<String> {
    let mut known: Vec<Cidr> = present.iter().filter_map(|text| Cidr::of_nic(text)).collect();
    let mut missing = Vec::new();
    for text in wanted {
        match Cidr::of_nic(text) {
            Some(range) if known.contains(&range) => {}
            Some(range) => {
                known.push(range);
                missing.push(text.clone());
            }
            None if present.contains(text) || missing.contains(text) => {}
            None => missing.push(text.clone()),
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        let good = [
            ("10.0.0.0/8", "10.255.1.2/8"),
            ("0.0.0.0/0", "1.2.3.4/0"),
            ("10.0.0.1/32", "10.0.0.1/32"),
            ("10.0.0.0/08", "10.0.0.0/8"),
            ("fd00::/8", "fdff::1/8"),
            ("::/0", "1::/0"),
            ("FD00::/64", "fd00:0:0:0::1/64"),
        ];
        for (one, other) in good {
            assert_eq!(Cidr::parse(one).unwrap(), Cidr::parse(other).unwrap(), "{one} {other}");
        }
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/8 ",
            "010.0.0.0/8",
            "10.0.0/8",
            "10/8",
            "fe80::1%eth0/64",
            "::/129",
            "10.0.0.0/8/8",
            "/8",
            "x/8",
            "10.0.0.0/999",
        ] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        for (one, other) in
            [("10.0.0.0/8", "10.0.0.0/9"), ("10.0.0.0/8", "11.0.0.0/8"), ("::/0", "0.0.0.0/0")]
        {
            assert_ne!(Cidr::parse(one), Cidr::parse(other), "{one} {other}");
        }
    }

    #[test]
    fn only_what_is_not_there_in_any_spelling_is_missing() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let table: [(&[&str], &[&str], &[&str]); 6] = [
            (&[], &["10.0.0.0/8"], &[]),
            (&["10.0.0.1/8"], &["10.0.0.0/8", "1.2.3.4"], &[]),
            (&["10.0.0.1/8", "10.0.0.2/8"], &[], &["10.0.0.1/8"]),
            (&["1.2.3.4/32"], &["1.2.3.4"], &[]),
            (&["fd00::1/64", "10.0.0.0/16"], &["FD00::/64"], &["10.0.0.0/16"]),
            (&["10.0.0.0/8"], &["10.0.0.0/9", "something else"], &["10.0.0.0/8"]),
        ];
        for (wanted, present, expected) in table {
            assert_eq!(missing(&texts(wanted), &texts(present)), texts(expected), "{wanted:?} {present:?}");
        }
    }
}
