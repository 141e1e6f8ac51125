//! When very many VPSs vanish at once it is the answer that is wrong and not the world: then nothing is created, deleted
//! or let go until they are back, or until somebody says that they are really gone.

use crate::names::annotation;
use std::collections::BTreeSet;

/// So many percent of the known ones may vanish at once.
const PERCENT: usize = 20;
/// One that vanishes alone is judged by itself, however few there are: it is proven gone twice.
const FEW: usize = 1;
/// So many are named.
const NAMED: usize = 5;

/// Why everything rests, if it does. `known` are the VPSs that are written down and that nobody has told to go; `shown`
/// are those of the last complete list, those that wait to be made included; `confirmed` are those of which somebody
/// says that they are gone.
pub fn frozen(
    known: &BTreeSet<String>,
    shown: &BTreeSet<String>,
    confirmed: &BTreeSet<String>,
) -> Option<String> {
    let known: BTreeSet<&String> = known.difference(confirmed).collect();
    let missing: Vec<&str> = known.iter().filter(|id| !shown.contains(**id)).map(|id| id.as_str()).collect();
    if missing.len() <= FEW || missing.len() * 100 <= known.len() * PERCENT {
        return None;
    }
    let mut named = missing.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if missing.len() > NAMED {
        named.push_str(", …");
    }
    Some(format!(
        "{} of {} VPSs are missing from VPSie's answer at once ({named}): nothing is created or deleted. If they are \
         really gone annotate their VPSieNodes with {}=true",
        missing.len(),
        known.len(),
        annotation::VPS_GONE
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: std::ops::Range<u32>) -> BTreeSet<String> {
        numbers.map(|number| format!("vps-{number:03}")).collect()
    }

    #[test]
    fn more_than_a_fifth_at_once_is_no_accident() {
        // known, of these shown, of the missing ones confirmed, frozen
        let table = [
            (0, 0, 0, false),
            (1, 1, 0, false),
            (1, 0, 0, false),
            (2, 1, 0, false),
            (2, 0, 0, true),
            (3, 1, 0, true),
            (4, 3, 0, false),
            (10, 9, 0, false),
            (10, 8, 0, false),
            (10, 7, 0, true),
            (100, 80, 0, false),
            (100, 79, 0, true),
            (100, 0, 0, true),
            (100, 0, 100, false),
            (100, 0, 99, false),
            (100, 0, 98, true),
            (10, 5, 5, false),
        ];
        for (known, shown, confirmed, expected) in table {
            let confirmed = ids(shown..shown + confirmed);
            let verdict = frozen(&ids(0..known), &ids(0..shown), &confirmed);
            assert_eq!(verdict.is_some(), expected, "{known} {shown} {confirmed:?}: {verdict:?}");
        }
    }

    #[test]
    fn what_is_not_written_down_does_not_make_up_for_what_is_missing() {
        assert!(frozen(&ids(0..10), &ids(100..200), &BTreeSet::new()).is_some());
    }

    #[test]
    fn it_says_what_is_missing_and_what_to_do() {
        let told = frozen(&ids(0..10), &ids(0..4), &BTreeSet::new()).unwrap();
        let expected = "6 of 10 VPSs are missing from VPSie's answer at once (vps-004, vps-005, vps-006, vps-007, \
                        vps-008, …): nothing is created or deleted. If they are really gone annotate their VPSieNodes \
                        with autoscaler.vpsie.com/vps-gone=true";
        assert_eq!(told, expected);
    }
}
