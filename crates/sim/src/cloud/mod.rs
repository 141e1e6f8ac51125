//! What the simulated clouds have in common: faults, the form of settings, paths, the way out for answers, and
//! machines that become nodes.

pub(crate) mod drive;
pub(crate) mod fault;
pub(crate) mod http;
pub(crate) mod path;
pub(crate) mod settings;

use hostler_base::Chance;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

pub(crate) fn after(from: Timestamp, wait: Duration) -> Timestamp {
    from.saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

pub(crate) fn uuid(chance: &Chance) -> String {
    let bits = chance.u128() & !(0xf000 << 64) | (0x4000 << 64);
    let bits = bits & !(0xc000 << 48) | (0x8000 << 48);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_a_uuid() {
        let chance = Chance::from_seed(1);
        for _ in 0..100 {
            let id = uuid(&chance);
            assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }
}
