use super::*;
use crate::{
    drain::{Limits, PodId},
    health::Forced,
};

const NOW: i64 = 1000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn id(name: &str) -> PodId {
    PodId { namespace: "n".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn pod(name: &str) -> PodSeen {
    PodSeen {
        id: id(name),
        priority: 0,
        has_claims: false,
        volumes: Vec::new(),
        leaving: None,
        budget: None,
        refusal: None,
    }
}

/// With a volume of its own.
fn with_volume(name: &str, priority: i32) -> PodSeen {
    PodSeen { priority, has_claims: true, volumes: vec![format!("pv-{name}")], ..pod(name) }
}

/// Asked for `ago` seconds ago with a grace period of 30 s.
fn leaving(pod: PodSeen, ago: i64) -> PodSeen {
    let since = at(NOW - ago);
    let (until, detached_by) = (at(NOW - ago + 30), at(NOW - ago + 150));
    PodSeen { leaving: Some(Leaving { since, until, at_once: false, detached_by }), ..pod }
}

fn killed(pod: PodSeen) -> PodSeen {
    PodSeen {
        leaving: Some(Leaving { since: at(NOW), until: at(NOW), at_once: true, detached_by: at(NOW + 150) }),
        ..pod
    }
}

fn covered(pod: PodSeen) -> PodSeen {
    PodSeen { budget: Some("n/b".into()), ..pod }
}

fn refused(pod: PodSeen, first: i64, last: i64, why: Why) -> PodSeen {
    PodSeen { refusal: Some(Refusal { first: at(NOW - first), last: at(NOW - last), why }), ..pod }
}

fn by_budget(version: &str) -> Why {
    Why::Budget { version: Some(version.into()) }
}

fn error() -> Why {
    Why::Error("it broke".into())
}

fn seen(pods: Vec<PodSeen>) -> Seen {
    Seen {
        now: at(NOW),
        began: at(NOW - 60),
        node_name: "node".into(),
        limits: Limits::default(),
        forced: None,
        force_until: at(NOW),
        forced_at: at(NOW + 7200),
        node: NodeSeen::There { marked: Tried::Done, cordoned: Tried::Done },
        pods,
        budgets: BTreeMap::new(),
        volumes: Vec::new(),
        verified: Verified::No,
    }
}

fn with_budget(allowed: i32, left: i32, misconfigured: bool, pods: Vec<PodSeen>) -> Seen {
    let budget = BudgetSeen { version: "7".into(), allowed, left, misconfigured };
    Seen { budgets: [("n/b".to_owned(), budget)].into(), ..seen(pods) }
}

fn forced(pods: Vec<PodSeen>) -> Seen {
    Seen { forced: Some(Forced::Asked), force_until: at(NOW + 60), ..seen(pods) }
}

/// A step in few words.
fn told(seen: &Seen) -> String {
    match decide(seen) {
        Step::Act(Act::Remove(removals)) => {
            let each = removals.iter().map(|removal| {
                let how = if removal.how == Remove::Evict { "evict" } else { "delete" };
                let share = removal.share.as_ref().map(|_| " share").unwrap_or_default();
                format!("{how} {}{share}", removal.pod.name)
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Step::Act(act) => format!("{act:?}"),
        Step::Wait(waiting) => {
            let failing = waiting.failing.map(|_| " failing").unwrap_or_default();
            format!("wait {}{failing} {}: {}", waiting.reason, waiting.again.as_secs(), waiting.message)
        }
        Step::Done(drained) => {
            format!("done {:?} {:?} {}", drained.forced, drained.failed, drained.volumes_left)
        }
    }
}

fn expect(name: &str, seen: &Seen, expected: &str) {
    assert_eq!(told(seen), expected, "{name}");
}

#[test]
fn the_node_comes_first() {
    let node = |node| Seen { node, ..seen(vec![pod("a")]) };
    let there = |marked, cordoned| node(NodeSeen::There { marked, cordoned });
    let failed = |ago: i64| Tried::Failed { at: at(NOW - ago), text: "no".into() };
    let force = |seen: Seen| Seen { forced: Some(Forced::TimedOut), force_until: at(NOW + 60), ..seen };
    for (name, seen, expected) in [
        ("not in the cache", node(NodeSeen::NotInCache), "LookForNode"),
        (
            "nobody answers",
            node(NodeSeen::Unanswered { at: at(NOW - 2), text: "no".into() }),
            "wait NodeUnseen 3: whether the node is there is not known: no",
        ),
        ("ask once more", node(NodeSeen::Unanswered { at: at(NOW - 5), text: "no".into() }), "LookForNode"),
        ("gone", node(NodeSeen::Gone), "done None None false"),
        ("new", there(Tried::NotYet, Tried::NotYet), "Mark"),
        ("marked", there(Tried::Done, Tried::NotYet), "Cordon"),
        ("cordoned", there(Tried::Done, Tried::Done), "evict a"),
        (
            "cannot be marked",
            there(failed(1), Tried::NotYet),
            "wait DrainFailing failing 4: the condition of node node cannot be written: no",
        ),
        ("try to mark again", there(failed(5), Tried::NotYet), "Mark"),
        (
            "cannot be cordoned",
            there(Tried::Done, failed(2)),
            "wait DrainFailing failing 3: node node cannot be cordoned: no",
        ),
        ("try to cordon again", there(Tried::Done, failed(5)), "Cordon"),
        ("forced: marking does not matter", force(there(failed(1), Tried::NotYet)), "Cordon"),
        ("forced: marking is not tried twice", force(there(failed(9), Tried::NotYet)), "Cordon"),
        (
            "forced: without a cordon no pod is touched",
            force(there(Tried::Done, failed(9))),
            "done Some(TimedOut) Some(\"no\") false",
        ),
        ("forced and gone", force(node(NodeSeen::Gone)), "done Some(TimedOut) None false"),
    ] {
        expect(name, &seen, expected);
    }
}

#[test]
fn pods_without_volumes_go_together() {
    for (name, seen, expected) in [
        ("all", seen(vec![pod("a"), pod("b")]), "evict a, evict b"),
        ("those that are there", seen(vec![leaving(pod("a"), 1), pod("b")]), "evict b"),
        (
            "on their way",
            seen(vec![leaving(pod("a"), 10)]),
            "wait PodsLeaving 50: pods are leaving node node",
        ),
        (
            "late",
            seen(vec![leaving(pod("a"), 60)]),
            "wait DrainFailing failing 60: timeout expired while waiting for pod \"a\" terminating scheduled on node node",
        ),
        ("none left by the watch", seen(vec![]), "Verify"),
        ("none left", Seen { verified: Verified::NoneLeft, ..seen(vec![]) }, "done None None false"),
        (
            "one that the watch has not shown",
            Seen { verified: Verified::NotNow { at: at(NOW), text: "n/x is there".into() }, ..seen(vec![]) },
            "wait PodsUnseen 1: whether pods are left on node node is not clear: n/x is there",
        ),
        (
            "asked again",
            Seen { verified: Verified::NotNow { at: at(NOW - 1), text: "n/x".into() }, ..seen(vec![]) },
            "Verify",
        ),
        (
            "no eviction at all is wanted",
            Seen { limits: Limits { evict_retries: 0, ..Limits::default() }, ..seen(vec![pod("a")]) },
            "delete a",
        ),
        (
            "a grace period longer than the drain may take",
            Seen {
                limits: Limits { timeout: Duration::from_secs(5), ..Limits::default() },
                ..seen(vec![leaving(pod("a"), 35)])
            },
            "wait DrainFailing failing 60: timeout expired while waiting for pod \"a\" terminating scheduled on node node",
        ),
        (
            "forced soon",
            Seen { forced_at: at(NOW + 7), ..seen(vec![leaving(pod("a"), 1)]) },
            "wait PodsLeaving 7: pods are leaving node node",
        ),
    ] {
        expect(name, &seen, expected);
    }
}

#[test]
fn errors_are_told_and_tried_again() {
    let failed = |ago| refused(pod("a"), ago, ago, error());
    for (name, seen, expected) in [
        ("just now", seen(vec![failed(1)]), "wait DrainFailing failing 4: it broke"),
        ("a while ago", seen(vec![failed(5)]), "evict a"),
        ("others go on", seen(vec![failed(1), pod("b")]), "evict b"),
        (
            "several",
            seen(vec![failed(1), refused(pod("b"), 1, 1, Why::Error("so did this".into()))]),
            "wait DrainFailing failing 4: [it broke, so did this]",
        ),
        (
            "somebody else changed it",
            seen(vec![refused(pod("a"), 1, 1, Why::Conflict)]),
            "wait PodsLeaving 4: pods are leaving node node",
        ),
        ("and again", seen(vec![refused(pod("a"), 5, 5, Why::Conflict)]), "evict a"),
    ] {
        expect(name, &seen, expected);
    }
}

#[test]
fn budgets_are_kept() {
    let two = || vec![covered(pod("a")), covered(pod("b"))];
    let held = |first, last, version: &str| covered(refused(pod("a"), first, last, by_budget(version)));
    let few = |seen: Seen| Seen { limits: Limits { evict_retries: 3, ..Limits::default() }, ..seen };
    let holds_back = "wait DisruptionBudget 20: PodDisruptionBudget n/b holds back";
    for (name, seen, expected) in [
        ("enough", with_budget(2, 2, false, two()), "evict a share, evict b share".to_owned()),
        ("for one", with_budget(1, 1, false, two()), "evict a share".to_owned()),
        ("taken by another drain", with_budget(1, 0, false, two()), format!("{holds_back} n/a, n/b")),
        ("none", with_budget(0, 0, false, two()), format!("{holds_back} n/a, n/b")),
        (
            "refused in this version",
            with_budget(1, 1, false, vec![held(5, 5, "7")]),
            "wait DisruptionBudget 15: PodDisruptionBudget n/b holds back n/a".to_owned(),
        ),
        ("the budget has changed", with_budget(1, 1, false, vec![held(5, 5, "6")]), "evict a share".to_owned()),
        ("asked all the same after a while", with_budget(0, 0, false, vec![held(90, 20, "7")]), "evict a".to_owned()),
        ("patience is over", few(with_budget(0, 0, false, vec![held(60, 5, "7")])), "delete a".to_owned()),
        (
            "patience is not over",
            few(with_budget(0, 0, false, vec![held(59, 5, "7")])),
            "wait DisruptionBudget 15: PodDisruptionBudget n/b holds back n/a".to_owned(),
        ),
        (
            "it never will",
            few(with_budget(0, 0, true, vec![held(90, 5, "7")])),
            "wait DrainFailing failing 15: error while evicting pod \"a\": pod disruption budget n/b is misconfigured and requires zero voluntary evictions".to_owned(),
        ),
        ("others go on", with_budget(0, 0, true, vec![held(9, 5, "7"), pod("c")]), "evict c".to_owned()),
        (
            "refused by nobody we know",
            seen(vec![refused(pod("a"), 5, 5, Why::Budget { version: None })]),
            "wait DisruptionBudget 15: evictions of n/a are refused for now".to_owned(),
        ),
        (
            "many",
            with_budget(0, 0, false, ["a", "b", "c", "d", "e", "f", "g"].map(|name| covered(pod(name))).into()),
            format!("{holds_back} n/a, n/b, n/c, n/d, n/e and 2 more"),
        ),
    ] {
        expect(name, &seen, &expected);
    }
}

#[test]
fn pods_with_volumes_go_one_after_another() {
    let volume = |state, pods| Seen { volumes: vec![("pv-x".into(), state)], ..seen(pods) };
    let detaching = InTheWay::Detaching { until: at(NOW + 40) };
    let reattaching = InTheWay::Reattaching { until: at(NOW + 40) };
    let unknown = |name| PodSeen { volumes: Vec::new(), ..with_volume(name, 0) };
    for (name, seen, expected) in [
        (
            "the most important first",
            seen(vec![with_volume("a", 1), with_volume("b", 9), with_volume("c", 9)]),
            "evict b",
        ),
        (
            "beside those without",
            seen(vec![with_volume("a", 1), pod("b"), with_volume("c", 9)]),
            "evict b, evict c",
        ),
        (
            "one is on its way",
            seen(vec![with_volume("a", 1), leaving(with_volume("b", 0), 5)]),
            "wait PodsLeaving 55: pods are leaving node node",
        ),
        (
            "one was on its way for too long",
            seen(vec![with_volume("a", 1), leaving(with_volume("b", 0), 150)]),
            "evict a",
        ),
        (
            "its volume is still attached",
            volume(detaching, vec![with_volume("a", 1)]),
            "wait VolumesDetaching 40: volumes are still attached to node node: pv-x",
        ),
        (
            "its volume is not yet elsewhere",
            volume(reattaching, vec![with_volume("a", 1)]),
            "wait VolumesReattaching 40: volumes of node node are not yet attached elsewhere: pv-x",
        ),
        ("its volume does not let go", volume(InTheWay::Stuck, vec![with_volume("a", 1)]), "evict a"),
        (
            "those without do not wait for volumes",
            volume(detaching, vec![pod("a"), with_volume("b", 1)]),
            "evict a",
        ),
        (
            "volumes of other clouds are not waited for",
            seen(vec![unknown("a"), unknown("b"), with_volume("c", 0), with_volume("d", 0)]),
            "evict a, evict b, evict c",
        ),
        (
            "one that is held back does not hold up the next",
            with_budget(0, 0, false, vec![covered(with_volume("a", 9)), with_volume("b", 1)]),
            "evict b",
        ),
        (
            "the last volume is waited for",
            volume(detaching, vec![]),
            "wait VolumesDetaching 40: volumes are still attached to node node: pv-x",
        ),
        (
            "one that does not let go is left",
            Seen { verified: Verified::NoneLeft, ..volume(InTheWay::Stuck, vec![]) },
            "done None None true",
        ),
    ] {
        expect(name, &seen, expected);
    }
}

#[test]
fn force_does_not_wait() {
    let failed = |ago| refused(pod("a"), ago, ago, error());
    let late = |seen: Seen| Seen { force_until: at(NOW), ..seen };
    for (name, seen, expected) in [
        (
            "all at once",
            forced(vec![covered(pod("a")), with_volume("b", 0), leaving(pod("c"), 1)]),
            "delete a, delete b, delete c",
        ),
        ("nothing but finalizers holds them", forced(vec![killed(pod("a"))]), "Verify"),
        (
            "done",
            Seen { verified: Verified::NoneLeft, ..forced(vec![killed(pod("a"))]) },
            "done Some(Asked) None false",
        ),
        (
            "volumes are not waited for",
            {
                let volumes = vec![("v".to_owned(), InTheWay::Detaching { until: at(NOW + 9) })];
                Seen { verified: Verified::NoneLeft, volumes, ..forced(vec![]) }
            },
            "done Some(Asked) None false",
        ),
        (
            "an error",
            forced(vec![failed(1)]),
            "wait DrainFailing failing 5: pods cannot be deleted: it broke",
        ),
        ("others first", forced(vec![failed(1), pod("b")]), "delete b"),
        ("once more", forced(vec![failed(5)]), "delete a"),
        ("and then it goes on", late(forced(vec![failed(1)])), "done Some(Asked) Some(\"it broke\") false"),
        ("nobody answers for too long", late(forced(vec![])), "done Some(Asked) None false"),
    ] {
        expect(name, &seen, expected);
    }
}
