//! Which nodes are replaced because they have not been Ready for long.

use super::{Member, Standing};
use jiff::{SignedDuration, Timestamp};

/// For so long a node may be not Ready.
pub const UNREADY_FOR: SignedDuration = SignedDuration::from_mins(10);
/// So many percent of a group are replaced at a time, but at least one.
const AT_A_TIME: usize = 10;
/// More than so many, and more than so many percent, not Ready: it is not the nodes.
const MANY: usize = 3;
const MANY_PERCENT: usize = 45;

/// What is to be done about nodes that are not well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Their names, the longest unready first.
    pub replace: Vec<String>,
    /// Why nothing is replaced although something is not well.
    pub stopped: Option<String>,
    /// When the next one may be due.
    pub next: Option<Timestamp>,
}

pub fn unhealthy(members: &[Member], now: Timestamp) -> Verdict {
    let nodes: Vec<&Member> = members.iter().filter(|member| member.had_node).collect();
    let mut unready: Vec<(&Member, Timestamp)> =
        nodes.iter().filter_map(|member| Some((*member, member.unready_since?))).collect();
    unready.sort_by_key(|(member, since)| (*since, member.name.clone()));
    let count = unready.len();
    if count > MANY && count * 100 > nodes.len() * MANY_PERCENT {
        let told =
            format!("{count} of {} nodes are not Ready: none is replaced until fewer are", nodes.len());
        return Verdict { stopped: Some(told), ..Verdict::default() };
    }
    let going = members.iter().filter(|member| member.is_being_replaced()).count();
    let room = (nodes.len() * AT_A_TIME / 100).max(1).saturating_sub(going);
    let candidates =
        || unready.iter().filter(|(member, _)| member.standing() == Standing::Stays && !member.protected);
    let due = |since: Timestamp| now.duration_since(since) >= UNREADY_FOR;
    let replace = candidates().filter(|(_, since)| due(*since)).take(room);
    let next = candidates().filter(|(_, since)| !due(*since)).map(|(_, since)| *since).min();
    Verdict {
        replace: replace.map(|(member, _)| member.name.clone()).collect(),
        stopped: None,
        next: next.and_then(|since| since.saturating_add(UNREADY_FOR).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{group::Member, life::Why};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// `n0`, `n1`, … of which the first ones have been unready since these minutes.
    fn members(count: usize, unready: &[i64]) -> Vec<Member> {
        (0..count)
            .map(|number| Member {
                unready_since: unready.get(number).map(|minute| at(*minute)),
                ..Member::ready(&format!("n{number}"))
            })
            .collect()
    }

    fn replaced(members: &[Member], minute: i64) -> Vec<String> {
        unhealthy(members, at(minute)).replace
    }

    #[test]
    fn ten_minutes_and_a_tenth_of_the_group_at_a_time() {
        // nodes, since when some are unready, now, who is replaced
        let table: [(usize, &[i64], i64, &[&str]); 10] = [
            (3, &[], 100, &[]),
            (3, &[0], 9, &[]),
            (3, &[0], 10, &["n0"]),
            (3, &[5, 0], 20, &["n1"]),
            (1, &[0], 10, &["n0"]),
            (19, &[0, 0], 10, &["n0"]),
            (20, &[0, 0, 0], 10, &["n0", "n1"]),
            (20, &[3, 2, 1], 12, &["n2", "n1"]),
            (20, &[3, 2, 9], 12, &["n1"]),
            (20, &[8, 8], 12, &[]),
        ];
        for (count, since, minute, expected) in table {
            assert_eq!(replaced(&members(count, since), minute), expected, "{count} {since:?} {minute}");
        }
        assert_eq!(unhealthy(&members(3, &[4, 2]), at(5)).next, Some(at(12)));
    }

    #[test]
    fn none_while_very_many_are_not_ready() {
        // nodes, unready, is it stopped
        for (count, unready, stopped) in
            [(3, 3, false), (4, 4, true), (8, 4, true), (9, 4, false), (20, 9, false), (20, 10, true)]
        {
            let members = members(count, &vec![0; unready]);
            let verdict = unhealthy(&members, at(60));
            assert_eq!(verdict.stopped.is_some(), stopped, "{count} {unready}");
            assert_eq!(verdict.replace.is_empty(), stopped, "{count} {unready}");
        }
    }

    #[test]
    fn those_on_their_way_count_and_the_protected_stay() {
        let mut group = members(3, &[0, 0]);
        group[0].removal = Some(Why::Unhealthy);
        assert_eq!(replaced(&group, 60), Vec::<String>::new(), "one is being replaced already");
        group[0].removal = Some(Why::ScaleDown);
        assert_eq!(replaced(&group, 60), ["n1"], "that one goes for another reason");
        let mut group = members(3, &[0, 0]);
        group[0].protected = true;
        assert_eq!(replaced(&group, 60), ["n1"]);
        let mut group = members(3, &[0]);
        group[0].deleting = true;
        assert_eq!(replaced(&group, 60), Vec::<String>::new());
        let mut group = members(3, &[0]);
        group[0].had_node = false;
        assert_eq!(replaced(&group, 60), Vec::<String>::new(), "one that never joined is not replaced here");
    }
}
