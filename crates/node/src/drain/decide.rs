//! The next step of a drain.

use super::{
    Act, BudgetSeen, Drained, EVICT_AGAIN, Failing, InTheWay, LEAVE_LATE, LOOK_AGAIN, Leaving, NodeSeen,
    PodSeen, Refusal, Removal, Remove, Seen, Share, Step, TRY_AGAIN, Tried, Verified, Waiting, Why, after,
    until,
};
use jiff::Timestamp;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// So many pods are named in a message.
const NAMED: usize = 5;
/// How soon the API server is asked again whether pods are left.
const VERIFY_AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn decide(seen: &Seen) -> Step<Drained> {
    let (marked, cordoned) = match &seen.node {
        NodeSeen::NotInCache => return Step::Act(Act::LookForNode),
        NodeSeen::Unanswered { at, text } => return look_again(seen.now, *at, text),
        // Whatever ran there does not run any more, and nobody is left to say so.
        NodeSeen::Gone => return done(seen, None),
        NodeSeen::There { marked, cordoned } => (marked, cordoned),
    };
    match once(seen, marked) {
        Once::Go => return Step::Act(Act::Mark),
        Once::Failed(text, again) if seen.forced.is_none() => {
            let message = format!("the condition of node {} cannot be written: {text}", seen.node_name);
            return failing(Failing::Condition(text), message, again);
        }
        Once::Failed(..) | Once::Done => {}
    }
    match once(seen, cordoned) {
        Once::Go => return Step::Act(Act::Cordon),
        Once::Failed(text, _) if seen.forced.is_some() => return done(seen, Some(text)),
        Once::Failed(text, again) => {
            let message = format!("node {} cannot be cordoned: {text}", seen.node_name);
            return failing(Failing::Drain(text), message, again);
        }
        Once::Done => {}
    }
    if seen.forced.is_some() { force(seen) } else { persuade(seen) }
}

/// The node was asked for without an answer.
pub(super) fn look_again<T>(now: Timestamp, at: Timestamp, text: &str) -> Step<T> {
    let again = until(now, after(at, TRY_AGAIN));
    if again.is_zero() {
        return Step::Act(Act::LookForNode);
    }
    let message = format!("whether the node is there is not known: {text}");
    Step::Wait(Waiting { reason: "NodeUnseen", message, failing: None, again })
}

enum Once {
    Go,
    Failed(String, Duration),
    Done,
}

fn once(seen: &Seen, tried: &Tried) -> Once {
    match tried {
        Tried::Done => Once::Done,
        Tried::NotYet => Once::Go,
        Tried::Failed { at, text } => {
            let again = until(seen.now, after(*at, TRY_AGAIN));
            // A forced drain does not try it twice.
            if again.is_zero() && seen.forced.is_none() {
                Once::Go
            } else {
                Once::Failed(text.clone(), again)
            }
        }
    }
}

fn failing(failing: Failing, message: String, again: Duration) -> Step<Drained> {
    Step::Wait(Waiting { reason: "DrainFailing", message, failing: Some(failing), again })
}

fn done(seen: &Seen, failed: Option<String>) -> Step<Drained> {
    let stuck = seen.volumes.iter().any(|(_, state)| *state == InTheWay::Stuck);
    let took = until(seen.began, seen.now);
    Step::Done(Drained { forced: seen.forced, failed, volumes_left: stuck, took })
}

/// All pods at once, and none is waited for.
fn force(seen: &Seen) -> Step<Drained> {
    let left: Vec<&PodSeen> =
        seen.pods.iter().filter(|pod| !pod.leaving.is_some_and(|leaving| leaving.at_once)).collect();
    // Only what failed in this forced drain counts, not what a polite one was refused.
    let failed = |pod: &PodSeen| match &pod.refusal {
        Some(Refusal { last, why: Why::Error(text), .. }) if seen.now < after(*last, TRY_AGAIN) => {
            Some(text.clone())
        }
        _ => None,
    };
    let due: Vec<Removal> = left
        .iter()
        .filter(|pod| failed(pod).is_none())
        .map(|pod| removal(pod, Remove::Delete, None))
        .collect();
    let failures: Vec<String> = left.iter().filter_map(|pod| failed(pod)).collect();
    let patient = seen.now < seen.force_until;
    if !due.is_empty() && (patient || failures.is_empty()) {
        return Step::Act(Act::Remove(due));
    }
    if failures.is_empty() {
        return if patient { verified(seen) } else { done(seen, None) };
    }
    let text = aggregate(&failures);
    if patient {
        let message = format!("pods cannot be deleted: {text}");
        return failing(Failing::Drain(text), message, TRY_AGAIN);
    }
    done(seen, Some(text))
}

/// No watch shows a pod that has to leave; the API server has the last word.
fn verified(seen: &Seen) -> Step<Drained> {
    match &seen.verified {
        Verified::NoneLeft => done(seen, None),
        Verified::NotNow { at, text } if seen.now < after(*at, VERIFY_AGAIN) => Step::Wait(Waiting {
            reason: "PodsUnseen",
            message: format!("whether pods are left on node {} is not clear: {text}", seen.node_name),
            failing: None,
            again: until(seen.now, after(*at, VERIFY_AGAIN)),
        }),
        Verified::No | Verified::NotNow { .. } => Step::Act(Act::Verify),
    }
}

/// What is to be said about a pod that is not to be asked for now.
enum Verdict {
    Go(Removal),
    /// It is on its way.
    Leaving {
        check: Timestamp,
    },
    /// This budget holds it back, or nobody knows which.
    Held {
        budget: Option<String>,
        check: Timestamp,
    },
    Failing {
        text: String,
        check: Timestamp,
    },
    /// Those with volumes go one after another.
    NotItsTurn,
}

/// As far as budgets allow, with everybody's grace periods, volumes one after another.
fn persuade(seen: &Seen) -> Step<Drained> {
    let mut budgets: BTreeMap<&str, i32> =
        seen.budgets.iter().map(|(name, budget)| (name.as_str(), budget.left)).collect();
    let (mut in_order, rest): (Vec<&PodSeen>, Vec<&PodSeen>) =
        seen.pods.iter().partition(|pod| pod.has_claims);
    in_order.sort_by_key(|pod| (Reverse(pod.priority), &pod.id));
    let mut verdicts: Vec<(&PodSeen, Verdict)> =
        rest.into_iter().map(|pod| (pod, judge(seen, pod, &mut budgets))).collect();
    let mut busy = seen.volumes.iter().any(|(_, state)| *state != InTheWay::Stuck)
        || in_order.iter().any(|pod| occupies(pod, seen.now));
    for pod in in_order {
        let verdict =
            if busy && pod.leaving.is_none() { Verdict::NotItsTurn } else { judge(seen, pod, &mut budgets) };
        busy |= matches!(verdict, Verdict::Go(_)) && !pod.volumes.is_empty();
        verdicts.push((pod, verdict));
    }
    let due: Vec<Removal> = verdicts
        .iter()
        .filter_map(|(_, verdict)| match verdict {
            Verdict::Go(removal) => Some(removal.clone()),
            _ => None,
        })
        .collect();
    if !due.is_empty() {
        return Step::Act(Act::Remove(due));
    }
    let waits = seen.volumes.iter().any(|(_, state)| *state != InTheWay::Stuck);
    if !verdicts.is_empty() || waits {
        return Step::Wait(wait(seen, &verdicts));
    }
    verified(seen)
}

/// Whether a pod with volumes is on its way and the next one has to wait for it.
fn occupies(pod: &PodSeen, now: Timestamp) -> bool {
    !pod.volumes.is_empty() && pod.leaving.is_some_and(|leaving| now < leaving.detached_by)
}

fn removal(pod: &PodSeen, how: Remove, share: Option<Share>) -> Removal {
    Removal { pod: pod.id.clone(), how, share }
}

fn judge<'a>(seen: &'a Seen, pod: &'a PodSeen, budgets: &mut BTreeMap<&'a str, i32>) -> Verdict {
    if let Some(leaving) = pod.leaving {
        return depart(seen, pod, leaving);
    }
    let go = |how, share| Verdict::Go(removal(pod, how, share));
    if seen.limits.evict_retries == 0 {
        return go(Remove::Delete, None);
    }
    let budget = pod.budget.as_deref().and_then(|name| Some((name, seen.budgets.get(name)?)));
    let misconfigured = budget.is_some_and(|(_, budget)| budget.misconfigured);
    if let Some(refusal) = &pod.refusal {
        match &refusal.why {
            Why::Error(text) => {
                let check = after(refusal.last, TRY_AGAIN);
                return if seen.now < check {
                    Verdict::Failing { text: text.clone(), check }
                } else {
                    go(Remove::Evict, None)
                };
            }
            Why::Conflict => {
                let check = after(refusal.last, TRY_AGAIN);
                return if seen.now < check { Verdict::Leaving { check } } else { go(Remove::Evict, None) };
            }
            Why::Budget { .. } => {
                let patience = EVICT_AGAIN.saturating_mul(seen.limits.evict_retries);
                if seen.now >= after(refusal.first, patience) && !misconfigured {
                    return go(Remove::Delete, None);
                }
                if seen.now >= after(refusal.last, EVICT_AGAIN) {
                    return go(Remove::Evict, None);
                }
            }
        }
    }
    let Some((name, budget)) = budget else {
        return match &pod.refusal {
            None => go(Remove::Evict, None),
            Some(refusal) => Verdict::Held { budget: None, check: after(refusal.last, EVICT_AGAIN) },
        };
    };
    let left = budgets.entry(name).or_default();
    if *left > 0 && !refused_in_this_version(pod, budget) {
        *left -= 1;
        let share =
            Share { budget: name.to_owned(), version: budget.version.clone(), allowed: budget.allowed };
        return go(Remove::Evict, Some(share));
    }
    let check = after(pod.refusal.as_ref().map_or(seen.now, |refusal| refusal.last), EVICT_AGAIN);
    if misconfigured {
        let text = format!(
            "error while evicting pod {:?}: pod disruption budget {name} is misconfigured and requires zero voluntary evictions",
            pod.id.name
        );
        return Verdict::Failing { text, check };
    }
    Verdict::Held { budget: Some(name.to_owned()), check }
}

fn refused_in_this_version(pod: &PodSeen, budget: &BudgetSeen) -> bool {
    matches!(&pod.refusal, Some(Refusal { why: Why::Budget { version: Some(version) }, .. }) if *version == budget.version)
}

fn depart(seen: &Seen, pod: &PodSeen, leaving: Leaving) -> Verdict {
    let late = after(leaving.until.min(after(leaving.since, seen.limits.timeout)), LEAVE_LATE);
    if seen.now < late {
        return Verdict::Leaving { check: late };
    }
    let text = format!(
        "timeout expired while waiting for pod {:?} terminating scheduled on node {}",
        pod.id.name, seen.node_name
    );
    Verdict::Failing { text, check: after(seen.now, LOOK_AGAIN) }
}

fn wait(seen: &Seen, verdicts: &[(&PodSeen, Verdict)]) -> Waiting {
    let mut check = seen.forced_at.min(after(seen.now, LOOK_AGAIN));
    let mut failures = BTreeMap::new();
    let mut held: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pod, verdict) in verdicts {
        match verdict {
            Verdict::Go(_) | Verdict::NotItsTurn => {}
            Verdict::Leaving { check: next } => check = check.min(*next),
            Verdict::Failing { text, check: next } => {
                check = check.min(*next);
                failures.insert(&pod.id, text.clone());
            }
            Verdict::Held { budget, check: next } => {
                check = check.min(*next);
                held.entry(budget.as_deref().unwrap_or_default()).or_default().push(pod.id.to_string());
            }
        }
    }
    let mut detaching = Vec::new();
    let mut reattaching = Vec::new();
    for (name, state) in &seen.volumes {
        match state {
            InTheWay::Detaching { until } => {
                check = check.min(*until);
                detaching.push(name.clone());
            }
            InTheWay::Reattaching { until } => {
                check = check.min(*until);
                reattaching.push(name.clone());
            }
            InTheWay::Stuck => {}
        }
    }
    let node = &seen.node_name;
    let failures: Vec<String> = failures.into_values().collect();
    let (reason, message) = if !failures.is_empty() {
        ("DrainFailing", aggregate(&failures))
    } else if !held.is_empty() {
        let each = held.iter().map(|(budget, pods)| match *budget {
            "" => format!("evictions of {} are refused for now", listed(pods)),
            budget => format!("PodDisruptionBudget {budget} holds back {}", listed(pods)),
        });
        ("DisruptionBudget", each.collect::<Vec<_>>().join("; "))
    } else if !detaching.is_empty() {
        ("VolumesDetaching", format!("volumes are still attached to node {node}: {}", listed(&detaching)))
    } else if !reattaching.is_empty() {
        (
            "VolumesReattaching",
            format!("volumes of node {node} are not yet attached elsewhere: {}", listed(&reattaching)),
        )
    } else {
        ("PodsLeaving", format!("pods are leaving node {node}"))
    };
    let failing = (!failures.is_empty()).then(|| Failing::Drain(aggregate(&failures)));
    // Moments are compared with a clock that may stand a little before them.
    let again = until(seen.now, check).max(Duration::from_millis(100));
    Waiting { reason, message, failing, again }
}

/// Several errors as one, in the words of both sides.
fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn listed(names: &[String]) -> String {
    match names.get(..NAMED) {
        Some(first) if names.len() > NAMED => {
            format!("{} and {} more", first.join(", "), names.len() - NAMED)
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
