//! Offerings that are not to be had: each in its datacenter is left alone for a while, and longer each time.
//!
//! It is written on the NodeGroup, so that a restart does not order again at once what was refused a moment ago.

use super::Member;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, btree_map};

/// How long after the first failure nothing is ordered.
pub const FIRST: SignedDuration = SignedDuration::from_mins(5);
/// However often it fails, it is tried again after so long.
pub const LONGEST: SignedDuration = SignedDuration::from_mins(30);
/// After so long without a failure nobody remembers the earlier ones.
pub const FORGOTTEN: SignedDuration = SignedDuration::from_hours(3);

/// An offering in a datacenter, in one text: neither of their names has a `@`.
fn place(offering: &str, datacenter: &str) -> String {
    format!("{offering}@{datacenter}")
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Entry {
    failures: u32,
    until: Timestamp,
    why: String,
}

/// What is left alone, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct BackOff(BTreeMap<String, Entry>);

impl BackOff {
    /// A text that nobody can read holds nothing back.
    pub fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The annotation's value; nothing if nothing is held back.
    pub fn render(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Notes that an order failed, and when. Others that fail while it is held back already do not count: they were sent
    /// before. Nor does one that is known, however often it is told.
    pub fn note(&mut self, offering: &str, datacenter: &str, why: &str, at: Timestamp) {
        self.forget(at);
        let entry = self.0.entry(place(offering, datacenter));
        let failures = match &entry {
            btree_map::Entry::Occupied(old) if old.get().until > at => return,
            btree_map::Entry::Occupied(old) => old.get().failures.saturating_add(1),
            btree_map::Entry::Vacant(_) => 1,
        };
        let doubled = 1_i32.checked_shl(failures - 1).and_then(|times| FIRST.checked_mul(times));
        let period = doubled.map_or(LONGEST, |period| period.min(LONGEST));
        let until = at.saturating_add(period).unwrap_or(Timestamp::MAX);
        entry.insert_entry(Entry { failures, until, why: why.to_owned() });
    }

    /// What the members have come to: those that failed hold their offering back, and those that became nodes after that
    /// set it free.
    pub fn learn(&mut self, members: &[Member], datacenter: &str, now: Timestamp) {
        let mut failed: Vec<(&Member, Timestamp)> =
            members.iter().filter_map(|member| Some((member, member.failed_at?))).collect();
        failed.sort_by_key(|(member, at)| (*at, &member.name));
        for (member, at) in failed {
            self.note(&member.offering, datacenter, &member.last_error, at.min(now));
        }
        for member in members {
            let place = place(&member.offering, datacenter);
            let freed = |entry: &Entry| member.ready_at.is_some_and(|at| at > entry.until);
            if self.0.get(&place).is_some_and(freed) {
                self.0.remove(&place);
            }
        }
        self.forget(now);
    }

    /// Takes out what was long ago.
    pub fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, entry| now.duration_since(entry.until) < FORGOTTEN);
    }

    /// Until when an offering is left alone, and why. A clock that was set back holds nothing back for longer than ever.
    pub fn held(&self, offering: &str, datacenter: &str, now: Timestamp) -> Option<(Timestamp, &str)> {
        let entry = self.0.get(&place(offering, datacenter))?;
        let far = entry.until.duration_since(now) > LONGEST;
        (entry.until > now && !far).then_some((entry.until, entry.why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn until(back_off: &BackOff, minute: i64) -> Option<i64> {
        back_off.held("small", "dc", at(minute)).map(|(until, _)| until.as_second() / 60)
    }

    #[test]
    fn each_failure_waits_longer_than_the_last_up_to_half_an_hour() {
        let mut back_off = BackOff::default();
        let mut minute = 0;
        for wait in [5, 10, 20, 30, 30] {
            back_off.note("small", "dc", "no more", at(minute));
            assert_eq!(until(&back_off, minute), Some(minute + wait));
            assert_eq!(until(&back_off, minute + wait), None);
            minute += wait;
        }
        back_off.note("small", "dc", "no more", at(minute + 179));
        assert_eq!(until(&back_off, minute + 179), Some(minute + 209), "it is not forgotten yet");
        let mut later = back_off.clone();
        later.note("small", "dc", "no more", at(minute + 209 + 180));
        assert_eq!(until(&later, minute + 209 + 180), Some(minute + 209 + 185), "forgotten");
    }

    #[test]
    fn failures_of_one_wave_count_once() {
        let mut back_off = BackOff::default();
        for minute in [0, 1, 4] {
            back_off.note("small", "dc", "no more", at(minute));
        }
        assert_eq!(until(&back_off, 4), Some(5));
    }

    #[test]
    fn each_offering_in_each_datacenter_by_itself() {
        let mut back_off = BackOff::default();
        back_off.note("small", "dc", "Insufficient VPSie quota", at(0));
        let held = |offering: &str, datacenter: &str| back_off.held(offering, datacenter, at(1)).is_some();
        assert_eq!((held("small", "dc"), held("small", "other"), held("large", "dc")), (true, false, false));
    }

    #[test]
    fn members_tell_what_is_to_be_had() {
        let failed = |name: &str, minute| Member {
            failed_at: Some(at(minute)),
            last_error: "Insufficient VPSie quota".into(),
            ..Member::coming(name)
        };
        let ready = |minute| Member { ready_at: Some(at(minute)), ..Member::ready("r") };
        let mut back_off = BackOff::default();
        back_off.learn(&[failed("b", 1), failed("a", 0)], "dc", at(2));
        assert_eq!(until(&back_off, 2), Some(5), "two of one wave are one failure");
        let known = back_off.clone();
        back_off.learn(&[failed("b", 1), failed("a", 0)], "dc", at(20));
        assert_eq!(back_off, known, "what is known is not told again, however long it stays");
        back_off.learn(&[failed("c", 6), failed("a", 0)], "dc", at(6));
        assert_eq!(until(&back_off, 6), Some(16), "that one is another");
        back_off.learn(&[ready(10)], "dc", at(20));
        assert!(back_off.render().is_some(), "it was ordered before");
        back_off.learn(&[ready(17)], "dc", at(20));
        assert_eq!(back_off.render(), None);
    }

    #[test]
    fn it_survives_a_restart_and_no_text_holds_anything_back() {
        let mut back_off = BackOff::default();
        back_off.note("small", "dc", "Insufficient VPSie quota", at(0));
        let text = back_off.render().unwrap();
        assert_eq!(
            text,
            r#"{"small@dc":{"failures":1,"until":"1970-01-01T00:05:00Z","why":"Insufficient VPSie quota"}}"#
        );
        assert_eq!(BackOff::read(Some(&text)), back_off);
        for text in [None, Some(""), Some("[]"), Some("{\"small@dc\":1}")] {
            assert_eq!(BackOff::read(text), BackOff::default(), "{text:?}");
        }
        assert_eq!(back_off.held("small", "dc", at(-100)), None, "the clock was set back");
    }
}
