//! Which of a StatefulSet's pods to make, to remove or to wait for.

use crate::part::BURST;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The first ordinal.
    pub(super) start: i32,
    pub(super) replicas: i32,
    /// One after the other rather than all at once.
    pub(super) ordered: bool,
    /// Pods of old templates are replaced without being deleted by hand.
    pub(super) rolling: bool,
    /// Ordinals below this one keep the old template.
    pub(super) partition: i32,
    pub(super) unavailable: i32,
}

impl Rules {
    fn end(&self) -> i32 {
        self.start.saturating_add(self.replicas)
    }

    /// Whether the pod is made of the new template.
    pub(super) fn is_updated(&self, ordinal: i32) -> bool {
        self.rolling && ordinal >= self.start.saturating_add(self.partition)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) leaving: bool,
    /// Failed or succeeded.
    pub(super) ended: bool,
    pub(super) available: bool,
    /// Made of the new template.
    pub(super) updated: bool,
}

impl Member {
    fn is_healthy(self) -> bool {
        self.available && !self.leaving && !self.ended
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Create(i32),
    Delete(i32),
}

/// The next steps: several at once only for a set that is not ordered.
pub(super) fn plan(rules: &Rules, members: &BTreeMap<i32, Member>) -> Vec<Step> {
    let mut steps = Vec::new();
    for ordinal in rules.start..rules.end() {
        match members.get(&ordinal) {
            None => steps.push(Step::Create(ordinal)),
            Some(member) if member.ended && !member.leaving => steps.push(Step::Delete(ordinal)),
            Some(member) if member.is_healthy() || !rules.ordered => continue,
            // Its turn is not over.
            Some(_) => return steps,
        }
        if rules.ordered || steps.len() == BURST {
            return steps;
        }
    }
    if !steps.is_empty() {
        return steps;
    }
    let condemned = members.iter().rev().filter(|(at, _)| **at < rules.start || **at >= rules.end());
    for (ordinal, member) in condemned {
        if !member.leaving {
            steps.push(Step::Delete(*ordinal));
        }
        if rules.ordered || steps.len() == BURST {
            return steps;
        }
    }
    if !steps.is_empty() {
        return steps;
    }
    update(rules, members)
}

/// Replaces pods of the old template from the last one down.
fn update(rules: &Rules, members: &BTreeMap<i32, Member>) -> Vec<Step> {
    if !rules.rolling {
        return Vec::new();
    }
    let mut steps = Vec::new();
    let within = |ordinal: &i32| *ordinal >= rules.start && *ordinal < rules.end();
    let unwell = members.iter().filter(|(at, member)| within(at) && !member.is_healthy()).count();
    let mut missing = i32::try_from(unwell).unwrap_or(i32::MAX);
    for (ordinal, member) in members.iter().rev().filter(|(at, _)| within(at) && rules.is_updated(**at)) {
        if member.updated {
            continue;
        }
        let lost_already = !member.is_healthy();
        if member.leaving || (!lost_already && missing >= rules.unavailable) {
            return steps;
        }
        missing += i32::from(!lost_already);
        steps.push(Step::Delete(*ordinal));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::{Create, Delete};

    fn members(states: &[(i32, &str)]) -> BTreeMap<i32, Member> {
        states
            .iter()
            .map(|(ordinal, state)| {
                let member = Member {
                    leaving: state.contains("leaving"),
                    ended: state.contains("ended"),
                    available: !state.contains("unready"),
                    updated: !state.contains("old"),
                };
                (*ordinal, member)
            })
            .collect()
    }

    #[test]
    fn pods_come_and_go_in_turn() {
        let ordered =
            Rules { start: 0, replicas: 3, ordered: true, rolling: true, partition: 0, unavailable: 1 };
        let parallel = Rules { ordered: false, ..ordered };
        let by_hand = Rules { rolling: false, ..ordered };
        let upper = Rules { partition: 2, ..ordered };
        let later = Rules { start: 5, replicas: 2, ..ordered };
        for (name, rules, states, expected) in [
            ("the first", ordered, vec![], vec![Create(0)]),
            ("waits for the first", ordered, vec![(0, "unready")], vec![]),
            ("the second", ordered, vec![(0, "")], vec![Create(1)]),
            ("a gap", ordered, vec![(0, ""), (2, "")], vec![Create(1)]),
            ("an ended one", ordered, vec![(0, "ended"), (1, "")], vec![Delete(0)]),
            ("all at once", parallel, vec![(1, "unready")], vec![Create(0), Create(2)]),
            (
                "the last goes first",
                ordered,
                vec![(0, ""), (1, ""), (2, ""), (3, ""), (4, "")],
                vec![Delete(4)],
            ),
            ("waits for the last", ordered, vec![(0, ""), (1, ""), (2, ""), (3, ""), (4, "leaving")], vec![]),
            (
                "all surplus at once",
                parallel,
                vec![(0, ""), (1, ""), (2, ""), (3, ""), (4, "")],
                vec![Delete(4), Delete(3)],
            ),
            (
                "no removal while one is unwell",
                ordered,
                vec![(0, "unready"), (1, ""), (2, ""), (3, "")],
                vec![],
            ),
            (
                "an update starts at the end",
                ordered,
                vec![(0, "old"), (1, "old"), (2, "old")],
                vec![Delete(2)],
            ),
            ("and goes on", ordered, vec![(0, "old"), (1, "old"), (2, "")], vec![Delete(1)]),
            ("when that one is well", ordered, vec![(0, "old"), (1, "old"), (2, "unready")], vec![]),
            ("down to the partition", upper, vec![(0, "old"), (1, "old"), (2, "")], vec![]),
            ("by hand only", by_hand, vec![(0, "old"), (1, "old"), (2, "old")], vec![]),
            ("ordinals from five", later, vec![(5, "")], vec![Create(6)]),
            ("done", ordered, vec![(0, ""), (1, ""), (2, "")], vec![]),
        ] {
            assert_eq!(plan(&rules, &members(&states)), expected, "{name}");
        }
        let huge = Rules { start: 7, replicas: i32::MAX, ..parallel };
        assert_eq!(plan(&huge, &members(&[(8, "")])).len(), BURST, "many, but not at once");
    }
}
