//! What a job does next.

use super::indexes::Indexes;
use crate::part::BURST;
use jiff::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) parallelism: i32,
    /// How many have to succeed; without a number the first success ends the making of new ones.
    pub(super) completions: Option<i32>,
    pub(super) indexed: bool,
    pub(super) backoff_limit: i32,
    pub(super) suspended: bool,
    /// Pods on their way out are replaced only when they are gone.
    pub(super) wait_for_leaving: bool,
    pub(super) deadline: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Worker {
    pub(super) uid: String,
    pub(super) index: Option<i32>,
    pub(super) leaving: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// An end that was written down earlier: a job does not change its mind.
    pub(super) decided: Option<Next>,
    /// What the job asks for that cannot be done.
    pub(super) unsupported: Option<&'static str>,
    /// The rule of the success policy that is met.
    pub(super) met: Option<usize>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) completed: Indexes,
    /// Pods that have not ended.
    pub(super) workers: Vec<Worker>,
    /// No new pods before this time, because earlier ones failed.
    pub(super) not_before: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Succeeded {
        reason: String,
        message: String,
    },
    Failed {
        reason: String,
        message: String,
    },
    Suspend,
    /// Make pods for these indexes (`None`: without index) and remove these.
    Work {
        create: Vec<Option<i32>>,
        delete: Vec<String>,
    },
}

impl Next {
    fn succeeded(reason: &str, message: &str) -> Self {
        Self::Succeeded { reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failed(reason: &str, message: &str) -> Self {
        Self::Failed { reason: reason.to_owned(), message: message.to_owned() }
    }
}

pub(super) fn plan(rules: &Rules, seen: &Seen, now: Timestamp) -> Next {
    if let Some(decided) = &seen.decided {
        return decided.clone();
    }
    if let Some(message) = seen.unsupported {
        return Next::failed("NotSupported", message);
    }
    if seen.failed > rules.backoff_limit {
        return Next::failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if rules.deadline.is_some_and(|deadline| deadline <= now) {
        return Next::failed("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    if let Some(index) = seen.met {
        return Next::succeeded("SuccessPolicy", &format!("Matched rules at index {index}"));
    }
    let done = match rules.completions {
        Some(wanted) => seen.succeeded >= wanted,
        None => seen.succeeded > 0 && seen.workers.is_empty(),
    };
    if done {
        return Next::succeeded("CompletionsReached", "Reached expected number of succeeded pods");
    }
    if rules.suspended {
        return Next::Suspend;
    }
    let active: Vec<&Worker> = seen.workers.iter().filter(|worker| !worker.leaving).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let wanted = match rules.completions {
        Some(completions) => rules.parallelism.min(completions.saturating_sub(seen.succeeded)),
        None if seen.succeeded > 0 => count(active.len()).min(rules.parallelism),
        None => rules.parallelism,
    };
    let surplus = usize::try_from(count(active.len()).saturating_sub(wanted)).unwrap_or(0);
    let delete = active.iter().rev().take(surplus).map(|worker| worker.uid.clone()).collect();
    let present = if rules.wait_for_leaving { seen.workers.len() } else { active.len() };
    let mut missing = usize::try_from(wanted.saturating_sub(count(present))).unwrap_or(0).min(BURST);
    if seen.not_before.is_some_and(|at| at > now) {
        missing = 0;
    }
    let create = if rules.indexed {
        let busy = seen.workers.iter().filter(|worker| !worker.leaving || rules.wait_for_leaving);
        let mut taken = seen.completed.clone();
        taken.extend(busy.filter_map(|worker| worker.index));
        taken.missing(rules.completions.unwrap_or(0)).take(missing).map(Some).collect()
    } else {
        vec![None; missing]
    };
    Next::Work { create, delete }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(states: &[&str]) -> Vec<Worker> {
        states
            .iter()
            .enumerate()
            .map(|(at, state)| Worker {
                uid: at.to_string(),
                index: state.trim_end_matches('x').parse().ok(),
                leaving: state.ends_with('x'),
            })
            .collect()
    }

    #[test]
    fn a_job_works_until_it_is_done() {
        let rules = Rules {
            parallelism: 2,
            completions: Some(3),
            indexed: false,
            backoff_limit: 1,
            suspended: false,
            wait_for_leaving: false,
            deadline: None,
        };
        let queue = Rules { completions: None, ..rules.clone() };
        let indexed = Rules { indexed: true, ..rules.clone() };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let seen = |succeeded: i32, failed: i32, states: &[&str]| Seen {
            succeeded,
            failed,
            workers: workers(states),
            ..Seen::default()
        };
        let work = |create: usize, delete: &[&str]| Next::Work {
            create: vec![None; create],
            delete: delete.iter().map(|uid| (*uid).to_owned()).collect(),
        };
        let end = |next: Next| match next {
            Next::Succeeded { reason, .. } | Next::Failed { reason, .. } => reason,
            other => format!("{other:?}"),
        };
        for (name, rules, seen, expected) in [
            ("starts", rules.clone(), seen(0, 0, &[]), work(2, &[])),
            ("goes on", rules.clone(), seen(1, 0, &["-"]), work(1, &[])),
            ("the last one", rules.clone(), seen(2, 0, &[]), work(1, &[])),
            ("too many", rules.clone(), seen(2, 0, &["-", "-"]), work(0, &["1"])),
            ("one failure is replaced", rules.clone(), seen(0, 1, &["-"]), work(1, &[])),
            ("leaving ones are replaced", rules.clone(), seen(0, 0, &["-", "-x"]), work(1, &[])),
            (
                "or waited for",
                Rules { wait_for_leaving: true, ..rules.clone() },
                seen(0, 0, &["-", "-x"]),
                work(0, &[]),
            ),
            (
                "many, but not at once",
                Rules { parallelism: i32::MAX, ..queue.clone() },
                seen(0, 0, &[]),
                work(500, &[]),
            ),
            (
                "numbers that nobody wrote in earnest",
                Rules { parallelism: i32::MAX, completions: Some(i32::MAX), ..rules.clone() },
                seen(i32::MIN, 0, &["-"]),
                work(500, &[]),
            ),
            ("suspended", Rules { suspended: true, ..rules.clone() }, seen(0, 0, &["-"]), Next::Suspend),
            ("a queue starts", queue.clone(), seen(0, 0, &[]), work(2, &[])),
            ("a queue runs out", queue.clone(), seen(1, 0, &["-"]), work(0, &[])),
            (
                "waits after a failure",
                rules.clone(),
                Seen { not_before: Some(at(200)), ..seen(0, 1, &[]) },
                work(0, &[]),
            ),
            (
                "indexes in order",
                indexed,
                Seen { completed: Indexes::parse("0", 3), ..seen(1, 0, &["2"]) },
                Next::Work { create: vec![Some(1)], delete: vec![] },
            ),
            (
                "all indexes but the last ones",
                Rules { indexed: true, parallelism: i32::MAX, completions: Some(i32::MAX), ..rules.clone() },
                Seen {
                    completed: Indexes::parse("0-2147483640", i32::MAX),
                    ..seen(i32::MAX - 6, 0, &["2147483642"])
                },
                Next::Work {
                    create: [641, 643, 644, 645, 646].map(|index| Some(2_147_483_000 + index)).into(),
                    delete: vec![],
                },
            ),
        ] {
            assert_eq!(plan(&rules, &seen, at(100)), expected, "{name}");
        }
        let late = Rules { deadline: Some(at(100)), ..rules.clone() };
        let refused = Seen { unsupported: Some("no"), ..Seen::default() };
        let met = Seen { met: Some(1), ..seen(1, 0, &["-"]) };
        let decided = Seen { decided: Some(Next::failed("PodFailurePolicy", "no")), ..seen(3, 0, &[]) };
        for (rules, seen, expected) in [
            (&rules, seen(3, 0, &[]), "CompletionsReached"),
            (&queue, seen(1, 0, &[]), "CompletionsReached"),
            (&rules, seen(0, 2, &[]), "BackoffLimitExceeded"),
            (&late, seen(0, 0, &[]), "DeadlineExceeded"),
            (&rules, refused, "NotSupported"),
            (&rules, met, "SuccessPolicy"),
            (&rules, decided, "PodFailurePolicy"),
        ] {
            assert_eq!(end(plan(rules, &seen, at(100))), expected);
        }
    }
}
